"""Samples with coordinates from which every squared distance is known exactly."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.order import Order, order_of_points
from daskfc.clustering.views.views import DistanceBlocks, Places
from daskfc.coding import ResidueColumns, WideIntegers
from daskfc.linalg import IntegerPoints, points_from_columns

_ENTRIES = 1 << 22  # distances at a time, in a few copies


@dataclass(frozen=True)
class ExactPoints:
    """Coordinates whose squared distances are near whole numbers, and residues that select these.

    Distances of the coordinates are off by less than `points.error`. If that is less than one half,
    rounding gives the whole number; otherwise residues select one of the whole numbers nearby.

    Parameters
    ----------
    points : IntegerPoints
        The coordinates.
    scale2 : float, default 1.0
        S²: real squared distances are whole ones divided by it.
    residues : ResidueColumns, optional
        Distances modulo more than twice the error.
    order : Order, optional
        The samples' order, if it is not the original one.

    Examples
    --------
    >>> from daskfc.clustering import exact_points
    >>> D = np.array([[0, 1, 9], [1, 0, 4], [9, 4, 0]])
    >>> points = exact_points(lambda rows: D[rows, :2], [0, 1], n=3, n_features=1)
    >>> [(first, rows.tolist()) for first, rows in points.panels()]
    [(0, [[0.0, 1.0, 9.0], [1.0, 0.0, 4.0], [9.0, 4.0, 0.0]])]
    """

    points: IntegerPoints
    scale2: float = 1.0
    residues: ResidueColumns | None = None
    order: Order | None = None

    def in_order(self) -> "ExactPoints":
        """Return samples in the order that follows from their distances, permuted in place once."""
        if self.order is not None:
            return self
        Y = self.points.coordinates
        order = order_of_points(Y, self.points.error, self._exactly)
        moved = [Y] if self.residues is None else [Y, *self.residues.by_sample()]
        for array in moved:
            _move(array, order.places)
        object.__setattr__(self, "order", order)  # so that these arrays are not permuted again
        return self

    def _exactly(self, approximate: Floats, some: Ints, one: int) -> Floats:
        return self.whole(approximate, lambda known: known.pairs(some, np.full(some.size, one)))

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.points.n

    @property
    def certified(self) -> bool:
        """Whether every distance is known, to the last bit."""
        return self.points.certified or self.residues is not None

    def whole(self, approximate: Floats, residue: Callable[[ResidueColumns], Ints]) -> Floats:
        """Return the whole numbers near squared distances; `residue` tells them apart."""
        np.rint(approximate, out=approximate)
        if self.points.certified or self.residues is None:
            return approximate
        M, found = self.residues.modulus, residue(self.residues)
        found -= np.fmod(approximate, M).astype(np.int64)
        found += M // 2
        found %= M
        found -= M // 2
        approximate += found
        return approximate

    @cached_property
    def _squares(self) -> Floats:
        Y = self.points.coordinates
        return np.asarray(np.einsum("ij,ij->i", Y, Y))

    def block(self, rows: Places, columns: Places) -> Floats:
        """Return the real squared distances between two sets of samples."""
        Y = self.points.coordinates
        block: Floats = Y[rows] @ Y[columns].T
        block *= -2.0
        block += self._squares[columns]
        block += self._squares[rows][:, None]
        whole = self.whole(block, partial(ResidueColumns.block, rows=rows, columns=columns))
        whole /= self.scale2
        return whole

    def blocks(self, folder: str | None = None) -> DistanceBlocks:
        """Return the distances as blocks that are computed when they are read."""
        return DistanceBlocks(self.n, self.block, self.order, folder)

    def panels(self) -> Iterator[tuple[int, Floats]]:
        """Yield numbers of first rows and real squared distances of some samples to all."""
        return self.blocks().panels()

    def full(self) -> Floats:
        """Return all real squared distances, (n, n): exactly symmetric, 0 on the diagonal."""
        return self.blocks().full()


def _move(array: NDArray[Any], places: Ints) -> None:
    """Permute rows in place, some columns at a time."""
    step = max(1, array.shape[1] // 16)
    for start in range(0, array.shape[1], step):
        part = slice(start, start + step)
        array[:, part] = array[places, part]


def exact_points(
    columns: Callable[[slice], NDArray[np.number] | WideIntegers],
    landmarks: Sequence[int] | Ints,
    *,
    n: int,
    n_features: int,
    scale2: float = 1.0,
    primes: Sequence[int] = (),
) -> ExactPoints:
    """Return samples from columns of their whole squared distances.

    Parameters
    ----------
    columns : callable
        Maps a slice of samples to their squared distances to the landmarks, whole numbers (b, c).
    landmarks : sequence of int
        c numbers of samples.
    n, n_features : int
        Number of samples, and an upper bound on their rank.
    scale2 : float, default 1.0
        As for `ExactPoints`.
    primes : sequence of int, optional
        Moduli of residues, for distances that rounding does not determine.

    Returns
    -------
    ExactPoints
        ``certified`` says whether all distances are known. Residues need landmarks of rank
        ``min(n - 1, n_features)``, so that all samples lie in their span.
    """
    points = points_from_columns(columns, landmarks, n=n)
    if points.certified or points.error >= math.prod(primes):
        return ExactPoints(points, scale2)
    residues = ResidueColumns.among(
        primes,
        columns,
        landmarks,
        n=n,
        rank=min(n - 1, n_features),
        above=2 * math.ceil(points.error) + 2,
    )
    return ExactPoints(points, scale2, residues)
