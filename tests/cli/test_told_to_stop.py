"""SIGTERM before anything is there: a process that waits ends at once, process 1 as well.

The system drops a signal for process 1 of a container that it has no handler for. `unshare` makes
one, without a container.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from daskfc.deploy.connections.reaching import address_in
from tests.deployments.slurm_cluster import until

pytestmark = pytest.mark.slow

_ALONE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_TERM = 1 << (signal.SIGTERM - 1)


def may_be_first():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_ALONE, "true"], capture_output=True, check=False).returncode == 0


class Process:
    """A command of daskfc, as process 1 of a namespace or as any other."""

    def __init__(self, first, folder, *words):
        self.log = folder / f"{words[0]}.log"
        with self.log.open("w") as log:
            self._outer = subprocess.Popen(
                [*(_ALONE if first else ()), sys.executable, "-m", "daskfc", *words],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        outer = psutil.Process(self._outer.pid)
        self.process = until(lambda: outer.children(), self.told)[0] if first else outer
        if first:
            (line,) = self._lines("NSpid")
            assert line.split()[-1] == "1"

    def _lines(self, key):
        with open(f"/proc/{self.process.pid}/status") as file:
            return [line.partition(":")[2].strip() for line in file if line.startswith(f"{key}:")]

    def told(self):
        return self.log.read_text()

    def hears(self):
        """Return whether it has a handler for SIGTERM."""
        assert self._outer.poll() is None, self.told()
        (caught,) = self._lines("SigCgt")
        return bool(int(caught, 16) & _TERM)

    def end(self):
        """Send SIGTERM, as whoever stops a container does; return the exit code."""
        os.kill(self.process.pid, signal.SIGTERM)
        return self._outer.wait(60)

    def close(self):
        if self._outer.poll() is None:
            self._outer.kill()
        self._outer.wait()


@pytest.fixture(params=["any", pytest.param("first", marks=pytest.mark.long)])
def start(request, tmp_path):
    first = request.param == "first"
    if first and not may_be_first():
        pytest.skip("a process may not be process 1 of a namespace of its own here")
    running = []

    def start(*words):
        running.append(Process(first, tmp_path, *words))
        return running[-1]

    yield start
    for process in running:
        process.close()


@pytest.fixture
def nobody():
    """An address that nobody answers at, and that nobody else takes."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{bound.getsockname()[1]}"


def lines(told):
    """Return what was told, without who tells it before it, and when."""
    return [line.partition(": ")[2] for line in told.splitlines()]


def test_a_party_that_waits_for_its_scheduler_ends_as_one_that_serves(start, nobody):
    party = start("party", "server", "--scheduler", nobody, "--wait", "10m")
    until(lambda: party.told() and party.hears(), party.told)
    assert party.end() == 0
    assert lines(party.told()) == [f"holds no data; joins the scheduler at {nobody}"]


def test_a_party_that_waits_for_an_address_says_nothing(start):
    party = start("party", "server", "--scheduler-file", "none.json", "--wait", "10m")
    until(party.hears, party.told)
    assert party.end() == 0
    assert party.told() == ""


def test_a_scheduler_and_a_party_end_while_its_worker_starts_and_later(start, tmp_path):
    file = tmp_path / "scheduler.json"
    scheduler = start("scheduler", "--port", "0", "--scheduler-file", str(file))
    address = address_in(str(file), wait=120)
    started = [f"holds no data; joins the scheduler at {address}"]
    party = start("party", "server", "--scheduler", address)
    # One of them forks the worker. Others come and go while libraries are imported, when nobody
    # listens yet.
    until(lambda: party.hears() and party.process.children(), party.told)
    assert party.end() == 0
    assert lines(party.told()) == started
    party = start("party", "server", "--scheduler", address)  # its name is free again
    until(lambda: len(party.told().splitlines()) == 2, party.told)
    assert party.end() == 0
    *told, last = lines(party.told())
    assert told == [*started, "joined; waits for runs, Ctrl-C ends it"]
    assert last.startswith("stopped by SIG")
    assert scheduler.end() == 0
    assert not file.exists()


@pytest.mark.long
def test_a_party_ends_whose_worker_is_started_again_and_finds_no_scheduler(start, tmp_path):
    file = tmp_path / "scheduler.json"
    scheduler = start("scheduler", "--port", "0", "--scheduler-file", str(file))
    party = start("party", "server", "--scheduler", address_in(str(file), wait=120))
    until(lambda: len(party.told().splitlines()) == 2, party.told)

    def workers():
        return [one for one in party.process.children(recursive=True) if one not in starters]

    starters = party.process.children()
    before = workers()
    scheduler.process.suspend()
    for worker in before:
        worker.kill()
    until(lambda: [one for one in workers() if one not in before], party.told)
    assert party.end() == 0


def test_a_run_that_waits_for_its_scheduler_is_interrupted(start, nobody, tmp_path):
    (tmp_path / "pipeline.yaml").write_text("method: OmniFC\nparams: {n_clusters: 2}\n")
    cluster = {"cluster": "existing", "scheduler": nobody, "expect": ["a", "b", "c"]}
    (tmp_path / "cluster.yaml").write_text(json.dumps({**cluster, "connect": "10m"}))
    run = start("run", "pipeline.yaml", "--cluster", "cluster.yaml", "--name", "a")
    until((tmp_path / "runs" / "a" / "run.json").exists, run.told)
    assert run.end() == 1
    assert lines(run.told())[-1].startswith("interrupted.")
