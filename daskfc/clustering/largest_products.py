"""For each row of a matrix B the rows with which its inner product is largest, never all n × n.

Products in float32 screen the pairs, each pair once for both of its rows, by a bound on their
rounding; those that can matter are computed in float64. The result is that of float64.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.screening import (
    PairScreen,
    few,
    first_of_each_row,
    is_worthwhile,
    rounded_products,
    rows_at,
    score_buffer,
)

__all__ = ["LargestProducts", "largest_products"]

Floats: TypeAlias = NDArray[np.float64]
Rounded: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

_GATHERED = 1 << 20  # entries of rows of pairs at a time: 8 MiB


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


def largest_products(B: Floats, k: int) -> LargestProducts | None:
    """Return the largest products of each row of B with the others, and the smallest of all.

    Parameters
    ----------
    B : ndarray of shape (n, d), float64
        Finite, its rows' squared norms too.
    k : int
        In [1, n], the row itself among them.

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
    return _Products(B, k).run() if is_worthwhile(len(B), k - 1) else None


class _Products:
    """Products of all rows, screened.

    With u = 2⁻²⁴ and rows scaled to entries of at most 1, a product of rounded rows is off by at
    most (d + 3) u |b_i| |b_j| but for u² and for what float32 flushes to 0: the error has room.
    """

    def __init__(self, B: Floats, k: int) -> None:
        self.B = B
        d = B.shape[1]
        largest = max(float(B.max()), -float(B.min())) or 1.0
        self.scale, self.unit = 1.0 / largest, largest * largest
        self.squares = np.einsum("ij,ij->i", B, B)
        norms = np.sqrt(self.squares) / largest
        error = norms * (norms.max() * 2.0**-24 * (d + 5)) + d * 1e-37  # over the unit
        self.screen = PairScreen(k - 1, error.astype(np.float32))
        self.lowest = float(self.squares.min())  # of the products so far

    def run(self) -> LargestProducts | None:
        """Screen block by block, from the diagonal on."""
        n = len(self.B)
        if self.unit < 1e-200:  # a rounding error in these units would be lost
            return None
        buffer, start = score_buffer(n), 0
        while start < n:
            stop = start + rows_at(start, n)
            S = rounded_products(self._rounded(start, stop), self._rounded, start, n, buffer)
            own = np.arange(len(S))
            S[own, own] = np.inf
            if not self._note_lowest(S, start):
                return None
            S[own, own] = -np.inf
            if not self.screen.note(S, start):
                return None
            start = stop
        return self._kept()

    def _rounded(self, first: int, last: int) -> Rounded:
        rows = np.empty((last - first, self.B.shape[1]), np.float32)
        np.multiply(self.B[first:last], self.scale, out=rows, casting="same_kind")
        return rows

    def _note_lowest(self, S: Rounded, start: int) -> bool:
        """Note the smallest product of a block; False where too many may be."""
        least, error = S.min(), self.screen.error[start : start + len(S)].max()
        if least - error > self.lowest / self.unit:
            return True
        found = few(S <= least + 2 * error)
        if found is None:
            return False
        rows, others = found
        self.lowest = min(self.lowest, float(self._products(start + rows, start + others).min()))
        return True

    def _kept(self) -> LargestProducts:
        rows, others = self.screen.kept()
        values = self._products(rows, others)
        nearest, falling = first_of_each_row(rows, others, -values, len(self.B), self.screen.k)
        itself = np.arange(len(self.B))[:, None]
        return LargestProducts(
            np.hstack([itself, nearest]).astype(np.int32),
            np.hstack([self.squares[:, None], -falling]),
            self.lowest,
        )

    def _products(self, rows: Ints, others: Ints) -> Floats:
        """Return the products of listed pairs; the same for a pair and its mirror image."""
        result = np.empty(rows.size)
        step = max(1, _GATHERED // self.B.shape[1])
        for first in range(0, rows.size, step):
            part = slice(first, first + step)
            np.einsum("ij,ij->i", self.B[rows[part]], self.B[others[part]], out=result[part])
        return result
