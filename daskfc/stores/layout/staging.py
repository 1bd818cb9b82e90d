"""Put a whole store in its place: temporary names, renames, and what killed builds leave."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import socket
from pathlib import Path

import psutil
import zarr

from daskfc.errors import StoreError
from daskfc.folders import flush, flush_tree
from daskfc.stores.layout.layout import FORMAT
from daskfc.stores.layout.locations import filesystem, local_path, reaching, resolve_url, zarr_store

_LIBC = ctypes.CDLL(None, use_errno=True)
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux


def store_exists(url: str) -> bool:
    """Return whether anything lies at a URL, complete or not.

    Examples
    --------
    >>> from daskfc.stores import store_exists
    >>> store_exists("memory://doc/nothing.zarr")
    False
    """
    fs, path = filesystem(resolve_url(url))
    fs.invalidate_cache()
    with reaching(url):
        found = bool(fs.exists(path))
    return found


def unfinished(url: str, storage_digest: str) -> bool:
    """Return whether a build of this storage file began to write a store and did not end."""
    store = zarr_store(resolve_url(url), read_only=True)
    try:
        with reaching(url):
            group = zarr.open_group(store, mode="r")
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return False  # nothing that daskfc began
    attributes = dict(group.attrs)
    ours = attributes.get("format") == FORMAT and attributes.get("complete") is False
    return ours and attributes.get("storage_digest") == storage_digest


def partial_name(url: str) -> str:
    """Return a temporary URL beside a store's; it names host and process, for `sweep`."""
    folder, _, name = url.rpartition("/")
    maker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    return f"{folder}/.{name}.partial-{maker}"


def sweep(path: Path) -> None:
    """Remove what killed processes of this host left at a path; put a set-aside store back."""
    for aside in path.parent.glob(f".{path.name}.replaced-*"):
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(path)
    host = f"{socket.gethostname()}-"
    for left in path.parent.glob(f".{path.name}.partial-{host}*"):
        pid = left.name.rpartition(host)[2].partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def put_in_place(staged: str, url: str) -> None:
    """Rename a complete store, on one file system, to its URL; remove the old one only then."""
    target = local_path(url)
    if target is not None:
        _replace_folder(Path(str(local_path(staged))), target)
    else:
        _replace_keys(staged, url)


def _replace_folder(staged: Path, target: Path) -> None:
    """Rename a whole store to its place; what was there is removed last."""
    if not target.exists():
        staged.rename(target)
        return
    flush_tree(staged)  # before the rename, after which nothing else has the old rows
    old = staged
    if not _exchanged(staged, target):
        old = target.with_name(f".{target.name}.replaced-{secrets.token_hex(4)}")
        target.rename(old)
        try:
            staged.rename(target)
        except OSError:
            old.rename(target)
            raise
    flush(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap the names of two folders at once; return whether the system could."""
    exchange = getattr(_LIBC, "renameat2", None)
    if exchange is None:
        return False
    if not exchange(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):  # of this file system
        return False
    raise OSError(number, os.strerror(number), str(other))


def _replace_keys(staged: str, url: str) -> None:
    """Copy a store over another where nothing can be renamed, its mark ``zarr.json`` last."""
    fs, target = filesystem(url)
    _, source = filesystem(staged)
    mark = f"{source}/zarr.json"
    try:
        fs.rm_file(f"{target}/zarr.json")
        fs.rm(target, recursive=True)
        for key in sorted(fs.find(source), key=lambda key: str(key) == mark):
            fs.cp_file(key, target + str(key)[len(source) :])
    except OSError as error:
        raise StoreError(
            f"{url}: the new store could not be put in place ({type(error).__name__}); it is whole "
            f"at {staged}, move it by hand."
        ) from error
    fs.rm(source, recursive=True)


def remove(url: str) -> None:
    """Remove a store, whole or not, if it is there."""
    path = local_path(url)
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)
        return
    fs, inner = filesystem(url)
    if fs.exists(inner):
        fs.rm(inner, recursive=True)
