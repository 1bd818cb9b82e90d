"""Screening of pairs that can be among the best of a row, by float32 scores of bounded error.

Scores are symmetric and come in tiles, each pair once for both rows; never all n × n. The callers
compute the remaining pairs in float64, so that the result is the same as without screening, in
whatever order threads made the tiles.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.threads import in_order

Rounded: TypeAlias = NDArray[np.float32]
Tile: TypeAlias = tuple[int, int, int, int]  # first and last row, first and last column
Rows: TypeAlias = Callable[[int, int], Rounded]
Result = TypeVar("Result")

_HEIGHT, _WIDTH = 512, 2048  # ours: scores of a tile, 4 MiB, stay in caches
_EACH = 12  # ours: at least so many tiles beside each other, for threads and processes
_LARGEST = 1 << 23  # scores of a tile in float32, at most: 32 MiB a thread
_LISTED = 1 << 22  # candidates of a tile, at most
_PEAKS = 64  # ours: parts of a tile, at least, of which the largest scores are compared
_LEAST = np.finfo(np.float32).min
_SCATTER = 2654435761  # odd, near 2³² divided by the golden ratio: Knuth's multiplicative hash
_RARE = 8  # ours: screening is useful if at most one pair in so many can matter


@dataclass(frozen=True)
class Share:
    """Every `of`-th tile of pairs, from number `part`; by default all."""

    part: int = 0
    of: int = 1


ALL = Share()
"""All tiles."""


def is_worthwhile(n: int, k: int) -> bool:
    """Return whether screening may separate k others from n rows."""
    return _side(k) <= n and _side(k) ** 2 <= _LARGEST


def _side(k: int) -> int:
    """Return how many rows a tile must have, so that k others are a small part of it."""
    return (k + 1) * 2 * _RARE


def tiles(n: int, share: Share = ALL, k: int = 0) -> Iterator[Tile]:
    """Yield the tiles of a share: rows, each with itself and all later ones as columns."""
    height = max(_side(k), min(_HEIGHT, n // (2 * _EACH)))
    width = max(_side(k), min(_WIDTH, n // _EACH))
    number = 0
    for start in range(0, n, height):
        for first in range(start, n, width):
            if number % share.of == share.part:
                yield start, min(start + height, n), first, min(first + width, n)
            number += 1


def scored(
    left: Rows, right: Rows, which: Iterator[Tile], work: Callable[[int, int, Rounded], Result]
) -> Iterator[Result]:
    """Yield ``work(row, column, scores)`` of tiles `left` (b, d) `right` (c, d), in their order."""
    own = threading.local()

    def made(tile: Tile) -> Result:
        start, stop, first, last = tile
        if getattr(own, "panel", None) != (start, stop):
            own.panel, own.rows = (start, stop), left(start, stop)
        size = (stop - start) * (last - first)
        if getattr(own, "room", np.empty(0)).size < size:
            own.room = np.empty(size, np.float32)
        S = own.room[:size].reshape(stop - start, last - first)
        np.matmul(own.rows, right(first, last).T, out=S)
        return work(start, first, S)

    return in_order(made, which)


def few(mask: NDArray[np.bool_]) -> tuple[Ints, Ints] | None:
    """Return rows and columns where a mask is true; None if these are many."""
    flat = np.flatnonzero(mask)
    if flat.size > _LISTED:
        return None
    rows, columns = np.divmod(flat, mask.shape[1])
    return rows, columns


def scattered(numbers: Ints) -> Ints:
    """Return 32 bits of each number, which follow no pattern of these, and differ where they do.

    Where many distances are equal, as of words and whole numbers, the smallest numbers would be
    everybody's neighbours: alike samples, as numbers follow from distances (`Order`).
    """
    return (numbers.astype(np.int64) * _SCATTER) & 0xFFFFFFFF


def first_of_each_row(
    rows: Ints, cols: Ints, values: Floats, n_rows: int, k: int
) -> tuple[Ints, Floats]:
    """Select the k smallest of at least k candidates a row, (n_rows, k), ties by `scattered`."""
    order = np.lexsort((scattered(cols), values, rows))
    ends = np.cumsum(np.bincount(rows, minlength=n_rows))
    starts = ends - np.bincount(rows, minlength=n_rows)
    picked = order[starts[:, None] + np.arange(k)]
    return cols[picked], values[picked]


class PairScreen:
    """The pairs that can be among the k best of one of their rows, for errors (n,) of scores."""

    def __init__(self, k: int, error: Rounded) -> None:
        n = len(error)
        self.k, self.error = k, error
        self.best = np.full((n, k), -np.inf, np.float32)  # of each row, scores of k others
        none = np.empty(0, np.int64)
        self.pairs: list[tuple[Ints, Ints, Rounded]] = [  # candidates: row, other, score
            (none, none, np.empty(0, np.float32))
        ]
        self.room: int = 4 * n * (k + 1)  # with more pairs, surpassed ones are dropped
        self._count = 0
        self._lock = threading.Lock()

    def note(self, S: Rounded, start: int, first: int) -> bool:
        """Note candidates of a tile (b, c) at row `start`, column `first`; False if too many."""
        later = S[:, max(0, start + len(S) - first) :]
        return self._note(S, start, first, axis=1) and (
            later.size == 0 or self._note(later, first + S.shape[1] - later.shape[1], start, axis=0)
        )

    def _note(self, S: Rounded, first: int, other: int, axis: int) -> bool:
        """Note candidates of rows (axis 1) or columns (axis 0), numbered from `first`."""
        mine = slice(first, first + S.shape[1 - axis])
        limit = self._reached(mine, _peaks(S, self.k, axis)) - 2 * self.error[mine]
        np.maximum(limit, _LEAST, out=limit)  # a row is no other, though it has seen fewer than k
        found = few(S >= np.expand_dims(limit, axis))
        if found is None:
            return False
        rows, others = found if axis else found[::-1]
        scores = S[found]
        with self._lock:
            self.pairs.append((rows + first, others + other, scores))
            self._count += rows.size
            if self._count <= self.room:
                return True
            self._drop()
            return self._count * 2 <= self.room

    def _reached(self, mine: slice, more: Rounded) -> Rounded:
        """Return scores that at least k others of some rows reach, with `more` of them."""
        if self.k == 0:
            return np.full(mine.stop - mine.start, np.inf, np.float32)
        with self._lock:  # another thread may note the same rows: what it finds is lost, no more
            known = self.best[mine].copy()
        both = np.hstack([known, more])
        both.partition(more.shape[1], axis=1)
        known = both[:, more.shape[1] :]
        with self._lock:
            self.best[mine] = known
        return np.asarray(known.min(axis=1))

    def _drop(self) -> None:
        """Drop the pairs that others of the same row have surpassed."""
        rows, others, S = (np.concatenate(each) for each in zip(*self.pairs, strict=True))
        limit = np.full(len(self.error), np.inf, np.float32)
        if self.k > 0:
            limit = self.best.min(axis=1)
            order = np.lexsort((-S, rows))
            counts = np.bincount(rows, minlength=len(self.error))
            enough = np.flatnonzero(counts >= self.k)
            kth = S[order[(np.cumsum(counts) - counts)[enough] + self.k - 1]]
            limit[enough] = np.maximum(limit[enough], kth)
        kept = S >= (limit - 2 * self.error)[rows]
        self.pairs = [(rows[kept], others[kept], S[kept])]
        self._count = self.pairs[0][0].size

    def kept(self) -> tuple[Ints, Ints]:
        """Return rows and others of all pairs that can matter, at least k of each row."""
        self._drop()
        rows, others, _ = self.pairs[0]
        return rows, others


def _peaks(S: Rounded, k: int, axis: int) -> Rounded:
    """Return some of the largest entries along an axis, (·, q): of each q-th part the largest."""
    n = S.shape[axis]
    q = min(n, max(_PEAKS, 4 * k))
    folds = n // q
    peaks: Rounded
    if axis:
        peaks = S[:, : folds * q].reshape(len(S), folds, q).max(axis=1)
    else:
        peaks = S[: folds * q].reshape(folds, q, S.shape[1]).max(axis=0).T
    return peaks
