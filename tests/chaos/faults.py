"""What can go wrong with a local run, each as a class that does it and makes it good."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import psutil
import yaml

from daskfc.stores import load_storage
from tests.chaos.cases import DEADLINE, LONG_DEADLINE, PATIENCE, Run, one_at_a_time
from tests.chaos.judge import LATER, Row, Wrong, check_left_behind, check_run, follow


class Fault:
    """One fault of one run.

    Attributes
    ----------
    party : str
        Whom it strikes.
    told : list of str
        Why the run ended, at each of its ends.
    seconds : float
        From the fault to the end of the run that it struck.
    """

    survives = False  # whether the run itself must end well
    may_refuse = False  # whether a resume may be refused, with a sentence
    needs_disk = False  # whether the runs' folder is a small disk of its own
    changes_stores = False  # whether the case's stores are a copy
    deadline = LONG_DEADLINE
    at_start = 0.0  # share of faults that strike before parties compute
    resumed = False  # whether it has resumed the run itself
    party = "-"

    def __init__(self, run, rng):
        self.run, self.rng = run, rng
        self.told, self.seconds = [], 0.0

    def strike(self):
        raise NotImplementedError

    def repair(self):
        """Make good what a user would make good before a resume."""

    def check(self):
        """Raise Wrong for what must never be after this fault."""


class _OfParty(Fault):
    def __init__(self, run, rng):
        super().__init__(run, rng)
        self.party = str(rng.choice([*run.case.clients, "server"]))

    def signal(self, number):
        if (pid := self.run.worker(self.party)) is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid


class KillParty(_OfParty):
    """A worker process is killed; its nanny starts another."""

    survives = True

    def strike(self):
        self.signal(signal.SIGKILL)


class PauseParty(_OfParty):
    """A worker process stands still for a while, shorter than the deadline."""

    survives = True

    def strike(self):
        if (pid := self.signal(signal.SIGSTOP)) is not None:
            time.sleep(DEADLINE / 2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class FreezeParty(_OfParty):
    """A worker process stands still for ever."""

    deadline = DEADLINE

    def strike(self):
        self.signal(signal.SIGSTOP)


class MemoryLimit(_OfParty):
    """A worker process gets no more memory from the system."""

    def strike(self):
        if (pid := self.run.worker(self.party)) is not None:
            process = psutil.Process(pid)
            process.rlimit(psutil.RLIMIT_AS, (process.memory_info().vms // 2,) * 2)


class KillDriver(Fault):
    """The driver is killed, and its parties with it."""

    party = "driver"
    at_start = 0.3

    def strike(self):
        self.run.process.kill()


class EndDriver(KillDriver):
    """The driver is asked to end, by SIGTERM."""

    def strike(self):
        self.run.process.send_signal(signal.SIGTERM)


class InterruptAll(KillDriver):
    """Ctrl-C in the terminal: SIGINT to the driver and to every process that it started."""

    def strike(self):
        os.killpg(self.run.process.pid, signal.SIGINT)


class HangUp(KillDriver):
    """The driver's terminal goes, which is SIGHUP."""

    def strike(self):
        self.run.process.send_signal(signal.SIGHUP)


class LedgerOnFullDevice(_OfParty):
    """A party's ledger takes no more rows."""

    def strike(self):
        (work,) = (self.run.folder / "work").glob("[!oe]*")  # neither opening nor evaluation
        folder = work / "server" if self.party == "server" else work / "parties" / self.party
        self.ledger = folder / "ledger.jsonl"
        full = folder / "full"
        full.symlink_to("/dev/full")
        full.replace(self.ledger)  # in one step: the party may be completing its rows

    def repair(self):
        self.ledger.unlink(missing_ok=True)


class FullDisk(Fault):
    """The disk of the runs' folder fills up."""

    needs_disk = True
    party = "all"

    def strike(self):
        self.filler = self.run.folder.parent / "filler"
        fill(self.filler)

    def repair(self):
        self.filler.unlink(missing_ok=True)


class WorkRemoved(Fault):
    """The folder that the parties write to is removed."""

    party = "all"

    def strike(self):
        shutil.rmtree(self.run.folder / "work", ignore_errors=True)


class TornFile(KillDriver):
    """The driver is killed, and a file that it or a party wrote has lost its end."""

    may_refuse = True
    at_start = 0.0

    def strike(self):
        super().strike()
        self.run.process.wait()
        files = sorted(
            path
            for path in self.run.folder.rglob("*")
            if path.is_file() and path.name != ".claim" and path.stat().st_size
        )
        path = files[int(self.rng.integers(len(files)))]
        os.truncate(path, int(self.rng.integers(path.stat().st_size)))
        self.party = path.name


