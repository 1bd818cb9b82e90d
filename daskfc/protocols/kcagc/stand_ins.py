"""Stubs for kCAGC's steps in a rehearsal, which plans a run's messages without running it.

Small columns are projected and clustered as in a run, which gives the number of non-empty
intersections; of large ones it is bounded. The number of rounds until convergence is a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation.methods.samples import ClientLabels
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.protocols.kcagc import party as participant
from daskfc.protocols.kcagc import server
from daskfc.protocols.kcagc.maths.landmark_lloyd import begin_with_landmarks
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings
from daskfc.protocols.kcagc.messages import Intersections, LocalClusters
from daskfc.protocols.kcagc.party import Projection
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore

_READ = 1 << 25  # ours: a participant's data of up to so many numbers are read, 256 MiB
_NODES = "intersections of local clusters"
_ROUNDS = 6  # ours: rounds of Lloyd, mean over starts; 4 on digits, where the last start takes 10
_NEW = 0.75  # ours: share of a round's centres that no start has had before; on Cora


@dataclass(frozen=True)
class _Lloyd:
    """State of the rehearsed weighted k-means."""

    settings: LloydSettings
    n_nodes: int
    n_landmarks: int = 0
    n_seeds: int = 0
    n_rounds: int = 0
    n_sums: int = 0
    n_means: int = 0
    n_scalars: int = 0
    done: bool = False


def _numbered(n_samples: int, n_clusters: int, dtype: str) -> np.ndarray:
    """Return constant labels that encode the number of clusters."""
    return np.broadcast_to(np.array(n_clusters - 1, dtype=dtype), (n_samples,))


def _project(data: ClientStore, projection: Projection, rehearsal: Rehearsal) -> np.ndarray:
    n, d = data.n_samples, data.n_features
    if n * d <= _READ and not rehearsal.knows(_NODES):
        return participant.project(data, projection)
    return of_shape(n, min(projection.n_clusters, n, d))


def _is_known(rows: np.ndarray) -> bool:
    return bool(rows.strides[0])  # an array without data repeats one number


def _cluster_locally(
    rows: np.ndarray,
    n_local_clusters: int,
    basis: str,
    n_local_init: int,
    random_state: int,
    party: str,
) -> LocalClusters:
    if _is_known(rows):
        how = (n_local_clusters, basis, n_local_init, random_state, party)
        return participant.cluster_locally(rows, *how)
    return LocalClusters(_numbered(len(rows), n_local_clusters, "int32"))


def _intersect(
    parts: Sequence[LocalClusters | ClientLabels], rehearsal: Rehearsal
) -> Intersections | Sizes:
    if all(_is_known(part.labels) for part in parts):
        return server.intersect(parts)
    n, cells = len(parts[0].labels), 1
    for part in parts:
        cells = min(n, cells * (int(part.labels.max()) + 1))
    nodes = rehearsal.assume(_NODES, cells, at_most=True)
    return Sizes(sample=n, node=min(int(nodes), cells))


def _begin_on_nodes(
    nodes: Intersections, settings: LloydSettings, rank: int | None, fewer: bool
) -> _Lloyd:
    k = min(settings.n_clusters, len(nodes.sizes)) if fewer else settings.n_clusters
    return _begin_on_samples(len(nodes.sizes), replace(settings, n_clusters=k), rank)


def _begin_on_samples(n_samples: int, settings: LloydSettings, rank: int | None) -> _Lloyd:
    if rank is None:
        return _Lloyd(settings, n_samples)
    state = begin_with_landmarks(settings, np.ones(n_samples), rank)
    return _Lloyd(settings, n_samples, n_landmarks=state.request.nodes.size)


_NOTHING = Sizes(n_clusters=0, run=0, centre=0, start=0, node=0, cluster=0)


def _next_measure(state: _Lloyd, rehearsal: Rehearsal) -> Sizes:
    how, k = state.settings, state.settings.n_clusters
    if state.done:
        return _NOTHING
    if state.n_landmarks:
        return Sizes(_NOTHING, n_clusters=k, run=1, centre=state.n_landmarks)
    if _sorts(state):
        return Sizes(_NOTHING, n_clusters=1, start=1, node=state.n_nodes, cluster=k)
    if state.n_seeds < k:
        centres = how.trials if state.n_seeds else 1
        return Sizes(_NOTHING, n_clusters=k, run=how.n_init, centre=centres)
    means = how.n_init * k
    if not _refines(state):
        new = rehearsal.assume("centres that a round of Lloyd measures", max(1.0, _NEW * means))
        means = round(new * (state.n_rounds + 1)) - state.n_means
    # all restarts' means count as clusters of one row: the sum has a column for each
    return Sizes(_NOTHING, n_clusters=means, start=how.n_init, node=state.n_nodes, cluster=k)


def _sorts(state: _Lloyd) -> bool:
    """Whether this is the first sum, which gives samples their order."""
    return not (state.settings.ordered or state.n_sums)


def _refines(state: _Lloyd) -> bool:
    """Whether this is a refinement: a few rounds that start from labels."""
    return state.settings.n_init == 1 and state.n_sums == state.n_rounds


def _take_sum(state: _Lloyd, total: Total, rehearsal: Rehearsal) -> _Lloyd:
    if state.done:
        return state
    how, n_sums = state.settings, state.n_sums + 1
    state = replace(state, n_scalars=state.n_scalars + total.values.size)
    if state.n_landmarks:  # the landmarks of one sum almost always span all nodes
        return replace(state, n_sums=n_sums, done=True)
    if _sorts(state):
        return replace(state, n_sums=n_sums)
    if state.n_seeds < how.n_clusters:
        return replace(state, n_seeds=state.n_seeds + 1, n_sums=n_sums)
    most: float = how.max_iter
    if not _refines(state):
        most = rehearsal.assume("rounds of Lloyd", min(_ROUNDS, how.max_iter))
    rounds, n_means = state.n_rounds + 1, state.n_means + total.values.shape[1]
    done = rounds >= most
    return replace(state, n_rounds=rounds, n_sums=n_sums, n_means=n_means, done=done)


def _labels_of(state: _Lloyd, nodes: Intersections | None) -> ClientLabels:
    n = state.n_nodes if nodes is None else len(nodes.ids)
    return ClientLabels(_numbered(n, state.settings.n_clusters, "int64"))


STAND_INS: StandIns = {
    participant.project: _project,
    participant.row_norms: lambda rows: of_shape(len(rows)),
    participant.divide_by_norms: lambda rows: rows,
    participant.cluster_locally: _cluster_locally,
    participant.nodes_of: lambda rows, nodes: of_shape(len(nodes.sizes), rows.shape[1]),
    participant.measure: lambda rows, request: of_shape(
        len(rows), request.nodes.size or request.n_clusters
    ),
    server.global_norms: lambda total: Sizes(sample=len(total.values)),
    server.intersect: _intersect,
    server.begin_on_nodes: _begin_on_nodes,
    server.begin_on_samples: _begin_on_samples,
    server.start_from: lambda found, settings: _Lloyd(
        settings, len(found.labels), n_seeds=settings.n_clusters
    ),
    server.next_measure: _next_measure,
    server.take_sum: _take_sum,
    server.progress: lambda state: Sizes(done=int(state.done), converged=1),
    server.labels_of: _labels_of,
}
