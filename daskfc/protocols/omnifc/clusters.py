"""The server's last steps of OmniFC: the clusterer's input, its labels, and new samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from daskfc.clustering import (
    Clusterer,
    Clustering,
    DistanceBlocks,
    ExactPoints,
    FullDistances,
    RadiusGraph,
    RowFactors,
    View,
    make_clusterer,
)
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points
from daskfc.clustering.views.order import Order, order_of_points
from daskfc.errors import InvalidInput
from daskfc.federation.methods.samples import ClientLabels
from daskfc.federation.steps.rules import Announced, Rule, takes
from daskfc.linalg import LandmarkEmbedding, symmetric_squared_distances
from daskfc.pairwise import DistanceTiles
from daskfc.secure.distances import Columns, Reader, RowPlan, SecureDistances, Tiles

FEW = 4096
"""Ours: samples of which all distances are kept, 128 MiB."""

Points = TypeVar("Points", np.ndarray, ExactPoints)


def read_by(
    clusterer: Clusterer, distances: SecureDistances, k: int, route: str
) -> tuple[str, Reader]:
    """Return a clusterer's kind of input, blocks if memory is short, and its own memory."""
    n, name = distances.n_samples, clusterer.name
    need: str = clusterer.needs(n, distances.n_features)
    own = clusterer.row_bytes(n, k)
    graph = need in ("neighbours", "radius") and (n > FEW or route == "landmark")
    if graph or (need in ("rows", "coordinates") and route != "blocks"):
        return need, Reader(name, own)
    whole = Reader(name, int(clusterer.matrices * 8 * n * n) + own)
    by_blocks = clusterer.block_bytes(n, k) if need == "full" else None
    if by_blocks is None or distances.sizing.holds(whole):
        return need, whole
    return "blocks", Reader(name, *by_blocks)


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


def from_origin(
    view: FullDistances | RowFactors, order: Order | None, squares: np.ndarray
) -> RowFactors:
    """Return coordinates about the origin, by squared lengths of the samples in canonical order."""
    rows = view if isinstance(view, RowFactors) else RowFactors(view.coordinates())
    return rows.about(squares if order is None else squares[order.places])


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


def announced_clusterer(asked: Announced) -> Clusterer | None:
    """Return the clusterer that a run announced; None where it announced none that is known."""
    try:
        return make_clusterer(asked.parameters.get("clusterer", ""))
    except InvalidInput:
        return None


_as_announced = Rule(
    "the 'clusterer' that was announced",
    lambda value, asked: value == announced_clusterer(asked),
)
"""By others, as DBSCAN with one radius after the other, labels would tell distances."""


@takes(clusterer=_as_announced)
def cluster(
    view: View, order: Order | None, *, clusterer: Clusterer, n_clusters: int | None, seed: int
) -> Clustered:
    """Run the clusterer on the distances, and give equal samples one label."""
    found = clusterer.fit(view, n_clusters, seed)
    if isinstance(view, RadiusGraph):
        order = view.order or order
    if order is not None:
        found = replace(found, labels=order.alike(found.labels))
    return Clustered(found, order)


def labels_for(found: Clustered, plan: RowPlan) -> dict[str, ClientLabels]:
    """Return each client's labels of its own samples, in the order of its store."""
    labels = found.labels
    return {client: ClientLabels(labels[rows]) for client, rows in plan.positions.items()}


@takes(clusterer=_as_announced)
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
