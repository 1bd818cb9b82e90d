"""What the server of kCAGC does: intersect, and cluster on sums of distances."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfc.federation.samples import ClientLabels
from daskfc.protocols.kcagc.maths.intersections import intersect
from daskfc.protocols.kcagc.maths.summed_distances import CentresAtNodes
from daskfc.protocols.kcagc.maths.weighted_lloyd import (
    LloydSettings,
    LloydState,
    advance,
    begin,
    begin_from,
    outcome,
)
from daskfc.protocols.kcagc.messages import (
    DistanceView,
    GlobalNorms,
    Intersections,
    LloydProgress,
    LocalClusters,
    Measure,
)
from daskfc.secure.sums import Total

__all__ = [
    "Nodes",
    "begin_on_nodes",
    "begin_on_samples",
    "global_norms",
    "intersect_all",
    "intersect_two",
    "labels_at_server",
    "labels_of",
    "nearest",
    "next_measure",
    "progress",
    "start_from",
    "take_sum",
    "tell_intersections",
    "tell_labels",
    "tell_view",
]

_NOTHING = np.empty((0, 0), dtype=np.int64)


@dataclass(frozen=True)
class Nodes:
    """Virtual nodes: ``ids`` (n,) of the samples, and ``sizes`` (v,)."""

    ids: NDArray[np.int64]
    sizes: NDArray[np.int64]


def global_norms(total: Total) -> GlobalNorms:
    """Tell the participants the squared row norms over all of them."""
    return GlobalNorms(np.maximum(total.values[:, 0], 0.0))


def intersect_all(parts: Mapping[str, LocalClusters]) -> Nodes:
    """Intersect the participants' clusters (Protocol 3, lines 7-13); empty ones are dropped."""
    return Nodes(*intersect(*(part.labels for part in parts.values())))


def labels_at_server(part: LocalClusters) -> NDArray[np.int64]:
    """Take a participant's own clusters: a leaf of the tree."""
    return part.labels.astype(np.int64)


def intersect_two(left: NDArray[np.int64], right: NDArray[np.int64]) -> Nodes:
    """Intersect the clusters of the two children of a node of the tree."""
    return Nodes(*intersect(left, right))


def tell_intersections(nodes: Nodes) -> Intersections:
    """Tell the participants which samples make which virtual node."""
    return Intersections(nodes.ids.astype(np.int32), nodes.sizes.astype(np.float64))


def begin_on_nodes(nodes: Nodes, settings: LloydSettings, *, fewer: bool = False) -> LloydState:
    """Begin weighted k-means on the virtual nodes.

    Parameters
    ----------
    nodes : Nodes
        The virtual nodes.
    settings : LloydSettings
        With the number of clusters.
    fewer : bool
        Whether to look for fewer clusters where there are fewer nodes, as inside a tree.
    """
    k = min(settings.n_clusters, len(nodes.sizes)) if fewer else settings.n_clusters
    return begin(replace(settings, n_clusters=k), nodes.sizes.astype(np.float64))


def begin_on_samples(n_samples: int, settings: LloydSettings) -> LloydState:
    """Begin k-means on all samples: the basic protocol."""
    return begin(settings, np.ones(n_samples))


def start_from(labels: NDArray[np.int64], settings: LloydSettings) -> LloydState:
    """Begin k-means on all samples from labels: a refinement."""
    return begin_from(settings, np.ones(len(labels)), labels[None])


def next_measure(state: LloydState) -> Measure:
    """Tell the participants which centres to measure to."""
    request = state.request
    if isinstance(request, CentresAtNodes):
        return Measure(state.settings.n_clusters, request.nodes, _NOTHING.astype(np.int32))
    assert request is not None
    return Measure(state.settings.n_clusters, _NOTHING, request.labels.astype(np.int32))


def take_sum(state: LloydState, total: Total) -> LloydState:
    """Go on with the sum of the participants' distances (Protocol 2, lines 5-10)."""
    request = state.request
    if isinstance(request, CentresAtNodes):
        runs, centres = request.nodes.shape
    else:
        assert request is not None
        runs, centres = len(request.labels), state.settings.n_clusters
    distances = np.maximum(total.values, 0.0)  # of fixed-point numbers
    return advance(state, distances.reshape(len(distances), runs, centres))


def progress(state: LloydState) -> LloydProgress:
    """Tell the caller how far it is."""
    return LloydProgress(
        done=int(state.request is None),
        converged=int(state.converged.all()),
        n_nodes=state.weights.size,
        n_rounds=state.n_rounds,
        n_sums=state.n_sums,
        n_scalars=state.n_scalars,
        inertia=float(state.inertia.min()) if np.isfinite(state.inertia).any() else -1.0,
    )


def labels_of(state: LloydState, nodes: Nodes | None) -> NDArray[np.int64]:
    """Return the clusters of all samples."""
    labels = outcome(state).labels
    return labels if nodes is None else labels[nodes.ids]


def tell_labels(labels: NDArray[np.int64]) -> ClientLabels:
    """Tell the participants the clusters of the samples, in their common order."""
    return ClientLabels(labels)


def tell_view(total: Total) -> DistanceView:
    """Tell the caller the sums themselves."""
    return DistanceView(total.values)


def nearest(total: Total) -> NDArray[np.int64]:
    """Return the nearest centre of each new sample."""
    labels: NDArray[np.int64] = np.argmin(total.values, axis=1)
    return labels
