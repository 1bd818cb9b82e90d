"""Clusters that one party finds in its own samples, and a score that needs no labels.

ESFMC's clients begin with them: its paper says "local clustering results" (Appendix D.2).

Departures  How many neighbours the graph has is found from the data: among a few numbers the one
            with the largest (H / log K)^4 s, where s is the modularity of the clusters in their
            graph and H the entropy of their sizes. This takes classes to be about equally large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from daskfc.checks import Constraint, check_params, integer, one_of
from daskfc.clustering.graphs import NeighbourGraph
from daskfc.clustering.kmeans import best_partition
from daskfc.clustering.nearest import nearest_of_points
from daskfc.clustering.spectral import Spectral, neighbour_affinity
from daskfc.errors import InvalidInput
from daskfc.linalg.local_basis import divide_rows, squared_row_norms

__all__ = [
    "LocalLabels",
    "k_means_labels",
    "modularity",
    "separation",
    "spectral_labels",
    "wants_cosine",
]

Floats = NDArray[np.float64]

NEIGHBOURS = (10, 15, 20, 25)
"""How many neighbours, the sample itself among them, `spectral_labels` tries."""

_BALANCE = 4  # ours: a merged pair of classes costs more than modularity gains by it
_ROUNDED = 2.0**-22  # ours: multiples of a unit that float32 rounds
_MOST = 2.0**16  # ours: units of a count, above which rounding may hide that it is none
_SPARSE = 0.5  # ours: share of zeros from which on counts are compared by direction


@dataclass(frozen=True)
class LocalLabels:
    """What a client takes its rows' clusters to be, and how sure it may be of them.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        In [0, n_clusters).
    score : float
        Modularity of the labels in a graph of nearest neighbours, at most 1: views in which
        clusters lie apart have a larger one.
    n_neighbors : int
        Of that graph, the sample itself among them.
    """

    labels: NDArray[np.int64]
    score: float
    n_neighbors: int

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": integer(2),
        "seed": integer(0),
        "metric": one_of("auto", "euclid", "cosine"),
    }


def wants_cosine(rows: ArrayLike) -> bool:
    """Whether rows are counts, or binary, with more zeros than other values.

    Parameters
    ----------
    rows : array_like of shape (n, d), float
        Samples.

    Returns
    -------
    bool
        True where angles between rows say more than distances.

    Examples
    --------
    >>> from daskfc.clustering.local_labels import wants_cosine
    >>> wants_cosine([[0, 2, 0], [1, 0, 0]]), wants_cosine([[0, 0.2, 0], [0.1, 0, 0]])
    (True, True)
    >>> wants_cosine([[0, 0.27, 0], [0.1, 0, 0]])
    False
    """
    X = np.asarray(rows, dtype=np.float64)
    some = X[X != 0]
    if some.size >= (1.0 - _SPARSE) * X.size or (some < 0).any():
        return False
    unit = some.min(initial=np.inf)
    near = np.abs(some - unit * np.rint(some / unit)) <= _ROUNDED * some
    multiples = near.all() and some.max(initial=0.0) <= _MOST * unit
    return bool(multiples or (some == np.rint(some)).all())


def modularity(weights: "sparse.csr_array[Any, Any]", labels: NDArray[np.int64]) -> float:
    """Return the share of a graph's edges inside of clusters, over what chance would give.

    Parameters
    ----------
    weights : csr_array of shape (n, n)
        Symmetric, without loops.
    labels : ndarray of shape (n,), int
        Clusters, from 0.

    Returns
    -------
    float
        In [-1/2, 1]; 0 for a graph without edges.

    References
    ----------
    Newman: Modularity and community structure in networks, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from daskfc.clustering.local_labels import modularity
    >>> two_pairs = np.kron(np.eye(2), np.ones((2, 2)) - np.eye(2))
    >>> modularity(sparse.csr_array(two_pairs), np.array([0, 0, 1, 1]))
    0.5
    """
    pairs = weights.tocoo()
    whole = float(pairs.data.sum())
    if whole == 0.0:
        return 0.0
    inside = float(pairs.data[labels[pairs.row] == labels[pairs.col]].sum())
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    shares = np.bincount(labels, weights=degrees) / whole
    return inside / whole - float(shares @ shares)


def separation(
    weights: "sparse.csr_array[Any, Any]", labels: NDArray[np.int64], n_clusters: int
) -> float:
    """Return the modularity of clusters, times how even their sizes are to the fourth power.

    Parameters
    ----------
    weights : csr_array of shape (n, n)
        Graph of neighbours, symmetric, without loops.
    labels : ndarray of shape (n,), int
        Clusters, in [0, n_clusters).
    n_clusters : int
        K.

    Returns
    -------
    float
        At most 1. Evenness is H / log K, where H is the entropy of the sizes: clusters that were
        merged make it smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from daskfc.clustering.local_labels import separation
    >>> pairs = sparse.csr_array(np.kron(np.eye(2), np.ones((2, 2)) - np.eye(2)))
    >>> separation(pairs, np.array([0, 0, 1, 1]), 2), separation(pairs, np.array([0, 0, 0, 0]), 2)
    (0.5, 0.0)
    """
    even = _entropy(labels) / np.log(n_clusters)
    return float(even**_BALANCE) * modularity(weights, labels)


def _entropy(labels: NDArray[np.int64]) -> float:
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
        count = int((~np.isfinite(X)).any(axis=1).sum())
        raise InvalidInput(
            f"rows for local labels must be finite; {count} of {len(X)} are not. "
            f"Remove or impute them."
        )
    if metric == "cosine" or (metric == "auto" and wants_cosine(X)):
        # Of rows of length 1, the nearest by Euclid are the nearest by angle.
        return np.asarray(divide_rows(X, squared_row_norms(X)))
    return X


def _graph(X: Floats, most: int) -> NeighbourGraph:
    return nearest_of_points(X, min(most, len(X)) - 1)


def k_means_labels(
    rows: ArrayLike, n_clusters: int, *, seed: int, metric: str = "euclid"
) -> LocalLabels:
    """Cluster a client's rows by k-means, the paper's way.

    Parameters
    ----------
    rows : array_like of shape (n, d), float
        Of one client, or latent features of them.
    n_clusters : int
        K.
    seed : int
        Of the starts.
    metric : {"euclid", "cosine", "auto"}, default "euclid"
        "cosine" divides rows by their lengths; "auto" does so where `wants_cosine`.

    Returns
    -------
    LocalLabels
        Scored in the graph of ten nearest neighbours.

    Raises
    ------
    InvalidInput
        For rows that are too few or not finite, and for parameters out of range.

    Examples
    --------
    >>> from daskfc.clustering.local_labels import k_means_labels
    >>> k_means_labels([[0.0], [0.1], [5.0], [5.1]], 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """
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
    """Cluster a client's rows by their nearest neighbours, whose number it finds by itself.

    Parameters
    ----------
    rows : array_like of shape (n, d), float
        Of one client.
    n_clusters : int
        K.
    seed : int
        Of the eigensolver and of k-means on the embedding.
    metric : {"auto", "euclid", "cosine"}, default "auto"
        As for `k_means_labels`. On BDGP's text, which is binary, angles give 94 % and distances
        73 to 91 %.

    Returns
    -------
    LocalLabels
        The best of those with 10, 15, 20 and 25 neighbours.

    Raises
    ------
    InvalidInput
        For rows that are too few or not finite, and for parameters out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.local_labels import spectral_labels
    >>> rows = np.concatenate([np.arange(30.0), 99.0 + np.arange(30.0)])[:, None]
    >>> found = spectral_labels(rows, 2, seed=0)
    >>> found.labels.tolist() == [0] * 30 + [1] * 30, found.n_neighbors
    (True, 10)
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
