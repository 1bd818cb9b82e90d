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

    Parameters
    ----------
    settings : LloydSettings
        Parameters.
    weights : ndarray of shape (n,), float64
        Weights of the nodes.
    rank : int
        Dimensions of all participants' columns, at most.
    request : CentresAtNodes
        The landmarks that are measured next, ``nodes`` (1, c).
    known : tuple of pairs of ndarray, shapes (c,) and (n, c)
        Landmarks of earlier sums, and distances to them.
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
    """Whether sums to the centres of all starts tell the server all distances as well.

    Parameters
    ----------
    settings : LloydSettings
        Parameters.
    n_clients : int
        L, participants.
    n_columns : int
        Columns that each participant keeps, at most.

    Returns
    -------
    bool
        True where candidates for seeds and the first means are at least twice ``L n_columns + 1``:
        distances to that many centres, whose weights the server knows, determine all others, unless
        starts draw the same few nodes again and again.

    Examples
    --------
    >>> from daskfc.protocols.kcagc.maths.landmark_lloyd import tells_as_much
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings
    >>> tells_as_much(LloydSettings(7, seed=0), 16, 7)
    True
    >>> tells_as_much(LloydSettings(7, seed=0, n_init=1), 16, 7)
    False
    """
    k = settings.n_clusters
    centres = settings.n_init * (1 + (k - 1) * settings.trials + k)
    return centres >= 2 * (n_clients * n_columns + 1)


def begin_with_landmarks(settings: LloydSettings, weights: Floats, rank: int) -> LandmarkState:
    """Return the state before the first sum, which measures to nodes spread over all of them.

    Parameters
    ----------
    settings : LloydSettings
        Parameters.
    weights : ndarray of shape (n,), float64
        Positive weights of the nodes; n is at least k.
    rank : int
        Dimensions of all participants' columns, at most.

    Raises
    ------
    InvalidInput
        As `begin`.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.landmark_lloyd import begin_with_landmarks
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings
    >>> begin_with_landmarks(LloydSettings(2, seed=0), np.ones(99), 1).request.nodes.shape
    (1, 10)
    """
    begin(settings, weights)  # refuses what it cannot cluster
    first = LandmarkEmbedding(weights.size, rank).next_landmarks(rank + 1 + _SPARE)
    return LandmarkState(settings, weights, rank, CentresAtNodes(first[None]))


def add_sums(state: LandmarkState, sums: Floats) -> LandmarkState | LloydState:
    """Return the state after a sum: all starts at rest, once the landmarks span all nodes.

    Parameters
    ----------
    state : LandmarkState
        What was asked for.
    sums : ndarray of shape (n, 1, c), float64
        Σ_l of `distances_to` the landmarks. What the rounding of a secure sum puts below 0 counts
        as 0.

    Returns
    -------
    LandmarkState or LloydState
        With the next landmarks; or done, where no node is farther from the landmarks' span than
        1e-11 of the mean squared distance.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.landmark_lloyd import add_sums, begin_with_landmarks
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, outcome
    >>> x = np.array([0.0, 1.0, 8.0, 9.0])
    >>> state = begin_with_landmarks(LloydSettings(2, seed=0), np.ones(4), 1)
    >>> state = add_sums(state, (x[:, None, None] - x[state.request.nodes]) ** 2)
    >>> outcome(state).labels.tolist()
    [0, 0, 1, 1]
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
