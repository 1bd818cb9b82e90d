"""The digest of a message's content, by which its sender and its receiver name the same one.

What ledgers hold is the digest of that digest and of a salt, which travels with the message and is
in no ledger: who reads the ledgers of others cannot try out what a small message said.
"""

import hashlib
import secrets
import struct
from typing import Any

import numpy as np

from daskfc.federation.messages import Message, content_of, declared_fields

__all__ = ["content_digest", "new_salt", "salted"]


def content_digest(message: Message) -> str:
    """Return the SHA-256 of a message's class and of its fields: names, types, shapes and values.

    Parameters
    ----------
    message : Message
        As it is sent or as it arrived: its arrays are read where they lie, in C order.

    Returns
    -------
    str
        64 hexadecimal digits, the same at both ends.

    Notes
    -----
    SHA-256 is the fastest of hashlib's safe hashes where the processor has instructions for it.
    Privacy: whoever can guess the content can compare it with the digest; see `salted`.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation.digests import content_digest
    >>> from daskfc.federation.messages import Message, array
    >>> class Sizes(Message, route="client → server", reveals="sizes"):
    ...     counts: np.ndarray = array("n", dtype="int64")
    >>> one, other = Sizes(np.array([3, 5])), Sizes(np.array([3, 6]))
    >>> content_digest(one) == content_digest(other)
    False
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
    """Return the digest of a salt and of a content's digest, as ledgers have it.

    Parameters
    ----------
    digest : str
        From `content_digest`.
    salt : str
        From `new_salt`; known to the sender and to the receiver.

    Examples
    --------
    >>> from daskfc.federation.digests import salted
    >>> salted("00" * 32, "00" * 16)[:16]
    '17b0761f87b081d5'
    """
    return hashlib.sha256(bytes.fromhex(salt) + bytes.fromhex(digest)).hexdigest()


def _put(digest: Any, *parts: Any) -> None:
    """Add parts with their lengths, so that no two sequences of parts are the same bytes."""
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


def _bytes_of(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)  # copies nothing in C order
