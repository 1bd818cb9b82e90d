"""The k nearest neighbours of every row and every column of one block, in one pass over it.

Of the millions of entries of a block, only a few are among the nearest of their row or column. Each
row and column has a limit that these do not exceed; only entries within the limits are sorted.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints

_Part = tuple[Ints, Ints, Floats]  # owners, others, distances

NOBODY = int(np.iinfo(np.int64).max)  # the neighbour in an empty place; its distance is inf

_STRIP = 1 << 16  # ours: entries at a time, 512 KiB, so that three passes stay in cache
_SORTED = 1 << 18  # ours: places sorted together, about 12 MiB with all copies
_SPARE = 12  # ours: groups per neighbour; two of the nearest rarely share a group


@dataclass(frozen=True)
class Nearest:
    """The nearest neighbours of some rows, nearest first, ties by the smaller neighbour."""

    owners: Ints  # (h,), ascending
    distances: Floats  # (h, w), squared, infinity in empty places
    others: Ints  # (h, w), NOBODY in empty places

    @property
    def width(self) -> int:
        """Most neighbours of a row."""
        return int(self.others.shape[1])


def merge(
    distances: Floats, others: Ints, more_distances: Floats, more_others: Ints
) -> tuple[Floats, Ints]:
    """Return the k nearest of two disjoint lists of each row's neighbours, (h, k) and (h, w)."""
    both = np.concatenate([distances, more_distances], axis=1)
    whose = np.concatenate([others, more_others], axis=1)
    both, whose = _in_order(both, whose)
    k = distances.shape[1]
    return both[:, :k], whose[:, :k]


def _in_order(distances: Floats, others: Ints) -> tuple[Floats, Ints]:
    """Sort each row by distance, then by neighbour."""
    order = np.argsort(distances, axis=1, kind="stable")
    D = np.take_along_axis(distances, order, axis=1)
    J = np.take_along_axis(others, order, axis=1)
    # a stable sort keeps the order of equal distances, mostly that of the neighbours
    wrong = np.flatnonzero(((D[:, 1:] == D[:, :-1]) & (J[:, 1:] < J[:, :-1])).any(axis=1))
    if wrong.size:
        order = np.lexsort((J[wrong], D[wrong]), axis=-1)
        J[wrong] = np.take_along_axis(J[wrong], order, axis=1)
    return D, J


def _nearest(parts: list[_Part], k: int) -> Nearest:
    """Return the k nearest of each owner among some entries."""
    owners, others, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    if (owners[1:] < owners[:-1]).any():
        small = owners.astype(np.uint16) if owners.max() < 1 << 16 else owners
        order = np.argsort(small, kind="stable")  # a radix sort for two-byte integers
        owners, others, distances = owners[order], others[order], distances[order]
    begins = np.ones(len(owners), bool)
    begins[1:] = owners[1:] != owners[:-1]
    starts = np.flatnonzero(begins)
    counts = np.diff(starts, append=len(owners))
    width = int(counts.max(initial=1))
    shape = len(starts), min(k, width)
    nearest = Nearest(owners[starts], np.empty(shape), np.empty(shape, np.int64))
    step = max(1, _SORTED // width)
    for low in range(0, len(starts), step):
        some = slice(low, min(low + step, len(starts)))
        entries = slice(starts[low], starts[low] + counts[some].sum())
        row = np.repeat(np.arange(some.stop - low), counts[some])
        place = np.arange(entries.start, entries.stop) - np.repeat(starts[some], counts[some])
        D = np.full((some.stop - low, width), np.inf)
        J = np.full((some.stop - low, width), NOBODY)
        D[row, place] = distances[entries]
        J[row, place] = others[entries]
        D, J = _in_order(D, J)
        nearest.distances[some], nearest.others[some] = D[:, :k], J[:, :k]
    return nearest


@dataclass
class _Kept:
    """Entries found so far in one direction."""

    k: int
    room: int  # beyond it only the nearest are kept, as with millions of equal distances
    parts: list[_Part] = field(default_factory=list)
    count: int = 0

    def add(self, owners: Ints, others: Ints, distances: Floats) -> None:
        part = owners, others, distances
        if self.count + len(owners) > self.room:
            part = self._fewer([part])
        self.parts.append(part)
        self.count += len(part[0])
        if self.count > self.room:
            self.parts = [self._fewer(self.parts)]
            self.count = len(self.parts[0][0])

    def _fewer(self, parts: list[_Part]) -> _Part:
        best = _nearest(parts, self.k)
        row, rank = np.nonzero(best.others != NOBODY)
        return best.owners[row], best.others[row, rank], best.distances[row, rank]

    def nearest(self) -> Nearest:
        return _nearest(self.parts, self.k)


def limit_of_rows(block: Floats, k: int) -> Floats:
    """Return an upper bound of each row's k-th smallest entry, (a,); infinity where b < k."""
    b = block.shape[1]
    if b < k:
        return np.full(len(block), np.inf)
    groups = max(128, _SPARE * k)
    minima = block
    if b >= 2 * groups:
        minima = block[:, :groups].copy(order="K")
        for start in range(groups, b, groups):
            part = block[:, start : start + groups]
            head = minima[:, : part.shape[1]]
            np.minimum(head, part, out=head)
    return np.partition(np.ascontiguousarray(minima), k - 1, axis=1)[:, k - 1]


def _passing(hits: NDArray[np.bool_], size: int) -> Ints:
    """Return where a flat, mostly false mask is true, reading eight bytes at a time."""
    hits[size:] = False
    words = np.flatnonzero(hits.view(np.uint64))
    word, byte = np.nonzero(hits.reshape(-1, 8)[words])
    return words[word] * 8 + byte


def nearest_of_block(block: Floats, k: int, *, diagonal: bool) -> tuple[Nearest, Nearest]:
    """Return the k nearest columns of each row, and rows of each column; none on the diagonal."""
    a, b = block.shape
    # on the diagonal the sample itself is one of the k + 1 nearest
    row_limits = limit_of_rows(block, k + int(diagonal))
    column_limits = None if diagonal else limit_of_rows(block.T, k)
    step = min(a, max(1, _STRIP // b))
    hits = np.zeros(-(-step * b // 8) * 8, bool)
    other = np.empty((step, b), bool)
    kept = _Kept(k, max(_STRIP, 2 * k * a)), _Kept(k, max(_STRIP, 2 * k * b))
    for start in range(0, a, step):
        strip = block[start : start + step]
        mask = hits[: strip.size].reshape(strip.shape)
        np.less_equal(strip, row_limits[start : start + step, None], out=mask)
        if column_limits is not None:
            below = other[: len(strip)]
            np.less_equal(strip, column_limits, out=below)
            np.logical_or(mask, below, out=mask)
        places = _passing(hits, strip.size)
        values = strip.reshape(-1)[places]
        rows, columns = np.divmod(places, b)
        rows += start
        if column_limits is None:
            apart = rows != columns
            kept[0].add(rows[apart], columns[apart], values[apart])
            kept[1].add(*(np.empty(0, np.int64),) * 2, np.empty(0))
            continue
        near = values <= row_limits[rows]
        kept[0].add(rows[near], columns[near], values[near])
        near = values <= column_limits[columns]
        kept[1].add(columns[near], rows[near], values[near])
    return kept[0].nearest(), kept[1].nearest()
