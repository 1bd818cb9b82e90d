"""``daskfc certs``: an authority and its parties' certificates, from nothing to a list."""

import stat

import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.deploy import load_cluster
from daskfc.deploy.kit import KIT
from daskfc.deploy.peers import ROLES
from daskfc.site import Policy


@pytest.fixture
def daskfc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, ["certs", *words])


def test_from_nothing_to_a_list(daskfc, tmp_path):
    made = daskfc("init")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "  daskfc certs issue --role client hospital-a --ca ca"
    told = daskfc("issue", "--role", "client", "hospital-a", "--days", "30", "--host", "a.example")
    assert told.stdout.startswith(
        "Wrote ca/parties/hospital-a: ca.pem, cert.pem, key.pem, start.sh, policy.yaml, README.md."
    )
    assert daskfc("issue", "--role", "server", "server").exit_code == 0
    shown = daskfc("show")
    listed = shown.stdout
    assert shown.stderr.count("\n") == 1
    assert "the certificate of client 'hospital-a' ends on" in shown.stderr
    assert "29 days left" in listed
    assert "a.example" in listed
    assert "364 days left" in listed
    assert daskfc("renew", "hospital-a", "--days", "90").stdout.startswith(
        "hospital-a: valid until"
    )
    assert "89 days left" in daskfc("show").stdout
    assert daskfc("show").stderr == ""
    assert daskfc("revoke", "hospital-a").exit_code == 0
    assert "hospital-a" not in daskfc("show").stdout


@pytest.mark.parametrize("role", ROLES)
def test_what_a_side_edited_stays(daskfc, tmp_path, role):
    name = "server" if role == "server" else "one"
    daskfc("init")
    daskfc("issue", "--role", role, name)
    folder = tmp_path / "ca" / "parties" / name
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "cert.pem", "key.pem", *KIT[role]}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("start.sh", 0o700) == 0o700
    assert set(modes.values()) == {0o600}
    before = (folder / "cert.pem").read_bytes()
    for one in KIT[role]:
        (folder / one).write_text("edited")
    assert daskfc("renew", name).exit_code == 0
    assert (folder / "cert.pem").read_bytes() != before
    assert {(folder / one).read_text() for one in KIT[role]} == {"edited"}


def test_policy_and_cluster_file_are_good_as_they_are(daskfc, tmp_path, monkeypatch):
    daskfc("init")
    daskfc("issue", "--role", "client", "a")
    daskfc("issue", "--role", "submitter", "me")
    folder = tmp_path / "ca" / "parties"
    assert Policy.load(folder / "a" / "policy.yaml") == Policy.default(loopback=False)
    monkeypatch.chdir("/")
    cluster = load_cluster(folder / "me" / "cluster.yaml")
    assert cluster.security.key == str(folder / "me" / "key.pem")


def test_what_is_wrong_is_one_sentence(daskfc):
    for words in (("show",), ("issue", "--role", "client", "a"), ("renew", "a")):
        told = daskfc(*words)
        assert told.exit_code == 2
        assert told.stderr.startswith("daskfc: ca: no certificate authority is there")
    daskfc("init")
    assert "cannot be made" in daskfc("init").stderr
    assert "must be 1 to 63 letters" in daskfc("issue", "--role", "client", "a/b").stderr
