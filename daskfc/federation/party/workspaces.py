"""Folders of runs in a party's own workspace: ``runs/<run>/``, and in it one for each start.

A run's name and its starts' ids came from the submitter: they are names of folders and nothing
else (`RunSettings`), and no link leads out of the workspace. Of two submitters with one name each
finds its own starts there.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from daskfc.folders import make_private, remove_at_once

LEDGER, LOG = "ledger.jsonl", "party.log"
WORK = "work-"
"""What the names of a server's folders begin with that a resumed run finds again."""

_RUNS, _UNNAMED = "runs", "unnamed"
_REMOVED = ".removed-"  # no run's name begins with a dot


def _folder_of_run(base: str, run: str) -> Path:
    return Path(base) / _RUNS / (run or _UNNAMED)


def folder_of_start(base: str, run: str, run_id: str) -> Path:
    """Return a party's folder for one start of a run."""
    return _folder_of_run(base, run) / run_id


def folder_of_work(base: str, run: str, workspace: str, submitter: str | None) -> Path:
    """Return the server's folder for a run's work, the same for every start of the run."""
    return _folder_of_run(base, run) / f"{_of_run(workspace, submitter)}{_digest(workspace)}"


def folders_of_work(base: str, run: str, workspace: str, submitter: str | None) -> list[Path]:
    """Return the server's folders for all work of the run that a workspace belongs to."""
    found = _folder_of_run(base, run).glob(f"{_of_run(workspace, submitter)}*")
    return sorted(folder for folder in found if not _is_link(folder))


def folders_of_client(base: str) -> list[Path]:
    """Return a client's folders of starts: each has its own, which no other finds."""
    earlier = Path(base).glob(f"*/{LEDGER}")  # of versions without folders of runs
    found = [*earlier, *Path(base).glob(f"{_RUNS}/*/*/{LEDGER}")]
    return sorted(ledger.parent for ledger in found if not _is_link(ledger.parent))


def _of_run(workspace: str, submitter: str | None) -> str:
    return f"{WORK}{_digest(str(Path(workspace).parent), submitter)}-"


def _digest(*words: str | None) -> str:
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def _is_link(folder: Path) -> bool:
    return folder.is_symlink() or folder.parent.is_symlink()


def enter(folder: Path) -> None:
    """Make the folder of a start; OSError where a link in its place leads elsewhere."""
    if _is_link(folder):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    make_private(folder)


def empty(folders: Iterable[Path]) -> None:
    """Remove what is in folders of starts, but for ledgers and logs."""
    for folder in folders:
        for left in folder.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            elif left.name not in (LEDGER, LOG):
                with suppress(OSError):
                    left.unlink()


def remove_old_runs(base: str, keep: int, under_way: Path) -> None:
    """Keep the folders of the newest runs; also that of a start, and what a resumed run needs."""
    root = Path(base) / _RUNS
    with suppress(OSError):  # as of a disk that is away, which the ledger tells of
        for left in root.glob(f"{_REMOVED}*"):  # by a process that was ended meanwhile
            shutil.rmtree(left, ignore_errors=True)
        runs = [one for one in root.iterdir() if one.is_dir() and not one.is_symlink()]
        for old in sorted(runs, key=_last_used, reverse=True)[keep:]:
            if not (old.samefile(under_way.parent) or _is_needed(old)):
                remove_at_once(old, _REMOVED)


def _last_used(run: Path) -> float:
    return max((one.stat().st_mtime for one in run.glob(f"*/{LEDGER}")), default=0.0)


def _is_needed(run: Path) -> bool:
    """Return whether a server has more of a run than ledgers and logs: it did not end."""
    return any(one.name not in (LEDGER, LOG) for one in run.glob(f"{WORK}*/*"))
