"""Exact nearest neighbours and pairs within a radius, from samples or from their distances.

A product of matrices screens the pairs, in float32 where that tells enough of them apart; those
that can matter are then computed in float64 from differences of coordinates, in which a distance
does not depend on the order of the samples nor on the block it was computed in. Samples on a grid
(integers, pixels / 255, binary fractions) become integers first, as the coded computation makes
them: then distances are exact, ties are real ties, and the smaller sample number wins. So they are
for `ExactPoints`, which tell the whole numbers that distances of their coordinates stand for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from daskfc.clustering.exact_points import ExactPoints
from daskfc.clustering.graphs import EdgeSource, NeighbourGraph, RadiusGraph
from daskfc.clustering.screening import (
    PairScreen,
    first_of_each_row,
    is_worthwhile,
    rounded_products,
    rows_at,
    score_buffer,
)
from daskfc.coding.scale import GRIDS, detect_grids

__all__ = [
    "exact_squared_distances",
    "nearest_columns",
    "nearest_of_matrix",
    "nearest_of_points",
    "within_radius_of_matrix",
    "within_radius_of_points",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK_ENTRIES = 1 << 23  # distances held at a time: 64 MiB
_ROWS = 4096  # rows that are scaled at a time
_PIECE = 1 << 21  # pairs that may all be listed at a time, in a few copies
_KEPT = 1 << 25  # pairs within a radius that are kept for the next pass: 256 MiB


@dataclass(frozen=True)
class _Samples:
    """Samples whose distances are wanted.

    Squared distances of the rows of X are `unit` times real ones, or off by at most `error` from
    whole numbers that are, and that `exact` tells.
    """

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
        """Squared distances of listed pairs, from differences; symmetric to the last bit."""
        result = np.empty(rows.size)
        step = max(1, _BLOCK_ENTRIES // max(1, self.X.shape[1]))
        for start in range(0, rows.size, step):
            part = slice(start, start + step)
            difference = self.X[rows[part]] - self.X[cols[part]]
            result[part] = np.square(difference, out=difference).sum(axis=1)
        if self.exact is None:
            return result
        return self.exact.whole(result, lambda known: known.pairs(rows, cols))


def _pieces(n_rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield first and last rows of parts of a block whose pairs may all be listed."""
    step = max(1, _PIECE // width)
    for first in range(0, n_rows, step):
        yield first, min(first + step, n_rows)


def nearest_columns(distances: Floats, k: int) -> Ints:
    """Return the columns of the k smallest entries of each row.

    Parameters
    ----------
    distances : ndarray of shape (b, n)
        Distances.
    k : int
        At least 1 and at most n.

    Returns
    -------
    ndarray of shape (b, k), int64
        Smallest first; equal entries in order of the column.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.nearest import nearest_columns
    >>> nearest_columns(np.array([[2.0, 1.0, 1.0, 0.0]]), 2).tolist()
    [[3, 1]]
    """
    kth = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    rows, cols = np.nonzero(distances <= kth)
    return first_of_each_row(rows, cols, distances[rows, cols], len(distances), k)[0]


def nearest_of_matrix(matrix: Floats, k: int) -> NeighbourGraph:
    """Return the k nearest others of each sample from all squared distances.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Squared distances.
    k : int
        At most n - 1.

    Returns
    -------
    NeighbourGraph
        Ties by the smaller sample number.
    """
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
    """Return edges that are computed on the first pass only, unless they are too many to keep."""
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


def _screened(samples: _Samples) -> Iterator[tuple[int, Floats, float]]:
    """Yield (start, approximate squared distances of a block of rows to all, their error bound)."""
    X = samples.X
    n, d = X.shape
    Y = X - np.rint(X.mean(axis=0))  # a shift by integers keeps integers
    g = np.einsum("ij,ij->i", Y, Y)
    # |error| <= (d + 4) ε (|x| + |y|)² <= 4 (d + 4) ε max g for g_i + g_j - 2 x·y.
    error = 4.0 * (d + 4) * np.finfo(np.float64).eps * float(g.max()) + samples.error
    step = max(1, _BLOCK_ENTRIES // n)
    for start in range(0, n, step):
        block = Y[start : start + step] @ Y.T
        block *= -2.0
        block += g
        block += g[start : start + step, None]
        yield start, block, error


class _HalfDistances:
    """Minus half the squared distances of all pairs in float32, block by block.

    They are x·y - |x|²/2 - |y|²/2 for samples that are shifted to their mean and scaled to entries
    of at most 1, as products of rows with two columns more. With u = 2⁻²⁴ one is off by at most
    (d + 5) u (|x| + |y|)² / 2 but for u² and for what float32 flushes to 0: `error` has room.
    """

    def __init__(self, samples: _Samples) -> None:
        X = samples.X
        n, d = X.shape
        self.X, self.shift = X, np.rint(X.mean(axis=0))
        above, below = X.max(axis=0) - self.shift, self.shift - X.min(axis=0)
        self.largest = max(float(above.max(initial=0.0)), float(below.max(initial=0.0)))
        self.tells = 1e-100 < self.largest < 1e100  # else squares are lost
        if not self.tells:
            return
        self.half = np.empty(n)
        for start in range(0, n, _ROWS):
            block = (X[start : start + _ROWS] - self.shift) / self.largest
            self.half[start : start + _ROWS] = np.einsum("ij,ij->i", block, block) / 2
        norms = np.sqrt(2 * self.half)
        error = (norms + norms.max()) ** 2 * (2.0**-25 * (d + 8)) + d * 1e-37
        error += samples.error / self.largest**2
        self.error = error.astype(np.float32)

    def blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield the number of a first row, and scores of some rows with themselves and later ones.

        They are written over when the next are made.
        """
        n, d = self.X.shape
        buffer = score_buffer(n)
        start = 0
        while start < n:
            stop = start + rows_at(start, n)
            left = self._rounded(start, stop)
            left[:, d], left[:, d + 1] = -1.0, -left[:, d]
            yield start, rounded_products(left, self._rounded, start, n, buffer)
            start = stop

    def _rounded(self, first: int, last: int) -> NDArray[np.float32]:
        d = self.X.shape[1]
        rows = np.empty((last - first, d + 2), np.float32)
        centred = self.X[first:last] - self.shift
        np.multiply(centred, 1.0 / self.largest, out=rows[:, :d], casting="same_kind")
        rows[:, d], rows[:, d + 1] = self.half[first:last], 1.0
        return rows


def _nearby(samples: _Samples, k: int) -> tuple[Ints, Ints] | None:
    """Return pairs with those of each row and its k nearest others; None if float32 tells few."""
    scores = _HalfDistances(samples)
    if not scores.tells:
        return None
    screen = PairScreen(k, scores.error)
    for start, S in scores.blocks():
        own = np.arange(len(S))
        S[own, own] = -np.inf
        if not screen.note(S, start):
            return None
    return screen.kept()


def nearest_of_points(X: Floats | ExactPoints, k: int) -> NeighbourGraph:
    """Return the k nearest others of each sample.

    Parameters
    ----------
    X : ndarray of shape (n, d), float64, or ExactPoints
        Samples.
    k : int
        At most n - 1.

    Returns
    -------
    NeighbourGraph
        Exact; ties by the smaller sample number.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.nearest import nearest_of_points
    >>> nearest_of_points(np.array([[0.0], [1.0], [2.0]]), 1).indices.tolist()
    [[1], [0], [1]]
    """
    samples = _Samples.of(X)
    n = len(samples.X)
    pairs = _nearby(samples, k) if is_worthwhile(n, k) else None
    if pairs is not None:
        found = first_of_each_row(*pairs, samples.distances(*pairs), n, k)
        return NeighbourGraph(found[0].astype(np.int32), found[1] / samples.unit)
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k))
    for start, block, error in _screened(samples):
        local = np.arange(len(block))
        block[local, start + local] = np.inf
        # The k-th smallest approximation is at most `error` above the true k-th distance.
        limit = np.partition(block, k - 1, axis=1)[:, k - 1 : k] + 2 * error
        rows, cols = np.nonzero(block <= limit)
        exact = samples.distances(rows + start, cols)
        part = slice(start, start + len(block))
        indices[part], distances[part] = first_of_each_row(rows, cols, exact, len(block), k)
    return NeighbourGraph(indices, distances / samples.unit)


def within_radius_of_points(X: Floats | ExactPoints, radius2: float) -> RadiusGraph:
    """Return the graph of pairs of samples within a squared radius.

    Parameters
    ----------
    X : ndarray of shape (n, d), float64, or ExactPoints
        Samples.
    radius2 : float
        Squared radius, in squared units of the data.

    Returns
    -------
    RadiusGraph
        Exact; computed on the first pass, and anew on every one where pairs are very many.
    """
    samples = _Samples.of(X)
    unit = samples.unit
    scores = _HalfDistances(samples)

    def told_apart() -> Iterator[tuple[Ints, Ints, NDArray[np.bool_]]]:
        """Yield pairs that may be near enough, and which of them are not sure to be."""
        assert scores.tells
        limit = np.float64(-radius2 * unit / scores.largest**2 / 2)  # or it would be rounded
        for start, S in scores.blocks():
            error = scores.error[start : start + len(S)]
            least = np.nextafter((limit - error).astype(np.float32), np.float32(-np.inf))
            for first, last in _pieces(*S.shape):
                rows, cols = np.nonzero(S[first:last] >= least[first:last, None])
                rows += first
                upper = rows < cols
                rows, cols = rows[upper], cols[upper]
                yield rows + start, cols + start, S[rows, cols] <= limit + error[rows]

    def in_float64() -> Iterator[tuple[Ints, Ints, NDArray[np.bool_]]]:
        for start, block, error in _screened(samples):
            for first, last in _pieces(*block.shape):
                rows, cols = np.nonzero(block[first:last] <= radius2 * unit + error)
                rows += first
                upper = rows + start < cols
                rows, cols = rows[upper], cols[upper]
                yield rows + start, cols, block[rows, cols] > radius2 * unit - error

    # Where more than a hundredth of the radius is in doubt, pairs may be that float32 leaves open.
    screens = scores.tells and (
        200.0 * float(scores.error.max()) * scores.largest**2 < radius2 * unit
    )

    def edges() -> Iterator[tuple[Ints, Ints]]:
        for rows, cols, unsure in told_apart() if screens else in_float64():
            doubtful = np.flatnonzero(unsure)
            exact = samples.distances(rows[doubtful], cols[doubtful]) / unit
            kept = np.ones(rows.size, dtype=bool)
            kept[doubtful] = exact <= radius2
            yield rows[kept], cols[kept]

    return RadiusGraph(_kept(edges), len(samples.X), radius2)


def exact_squared_distances(X: Floats) -> Floats:
    """Return all squared distances: exactly 0 on the diagonal, exactly symmetric.

    Parameters
    ----------
    X : ndarray of shape (n, d), float64
        Samples.

    Returns
    -------
    ndarray of shape (n, n), float64
        Exact for samples on a grid, else rounded as a sum of squared differences is.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.nearest import exact_squared_distances
    >>> exact_squared_distances(np.array([[0.0], [3.0]])).tolist()
    [[0.0, 9.0], [9.0, 0.0]]
    """
    samples = _Samples.of(X)
    X, n, unit = samples.X, len(samples.X), samples.unit
    spread = X - np.rint(X.mean(axis=0))
    largest = float(np.einsum("ij,ij->i", spread, spread).max())
    if not np.array_equal(X, np.rint(X)) or largest > 2.0**51:
        real: Floats = cdist(X, X, "sqeuclidean") / unit
        return real
    # Integers: all terms of the product stay below 4 * 2**51 = 2**53, so that it is exact.
    whole = np.empty((n, n))
    for start, block, _ in _screened(samples):
        whole[start : start + len(block)] = block
    whole /= unit
    return whole
