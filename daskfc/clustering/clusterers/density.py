"""Clusters by density, and noise: DBSCAN (Ester et al. 1996) in blocks, HDBSCAN and OPTICS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, between_0_and_1, integer, optional, real
from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering, Needs
from daskfc.clustering.clusterers.library import NearestSample
from daskfc.clustering.views.graphs import NeighbourGraph, RadiusGraph
from daskfc.clustering.views.nearest import within_radius_of_points
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.errors import InvalidInput

Integers = NDArray[np.integer[Any]]

_EQUAL = 2.0**-40  # ours: of the largest distance; how far apart the library sees equal samples
_BEYOND = 1e-9  # ours: of the largest distance; so far beyond it parts join, after all samples
_EDGE = 80  # bytes in a fit: an edge both ways, with copies that the library compares


class _Contraction:
    """Connected components of a graph of n nodes with edges in blocks, in O(n + block) memory."""

    def __init__(self, n: int) -> None:
        self._component: Ints = np.arange(n)
        self._waiting: list[tuple[Integers, Integers]] = []
        self._n_waiting = 0

    def add(self, rows: Integers, cols: Integers) -> None:
        """Add edges (rows[e], cols[e])."""
        left, right = self._component[rows], self._component[cols]
        new = left != right
        self._waiting.append((left[new], right[new]))
        self._n_waiting += int(new.sum())
        if self._n_waiting > self._component.size:
            self._contract()

    def components(self) -> Ints:
        """Return the component of every node, shape (n,), numbered in arbitrary order."""
        self._contract()
        return self._component

    def _contract(self) -> None:
        if not self._waiting:
            return
        left = np.concatenate([part[0] for part in self._waiting])
        right = np.concatenate([part[1] for part in self._waiting])
        n = self._component.size
        ones = np.ones(left.size, dtype=np.int8)
        graph = sparse.coo_array((ones, (left, right)), shape=(n, n)).tocsr()
        merged = connected_components(graph, directed=False)[1]
        self._component = merged[self._component].astype(np.int64)
        self._waiting, self._n_waiting = [], 0


@dataclass(frozen=True)
class DBSCAN(Clusterer):
    """Density-based clusters, and noise; it finds the number of clusters by itself.

    Parameters
    ----------
    eps : float
        Radius of a neighbourhood, a distance in units of the data (not squared).
    min_samples : int, default 5
        A sample with at least so many samples within eps, itself included, is a core sample.

    Notes
    -----
    Clusters are numbered in order of their first core sample; a border sample belongs to the
    first cluster with a core sample within eps of it. These are the labels of scikit-learn's
    DBSCAN. Two passes over the graph; memory is O(n min_samples + block).

    Examples
    --------
    >>> from daskfc.clustering import DBSCAN
    >>> X = np.array([[0.0], [1.0], [2.0], [50.0]])
    >>> DBSCAN(eps=1.0, min_samples=2).pooled(X, None, seed=0).labels.tolist()
    [0, 0, 0, -1]
    """

    eps: float
    min_samples: int = 5

    name: ClassVar[str] = "dbscan"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "eps": real(1e-150, 1e150),  # its square is a number above 0
        "min_samples": integer(1),
    }
    accepts = (RadiusGraph, FullDistances)
    finds_n_clusters = True

    @property
    def radius2(self) -> float:
        """See `Clusterer.radius2`."""
        return float(self.eps) ** 2

    def needs(self, n: int, d: int) -> Needs:
        """Return "radius"; see `Clusterer.needs`."""
        return "radius"

    def _fit(self, view: RadiusGraph | FullDistances, k: int, seed: int) -> Clustering:
        graph = self._within_radius(view)
        core = self._core_samples(graph)
        clusters, border, reached = self._join(graph, core)
        # Clusters in order of their first core sample.
        index = np.flatnonzero(core)
        _, first, inverse = np.unique(clusters[index], return_index=True, return_inverse=True)
        number = np.empty(first.size, dtype=np.int64)
        number[np.argsort(first)] = np.arange(first.size)
        labels = np.full(view.n, first.size, dtype=np.int64)
        labels[index] = number[inverse]
        np.minimum.at(labels, border, labels[reached])  # the first cluster that reaches it
        labels[labels == first.size] = -1
        model = {"core": index, "core_labels": labels[index]}
        return Clustering(labels, int(first.size), model, decisive=np.array([self.radius2]))

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._fit(within_radius_of_points(X, self.radius2), k, seed)

    def _core_samples(self, graph: RadiusGraph) -> NDArray[np.bool_]:
        counts = np.ones(graph.n, dtype=np.int64)  # itself
        for rows, cols in graph:
            counts += np.bincount(rows, minlength=graph.n)
            counts += np.bincount(cols, minlength=graph.n)
        return counts >= self.min_samples

    @staticmethod
    def _join(graph: RadiusGraph, core: NDArray[np.bool_]) -> tuple[Ints, Integers, Integers]:
        """Return components of core samples, and pairs (border sample, core sample)."""
        joined = _Contraction(graph.n)
        border: list[Integers] = [np.empty(0, dtype=np.int64)]
        reached: list[Integers] = [np.empty(0, dtype=np.int64)]
        for rows, cols in graph:
            left, right = core[rows], core[cols]
            both = left & right
            joined.add(rows[both], cols[both])
            for one, other, mine in ((rows, cols, right & ~left), (cols, rows, left & ~right)):
                # A border sample has fewer than min_samples neighbours, so these stay few.
                border.append(one[mine])
                reached.append(other[mine])
        return joined.components(), np.concatenate(border), np.concatenate(reached)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        core, core_labels = clustering.model["core"], clustering.model["core_labels"]
        if core.size == 0:
            return np.full(len(D), -1, dtype=np.int64)
        nearby = D[:, core]
        nearest = nearby.argmin(axis=1)
        within = nearby[np.arange(len(D)), nearest] <= self.radius2
        return np.where(within, core_labels[nearest], -1)


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

    @property
    def any_distances(self) -> bool:
        """See `Clusterer.any_distances`."""
        return self.n_neighbors is not None

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
        return np.asarray(library.fit_predict(points))


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
        # it rounds distances to 15 decimals, which leaves nothing of small ones
        largest = np.abs(points).max(initial=0.0)
        points = np.ldexp(points, max(0, -int(np.frexp(largest)[1])))
        with np.errstate(divide="ignore"):  # raised by equal samples
            labels: Ints = library.fit_predict(points)
        return labels
