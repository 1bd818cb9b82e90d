"""Which pairs of rows can be among the best of a row, by float32 scores whose error is bounded.

Scores are symmetric and come in blocks, each pair once for both of its rows; never all n × n. What
is left of the pairs is scored in float64 by the caller, so that the result is that of float64.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PairScreen",
    "block_rows",
    "few",
    "first_of_each_row",
    "is_worthwhile",
    "rounded_products",
    "rows_at",
    "score_buffer",
]

Floats: TypeAlias = NDArray[np.float64]
Rounded: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

_BLOCK = 1 << 25  # scores in float32 at a time, at most: 128 MiB
_HEIGHT = 1024  # ours: rows of a block; the system takes longer to give memory for more of them
_EACH = 6  # ours: blocks, or more, of each who shares them
_RARE = 8  # ours: where more than one pair of so many can matter, screening is not worth its while


def is_worthwhile(n: int, k: int, of: int = 1) -> bool:
    """Whether k others are so small a part of n rows that screening may tell them apart.

    `of` is the number of those who share the blocks, here as below, and k what they look for.
    """
    return _height(k) <= min(n, rows_at(0, n, of, k))


def _height(k: int) -> int:
    """Return how many rows a block must have, or k others are no small part of it."""
    return (k + 1) * 2 * _RARE


def rows_at(start: int, n: int, of: int = 1, k: int = 0) -> int:
    """Return how many rows a block has whose scores with itself and later rows are taken."""
    return min(n - start, max(1, _entries(n, of, k) // (n - start)))


def block_rows(n: int, part: int = 0, of: int = 1, k: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the first row of each block and the one after its last, of every `of`-th block.

    Examples
    --------
    >>> from daskfc.clustering.screening import block_rows
    >>> list(block_rows(10)), sum(stop - start for part in (0, 1)
    ...                           for start, stop in block_rows(10, part, 2))
    ([(0, 10)], 10)
    """
    start = number = 0
    while start < n:
        stop = start + rows_at(start, n, of, k)
        if number % of == part:
            yield start, stop
        start, number = stop, number + 1


def score_buffer(n: int, of: int = 1, k: int = 0) -> Rounded:
    """Return memory for the scores of any block of n rows."""
    return np.empty(min(n * n, max(_entries(n, of, k), n)), np.float32)


