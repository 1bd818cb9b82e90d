"""Secret keys, keys derived from them, and exactly uniform random numbers (AES-CTR, HKDF)."""

import os
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import DTypeLike, NDArray

from daskfc.coding.residues.compiled import rejected
from daskfc.coding.residues.scratch import scratch
from daskfc.errors import InvalidInput

_KEY_BYTES = 32
_ZEROS = memoryview(bytes(1 << 17))  # AES-CTR of zeros is the key stream
_CHUNK_WORDS = 1 << 17  # ours: a chunk of words and its residues stay in a 1 MiB L2 cache


def _expand(key: bytes, info: bytes, length: int) -> bytes:
    return HKDFExpand(hashes.SHA256(), length, info).derive(key)


def _label_bytes(labels: tuple[str | int, ...]) -> bytes:
    """Encode labels so that different tuples give different bytes: type, length, content."""
    parts = [b"daskfc.derive"]
    for label in labels:
        kind = b"s" if isinstance(label, str) else b"i"
        content = str(label).encode()
        parts.append(kind + len(content).to_bytes(4, "little") + content)
    return b"".join(parts)


class SecretKey:
    """A secret of 256 bits whose `repr` hides it; see `from_os` and `derive`.

    By HKDF-SHA256 (expand only: the key is uniform) derived keys, streams and the fingerprint
    reveal nothing of it or each other. Pickling serves a party's own processes.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise InvalidInput(f"a SecretKey must have {_KEY_BYTES} bytes; got {len(key)}.")
        self._key = bytes(key)

    @classmethod
    def from_os(cls) -> "SecretKey":
        """Return a fresh key from the operating system's generator."""
        return cls(os.urandom(_KEY_BYTES))

    @classmethod
    def from_bytes(cls, key: bytes) -> "SecretKey":
        """Return the key that `to_bytes` wrote."""
        return cls(key)

    def to_bytes(self) -> bytes:
        """Return the 32 secret bytes of the key."""
        return self._key

    def derive(self, *labels: str | int) -> "SecretKey":
        """Return the key of one purpose; different labels give independent keys."""
        return SecretKey(_expand(self._key, _label_bytes(labels), _KEY_BYTES))

    def stream(self) -> "KeyStream":
        """Return the key's stream, from its beginning."""
        return KeyStream(_expand(self._key, b"daskfc.stream", 2 * _KEY_BYTES))

    def fingerprint(self) -> int:
        """Return 63 bits that identify the key and do not reveal it."""
        return int.from_bytes(_expand(self._key, b"daskfc.fingerprint", 8), "little") >> 1

    def __repr__(self) -> str:
        return "SecretKey(hidden)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (SecretKey, (self._key,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKey) and other._key == self._key

    def __hash__(self) -> int:
        return self.fingerprint()


@lru_cache(maxsize=256)
def word_dtype(p: int) -> np.dtype[np.unsignedinteger]:
    """Return the dtype of words from which residues modulo p are drawn: 8 or more bits wider."""
    for bits, dtype in ((8, np.uint16), (24, np.uint32), (56, np.uint64)):
        if p <= 1 << bits:
            return np.dtype(dtype)
    raise InvalidInput(f"numbers are drawn modulo at most 2**56; got {p}.")


@lru_cache(maxsize=256)
def word_limit(p: int) -> int:
    """Return the number of words accepted: the largest multiple of p that words can reach."""
    size: int = 1 << (8 * word_dtype(p).itemsize)
    return size - size % p


class KeyStream:
    """AES-256-CTR key streams (main and spare, 64 bytes of keys), and exactly uniform residues.

    Number i is word i of the main stream if below `word_limit`, else the next acceptable word of
    the spare stream, modulo p: exactly uniform, and the same whether drawn at once or in pieces.
    """

    def __init__(self, keys: bytes) -> None:
        zero = bytes(16)  # each key makes one stream only, so the counter may start at zero
        self._main, self._spare = (
            Cipher(algorithms.AES(key), modes.CTR(zero)).encryptor()
            for key in (keys[:_KEY_BYTES], keys[_KEY_BYTES:])
        )

    def bytes(self, n: int) -> bytes:
        """Return the next n bytes of the main stream."""
        return self._main.update(bytes(n))

    def fill(self, out: NDArray[np.unsignedinteger]) -> None:
        """Overwrite a contiguous array with the next bytes of the main stream."""
        raw = out.reshape(-1).view(np.uint8).data
        for start in range(0, len(raw), _ZEROS.nbytes):
            part = raw[start : start + _ZEROS.nbytes]
            self._main.update_into(_ZEROS[: part.nbytes], part)

    def words(self, p: int, out: NDArray[np.unsignedinteger]) -> None:
        """Fill `out` with words uniform on [0, word_limit(p)), not yet reduced modulo p."""
        self.fill(out)
        flat = out.reshape(-1)
        limit = word_limit(p)
        wrong = rejected(flat, limit, scratch("rejected words", flat.shape, np.int64))
        filled = 0
        while filled < len(wrong):  # draws as many as missing, so ends at the last accepted word
            size = (len(wrong) - filled) * flat.itemsize
            more = np.frombuffer(self._spare.update(bytes(size)), dtype=flat.dtype)
            more = more[more < limit]
            flat[wrong[filled : filled + len(more)]] = more
            filled += len(more)

    def uniform(
        self, p: int, shape: int | tuple[int, ...], dtype: DTypeLike = np.int64
    ) -> NDArray[Any]:
        """Return residues exactly uniform on [0, p), p in [2, 2**56], drawn in C order."""
        if p < 2:
            raise InvalidInput(f"the modulus of a uniform draw must be at least 2; got {p}.")
        result = np.empty(shape, dtype=dtype)
        if p - 1 > int(np.iinfo(result.dtype).max):
            raise InvalidInput(f"residues modulo {p} do not fit {result.dtype}; use a wider type.")
        flat = result.reshape(-1)
        size = (min(flat.size, _CHUNK_WORDS),)
        words = scratch("words", size, word_dtype(p))
        quotient = scratch("quotients", size, word_dtype(p))
        for start in range(0, flat.size, _CHUNK_WORDS):
            count = min(_CHUNK_WORDS, flat.size - start)
            part, whole = words[:count], quotient[:count]
            self.words(p, part)
            np.floor_divide(part, part.dtype.type(p), out=whole)  # SIMD, unlike np.remainder
            whole *= part.dtype.type(p)
            part -= whole
            flat[start : start + count] = part
        return result
