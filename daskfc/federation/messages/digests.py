"""The digest of a message's content, by which its sender and its receiver name the same one.

Ledgers hold the digest of that digest and of a salt, which travels with the message and is in no
ledger, so that a reader of ledgers cannot test guesses of a small message.
"""

import hashlib
import secrets
import struct
from typing import Any

import numpy as np

from daskfc.federation.messages.declaration import Message, content_of, declared_fields


def content_digest(message: Message) -> str:
    """Return the SHA-256, in hex, of a message's class and fields: names, types, shapes, values.

    Privacy: whoever can guess the content can compare it; ledgers therefore hold it `salted`.
    """
    digest = hashlib.sha256()
    names = [name for name, _, _ in declared_fields(type(message))]
    _put(digest, type(message).__name__.encode(), len(names).to_bytes(8, "little"))
    for name, value in zip(names, content_of(message), strict=True):
        _put(digest, name.encode())
        if isinstance(value, np.ndarray):
            shape = ",".join(map(str, value.shape))
            _put(digest, b"array", value.dtype.str.encode(), shape.encode(), _bytes_of(value))
        elif isinstance(value, float):
            _put(digest, b"real", struct.pack("<d", value))  # tells -0.0 and every NaN apart
        else:
            _put(digest, b"text" if isinstance(value, str) else b"integer", str(value).encode())
    return digest.hexdigest()


def new_salt() -> str:
    """Return 128 random bits as hexadecimal digits."""
    return secrets.token_hex(16)


def salted(digest: str, salt: str) -> str:
    """Return the SHA-256, in hex, of a salt that both ends know and of a content's digest."""
    return hashlib.sha256(bytes.fromhex(salt) + bytes.fromhex(digest)).hexdigest()


def _put(digest: Any, *parts: Any) -> None:
    """Add parts with their lengths, so that no two sequences of parts are the same bytes."""
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def _bytes_of(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)  # copies nothing in C order
