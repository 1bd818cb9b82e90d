"""For each row of a matrix B the rows with which its inner product is largest, never all n × n.

Products in float32 screen the pairs, each pair once for both of its rows, by a bound on their
rounding; those that can matter are computed in float64. The result is that of float64. The blocks
can be divided among processes, each of which needs `RoundedRows.table` alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.half_distances import ALL, Share
from daskfc.clustering.screening import (
    PairScreen,
    block_rows,
    few,
    first_of_each_row,
    is_worthwhile,
    rounded_products,
    score_buffer,
)

__all__ = ["LargestProducts", "RoundedRows", "Screened", "largest_products"]

Floats: TypeAlias = NDArray[np.float64]
Rounded: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

_GATHERED = 1 << 20  # entries of rows of pairs at a time: 8 MiB
_LISTED = 1 << 20  # ours: pairs of which any can have the smallest product, where none is computed
_ROWS = 4096  # rows that are rounded at a time


@dataclass(frozen=True)
class LargestProducts:
    """What is kept of B Bᵀ.

    Parameters
    ----------
    indices : ndarray of shape (n, k), int32
        Row numbers: the row itself first, then the k - 1 others with the largest products.
    values : ndarray of shape (n, k), float64
        Their products.
    lowest : float
        The smallest of all products.
    """

    indices: NDArray[np.int32]
    values: Floats
    lowest: float


@dataclass(frozen=True)
class Screened:
    """Pairs of rows that are left of all, or of a share of the blocks.

    Parameters
    ----------
    rows, others : ndarray of shape (c,), int64
        Pairs, those of each row and the others with its largest products among them.
    low_rows, low_others : ndarray of shape (m,), int64
        Pairs, that with the smallest product among them unless it is the one below.
    lowest : float
        The smallest of the products that were computed in float64.
    """

    rows: Ints
    others: Ints
    low_rows: Ints
    low_others: Ints
    lowest: float


@dataclass(frozen=True)
class RoundedRows:
    """Rows in float32, with a bound on how far their products are off.

    With u = 2⁻²⁴ and rows scaled to entries of at most 1, a product of rounded rows is off by at
    most (d + 3) u |b_i| |b_j| but for u² and for what float32 flushes to 0: the error has room.

    Parameters
    ----------
    rows : callable
        From the numbers of the first row and of the one after the last to these rows, (m, d)
        float32.
    error : ndarray of shape (n,), float32
        Of the products of each row with all others.
    unit : float
        A product of 1 is so much between the rows themselves.
    lowest : float
        The smallest square of a row, in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.largest_products import RoundedRows
    >>> rounded = RoundedRows.of(np.array([[2.0, 0.0], [1.0, 2.0]]))
    >>> rounded.table().tolist(), rounded.unit
    ([[1.0, 0.0], [0.5, 1.0]], 4.0)
    """

    rows: Callable[[int, int], Rounded]
    error: Rounded
    unit: float
    lowest: float

    @classmethod
    def of(cls, B: Floats) -> Self | None:
        """Return rounded rows of a finite matrix; None where float32 tells nothing of them."""
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
        """Return rounded rows that are at hand, as `table` gave them."""
        return cls(lambda first, last: table[first:last], error, unit, lowest)

    def table(self) -> Rounded:
        """Return all rows, (n, d) float32."""
        n = len(self.error)
        parts = [self.rows(at, min(at + _ROWS, n)) for at in range(0, n, _ROWS)]
        found: Rounded = np.concatenate(parts)
        return found

    def blocks(self, share: Share = ALL, k: int = 0) -> Iterator[tuple[int, Rounded]]:
        """Yield the number of a first row, and products of rows with themselves and later ones.

        They are written over when the next are made. With k as in `screening.block_rows`.
        """
        n = len(self.error)
        buffer = score_buffer(n, share.of, k)
        for start, stop in block_rows(n, share.part, share.of, k):
            yield start, rounded_products(self.rows(start, stop), self.rows, start, n, buffer)

    def screened(
        self,
        k: int,
        share: Share = ALL,
        products: Callable[[Ints, Ints], Floats] | None = None,
    ) -> Screened | None:
        """Return the pairs that can matter.

        Parameters
        ----------
        k : int
            Others that are wanted of each row, at least 0.
        share : Share
            Those of its blocks alone.
        products : callable, optional
            From numbers of rows and of others to their products in float64, by whoever has them:
            then none has to be listed for the smallest product.

        Returns
        -------
        Screened or None
            None where float32 tells too few pairs apart.
        """
        screen, lows = PairScreen(k, self.error), _Lowest(self, products)
        for start, S in self.blocks(share, k):
            own = np.arange(len(S))
            S[own, own] = np.inf
            if not lows.note(S, start):
                return None
            S[own, own] = -np.inf
            if not screen.note(S, start):
                return None
        return Screened(*screen.kept(), *lows.pairs(), lows.lowest)


class _Lowest:
    """The smallest product, or the pairs of which one has it."""

    def __init__(
        self, rounded: RoundedRows, products: Callable[[Ints, Ints], Floats] | None
    ) -> None:
        self.error, self.unit, self.products = rounded.error, rounded.unit, products
        self.lowest = rounded.lowest  # of those that were computed
        self.limit = rounded.lowest / rounded.unit  # no smallest product is above it
        self.listed: list[tuple[Ints, Ints, Rounded]] = []

    def note(self, S: Rounded, start: int) -> bool:
        """Note the smallest of a block; False where too many pairs may have it."""
        least, error = S.min(), self.error[start : start + len(S)].max()
        if least - error > self.limit:
            return True
        found = few(S <= least + 2 * error)
        if found is None:
            return False
        rows, others = found[0] + start, found[1] + start
        if self.products is not None:
            self.lowest = min(self.lowest, float(self.products(rows, others).min()))
            self.limit = self.lowest / self.unit
            return True
        self.limit = min(self.limit, float(least + error))
        self.listed.append((rows, others, S[found]))
        if sum(rows.size for rows, _, _ in self.listed) <= _LISTED:
            return True
        self._drop()
        return self.listed[0][0].size <= _LISTED

    def _drop(self) -> None:
        """Drop the pairs whose product is larger than another one's."""
        rows, others, S = (np.concatenate(each) for each in zip(*self.listed, strict=True))
        kept = S - self.error[rows] <= self.limit
        self.listed = [(rows[kept], others[kept], S[kept])]

    def pairs(self) -> tuple[Ints, Ints]:
        if not self.listed:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        self._drop()
        return self.listed[0][:2]


def largest_products(B: Floats, k: int, found: Sequence[Screened] = ()) -> LargestProducts | None:
    """Return the largest products of each row of B with the others, and the smallest of all.

    Parameters
    ----------
    B : ndarray of shape (n, d), float64
        Finite, its rows' squared norms too.
    k : int
        In [1, n], the row itself among them.
    found : sequence of Screened
        Of shares that are all blocks together, where others did the screening.

    Returns
    -------
    LargestProducts or None
        Equal products in order of the row number. None where float32 would tell too few pairs
        apart, or k is no small part of a block.

    Notes
    -----
    O(n² d / 2) time; beside B 300 MiB and 100 n k bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.largest_products import largest_products
    >>> angle = np.linspace(0.0, 1.2, 100) ** 2
    >>> B = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> largest_products(B, 2).indices[:3].tolist()
    [[0, 1], [1, 0], [2, 1]]
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
    """Return the products of listed pairs; the same for a pair and its mirror image."""
    result = np.empty(rows.size)
    step = max(1, _GATHERED // B.shape[1])
    for first in range(0, rows.size, step):
        part = slice(first, first + step)
        np.einsum("ij,ij->i", B[rows[part]], B[others[part]], out=result[part])
    return result
