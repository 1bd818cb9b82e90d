"""Squared distances of all pairs in float32, with a bound on their error, to screen pairs.

The few pairs that can matter are computed in float64 by `nearest`. Tiles of pairs can be divided
among processes, each of which needs only `HalfDistances.table`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.cards import Card, card_for
from daskfc.clustering.views import on_card
from daskfc.clustering.views.screening import ALL, PairScreen, Rounded, Share, scored, tiles

# Numbers of samples and of others, and a mask of pairs that are not certain to be within a radius.
MaybeWithin: TypeAlias = tuple[Ints, Ints, NDArray[np.bool_]]

_ROWS = 4096  # rows that are scaled at a time


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

    def _left(self, first: int, last: int) -> Rounded:
        """Return rows whose products with `rows` are the scores."""
        left = self.rows(first, last).copy()
        left[:, -2], left[:, -1] = -1.0, -left[:, -2]
        return left

    def nearest(self, k: int, share: Share = ALL) -> tuple[Ints, Ints] | None:
        """Return pairs (rows, others) of a share, with each row's k nearest; None if too many."""
        if (card := self._card(share)) is not None:
            return on_card.nearest(card, self.rows, self.error, k)
        screen = PairScreen(k, self.error)

        def note(start: int, first: int, S: Rounded) -> bool:
            if start == first:
                np.fill_diagonal(S, -np.inf)
            return screen.note(S, start, first)

        every = scored(self._left, self.rows, tiles(self.n, share, k), note)
        return screen.kept() if all(every) else None

    def _card(self, share: Share) -> Card | None:
        """Return the card that searches all pairs; a share is of tiles, which all must divide."""
        return card_for(self.n, self.rows(0, 1).shape[1]) if share == ALL else None

    def tells(self, radius2: float) -> bool:
        """Whether float32 decides most pairs within a squared radius of the samples."""
        # With an error above a hundredth of the radius, float32 may leave all pairs undecided.
        return 200.0 * float(self.error.max()) * self.unit < radius2

    def within(self, radius2: float, share: Share = ALL) -> Iterator[MaybeWithin]:
        """Yield pairs that may be within a squared radius, with a mask of those not certain."""
        limit = np.float64(-radius2 / self.unit / 2)  # float64, so that it is not rounded

        least = np.nextafter((limit - self.error).astype(np.float32), np.float32(-np.inf))
        if (card := self._card(share)) is not None:
            for rows, cols, scores in on_card.within(card, self.rows, self.error, least):
                yield rows, cols, scores <= limit + self.error[rows]
            return

        def near(start: int, first: int, S: Rounded) -> MaybeWithin:
            places = np.flatnonzero(S >= least[start : start + len(S), None])
            rows, cols = np.divmod(places, S.shape[1])
            rows, cols, scores = rows + start, cols + first, S.ravel()[places]
            upper = rows < cols
            rows, cols, scores = rows[upper], cols[upper], scores[upper]
            return rows, cols, scores <= limit + self.error[rows]

        yield from scored(self._left, self.rows, tiles(self.n, share), near)
