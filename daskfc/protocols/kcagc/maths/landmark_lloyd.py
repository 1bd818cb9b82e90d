"""Weighted k-means on distances to landmarks: sums once, and then all rounds at the server.

Every distance that a round asks for, to a node or to a mean of nodes, follows from the distances
between nodes, which have as many dimensions as all participants' columns together, at most q. So
sums of the distances to q + 1 nodes tell all that the sums of later rounds would. `tells_as_much`
says when starts with sums of their own tell as much to the server anyway.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocols 2, 3.
Notation    paper          here               shape, range
            D_ir           distances, sums    (n, c) float64, sum over the participants
            -              rank               q, int >= 1, dimensions of all participants' columns
Departures  (1) The paper measures to every round's centres; `weighted_lloyd` has the others.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.linalg.landmarks import LandmarkEmbedding
from daskfc.protocols.kcagc.maths.summed_distances import (
    CentresAtNodes,
    centres_of,
    distances_to,
)
from daskfc.protocols.kcagc.maths.weighted_lloyd import (
    LloydSettings,
    LloydState,
    advance,
    begin,
)

__all__ = ["LandmarkState", "add_sums", "begin_with_landmarks", "tells_as_much"]

Floats: TypeAlias = NDArray[np.float64]

_TOLERANCE = 1e-11  # ours: squared distance off the landmarks' span, to the mean one
_SPARE = 8  # ours: landmarks beyond q + 1 at first, so that few of them need a second sum


@dataclass(frozen=True)
class LandmarkState:
    """What the server keeps between two sums; a plain value, as `LloydState`.

    `rank` is an upper bound on the dimensions of all participants' columns; `known` has earlier
    landmarks and the distances (n, c) to them.
    """

    settings: LloydSettings
    weights: Floats
    rank: int
    request: CentresAtNodes
    known: tuple[tuple[NDArray[np.int64], Floats], ...] = ()

    @property
    def n_sums(self) -> int:
        """Vectorised sums so far."""
        return len(self.known)

    @property
    def n_scalars(self) -> int:
        """Numbers in these sums."""
        return sum(columns.size for _, columns in self.known)


def tells_as_much(settings: LloydSettings, n_clients: int, n_columns: int) -> bool:
    """Whether sums to the centres of all starts reveal all distances to the server as well.

    True where candidates for seeds and the first means are at least 2 (L n_columns + 1): distances
    to that many centres of known weights determine all others, unless starts keep drawing the same
    nodes.
    """
    k = settings.n_clusters
    centres = settings.n_init * (1 + (k - 1) * settings.trials + k)
    return centres >= 2 * (n_clients * n_columns + 1)


def begin_with_landmarks(settings: LloydSettings, weights: Floats, rank: int) -> LandmarkState:
    """Return the state before the first sum, which measures to nodes spread over all of them.

    Weights are positive; `rank` is an upper bound on the dimensions of all participants' columns.
    """
    begin(settings, weights)  # refuses what it cannot cluster
    first = LandmarkEmbedding(weights.size, rank).next_landmarks(rank + 1 + _SPARE)
    return LandmarkState(settings, weights, rank, CentresAtNodes(first[None]))


def add_sums(state: LandmarkState, sums: Floats) -> LandmarkState | LloydState:
    """Return the state after a sum (n, 1, c): starts at rest once the landmarks span all nodes.

    That is when no node is farther from their span than 1e-11 of the mean squared distance. Sums
    that the secure sum rounded below 0 count as 0.
    """
    nodes = state.request.nodes[0]
    assert sums.shape == (state.weights.size, 1, nodes.size), sums.shape
    state = replace(state, known=(*state.known, (nodes, np.maximum(sums[:, 0], 0.0))))
    embedding = LandmarkEmbedding(state.weights.size, state.rank, tolerance=_TOLERANCE)
    for landmarks, columns in state.known:
        embedding.add_columns(landmarks, columns)
    # as many as directions are left, for each may be one node's alone
    more = embedding.next_landmarks(max(1, embedding.max_rank - embedding.rank))
    if more.size:
        return replace(state, request=CentresAtNodes(more[None]))
    some = embedding.coordinates if embedding.rank else np.zeros((state.weights.size, 1))
    return _clustered(state, np.ascontiguousarray(some))


def _clustered(state: LandmarkState, rows: Floats) -> LloydState:
    """Weighted k-means with the sums that all participants' distances would have."""
    settings, weights = state.settings, state.weights
    lloyd = begin(settings, weights)
    while (request := lloyd.request) is not None:
        centres = centres_of(request, rows, weights, settings.n_clusters)
        lloyd = advance(lloyd, distances_to(rows, centres))
    return replace(lloyd, n_sums=state.n_sums, n_scalars=state.n_scalars)