class EditedRecord(KillDriver):
    """The driver is killed, and the number of clusters in its record is another one."""

    may_refuse = True
    at_start = 0.0

    def strike(self):
        super().strike()
        self.run.process.wait()
        file = self.run.folder / "run.json"
        record = json.loads(file.read_text())
        record["pipeline"]["params"]["n_clusters"] -= 1
        file.write_text(json.dumps(record))
        self.party = "run.json"


class StoresBuiltAgain(Fault):
    """The stores are built again of the same samples while the run reads them."""

    changes_stores = True
    party = "all"

    def strike(self):
        build_again(self.run.case.storage)


class StoresChanged(Fault):
    """The stores are built again of other samples while the run reads them."""

    changes_stores = True
    may_refuse = True
    party = "all"

    def strike(self):
        build_again(self.run.case.storage, seed=1)


class TwoResumes(KillDriver):
    """The driver is killed, and two resume its run at once."""

    at_start = 0.0

    def strike(self):
        super().strike()
        self.run.process.wait()
        beside = self.run.resume_beside()
        self.run.resume()
        code = beside.wait(PATIENCE)
        own = self.run.wait()
        self.resumed = {own, code} != {2}
        refused = "another process runs this run" in self.run.said()
        # Who comes when the other, or the one that was killed, has ended the run.
        done = self.run.said().count("the run is done") == [own, code].count(2) > 0
        ends = ({0, LATER}, {1, LATER}) if self.run.case.may_refuse else ({0, LATER},)
        if {own, code} in ends and refused:
            if own == LATER:  # the other one has ended it
                self.run.process = beside
        elif not done or not {own, code} <= {0, 2}:
            raise Wrong(f"two resumes end with {own} and {code}")
        elif own == 2:
            self.run.process = beside


FAULTS = [
    KillParty, FreezeParty, LedgerOnFullDevice, KillDriver, FullDisk, TornFile, PauseParty,
    EditedRecord, EndDriver, WorkRemoved, HangUp, InterruptAll,
    MemoryLimit, StoresBuiltAgain, StoresChanged,
    TwoResumes,
]  # fmt: skip


def build_again(storage, *, seed=None):
    """Build all stores of a storage file again, of other samples where a seed is given."""
    content = yaml.safe_load(storage.read_text())
    if seed is not None:
        for part in (content["partition"], content["source"].get("subsample", {})):
            if "seed" in part:
                part["seed"] = seed
    with one_at_a_time:
        load_storage(content).build(overwrite=True)


def fill(file):
    """Write to a file until its disk is full."""
    with contextlib.suppress(OSError), file.open("ab", buffering=0) as filler:
        while filler.write(bytes(512)):
            pass


@contextlib.contextmanager
def small_disk(folder, size="16m"):
    """Give a folder on a small disk of its own; None where mounting is not allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def play(kind, number, case, place, rng):
    """Let one fault strike one local run."""
    row = Row(number, kind.__name__, kind.party, case.method)
    if kind.changes_stores:
        case = case.with_stores_of_its_own(place / "stores")
    digest = None if kind.changes_stores else case.digest()
    with contextlib.ExitStack() as stack:
        runs = stack.enter_context(small_disk(place / "disk")) if kind.needs_disk else None
        if kind.needs_disk and runs is None:
            row.outcome, row.said = "skipped", "mounting is not allowed"
            return row
        run = Run(case, place, runs=runs, deadline=kind.deadline)
        fault = kind(run, rng)
        try:
            if rng.uniform() < kind.at_start:
                in_time = run.wait_until((run.folder / "run.json").exists)
                time.sleep(float(rng.uniform(0, 6)))
                in_time = in_time and run.process.poll() is None
            else:
                # The machine may be less busy than it was for the undisturbed run.
                in_time = run.wait_until_fitting(after=float(rng.uniform(0, case.seconds / 2)))
            if in_time:
                with contextlib.suppress(ValueError, OSError, psutil.Error):  # it has just ended
                    fault.strike()
            row.party = fault.party
            row.outcome = follow(fault, run)
            if not in_time:
                row.outcome = "too late"
            elif row.outcome == "done" and fault.resumed:
                row.outcome = "resumed"
            check_run(run, row.outcome, digest=digest)
            fault.check()
            check_left_behind(place)
        except Wrong as wrong:
            row.outcome, row.bad = "BAD", str(wrong)
        row.said, row.seconds = " | ".join(fault.told) or run.sentence(), fault.seconds
    return row
