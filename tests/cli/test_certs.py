"""``daskfc certs``: an authority and its parties' certificates, from nothing to a list."""

import pytest
from click.testing import CliRunner

from daskfc.cli import main


@pytest.fixture
def daskfc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, ["certs", *words])


def test_from_nothing_to_a_list(daskfc, tmp_path):
    made = daskfc("init")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "  daskfc certs issue client hospital-a --ca ca"
    told = daskfc("issue", "client", "hospital-a", "--days", "30", "--host", "a.example")
    assert "Wrote ca/parties/hospital-a: ca.pem, cert.pem, key.pem." in told.stdout
    assert daskfc("issue", "server", "server").exit_code == 0
    listed = daskfc("show").stdout
    assert "29 days left" in listed
    assert "a.example" in listed
    assert "364 days left" in listed
    assert daskfc("renew", "hospital-a", "--days", "90").stdout.startswith(
        "hospital-a: valid until"
    )
    assert "89 days left" in daskfc("show").stdout


def test_what_is_wrong_is_one_sentence(daskfc):
    for words in (("show",), ("issue", "client", "a"), ("renew", "a")):
        told = daskfc(*words)
        assert told.exit_code == 2
        assert told.stderr.startswith("daskfc: ca: no certificate authority is there")
    daskfc("init")
    assert "cannot be made" in daskfc("init").stderr
    assert "must be 1 to 63 letters" in daskfc("issue", "client", "a/b").stderr
