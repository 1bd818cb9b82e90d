"""The server's steps of kCAGC: intersect local clusters, and cluster on sums of distances."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from daskfc.errors import OverflowRefused
from daskfc.federation.methods.samples import ClientLabels
from daskfc.protocols.kcagc.maths import intersections
from daskfc.protocols.kcagc.maths.landmark_lloyd import (
    LandmarkState,
    add_sums,
    begin_with_landmarks,
)
from daskfc.protocols.kcagc.maths.summed_distances import CentresAtNodes
from daskfc.protocols.kcagc.maths.weighted_lloyd import (
    LloydSettings,
    LloydState,
    advance,
    begin,
    begin_from,
    best_run,
    distances_of,
    outcome,
)
from daskfc.protocols.kcagc.messages import (
    LOST,
    DistanceView,
    GlobalNorms,
    Intersections,
    LloydProgress,
    LocalClusters,
    Measure,
)
from daskfc.secure.sums import Total

_LOST = 1e-3  # ours: error of a squared norm, relative to that of most rows
_NOTHING = np.empty((0, 0), dtype=np.int64)
_NOT_ASKED = _NOTHING.astype(np.int32), _NOTHING.astype(np.uint8)


def global_norms(total: Total) -> GlobalNorms:
    """Return the squared row norms over all participants, for the participants."""
    squared = np.maximum(total.values[:, 0], 0.0)
    known = squared[squared > 0]
    if known.size and total.error_bound > _LOST * float(np.median(known)):
        raise OverflowRefused(f"most rows' norms are {LOST}")
    return GlobalNorms(squared)


def intersect(parts: Sequence[LocalClusters | ClientLabels]) -> Intersections:
    """Return the non-empty intersections of participants' clusters (Protocol 3, lines 7-13)."""
    ids, sizes = intersections.intersect(*(part.labels for part in parts))
    return Intersections(ids.astype(np.int32), sizes.astype(np.float64))


def begin_on_nodes(
    nodes: Intersections, settings: LloydSettings, rank: int | None, *, fewer: bool = False
) -> LloydState | LandmarkState:
    """Begin weighted k-means on the virtual nodes; with a `rank`, by distances to landmarks."""
    # inside a tree there may be fewer nodes than clusters
    k = min(settings.n_clusters, len(nodes.sizes)) if fewer else settings.n_clusters
    return _begin(replace(settings, n_clusters=k), nodes.sizes, rank)


def begin_on_samples(
    n_samples: int, settings: LloydSettings, rank: int | None
) -> LloydState | LandmarkState:
    """Begin k-means on all samples: the basic protocol."""
    return _begin(settings, np.ones(n_samples), rank)


def _begin(
    settings: LloydSettings, weights: np.ndarray, rank: int | None
) -> LloydState | LandmarkState:
    if rank is None:
        return begin(settings, weights)
    return begin_with_landmarks(settings, weights, rank)


def start_from(found: ClientLabels | LocalClusters, settings: LloydSettings) -> LloydState:
    """Begin k-means on all samples from labels: a refinement."""
    labels = found.labels.astype(np.int64)
    return begin_from(settings, np.ones(len(labels)), labels[None])


def next_measure(state: LloydState | LandmarkState) -> Measure:
    """Return the next centres, for the participants to measure distances to."""
    request = state.request
    if isinstance(request, CentresAtNodes):
        return Measure(state.settings.n_clusters, request.nodes, *_NOT_ASKED)
    if request is None:  # all starts have converged, but the caller has no report of it yet
        return Measure(state.settings.n_clusters, _NOTHING, *_NOT_ASKED)
    assert request.wanted is not None
    means = request.labels.astype(np.int32), request.wanted.astype(np.uint8)
    return Measure(state.settings.n_clusters, _NOTHING, *means)


def take_sum(state: LloydState | LandmarkState, total: Total) -> LloydState | LandmarkState:
    """Advance the state by the sum of the participants' distances (Protocol 2, lines 5-10)."""
    if state.request is None:
        return state
    runs = len(state.request.nodes) if isinstance(state.request, CentresAtNodes) else 1
    sums = total.values.reshape(len(total.values), runs, -1)
    return add_sums(state, sums) if isinstance(state, LandmarkState) else advance(state, sums)


def progress(state: LloydState | LandmarkState) -> LloydProgress:
    """Return the progress, for the caller."""
    if isinstance(state, LandmarkState):
        n_nodes, n_sums, n_scalars = state.weights.size, state.n_sums, state.n_scalars
        return LloydProgress(0, 0, n_nodes, 0, n_sums, n_scalars, inertia=-1.0)
    return LloydProgress(
        done=int(state.request is None),
        converged=int(state.converged.all()),
        n_nodes=state.weights.size,
        n_rounds=state.n_rounds,
        n_sums=state.n_sums,
        n_scalars=state.n_scalars,
        inertia=float(state.inertia.min()) if np.isfinite(state.inertia).any() else -1.0,
    )


def labels_of(state: LloydState, nodes: Intersections | None) -> ClientLabels:
    """Return the clusters of all samples, in their common order."""
    labels = outcome(state).labels
    return ClientLabels(labels if nodes is None else labels[nodes.ids])


def tell_view(state: LloydState) -> DistanceView:
    """Return the sums of the best start's last round, which determine the labels."""
    distances = distances_of(state, best_run(state))
    return DistanceView(distances[np.isfinite(distances[:, 0])].T)


def nearest(total: Total) -> ClientLabels:
    """Return the nearest centre of each new sample."""
    return ClientLabels(np.argmin(total.values, axis=1))
