"""How well OmniFC's clusters fit, told from some samples' distances: scores, a report, a map.

Modularity  M. Newman, M. Girvan, "Finding and evaluating community structure in networks", Physical
            Review E 69, 2004, Eq. (5), in the graph of nine nearest neighbours. It is high where
            neighbours have one label, whatever the shape of a cluster, and so compares clusterers;
            the silhouette is high where clusters are clouds far from each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances, silhouette_samples

from daskfc.clustering import (
    Clusterer,
    DistanceBlocks,
    ExactPoints,
    FullDistances,
    KMeans,
    RowFactors,
    Spectral,
    View,
)
from daskfc.clustering.clusterers.gap import dispersion, gap_statistic
from daskfc.clustering.clusterers.local_labels import modularity
from daskfc.clustering.views.decisive import many_are_equal, smallest_hundredth
from daskfc.clustering.views.order import Order
from daskfc.federation import Local
from daskfc.federation.methods.cluster_scores import ClusterScores, without_errors
from daskfc.federation.methods.sample_map import (
    SampleMap,
    map_of_distances,
    map_of_points,
    mapped_rows,
)
from daskfc.linalg import LandmarkEmbedding
from daskfc.protocols.omnifc.clusters import Clustered
from daskfc.protocols.omnifc.messages import ClusterReport
from daskfc.secure.distances import SecureDistances

_FEWEST = 5  # ours: samples of a cluster whose silhouette is told, as sites ask of sums
_NEIGHBOURS = 9  # as of spectral clustering, which counts the sample itself
_ROWS = 128  # ours: rows of distances at a time; all of them would be most of a party's memory
_TIE = 1e-7  # ours: relative difference of distances that count as equal
_LEAST = 2.0**-100  # ours: of variance within clusters, relative to all: an outlier leaves more
_EPS = np.finfo(np.float64).eps
_FEW = 0.1  # ours: share of distances that are computed one by one
_COPIES = 1e-13  # ours: squared distance of equal rows by products, relative to their norms


@dataclass(frozen=True)
class Sampled:
    """Some samples' coordinates or distances, kept after the clustering."""

    rows: np.ndarray
    points: np.ndarray  # coordinates, or the distances between these samples
    distances: bool = False


@dataclass(frozen=True)
class Found:
    """A clustering, its input, and the server's report."""

    clusterer: Clusterer
    distances: SecureDistances
    view: Local[View]
    clustering: Local[Clustered]
    report: ClusterReport
    seed: int


def sampled(
    seen: View | ExactPoints | LandmarkEmbedding, order: Order | None, *, n: int, seed: int
) -> Sampled:
    """Draw some samples of a view that has distances, for their silhouettes and a map."""
    rows = mapped_rows(n, seed, "silhouette")
    if isinstance(seen, FullDistances | DistanceBlocks):
        return Sampled(rows, np.sqrt(seen.block(rows, rows)), distances=True)
    if isinstance(seen, ExactPoints):
        return Sampled(rows, _with_columns(seen.points.coordinates[rows]))
    assert isinstance(seen, LandmarkEmbedding), type(seen)
    assert order is not None
    return Sampled(rows, _with_columns(seen.coordinates[order.places[rows]]))


def criteria_of(clusterer: Clusterer, reveal: str) -> tuple[str, ...]:
    """Return the criteria for the number of clusters, the preferred one first."""
    if clusterer.finds_n_clusters or reveal != "distances":
        return ()
    own = ("eigengap",) if isinstance(clusterer, Spectral) else ()
    if isinstance(clusterer, KMeans) and clusterer.rows == "coordinates":
        own = ("gap",)  # of the variance within clusters, which k-means minimises
    return ("silhouette-modularity", "silhouette", "modularity", "calinski-harabasz", *own)


def _with_columns(points: np.ndarray) -> np.ndarray:
    """Return coordinates with at least one column: equal samples have none."""
    return points if points.shape[1] else np.zeros((len(points), 1))


