"""Faults of disks, processes and drivers: one sentence in time, and the same results after it."""

import contextlib
import errno
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from daskfc.deploy.config.config import WorkerLimits, load_cluster
from daskfc.deploy.config.values import LEAST_MEMORY
from daskfc.errors import ClusterError, DeadlineError, LedgerError, PartyError
from daskfc.federation import Federation
from daskfc.testing.federation import federation_of, stores_of
from tests.deploy.forked import launcher
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


def once_alone(damage):
    """Damage again where the party came between: it completes its rows after they were sent."""

    @functools.wraps(damage)
    def repeat(folder):
        while True:
            try:
                return damage(folder)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise

    return repeat


@once_alone
def to_full_device(folder):
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    (folder / "ledger.jsonl").symlink_to("/dev/full")


@once_alone
def to_folder(folder):
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    (folder / "ledger.jsonl").mkdir()


@once_alone
def to_nothing(folder):
    shutil.rmtree(folder)


@pytest.mark.parametrize("party", ["client-2", "server"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (to_full_device, "no space left on device"),
        (to_folder, "is a directory"),
        (to_nothing, "no such file or directory"),
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

    def again():
        federation.start_run("full", random_state=0, workspace=str(small_disk), deadline_s=15)
        totals_without_end(federation)

    with at_most(15), pytest.raises(LedgerError, match="no space left on device"):
        again()
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


@pytest.mark.long
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
    site.cluster = cluster_of(address, deadline=f"{DEADLINE}s", startup="300s")
    yield site
    site.end()


def joined(sites):
    return Federation.connect(sites.cluster, clients=["a", "b"])


@pytest.mark.few(1)
@pytest.mark.parametrize("which", ["worker", "nanny and worker"])
def test_a_frozen_site_is_named_at_the_deadline(sites, tmp_path, which):
    nanny = sites.parties["b"]
    with joined(sites) as federation:
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
    with joined(sites) as federation:  # it came back
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
        np.testing.assert_array_equal(total(federation), TOTAL)


def test_a_frozen_nanny_disturbs_no_run(sites, tmp_path):
    with joined(sites) as federation:
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
        with frozen(sites.parties["b"].pid):
            np.testing.assert_array_equal(total(federation), TOTAL)
            with at_most(DEADLINE + 10), pytest.raises(DeadlineError, match="party 'b' did not"):
                federation.start_run("s", random_state=0, deadline_s=DEADLINE)


# -- two drivers ------------------------------------------------------------------------------


def test_a_second_driver_is_refused_and_the_first_goes_on(sites, tmp_path):
    with joined(sites) as first:
        first.start_run("first", random_state=0, workspace=str(tmp_path), deadline_s=60)
        sent = first.ask(steps.row_sum)
        match = r"'server' has been in run 'first' of another .* since"
        with at_most(10), pytest.raises(ClusterError, match=match):
            joined(sites)
        went_on = first.publish(steps.total_message, sent)
        np.testing.assert_array_equal(went_on.values, TOTAL)
    with joined(sites) as second:
        second.start_run("second", random_state=0, deadline_s=60)
        np.testing.assert_array_equal(total(second), TOTAL)


def test_of_two_drivers_that_begin_together_one_gets_all_parties(sites, tmp_path):
    ready, over, ended = threading.Barrier(3), threading.Barrier(3), {}

    def begin(number):
        ready.wait()
        try:
            with joined(sites) as driver:
                driver.start_run(f"r{number}", random_state=0, deadline_s=60)
                ended[number] = total(driver).tolist()
                over.wait()  # else another could begin after this one
        except ClusterError as error:
            ended[number] = str(error)
            over.wait()

    threads = [threading.Thread(target=begin, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [result for result in ended.values() if result == TOTAL.tolist()]
    losers = [result for result in ended.values() if "of another driver" in result]
    assert (len(winners), len(losers)) == (1, 2), ended


DRIVER = """
import signal
from daskfc.federation import Federation
federation = Federation.connect({cluster!r}, clients=["a", "b"])
federation.start_run("killed", random_state=0, deadline_s=60)
print("runs", flush=True)
signal.pause()
"""


@pytest.fixture
def start_driver(tmp_path):
    """Start programs, and wait until their runs have begun."""
    running = []

    def start(code, **environment):
        told = tmp_path / f"told-{len(running)}"
        os.mkfifo(told)
        driver = launcher().start(("-c", code), told, env={**os.environ, **environment})
        running.append((driver, told.open()))
        assert running[-1][1].readline() == "runs\n"
        return driver

    yield start
    for driver, told in running:
        driver.kill()
        driver.wait()
        told.close()


def test_a_killed_driver_holds_nobody(sites, start_driver):
    driver = start_driver(DRIVER.format(cluster=sites.cluster))
    try:
        with pytest.raises(ClusterError, match="run 'killed' of another driver"):
            joined(sites)
    finally:
        driver.kill()
        driver.wait()
    with at_most(15), joined(sites) as second:
        second.start_run("next", random_state=0, deadline_s=60)
        np.testing.assert_array_equal(total(second), TOTAL)


# -- a scheduler that goes --------------------------------------------------------------------


@pytest.fixture
def started(tmp_path):
    site = Site(tmp_path)
    site.address = address = site.scheduler("127.0.0.1")
    site.urls = stores_of(tmp_path, ROWS)
    for name, url in site.urls.items():
        site.party(name, address, store=url)
    site.party("server", address)
    site.cluster = cluster_of(address, deadline=f"{DEADLINE}s", startup="300s")
    yield site
    site.end()


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_scheduler_that_goes_ends_the_run(started, tmp_path, pipes, number):
    scheduler = started.running[0]
    federation = joined(started)
    federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
    federation._roll_call.patience = federation._absences.deadline = DEADLINE
    sent = federation.publish(steps.held, *pipes, party="a", wait=False)
    with open(pipes[0]) as running:
        running.read()
    scheduler.send_signal(number)
    sentence = "scheduler.* Start the cluster again and resume the run"
    with at_most(DEADLINE + 5), pytest.raises(ClusterError, match=sentence):
        sent.result()
    with at_most(DEADLINE + 5), pytest.raises(ClusterError, match=sentence):
        total(federation)
    with at_most(DEADLINE + 5), pytest.raises(ClusterError, match=sentence):
        federation.start_run("s", random_state=0, deadline_s=DEADLINE)
    with at_most(10):
        federation.close()
    with open(pipes[1], "w") as let_go:
        let_go.write("go")
    scheduler.kill()


# -- sentences --------------------------------------------------------------------------------


def test_a_full_disk_in_a_step_is_said_without_values(federation):
    with pytest.raises(PartyError) as error:
        federation.publish(steps.fills_its_disk, party="client-1")
    assert str(error.value) == (
        "step 'fills_its_disk' of party 'client-1' failed: no space left on device at that party. "
        "Free some and resume the run."
    )
    with pytest.raises(PartyError, match=r"failed: IsADirectoryError \(is a directory\)$"):
        federation.publish(steps.writes_to_a_folder, party="client-1")


def test_too_small_a_memory_limit_is_said(tmp_path):
    small = WorkerLimits.model_construct(nthreads=1, blas_threads=1, memory_limit=100_000_000)
    cluster = load_cluster({"cluster": "local", "deadline": f"{DEADLINE}s"})
    cluster = cluster.model_copy(update={"worker": small})
    with pytest.raises(
        ClusterError, match=r"needs .* before its first step, and is stopped at 100%"
    ):
        Federation.local(stores_of(tmp_path, ROWS), cluster=cluster)


def test_a_party_uses_less_than_the_least_limit_by_itself(local):
    assert max(local.peak_memory().values()) < LEAST_MEMORY


@pytest.mark.long
def test_a_site_that_was_started_again_asks_for_a_resume(started, tmp_path):
    with joined(started) as federation:
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=60)
        site = started.running[2]
        os.killpg(site.pid, signal.SIGKILL)
        site.wait()
        started.party("b", started.address, store=started.urls["b"])
        with pytest.raises(PartyError, match="party 'b' was started again while run 'r' was under"):
            total(federation)


# -- what is left behind ----------------------------------------------------------------------

KILLED = """
from daskfc.federation import Federation
federation = Federation.local({urls!r})
federation.start_run("r", random_state=0)
print("runs", flush=True)
open({end!r}).read()
"""


@pytest.fixture
def short_folder():
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        yield Path(folder)


def left_in(folder):
    # onnxruntime writes the identity of its session there, once for all of a user's processes.
    return [path for path in folder.iterdir() if path.name != ".ses"]


def test_a_killed_driver_leaves_no_process_and_no_file(tmp_path, short_folder, start_driver):
    end = tmp_path / "end"
    os.mkfifo(end)
    code = KILLED.format(urls=stores_of(tmp_path, ROWS), end=str(end))
    start = functools.partial(start_driver, code, TMPDIR=str(short_folder))
    lives, killed = start(), start()
    assert len(left_in(short_folder)) == 2
    processes = psutil.Process(killed.pid).children(recursive=True)
    assert len(processes) >= 3
    killed.kill()
    killed.wait()
    assert psutil.wait_procs(processes, timeout=20)[1] == []
    assert len(left_in(short_folder)) == 1  # of the one that lives
    processes = psutil.Process(lives.pid).children(recursive=True)
    os.killpg(lives.pid, signal.SIGKILL)  # with the process that would sweep
    lives.wait()
    assert psutil.wait_procs(processes, timeout=20)[1] == []
    assert len(left_in(short_folder)) == 1
    last = start()
    assert len(left_in(short_folder)) == 1  # its own
    end.write_text("")
    assert last.wait(60) == 0
    assert left_in(short_folder) == []
