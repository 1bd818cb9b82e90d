"""Sums of counts that also count the clients with any, so that small groups stay hidden.

A client adds one number for both, so a masked sum of them costs no more than one of counts. And
units in which counts and sums of rows keep their digits beside sums of squares.
"""

import hashlib
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import InvalidInput
from daskfc.secure.sums.total import Total
from daskfc.site import Smallest

_ROWS = 2.0**36  # ours: of all clients, at most; a power of four
_HOLDER = 2.0**33  # ours: above all samples of all clients
LARGEST_COUNT = 2.0 * _HOLDER
"""Public bound on what one client adds for a count."""


class Held(NamedTuple):
    """Counts of samples over all clients, and how many clients have any of them, in one shape."""

    counts: NDArray[np.int64]
    holders: NDArray[np.int64]

    def enough(self, smallest: Smallest) -> NDArray[np.bool_]:
        """Return where samples and clients are as many as a run requires to reveal a count."""
        found: NDArray[np.bool_] = self.counts >= smallest.samples
        return found & (self.holders >= smallest.clients)


def counts_and_holder(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a client's counts plus 2**33 where they are above 0, which counts the clients."""
    return counts + _HOLDER * (counts > 0)


def held_counts(total: Total) -> Held:
    """Return counts over all clients, and how many clients have any."""
    holders, counts = np.divmod(np.rint(total.values), _HOLDER)
    return Held(counts.astype(np.int64), holders.astype(np.int64))


def mark_of(*told: str) -> int:
    """Return what stands, in a sum of counts, for what clients were told: 32 bits of a digest."""
    return int.from_bytes(hashlib.sha256(repr(told).encode()).digest()[:4], "little")


def marked(counts: NDArray[np.float64], mark: int) -> NDArray[np.float64]:
    """Return a table of counts with one more row, that begins with a mark."""
    last = np.zeros((1, counts.shape[1]))
    last[0, 0] = mark
    return np.concatenate([counts, last])


def unmarked(total: Total) -> tuple[Total, int]:
    """Return a sum of tables without their last row, and its mark, the same at all clients."""
    mark = round(float(total.values[-1, 0]) / max(len(total.terms), 1))
    return replace(total, values=total.values[:-1]), mark


def power_of_four(least: float) -> float:
    """Return the smallest power of four above a number; 1 for 0."""
    exponent = math.frexp(least)[1]  # least < 2**exponent
    return math.ldexp(1.0, exponent + exponent % 2)


def count_unit(bound: float) -> float:
    """Return what a number of rows is multiplied with, to be at most `bound`, a power of two."""
    if math.frexp(bound)[0] != 0.5:  # refusals of sums in units between would tell how large
        raise InvalidInput(f"the bound of sums must be a power of two; got {bound}. Round it up.")
    return bound / _ROWS


def sum_unit(bound: float) -> float:
    """Return what a sum of rows is multiplied with, as Σ|x| ≤ √(n Σx²); `bound` is on squares."""
    return math.sqrt(bound) / math.sqrt(_ROWS)
