"""OmniFC at the server, last step: what the clusterer reads, its labels, and new samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from sklearn.metrics import silhouette_score

from daskfc import seeds
from daskfc.clustering import (
    Clusterer,
    Clustering,
    ExactPoints,
    FullDistances,
    RowFactors,
    View,
)
from daskfc.clustering.nearest import nearest_of_points, within_radius_of_points
from daskfc.federation.samples import ClientLabels
from daskfc.linalg import LandmarkEmbedding, symmetric_squared_distances
from daskfc.pairwise import DistanceTiles
from daskfc.protocols.omnifc.messages import ClusterReport
from daskfc.secure.distances import Columns, RowPlan, Tiles

__all__ = [
    "cluster",
    "cluster_report",
    "labels_for",
    "new_labels",
    "predict_panel",
    "sampled",
    "view_of_all",
    "view_of_landmarks",
]

_ASKED = 2000  # ours: samples whose silhouettes are averaged

Points = TypeVar("Points", np.ndarray, ExactPoints)


def view_of_all(
    found: ExactPoints | Tiles, *, needs: str, n_neighbors: int | None, radius2: float | None
) -> View:
    """Return what the clusterer reads of all distances, in memory where it must be.

    It needs "full", "neighbours" or "radius"; blocks were kept for that.
    """
    if isinstance(found, DistanceTiles):
        return FullDistances(found.full())
    if not isinstance(found, ExactPoints):
        return found.graph()
    return _view(found, ExactPoints.full, needs, n_neighbors, radius2)


def view_of_landmarks(
    embedding: LandmarkEmbedding,
    *,
    n_features: int,
    needs: str,
    n_neighbors: int | None,
    radius2: float | None,
) -> View:
    """Return what the clusterer reads, from the coordinates that the landmarks gave."""
    points = np.ascontiguousarray(embedding.coordinates)  # row by row, as clusterers read them
    if needs in ("rows", "coordinates"):
        return RowFactors(points, n_features)
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


def cluster(view: View, *, clusterer: Clusterer, n_clusters: int | None, seed: int) -> Clustering:
    """Run the clusterer on the distances; labels in canonical order stay at the server."""
    return clusterer.fit(view, n_clusters, seed)


@dataclass(frozen=True)
class Sampled:
    """Some samples and what tells their distances: all that outlasts the clustering of many."""

    rows: np.ndarray
    points: np.ndarray  # or, between these samples, distances
    distances: bool = False


def sampled(seen: View | ExactPoints | LandmarkEmbedding, *, n: int, seed: int) -> Sampled:
    """Return some samples of a view that tells distances, for their silhouettes."""
    rows = np.arange(n)
    if n > _ASKED:
        rows = np.sort(seeds.generator(seed, "silhouette").choice(n, _ASKED, replace=False))
    if isinstance(seen, FullDistances):
        return Sampled(rows, np.sqrt(seen.matrix[np.ix_(rows, rows)]), distances=True)
    if isinstance(seen, ExactPoints):
        return Sampled(rows, seen.points.coordinates[rows])
    assert isinstance(seen, LandmarkEmbedding), type(seen)
    return Sampled(rows, seen.coordinates[rows])


def cluster_report(clustering: Clustering, some: Sampled | None) -> ClusterReport:
    """Tell the caller sizes of the clusters, their silhouette, and what the clusterer notes."""
    labels = clustering.labels
    found = np.bincount(labels[labels >= 0], minlength=clustering.n_clusters)
    return ClusterReport(
        sizes=found.astype(np.int64),
        n_noise=int((labels < 0).sum()),
        notes=" ".join(clustering.notes)[:2000],
        silhouette=np.inf if some is None else _silhouette(some, labels[some.rows]),
    )


def _silhouette(some: Sampled, labels: np.ndarray) -> float:
    """Return the mean silhouette of samples in clusters; infinite where none is defined."""
    kept = labels >= 0
    if not 2 <= np.unique(labels[kept]).size < kept.sum():
        return np.inf
    if some.distances:
        part = some.points[np.ix_(kept, kept)]
        return float(silhouette_score(part, labels[kept], metric="precomputed"))
    return float(silhouette_score(some.points[kept], labels[kept]))


def labels_for(clustering: Clustering, plan: RowPlan) -> dict[str, ClientLabels]:
    """Tell each client the labels of its own samples, in the order of its store."""
    return {
        client: ClientLabels(clustering.labels[rows]) for client, rows in plan.positions.items()
    }


def predict_panel(
    clustering: Clustering, panel: Sequence[Columns], *, clusterer: Clusterer
) -> np.ndarray:
    """Label a panel of new samples from their distances to all clustered samples.

    The distances are of clustered samples (rows) to new ones (columns), one block of the former
    after the other.
    """
    distances = np.concatenate([part.distances for part in panel])  # (n, n_new)
    return clusterer.predict(clustering, distances.T)


def new_labels(panels: Mapping[str, Sequence[np.ndarray]]) -> dict[str, ClientLabels]:
    """Tell each client the labels of its new samples, one panel after the other."""
    none = np.empty(0, dtype=np.int64)
    return {client: ClientLabels(np.concatenate([none, *own])) for client, own in panels.items()}
