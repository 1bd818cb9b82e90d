"""A party's secret that outlives its processes, kept in a file of its own folder."""

import hashlib
import os
from pathlib import Path

from daskfc.coding.residues.streams import SecretKey
from daskfc.folders import make_private, write_once

_NAME = "secret.key"


def durable_secret(folder: str | os.PathLike[str]) -> SecretKey:
    """Return the secret in a party's own folder, drawn when there is none.

    It is for what a resumed run must find again, such as tags of unchanged samples; never for masks
    or noise, which no two starts may share.
    """
    path = make_private(folder) / _NAME
    was_there = path.exists()
    kept = _read(path)
    if kept is None:
        if was_there:  # torn by a crash
            path.unlink(missing_ok=True)
        key = SecretKey.from_os().to_bytes()
        write_once(path, key + hashlib.sha256(key).digest())  # or another step drew it meanwhile
        kept = _read(path)
    assert kept is not None, path.name
    return kept


def _read(path: Path) -> SecretKey | None:
    """Return the key of a file that is whole, or None."""
    content = path.read_bytes() if path.exists() else b""
    key, digest = content[:32], content[32:]
    return SecretKey.from_bytes(key) if hashlib.sha256(key).digest() == digest else None
