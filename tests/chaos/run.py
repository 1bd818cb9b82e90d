"""Seeded faults over all methods: ``python -m tests.chaos.run --faults 100 --seed 0``.

Each fault strikes a run in processes of its own. It must end in time, with the labels of an
undisturbed run or with one sentence; a run that says it can be resumed must then yield those
labels, and nothing may be left behind. Seed and number decide all that chance does, however many
faults run at once. With a file of rows, a campaign that was ended goes on after its last row.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from tests.chaos import faults, sites, stores
from tests.chaos.cases import NAMES, PATIENCE, cases_of
from tests.chaos.judge import Row, keys_noted, processes_of
from tests.chaos.table import read_rows, told_of

HEADER = (
    f"{'no.':>4} {'fault':19} {'party':13} {'method':13} {'sec':>6} {'total':>6} {'outcome':8} said"
)


def _interleaved():
    """Return all kinds with what plays them; those of sites, which take twice as long, once."""
    local = 2 * [(kind, faults.play) for kind in faults.FAULTS]
    own = [(kind, sites.play) for kind in sites.FAULTS]
    own += [(kind, stores.play) for kind in stores.FAULTS]
    found = []
    while local or own:
        found += [*local[:2], *own[:1]]
        local, own = local[2:], own[1:]
    return found


KINDS = _interleaved()


def end_all(place):
    """Kill all processes of a place, and return how many there were."""
    found = processes_of(place)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return len(found)


def strike(number, seed, kinds, cases, folder):
    """Let one fault strike, and return what came of it."""
    rng = np.random.default_rng([seed, number])
    turn, which = divmod(number, len(kinds))
    (kind, play), case = kinds[which], cases[(turn + which) % len(cases)]
    place = folder / str(number)
    place.mkdir()
    began = time.monotonic()
    try:
        row = play(kind, number, case, place, rng)
    except Exception as error:  # of the campaign itself: one fault, and not all of them
        row = Row(number, kind.__name__, "?", case.method, "BAD", "")
        last = traceback.extract_tb(error.__traceback__)[-1]
        row.bad = f"the campaign: {type(error).__name__}: {error} ({last.name}, {last.lineno})"
    finally:
        end_all(place)
    row.total, row.load = time.monotonic() - began, os.getloadavg()[0]
    row.keys = keys_noted(place / "keys.txt")[0]
    if row.bad and (kept := os.environ.get("DASKFC_CHAOS_KEPT")):
        with contextlib.suppress(shutil.Error):  # sockets
            shutil.copytree(place, Path(kept) / str(number), symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    return row


def options_of(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=3, help="faults at once, each waits mostly")
    parser.add_argument("--rows", type=Path, help="JSON lines; what is there is not done again")
    parser.add_argument("--only", default="", help="kinds of faults: FreezeParty,KillSite")
    parser.add_argument("--method", choices=NAMES, help="one method; all of them by default")
    return parser.parse_args(words)


def chosen(only):
    """Return the kinds whose names are listed; all of them for nothing."""
    names = [name for name in only.split(",") if name]
    known = {kind.__name__ for kind, _ in KINDS}
    if unknown := set(names) - known:
        raise SystemExit(f"no fault is called {', '.join(sorted(unknown))}; there are "
                         f"{', '.join(sorted(known))}")  # fmt: skip
    return [one for one in KINDS if not names or one[0].__name__ in names]


def _ended(*_):
    raise KeyboardInterrupt


def main():
    options = options_of()
    kinds = chosen(options.only)
    about = told_of(options)
    rows = read_rows(options.rows, about) if options.rows else []
    there = {row["number"] for row in rows}
    numbers = [number for number in range(options.faults) if number not in there]
    writing, stopped = threading.Lock(), threading.Event()
    # Its path is short: sockets lie in it.
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    bad = sum(bool(row["bad"]) for row in rows)
    # Runs would inherit what is ignored, as it is under nohup and in the background.
    signal.signal(signal.SIGHUP, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ended)

    def one(number):
        row = strike(number, options.seed, kinds, cases, folder)
        with writing:
            if stopped.is_set():
                return False
            print(row, flush=True)
            if options.rows:
                with options.rows.open("a") as file:
                    file.write(json.dumps(dataclasses.asdict(row)) + "\n")
        return bool(row.bad)

    pool, struck = ThreadPoolExecutor(options.jobs), []
    try:
        names = NAMES if options.method is None else [options.method]
        cases = cases_of(folder, names, options.jobs) if numbers else []
        for case in cases:
            print(f"{case.method} undisturbed: fits of {case.seconds:.1f} s", flush=True)
        if options.rows and numbers:
            with options.rows.open("a") as file:
                file.write(json.dumps(about) + "\n")
        print(HEADER, flush=True)
        struck = [pool.submit(one, number) for number in numbers]
        bad += sum(future.result() for future in struck)
    finally:
        stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in struck):
            end_all(folder)  # what they wait for, and what they start again
            time.sleep(0.2)
        pool.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{options.faults} faults, {bad} bad; a hang is more than {PATIENCE} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
