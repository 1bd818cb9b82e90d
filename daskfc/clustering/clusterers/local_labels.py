"""Clusters that one party finds in its own samples, and a score of them without true labels.

ESFMC's clients begin with them: its paper says "local clustering results" (Appendix D.2).

Departures  The number of neighbours in the graph is chosen from the data: among a few the one with
            the largest (H / log K)^4 s, where s is the modularity of the clusters in their graph
            and H the entropy of their sizes. This assumes classes of about equal size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, check_params, integer, one_of
from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.clusterers.spectral import Spectral, neighbour_affinity
from daskfc.clustering.views.graphs import NeighbourGraph
from daskfc.clustering.views.nearest import nearest_of_points
from daskfc.errors import InvalidInput
from daskfc.linalg.local_basis import divide_rows, squared_row_norms

NEIGHBOURS = (10, 15, 20, 25)
"""How many neighbours, the sample itself among them, `spectral_labels` tries."""

_BALANCE = 4  # ours: so that merging two classes costs more than it gains in modularity
_ROUNDED = 2.0**-22  # ours: relative rounding error in float32 of multiples of a unit
_MOST = 2.0**16  # ours: of larger multiples rounding may hide that they are none
_SPARSE = 0.5  # ours: counts with a larger share of zeros are compared by angle


@dataclass(frozen=True)
class LocalLabels:
    """A client's clusters of its own rows, and their modularity in a graph of near neighbours."""

    labels: Ints
    score: float
    n_neighbors: int

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": integer(2),
        "seed": integer(0),
        "metric": one_of("auto", "euclid", "cosine"),
    }


def wants_cosine(rows: ArrayLike) -> bool:
    """Return whether rows are counts, or binary, with more zeros than other values."""
    X = np.asarray(rows, dtype=np.float64)
    some = X[X != 0]
    if some.size >= (1.0 - _SPARSE) * X.size or (some < 0).any():
        return False
    unit = some.min(initial=np.inf)
    near = np.abs(some - unit * np.rint(some / unit)) <= _ROUNDED * some
    multiples = near.all() and some.max(initial=0.0) <= _MOST * unit
    return bool(multiples or (some == np.rint(some)).all())


def modularity(weights: "sparse.csr_array[Any, Any]", labels: Ints) -> float:
    """Return Newman's share of edges within clusters, above chance, in [-1/2, 1]."""
    pairs = weights.tocoo()
    whole = float(pairs.data.sum())
    if whole == 0.0:
        return 0.0
    inside = float(pairs.data[labels[pairs.row] == labels[pairs.col]].sum())
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    shares = np.bincount(labels, weights=degrees) / whole
    return inside / whole - float(shares @ shares)


def separation(weights: "sparse.csr_array[Any, Any]", labels: Ints, n_clusters: int) -> float:
    """Return the modularity of clusters, times (H / log K)^4 with H their sizes' entropy, <= 1."""
    even = _entropy(labels) / np.log(n_clusters)
    return float(even**_BALANCE) * modularity(weights, labels)


def _entropy(labels: Ints) -> float:
    shares = np.bincount(labels) / labels.size
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def _prepared(rows: ArrayLike, n_clusters: int, metric: str, seed: int) -> Floats:
    given = {"n_clusters": n_clusters, "metric": metric, "seed": seed}
    check_params("local labels", given, LocalLabels.constraints)
    X = np.ascontiguousarray(rows, dtype=np.float64)
    if X.ndim != 2 or len(X) <= n_clusters or not X.shape[1]:
        raise InvalidInput(
            f"rows for local labels must have shape (n, d) with n above n_clusters = {n_clusters}; "
            f"got shape {X.shape}. Lower n_clusters or add rows."
        )
    if not np.isfinite(X).all():
        raise InvalidInput(
            f"rows for local labels must be finite; some of {len(X)} are not. "
            f"Remove or impute them."
        )
    if metric == "cosine" or (metric == "auto" and wants_cosine(X)):
        # For rows of norm 1, the nearest by Euclidean distance are the nearest by angle.
        return np.asarray(divide_rows(X, squared_row_norms(X)))
    return X


def _graph(X: Floats, most: int) -> NeighbourGraph:
    return nearest_of_points(X, min(most, len(X)) - 1)


def k_means_labels(
    rows: ArrayLike, n_clusters: int, *, seed: int, metric: str = "euclid"
) -> LocalLabels:
    """Cluster a client's rows (n, d) by k-means, as in the paper; score for 10 neighbours."""
    X = _prepared(rows, n_clusters, metric, seed)
    found = best_partition(
        X, n_clusters, seed, n_init=10, max_iter=300, owner="local k-means", threads=1
    )
    graph = _graph(X, NEIGHBOURS[0])
    n_neighbors = graph.n_neighbors + 1
    score = modularity(neighbour_affinity(graph, n_neighbors), found.labels)
    return LocalLabels(found.labels, score, n_neighbors)


def spectral_labels(
    rows: ArrayLike, n_clusters: int, *, seed: int, metric: str = "auto"
) -> LocalLabels:
    """Cluster a client's rows (n, d) with the best of 10, 15, 20 and 25 nearest neighbours.

    "auto" as in `k_means_labels`: on BDGP's binary text angles give 94 % and distances 73 to 91 %.
    """
    X = _prepared(rows, n_clusters, metric, seed)
    graph = _graph(X, NEIGHBOURS[-1])
    best, highest = None, -np.inf
    for n_neighbors in sorted({min(one, len(X)) for one in NEIGHBOURS}):
        found = Spectral(n_neighbors=n_neighbors).fit(graph, n_clusters, seed)
        weights = neighbour_affinity(graph, n_neighbors)
        fitness = separation(weights, found.labels, n_clusters)
        if best is None or fitness > highest:
            score = modularity(weights, found.labels)
            best, highest = LocalLabels(found.labels, score, n_neighbors), fitness
    assert best is not None
    return best
