"""How a client's rows are seen: from a point, in a unit."""

import hashlib
from dataclasses import dataclass

import numpy as np

from daskfc.arrays import Floats
from daskfc.stores import ClientStore


def hash64(*parts: bytes) -> int:
    """Return 64 bits of SHA-256 over some byte strings."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return int.from_bytes(digest.digest()[:8], "little")


@dataclass(frozen=True)
class Seen:
    """How rows are seen: from a point (bytes of float64, none for the origin), times a factor."""

    point: bytes = b""
    factor: float = 1.0

    def rows(self, values: Floats) -> Floats:
        """Return rows as they are seen."""
        moved = values - np.frombuffer(self.point) if self.point else values
        return moved if self.factor == 1.0 else moved * self.factor

    def digest_of(self, data: ClientStore) -> str:
        """Return the digest of a client's rows as they are seen: seen otherwise they are others."""
        otherwise = "" if self == AS_THEY_ARE else f" seen by {hash64(repr(self).encode()):016x}"
        return data.digest + otherwise


AS_THEY_ARE = Seen()
