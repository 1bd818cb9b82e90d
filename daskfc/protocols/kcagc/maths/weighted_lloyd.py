"""Weighted k-means: the server sees only sums of squared distances, participants only labels.

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
            too few. (4) R restarts share each sum; the sums give the inertia of each. (5) A centre
            is measured once for all restarts that have its cluster, and not again while one of
            them keeps it, so late rounds sum few numbers. (6) Where the order of nodes is
            arbitrary, seeds are drawn in the order of distances to the mean of all nodes, which
            are summed first. (7) Sums are rounded to 34 bits, so that ties do not depend on the
            participants' rounding.

Empty clusters: each gets the node farthest from its centre, of those at a positive distance in a
cluster of several. A cluster that stays empty repeats the centre of the first non-empty one
(nothing new is disclosed) and takes part in no comparison.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, boolean, check_params, integer, optional
from daskfc.clustering.clusterers.clusterer import in_order_of_appearance
from daskfc.clustering.views.order import order_of_rows, rounded
from daskfc.errors import InvalidInput
from daskfc.protocols.kcagc.maths.draws import drawn, filled
from daskfc.protocols.kcagc.maths.summed_distances import CentresAtMeans, CentresAtNodes, Request

_SAME = 1e-12  # ours: relative; costs of the same nodes summed in another order differ by less


@dataclass(frozen=True)
class LloydSettings:
    """Parameters of weighted k-means on sums, with `n_init` restarts side by side.

    Of `n_trials` candidates for a seed (None: 2 + int(log(k))) the best is kept. `one_ninth` leaves
    nodes with D_ir > D_is / 9 for some other s out of the first means. Unless the nodes' order is
    meaningful (`ordered`), seeds are drawn in an order that follows from a first sum.
    """

    n_clusters: int
    seed: int
    n_init: int = 50
    max_iter: int = 100
    n_trials: int | None = None
    one_ninth: bool = False
    ordered: bool = True

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_clusters": integer(1),
        "seed": integer(0),
        "n_init": integer(1),
        "max_iter": integer(1),
        "n_trials": optional(integer(1)),
        "one_ninth": boolean(),
        "ordered": boolean(),
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

    `request` is None at the end. `means` (A, n) has this round's labels of the `running` restarts,
    `clusters` those of each restart's last round, and `known` the distances to their centres.
    `n_sums` and `n_scalars` count secure aggregations as the paper does.
    """

    settings: LloydSettings
    weights: Floats
    request: Request | None
    labels: Ints
    nearest: Floats
    second: Floats
    inertia: Floats
    converged: NDArray[np.bool_]
    running: Ints
    means: Ints
    clusters: tuple[tuple[bytes, ...], ...]
    known: Mapping[bytes, Floats]
    order: Ints
    n_seeds: int = 0
    n_rounds: int = 0
    n_sums: int = 0
    n_scalars: int = 0


def begin(settings: LloydSettings, weights: Floats) -> LloydState:
    """Return the state that requests the first sum; refuse fewer nodes than clusters."""
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
    state = LloydState(
        settings,
        weights,
        None,
        labels=np.zeros((runs, n), dtype=np.int64),
        nearest=np.full((runs, n), np.inf),
        second=np.full((runs, n), np.inf),
        inertia=np.full(runs, np.inf),
        converged=np.zeros(runs, dtype=np.bool_),
        running=np.arange(runs),
        means=np.zeros((0, n), dtype=np.int64),
        clusters=((),) * runs,
        known={},
        order=np.arange(n),
    )
    if settings.ordered:
        return _first_seeds(state)
    one = np.arange(settings.n_clusters)[None] == 0
    return replace(state, request=CentresAtMeans(np.zeros((1, n), dtype=np.int64), one))


def begin_from(settings: LloydSettings, weights: Floats, labels: Ints) -> LloydState:
    """Return the state that starts Lloyd from labels (R, n), without seeds: for a refinement."""
    expected = (settings.n_init, weights.size)
    if labels.shape != expected or labels.min() < 0 or labels.max() >= settings.n_clusters:
        raise InvalidInput(
            f"labels to start from must have shape (n_init, n) = {expected} and lie in [0, "
            f"{settings.n_clusters}); got shape {labels.shape}. Give a row for each restart."
        )
    state = begin(settings, weights)
    return _ask(replace(state, labels=labels, n_seeds=settings.n_clusters), labels)


def advance(state: LloydState, sums: Floats) -> LloydState:
    """Return the state after a sum (n, R, c) for candidates of each start, or (n, 1, c)."""
    assert state.request is not None, "all restarts are done"
    if isinstance(state.request, CentresAtNodes):
        asked = state.request.nodes.shape
    else:
        assert state.request.wanted is not None
        asked = 1, int(state.request.wanted.sum())
    expected = (state.weights.size, *asked)
    assert sums.shape == expected, (sums.shape, expected)
    sums = np.maximum(sums, 0.0)
    sums = rounded(sums, float(sums.max(initial=0.0)))
    counted = replace(state, n_sums=state.n_sums + 1, n_scalars=state.n_scalars + sums.size)
    if isinstance(state.request, CentresAtNodes):
        return _seed(counted, sums)
    if not state.n_seeds:
        return _first_seeds(replace(counted, order=order_of_rows(sums[:, 0])))
    # copies: a view would keep the memory of columns that are dropped later
    measured = {key: sums[:, 0, at].copy() for at, key in enumerate(_wanted(state.request))}
    state = replace(counted, known={**state.known, **measured})
    while True:
        state = _round(state)
        if not isinstance(state.request, CentresAtMeans) or state.request.labels.size:
            return state  # otherwise all centres of the next round are known


