"""``daskfc certs``: an authority and its parties' certificates, from nothing to a list."""

import shutil
import stat
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.deploy import load_cluster
from daskfc.deploy.certificates.kit import KIT
from daskfc.deploy.config.peers import ROLES
from daskfc.site import Policy


@pytest.fixture
def daskfc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words, **more: CliRunner().invoke(main, ["certs", *words], **more)


def test_from_nothing_to_a_list(daskfc, tmp_path):
    made = daskfc("init")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "  daskfc certs issue --role client hospital-a --ca ca"
    told = daskfc("issue", "--role", "client", "hospital-a", "--days", "30", "--host", "a.example")
    assert told.stdout.startswith(
        "Wrote ca/parties/hospital-a: ca.pem, cert.pem, key.pem, start.sh, policy.yaml, README.md."
    )
    assert "Hand it to hospital-a, by a way that nobody" in told.stdout
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


def test_no_method_is_imported_for_a_certificate():
    """Which takes seconds, at each of a site's commands."""
    code = "import sys, daskfc.cli.sites.certs; assert 'daskfc.protocols' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_wrong_is_one_sentence(daskfc):
    for words in (("show",), ("issue", "--role", "client", "a"), ("renew", "a")):
        told = daskfc(*words)
        assert told.exit_code == 2
        assert told.stderr.startswith("daskfc: ca: no certificate authority is there")
    daskfc("init")
    assert "cannot be made" in daskfc("init").stderr
    assert "must be 1 to 63 letters" in daskfc("issue", "--role", "client", "a/b").stderr


LIST = "parties: {scheduler: scheduler, server: server, hospital-a: client, ana: submitter}\n"


@pytest.fixture
def listed(daskfc, tmp_path):
    (tmp_path / "parties.yaml").write_text(LIST)
    daskfc("init")
    return yaml.safe_load(LIST)["parties"]


def requests_of(daskfc, names):
    told = {name: daskfc("request", name).stdout for name in names}
    fingerprints = {name: text.splitlines()[-1].strip() for name, text in told.items()}
    assert all(len(one.split()) == 16 for one in fingerprints.values())
    return fingerprints, [f"{name}/{name}.request.pem" for name in names]


def test_from_requests_to_sides_that_can_start(daskfc, tmp_path, listed):
    fingerprints, requests = requests_of(daskfc, listed)
    signed = daskfc("sign", *requests, "--parties", "parties.yaml", input="y\n")
    assert signed.exit_code == 0, signed.stderr
    for name, role in listed.items():
        told = f"{name}, {role}, has a key with the fingerprint\n  {fingerprints[name]}\n"
        assert told in signed.stdout
        received = tmp_path / "ca" / "parties" / name
        assert {path.name for path in received.iterdir()} == {"ca.pem", "cert.pem"}
        put = daskfc("install", name, str(received))
        assert put.exit_code == 0, put.stderr
        assert f"{name}: {name}, {role}, valid until" in put.stdout
        assert put.stdout.splitlines()[-1] == signed.stdout.splitlines()[-1]  # the authority's
        own = {path.name for path in (tmp_path / name).iterdir()}
        assert own == {
            "ca.pem", "cert.pem", "key.pem", f"{name}.request.pem", *KIT[role]
        }  # fmt: skip
        assert "The key was made here" in (tmp_path / name / "README.md").read_text()
        checked = daskfc("check", name)
        assert checked.exit_code == 0
        assert fingerprints[name] in checked.stdout
    checked = daskfc("check", "parties.yaml")
    assert checked.exit_code == 0
    assert checked.stdout == "".join(f"{name}: valid\n" for name in listed)


def test_nothing_is_signed_before_somebody_says_yes(daskfc, tmp_path, listed):
    _, requests = requests_of(daskfc, ["ana"])
    told = daskfc("sign", *requests, "--parties", "parties.yaml", input="n\n")
    assert told.exit_code == 2
    assert told.stdout.endswith("Nothing was signed.\n")
    assert daskfc("sign", *requests, "--parties", "parties.yaml").exit_code == 1  # nobody is there
    assert not (tmp_path / "ca" / "parties").exists()
    assert daskfc("sign", *requests, "--parties", "parties.yaml", "--yes").exit_code == 0


