"""Views of the samples that clusterers read: all distances, or coordinates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.linalg

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.graphs import NeighbourGraph, RadiusGraph
from daskfc.clustering.views.order import Order, order_of_distances
from daskfc.linalg.landmarks import LandmarkEmbedding, row_factors

Places: TypeAlias = slice | Ints

_ROWS = 4096  # rows centred at a time
_ENTRIES = 1 << 21  # ours: distances of a panel, 16 MiB
_EXACT = 1e-12  # relative to the mean squared distance: tolerance of coordinates of all distances


@dataclass(frozen=True)
class FullDistances:
    """All squared distances in memory.

    Parameters
    ----------
    matrix : ndarray of shape (n, n), float64
        Squared distances in squared units of the data; symmetric, with a diagonal of exactly 0.
    order : Order, optional
        The samples' order, if it is not the original one.

    Examples
    --------
    >>> from daskfc.clustering.views.views import FullDistances
    >>> FullDistances(np.array([[0.0, 4.0], [4.0, 0.0]])).n
    2
    """

    matrix: Floats
    order: Order | None = None

    def __post_init__(self) -> None:
        shape = self.matrix.shape
        assert shape == (len(self.matrix),) * 2, shape

    @classmethod
    def in_order(cls, matrix: Floats) -> "FullDistances":
        """Return distances in the samples' order that follows from them, permuted in place."""
        order = order_of_distances(matrix)
        moved = order.places
        step = max(1, _ENTRIES // len(matrix))
        for start in range(0, len(matrix), step):
            part = slice(start, start + step)
            matrix[:, part] = matrix[moved, part]
        for start in range(0, len(matrix), step):
            part = slice(start, start + step)
            matrix[part] = matrix[part][:, moved]
        return cls(matrix, order)

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.matrix.shape[0])

    def dot(self, weights: Floats) -> Floats:
        """Return D @ weights for weights of shape (n, k)."""
        return self.matrix @ weights

    def block(self, rows: Places, columns: Places) -> Floats:
        """Return the distances between two sets of samples; do not write to them."""
        return self.matrix[rows][:, columns]

    def isometric(self) -> Floats:
        """Return the rows of D themselves, shape (n, n); do not write to them."""
        return self.matrix

    @property
    def n_features(self) -> int | None:
        """Unknown, None."""
        return None

    def coordinates(self) -> Floats:
        """Return points (n, q) with these squared distances, up to rounding; q is at least 1."""
        embedding = LandmarkEmbedding(self.n, tolerance=_EXACT)
        while (chosen := embedding.next_landmarks()).size:
            embedding.add_columns(chosen, self.matrix[:, chosen])
        return _with_a_column(embedding.coordinates)


def _with_a_column(points: Floats) -> Floats:
    """Return coordinates as they are, but for samples that are all equal in one column of 0."""
    return points if points.shape[1] else np.zeros((len(points), 1))