def _keys(labels: Ints, k: int) -> tuple[bytes, ...]:
    """Return for each of k numbers its cluster's nodes (n,) as bits; b"" for an empty cluster."""
    members = labels == np.arange(k)[:, None]
    packed = np.packbits(members, axis=1)
    return tuple(
        row.tobytes() if some else b""
        for row, some in zip(packed, members.any(axis=1), strict=True)
    )


def _wanted(request: CentresAtMeans) -> list[bytes]:
    """Return the clusters with requested centres, in order."""
    assert request.wanted is not None
    k = request.wanted.shape[1]
    keys = (_keys(row, k) for row in request.labels)
    return [
        key
        for row, wanted in zip(keys, request.wanted, strict=True)
        for key, asked in zip(row, wanted, strict=True)
        if asked
    ]


def _ask(state: LloydState, means: Ints) -> LloydState:
    """Go on with the means of labels (A, n): request the centres that were not measured yet."""
    k = state.settings.n_clusters
    clusters = list(state.clusters)
    wanted = np.zeros((len(means), k), dtype=np.bool_)
    seen = {b"", *state.known}
    for row, run in enumerate(state.running):
        clusters[run] = _keys(means[row], k)
        for number, key in enumerate(clusters[run]):
            wanted[row, number] = key not in seen
            seen.add(key)
    kept = {key for keys in clusters for key in keys}
    some = wanted.any(axis=1)
    return replace(
        state,
        request=CentresAtMeans(means[some], wanted[some]),
        means=means,
        clusters=tuple(clusters),
        known={key: column for key, column in state.known.items() if key in kept},
    )


def distances_of(state: LloydState, run: int) -> Floats:
    """Return the sums of a restart's last round, (k, n); infinite for an empty cluster."""
    empty = np.full(state.weights.size, np.inf)
    return np.stack([state.known.get(key, empty) for key in state.clusters[run]])


def _first_seeds(state: LloydState) -> LloydState:
    return _draw(state, state.weights[None].repeat(state.settings.n_init, axis=0), 1)


def _draw(state: LloydState, mass: Floats, count: int) -> LloydState:
    """Request the distances to seeds that are drawn by their mass (R, n)."""
    nodes = drawn(mass, count, state.order, state.settings.seed, state.n_seeds)
    return replace(state, request=CentresAtNodes(nodes))


def _seed(state: LloydState, sums: Floats) -> LloydState:
    """Take the best candidate of every restart; request the next seeds, or the first means."""
    settings, weights = state.settings, state.weights
    by_run = sums.transpose(1, 2, 0)  # (R, c, n)
    cost = np.minimum(by_run, state.nearest[:, None, :]) @ weights  # (R, c)
    chosen = by_run[np.arange(len(cost)), _smallest(cost)]  # (R, n)
    closer = chosen < state.nearest  # ties stay with the lower index
    second = np.where(closer, state.nearest, np.minimum(state.second, chosen))
    labels = np.where(closer, state.n_seeds, state.labels)
    nearest = np.where(closer, chosen, state.nearest)
    state = replace(state, labels=labels, nearest=nearest, second=second, n_seeds=state.n_seeds + 1)
    if state.n_seeds < settings.n_clusters:
        return _draw(state, nearest * weights, settings.trials)
    labels = filled(labels, nearest, settings.n_clusters, state.order)
    first = labels
    if settings.one_ninth and settings.n_clusters > 1:
        first = np.where(nearest <= second / 9.0, labels, -1)  # Protocol 1, line 10
        kept = np.array([np.unique(row).size for row in first]) > (first < 0).any(axis=1)
        first = np.where(kept[:, None], first, labels)  # no node is left: average all
    return _ask(replace(state, labels=labels), first)


def _round(state: LloydState) -> LloydState:
    """Assign every node to its nearest centre by the sums (Protocol 2, lines 27 to 33)."""
    settings, running = state.settings, state.running
    k = settings.n_clusters
    before = state.means
    after, nearest = np.empty_like(before), np.empty(before.shape)
    for row, run in enumerate(running):
        distances = distances_of(state, run)
        after[row] = distances.argmin(axis=0)  # the lowest index on ties
        nearest[row] = distances.min(axis=0)
    inertia = state.inertia.copy()
    inertia[running] = nearest @ state.weights
    after = filled(after, nearest, k, state.order)
    rest = (after == before).all(axis=1)
    labels = state.labels.copy()
    labels[running] = after
    converged = state.converged.copy()
    converged[running] = rest
    rounds = state.n_rounds + 1
    going = ~rest if rounds < settings.max_iter else np.zeros_like(rest)
    state = replace(
        state,
        labels=labels,
        inertia=inertia,
        converged=converged,
        running=running[going],
        request=None,
        n_rounds=rounds,
    )
    return _ask(state, after[going]) if going.any() else state


@dataclass(frozen=True)
class LloydResult:
    """The best restart, with labels in order of appearance; counts are over all restarts."""

    labels: Ints
    inertia: float
    converged: bool
    n_rounds: int
    n_sums: int
    n_scalars: int


def best_run(state: LloydState) -> int:
    """Return the restart with the smallest inertia so far, the first of equal ones."""
    return int(_smallest(state.inertia[None])[0])


def _smallest(costs: Floats) -> Ints:
    """Return the first of the smallest costs in each row, up to rounding."""
    return np.asarray((costs <= costs.min(axis=1, keepdims=True) * (1 + _SAME)).argmax(axis=1))


def outcome(state: LloydState) -> LloydResult:
    """Return the result of the best restart."""
    assert state.request is None, "some restarts still run"
    best = best_run(state)
    labels = state.labels[best]
    return LloydResult(
        in_order_of_appearance(labels, state.settings.n_clusters)[labels],
        float(state.inertia[best]),
        bool(state.converged[best]),
        state.n_rounds,
        state.n_sums,
        state.n_scalars,
    )
