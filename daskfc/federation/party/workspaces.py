"""Folders of runs in a party's own workspace: finding and emptying them."""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

__all__ = ["LEDGER", "empty", "folder_of_work", "folders_of_client", "folders_of_run"]

LEDGER = "ledger.jsonl"


def folder_of_work(base: str, workspace: str) -> Path:
    """Return the server's folder for a run's work, the same for every start of the run."""
    return Path(base) / f"{_of_run(workspace)}{_name(workspace)}"


def folders_of_run(base: str, workspace: str) -> list[Path]:
    """Return the server's folders for all work of the run that a workspace belongs to."""
    return sorted(Path(base).glob(f"{_of_run(workspace)}*"))


def folders_of_client(base: str) -> list[Path]:
    """Return a client's folders of runs: every start has its own, which no other finds."""
    return sorted(ledger.parent for ledger in Path(base).glob(f"*/{LEDGER}"))


def _of_run(workspace: str) -> str:
    return f"work-{_name(str(Path(workspace).parent))}-"


def _name(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def empty(folders: Iterable[Path]) -> None:
    """Remove what is in folders of runs, but for files such as ledgers and logs."""
    for folder in folders:
        for left in folder.iterdir():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