def cluster_report(found: Clustered, some: Sampled | None, view: View) -> ClusterReport:
    """Return the report for the caller: how far clusters are apart, and how exact it must be."""
    clustering = found.clustering
    labels = clustering.labels
    assert clustering.decisive is not None
    decisive = clustering.decisive
    finest = smallest_hundredth(decisive)
    sizes = np.bincount(labels[labels >= 0], minlength=clustering.n_clusters)
    drawn = np.zeros(0, dtype=np.int64) if some is None else labels[some.rows]
    each = np.zeros(0) if some is None else _silhouettes(some, drawn)
    return ClusterReport(
        sizes=sizes.astype(np.int64),
        silhouettes=_by_cluster(each, drawn[drawn >= 0], clustering.n_clusters),
        n_noise=int((labels < 0).sum()),
        notes=" ".join(clustering.notes)[:2000],
        silhouette=float(each.mean()) if len(each) else np.inf,
        modularity=np.inf if some is None else _modularity(some, drawn),
        finest=finest,
        equal=int(many_are_equal(decisive)),
        error=float(view.error_of(finest)) if isinstance(view, RowFactors) else 0.0,
    )


def _silhouettes(some: Sampled, labels: np.ndarray) -> np.ndarray:
    """Return the silhouette of each sample in a cluster; of none where none is defined."""
    kept = labels >= 0
    if not 2 <= np.unique(labels[kept]).size < kept.sum():
        return np.zeros(0)
    points, metric = some.points[kept], "euclidean"
    if some.distances:
        points, metric = points[:, kept], "precomputed"
    found: np.ndarray = silhouette_samples(points, labels[kept], metric=metric)
    return found


