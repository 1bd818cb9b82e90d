"""Weighted k-means on distances to landmarks, summed once; the server computes all rounds.

A distance to a node or to a mean of nodes follows from the distances between nodes, which span at
most q dimensions, those of all participants' columns together. So sums of the distances to q + 1
nodes, the landmarks, determine the sums of all later rounds. `tells_as_much` says when the sums of
all rounds would reveal as much to the server.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocols 2, 3.
Notation    paper          here               shape, range
            D_ir           distances, sums    (n, c) float64, sum over the participants
            -              rank               q, int >= 1, dimensions of all participants' columns
Departures  (1) The paper measures to every round's centres. `weighted_lloyd` lists the others.
"""

from dataclasses import dataclass, replace

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.linalg.landmarks import LandmarkEmbedding
from daskfc.protocols.kcagc.maths.summed_distances import CentresAtNodes, centres_of, distances_to
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, LloydState, advance, begin

_TOLERANCE = 1e-11  # ours: squared distance from the landmarks' span, relative to the mean one
_SPARE = 8  # ours: landmarks beyond q + 1 at first, so that few of them need a second sum


@dataclass(frozen=True)
class LandmarkState:
    """What the server keeps between sums: `known` landmarks, and distances (n, c) to them."""

    settings: LloydSettings
    weights: Floats
    rank: int
    request: CentresAtNodes
    known: tuple[tuple[Ints, Floats], ...] = ()

    @property
    def n_sums(self) -> int:
        """Vectorised sums so far."""
        return len(self.known)

    @property
    def n_scalars(self) -> int:
        """Numbers in these sums."""
        return sum(columns.size for _, columns in self.known)


def tells_as_much(settings: LloydSettings, n_clients: int, n_columns: int) -> bool:
    """Whether sums of distances to all starts' centres also reveal all distances to the server.

    True if there are at least 2 (L n_columns + 1) candidates for seeds and first means: distances
    to so many centres of known weights determine all others, unless starts draw the same nodes.
    """
    k = settings.n_clusters
    centres = settings.n_init * (1 + (k - 1) * settings.trials + k)
    return centres >= 2 * (n_clients * n_columns + 1)


def begin_with_landmarks(settings: LloydSettings, weights: Floats, rank: int) -> LandmarkState:
    """Return the state before the first sum, which measures to nodes spread over all of them."""
    begin(settings, weights)  # raises on weights that cannot be clustered
    first = LandmarkEmbedding(weights.size, rank).next_landmarks(rank + 1 + _SPARE)
    return LandmarkState(settings, weights, rank, CentresAtNodes(first[None]))


def add_sums(state: LandmarkState, sums: Floats) -> LandmarkState | LloydState:
    """Return the state after a sum (n, 1, c): the final one once the landmarks span all nodes."""
    nodes = state.request.nodes[0]
    assert sums.shape == (state.weights.size, 1, nodes.size), sums.shape
    state = replace(state, known=(*state.known, (nodes, np.maximum(sums[:, 0], 0.0))))
    embedding = LandmarkEmbedding(state.weights.size, state.rank, tolerance=_TOLERANCE)
    for landmarks, columns in state.known:
        embedding.add_columns(landmarks, columns)
    # one for each remaining direction, as each may belong to a single node
    more = embedding.next_landmarks(max(1, embedding.max_rank - embedding.rank))
    if more.size:
        return replace(state, request=CentresAtNodes(more[None]))
    some = embedding.coordinates if embedding.rank else np.zeros((state.weights.size, 1))
    return _clustered(state, np.ascontiguousarray(some))


def _clustered(state: LandmarkState, rows: Floats) -> LloydState:
    """Run weighted k-means with the sums of distances computed from coordinates."""
    settings, weights = state.settings, state.weights
    lloyd = begin(settings, weights)
    while (request := lloyd.request) is not None:
        centres = centres_of(request, rows, weights, settings.n_clusters)
        lloyd = advance(lloyd, distances_to(rows, centres))
    return replace(lloyd, n_sums=state.n_sums, n_scalars=state.n_scalars)
