"""Weighted k-means where one side sees only sums of squared distances, the others only labels.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocols 1-3.
Notation    paper          here               shape, range
            X^l, Y^l       rows               (n, w) float64, stays at participant l
            |U_i|          weights            (n,) float64, > 0, known to all
            k              n_clusters         int >= 1
            Q              max_iter           int >= 1, rounds of Lloyd
            μ^l            centres            (R, c, w) float64, stays at participant l
            d^l_ir, D_ir   distances, sums    (n, R, c) float64, sum over the participants
            -              n_init             R, restarts run side by side in one sum
Messages    `Request` of `summed_distances`, server → participants: nodes to take as centres, or
            labels to average; sums, participants → server: only Σ_l d^l, under secure aggregation.
Departures  (1) Seeds are k-means++ with a few trials each, drawn by the server from the sums; the
            paper asks for any 10-approximation. (2) The 1/9 step of Protocol 1, line 10, is off by
            default. (3) Lloyd runs until no label changes, 100 rounds at most; the paper's 10 are
            too few. (4) R restarts share each sum; the sums tell which has the smallest inertia.

Empty clusters: the server gives each the node farthest from its centre, as long as some node with
a positive distance shares its cluster. A cluster that stays empty repeats the centre of the first
that is not (nothing new is disclosed) and takes part in no comparison.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.checks import Constraint, boolean, check_params, integer, optional
from daskfc.clustering.clusterer import in_order_of_appearance
from daskfc.errors import InvalidInput
from daskfc.protocols.kcagc.maths.summed_distances import (
    CentresAtMeans,
    CentresAtNodes,
    Request,
)
from daskfc.seeds import generator

__all__ = [
    "LloydResult",
    "LloydSettings",
    "LloydState",
    "advance",
    "begin",
    "begin_from",
    "outcome",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class LloydSettings:
    """Parameters of weighted k-means on sums.

    Parameters
    ----------
    n_clusters : int
        k, at least 1.
    seed : int
        Of the k-means++ draws, at least 0.
    n_init : int, default 50
        Restarts, run side by side.
    max_iter : int, default 100
        Rounds of Lloyd at most.
    n_trials : int, optional
        Candidates of one k-means++ draw, of which the best counts; ``2 + int(log(k))`` by default.
    one_ninth : bool, default False
        Whether the first means leave out nodes with ``D_ir > D_is / 9`` for some other s.

    Raises
    ------
    InvalidInput
        For a parameter that breaks its rule.

    Examples
    --------
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings
    >>> LloydSettings(n_clusters=7, seed=0).trials
    3
    """

    n_clusters: int
    seed: int
    n_init: int = 50
    max_iter: int = 100
    n_trials: int | None = None
    one_ninth: bool = False

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": integer(1),
        "seed": integer(0),
        "n_init": integer(1),
        "max_iter": integer(1),
        "n_trials": optional(integer(1)),
        "one_ninth": boolean(),
    }

    def __post_init__(self) -> None:
        params = {name: getattr(self, name) for name in self.constraints}
        check_params("LloydSettings", params, self.constraints)

    @property
    def trials(self) -> int:
        """Candidates of one draw."""
        return 2 + int(math.log(self.n_clusters)) if self.n_trials is None else self.n_trials


@dataclass(frozen=True)
class LloydState:
    """What the server keeps between two sums; a plain value that can be stored and resumed.

    Parameters
    ----------
    settings : LloydSettings
        Parameters.
    weights : ndarray of shape (n,), float64
        Weights of the nodes.
    request : CentresAtNodes, CentresAtMeans or None
        What the participants are to measure next; None at the end.
    labels : ndarray of shape (R, n), int64
        Cluster of each node in each restart.
    nearest, second : ndarray of shape (R, n), float64
        Smallest and second smallest distance to the seeds so far.
    inertia : ndarray of shape (R,), float64
        Weighted sum of the distances to the nearest centre.
    converged : ndarray of shape (R,), bool
        Whether labels came to rest.
    running : ndarray of shape (A,), int64
        Restarts that are still measured, in the order of the request's rows.
    n_seeds : int
        Seeds found so far.
    n_rounds : int
        Rounds of Lloyd so far.
    n_sums, n_scalars : int
        Vectorised sums so far, and numbers in them: the paper's count of secure aggregations.
    """

    settings: LloydSettings
    weights: Floats
    request: Request | None
    labels: Integers
    nearest: Floats
    second: Floats
    inertia: Floats
    converged: NDArray[np.bool_]
    running: Integers
    n_seeds: int = 0
    n_rounds: int = 0
    n_sums: int = 0
    n_scalars: int = 0


def begin(settings: LloydSettings, weights: Floats) -> LloydState:
    """Return the state before the first sum, which measures the first seed of every restart.

    Parameters
    ----------
    settings : LloydSettings
        Parameters.
    weights : ndarray of shape (n,), float64
        Positive weights of the nodes; n is at least k.

    Raises
    ------
    InvalidInput
        For fewer nodes than clusters, and for weights that are not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, begin
    >>> begin(LloydSettings(2, seed=0, n_init=3), np.ones(5)).request.nodes.shape
    (3, 1)
    """
    n, runs = weights.size, settings.n_init
    if n < settings.n_clusters:
        raise InvalidInput(
            f"weighted k-means needs at least as many nodes as clusters; got {n} nodes for "
            f"{settings.n_clusters} clusters. Lower 'n_clusters', or raise the number of local "
            "clusters."
        )
    if not (weights.min() > 0 and np.isfinite(weights).all()):
        raise InvalidInput(
            "the weights of weighted k-means must be positive and finite; some are not. "
            "Leave out nodes without weight."
        )
    first = _drawn(weights[None].repeat(runs, axis=0), 1, settings, 0)
    return LloydState(
        settings,
        weights,
        CentresAtNodes(first),
        labels=np.zeros((runs, n), dtype=np.int64),
        nearest=np.full((runs, n), np.inf),
        second=np.full((runs, n), np.inf),
        inertia=np.full(runs, np.inf),
        converged=np.zeros(runs, dtype=np.bool_),
        running=np.arange(runs),
    )


def begin_from(settings: LloydSettings, weights: Floats, labels: Integers) -> LloydState:
    """Return the state that starts Lloyd from labels (R, n), without seeds: for a refinement.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, begin_from
    >>> state = begin_from(LloydSettings(2, seed=0, n_init=1), np.ones(3), np.array([[0, 0, 1]]))
    >>> state.request.labels.tolist()
    [[0, 0, 1]]
    """
    expected = (settings.n_init, weights.size)
    if labels.shape != expected or labels.min() < 0 or labels.max() >= settings.n_clusters:
        raise InvalidInput(
            f"labels to start from must have shape (n_init, n) = {expected} and lie in [0, "
            f"{settings.n_clusters}); got shape {labels.shape}. Give a row for each restart."
        )
    state = begin(settings, weights)
    return replace(
        state,
        request=CentresAtMeans(labels),
        labels=labels,
        n_seeds=settings.n_clusters,
    )


def advance(state: LloydState, sums: Floats) -> LloydState:
    """Return the state after a sum.

    Parameters
    ----------
    state : LloydState
        With a request.
    sums : ndarray of shape (n, A, c), float64
        Σ_l of `distances_to` the centres that the request names; what the rounding of a secure
        sum puts below 0 counts as 0.

    Returns
    -------
    LloydState
        With the next request, or None when all restarts are done.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, advance, begin_from
    >>> state = begin_from(LloydSettings(2, seed=0, n_init=1), np.ones(2), np.array([[0, 1]]))
    >>> bool(advance(state, np.array([[[0.0, 4.0]], [[4.0, 0.0]]])).converged[0])
    True
    """
    assert state.request is not None, "all restarts are done"
    seeding = isinstance(state.request, CentresAtNodes)
    asked = state.request.nodes if isinstance(state.request, CentresAtNodes) else None
    width = state.settings.n_clusters if asked is None else asked.shape[1]
    expected = (state.weights.size, state.running.size, width)
    assert sums.shape == expected, (sums.shape, expected)
    sums = np.maximum(sums, 0.0)
    state = replace(state, n_sums=state.n_sums + 1, n_scalars=state.n_scalars + sums.size)
    return _seed(state, sums) if seeding else _round(state, sums)


def _drawn(mass: Floats, count: int, settings: LloydSettings, number: int) -> Integers:
    """Draw nodes (R, count) with probability in proportion to their mass (R, n)."""
    total = np.cumsum(mass, axis=1)
    random = generator(settings.seed, "k-means++", number)
    points = random.random((len(mass), count)) * total[:, -1:]
    nodes = np.empty(points.shape, dtype=np.int64)
    for run, row in enumerate(total):
        nodes[run] = np.searchsorted(row, points[run], side="right")
        last = np.flatnonzero(mass[run])  # rounding may step past the end
        np.minimum(nodes[run], last[-1] if last.size else mass.shape[1] - 1, out=nodes[run])
    return nodes


def _seed(state: LloydState, sums: Floats) -> LloydState:
    """Take the best candidate of every restart; ask for the next seeds, or for the first means."""
    settings, weights = state.settings, state.weights
    by_run = sums.transpose(1, 2, 0)  # (R, c, n)
    cost = np.minimum(by_run, state.nearest[:, None, :]) @ weights  # (R, c)
    chosen = by_run[np.arange(len(cost)), cost.argmin(axis=1)]  # (R, n)
    closer = chosen < state.nearest  # ties stay with the lower index
    second = np.where(closer, state.nearest, np.minimum(state.second, chosen))
    labels = np.where(closer, state.n_seeds, state.labels)
    nearest = np.where(closer, chosen, state.nearest)
    state = replace(state, labels=labels, nearest=nearest, second=second, n_seeds=state.n_seeds + 1)
    if state.n_seeds < settings.n_clusters:
        nodes = _drawn(nearest * weights, settings.trials, settings, state.n_seeds)
        return replace(state, request=CentresAtNodes(nodes))
    labels = _filled(labels, nearest, settings.n_clusters)
    first = labels
    if settings.one_ninth and settings.n_clusters > 1:
        first = np.where(nearest <= second / 9.0, labels, -1)  # Protocol 1, line 10
        kept = np.array([np.unique(row).size for row in first]) > (first < 0).any(axis=1)
        first = np.where(kept[:, None], first, labels)  # nothing to average in a run: average all
    return replace(state, labels=labels, request=CentresAtMeans(first))


def _round(state: LloydState, sums: Floats) -> LloydState:
    """Protocol 2, lines 27 to 33: the nearest centre of every node, by the sums."""
    assert isinstance(state.request, CentresAtMeans)
    settings, running = state.settings, state.running
    k = settings.n_clusters
    before = state.request.labels
    by_run = sums.transpose(1, 0, 2)  # (A, n, k)
    for run, row in enumerate(before):
        empty = np.bincount(row[row >= 0], minlength=k) == 0
        if empty.any():
            by_run[run][:, empty] = np.inf
    after = by_run.argmin(axis=2)  # the lowest index on ties
    nearest = np.take_along_axis(by_run, after[:, :, None], axis=2)[:, :, 0]
    inertia = state.inertia.copy()
    inertia[running] = nearest @ state.weights
    after = _filled(after, nearest, k)
    rest = (after == before).all(axis=1)
    labels = state.labels.copy()
    labels[running] = after
    converged = state.converged.copy()
    converged[running] = rest
    rounds = state.n_rounds + 1
    going = ~rest if rounds < settings.max_iter else np.zeros_like(rest)
    return replace(
        state,
        labels=labels,
        inertia=inertia,
        converged=converged,
        running=running[going],
        request=CentresAtMeans(after[going]) if going.any() else None,
        n_rounds=rounds,
    )


def _filled(labels: Integers, nearest: Floats, k: int) -> Integers:
    """Give every empty cluster the farthest node whose cluster has another node."""
    labels = labels.copy()
    for row, far in zip(labels, nearest, strict=True):
        sizes = np.bincount(row, minlength=k)
        empty = np.flatnonzero(sizes == 0)
        if not empty.size:
            continue
        candidates = iter(np.argsort(-far, kind="stable"))
        for cluster in empty:
            node = next((i for i in candidates if far[i] > 0 and sizes[row[i]] > 1), None)
            if node is None:
                break
            sizes[row[node]] -= 1
            row[node] = cluster
            sizes[cluster] = 1
    return labels


@dataclass(frozen=True)
class LloydResult:
    """The best restart.

    Parameters
    ----------
    labels : ndarray of shape (n,), int64
        Clusters in order of appearance.
    inertia : float
        Weighted sum of squared distances to the centres of the last round.
    converged : bool
        Whether labels came to rest within `max_iter` rounds.
    n_rounds, n_sums, n_scalars : int
        Rounds of Lloyd, vectorised sums, and numbers in these, over all restarts.

    Notes
    -----
    Centres are not here: a participant has its columns by ``CentresAtMeans(labels[None])``.
    """

    labels: Integers
    inertia: float
    converged: bool
    n_rounds: int
    n_sums: int
    n_scalars: int


def outcome(state: LloydState) -> LloydResult:
    """Return the restart with the smallest inertia, the first of equal ones.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, begin_from
    >>> from daskfc.protocols.kcagc.maths.weighted_lloyd import advance, outcome
    >>> state = begin_from(LloydSettings(2, seed=0, n_init=1), np.ones(2), np.array([[1, 0]]))
    >>> outcome(advance(state, np.array([[[4.0, 0.0]], [[0.0, 4.0]]]))).labels.tolist()
    [0, 1]
    """
    assert state.request is None, "some restarts still run"
    best = int(state.inertia.argmin())
    labels = state.labels[best]
    return LloydResult(
        in_order_of_appearance(labels, state.settings.n_clusters)[labels],
        float(state.inertia[best]),
        bool(state.converged[best]),
        state.n_rounds,
        state.n_sums,
        state.n_scalars,
    )
