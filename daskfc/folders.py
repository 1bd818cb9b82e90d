"""Folders and files of parties and runs: valid names, permissions, and flushing to the disk.

A rename may reach the disk before the file's bytes do, so that a crash leaves an empty file or
zeros: files are flushed first.
"""

import logging
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from daskfc.errors import InvalidInput

_LONGEST_NAME = 200  # bytes; file systems take 255, and files made in passing add to a name
_RESERVED = frozenset('/\\:*?"<>|')


def check_folder_name(what: str, name: object) -> None:
    """Raise for a name that some file system refuses for a folder, or that begins with a dot."""
    if (
        not isinstance(name, str)
        or not name
        or name.startswith(".")
        or not name.isprintable()
        or _RESERVED & set(name)
        or len(name.encode()) > _LONGEST_NAME
    ):
        raise InvalidInput(
            f"the name of a {what} must be usable as the name of a folder, and not begin with a "
            f"dot; got {name!r}. Choose another."
        )


def below(folder: str, path: str) -> str:
    """Return a path that starts at a folder; `..` leaves the folder to which a link leads."""
    parts = path.split(os.sep)
    up = len(parts) - parts[::-1].index(os.pardir) if os.pardir in parts else 0
    start = os.path.join(os.path.abspath(folder), os.sep.join(parts[:up]))
    # what follows is as it is written: a link to a file keeps its own name
    rest = os.sep.join(parts[up:])
    return os.path.normpath(os.path.join(os.path.realpath(start) if up else start, rest))


def make_private(path: str | os.PathLike[str]) -> Path:
    """Make a folder and missing ones above it, for their owner only; existing ones stay as is."""
    folder = Path(path)
    for one in (*reversed(folder.absolute().parents), folder):
        one.mkdir(mode=0o700, exist_ok=True)
    return folder


def check_place(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raise for a path that `write_private` could not write, as far as that can be known before."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise InvalidInput(
            f"{target}: a file is there and is not written over. Choose another, or give "
            "--overwrite."
        )
    if target.is_dir() or not (target.parent.is_dir() and os.access(target.parent, os.W_OK)):
        raise InvalidInput(f"{target}: cannot be written there. Choose another place.")


def write_private(
    path: str | os.PathLike[str], data: bytes, *, overwrite: bool = False, mode: int = 0o600
) -> None:
    """Write an owner-only file, all or nothing; raise if one exists, unless `overwrite`."""
    check_place(path, overwrite=overwrite)
    target = Path(path)
    try:
        write_whole(target, data, mode=mode)
    except OSError as error:
        raise InvalidInput(
            f"{target}: cannot be written ({error.strerror}). Choose another place."
        ) from None


def write_whole(target: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file over what is there, all of it or nothing."""
    with _partial(target, data) as partial:
        os.chmod(partial, mode)
        os.replace(partial, target)
    flush(target.parent)


def remove_at_once(folder: Path, prefix: str) -> None:
    """Remove a folder under another name: what is half removed must not look like one."""
    gone = folder.with_name(f"{prefix}{uuid.uuid4().hex}")
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def write_once(path: str | os.PathLike[str], data: bytes) -> bool:
    """Write an owner-only file, all or nothing; if one exists, keep it and return False."""
    target = Path(path)
    with _partial(target, data) as partial:
        try:
            os.link(partial, target)
        except FileExistsError:
            return False
    flush(target.parent)
    return True


@contextmanager
def _partial(target: Path, data: bytes) -> Iterator[Path]:
    """Write and flush a file beside its place; remove it in the end if it is still there."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")  # 0600
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield partial
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield an owner-only folder that takes its name when it is whole; OSError if that is taken."""
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        yield partial
        flush_tree(partial)
        partial.rename(target)
        flush(target.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def flush(path: str | os.PathLike[str]) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_tree(folder: str | os.PathLike[str]) -> None:
    """Wait until a folder and everything below it is on the disk."""
    for below, _, files in os.walk(folder):
        for name in files:
            flush(Path(below) / name)
        flush(below)


class PrivateLog(logging.FileHandler):
    """An owner-only log, as errors may quote values; failed writes are ignored."""

    def __init__(self, path: str | os.PathLike[str], *, delay: bool = False) -> None:
        super().__init__(path, encoding="utf-8", delay=delay, errors="backslashreplace")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def _open(self) -> Any:
        return open(
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            errors=self.errors,
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless the file cannot be made."""
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Report a record that failed, but not for lack of disk or memory."""
        if not isinstance(sys.exception(), (OSError, MemoryError)):
            super().handleError(record)

    def close(self) -> None:
        """Close the file, even if its last records cannot be written."""
        with suppress(OSError):
            super().close()
