"""Graphs of samples that clusterers read in place of all n × n distances."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats
from daskfc.clustering.views.order import Order

Pairs = tuple[NDArray[np.integer], NDArray[np.integer]]
EdgeSource = Callable[[], Iterable[Pairs]]


@dataclass(frozen=True)
class NeighbourGraph:
    """The nearest other samples of every sample.

    Parameters
    ----------
    indices : ndarray of shape (n, k), int32
        Sample numbers of the k nearest others, nearest first; equal distances in order of a hash
        of the sample number. A sample is never its own neighbour.
    distances : ndarray of shape (n, k), float64
        Squared distances to them, in squared units of the data.

    Examples
    --------
    >>> from daskfc.clustering.views.graphs import NeighbourGraph
    >>> graph = NeighbourGraph(np.array([[1], [0], [1]]), np.array([[1.0], [1.0], [4.0]]))
    >>> graph.n, graph.n_neighbors
    (3, 1)
    """

    indices: NDArray[np.int32]
    distances: Floats

    def __post_init__(self) -> None:
        shapes = (self.indices.shape, self.distances.shape)
        assert self.indices.ndim == 2, shapes
        assert shapes[0] == shapes[1], shapes

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.indices.shape[0])

    @property
    def n_neighbors(self) -> int:
        """Number of neighbours of each sample, without itself."""
        return int(self.indices.shape[1])


@dataclass(frozen=True)
class RadiusGraph:
    """All pairs of samples within a radius, read in blocks that fit in memory.

    Parameters
    ----------
    edges : callable
        Called without arguments for every pass over the graph; returns an iterable of blocks
        ``(rows, cols)`` of sample numbers. Together the blocks have every pair within the radius
        once with ``row < col``; mirrored pairs and loops may be included and are skipped.
    n : int
        Number of samples.
    radius2 : float
        The squared radius; pairs at exactly this distance belong to the graph.
    order : Order, optional
        The order that its samples were put in.

    Examples
    --------
    >>> from daskfc.clustering.views.graphs import RadiusGraph
    >>> block = (np.array([0, 1, 1]), np.array([1, 0, 1]))
    >>> [(rows.tolist(), cols.tolist()) for rows, cols in RadiusGraph(lambda: [block], 2, 1.0)]
    [([0], [1])]
    """

    edges: EdgeSource
    n: int
    radius2: float
    order: Order | None = None

    def __iter__(self) -> Iterator[Pairs]:
        for rows, cols in self.edges():
            upper = rows < cols
            yield (rows, cols) if upper.all() else (rows[upper], cols[upper])
