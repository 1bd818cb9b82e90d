"""The largest inner products of each row of a matrix B with the others, never all n × n.

Products in float32 with a bound on their rounding screen the pairs, each once for both rows; those
that can matter are computed in float64, with the same result as without screening. The tiles can
be divided among processes, each of which needs only `RoundedRows.table`.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.screening import (
    ALL,
    PairScreen,
    Share,
    few,
    first_of_each_row,
    is_worthwhile,
    scored,
    tiles,
)

Rounded: TypeAlias = NDArray[np.float32]

_GATHERED = 1 << 20  # entries of rows of pairs at a time: 8 MiB
_LISTED = 1 << 20  # ours: most candidates for the smallest product, if not computed at once
_ROWS = 4096  # rows that are rounded at a time


@dataclass(frozen=True)
class LargestProducts:
    """The largest products of each row of B Bᵀ, (n, k), itself first, and the smallest of all."""

    indices: NDArray[np.int32]
    values: Floats
    lowest: float


@dataclass(frozen=True)
class Screened:
    """Pairs (rows, others) that screening leaves, and `low_*` that may be below `lowest`."""

    rows: Ints
    others: Ints
    low_rows: Ints
    low_others: Ints
    lowest: float


@dataclass(frozen=True)
class RoundedRows:
    """Rows in float32, scaled so that entries are at most 1, with a bound on their products' error.

    With u = 2⁻²⁴ a product, in `unit`, is off by at most (d + 3) u |b_i| |b_j|; `error` (n,) also
    covers u² and underflow. `lowest` is the smallest squared norm; `rows(first, last)` are (m, d).
    """

    rows: Callable[[int, int], Rounded]
    error: Rounded
    unit: float
    lowest: float

    @classmethod
    def of(cls, B: Floats) -> Self | None:
        """Return rounded rows of a finite matrix; None if float32 cannot represent them."""
        d = B.shape[1]
        largest = max(float(B.max()), -float(B.min())) or 1.0
        unit = largest * largest
        if unit < 1e-200:  # a rounding error in these units would be lost
            return None
        squares = np.einsum("ij,ij->i", B, B)
        norms = np.sqrt(squares) / largest
        error = norms * (norms.max() * 2.0**-24 * (d + 5)) + d * 1e-37  # over the unit

        def rows(first: int, last: int) -> Rounded:
            found = np.empty((last - first, d), np.float32)
            np.multiply(B[first:last], 1.0 / largest, out=found, casting="same_kind")
            return found

        return cls(rows, error.astype(np.float32), unit, float(squares.min()))

    @classmethod
    def of_table(cls, table: Rounded, error: Rounded, unit: float, lowest: float) -> Self:
        """Return rounded rows from the result of `table`."""
        return cls(lambda first, last: table[first:last], error, unit, lowest)

    def table(self) -> Rounded:
        """Return all rows, (n, d) float32."""
        n = len(self.error)
        parts = [self.rows(at, min(at + _ROWS, n)) for at in range(0, n, _ROWS)]
        return np.concatenate(parts)

    def screened(
        self, k: int, share: Share = ALL, products: Callable[[Ints, Ints], Floats] | None = None
    ) -> Screened | None:
        """Return the pairs that can matter, k others per row; None if float32 leaves too many."""
        screen, lows = PairScreen(k, self.error), _Lowest(self, products)

        def note(start: int, first: int, S: Rounded) -> bool:
            if start == first:
                np.fill_diagonal(S, np.inf)
            if not lows.note(S, start, first):
                return False
            if start == first:
                np.fill_diagonal(S, -np.inf)
            return screen.note(S, start, first)

        if not all(scored(self.rows, self.rows, tiles(len(self.error), share, k), note)):
            return None
        return Screened(*screen.kept(), *lows.pairs(), lows.lowest)


class _Lowest:
    """The smallest product, or the pairs that may have it."""

    def __init__(
        self, rounded: RoundedRows, products: Callable[[Ints, Ints], Floats] | None
    ) -> None:
        self.error, self.unit, self.products = rounded.error, rounded.unit, products
        self.lowest = rounded.lowest  # of the computed products
        self.limit = rounded.lowest / rounded.unit  # upper bound on the smallest product
        self.listed: list[tuple[Ints, Ints, Rounded]] = []
        self._lock = threading.Lock()

    def note(self, S: Rounded, start: int, first: int) -> bool:
        """Note the smallest product of a tile; return False if too many pairs may have it."""
        least, error = S.min(), self.error[start : start + len(S)].max()
        if least - error > self.limit:
            return True
        found = few(S <= least + 2 * error)
        if found is None:
            return False
        rows, others, scores = found[0] + start, found[1] + first, S[found]
        if self.products is not None:
            smallest = float(self.products(rows, others).min())
            with self._lock:
                self.lowest = min(self.lowest, smallest)
                self.limit = self.lowest / self.unit
            return True
        with self._lock:
            self.limit = min(self.limit, float(least + error))
            self.listed.append((rows, others, scores))
            if sum(rows.size for rows, _, _ in self.listed) <= _LISTED:
                return True
            self._drop()
            return self.listed[0][0].size <= _LISTED

    def _drop(self) -> None:
        """Drop the pairs that cannot have the smallest product any more."""
        rows, others, S = (np.concatenate(each) for each in zip(*self.listed, strict=True))
        kept = S - self.error[rows] <= self.limit
        self.listed = [(rows[kept], others[kept], S[kept])]

    def pairs(self) -> tuple[Ints, Ints]:
        if not self.listed:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        self._drop()
        return self.listed[0][:2]


def largest_products(B: Floats, k: int, found: Sequence[Screened] = ()) -> LargestProducts | None:
    """Return each row's k largest products of B (n, d), itself included, and the smallest of all.

    Ties end by `scattered` numbers. None if float32 distinguishes too few pairs or k is too large.
    `found`, of other processes, must cover all blocks. O(n² d / 2) time; 300 MiB and 100 n k bytes.
    """

    def products(rows: Ints, others: Ints) -> Floats:
        return _products(B, rows, others)

    if not found:
        rounded = RoundedRows.of(B) if is_worthwhile(len(B), k - 1) else None
        alone = None if rounded is None else rounded.screened(k - 1, products=products)
        if alone is None:
            return None
        found = (alone,)
    squares = np.einsum("ij,ij->i", B, B)
    low = [products(one.low_rows, one.low_others).min(initial=one.lowest) for one in found]
    rows = np.concatenate([one.rows for one in found])
    others = np.concatenate([one.others for one in found])
    values = products(rows, others)
    nearest, falling = first_of_each_row(rows, others, -values, len(B), k - 1)
    itself = np.arange(len(B))[:, None]
    return LargestProducts(
        np.hstack([itself, nearest]).astype(np.int32),
        np.hstack([squares[:, None], -falling]),
        float(min(low)),
    )


def _products(B: Floats, rows: Ints, others: Ints) -> Floats:
    """Return the products of listed pairs, exactly symmetric."""
    result = np.empty(rows.size)
    step = max(1, _GATHERED // B.shape[1])
    for first in range(0, rows.size, step):
        part = slice(first, first + step)
        np.einsum("ij,ij->i", B[rows[part]], B[others[part]], out=result[part])
    return result
