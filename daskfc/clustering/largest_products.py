"""For each row of a matrix B the rows with which its inner product is largest, never all n × n.

Products in float32 screen the pairs, each pair once for both of its rows, by a bound on their
rounding; those that can matter are computed in float64. The result is that of float64.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.nearest import first_of_each_row

__all__ = ["LargestProducts", "largest_products"]

Floats: TypeAlias = NDArray[np.float64]
Rounded: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

_BLOCK = 1 << 25  # products in float32 at a time: 128 MiB
_RARE = 8  # ours: where more than one pair of so many can matter, screening is not worth its while


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
    n = len(B)
    if k * 2 * _RARE > min(n, _rows_at(0, n)):
        return None
    return _Screen(B, k).run()


def _rows_at(start: int, n: int) -> int:
    """Return how many rows a block has whose products with itself and later rows are taken."""
    return min(n - start, max(1, _BLOCK // (n - start)))


class _Screen:
    """The pairs that can matter.

    With u = 2⁻²⁴ and rows scaled to entries of at most 1, a product of rounded rows is off by at
    most (d + 3) u |b_i| |b_j| but for u² and for what float32 flushes to 0: `error` has room.
    """

    def __init__(self, B: Floats, k: int) -> None:
        self.B, self.k = B, k
        n, d = B.shape
        largest = max(float(B.max()), -float(B.min())) or 1.0
        self.scale, self.unit = 1.0 / largest, largest * largest
        self.squares = np.einsum("ij,ij->i", B, B)
        norms = np.sqrt(self.squares) / largest
        error = norms * (norms.max() * 2.0**-24 * (d + 5)) + d * 1e-37  # over the unit
        self.error = error.astype(np.float32)
        self.lowest = float(self.squares.min())  # of the products so far
        self.reached = np.full(n, -np.inf, np.float32)  # by k - 1 others, or more
        self.pairs: list[tuple[Ints, Ints, Rounded]] = []  # that may be kept: row, other, product
        self.room: int = 4 * n * k  # pairs, before those that cannot be kept after all are dropped

    def run(self) -> LargestProducts | None:
        """Screen block by block, from the diagonal on."""
        n = len(self.B)
        if self.unit < 1e-200:  # a rounding error in these units would be lost
            return None
        start = 0
        while start < n:
            stop = start + _rows_at(start, n)
            if not self._screened(start, stop):
                return None
            start = stop
        return self._kept()

    def _screened(self, start: int, stop: int) -> bool:
        """Note what can matter of a block and its mirror image; False where that is too much."""
        S = self._rounded(start, stop)  # (b, n - start)
        own, later = np.arange(len(S)), S[:, len(S) :]
        S[own, own] = np.inf
        if not self._note_lowest(S, start):
            return False
        S[own, own] = -np.inf
        return self._note_pairs(S, start, start, axis=1) and (
            later.size == 0 or self._note_pairs(later, stop, start, axis=0)
        )

    def _rounded(self, start: int, stop: int) -> Rounded:
        """Return products of a block with itself and all later rows, over the unit."""
        n, d = self.B.shape
        rows = (self.B[start:stop] * self.scale).astype(np.float32)
        S = np.empty((stop - start, n - start), np.float32)
        width = max(1, _BLOCK // (4 * d))
        panel = np.empty((min(width, n - start), d), np.float32)  # as all of B would take too much
        for first in range(start, n, width):
            others = self.B[first : first + width]
            part = panel[: len(others)]
            np.multiply(others, self.scale, out=part, casting="same_kind")
            np.matmul(rows, part.T, out=S[:, first - start : first - start + len(others)])
        return S

    def _note_lowest(self, S: Rounded, start: int) -> bool:
        """Note the smallest product of a block; False where too many may be."""
        least, error = S.min(), self.error[start : start + len(S)].max()
        if least - error > self.lowest / self.unit:
            return True
        found = _few(S <= least + 2 * error)
        if found is None:
            return False
        rows, others = found
        self.lowest = min(self.lowest, float(self._products(start + rows, start + others).min()))
        return True

    def _note_pairs(self, S: Rounded, first: int, other: int, axis: int) -> bool:
        """Note who may be among the largest of each row (axis 1) or column (axis 0) of a block.

        `first` is the number of the first of them, `other` that of the first along the axis. False
        where these are too many.
        """
        reached = self.reached[first : first + S.shape[1 - axis]]
        np.maximum(reached, _at_most_kth(S, self.k - 1, axis), out=reached)
        limit = reached - 2 * self.error[first : first + len(reached)]
        found = _few(S >= np.expand_dims(limit, axis))
        if found is None:
            return False
        rows, others = found if axis else found[::-1]
        self.pairs.append((rows + first, others + other, S[found]))
        if sum(rows.size for rows, _, _ in self.pairs) <= self.room:
            return True
        self._drop()
        return len(self.pairs[0][0]) * 2 <= self.room

    def _drop(self) -> None:
        """Drop the pairs that others of the same row have surpassed."""
        rows, others, S = (np.concatenate(each) for each in zip(*self.pairs, strict=True))
        if self.k > 1:
            order = np.lexsort((-S, rows))
            counts = np.bincount(rows, minlength=len(self.B))
            enough = np.flatnonzero(counts >= self.k - 1)
            kth = S[order[(np.cumsum(counts) - counts)[enough] + self.k - 2]]
            self.reached[enough] = np.maximum(self.reached[enough], kth)
        kept = S >= (self.reached - 2 * self.error)[rows]
        self.pairs = [(rows[kept], others[kept], S[kept])]

    def _kept(self) -> LargestProducts:
        self._drop()
        rows, others, _ = self.pairs[0]
        values = self._products(rows, others)
        nearest, falling = first_of_each_row(rows, others, -values, len(self.B), self.k - 1)
        itself = np.arange(len(self.B))[:, None]
        return LargestProducts(
            np.hstack([itself, nearest]).astype(np.int32),
            np.hstack([self.squares[:, None], -falling]),
            self.lowest,
        )

    def _products(self, rows: Ints, others: Ints) -> Floats:
        """Return the products of listed pairs; the same for a pair and its mirror image."""
        result = np.empty(rows.size)
        step = max(1, (_BLOCK >> 5) // self.B.shape[1])
        for first in range(0, rows.size, step):
            part = slice(first, first + step)
            np.einsum("ij,ij->i", self.B[rows[part]], self.B[others[part]], out=result[part])
        return result


def _few(mask: NDArray[np.bool_]) -> tuple[Ints, Ints] | None:
    """Return rows and columns where a mask holds; None where these are many."""
    flat = np.flatnonzero(mask)
    if flat.size > _BLOCK // _RARE:
        return None
    rows, columns = np.divmod(flat, mask.shape[1])
    return rows, columns


def _at_most_kth(S: Rounded, k: int, axis: int) -> Rounded:
    """Return numbers that k entries along an axis reach, mostly the k-th largest of them."""
    n = S.shape[axis]
    if k == 0:
        return np.full(S.shape[1 - axis], np.inf, np.float32)
    if n < k:
        return np.full(S.shape[1 - axis], -np.inf, np.float32)
    folds = max(1, min(64, n // (4 * k)))
    q = n // folds
    if axis:
        peaks = S[:, : folds * q].reshape(len(S), folds, q).max(axis=1)  # each of `folds` entries
    else:
        peaks = S[: folds * q].reshape(folds, q, S.shape[1]).max(axis=0)
    kth: Rounded = np.partition(peaks, q - k, axis=axis).take(q - k, axis=axis)
    return kth
