"""Squared distances of all pairs in float32, with a bound on their error, to screen pairs.

The few pairs that can matter are computed in float64 by `nearest`. Blocks of pairs can be divided
among processes, each of which needs only `HalfDistances.table`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.views.screening import (
    Floats,
    Ints,
    PairScreen,
    Rounded,
    block_rows,
    rounded_products,
    score_buffer,
)

__all__ = ["ALL", "HalfDistances", "MaybeWithin", "Share", "pieces"]

# Numbers of samples and of others, and a mask of pairs that are not certain to be within a radius.
MaybeWithin: TypeAlias = tuple[Ints, Ints, NDArray[np.bool_]]

_ROWS = 4096  # rows that are scaled at a time
_PIECE = 1 << 21  # pairs that are listed at a time, in a few copies


@dataclass(frozen=True)
class Share:
    """Every `of`-th block of pairs, from number `part`; by default all."""

    part: int = 0
    of: int = 1


ALL = Share()
"""All blocks."""


def pieces(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield first and last rows of parts of a block, small enough to list all pairs."""
    step = max(1, _PIECE // width)
    for first in range(0, n_rows, step):
        yield first, min(first + step, n_rows)


@dataclass(frozen=True)
class HalfDistances:
    """Minus half the squared distances of all pairs, in `unit`, as products of rows in float32.

    x·y - |x|²/2 - |y|²/2 of samples centred and scaled to entries of at most 1, off by at most
    (d + 5) u (|x| + |y|)² / 2, u = 2⁻²⁴; `error` (n,) has room for u² and underflow.
    `rows(first, last)` are (m, d + 2), with half the squared norm and 1.
    """

    rows: Callable[[int, int], Rounded]
    error: Rounded
    unit: float

    @classmethod
    def of(cls, X: Floats, error: float = 0.0) -> Self | None:
        """Return the scores of samples (n, d); None if float32 cannot represent their squares."""
        n, d = X.shape
        shift = np.rint(X.mean(axis=0))
        above, below = X.max(axis=0) - shift, shift - X.min(axis=0)
        largest = max(float(above.max(initial=0.0)), float(below.max(initial=0.0)))
        if not 1e-100 < largest < 1e100:
            return None
        half = np.empty(n)
        for start in range(0, n, _ROWS):
            block = (X[start : start + _ROWS] - shift) / largest
            half[start : start + _ROWS] = np.einsum("ij,ij->i", block, block) / 2
        norms = np.sqrt(2 * half)
        off = (norms + norms.max()) ** 2 * (2.0**-25 * (d + 8)) + d * 1e-37
        off += error / largest**2

        def rows(first: int, last: int) -> Rounded:
            found = np.empty((last - first, d + 2), np.float32)
            centred = X[first:last] - shift
            np.multiply(centred, 1.0 / largest, out=found[:, :d], casting="same_kind")
            found[:, d], found[:, d + 1] = half[first:last], 1.0
            return found

        return cls(rows, off.astype(np.float32), largest**2)

    @classmethod
    def of_table(cls, table: Rounded, error: Rounded, unit: float) -> Self:
        """Return the scores from the result of `table`."""
        return cls(lambda first, last: table[first:last], error, unit)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.error)

    def table(self) -> Rounded:
        """Return all rows, (n, d + 2) float32."""
        first = self.rows(0, 1)
        found = np.empty((self.n, first.shape[1]), np.float32)
        for start in range(0, self.n, _ROWS):
            stop = min(start + _ROWS, self.n)
            found[start:stop] = self.rows(start, stop)
        return found

    def blocks(self, share: Share = ALL, k: int = 0) -> Iterator[tuple[int, Rounded]]:
        """Yield the first row's number, and scores of some rows with themselves and all later rows.

        The next block overwrites the array.
        """
        buffer = score_buffer(self.n, share.of, k)
        for start, stop in block_rows(self.n, share.part, share.of, k):
            left = self.rows(start, stop).copy()
            left[:, -2], left[:, -1] = -1.0, -left[:, -2]
            yield start, rounded_products(left, self.rows, start, self.n, buffer)

    def nearest(self, k: int, share: Share = ALL) -> tuple[Ints, Ints] | None:
        """Return pairs (rows, others) of a share, with each row's k nearest; None if too many."""
        screen = PairScreen(k, self.error)
        for start, S in self.blocks(share, k):
            own = np.arange(len(S))
            S[own, own] = -np.inf
            if not screen.note(S, start):
                return None
        return screen.kept()

    def tells(self, radius2: float) -> bool:
        """Whether float32 decides most pairs within a squared radius of the samples."""
        # With an error above a hundredth of the radius, float32 may leave all pairs undecided.
        return 200.0 * float(self.error.max()) * self.unit < radius2

    def within(self, radius2: float, share: Share = ALL) -> Iterator[MaybeWithin]:
        """Yield pairs that may be within a squared radius, with a mask of those not certain."""
        limit = np.float64(-radius2 / self.unit / 2)  # float64, so that it is not rounded
        for start, S in self.blocks(share):
            error = self.error[start : start + len(S)]
            least = np.nextafter((limit - error).astype(np.float32), np.float32(-np.inf))
            for first, last in pieces(*S.shape):
                rows, cols = np.nonzero(S[first:last] >= least[first:last, None])
                rows += first
                upper = rows < cols
                rows, cols = rows[upper], cols[upper]
                yield rows + start, cols + start, S[rows, cols] <= limit + error[rows]
