"""Screening of pairs that can be among the best of a row, by float32 scores of bounded error.

Scores are symmetric and come in blocks, each pair once for both rows; never all n × n. The callers
compute the remaining pairs in float64, so that the result is the same as without screening.
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
_HEIGHT = 1024  # ours: rows of a block; memory for more takes the system longer to allocate
_EACH = 6  # ours: at least so many blocks for each process
_RARE = 8  # ours: screening is useful if at most one pair in so many can matter


def is_worthwhile(n: int, k: int, of: int = 1) -> bool:
    """Return whether screening may separate k others from n rows, for `of` processes."""
    return _height(k) <= min(n, rows_at(0, n, of, k))


def _height(k: int) -> int:
    """Return how many rows a block must have, so that k others are a small part of it."""
    return (k + 1) * 2 * _RARE


def rows_at(start: int, n: int, of: int = 1, k: int = 0) -> int:
    """Return the number of rows in the block from `start`, scored with itself and later rows."""
    return min(n - start, max(1, _entries(n, of, k) // (n - start)))


def block_rows(n: int, part: int = 0, of: int = 1, k: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the first row of each block and the one after its last, of every `of`-th block."""
    start = number = 0
    while start < n:
        stop = start + rows_at(start, n, of, k)
        if number % of == part:
            yield start, stop
        start, number = stop, number + 1


def score_buffer(n: int, of: int = 1, k: int = 0) -> Rounded:
    """Return an array for the scores of any block of n rows."""
    return np.empty(min(n * n, max(_entries(n, of, k), n)), np.float32)


def _entries(n: int, of: int, k: int) -> int:
    """Return the number of scores in a block."""
    most = min(_BLOCK, n * max(_HEIGHT, _height(k)))
    return most if of == 1 else min(most, max(n, n * n // (_EACH * of)))


def rounded_products(
    left: Rounded, right: Callable[[int, int], Rounded], start: int, n: int, buffer: Rounded
) -> Rounded:
    """Return products (b, n - start) of rows `left` (b, d) with rows [start, n), in `buffer`."""
    S = buffer[: len(left) * (n - start)].reshape(len(left), n - start)
    width = max(1, _BLOCK // (4 * left.shape[1]))
    for first in range(start, n, width):
        last = min(first + width, n)
        np.matmul(left, right(first, last).T, out=S[:, first - start : last - start])
    return S


def few(mask: NDArray[np.bool_]) -> tuple[Ints, Ints] | None:
    """Return rows and columns where a mask is true; None if these are many."""
    flat = np.flatnonzero(mask)
    if flat.size > _BLOCK // _RARE:
        return None
    rows, columns = np.divmod(flat, mask.shape[1])
    return rows, columns


def first_of_each_row(
    rows: Ints, cols: Ints, values: Floats, n_rows: int, k: int
) -> tuple[Ints, Floats]:
    """Select the k smallest of at least k candidates a row, (n_rows, k), ties by column."""
    order = np.lexsort((cols, values, rows))
    ends = np.cumsum(np.bincount(rows, minlength=n_rows))
    starts = ends - np.bincount(rows, minlength=n_rows)
    picked = order[starts[:, None] + np.arange(k)]
    return cols[picked], values[picked]


class PairScreen:
    """The pairs that can be among the k best of one of their rows, for errors (n,) of scores."""

    def __init__(self, k: int, error: Rounded) -> None:
        n = len(error)
        self.k, self.error = k, error
        self.reached = np.full(n, -np.inf, np.float32)  # scores that at least k others reach
        self.pairs: list[tuple[Ints, Ints, Rounded]] = []  # candidates: row, other, score
        self.room: int = 4 * n * (k + 1)  # with more pairs, surpassed ones are dropped

    def note(self, S: Rounded, start: int) -> bool:
        """Note candidates of b rows' scores and their mirror image; return False if too many.

        `S` is (b, n - start), of the rows with themselves and all later ones; -inf on the diagonal.
        """
        later = S[:, len(S) :]
        return self._note(S, start, start, axis=1) and (
            later.size == 0 or self._note(later, start + len(S), start, axis=0)
        )

    def _note(self, S: Rounded, first: int, other: int, axis: int) -> bool:
        """Note candidates of rows (axis 1) or columns (axis 0), numbered from `first`."""
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
    """Return values that at least k entries along an axis reach, mostly the k-th largest."""
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
