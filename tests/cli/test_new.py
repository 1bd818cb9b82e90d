"""``daskfc new``: from a list to folders that parties start from, and again when the list grew."""

import os
import re
import shlex
import shutil
import stat
import subprocess
from importlib.metadata import version

import pytest
import yaml

from daskfc.deploy import load_cluster
from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.certificates.kit import KIT
from daskfc.deploy.certificates.own_key import check_side
from daskfc.site import Policy
from tests.deployments.lines import CONFIGS, parsed, unit

LIST = """
scheduler: {host: 10.0.0.1, port: 9000}
server: {workers: 2}
clients: {hospital-a: , "1e4": {host: 10.0.0.14}}
submitters: [alice]
methods: [OmniFC, FedSC]
"""
ROLES = {
    "scheduler": "scheduler", "server": "server", "server-2": "server", "hospital-a": "client",
    "1e4": "client", "alice": "submitter",
}  # fmt: skip


@pytest.fixture
def new(daskfc, tmp_path):
    """Write a list and call `daskfc new`; the list is the one above with other lines below it."""

    def call(more="", text=LIST):
        (tmp_path / "federation.yaml").write_text(text + more)
        return daskfc("new")

    return call


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def words_of(script, **environment):
    """Return the words that a start script hands to daskfc, as the shell makes them."""
    folder = script.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "daskfc").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (folder / "daskfc").chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", **environment}
    done = subprocess.run([script], env=environment, capture_output=True, text=True, check=True)
    shutil.rmtree(folder)
    return done.stdout.splitlines()


