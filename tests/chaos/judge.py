"""What came of a fault: the run is followed to its end, and what must never be is looked for."""

import contextlib
import dataclasses
import os
import re
import signal
import time
from collections import defaultdict
from pathlib import Path

import psutil

from daskfc.errors import DaskfcError
from daskfc.runs import list_runs, status_of
from daskfc.runs.outcome.folder import RunFolder
from daskfc.site import SiteState
from tests.chaos.cases import DELTA, labels_of, one_at_a_time

RESUMES = 3  # a busy machine may break a run off again, which must then say so again
LATER = os.EX_TEMPFAIL
_BEGUN = re.compile(r"\.partial-|\.labels-|\.claim$|\.ledger\.parquet|\.(run|summary)\.json-")
# What stays in a client's workspace: what it wrote of the run, and what it remembers of all.
_KEPT = re.compile(r"(ledger\.jsonl|party\.log|.*\.key|state\.sqlite.*|filler)$")


@dataclasses.dataclass
class Row:
    """What came of one fault.

    Attributes
    ----------
    number : int
        Of the fault, which with the seed decides all that chance does.
    fault, party, method : str
        What struck whom, in a run of which method.
    outcome : str
        done, resumed, refused, too late, skipped, or BAD.
    said : str
        The last sentence.
    seconds : float
        From the fault to the end of the run that it struck.
    total : float
        Of all of it, starts and checks too.
    load : float
        Of the machine at the end.
    keys : int
        Of masks, shares and noise that were noted.
    bad : str
        What is wrong; empty for nothing.
    """

    number: int
    fault: str
    party: str
    method: str
    outcome: str = ""
    said: str = ""
    seconds: float = 0.0
    total: float = 0.0
    load: float = 0.0
    keys: int = 0
    bad: str = ""

    def __str__(self):
        wrong = self.bad and f"  !! {self.bad}"
        return (
            f"{self.number:4} {self.fault:19} {self.party:13.13} {self.method:13.13} "
            f"{self.seconds:6.1f} {self.total:6.1f} {self.outcome:8} {self.said[:100]}{wrong}"
        )


class Wrong(Exception):
    """Something that must never be."""


def broke_off(run, code):
    """Return whether a run can go on, by what its end says; raise Wrong for an end that is none."""
    if code == -signal.SIGKILL or (code < 0 and status_of(run.folder)["state"] == "done"):
        return True  # in the last moment a process listens to no signal any more
    said = run.sentence()
    if not said:
        raise Wrong(f"no sentence, exit code {code}")
    return "Resume with" in said or (code == LATER and run.folder.exists())


def _is_done(sentence):
    """Return whether a run says that it is done: as it is interrupted, or when it is resumed."""
    return "the run is done" in sentence.lower()


def follow(fault, run):
    """Follow a run from the fault to its end, and to the end of its resumption; return how."""
    struck, resumes = time.monotonic(), 0
    code = run.wait()
    fault.seconds = time.monotonic() - struck
    while code:
        fault.told.append("killed" if code < 0 else run.sentence())
        if _is_done(fault.told[-1]):
            break
        if code == LATER and not run.folder.exists():
            again = run.start_again  # nothing was started
        elif broke_off(run, code):
            again = run.resume
        else:
            break
        if resumes == RESUMES:
            raise Wrong("cannot be resumed")
        if not resumes:
            fault.repair()
        resumes += 1
        again()
        code = run.wait()
    if code is None:
        raise Wrong("hangs")
    if code and not _is_done(fault.told[-1]):
        if not (fault.may_refuse or run.case.may_refuse):
            raise Wrong("cannot go on" if resumes else "no way to go on")
        return "refused"
    if not run.case.same(labels_of(run.folder)):
        raise Wrong("other labels")
    if resumes and fault.survives and not fault.told[0].count("has been away"):
        raise Wrong("should have survived")
    return "resumed" if resumes and not code else "done"  # it was done when the fault struck


# -- what must never be -----------------------------------------------------------------------


