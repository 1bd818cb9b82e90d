"""The server's last steps of OmniFC: the clusterer's input, its labels, and new samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from sklearn.metrics import calinski_harabasz_score, silhouette_samples

from daskfc.clustering import (
    Clusterer,
    Clustering,
    DistanceBlocks,
    ExactPoints,
    FullDistances,
    KMeans,
    RowFactors,
    Spectral,
    View,
)
from daskfc.clustering.clusterers.gap import gap_statistic
from daskfc.clustering.views.decisive import many_are_equal, smallest_hundredth
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points
from daskfc.clustering.views.order import Order, order_of_points
from daskfc.federation.methods.cluster_scores import ClusterScores, without_errors
from daskfc.federation.methods.sample_map import (
    SampleMap,
    map_of_distances,
    map_of_points,
    mapped_rows,
)
from daskfc.federation.methods.samples import ClientLabels
from daskfc.linalg import LandmarkEmbedding, symmetric_squared_distances
from daskfc.pairwise import DistanceTiles
from daskfc.protocols.omnifc.messages import ClusterReport
from daskfc.secure.distances import Columns, RowPlan, Tiles

_FEWEST = 5  # ours: samples of a cluster whose silhouette is told, as sites ask of sums

Points = TypeVar("Points", np.ndarray, ExactPoints)


def view_of_all(
    found: ExactPoints | Tiles,
    workspace: str,
    *,
    needs: str,
    n_neighbors: int | None,
    radius2: float | None,
) -> View:
    """Return the clusterer's input: "full" distances, "blocks", "neighbours" or "radius"."""
    if isinstance(found, DistanceTiles):
        if needs == "blocks":
            return found.in_order(workspace)
        return FullDistances.in_order(found.full())
    if not isinstance(found, ExactPoints):
        return found.graph()
    if needs == "blocks":
        return found.blocks(workspace)
    return _view(found, ExactPoints.full, needs, n_neighbors, radius2)


def view_of_landmarks(
    embedding: LandmarkEmbedding,
    order: Order,
    workspace: str,
    *,
    n_features: int,
    needs: str,
    n_neighbors: int | None,
    radius2: float | None,
    told_apart: bool = False,
) -> View:
    """Return the clusterer's input from the coordinates that the landmarks gave."""
    exact = (embedding.off_span, embedding.rounding)
    if told_apart:
        return RowFactors(order.told_apart(embedding.coordinates), n_features, *exact, True)
    points = embedding.coordinates[order.places]  # contiguous rows, as clusterers read them
    if needs in ("rows", "coordinates"):
        return RowFactors(points, n_features, *exact)
    if needs == "blocks":
        return DistanceBlocks.of_points(points, folder=workspace, copy=False)
    return _view(points, symmetric_squared_distances, needs, n_neighbors, radius2)


def _view(
    points: Points,
    distances: Callable[[Points], np.ndarray],
    needs: str,
    n_neighbors: int | None,
    radius2: float | None,
) -> View:
    if needs == "neighbours":
        assert n_neighbors is not None
        return nearest_of_points(points, n_neighbors)
    if needs == "radius":
        assert radius2 is not None
        return within_radius_of_points(points, radius2)
    return FullDistances(distances(points))


@dataclass(frozen=True)
class Clustered:
    """A clustering of samples in an order that follows from their distances."""

    clustering: Clustering
    order: Order | None  # None: canonical order

    @property
    def labels(self) -> np.ndarray:
        """Clusters of the samples, in canonical order."""
        labels = self.clustering.labels
        return labels if self.order is None else self.order.back(labels)


def in_order(found: ExactPoints) -> ExactPoints:
    """Put samples into the order that follows from their distances."""
    return found.in_order()


def order_of(seen: ExactPoints | View | LandmarkEmbedding) -> Order | None:
    """Return the order of a view's samples, or the one to put them in."""
    if isinstance(seen, LandmarkEmbedding):
        return order_of_points(seen.coordinates, seen.off_span + (2 * seen.rounding) ** 2)
    return seen.order if isinstance(seen, ExactPoints | FullDistances | DistanceBlocks) else None


def cluster(
    view: View, order: Order | None, *, clusterer: Clusterer, n_clusters: int | None, seed: int
) -> Clustered:
    """Run the clusterer on the distances, and give equal samples one label."""
    found = clusterer.fit(view, n_clusters, seed)
    if order is not None:
        found = replace(found, labels=order.alike(found.labels))
    return Clustered(found, order)


@dataclass(frozen=True)
class Sampled:
    """Some samples' coordinates or distances, kept after the clustering."""

    rows: np.ndarray
    points: np.ndarray  # coordinates, or the distances between these samples
    distances: bool = False


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


def _with_columns(points: np.ndarray) -> np.ndarray:
    """Return coordinates with at least one column: equal samples have none."""
    return points if points.shape[1] else np.zeros((len(points), 1))


def cluster_report(found: Clustered, some: Sampled | None, view: View) -> ClusterReport:
    """Return the report for the caller: cluster sizes, silhouette, notes, and exactness needed."""
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
    if not some.distances:
        return float(calinski_harabasz_score(some.points[kept], labels[kept]))
    squares, own = np.square(some.points[np.ix_(kept, kept)]), labels[kept]
    # Σ |x - c|² of m samples is the sum of all their squared distances over 2 m.
    whole = squares.sum() / (2 * n)
    parts = (squares[np.ix_(own == c, own == c)] for c in np.unique(own))
    within = sum(part.sum() / (2 * len(part)) for part in parts)
    return float((whole - within) / (k - 1) / (within / (n - k))) if within > 0 else np.inf


def cluster_score(found: Clustered, some: Sampled, by: str) -> ClusterScores:
    """Return the silhouette of a clustering, or the Calinski-Harabasz score, for the caller."""
    score = {"silhouette": _silhouette, "calinski-harabasz": _calinski_harabasz}[by]
    return without_errors(np.array([score(some, found.clustering.labels[some.rows])]))


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
    return ClusterScores(np.array([found]), np.array([error]))


def sample_map(found: Clustered, some: Sampled) -> SampleMap:
    """Return some samples' places in a plane, from coordinates or distances, for the caller."""
    draw = map_of_distances if some.distances else map_of_points
    return draw(some.points, found.clustering.labels[some.rows])


def labels_for(found: Clustered, plan: RowPlan) -> dict[str, ClientLabels]:
    """Return each client's labels of its own samples, in the order of its store."""
    labels = found.labels
    return {client: ClientLabels(labels[rows]) for client, rows in plan.positions.items()}


def predict_panel(
    found: Clustered, panel: Sequence[Columns], *, clusterer: Clusterer
) -> np.ndarray:
    """Label a panel of new samples (columns) from their distances to all clustered ones (rows)."""
    distances = np.concatenate([part.distances for part in panel])  # (n, n_new)
    if found.order is not None:
        distances = distances[found.order.places]
    return clusterer.predict(found.clustering, distances.T)


def new_labels(
    panels: Mapping[str, Sequence[np.ndarray]], plan: RowPlan | None
) -> dict[str, ClientLabels]:
    """Return each client's labels of its new samples, which a plan orders where it has columns."""
    none = np.empty(0, dtype=np.int64)
    joined = {owner: np.concatenate([none, *own]) for owner, own in panels.items()}
    if plan is not None:
        ordered = np.concatenate([none, *joined.values()])
        joined = {client: ordered[rows] for client, rows in plan.positions.items()}
    return {client: ClientLabels(labels) for client, labels in joined.items()}