def _by_cluster(each: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Return the mean of each cluster's silhouettes; infinite where there are few or none."""
    if not len(each):
        return np.full(k, np.inf)
    counts = np.bincount(labels, minlength=k)
    sums = np.bincount(labels, weights=each, minlength=k)
    return np.where(counts >= _FEWEST, sums / np.maximum(counts, 1), np.inf)


def _silhouette(some: Sampled, labels: np.ndarray) -> float:
    """Return the mean silhouette of samples in clusters; infinite where none is defined."""
    each = _silhouettes(some, labels)
    return float(each.mean()) if len(each) else np.inf


def _calinski_harabasz(some: Sampled, labels: np.ndarray) -> float:
    """Return variance between clusters over variance within; infinite where none is defined."""
    kept = labels >= 0
    n, k = int(kept.sum()), np.unique(labels[kept]).size
    if not 2 <= k < n:
        return np.inf
    own = labels[kept]
    if some.distances:  # also such as no points have
        squares = np.square(some.points[np.ix_(kept, kept)])
        # Σ |x - c|² of m samples is the sum of all their squared distances over 2 m.
        parts = (squares[np.ix_(own == c, own == c)] for c in np.unique(own))
        whole = float(squares.sum() / (2 * n))
        within = float(sum(part.sum() / (2 * len(part)) for part in parts))
    else:
        points = some.points[kept]
        whole, within = dispersion(points, np.zeros(n, np.int64)), dispersion(points, own)
    within = max(within, _LEAST * whole)  # copies of k rows have none, and the best score
    return float((whole - within) / (k - 1) / (within / (n - k))) if whole > 0 else 0.0


def _neighbours(
    some: Sampled, spread: np.ndarray, rows: slice, wanted: int
) -> "sparse.csr_array[Any, Any]":
    """Return which samples are the nearest of some rows of them, `wanted` in all for each row.

    `spread` (n,) are squared distances of coordinates to a point near them.
    """
    if some.distances:
        apart = some.points[rows].copy()
    else:
        apart = _squares_of_near(some.points, rows, wanted + 1)  # and itself
        apart[apart <= _COPIES * (spread[rows, None] + spread)] = 0.0
        np.sqrt(apart, out=apart)
    own = np.arange(len(some.points))[rows]
    apart[np.arange(len(own)), own] = np.inf
    last = np.partition(apart, wanted - 1, axis=1)[:, wanted - 1, None]
    near = apart < last * (1.0 - _TIE)
    # those that are as near as the last share its place: no order of samples decides
    tied = ~near & (apart <= last * (1.0 + _TIE))
    left = (wanted - near.sum(axis=1)) / tied.sum(axis=1)
    return sparse.csr_array(near + tied * left[:, None])


def _squares_of_near(points: np.ndarray, rows: slice, k: int) -> np.ndarray:
    """Return squared distances of some rows to all, exact ones; infinite where k others are nearer.

    A product tells which are among the k least, up to ties; coordinates have their mean near 0.
    """
    norms = np.einsum("ij,ij->i", points, points)
    scores = norms[rows, None] + norms - 2.0 * (points[rows] @ points.T)
    error = 2.0 * (points.shape[1] + 4) * _EPS * (norms[rows] + norms.max())
    last = np.partition(scores, k - 1, axis=1)[:, k - 1]
    i, j = np.nonzero(scores <= (last * (1.0 + 3.0 * _TIE) + 3.0 * error)[:, None])
    if i.size > _FEW * scores.size:
        return np.asarray(pairwise_distances(points[rows], points, metric="sqeuclidean"))
    found = np.full(scores.shape, np.inf)
    found[i, j] = np.square(points[rows][i] - points[j]).sum(axis=1)
    return found


def _modularity(some: Sampled, labels: np.ndarray) -> float:
    """Return the modularity of clusters in the graph of nearest neighbours; noise is in none.

    Infinite for less than two clusters, or as many as samples.
    """
    n, k = len(labels), np.unique(labels[labels >= 0]).size
    if not 2 <= k < n:
        return np.inf
    # about the median: one sample far away has the mean far from all others
    spread = np.square(some.points - np.median(some.points, axis=0)).sum(axis=1)
    blocks = (slice(start, start + _ROWS) for start in range(0, n, _ROWS))
    parts = [_neighbours(some, spread, rows, min(_NEIGHBOURS, n - 1)) for rows in blocks]
    graph = sparse.csr_array(sparse.vstack(parts))
    alone = labels.max() + 1 + np.arange(n)
    return modularity(sparse.csr_array(graph + graph.T), np.where(labels < 0, alone, labels))


def _both(some: Sampled, labels: np.ndarray) -> tuple[float, float, float]:
    """Return silhouette times modularity, and the two; where one is negative, the less of them."""
    near, edges = _silhouette(some, labels), _modularity(some, labels)
    if not np.isfinite([near, edges]).all():
        return np.inf, near, edges
    return near * edges if min(near, edges) > 0 else min(near, edges), near, edges


def cluster_score(found: Clustered, some: Sampled, by: str) -> ClusterScores:
    """Return the score of a clustering by a criterion, for the caller."""
    labels = found.clustering.labels[some.rows]
    if by == "silhouette-modularity":
        score, *parts = _both(some, labels)
        return without_errors(np.array([score]), np.array(parts)[:, None])
    of = {
        "silhouette": _silhouette,
        "modularity": _modularity,
        "calinski-harabasz": _calinski_harabasz,
    }
    return without_errors(np.array([of[by](some, labels)]))


def eigengaps(
    view: View, *, clusterer: Spectral, n_clusters: Sequence[int], seed: int
) -> ClusterScores:
    """Return the gap in the Laplacian's spectrum after each number of eigenvalues."""
    assert isinstance(view, clusterer.accepts)
    gaps = clusterer.eigengaps(view, max(n_clusters), seed)
    return without_errors(gaps[np.array(n_clusters) - 1])


def gap(some: Sampled, *, clusterer: KMeans, n_clusters: int, seed: int) -> ClusterScores:
    """Return the gap statistic of k-means on some samples, and its error, for the caller."""
    points = some.points
    if some.distances:  # these give the points up to a rigid motion, which suffices
        points = FullDistances(np.square(points)).coordinates()
    found, error = gap_statistic(points, n_clusters, clusterer, seed)
    return ClusterScores(np.array([found]), np.array([error]), np.zeros((0, 1)))


def sample_map(found: Clustered, some: Sampled) -> SampleMap:
    """Return some samples' places in a plane, from coordinates or distances, for the caller."""
    draw = map_of_distances if some.distances else map_of_points
    return draw(some.points, found.clustering.labels[some.rows])
