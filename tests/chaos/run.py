"""Seeded faults over all protocols: ``python tests/chaos/run.py --faults 100 --seed 0``.

Each fault strikes a run in a process of its own. It must end in time, with the labels of an
undisturbed run or with one sentence; a run that says it can be resumed must then yield those
labels, and nothing may be left behind.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from daskfc.protocols import METHODS
from tests.chaos import drivers, faults, sites
from tests.chaos.cases import PATIENCE, Run, cases_of, labels_of

KINDS = [*faults.FAULTS, drivers.TwoDrivers, *sites.FAULTS]


@dataclass
class Row:
    """What came of one fault."""

    fault: str
    party: str
    method: str
    outcome: str
    seconds: float
    resumed: str = "-"
    same: str = "-"
    bad: str = ""

    def __str__(self):
        return (
            f"{self.fault:18} {self.party:18.18} {self.method:8} {self.seconds:6.1f} "
            f"{self.resumed:8} {self.same:5} {self.outcome[:90]}{self.bad and '  !! ' + self.bad}"
        )


HEADER = f"{'fault':18} {'party':18} {'method':8} {'sec':>6} {'resumed':8} {'same':5} outcome"


def last_line(run):
    lines = [line for line in run.said().splitlines() if line.startswith("daskfc:")]
    return lines[-1] if lines else ""


def judged(fault, run, case, row, struck):
    """Follow a run from the fault to its end, and to the end of its resumption."""
    code = run.wait()
    row.seconds = time.monotonic() - struck
    killed = run.process.returncode == -signal.SIGKILL
    if code is None:
        row.outcome, row.bad = "hangs", "hang"
        return
    if code == 0:
        row.outcome = "done"
    else:
        row.outcome = "killed" if killed else last_line(run)
        if not killed and not row.outcome:
            row.bad = "no sentence"
        if fault.survives:
            row.bad = "should have survived"
        if killed or "Resume with" in row.outcome:
            fault.repair()
            run.resume()
            code = run.wait()
            row.resumed = "hangs" if code is None else "yes" if code == 0 else "refused"
            if code is None:
                row.bad = "hang"
            elif code:
                row.outcome = f"{row.outcome[:20]} … {last_line(run)}"
                if not fault.may_refuse:
                    row.bad = "resume fails"
    if "Traceback" in run.said():
        row.bad = "traceback"
    if code == 0:
        same = np.array_equal(labels_of(run.folder), case.labels)
        row.same = "yes" if same else "NO"
        if not same:
            row.bad = "wrong labels"


def left_behind(run, children):
    """Return what a run that has ended left: processes, temporary files."""
    alive = psutil.wait_procs(children, timeout=30)[1]
    ends = time.monotonic() + 20  # the last process sweeps as it ends
    while time.monotonic() < ends:
        # onnxruntime writes the identity of its session there, once for all of a user's processes.
        files = [file for file in run.temporary.iterdir() if file.name != ".ses"]
        if not files:
            break
        time.sleep(0.2)
    return [*(f"process {one.pid}" for one in alive), *(file.name for file in files)]


def strike(kind, case, folder, rng):
    """Let one fault strike one run."""
    if kind is drivers.TwoDrivers:
        return Row(kind.__name__, "all", case.method, *drivers.outcome(case, folder, rng))
    if kind in sites.FAULTS:
        party, *found = sites.outcome(kind, case, folder, rng)
        return Row(kind.__name__, party, case.method, *found)
    with contextlib.ExitStack() as stack:
        runs = stack.enter_context(faults.small_disk(folder / "disk")) if kind.needs_disk else None
        if kind.needs_disk and runs is None:
            return Row(kind.__name__, "all", case.method, "skipped: mounting is not allowed", 0)
        run = Run(case, folder, runs=runs)
        fault = kind(run, rng)
        row = Row(kind.__name__, fault.party, case.method, "", 0)
        children = []
        try:
            # The machine may be less busy than it was for the undisturbed run.
            if run.wait_until_fitting(after=float(rng.uniform(0, case.seconds / 2))):
                children = run.children()
                struck = time.monotonic()
                with contextlib.suppress(ValueError, OSError, psutil.Error):  # it has just ended
                    fault.strike()
                row.party = fault.party
            else:
                struck, row.party = time.monotonic(), "too late"
            judged(fault, run, case, row, struck)
        finally:
            if run.process.poll() is None:
                children += run.children()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.process.pid, signal.SIGKILL)
                run.process.wait()
        if not row.bad and (left := left_behind(run, children)):
            row.bad = f"left behind: {', '.join(left)}"
        return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a kind of fault, such as FreezeParty")
    parser.add_argument("--method", choices=METHODS, help="one protocol; all of them by default")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.only in kind.__name__]
    # Its path is short: sockets lie in it.
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        cases = list(cases_of(folder, options.method).values())
        for case in cases:
            print(f"{case.method} undisturbed: fits of {case.seconds:.1f} s", flush=True)
        print(HEADER)
        bad = 0
        for number in range(options.faults):
            rng = np.random.default_rng([options.seed, number])
            turn, which = divmod(number, len(kinds))
            kind, case = kinds[which], cases[(turn + which) % len(cases)]
            place = folder / str(number)
            place.mkdir()
            row = strike(kind, case, place, rng)
            bad += bool(row.bad)
            print(row, flush=True)
            shutil.rmtree(place, ignore_errors=True)
        print(f"{options.faults} faults, {bad} bad; a hang is more than {PATIENCE} s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
