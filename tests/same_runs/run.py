"""Run every pipeline on every storage with an old and a new commit, and compare what comes out.

``python tests/same_runs/run.py OLD [NEW]``; NEW is the working tree if not given. Each side is a
copy of its tree in a temporary folder, with stores of its own. Every pair of a file of pipelines/
and one of storage/ is run by ``daskfc run`` with the same seeds, then every method that has no
pipeline of its own, on iris or wine. A line a pair says whether labels, stores, scores and all
messages with their payload bytes are the same; bytes on the wire hold names and are only told.
Pairs that do not fit must be refused with the same sentence. Fails on any difference.

Messages are compared by class: one that has another name now is listed in `compare.RENAMED`.
"""

import argparse
import fnmatch
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutations.run import ROOT
from tests.same_runs.cases import Case, file_cases, method_cases
from tests.same_runs.compare import compare_runs
from tests.same_runs.sides import TIMED_OUT, Outcome, Side

SAME, REFUSED, FAILED, DIFFERS, SKIPPED = "same", "same refusal", "same end", "DIFFERS", "skipped"
MOST = 12  # differences that are told of a pair


@dataclass(frozen=True)
class Verdict:
    """What is told of a case."""

    case: Case
    kind: str
    lines: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()

    def __str__(self) -> str:
        times = " ".join(f"{s:5.0f} s" for s in self.seconds)
        head = f"{self.kind:13}{self.case.name:36}{times:16}"
        return "\n".join(
            [f"{head}{''.join(self.lines[:1])}", *(f"{'':13}{x}" for x in self.lines[1:])]
        )


def judge(case: Case, old: Outcome, new: Outcome) -> Verdict:
    """Compare how a case ended on both sides, and what it wrote."""
    seconds = (old.seconds, new.seconds)
    ends = [(end.code, end.sentence if end.code else "") for end in (old, new)]
    if TIMED_OUT in (old.code, new.code):
        lines = (f"exit of OLD: {old.code}, of NEW: {new.code}; see --timeout",)
        return Verdict(case, DIFFERS, lines, seconds)
    if ends[0] != ends[1]:
        lines = tuple(
            f"{side} exits with {code}{f': {said}' if said else ''}"
            for side, (code, said) in zip(("OLD", "NEW"), ends, strict=True)
        )
        return Verdict(case, DIFFERS, lines, seconds)
    if old.code:
        kind = DIFFERS if case.must_run else REFUSED if old.code == 2 else FAILED
        said = f"neither side runs: {old.sentence}" if case.must_run else old.sentence[:110]
        return Verdict(case, kind, (said,), seconds)
    try:
        found = compare_runs(old.folder, new.folder, noisy=case.noisy)
    except (OSError, KeyError, ValueError) as error:  # a file's form is another
        said = f"what they wrote cannot be compared: {type(error).__name__}: {error}"
        return Verdict(case, DIFFERS, (said,), seconds)
    kind = DIFFERS if found.differences else SAME
    lines = found.differences[:MOST]
    if (left := len(found.differences) - MOST) > 0:
        lines.append(f"and {left} more")
    return Verdict(case, kind, (*lines, *found.notes), seconds)


def data_folder() -> Path | None:
    """Return the folder of data sets: DASKFC_DATA, or shared/data beside the checkout."""
    named = os.environ.get("DASKFC_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder.resolve() if folder.is_dir() else None


def compare_all(arguments: argparse.Namespace, folder: Path) -> list[Verdict]:
    """Run and compare all chosen cases, telling each as soon as it is done."""
    data = data_folder()
    old = Side(folder / "old", arguments.old, data)
    new = Side(folder / "new", arguments.new, data)
    cases = file_cases(old.tree, new.tree, data, arguments.all) + method_cases()
    cases = [c for c in cases if any(fnmatch.fnmatch(c.name, only) for only in arguments.only)]
    chosen = [case for case in cases if not case.skip]
    for storage in dict.fromkeys(case.storage for case in chosen):
        for side in (old, new):
            side.build(storage, arguments.timeout)

    def one(case: Case) -> Verdict:
        if case.skip:
            return Verdict(case, SKIPPED, (case.skip,))
        ends = [side.run(case, arguments.set, arguments.timeout) for side in (old, new)]
        verdict = judge(case, *ends)
        if verdict.kind == SAME:
            for side in (old, new):
                side.forget(case)
        return verdict

    verdicts = []
    pool = nullcontext() if arguments.jobs == 1 else ThreadPoolExecutor(arguments.jobs)
    with pool as threads:
        for verdict in map(one, cases) if threads is None else threads.map(one, cases):
            print(verdict, flush=True)
            verdicts.append(verdict)
    return verdicts


def parsed(words: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", metavar="OLD", help="a commit")
    parser.add_argument(
        "new", metavar="NEW", nargs="?", help="a commit; the working tree if not given"
    )
    parser.add_argument(
        "--only", metavar="GLOB", action="append",
        help="pairs, as 'fedsc/*', '*/iris' or 'method-*'; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[],
        help="passed on to every run, as 'seeds=[0]'; may be given several times",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="pairs at once")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a run")
    parser.add_argument("--all", action="store_true", help="the big storages, too")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER",
        help="a new folder for the copies and for runs that differ, which stays",
    )  # fmt: skip
    arguments = parser.parse_args(words)
    arguments.only = arguments.only or ["*"]
    if arguments.keep is not None and arguments.keep.exists():
        parser.error(f"--keep {arguments.keep} is there already; name another.")
    return arguments


def main(words: list[str] | None = None) -> int:
    """Print a line a pair; return 1 when any differs, 2 when none was compared."""
    arguments = parsed(words)
    began = time.monotonic()
    place = (
        tempfile.TemporaryDirectory(prefix="daskfc-same-")
        if arguments.keep is None
        else nullcontext(str(arguments.keep.resolve()))
    )
    with place as folder:
        verdicts = compare_all(arguments, Path(folder))
    counts = Counter(verdict.kind for verdict in verdicts)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in dict.fromkeys(v.kind for v in verdicts))
    print(f"{told}; {(time.monotonic() - began) / 60:.1f} minutes")
    if not set(counts) - {SKIPPED}:
        return 2
    return int(counts[DIFFERS] > 0)


if __name__ == "__main__":
    sys.exit(main())