def _entries(n: int, of: int, k: int) -> int:
    """Return how many scores a block has."""
    most = min(_BLOCK, n * max(_HEIGHT, _height(k)))
    return most if of == 1 else min(most, max(n, n * n // (_EACH * of)))


def rounded_products(
    left: Rounded, right: Callable[[int, int], Rounded], start: int, n: int, buffer: Rounded
) -> Rounded:
    """Return products of rows with all from a number on.

    Parameters
    ----------
    left : ndarray of shape (b, d), float32
        The rows.
    right : callable
        From the numbers of the first row and of the one after the last to these rows, (m, d)
        float32: all of them at once would take too much memory.
    start, n : int
        The others are rows [start, n).
    buffer : ndarray of shape (size,), float32
        From `score_buffer`; the products lie in it.

    Returns
    -------
    ndarray of shape (b, n - start), float32
    """
    S = buffer[: len(left) * (n - start)].reshape(len(left), n - start)
    width = max(1, _BLOCK // (4 * left.shape[1]))
    for first in range(start, n, width):
        last = min(first + width, n)
        np.matmul(left, right(first, last).T, out=S[:, first - start : last - start])
    return S


def few(mask: NDArray[np.bool_]) -> tuple[Ints, Ints] | None:
    """Return rows and columns where a mask holds; None where these are many."""
    flat = np.flatnonzero(mask)
    if flat.size > _BLOCK // _RARE:
        return None
    rows, columns = np.divmod(flat, mask.shape[1])
    return rows, columns


def first_of_each_row(
    rows: Ints, cols: Ints, values: Floats, n_rows: int, k: int
) -> tuple[Ints, Floats]:
    """Select the k smallest of each row from a list of at least k candidates a row.

    Parameters
    ----------
    rows, cols : ndarray of shape (c,), int64
        Where the candidates are.
    values : ndarray of shape (c,)
        The candidates.
    n_rows : int
        Number of rows.
    k : int
        At least 0.

    Returns
    -------
    cols, values : ndarray of shape (n_rows, k)
        Smallest first; equal values in order of the column.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.screening import first_of_each_row
    >>> rows, cols = np.array([0, 1, 0]), np.array([2, 0, 1])
    >>> first_of_each_row(rows, cols, np.array([0.5, 0.1, 0.5]), 2, 1)[0].tolist()
    [[1], [0]]
    """
    order = np.lexsort((cols, values, rows))
    ends = np.cumsum(np.bincount(rows, minlength=n_rows))
    starts = ends - np.bincount(rows, minlength=n_rows)
    picked = order[starts[:, None] + np.arange(k)]
    return cols[picked], values[picked]


class PairScreen:
    """The pairs that can be among the k best of one of their rows.

    Parameters
    ----------
    k : int
        Others that are wanted of each row, at least 0.
    error : ndarray of shape (n,), float32
        How far the scores of each row with all others may be from the true ones.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.screening import PairScreen
    >>> S = np.array([[-np.inf, 5, 1, 2], [5, -np.inf, 1, 3], [1, 1, -np.inf, 7],
    ...               [2, 3, 7, -np.inf]], np.float32)
    >>> screen = PairScreen(1, np.zeros(4, np.float32))
    >>> screen.note(S, 0)
    True
    >>> [pair.tolist() for pair in screen.kept()]
    [[0, 1, 2, 3], [1, 0, 3, 2]]
    """

    def __init__(self, k: int, error: Rounded) -> None:
        n = len(error)
        self.k, self.error = k, error
        self.reached = np.full(n, -np.inf, np.float32)  # by k others, or more
        self.pairs: list[tuple[Ints, Ints, Rounded]] = []  # that may be kept: row, other, score
        self.room: int = 4 * n * (k + 1)  # pairs, before those that fell behind are dropped

    def note(self, S: Rounded, start: int) -> bool:
        """Note what can matter of a block and of its mirror image.

        Parameters
        ----------
        S : ndarray of shape (b, n - start), float32
            Scores of b rows with themselves and all later rows; -inf of a row with itself.
        start : int
            Number of the first row.

        Returns
        -------
        bool
            False where that is too much to be worth while.
        """
        later = S[:, len(S) :]
        return self._note(S, start, start, axis=1) and (
            later.size == 0 or self._note(later, start + len(S), start, axis=0)
        )

    def _note(self, S: Rounded, first: int, other: int, axis: int) -> bool:
        """Note who may be among the best of each row (axis 1) or column (axis 0) of a block.

        `first` is the number of the first of them, `other` that of the first along the axis.
        """
        reached = self.reached[first : first + S.shape[1 - axis]]
        np.maximum(reached, _at_most_kth(S, self.k, axis), out=reached)
        limit = reached - 2 * self.error[first : first + len(reached)]
        found = few(S >= np.expand_dims(limit, axis))
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
        if self.k > 0:
            order = np.lexsort((-S, rows))
            counts = np.bincount(rows, minlength=len(self.error))
            enough = np.flatnonzero(counts >= self.k)
            kth = S[order[(np.cumsum(counts) - counts)[enough] + self.k - 1]]
            self.reached[enough] = np.maximum(self.reached[enough], kth)
        kept = S >= (self.reached - 2 * self.error)[rows]
        self.pairs = [(rows[kept], others[kept], S[kept])]

    def kept(self) -> tuple[Ints, Ints]:
        """Return rows and others of all pairs that can matter, at least k of each row."""
        self._drop()
        rows, others, _ = self.pairs[0]
        return rows, others


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
