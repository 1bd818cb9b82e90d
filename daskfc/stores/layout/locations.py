"""Locate stores and sources: URLs of fsspec, environment variables, free space."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore

from daskfc.errors import DaskfcError, StoreAway, StoreError

_PATTERN = re.compile(r"[*?\[]")
_UNSET = re.compile(r"\$\{?(\w+)")


def expand(text: str) -> str:
    """Replace ``${NAME}`` and ``~`` in a path or URL; an unset variable raises StoreError."""
    expanded = os.path.expandvars(text)
    unset = _UNSET.search(expanded)
    if unset:
        raise StoreError(
            f"the path {text!r} names the environment variable {unset[1]}, which is not set; "
            f"set it or write the path out."
        )
    return os.path.expanduser(expanded)


def matching_files(path: str) -> list[str]:
    """Return the files that match a path with ``*``, ``?`` or ``[...]``, sorted, or the path."""
    if not _PATTERN.search(path):
        return [path]
    fs, inner = fsspec.core.url_to_fs(path)
    with reaching(path):
        own = fs.exists(inner)
        found = [] if own else sorted(str(name) for name in fs.glob(inner))
    if own:
        return [path]  # a file's own name
    if not found:
        raise StoreError(
            f"{path}: no file matches; correct source.path (relative paths start at the folder of "
            "the storage file, and in a command at the working directory)."
        )
    return found if local_path(path) is not None else [fs.unstrip_protocol(name) for name in found]


def resolve_url(url: str) -> str:
    """Return the absolute URL of a path or URL, ``file:///...`` if local, without a final slash."""
    text = expand(url)
    path = local_path(text)
    return text.rstrip("/") if path is None else f"file://{os.path.abspath(path)}"


def local_path(url: str) -> Path | None:
    """Return the path behind a local URL, or None for any other file system."""
    if url.startswith("file://"):
        return Path(url.removeprefix("file://"))
    return None if "://" in url else Path(url)


def filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path on it; StoreError if there is none."""
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        protocol = url.partition("://")[0]
        raise StoreError(
            f"{url}: the protocol {protocol!r} cannot be used here ({type(error).__name__}); "
            f"correct it, or install the package that reads it (daskfc[s3], daskfc[gs])."
        ) from error
    return fs, path


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn errors of a remote storage library into one sentence; errors of local files pass.

    StoreError for missing or refused credentials, else StoreAway; errors of the content pass.
    """
    try:
        yield
    except (DaskfcError, FileNotFoundError, NotADirectoryError):
        raise
    except Exception as error:
        if local_path(url) is not None:
            raise
        # Each protocol's library has errors of its own, and none of them need be installed.
        kind = type(error).__name__
        if isinstance(error, PermissionError) or "Credential" in kind or "Auth" in kind:
            raise StoreError(
                f"{url}: its place refuses or lacks credentials ({kind}). Set those of the "
                "protocol in the environment, or have the right to it granted."
            ) from error
        if isinstance(error, ValueError | KeyError | TypeError | RuntimeError):
            raise  # of the content
        raise StoreAway(
            f"{url}: its place does not answer ({kind}). See that the address is right and the "
            "network is there, and try again."
        ) from error


def files_of(url: str) -> list[str]:
    """Return the paths of all files below a URL, as they are now."""
    fs, path = filesystem(url)
    fs.invalidate_cache()
    with reaching(url):
        found = [str(key) for key in fs.find(path)]
    return found


def metadata_of(url: str) -> bytes:
    """Return the metadata file of a Zarr group, which differs after each writing."""
    fs, path = filesystem(url)
    return bytes(fs.cat_file(f"{path}/zarr.json"))


def zarr_store(url: str, *, read_only: bool) -> Store:
    """Return Zarr's store of a URL; raise for writing to one that fsspec reads as a pattern."""
    path = local_path(url)
    if path is not None:
        return LocalStore(path, read_only=read_only)
    if not read_only and _PATTERN.search(url):
        raise StoreError(
            f"{url}: a store that is not on this machine must have no *, ? or [ in its name, which "
            "would stand for other names. Choose another one."
        )
    filesystem(url)  # raises StoreError for unknown protocols
    return FsspecStore.from_url(url, read_only=read_only)


def free_bytes(url: str) -> int | None:
    """Return the free bytes at a local URL, which need not exist yet; None where not known."""
    path = local_path(url)
    if path is None:
        return None
    folder = path.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_space(url: str, needed: int, whose: str) -> None:
    """Raise if fewer than `needed` bytes (an upper bound, before compression) are free."""
    free = free_bytes(url)
    if free is not None and free < needed:
        raise StoreError(
            f"no space on disk for {whose}: up to {needed} bytes are needed at {url} and {free} "
            f"are free; free some or choose another root."
        )
