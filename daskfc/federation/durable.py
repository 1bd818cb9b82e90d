"""Files that are still there after a crash of the machine: flushed before anything relies on them.

A rename may reach the disk before the bytes of the file do, which is then empty or full of zeros.
"""

import os
from pathlib import Path

__all__ = ["flush", "flush_tree"]


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk.

    Parameters
    ----------
    path : path-like
        An existing file or folder.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_tree(folder: str | os.PathLike[str]) -> None:
    """Wait until a folder and everything below it is on the disk.

    Parameters
    ----------
    folder : path-like
        An existing folder.
    """
    for below, _, files in os.walk(folder):
        for name in files:
            flush(Path(below) / name)
        flush(below)
