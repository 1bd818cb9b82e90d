"""Folders for what parties write while they run, removed with them, however they end."""

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TextIO

_OWNER = ".owner"  # held by the process that the folder belongs to
_LAST = -200  # multiprocessing removes its own files in there at -100, and must find them


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a new folder that is removed in the end."""
    folder = tempfile.mkdtemp(dir=own_folder())
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def own_folder() -> Path:
    """Return the folder of this process, removed at its exit; a killed one's is swept later."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix="daskfc-"))
    lock = (folder / f"{_OWNER}.new").open("w")
    with contextlib.suppress(OSError):  # a file system without locks is never swept
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / f"{_OWNER}.new").rename(folder / _OWNER)  # held before anybody can find it
    Finalize(None, _remove, (folder, lock), exitpriority=_LAST)
    return folder


os.register_at_fork(after_in_child=own_folder.cache_clear)


def _remove(folder: Path, lock: TextIO) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def sweep() -> None:
    """Remove the folders of processes that were killed; those of living ones are held."""
    for held in Path(tempfile.gettempdir()).glob(f"daskfc-*/{_OWNER}"):
        with contextlib.suppress(OSError), held.open("r+") as lock:
            if os.fstat(lock.fileno()).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(held.parent, ignore_errors=True)