def keys_noted(file):
    """Return how many keys of masks, shares and noise were noted, and how many hid two arrays."""
    arrays = defaultdict(set)
    if file.exists():
        for line in file.read_text().splitlines():
            use, key, content = line.split(" ")
            arrays[use, key].add(content)
    return len(arrays), sum(len(found) > 1 for found in arrays.values())


def processes_of(place):
    """Return the processes whose TMPDIR is that of a fault's place."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(f"{place}/"):
                found.append(process)
    return found


def _waited(look, seconds):
    """Look until nothing is found any more or the time is up, and return what is."""
    ends = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < ends:
        time.sleep(0.2)
    return found


def left_in(temporary, *, swept=False):
    """Return what is left of temporary files, with those that the next process sweeps or not."""
    return [
        file.name
        for file in temporary.iterdir()
        # onnxruntime writes the identity of its session there, once for all of a user's processes.
        if file.name != ".ses" and not (swept and (file / ".owner").exists())
    ]


def check_left_behind(place, *, swept=False):
    """Raise Wrong for processes or temporary files that are left."""
    if alive := _waited(lambda: processes_of(place), 60):
        raise Wrong(f"left behind: processes {', '.join(_named(one) for one in alive)}")
    # The last process sweeps as it ends.
    if files := _waited(lambda: left_in(place / "t", swept=swept), 10):
        raise Wrong(f"left behind: {', '.join(sorted(files))}")


def _named(process):
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} ({' '.join(process.cmdline())[:60]})"
    return str(process.pid)


def check_folder(run, outcome):
    """Raise Wrong for a run's folder that cannot be read, or says what is not so."""
    if not (run.folder / "run.json").exists():
        return
    try:
        with one_at_a_time:
            state = status_of(run.folder)["state"]
            listed = list_runs(run.runs)["state"].tolist()
            folder = RunFolder(run.folder)
            if state == "done":
                folder.read_labels()
                folder.read_ledger()
    except DaskfcError as error:
        if outcome == "refused":
            return  # which the sentence said
        raise Wrong(f"the run's folder: {error}") from None
    ends = {"refused": {"failed", "broke off"}}.get(outcome, {"done"})
    if state not in ends or listed != [state]:
        raise Wrong(f"the run's folder says {state!r}, the list of runs {listed}")
    left = [path.name for path in run.folder.iterdir() if _BEGUN.search(path.name)]
    left += [name for name in ("work", "fits") if state == "done" and (run.folder / name).exists()]
    if left:
        raise Wrong(f"left in the run's folder: {', '.join(left)}")


def check_run(run, outcome, *, digest=None):
    """Raise Wrong for what must never be of a run that has ended, whatever struck it."""
    if "Traceback" in run.said():
        raise Wrong("traceback")
    check_folder(run, outcome)
    if n := keys_noted(run.place / "keys.txt")[1]:
        raise Wrong(f"{n} keys of masks or noise hid two arrays each")
    if digest is not None and run.case.digest() != digest:
        raise Wrong("a store was changed")


# -- sites: what a party keeps ----------------------------------------------------------------


def spent_at(workspaces):
    """Return the epsilon that was spent of each data set, by file of a site's memory."""
    found = {}
    for path in sorted(Path(workspaces).glob("*-files/state.sqlite")):
        state = SiteState(path, new=False)
        for dataset in state.datasets():
            found[path, dataset] = state.spent(dataset).epsilon(DELTA)
    return found


def check_spent(before, after):
    """Raise Wrong where less is spent than was before."""
    for place, epsilon in before.items():
        if after.get(place, 0.0) < epsilon:
            raise Wrong(f"the budget of {place[0].parent.name} was reset")


def check_workspaces(workspaces, *, done=False):
    """Raise Wrong for files that only a run under way needs.

    A server keeps what it has in case the run is resumed, until it is told that the run is done.
    """
    left = [
        f"{path.relative_to(workspaces)}"
        for path in Path(workspaces).glob(f"{'*' if done else 'client-*'}-files/**/*")
        if path.is_file() and not _KEPT.search(path.name)
    ]
    if left:
        raise Wrong(f"left in workspaces: {', '.join(left[:5])}")