def test_a_list_that_is_not_there_is_written_and_can_be_used(daskfc, tmp_path):
    told = daskfc("new", "one.yaml")
    assert told.exit_code == 0
    assert told.stdout == (
        "Wrote one.yaml. Put your parties and addresses in, and call this again.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["one.yaml"]
    made = daskfc("new", "one.yaml")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.count("Wrote ca/parties/") == 6
    assert "Copy each folder to its machine" in made.stdout
    assert "Nothing is missing" not in made.stdout
    assert daskfc("certs", "check", "one.yaml").exit_code == 0  # one list for all commands


def test_every_party_has_what_its_role_needs(new, daskfc, tmp_path):
    told = new()
    assert told.exit_code == 0, told.stderr
    parties = tmp_path / "ca" / "parties"
    assert {path.name for path in parties.iterdir()} == set(ROLES)
    for name, role in ROLES.items():
        own = parties / name
        assert {path.name for path in own.iterdir()} == {
            "ca.pem", "cert.pem", "key.pem", *KIT[role]
        }  # fmt: skip
        issued = check_side(own)
        assert (issued.role, issued.name) == (role, name)
        assert f"Wrote ca/parties/{name}: ca.pem, cert.pem, key.pem, " in told.stdout
    assert Issued.of_file(parties / "1e4" / "cert.pem").hosts == ("10.0.0.14",)
    assert Issued.of_file(parties / "scheduler" / "cert.pem").hosts == ("10.0.0.1",)
    assert Issued.of_file(parties / "hospital-a" / "cert.pem").hosts == ()
    expected = Policy(submitters=["alice"], methods=["OmniFC", "FedSC"])
    assert Policy.load(parties / "1e4" / "policy.yaml") == expected
    cluster = load_cluster(parties / "alice" / "cluster.yaml")
    assert cluster.scheduler == "tls://10.0.0.1:9000"
    assert cluster.expect == ("hospital-a", "1e4")
    assert cluster.server.workers == 2
    assert cluster.security.key == str(parties / "alice" / "key.pem")


def test_nobody_else_can_read_a_key(new, tmp_path):
    before = os.umask(0)
    try:
        assert new("start: systemd").exit_code == 0
    finally:
        os.umask(before)
    below = [tmp_path / "ca", *(tmp_path / "ca").rglob("*")]
    assert sum(path.name in ("key.pem", "ca-key.pem") for path in below) == len(ROLES) + 1
    for path in below:
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.name == "issued" or path.parent.name == "issued":
            continue
        assert mode == (0o700 if path.is_dir() or path.name == "start.sh" else 0o600), path


@pytest.mark.parametrize("name", [name for name, role in ROLES.items() if role != "submitter"])
def test_a_script_starts_its_party_without_a_setting(new, tmp_path, name):
    new()
    own = tmp_path / "ca" / "parties" / name
    found = parsed(words_of(own / "start.sh"))
    assert (found["tls_ca_file"], found["tls_key"]) == (str(own / "ca.pem"), str(own / "key.pem"))
    assert found["tls_cert"] == str(own / "cert.pem")
    if name == "scheduler":
        assert (found["command"], found["host"], found["port"]) == ("scheduler", "10.0.0.1", 9000)
        return
    assert (found["command"], found["name"]) == ("party", name)
    assert found["scheduler"] == "tls://10.0.0.1:9000"
    assert found["workspace"] == str(own / "files")
    assert found["host"] == ("10.0.0.14" if name == "1e4" else None)
    is_client = ROLES[name] == "client"
    assert found["store"] == (str(own / "store.zarr") if is_client else None)
    assert found["policy"] == (str(own / "policy.yaml") if is_client else None)
    other = parsed(words_of(own / "start.sh", DASKFC_SCHEDULER="tls://b:1", DASKFC_STORE="/s"))
    assert other["scheduler"] == "tls://b:1"
    assert other["store"] == ("/s" if is_client else None)


def test_a_second_call_makes_the_new_party_and_touches_nothing_else(new, tmp_path):
    new()
    parties = tmp_path / "ca" / "parties"
    (parties / "hospital-a" / "policy.yaml").write_text("raw: allow\n")
    (parties / "1e4" / "start.sh").unlink()
    before = files(tmp_path / "ca")
    times = {path: path.stat().st_mtime_ns for path in before}
    told = new(text=LIST.replace("hospital-a: ,", "hospital-a: , hospital-b: ,"))
    assert told.exit_code == 0, told.stderr
    after = files(tmp_path / "ca")
    assert {path: after[path] for path in before} == before
    assert {path: path.stat().st_mtime_ns for path in before} == times
    made = {path.relative_to(parties).as_posix() for path in after.keys() - before.keys()
            if path.is_relative_to(parties)}  # fmt: skip
    own = {"ca.pem", "cert.pem", "key.pem", *KIT["client"]}
    assert made == {"1e4/start.sh", *(f"hospital-b/{one}" for one in own)}
    assert "Wrote ca/parties/1e4: start.sh.\n" in told.stdout
    # whoever has an old file is told, and so is who has a list without the new client
    left = told.stdout.partition("Left as they are")[2].splitlines()[1:3]
    assert left == ["  ca/parties/hospital-a/policy.yaml", "  ca/parties/alice/cluster.yaml"]
    (parties / "hospital-a" / "policy.yaml").unlink()
    (parties / "alice" / "cluster.yaml").unlink()
    assert "Left as they are" not in new(text=(tmp_path / "federation.yaml").read_text()).stdout
    again = new(text=(tmp_path / "federation.yaml").read_text())
    assert again.stdout == "Nothing is missing.\n"


def test_issue_makes_the_same_of_the_same_list(new, daskfc, tmp_path):
    new()
    parties = tmp_path / "ca" / "parties"
    made = files(parties)
    shutil.rmtree(tmp_path / "ca")
    daskfc("certs", "init")
    assert daskfc("certs", "issue", "--parties", "federation.yaml").exit_code == 0
    again = files(parties)
    assert again.keys() == made.keys()
    assert all(again[path] == text for path, text in made.items() if path.suffix != ".pem")


def test_who_was_revoked_gets_no_key_by_itself(new, daskfc, tmp_path):
    new()
    assert daskfc("certs", "revoke", "hospital-a").exit_code == 0
    told = new()
    assert told.exit_code == 0
    assert "hospital-a was revoked, and gets no key here" in told.stdout
    assert not (tmp_path / "ca" / "parties" / "hospital-a").exists()


BAD = [
    ("", "a federation file must be a mapping with the keys 'scheduler', 'clients' and"),
    ("parties: {a: client}", "this is a parties file, and a federation file is wanted here"),
    (LIST + "sites: {}", "key 'sites' is not known there"),
    (LIST.replace("port", "prot"), "key 'scheduler.prot' is not known there"),
    (LIST.replace("submitters: [alice]", ""), "key 'submitters' is required"),
    (LIST.replace("[alice]", "[]"), "key 'submitters': must have at least 1 entries"),
    (LIST.replace("hospital-a: ,", "hospital-a: , hospital-a: ,"), "'hospital-a' is given twice"),
    (LIST.replace("[alice]", "[alice, alice]"), "'alice' is listed twice"),
    (LIST.replace("[alice]", "[Hospital-A]"), "'Hospital-A' is listed twice, in other letters'"),
    (LIST.replace("[alice]", "[scheduler]"), "'scheduler' is listed twice"),
    (re.sub("clients: .*", "clients: [b, b]", LIST), "key 'clients': must be names, each once"),
    (re.sub("clients: .*", "clients: {}", LIST), "key 'clients': must have at least 1 entries"),
    (LIST.replace('"1e4"', "1e4"), "key 'clients"),
    (LIST.replace("hospital-a", "server-3"), "may not be called 'server-3'"),
    (LIST.replace("hospital-a", "../a"), "must be 1 to 63 letters"),
    (LIST.replace("hospital-a", '"a b"'), "must be 1 to 63 letters"),
    (LIST.replace("port: 9000", "port: 0"), "key 'scheduler.port': must be at least 1"),
    (LIST.replace("workers: 2", "workers: 65"), "key 'server.workers': must be at most 64"),
    (LIST.replace("9000", "70000"), "key 'scheduler.port': must be at most 65535"),
    *(
        (LIST.replace("10.0.0.1,", f"{host},"), "key 'scheduler.host': must be an address or")
        for host in (
            "tls://10.0.0.1", '"10.0.0.1:8786"', "0.0.0.0", "10.0.0.256", "a_b", "a..b", "-a",
            '"fe80::1%`id`"', '"fe80::1%$(id)"', '"a\\n"', '""',
        )
    ),
    (LIST.replace("FedSC", "FedSK"), "key 'methods': no method is called 'FedSK'"),
    (LIST.replace("OmniFC", "omnifc"), "key 'methods': 'omnifc' is called 'OmniFC'"),
    (LIST + "start: cron", "key 'start': must be 'scripts', 'systemd' or 'compose'"),
    (LIST + "out: ''", "key 'out': must be text of at least 1 letters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_bad_list_is_refused_in_a_sentence_before_anything_is_written(new, tmp_path, text, said):
    told = new(text=text)
    assert told.exit_code == 2
    assert said in told.stderr
    assert told.stderr.startswith("daskfc: federation.yaml")
    assert told.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["federation.yaml"]


def test_what_an_authority_has_already_is_looked_at_first(new, tmp_path):
    (tmp_path / "ca").mkdir()
    assert "ca: no certificate authority is there" in new().stderr
    assert list((tmp_path / "ca").iterdir()) == []
    (tmp_path / "ca").rmdir()
    new()
    before = files(tmp_path)
    other = LIST.replace("[alice]", "[bob, hospital-a]").replace("hospital-a: ,", "alice: ,")
    told = new(text=other)
    assert told.exit_code == 2
    assert "'alice' has a certificate as submitter, and as client it would be" in told.stderr
    (tmp_path / "ca" / "parties" / "carol").mkdir()
    told = new(text=LIST.replace("[alice]", "[bob, carol]"))
    assert "'carol' has no certificate of ca" in told.stderr
    assert {k: v for k, v in files(tmp_path).items() if k.suffix != ".yaml"} == {
        k: v for k, v in before.items() if k.suffix != ".yaml"
    }


def test_parties_that_make_their_own_keys_start_as_the_list_says(new, daskfc, tmp_path):
    told = new("keys: sites\nstart: compose")
    assert told.exit_code == 0, told.stderr
    assert f"Requests are awaited of {', '.join(ROLES)}." in told.stdout
    assert not (tmp_path / "ca" / "parties").exists()
    daskfc("certs", "request", "1e4")
    typed = re.search(r"^  daskfc (certs sign .*)$", told.stdout, re.MULTILINE)[1]
    typed = typed.replace("*.request.pem", "1e4/1e4.request.pem")
    signed = daskfc(*shlex.split(typed), "--yes")
    assert signed.exit_code == 0, signed.stderr
    sent = tmp_path / "ca" / "parties" / "1e4"
    assert {path.name for path in sent.iterdir()} == {"ca.pem", "cert.pem", "federation.yaml"}
    assert daskfc("certs", "install", "1e4", sent).exit_code == 0
    own = tmp_path / "1e4"
    found = parsed(words_of(own / "start.sh"))
    assert (found["scheduler"], found["host"]) == ("tls://10.0.0.1:9000", "10.0.0.14")
    expected = Policy(submitters=["alice"], methods=["OmniFC", "FedSC"])
    assert Policy.load(own / "policy.yaml") == expected
    assert (own / "compose.yaml").exists()
    assert "nobody else has it, the authority neither" in (own / "README.md").read_text()
    told = new("keys: sites\nstart: compose")
    assert "awaited of scheduler, server, server-2, hospital-a, alice." in told.stdout
    assert {path.name for path in sent.iterdir()} == {"ca.pem", "cert.pem", "federation.yaml"}
    (sent / "federation.yaml").write_text("scheduler: {host: '::1%$(id)'}\nsubmitters: [a]")
    shutil.rmtree(own)
    assert daskfc("certs", "install", "1e4", sent).exit_code == 2


# -- what starts the scripts ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scheduler", "server", "1e4"])
def test_a_unit_starts_the_script_where_the_readme_puts_it(new, tmp_path, name):
    assert new("start: systemd").exit_code == 0
    own = tmp_path / "ca" / "parties" / name
    readme = (own / "README.md").read_text()
    found = unit((own / f"daskfc-{name}.service").read_text())
    held = found["Service"]
    assert held["ExecStart"] == f"/etc/daskfc/{name}/start.sh"
    assert f"    cp -R . /etc/daskfc/{name}\n" in readme
    assert f"    systemctl enable --now daskfc-{name}.service\n" in readme
    environment = dict(pair.split("=", 1) for pair in held["Environment"].split())
    assert held["StateDirectory"] == f"daskfc/{name}"
    if name != "scheduler":
        asked = {key: value for key, value in environment.items() if key.startswith("DASKFC_")}
        given = parsed(words_of(own / "start.sh", **asked))
        assert given["workspace"] == f"/var/lib/{held['StateDirectory']}"
        assert given["store"] == ("/srv/daskfc/1e4.zarr" if name == "1e4" else None)
        assert ("--store /srv/daskfc/1e4.zarr\n" in readme) == (name == "1e4")
    assert "10.0.0.1 10.0.0.14\n" in (own / f"daskfc-{name}.service").read_text()
    model = unit((CONFIGS / "systemd" / "daskfc-party.service").read_text("utf-8"))
    of_party = {
        "ExecStart", "Environment", "ReadOnlyPaths", "StateDirectory", "IPAddressDeny",
        "IPAddressAllow",
    }  # fmt: skip
    for key in model["Service"].keys() - of_party:
        assert held[key] == model["Service"][key], key


def test_whoever_submits_has_a_timer_for_a_run_every_night(new, tmp_path):
    assert new("start: systemd").exit_code == 0
    own, base = tmp_path / "ca" / "parties" / "alice", "nightly-daskfc-alice"
    found = unit((own / f"{base}.service").read_text())
    asked = parsed(shlex.split(found["Service"]["ExecStart"])[1:])
    assert asked["pipeline"] == "/etc/daskfc/alice/pipeline.yaml"
    assert asked["cluster"] == "/etc/daskfc/alice/cluster.yaml"
    assert asked["runs_dir"] == f"/var/lib/{found['Service']['StateDirectory']}/runs"
    model = unit((CONFIGS / "systemd" / "daskfc-nightly.service").read_text("utf-8"))
    own_lines = {
        "ExecStart", "Environment", "StateDirectory", "CacheDirectory", "WorkingDirectory",
        "IPAddressDeny", "IPAddressAllow",
    }  # fmt: skip
    for key in model["Service"].keys() - own_lines:
        assert found["Service"][key] == model["Service"][key], key
    timer = unit((own / f"{base}.timer").read_text())
    assert timer["Timer"] == unit((CONFIGS / "systemd/daskfc-nightly.timer").read_text())["Timer"]
    readme = (own / "README.md").read_text()
    assert f"    systemctl enable --now {base}.timer\n" in readme
    assert "    cp -R . /etc/daskfc/alice\n" in readme


def test_without_systemd_a_timer_of_another_kind_is_told_its_command(new, tmp_path):
    assert new().exit_code == 0
    readme = (tmp_path / "ca" / "parties" / "alice" / "README.md").read_text()
    (line,) = re.findall(r"    daskfc (run .*--run-key.*)", readme)
    asked = parsed(shlex.split(line))
    assert (asked["run_key"], asked["resume_or_start"]) == ("nightly-{date}", True)
    told = "When the scheduler ends, this does too"
    found = (tmp_path / "ca" / "parties").glob("*/README.md")
    assert {file.parent.name for file in found if told in file.read_text()} == {*ROLES} - {
        "scheduler", "alice",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_a_unit(new, tmp_path):
    new("start: systemd")
    told = ["systemd-analyze", "verify"]
    for file in (tmp_path / "ca" / "parties").glob("*/*daskfc-*"):
        text = re.sub(r"=\S*(/start\.sh|/daskfc run)", "=/bin/true", file.read_text())
        (tmp_path / file.name).write_text(text)
        told.append(str(tmp_path / file.name))
    assert len(told) == 2 + len(ROLES) + 1  # a timer beside the nightly run
    done = subprocess.run(told, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["scheduler", "server-2", "hospital-a"])
def test_a_container_starts_the_script_of_the_folder_that_is_mounted(new, tmp_path, name):
    assert new("start: compose").exit_code == 0
    own = tmp_path / "ca" / "parties" / name
    (told,) = yaml.safe_load((own / "compose.yaml").read_text())["services"].items()
    assert told[0] == name
    service = told[1]
    mounts = [volume.rsplit(":", 2) for volume in service["volumes"] if volume.endswith(":ro")]
    mounted = {inside: outside for outside, inside, _ in mounts}
    assert service["entrypoint"] == ["/kit/start.sh"]
    assert mounted["/kit"] == "."
    assert "./files:/files" in service["volumes"]
    if name != "scheduler":
        given = parsed(words_of(own / "start.sh", **service["environment"]))
        assert given["workspace"] == "/files"
        assert given["store"] == ("/store" if name == "hospital-a" else None)
        assert ("/store" in mounted) == (name == "hospital-a")
    model = yaml.safe_load((CONFIGS / "containers" / "compose.yaml").read_text("utf-8"))
    contained = model["services"]["hospital-a"]
    for key in contained.keys() - {"volumes", "command", "networks", "user"}:
        assert service[key] == contained[key], key
    assert service["image"] == f"daskfc:{version('daskfc')}"
    assert service["user"].startswith("${DASKFC_USER:?")
    assert not (tmp_path / "ca" / "parties" / "alice" / "compose.yaml").exists()
