"""The base class of clusterers, with `needs`, `fit`, `pooled` and `predict`, and their result."""

import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, check_params, integer
from daskfc.clustering.views.decisive import between_nearest_means
from daskfc.clustering.views.graphs import NeighbourGraph, RadiusGraph
from daskfc.clustering.views.nearest import (
    nearest_of_matrix,
    nearest_of_points,
    within_radius_of_matrix,
)
from daskfc.clustering.views.order import order_of_points
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, RowFactors, View
from daskfc.errors import InvalidInput

_ROWS = 4096  # rows compared at a time

Needs = Literal["full", "neighbours", "radius", "rows", "coordinates"]


@dataclasses.dataclass
class Clustering:
    """The outcome of a clusterer.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        Cluster of each sample, from 0; -1 is noise and comes from DBSCAN only.
    n_clusters : int
        Number of clusters asked for, or found by DBSCAN.
    model : dict of str to ndarray
        What `predict` needs; empty for a clustering of pooled data in the space of their features.
    converged : bool, default True
        Whether the algorithm stopped before its last permitted iteration.
    score : float or None, default None
        The minimised objective (inertia, loss, error norm) of algorithms that have one.
    notes : tuple of str, default ()
        Warnings for the reader of the result.
    decisive : ndarray of shape (m,), float64, optional
        Squared distances that the labels depend on, as far as they are known.

    Examples
    --------
    >>> from daskfc.clustering.clusterers.clusterer import Clustering
    >>> Clustering(np.array([0, 0, 1]), n_clusters=2).converged
    True
    """

    labels: Ints
    n_clusters: int
    model: dict[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    converged: bool = True
    score: float | None = None
    notes: tuple[str, ...] = ()
    decisive: Floats | None = None


@dataclasses.dataclass(frozen=True)
class Clusterer(ABC):
    """Base of the clusterers: parameters are fields, checked when the object is made.

    A subclass defines its name, its constraints, the views it accepts, and the abstract methods.
    """

    name: ClassVar[str]
    constraints: ClassVar[Mapping[str, Constraint]]
    accepts: ClassVar[tuple[type, ...]]
    finds_n_clusters: ClassVar[bool] = False
    matrices: ClassVar[float] = 1.0  # n × n float64 in memory in a fit on all distances, with them
    told_apart: ClassVar[bool] = False  # takes coordinates of `Order.told_apart`

    def __post_init__(self) -> None:
        check_params(self.name, self.params, self.constraints)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters as a dictionary."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def needs(self, n: int, d: int) -> Needs:
        """Return which view `fit` needs for n samples of d features, by default "coordinates".

        Returns
        -------
        {"full", "neighbours", "radius", "rows", "coordinates"}
            For `FullDistances`, `NeighbourGraph`, `RadiusGraph`, and `RowFactors` for the rows of
            D or for coordinates of the samples. A clusterer that `accepts` them gets
            `DistanceBlocks` in place of `FullDistances` if `matrices` of size n × n do not fit in
            memory.
        """
        return "coordinates"

    @property
    def graph_neighbors(self) -> int:
        """Number of other samples of each that a `NeighbourGraph` must have; 0 without a graph."""
        return 0

    @property
    def radius2(self) -> float | None:
        """The squared radius that a `RadiusGraph` must have; None without one."""
        return None

    @property
    def any_distances(self) -> bool:
        """Whether it reads distances as they are, also such as no points have."""
        return RowFactors not in self.accepts

    @property
    def from_origin(self) -> bool:
        """Whether it reads `RowFactors` about the origin, which distances do not tell."""
        return False

    def block_bytes(self, n: int, k: int) -> tuple[int, int] | None:
        """Return bytes in memory and on disk of a fit on `DistanceBlocks`, if it can read them."""
        return None

    def row_bytes(self, n: int, k: int) -> int:
        """Return the bytes that a fit takes beside two copies of its coordinates, or its graph.

        As `block_bytes`, of n samples in k clusters, 0 where the clusterer finds their number.
        """
        return 0

    def fit(self, view: View, n_clusters: int | None, seed: int) -> Clustering:
        """Cluster the samples behind a view of their squared distances.

        Parameters
        ----------
        view : FullDistances, NeighbourGraph, RadiusGraph or RowFactors
            The view that `needs` names.
        n_clusters : int or None
            Number of clusters; None for a clusterer that finds it by itself.
        seed : int
            At least 0. The same view, parameters and seed give the same labels.

        Raises
        ------
        InvalidInput
            For another view, or a number of clusters that is missing, superfluous, or above the
            number of samples.
        """
        if not isinstance(view, self.accepts):
            kinds = " or ".join(kind.__name__ for kind in self.accepts)
            raise InvalidInput(
                f"the view given to {self.name} must be {kinds}; got {type(view).__name__}. "
                f"Build what {self.name}.needs(n, d) names."
            )
        k = self._checked_count(n_clusters, view.n, seed)
        found = self._fit(view, k, seed)
        decisive = found.decisive
        if decisive is None:
            decisive = self._decisive(view, found.labels)
            missing = k - np.unique(found.labels[found.labels >= 0]).size
            decisive = np.append(decisive, np.zeros(max(0, missing)))  # of too similar samples
        return dataclasses.replace(found, notes=(*found.notes, *_alike(view)), decisive=decisive)

    def pooled(self, X: ArrayLike, n_clusters: int | None, seed: int) -> Clustering:
        """Cluster pooled raw data X (n, d), as `fit` does a view, in the order of its rows.

        Raises
        ------
        InvalidInput
            For data that is not a finite table, and for n_clusters as in `fit`.
        """
        return self._pooled(*self._checked_pool(X, n_clusters, seed), seed)

    def pooled_labels(self, X: ArrayLike, n_clusters: int | None, seed: int) -> Ints:
        """Return labels (n,) of `pooled` that are independent of the samples' order."""
        points, k = self._checked_pool(X, n_clusters, seed)
        order = order_of_points(points)
        if self.told_apart and self.needs(*points.shape) == "coordinates":
            view = RowFactors(order.told_apart(points), points.shape[1], told_apart=True)
            found = self._fit(view, k, seed)
        else:
            found = self._pooled(points[order.places], k, seed)
        return order.back(order.alike(found.labels))

    def _checked_pool(self, X: ArrayLike, n_clusters: int | None, seed: int) -> tuple[Floats, int]:
        points = np.ascontiguousarray(X, dtype=np.float64)
        if points.ndim != 2 or 0 in points.shape:
            raise InvalidInput(
                f"pooled data for {self.name} must have samples and features, shape (n, d); "
                f"got shape {points.shape}. Reshape it."
            )
        if not np.isfinite(points).all():
            raise InvalidInput(
                f"pooled data for {self.name} must be finite; some of {len(points)} rows hold "
                f"NaN or infinity. Remove or impute them."
            )
        return points, self._checked_count(n_clusters, len(points), seed)

    def predict(self, clustering: Clustering, distances: ArrayLike) -> Ints:
        """Assign new samples to the clusters found.

        Parameters
        ----------
        clustering : Clustering
            From `fit` of the same clusterer.
        distances : array_like of shape (n_new, n), float
            Squared distances from new samples to those that were clustered.

        Returns
        -------
        ndarray of shape (n_new,), int64
            Clusters; -1 is noise and comes from DBSCAN only.

        Raises
        ------
        InvalidInput
            For distances of another shape, and for a clustering without a model.
        """
        D = np.asarray(distances, dtype=np.float64)
        n = clustering.labels.size
        if D.ndim != 2 or D.shape[1] != n:
            raise InvalidInput(
                f"distances given to predict of {self.name} must have shape (n_new, {n}), a column "
                f"for each clustered sample; got {D.shape}. Transpose or complete them."
            )
        if not clustering.model:
            raise InvalidInput(
                f"the clustering given to predict of {self.name} must come from fit; this one came "
                f"from pooled data and has no model on distances. Call fit on a view of them."
            )
        return self._predict(clustering, D)

    def _decisive(self, view: Any, labels: Ints) -> Floats:
        """Return squared distances that the labels depend on: between nearest means of clusters."""
        return between_nearest_means(view, labels)

    @abstractmethod
    def _fit(self, view: Any, k: int, seed: int) -> Clustering: ...

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._fit(RowFactors(X), k, seed)

    @abstractmethod
    def _predict(self, clustering: Clustering, D: Floats) -> Ints: ...

    def _neighbours(self, view: Any) -> NeighbourGraph:
        """Return a view's graph of `graph_neighbors` others of each sample, or more."""
        k = self.graph_neighbors
        if k >= view.n:
            raise InvalidInput(
                f"the 'n_neighbors' parameter of {self.name} must be at most the number of "
                f"samples, {view.n}; got {k + 1}. Lower it or add samples."
            )
        if isinstance(view, FullDistances):
            return nearest_of_matrix(view.matrix, k)
        if isinstance(view, RowFactors):
            return nearest_of_points(view.points, k)
        assert isinstance(view, NeighbourGraph), type(view)
        if view.n_neighbors < k:
            raise InvalidInput(
                f"the graph given to {self.name} must hold {k} others of each "
                f"sample (n_neighbors counts the sample itself); got {view.n_neighbors}. "
                f"Build it with more or lower n_neighbors."
            )
        return view

    def _within_radius(self, view: FullDistances | RadiusGraph) -> RadiusGraph:
        """Return a view's graph of pairs within `radius2`."""
        assert self.radius2 is not None
        if isinstance(view, FullDistances):
            return within_radius_of_matrix(view.matrix, self.radius2)
        if view.radius2 != self.radius2:
            raise InvalidInput(
                f"the graph given to {self.name} must have the squared radius eps² = "
                f"{self.radius2!r}; got {view.radius2!r}. Build it with its radius2."
            )
        return view

    def _checked_count(self, n_clusters: int | None, n: int, seed: int) -> int:
        check_params(self.name, {"seed": seed}, {"seed": integer(0)})
        if self.finds_n_clusters:
            if n_clusters is not None:
                raise InvalidInput(
                    f"n_clusters must not be given to {self.name}, which finds it by itself; "
                    f"got {n_clusters!r}. Leave it out."
                )
            return 0
        if n_clusters is None:
            raise InvalidInput(
                f"n_clusters must be given to {self.name}; it is missing. "
                f"Give the number of clusters, or use dbscan."
            )
        check_params(self.name, {"n_clusters": n_clusters}, {"n_clusters": integer(1)})
        if n_clusters > n:
            raise InvalidInput(
                f"the 'n_clusters' parameter of {self.name} must be at most the number of samples, "
                f"{n}; got {n_clusters}. Lower it or add samples."
            )
        return int(n_clusters)


def _alike(view: View) -> tuple[str, ...]:
    """Return a note if samples have too few differences for meaningful clusters."""
    if view.n < 2:
        return ()
    if isinstance(view, NeighbourGraph):
        if view.n_neighbors and not view.distances.any():
            return (
                f"every sample has {view.n_neighbors} others, or more, with the same features: the "
                "samples are copies of a few rows, and clusters beyond these mean nothing.",
            )
        return ()
    if isinstance(view, FullDistances | DistanceBlocks):
        spread = bool(view.block(slice(0, 1), slice(0, view.n)).any())
    elif isinstance(view, RowFactors):
        parts = range(0, view.n, _ROWS)  # the first one is mostly enough
        spread = any((view.points[i : i + _ROWS] != view.points[0]).any() for i in parts)
    else:
        return ()
    return () if spread else ("all samples have the same features: their clusters mean nothing.",)


def in_order_of_appearance(labels: ArrayLike, k: int) -> Ints:
    """Return new numbers (k,) of clusters 0 to k - 1, by first appearance; empty ones come last."""
    found, first = np.unique(np.asarray(labels), return_index=True)
    order = np.full(k, np.iinfo(np.int64).max)
    order[found] = first
    number = np.empty(k, dtype=np.int64)
    number[np.argsort(order, kind="stable")] = np.arange(k)
    return number


@contextmanager
def noting_convergence() -> Iterator[list[str]]:
    """Collect a library's convergence warnings until the block ends; pass on all others."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        yield texts
    for entry in caught:
        if issubclass(entry.category, ConvergenceWarning):
            texts.append(str(entry.message))
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
