"""Clusters by density, and noise: scikit-learn's HDBSCAN and OPTICS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from daskfc.checks import Constraint, between_0_and_1, integer, optional
from daskfc.clustering.clusterers.clusterer import Clustering, Needs
from daskfc.clustering.clusterers.library import NearestSample
from daskfc.clustering.views.graphs import NeighbourGraph
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.errors import InvalidInput

__all__ = ["HDBSCAN", "OPTICS"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


_EQUAL = 2.0**-40  # ours: of the largest distance; how far apart the library sees equal samples
_BEYOND = 1e-9  # ours: of the largest distance; so far beyond it parts join, after all samples
_EDGE = 80  # bytes in a fit: an edge both ways, with copies that the library compares


@dataclass(frozen=True)
class HDBSCAN(NearestSample):
    """Clusters that persist over densities, and noise: scikit-learn's HDBSCAN.

    Parameters
    ----------
    min_cluster_size : int, default 5
        Samples of the smallest cluster.
    min_samples : int, optional
        Neighbours of a core sample, itself included; by default `min_cluster_size`.
    n_neighbors : int, optional
        Neighbours of a sample, itself included and at least `min_samples`, whose distances alone
        are read: for very many samples. By default all distances.

    Notes
    -----
    All distances take time quadratic in the samples. With `n_neighbors`, the tree of clusters is
    that of the graph of nearest neighbours. Densities are exact; so are the clusters where
    the graph holds a minimum spanning tree of all distances, as it does for ``n_neighbors=n``.
    Else groups may join later than they should, and parts of the graph without an edge between
    them join after its largest distance, so that a lone sample is counted to its part. Where
    distances tie, a sample between clusters may get another label. A new sample gets the label of
    its nearest one.

    Examples
    --------
    >>> from daskfc.clustering import HDBSCAN, RowFactors
    >>> view = RowFactors(np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2], [99.0]]))
    >>> HDBSCAN(min_cluster_size=2).fit(view, None, seed=0).labels.tolist()
    [0, 0, 0, 1, 1, 1, -1]
    """

    min_cluster_size: int = 5
    min_samples: int | None = None
    n_neighbors: int | None = None

    name: ClassVar[str] = "hdbscan"
    finds_n_clusters: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "min_cluster_size": integer(2),
        "min_samples": optional(integer(1)),
        "n_neighbors": optional(integer(2)),
    }
    accepts = (FullDistances, RowFactors, NeighbourGraph)
    matrices = 2.1  # where few samples' graph is made of all distances

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_neighbors is not None and self.n_neighbors < self._core:
            raise InvalidInput(
                f"the 'n_neighbors' parameter of hdbscan must be at least min_samples, "
                f"{self._core}; got {self.n_neighbors}. Raise it or lower min_samples."
            )

    @property
    def _core(self) -> int:
        return self.min_samples or self.min_cluster_size

    @property
    def _rank(self) -> int:
        return max(1, self._core - 1)  # without itself

    @property
    def graph_neighbors(self) -> int:
        """See `Clusterer.graph_neighbors`."""
        return 0 if self.n_neighbors is None else self.n_neighbors - 1

    def needs(self, n: int, d: int) -> Needs:
        """Return "coordinates", or "neighbours" with `n_neighbors`; see `Clusterer.needs`."""
        return "coordinates" if self.n_neighbors is None else "neighbours"

    def row_bytes(self, n: int, k: int) -> int:
        """Return bytes of the graph's copies; see `Clusterer.row_bytes`."""
        return _EDGE * n * (self.n_neighbors or 0)

    def _decisive(self, view: Any, labels: Ints) -> Floats:
        if isinstance(view, NeighbourGraph):
            return view.distances[:, self._rank - 1]
        return super()._decisive(view, labels)

    def _fit(self, view: Any, k: int, seed: int) -> Clustering:
        if self.n_neighbors is not None:
            return self._cluster(_edges(self._neighbours(view), self.graph_neighbors), k, seed)
        if isinstance(view, NeighbourGraph):
            raise InvalidInput(
                "the view given to hdbscan must be RowFactors or FullDistances without "
                "n_neighbors; got NeighbourGraph. Build what hdbscan.needs(n, d) names."
            )
        return super()._fit(view, k, seed)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._fit(RowFactors(X), k, seed)

    def _labels(self, points: Any, k: int, seed: int) -> NDArray[np.integer]:
        n = int(points.shape[0])
        if n < max(self.min_cluster_size, self._core):
            return np.full(n, -1)
        library = sklearn.cluster.HDBSCAN(
            min_cluster_size=self.min_cluster_size,
            min_samples=self.min_samples,
            metric="euclidean" if self.n_neighbors is None else "precomputed",
            copy=self.n_neighbors is None,
        )
        labels: Ints = library.fit_predict(points)
        return labels


def _edges(graph: NeighbourGraph, k: int) -> "sparse.csr_array[Any, Any]":
    """Return distances (n, n) along the edges of a graph with k neighbours, in one component."""
    n = graph.n
    apart = np.zeros((n, k + 1))  # the first one is the sample itself
    np.sqrt(graph.distances[:, :k], out=apart[:, 1:])
    largest = float(apart.max()) or 1.0
    np.maximum(apart, _EQUAL * largest, out=apart)  # 0 would be no edge
    near = np.column_stack([np.arange(n, dtype=np.int32), graph.indices[:, :k]])
    ends = np.arange(0, n * (k + 1) + 1, k + 1, dtype=np.int64)
    edges = sparse.csr_array((apart.ravel(), near.ravel(), ends), shape=(n, n))
    n_parts, part = connected_components(edges, directed=False)
    if n_parts > 1:
        first = np.sort(np.unique(part, return_index=True)[1])
        far = np.full(n_parts - 1, (1.0 + _BEYOND) * largest)
        edges = edges + sparse.csr_array((far, (first[:-1], first[1:])), shape=(n, n))
    return sparse.csr_array(edges.maximum(edges.T))


@dataclass(frozen=True)
class OPTICS(NearestSample):
    """Clusters of several densities from an ordering of the samples: scikit-learn's OPTICS.

    Parameters
    ----------
    min_samples : int, default 5
        Neighbours of a core sample, itself included.
    xi : float, default 0.05
        The steepness that bounds a cluster, in (0, 1).

    Notes
    -----
    A new sample gets the label of its nearest one.

    Examples
    --------
    >>> from daskfc.clustering import OPTICS, RowFactors
    >>> X = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]])
    >>> OPTICS(min_samples=2).fit(RowFactors(X), None, seed=0).labels.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    min_samples: int = 5
    xi: float = 0.05

    name: ClassVar[str] = "optics"
    finds_n_clusters: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "min_samples": integer(2),
        "xi": between_0_and_1(),
    }

    @property
    def _rank(self) -> int:
        return self.min_samples - 1

    def _labels(self, points: Floats, k: int, seed: int) -> NDArray[np.integer]:
        if len(points) < self.min_samples:
            return np.full(len(points), -1)
        library = sklearn.cluster.OPTICS(min_samples=self.min_samples, xi=self.xi)
        with np.errstate(divide="ignore", invalid="ignore"):  # raised by equal samples
            labels: Ints = library.fit_predict(points)
        return labels
