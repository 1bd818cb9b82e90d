"""DBSCAN (Ester et al. 1996) on a radius graph that is read in blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from daskfc.checks import Constraint, integer, real
from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering, Needs
from daskfc.clustering.views.graphs import RadiusGraph
from daskfc.clustering.views.nearest import within_radius_of_matrix, within_radius_of_points
from daskfc.clustering.views.views import FullDistances
from daskfc.errors import InvalidInput

__all__ = ["DBSCAN", "Contraction"]

Ints = NDArray[np.integer[Any]]


class Contraction:
    """Connected components of a graph of n nodes with edges in blocks, in O(n + block) memory."""

    def __init__(self, n: int) -> None:
        self._component: NDArray[np.int64] = np.arange(n)
        self._waiting: list[tuple[Ints, Ints]] = []
        self._n_waiting = 0

    def add(self, rows: Ints, cols: Ints) -> None:
        """Add edges (rows[e], cols[e])."""
        left, right = self._component[rows], self._component[cols]
        new = left != right
        self._waiting.append((left[new], right[new]))
        self._n_waiting += int(new.sum())
        if self._n_waiting > self._component.size:
            self._contract()

    def components(self) -> NDArray[np.int64]:
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
        "eps": real(above=0),
        "min_samples": integer(1),
    }
    accepts = (RadiusGraph, FullDistances)
    finds_n_clusters = True

    @property
    def radius2(self) -> float:
        """The squared radius that the graph must have."""
        return float(self.eps) ** 2

    def needs(self, n: int, d: int) -> Needs:
        """Return "radius"; see `Clusterer.needs`."""
        return "radius"

    def _fit(self, view: RadiusGraph | FullDistances, k: int, seed: int) -> Clustering:
        if isinstance(view, FullDistances):
            view = within_radius_of_matrix(view.matrix, self.radius2)
        if view.radius2 != self.radius2:
            raise InvalidInput(
                f"the graph given to dbscan must have the squared radius eps² = {self.radius2!r}; "
                f"got {view.radius2!r}. Build it with DBSCAN.radius2."
            )
        core = self._core_samples(view)
        clusters, border, reached = self._join(view, core)
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

    def _pooled(self, X: NDArray[np.float64], k: int, seed: int) -> Clustering:
        return self._fit(within_radius_of_points(X, self.radius2), k, seed)

    def _core_samples(self, graph: RadiusGraph) -> NDArray[np.bool_]:
        counts = np.ones(graph.n, dtype=np.int64)  # itself
        for rows, cols in graph:
            counts += np.bincount(rows, minlength=graph.n)
            counts += np.bincount(cols, minlength=graph.n)
        return counts >= self.min_samples

    @staticmethod
    def _join(graph: RadiusGraph, core: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Ints, Ints]:
        """Return components of core samples, and pairs (border sample, core sample)."""
        joined = Contraction(graph.n)
        border: list[Ints] = [np.empty(0, dtype=np.int64)]
        reached: list[Ints] = [np.empty(0, dtype=np.int64)]
        for rows, cols in graph:
            left, right = core[rows], core[cols]
            both = left & right
            joined.add(rows[both], cols[both])
            for one, other, mine in ((rows, cols, right & ~left), (cols, rows, left & ~right)):
                # A border sample has fewer than min_samples neighbours, so these stay few.
                border.append(one[mine])
                reached.append(other[mine])
        return joined.components(), np.concatenate(border), np.concatenate(reached)

    def _predict(self, clustering: Clustering, D: NDArray[np.float64]) -> NDArray[np.int64]:
        core, core_labels = clustering.model["core"], clustering.model["core_labels"]
        if core.size == 0:
            return np.full(len(D), -1, dtype=np.int64)
        nearby = D[:, core]
        nearest = nearby.argmin(axis=1)
        within = nearby[np.arange(len(D)), nearest] <= self.radius2
        return np.where(within, core_labels[nearest], -1)
