"""Exact nearest neighbours and pairs within a radius, from samples or from their distances.

A product of matrices screens the pairs, in float32 if that separates enough of them; those that can
matter are then computed in float64 from differences of coordinates, so that a distance depends
neither on the order of the samples nor on the block. Samples on a grid (integers, pixels / 255,
binary fractions) become integers first, as in the coded computation, and `ExactPoints` give whole
numbers: then distances are exact, ties are real, and end by `scattered` numbers of samples.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.exact_points import ExactPoints
from daskfc.clustering.views.graphs import EdgeSource, NeighbourGraph, RadiusGraph
from daskfc.clustering.views.half_distances import HalfDistances, MaybeWithin
from daskfc.clustering.views.screening import first_of_each_row, is_worthwhile
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, Places
from daskfc.coding.residues.scale import GRIDS, detect_grids
from daskfc.threads import do_all

_BLOCK_ENTRIES = 1 << 23  # distances in memory at a time: 64 MiB
_PIECE = 1 << 21  # pairs that are listed at a time, in a few copies
_GATHERED = 1 << 20  # coordinates of pairs at a time: 8 MiB
_ROWS = 4096  # samples at a time that are seen from their mean
_KEPT = 1 << 25  # up to so many pairs within a radius are kept for the next pass: 256 MiB


@dataclass(frozen=True)
class _Samples:
    """Samples X with squared distances of `unit` times the real ones, whole numbers if `exact`."""

    X: Floats
    unit: float = 1.0
    error: float = 0.0
    exact: ExactPoints | None = None

    @classmethod
    def of(cls, given: Floats | ExactPoints) -> "_Samples":
        """Return integers for samples on a grid of step 1 / S; otherwise the samples."""
        if isinstance(given, ExactPoints):
            assert given.certified, given.points.error
            return cls(given.points.coordinates, given.scale2, given.points.error, given)
        grids = detect_grids(given)
        for number, scale in enumerate(GRIDS):
            if grids >> number & 1:
                return cls(np.rint(given * scale), float(scale) ** 2)
        return cls(given)

    def distances(self, rows: Ints, cols: Ints) -> Floats:
        """Return squared distances of listed pairs, from differences; exactly symmetric."""
        result = np.empty(rows.size)
        step = max(1, _GATHERED // max(1, self.X.shape[1]))

        def fill(start: int) -> None:
            part = slice(start, start + step)
            difference = self.X[rows[part]]
            difference -= self.X[cols[part]]
            result[part] = np.square(difference, out=difference).sum(axis=1)

        do_all(fill, range(0, rows.size, step))
        if self.exact is None:
            return result
        return self.exact.whole(result, lambda known: known.pairs(rows, cols))


def nearest_columns(distances: Floats, k: int) -> Ints:
    """Return columns of the k smallest entries of each row, smallest first, ties `scattered`."""
    kth = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    rows, cols = np.nonzero(distances <= kth)
    return first_of_each_row(rows, cols, distances[rows, cols], len(distances), k)[0]


def nearest_of_matrix(matrix: Floats, k: int) -> NeighbourGraph:
    """Return the k nearest others of each sample from all squared distances, ties `scattered`."""
    n = len(matrix)
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k))
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, step):
        block = matrix[start : start + step].copy()
        local = np.arange(len(block))
        block[local, start + local] = np.inf  # not its own neighbour
        cols = nearest_columns(block, k)
        indices[start : start + step] = cols
        distances[start : start + step] = np.take_along_axis(block, cols, axis=1)
    return NeighbourGraph(indices, distances)


def within_radius_of_matrix(matrix: Floats, radius2: float) -> RadiusGraph:
    """Return the graph of pairs within a squared radius from all squared distances."""
    n = len(matrix)
    step = max(1, _BLOCK_ENTRIES // n)

    def edges() -> Iterator[tuple[Ints, Ints]]:
        for start in range(0, n, step):
            rows, cols = np.nonzero(matrix[start : start + step] <= radius2)
            yield rows + start, cols

    return RadiusGraph(edges, n, radius2)


def _kept(edges: EdgeSource) -> EdgeSource:
    """Return edges that are kept after the first pass, unless they are too many."""
    found: list[tuple[NDArray[np.integer], NDArray[np.integer]]] = []
    whole = False

    def again() -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer]]]:
        nonlocal whole
        if whole:
            yield from found
            return
        found.clear()
        room = _KEPT
        for rows, cols in edges():
            room -= rows.size
            if room >= 0:
                found.append((rows.astype(np.int32), cols.astype(np.int32)))
            else:
                found.clear()
            yield rows, cols
        whole = room >= 0

    return again


def _screened(samples: _Samples, some: Ints | None = None) -> Iterator[tuple[Ints, Floats, float]]:
    """Yield numbers of rows, approximate squared distances to all, and their error bound."""
    X = samples.X
    n, d = X.shape
    shift = np.rint(X.mean(axis=0))  # by integers, which keeps integers
    Y = X - shift if some is None else None  # for few rows no copy of all
    parts = [slice(start, start + _ROWS) for start in range(0, n, _ROWS)]
    g = np.concatenate([np.square(X[part] - shift).sum(axis=1) for part in parts])
    # |error| <= (d + 4) ε (|x| + |y|)² <= 4 (d + 4) ε max g for g_i + g_j - 2 x·y.
    error = 4.0 * (d + 4) * np.finfo(np.float64).eps * float(g.max()) + samples.error
    step = max(1, _BLOCK_ENTRIES // n)
    some = np.arange(n) if some is None else some
    for numbers in (some[start : start + step] for start in range(0, some.size, step)):
        block, own = np.empty((numbers.size, n)), X[numbers] - shift
        for part in parts:
            others = X[part] - shift if Y is None else Y[part]
            np.matmul(own, others.T, out=block[:, part])
        block *= -2.0
        block += g
        block += g[numbers, None]
        yield numbers, block, error


def half_distances(X: Floats | ExactPoints) -> tuple[HalfDistances | None, float]:
    """Return the screening distances, None if float32 is unsuitable, and their unit."""
    samples = _Samples.of(X)
    return HalfDistances.of(samples.X, samples.error), samples.unit


def nearest_of_points(
    X: Floats | ExactPoints, k: int, pairs: tuple[Ints, Ints] | None = None
) -> NeighbourGraph:
    """Return the k nearest others of each sample, exact, ties by `scattered` numbers."""
    samples = _Samples.of(X)
    n = len(samples.X)
    if pairs is None and is_worthwhile(n, k):
        scores = HalfDistances.of(samples.X, samples.error)
        pairs = None if scores is None else scores.nearest(k)
    if pairs is not None:
        found = first_of_each_row(*pairs, samples.distances(*pairs), n, k)
        return NeighbourGraph(found[0].astype(np.int32), found[1] / samples.unit)
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k))
    for numbers, block, error in _screened(samples):
        rows, cols = _nearest_in(block, numbers, error, k)
        exact = samples.distances(numbers[rows], cols)
        found = first_of_each_row(rows, cols, exact, len(block), k)
        indices[numbers], distances[numbers] = found
    return NeighbourGraph(indices, distances / samples.unit)


def _nearest_in(block: Floats, numbers: Ints, error: float, k: int) -> tuple[Ints, Ints]:
    """Return places in a block, whose rows have `numbers`, that can be among the k nearest."""
    block[np.arange(len(block)), numbers] = np.inf  # not its own neighbour
    # The k-th smallest approximation is at most `error` above the true k-th distance.
    limit = np.partition(block, k - 1, axis=1)[:, k - 1 : k] + 2 * error
    rows, cols = np.nonzero(block <= limit)
    return rows, cols


def nearest_since(X: Floats | ExactPoints, new: Ints, k: int, reach: Floats) -> tuple[Ints, Ints]:
    """Return pairs (rows, others) that can be near because of `new` samples.

    `reach` (n,) is the squared distance to the k-th nearest without them; that of new ones is -inf.
    """
    samples, found = _Samples.of(X), [(new[:0], new[:0])]
    for numbers, block, error in _screened(samples, new):
        rows, cols = _nearest_in(block, numbers, error, k)
        found.append((numbers[rows], cols))
        rows, cols = np.nonzero(block <= reach * samples.unit + error)
        found.append((cols, numbers[rows]))
    rows, others = (np.concatenate(each) for each in zip(*found, strict=True))
    return rows, others


def within_reach(
    X: Floats | ExactPoints, pairs: tuple[Ints, Ints], reach: Floats
) -> NDArray[np.bool_]:
    """Return which pairs (rows, others) are not farther than the squared `reach` of the row."""
    samples = _Samples.of(X)
    return samples.distances(*pairs) / samples.unit <= reach[pairs[0]]


def _pieces(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield first and last rows of parts of a block, small enough to list all pairs."""
    step = max(1, _PIECE // width)
    for first in range(0, n_rows, step):
        yield first, min(first + step, n_rows)


def within_radius_since(
    X: Floats | ExactPoints, new: Ints, radius2: float
) -> Iterator[MaybeWithin]:
    """Yield pairs that can be within a squared radius, each once, one or both of them `new`."""
    return _within(_Samples.of(X), radius2, new)


def _within(samples: _Samples, radius2: float, some: Ints | None = None) -> Iterator[MaybeWithin]:
    """Yield pairs of all samples, or those of `some`, and a mask of those that are not certain."""
    limit = radius2 * samples.unit
    again = np.full(len(samples.X), some is None)  # whose pairs come from both sides
    again[some] = True
    for numbers, block, error in _screened(samples, some):
        for first, last in _pieces(*block.shape):
            rows, cols = np.nonzero(block[first:last] <= limit + error)
            rows += first
            own = numbers[rows]
            once = ~again[cols] | (own < cols)
            rows, cols, own = rows[once], cols[once], own[once]
            unsure = block[rows, cols] > limit - error
            yield np.minimum(own, cols), np.maximum(own, cols), unsure


def within_radius_of_points(
    X: Floats | ExactPoints, radius2: float, pairs: Sequence[MaybeWithin] | None = None
) -> RadiusGraph:
    """Return the exact graph of pairs within a squared radius, in squared units of the data."""
    samples = _Samples.of(X)
    unit = samples.unit
    scores = None if pairs is not None else HalfDistances.of(samples.X, samples.error)

    def candidates() -> Iterable[MaybeWithin]:
        if pairs is not None:
            return pairs
        if scores is not None and scores.tells(radius2 * unit):
            return scores.within(radius2 * unit)
        return _within(samples, radius2)

    def edges() -> Iterator[tuple[Ints, Ints]]:
        for rows, cols, unsure in candidates():
            doubtful = np.flatnonzero(unsure)
            exact = samples.distances(rows[doubtful], cols[doubtful]) / unit
            kept = np.ones(rows.size, dtype=bool)
            kept[doubtful] = exact <= radius2
            yield rows[kept], cols[kept]

    return RadiusGraph(_kept(edges), len(samples.X), radius2)


def exact_blocks(X: Floats) -> DistanceBlocks:
    """Return all squared distances of samples (n, d), computed when read; exact on a grid."""
    samples = _Samples.of(X)
    X, unit = samples.X, samples.unit
    spread = X - np.rint(X.mean(axis=0))
    largest = float(np.einsum("ij,ij->i", spread, spread).max())
    if np.array_equal(X, np.rint(X)) and largest <= 2.0**51:
        # Integers: all terms of the product stay below 4 * 2**51 = 2**53, so that it is exact.
        return DistanceBlocks.of_points(X, whole=True, unit=unit)

    def block(rows: Places, columns: Places) -> Floats:
        real: Floats = cdist(X[rows], X[columns], "sqeuclidean")
        real /= unit
        return real

    return DistanceBlocks(len(X), block)


def exact_squared_distances(X: Floats) -> Floats:
    """Return all squared distances (n, n): exactly 0 on the diagonal, exactly symmetric."""
    return exact_blocks(X).full()


def distances_of(X: Floats, most: int = 8192) -> FullDistances | DistanceBlocks:
    """Return all squared distances of samples, in memory for up to `most` samples (512 MiB)."""
    if len(X) > most:
        return exact_blocks(X)
    return FullDistances(exact_squared_distances(X))
