"""Faults of disks, processes and drivers: one sentence in time, and the same results after it."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time

import numpy as np
import psutil
import pytest

from daskfc.errors import DeadlineError, LedgerError
from daskfc.federation import Federation
from daskfc.testing.federation import federation_of, stores_of
from tests.deploy.test_sites import Site, cluster_of
from tests.federation import steps

pytestmark = pytest.mark.slow

DEADLINE = 5.0


def total(federation):
    """Return what a round over all parties yields."""
    return federation.publish(steps.total_message, federation.ask(steps.row_sum)).values


def totals_without_end(federation):
    while True:  # the page that a file ends in may have room for some more rows
        total(federation)


@contextlib.contextmanager
def at_most(seconds):
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


# -- a ledger that cannot be written ----------------------------------------------------------


def to_full_device(folder):
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    (folder / "ledger.jsonl").symlink_to("/dev/full")


def to_folder(folder):
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    (folder / "ledger.jsonl").mkdir()


@pytest.mark.parametrize("party", ["client-2", "server"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (to_full_device, "no space left on device"),
        (to_folder, "is a directory"),
        (shutil.rmtree, "no such file or directory"),
    ],
)
def test_a_ledger_that_cannot_be_written_ends_the_run_at_once(
    federation, tmp_path, party, damage, words
):
    expected = total(federation)
    folder = tmp_path / "server" if party == "server" else tmp_path / "parties" / party
    damage(folder)
    file = folder / "ledger.jsonl"
    sentence = f"party '{party}' cannot write its ledger {file} \\({words}\\)"
    with at_most(10), pytest.raises(LedgerError, match=sentence):
        total(federation)
    with pytest.raises(LedgerError, match="and resume the run"):
        federation.ask(steps.row_sum)
    shutil.rmtree(folder, ignore_errors=True)
    federation.start_run("resumed", random_state=0, workspace=str(tmp_path), deadline_s=15)
    np.testing.assert_array_equal(total(federation), expected)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this machine does not let its tests mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder):
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_a_full_disk_ends_the_run_and_a_resumed_one_is_whole(federation, small_disk, capfd):
    federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
    expected = total(federation)
    fill(small_disk)
    with at_most(15), pytest.raises(LedgerError, match="no space left on device"):
        totals_without_end(federation)
    federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
    with at_most(15), pytest.raises(LedgerError, match="no space left on device"):
        totals_without_end(federation)
    (small_disk / "filler").unlink()
    federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
    np.testing.assert_array_equal(total(federation), expected)
    rows = [row for row in federation.ledger if row.step == "row_sum"]
    assert {row.sender for row in rows} == set(federation.clients)
    assert capfd.readouterr().err == ""  # no handler of a log complains on the terminal


# -- a process that is frozen -----------------------------------------------------------------

ROWS = {"a": np.array([[1.0, 2.0], [3.0, 4.0]]), "b": np.array([[10.0, 20.0]])}
TOTAL = np.array([14.0, 26.0])


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with federation_of(tmp_path_factory.mktemp("stores"), ROWS) as federation:
        yield federation


@pytest.fixture
def run(local, tmp_path):
    """Return a function that begins a run, also after one that broke off."""

    def begin():
        name = f"{tmp_path.name}-{time.monotonic_ns()}"
        local.start_run(name, random_state=0, workspace=str(tmp_path), deadline_s=60)
        local._absences.deadline = local._deadline = DEADLINE

    begin()
    return begin


@contextlib.contextmanager
def frozen(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("party", ["a", "server"])
def test_a_frozen_party_is_named_at_the_deadline(local, run, party):
    sent = local.ask(steps.row_sum)
    local.wait(sent)
    with (
        frozen(local.processes.pid(party)),
        at_most(DEADLINE + 10),
        pytest.raises(DeadlineError, match=f"party '{party}' has been away for {DEADLINE:g} s"),
    ):
        local.publish(steps.total_message, sent)
    run()  # its nanny has ended the frozen process and started another
    np.testing.assert_array_equal(total(local), TOTAL)


def test_a_party_that_is_frozen_for_a_while_is_waited_for(local, run):
    pid = local.processes.pid("b")
    with frozen(pid):
        thaws = threading.Timer(DEADLINE / 3, os.kill, (pid, signal.SIGCONT))
        thaws.start()
        np.testing.assert_array_equal(total(local), TOTAL)
        thaws.join()
    assert local.processes.pid("b") == pid


def test_a_party_that_computes_without_a_heartbeat_is_waited_for(local, run):
    began = time.monotonic()
    n = 1 << 27
    while time.monotonic() - began < 2 * DEADLINE:
        pid = local.processes.pid("a")
        expected = float(n * (n - 1) // 2)
        assert local.publish(steps.lets_no_thread_run, n, party="a").values.tolist() == [expected]
        n *= 4
    assert local.processes.pid("a") == pid


def test_closing_does_not_wait_for_a_frozen_party(tmp_path):
    federation = Federation.local(stores_of(tmp_path, ROWS))
    pids = [federation.processes.pid(party) for party in federation.parties]
    with frozen(*pids), at_most(10):
        federation.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """A scheduler and three parties, each in a process of its own."""
    folder = tmp_path_factory.mktemp("sites")
    site = Site(folder)
    address = site.scheduler("127.0.0.1")
    site.parties = {
        name: site.party(name, address, store=url) for name, url in stores_of(folder, ROWS).items()
    }
    site.parties["server"] = site.party("server", address)
    site.cluster = cluster_of(address, deadline=f"{DEADLINE}s")
    yield site
    site.end()


def worker_of(nanny):
    """Return the process id of a party's worker, which the parent's fork server started."""
    for process in psutil.Process(nanny.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "Dask Worker" in process.name() or process.parent().pid != nanny.pid:
                return process.pid
    raise AssertionError("no worker process")


@pytest.mark.parametrize("which", ["worker", "nanny and worker"])
def test_a_frozen_site_is_named_at_the_deadline(sites, tmp_path, which):
    nanny = sites.parties["b"]
    with Federation.connect(sites.cluster, clients=["a", "b"]) as federation:
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
        federation._absences.deadline = DEADLINE
        pids = [federation.publish(steps.where, party="b").pid]
        if which != "worker":
            pids.append(nanny.pid)
        with (
            frozen(*pids),
            at_most(DEADLINE + 10),
            pytest.raises(DeadlineError, match="party 'b' has been away"),
        ):
            total(federation)
    with Federation.connect(sites.cluster, clients=["a", "b"]) as federation:  # it came back
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
        np.testing.assert_array_equal(total(federation), TOTAL)


def test_a_frozen_nanny_disturbs_no_run(sites, tmp_path):
    with Federation.connect(sites.cluster, clients=["a", "b"]) as federation:
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
        with frozen(sites.parties["b"].pid):
            np.testing.assert_array_equal(total(federation), TOTAL)
            with at_most(DEADLINE + 10), pytest.raises(DeadlineError, match="party 'b' did not"):
                federation.start_run("s", random_state=0, deadline_s=DEADLINE)
