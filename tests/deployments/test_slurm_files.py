"""What the scripts of cluster-configs/slurm start, with stubs in place of daskfc and SLURM."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.deployments.slurm_cluster import until

SLURM = Path(__file__).parents[2] / "cluster-configs" / "slurm"
STUB = """#!/bin/bash
printf '%s\\n' "$@" > "told-$1"
{body}
"""


class Node:
    """A folder with the scripts and a `daskfc` that writes its arguments down."""

    def __init__(self, folder):
        self.folder = folder / "a folder"  # with a blank, as folders have
        shutil.copytree(SLURM, self.folder)
        (self.folder / "bin").mkdir()
        self.stub("daskfc", "exit 3")
        self.stub("hostname", "", says="10.0.0.7 10.1.0.7")

    def stub(self, name, body, says=None):
        path = self.folder / "bin" / name
        path.write_text(STUB.format(body=body) if says is None else f"#!/bin/bash\necho {says}\n")
        path.chmod(0o700)

    def begin(self, *words, **environment):
        own = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "SLURM_SUBMIT_DIR": str(self.folder),
            "SLURM_JOB_ID": "7",
            "SLURM_NTASKS": "6",
        }
        return subprocess.Popen(["bash", *words], cwd=self.folder, env=own | environment)

    def runs(self, *words, **environment):
        return self.begin(*words, **environment).wait(60)

    def told(self, verb):
        return (self.folder / f"told-{verb}").read_text().splitlines()


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def options(words):
    return dict(zip(words[::2], words[1::2], strict=True))


def tls(folder):
    return {
        "--tls-ca-file": f"{folder}/ca.pem",
        "--tls-cert": f"{folder}/cert.pem",
        "--tls-key": f"{folder}/key.pem",
    }


def test_a_scheduler_listens_on_its_node_alone_unless_it_has_a_certificate(node):
    stale = node.folder / "scheduler.json"
    stale.touch()
    assert node.runs("scheduler.sbatch") == 3
    told = {"--host": "127.0.0.1", "--port": "0", "--scheduler-file": str(stale)}
    assert options(node.told("scheduler")[1:]) == told
    assert not stale.exists()
    assert node.runs("scheduler.sbatch", DASKFC_CERTS="/c d") == 3
    assert options(node.told("scheduler")[1:]) == {**told, "--host": "10.0.0.7", **tls("/c d")}


def test_a_party_has_what_its_variables_say_and_no_more(node):
    assert node.runs("party.sbatch", DASKFC_PARTY="server") == 3
    verb, name, *words = node.told("party")
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    told = {
        "--scheduler-file": f"{node.folder}/scheduler.json",
        "--wait": "10m",
        "--workspace": f"{node.folder}/tmp/daskfc-{user}-server",
        "--state": f"{node.folder}/home/.daskfc-server.sqlite",
        "--memory-limit": "2GB",
    }
    assert (verb, name, options(words)) == ("party", "server", told)
    given = {"STORE": "/s t/a.zarr", "POLICY": "/p.yaml", "WORKSPACE": "/w", "STATE": "/state"}
    shared = {"DASKFC_SHARED": "/shared", "DASKFC_CERTS": "/c", "DASKFC_PARTY": "a"}
    assert node.runs("party.sbatch", **{f"DASKFC_{k}": v for k, v in given.items()}, **shared) == 3
    _, name, *words = node.told("party")
    more = {f"--{key.lower()}": value for key, value in given.items()}
    expected = {**told, **more, "--scheduler-file": "/shared/scheduler.json", **tls("/c")}
    assert (name, options(words)) == ("a", expected)


@pytest.mark.parametrize(
    ("task", "name", "store"),
    [
        ("server", "server", None),
        ("client 0", "hospital-a", True),
        ("client 2", "hospital-c", True),
    ],
)
def test_a_task_of_a_gang_is_the_party_of_its_number(node, task, name, store):
    own = {"DASKFC_STORES": "/s t", "DASKFC_CERTS": "/c"}
    assert node.runs("gang-party.sh", *task.split(), **own) == 3
    _, told, *words = node.told("party")
    assert told == name
    found = options(words)
    assert found.get("--store") == (f"/s t/{name}.zarr" if store else None)
    assert found.items() >= tls(f"/c/{name}").items()


def test_the_scheduler_of_a_gang_listens_off_its_node_with_a_certificate(node):
    for certs, host in (("", "127.0.0.1"), ("/c", "10.0.0.7")):
        assert node.runs("gang-party.sh", "scheduler", DASKFC_CERTS=certs) == 3
        assert options(node.told("scheduler")[1:])["--host"] == host


@pytest.mark.parametrize("script", ["run.sbatch", "gang.sbatch"])
def test_a_run_is_begun_or_resumed_and_its_exit_code_is_the_jobs(node, script):
    node.stub("srun", "exec sleep 60")
    assert node.runs(script) == 3
    assert node.told("run")[-3:] == ["--run-key", "nightly-{date}", "--resume-or-start"]
    assert node.runs(script, DASKFC_RUN="night one") == 3
    assert node.told("run")[-5:-1] == ["--runs-dir", "runs", "--run-key", "night one"]


@pytest.mark.parametrize("script", ["run.sbatch", "gang.sbatch"])
def test_a_job_that_is_told_to_end_waits_for_its_driver(node, script):
    """The driver writes what a run is resumed by, and only then its exit code is known."""
    node.stub("srun", "exec sleep 60")
    node.stub("daskfc", "trap 'touch ended; exit 5' TERM; touch begun; while :; do :; done")
    job = node.begin(script)
    until((node.folder / "begun").exists, lambda: "the driver begins")
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 5
    assert (node.folder / "ended").exists()