def test_one_request_is_signed_by_role_and_name(daskfc, tmp_path, listed):
    _, requests = requests_of(daskfc, ["hospital-a", "ana"])
    said = ("--role", "client", "--name", "hospital-a", "--yes")
    assert daskfc("sign", requests[0], *said, "--days", "20").exit_code == 0
    assert "valid until" in daskfc("sign", requests[0], *said).stderr
    renewed = daskfc("sign", requests[0], *said, "--renew")
    assert renewed.exit_code == 0, renewed.stderr
    own = tmp_path / "ca" / "parties" / "hospital-a"
    assert daskfc("renew", "hospital-a").exit_code == 0
    assert {path.name for path in own.iterdir()} == {"ca.pem", "cert.pem"}  # start it elsewhere


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ana/ana.request.pem", "--role", "client"), "got both, or one half"),
        (("ana/ana.request.pem",), "got both, or one half"),
        (("ana/ana.request.pem", "--parties", "parties.yaml", "--name", "ana"), "got both"),
        (("ana/ana.request.pem", "--role", "client", "--name", "b"), "is of 'ana', and 'b' is"),
        (
            ("ana/ana.request.pem", "b/b.request.pem", "--role", "client", "--name", "ana"),
            "--name is of one request; got several",
        ),
        (("b/b.request.pem", "--parties", "parties.yaml"), "'b' is not on the list of parties"),
        (
            ("ana/ana.request.pem", "ana/ana.request.pem", "--parties", "parties.yaml"),
            "two of the requests are of one name",
        ),
        (("ana/key.pem", "--parties", "parties.yaml"), "a private key is in this file"),
        (("none.pem", "--parties", "parties.yaml"), "no file that can be read is there"),
        (
            ("ana/ana.request.pem", "ana/README.md", "--parties", "parties.yaml"),
            "no file that can be read is there",
        ),
    ],
)
def test_what_is_not_signed_is_one_sentence(daskfc, tmp_path, listed, words, told):
    requests_of(daskfc, ["ana", "b"])
    refused = daskfc("sign", *words, "--yes")
    assert refused.exit_code == 2
    assert told in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "ca" / "parties").exists()


def test_a_list_is_issued_for_a_trial_and_checked(daskfc, tmp_path, listed):
    told = daskfc("issue", "--parties", "parties.yaml", "--days", "60")
    assert told.exit_code == 0, told.stderr
    assert told.stdout.count("Wrote ca/parties/") == len(listed)
    assert "Hand each to its side, by a way that nobody" in told.stdout
    assert daskfc("check", "parties.yaml").exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.pem")}
    (tmp_path / "parties.yaml").write_text(LIST.replace("}", ", b: client}"))
    daskfc("revoke", "ana")
    again = daskfc("issue", "--parties", "parties.yaml")
    assert again.stdout.count("Wrote ") == 1
    assert "Wrote ca/parties/b: " in again.stdout
    for name in ("hospital-a", "server"):
        path = tmp_path / "ca" / "parties" / name / "cert.pem"
        assert path.read_bytes() == before[path]
    checked = daskfc("check", "parties.yaml")
    assert checked.exit_code == 1
    assert "ana: revoked, and no other since" in checked.stdout
    assert "got both" in daskfc("issue", "b", "--parties", "parties.yaml").stderr
    assert "one half" in daskfc("issue", "b").stderr


def test_a_side_whose_files_do_not_belong_together_is_told(daskfc, tmp_path, listed):
    daskfc("issue", "--parties", "parties.yaml", "--days", "20")
    parties = tmp_path / "ca" / "parties"
    told = daskfc("check", str(parties / "ana"))
    assert told.exit_code == 0
    assert "Have it renewed" in told.stderr
    shutil.copy(parties / "server" / "key.pem", parties / "ana")
    told = daskfc("check", str(parties / "ana"))
    assert told.exit_code == 2
    assert "the certificate is not of the key" in told.stderr
    assert "there is no such file" in daskfc("check", "none.yaml").stderr
