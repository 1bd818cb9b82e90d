"""Faults of a site that appends to its store: what was there stays whole."""

import contextlib
import csv
import shutil
import signal
import subprocess
import sys
import time

from daskfc.stores import ClientStore
from tests.chaos.cases import PATIENCE, environment, one_at_a_time
from tests.chaos.faults import fill, small_disk
from tests.chaos.judge import Row, Wrong, check_left_behind

ROWS = 20_000
COLUMNS = 20


class FullStore:
    """The disk of a store fills up while samples are appended to it."""

    def __init__(self, store, rng):
        self.filler = store.parent / "filler"
        self.room = int(rng.uniform(0, 1_500_000))  # of what the new store takes

    def before(self):
        fill(self.filler)
        with self.filler.open("ab") as file:
            file.truncate(max(file.tell() - self.room, 0))

    def strike(self, process):
        pass

    def repair(self):
        self.filler.unlink()


class KillAppend:
    """The command that appends is killed."""

    def __init__(self, store, rng):
        self.after = float(rng.uniform(1, 6))

    def before(self):
        pass

    def strike(self, process):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.after)
        process.send_signal(signal.SIGKILL)

    def repair(self):
        pass


FAULTS = [FullStore, KillAppend]


def _table(path, first, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *(f"c{i}" for i in range(COLUMNS))])
        for row in range(first, first + rows):
            writer.writerow([f"s{row}", *((row * (i + 3)) % 97 / 7 for i in range(COLUMNS))])


class _Command:
    def __init__(self, place, *words):
        self.output = place / "output.txt"
        with self.output.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "daskfc", "stores", *map(str, words)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env=environment(place / "t", PYTHONUNBUFFERED="1"),
            )  # fmt: skip

    def wait(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Wrong("hangs") from None

    def sentence(self):
        lines = self.output.read_text().splitlines()
        return next((line for line in reversed(lines) if line.startswith("daskfc:")), "")


def content(store):
    """Return samples and digest of a store that is whole."""
    with one_at_a_time:
        opened = ClientStore.open(str(store), verify=True)
        opened.check()
        return opened.n_samples, opened.digest


def play(kind, number, case, place, rng):
    """Let one fault strike one command that appends."""
    row = Row(number, kind.__name__, "a client", "(appending)")
    (place / "t").mkdir()
    with small_disk(place / "disk", size="24m") as disk:
        if disk is None:
            row.outcome, row.said = "skipped", "mounting is not allowed"
            return row
        store = disk / "a.zarr"
        _table(place / "old.csv", 0, ROWS)
        _table(place / "new.csv", ROWS, ROWS)
        try:
            if _Command(
                place, "add", "a", place / "old.csv", "--store", store, "--id", "id"
            ).wait():
                raise Wrong("the store cannot be made")
            old = content(store)
            fault = kind(store, rng)
            fault.before()
            append = ("append", store, place / "new.csv", "--id", "id")
            began = time.monotonic()
            command = _Command(place, *append)
            fault.strike(command.process)
            code = command.wait()
            row.seconds = time.monotonic() - began
            row.said = command.sentence()
            if code > 0 and not row.said:
                raise Wrong(f"no sentence, exit code {code}")
            if code and content(store)[0] == ROWS and content(store) != old:
                raise Wrong("the old store was changed")
            fault.repair()
            if content(store)[0] == ROWS:
                if code := (command := _Command(place, *append)).wait():
                    raise Wrong(f"appending again ends with {code}: {command.sentence()}")
                row.outcome = "resumed"
            else:
                row.outcome = "done"
            if content(store)[0] != 2 * ROWS:
                raise Wrong("samples are missing")
            left = sorted(path.name for path in disk.iterdir() if path.name != "a.zarr")
            if left:
                raise Wrong(f"left beside the store: {', '.join(left)}")
            if "Traceback" in command.output.read_text():
                raise Wrong("traceback")
            check_left_behind(place, swept=True)
        except Wrong as wrong:
            row.outcome, row.bad = "BAD", str(wrong)
        finally:
            shutil.rmtree(store, ignore_errors=True)
    return row