@dataclass(frozen=True)
class DistanceBlocks:
    """All squared distances, one block at a time in memory.

    Parameters
    ----------
    n : int
        Number of samples.
    block : callable
        Maps places of rows and of columns, slices or arrays of numbers, to a new array of the
        squared distances between them, in squared units of the data: 0 between a sample and itself.
    order : Order, optional
        The samples' order, if it is not the original one.
    folder : str, optional
        Folder for data of a clusterer that exceed memory; by default the system's folder of
        temporary files.

    Examples
    --------
    >>> from daskfc.clustering import DistanceBlocks
    >>> x = np.array([0.0, 1.0, 3.0])
    >>> view = DistanceBlocks(3, lambda rows, columns: (x[rows, None] - x[columns]) ** 2)
    >>> [(start, panel.tolist()) for start, panel in view.panels()]
    [(0, [[0.0, 1.0, 9.0], [1.0, 0.0, 4.0], [9.0, 4.0, 0.0]])]
    """

    n: int
    block: Callable[[Places, Places], Floats]
    order: Order | None = None
    folder: str | None = None

    @classmethod
    def of_points(
        cls,
        points: Floats,
        *,
        whole: bool = False,
        unit: float = 1.0,
        folder: str | None = None,
        copy: bool = True,
    ) -> "DistanceBlocks":
        """Return the distances of points, (n, d) float64, over a unit, computed by products.

        Those of `whole` numbers are exact if all sums of squares are below 2**53. Without a copy,
        the points are moved to their centre.
        """
        centre = points.mean(axis=0)
        centre = np.rint(centre) if whole else centre
        centred = np.subtract(points, centre, out=None if copy else points)
        squares = np.einsum("ij,ij->i", centred, centred)
        numbers = np.arange(len(points))

        def block(rows: Places, columns: Places) -> Floats:
            D: Floats = centred[rows] @ centred[columns].T
            D *= -2.0
            D += squares[rows][:, None]
            D += squares[columns]
            if not whole:
                np.maximum(D, 0.0, out=D)
                D[numbers[rows][:, None] == numbers[columns]] = 0.0
            D /= unit
            return D

        return cls(len(points), block, folder=folder)

    def panels(self, copies: int = 1) -> Iterator[tuple[int, Floats]]:
        """Yield first row numbers and squared distances of some samples to all, for some copies."""
        step = max(1, _ENTRIES // copies // self.n)
        for start in range(0, self.n, step):
            yield start, self.block(slice(start, start + step), slice(0, self.n))

    def full(self) -> Floats:
        """Return all of them, (n, n)."""
        D = np.empty((self.n, self.n))
        for start, panel in self.panels():
            D[start : start + len(panel)] = panel
        return D

    def upper(self) -> Iterator[tuple[slice, slice, Floats]]:
        """Yield blocks that cover the upper triangle; those on the diagonal are whole."""
        start = 0
        while start < self.n:
            stop = min(start + max(1, _ENTRIES // (self.n - start)), self.n)
            rows = slice(start, stop)
            panel = self.block(rows, slice(start, self.n))
            yield rows, rows, panel[:, : stop - start]
            if stop < self.n:
                yield rows, slice(stop, self.n), panel[:, stop - start :]
            start = stop

    def dot(self, weights: Floats) -> Floats:
        """Return D @ weights for weights of shape (n, k)."""
        return symmetric_product(self.upper(), weights)


def symmetric_product(blocks: Iterator[tuple[slice, slice, Floats]], vectors: Floats) -> Floats:
    """Return a symmetric matrix times vectors, (n, k), from the blocks of its upper triangle."""
    product = np.zeros(vectors.shape)
    for rows, columns, block in blocks:
        product[rows] += block @ vectors[columns]
        if rows != columns:
            product[columns] += block.T @ vectors[rows]
    return product


@dataclass(frozen=True)
class RowFactors:
    """Squared distances as a product of thin factors, D = U Vᵀ, stored as coordinates.

    Parameters
    ----------
    points : ndarray of shape (n, q), float64
        Coordinates with ``|y_i - y_j|² = D_ij``, in units of the data.
    n_features : int, optional
        Number of features of the original data, if known and above q.
    off_span, rounding : float, default 0.0
        How much squared distances may be too small, and how far rounding moves a sample.
    told_apart : bool, default False
        Whether the last column is that of `Order.told_apart`, which only breaks ties.
    from_origin : bool, default False
        Whether the coordinates are from the origin of the data, as `about` makes them.

    Notes
    -----
    U = [g, 1, Y] and V = [1, g, -2 Y] with g the squared norms (exact-distance rows of D, in q + 2
    numbers each). Only Y and g are stored: D is symmetric, and every product with it is a product
    with Y.

    Examples
    --------
    >>> from daskfc.clustering.views.views import RowFactors
    >>> view = RowFactors(np.array([[0.0], [1.0], [3.0]]))
    >>> view.dot(np.eye(3)).round(12).tolist()
    [[0.0, 1.0, 9.0], [1.0, 0.0, 4.0], [9.0, 4.0, 0.0]]
    """

    points: Floats
    n_features: int | None = None
    off_span: float = 0.0
    rounding: float = 0.0
    told_apart: bool = False
    from_origin: bool = False

    def error_of(self, squared: float) -> float:
        """Return a bound on the error of a squared distance of that size."""
        both = 2.0 * self.rounding
        return self.off_span + 2.0 * float(np.sqrt(squared)) * both + both * both

    def __post_init__(self) -> None:
        assert self.points.ndim == 2, self.points.shape

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.points.shape[0])

    @property
    def left(self) -> Floats:
        """U of D = U Vᵀ, shape (n, q + 2); computed on every access."""
        return row_factors(self.points)[0]

    @property
    def right(self) -> Floats:
        """V of D = U Vᵀ, shape (n, q + 2); computed on every access."""
        return row_factors(self.points)[1]

    @cached_property
    def _centre(self) -> Floats:
        return np.asarray(self.points.mean(axis=0))

    @cached_property
    def _squares(self) -> Floats:
        """Squared norms about the centroid, where they are smallest."""
        g = np.empty(self.n)
        for number, block in enumerate(self._centred_blocks()):
            g[number * _ROWS : (number + 1) * _ROWS] = np.einsum("ij,ij->i", block, block)
        return g

    def coordinates(self) -> Floats:
        """Return the coordinates, in at least one column; do not write to them."""
        return _with_a_column(self.points)

    def about(self, squares: Floats) -> "RowFactors":
        """Return the samples with the origin at 0, by their squared distances to it, (n,).

        For centred y, ``|y|² - g`` is ``2 y·o`` but for a constant: least squares gives the
        origin's place in the samples' span, and one more coordinate, equal for all, how far it lies
        off that.
        """
        Y = np.empty((self.n, self.points.shape[1] + 1))
        inside = Y[:, :-1]
        np.subtract(self.points, self._centre, out=inside)
        apart = self._squares - squares
        products = inside.T @ (apart - apart.mean()) / 2.0
        inside -= np.linalg.pinv(inside.T @ inside, hermitian=True) @ products
        off = float((squares - np.einsum("ij,ij->i", inside, inside)).mean())
        Y[:, -1] = np.sqrt(max(off, 0.0))  # below 0 by rounding only
        return replace(self, points=Y, from_origin=True)

    def dot(self, weights: Floats) -> Floats:
        """Return D @ weights for weights of shape (n, k), without forming D."""
        g = self._squares[:, None]
        total = weights.sum(axis=0)
        # D = g 1ᵀ + 1 gᵀ - 2 Y Yᵀ for centred Y; the centre is subtracted from the thin products.
        inner = self.points.T @ weights - np.outer(self._centre, total)  # (q, k)
        product: Floats = self.points @ inner
        product -= self._centre @ inner
        product *= -2.0
        product += g * total
        product += (g * weights).sum(axis=0)
        return product

    def isometric(self) -> Floats:
        """Return Z (n, q + 1) with ``|Z_i - Z_j| = |D_i - D_j|``, for k-means on rows of D.

        Notes
        -----
        D_i - D_j = V (u_i - u_j), and the column of ones of U cancels in u_i - u_j. With Y centred,
        the remaining columns 1 and -2 Y of V are orthogonal, hence
        ``Z = [√n g, 2 Y Rᵀ]`` with Rᵀ R = Yᵀ Y.
        """
        n, q = self.points.shape
        gram = np.zeros((q, q))
        for block in self._centred_blocks():
            gram += block.T @ block
        lam, Q = scipy.linalg.eigh(gram)
        root = Q * np.sqrt(np.maximum(lam, 0.0))  # Rᵀ; below 0 by rounding only
        Z = np.empty((n, q + 1))
        Z[:, 0] = np.sqrt(n) * (self._squares - self._squares.mean())
        for number, block in enumerate(self._centred_blocks()):
            np.matmul(block, 2.0 * root, out=Z[number * _ROWS : (number + 1) * _ROWS, 1:])
        return Z

    def _centred_blocks(self) -> Iterator[Floats]:
        for start in range(0, self.n, _ROWS):
            yield self.points[start : start + _ROWS] - self._centre


View: TypeAlias = FullDistances | DistanceBlocks | NeighbourGraph | RadiusGraph | RowFactors
