"""What can go wrong with a run, each as a function that does it and one that makes it good."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

from tests.chaos.cases import DEADLINE


class Fault:
    """One fault of one run.

    Attributes
    ----------
    party : str
        Whom it strikes.
    """

    survives = False  # whether the run itself must end well
    may_refuse = False  # whether a resume may be refused, with a sentence
    needs_disk = False  # whether the runs' folder is a small disk of its own

    def __init__(self, run, rng):
        self.run = run
        self.rng = rng
        self.party = "-"

    def strike(self):
        raise NotImplementedError

    def repair(self):
        """Make good what a user would make good before a resume."""


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
    """A worker process stands still for a third of the deadline."""

    survives = True

    def strike(self):
        if (pid := self.signal(signal.SIGSTOP)) is not None:
            time.sleep(DEADLINE / 3)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class FreezeParty(_OfParty):
    """A worker process stands still for ever."""

    def strike(self):
        self.signal(signal.SIGSTOP)


class KillDriver(Fault):
    """The driver is killed, and its parties with it."""

    def __init__(self, run, rng):
        super().__init__(run, rng)
        self.party = "driver"

    def strike(self):
        self.run.process.kill()


class EndDriver(KillDriver):
    """The driver is asked to end."""

    def strike(self):
        self.run.process.send_signal(signal.SIGTERM)


class LedgerOnFullDevice(_OfParty):
    """A party's ledger takes no more rows."""

    def strike(self):
        (work,) = (self.run.folder / "work").iterdir()
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

    def __init__(self, run, rng):
        super().__init__(run, rng)
        self.party = "all"

    def strike(self):
        self.filler = self.run.folder.parent / "filler"
        with contextlib.suppress(OSError), self.filler.open("wb", buffering=0) as file:
            while file.write(bytes(512)):
                pass

    def repair(self):
        self.filler.unlink(missing_ok=True)


class WorkRemoved(Fault):
    """The folder that the parties write to is removed."""

    def __init__(self, run, rng):
        super().__init__(run, rng)
        self.party = "all"

    def strike(self):
        shutil.rmtree(self.run.folder / "work", ignore_errors=True)


class TornFile(KillDriver):
    """The driver is killed, and a file that it or a party wrote has lost its end."""

    may_refuse = True

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

    def strike(self):
        super().strike()
        self.run.process.wait()
        file = self.run.folder / "run.json"
        record = json.loads(file.read_text())
        record["pipeline"]["params"]["n_clusters"] -= 1
        file.write_text(json.dumps(record))
        self.party = "run.json"


FAULTS = [
    KillParty,
    FreezeParty,
    LedgerOnFullDevice,
    KillDriver,
    FullDisk,
    TornFile,
    PauseParty,
    EditedRecord,
    EndDriver,
    WorkRemoved,
]


@contextlib.contextmanager
def small_disk(folder):
    """Give a folder on a disk of 16 MB of its own; None where mounting is not allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
