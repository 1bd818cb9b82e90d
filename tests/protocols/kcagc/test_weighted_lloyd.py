import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from daskfc.errors import InvalidInput
from daskfc.metrics import accuracy
from daskfc.protocols.kcagc.maths.summed_distances import (
    CentresAtMeans,
    CentresAtNodes,
    centres_of,
    distances_to,
)
from daskfc.protocols.kcagc.maths.weighted_lloyd import (
    LloydSettings,
    advance,
    begin,
    begin_from,
    outcome,
)
from tests.oracles import kcagc as oracle
from tests.protocols.kcagc.one_place import lloyd_on_sums, sums_for


def points(n, seed, width=4, spread=1.0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, width)) * spread + random.integers(0, 4, (n, 1))
    return X, random.integers(1, 9, n).astype(float)


def nearest(X, centres):
    return ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3]])
def test_it_is_plain_weighted_k_means_from_the_same_start(seed, cuts):
    X, weights = points(120, seed)
    start = X[np.random.default_rng(seed).choice(120, 5, replace=False)]
    central = KMeans(5, init=start, n_init=1, max_iter=300, tol=0.0, algorithm="lloyd")
    central.fit(X, sample_weight=weights)
    settings = LloydSettings(5, seed=0, n_init=1, max_iter=300)
    blocks = np.split(X, cuts, axis=1)
    got = lloyd_on_sums(blocks, weights, settings, labels=nearest(X, start)[None])
    assert accuracy(central.labels_, got.labels) == 1.0
    assert got.inertia == pytest.approx(central.inertia_)
    assert got.converged


@examples(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 6))
def test_it_is_the_slow_rewrite(seed, k, max_iter):
    X, weights = points(25, seed, width=2)
    start = np.arange(25) % k
    settings = LloydSettings(k, seed=0, n_init=1, max_iter=max_iter)
    try:
        expected = oracle.lloyd(X, weights, start, k, max_iter)
    except AssertionError:  # a cluster ran empty: other tests
        return
    if len(set(expected)) == k:
        got = lloyd_on_sums([X], weights, settings, labels=start[None])
        assert accuracy(expected, got.labels) == 1.0


def test_restarts_side_by_side_are_the_restarts_one_by_one():
    X, weights = points(60, seed=3)
    random = np.random.default_rng(0)
    starts = random.integers(0, 4, (7, 60))
    together = begin_from(LloydSettings(4, seed=0, n_init=7), weights, starts)
    while together.request is not None:
        together = advance(together, sums_for(together, [X]))
    for run, start in enumerate(starts):
        alone = begin_from(LloydSettings(4, seed=0, n_init=1), weights, start[None])
        while alone.request is not None:
            alone = advance(alone, sums_for(alone, [X]))
        assert np.array_equal(alone.labels[0], together.labels[run])
        assert alone.inertia[0] == pytest.approx(together.inertia[run])
    assert outcome(together).inertia == together.inertia.min()


def test_the_best_of_fifty_is_as_good_as_that_of_the_library():
    X, weights = points(300, seed=1, spread=0.7)
    got = lloyd_on_sums([X[:, :1], X[:, 1:]], weights, LloydSettings(6, seed=0))
    central = KMeans(6, n_init=50, random_state=0).fit(X, sample_weight=weights)
    assert got.inertia <= central.inertia_ * 1.001
    exact = (
        (
            X
            - np.array(
                [
                    X[got.labels == c].T @ weights[got.labels == c] / weights[got.labels == c].sum()
                    for c in range(6)
                ]
            )[got.labels]
        )
        ** 2
    ).sum(axis=1) @ weights
    assert got.inertia == pytest.approx(exact)


def test_columns_may_lie_anywhere_and_a_state_may_be_stored():
    X, weights = points(50, seed=9)
    settings = LloydSettings(3, seed=4, n_init=5)
    whole = lloyd_on_sums([X], weights, settings)
    state = begin(settings, weights)
    while state.request is not None:
        state = pickle.loads(pickle.dumps(advance(state, sums_for(state, np.split(X, 4, axis=1)))))
    assert np.array_equal(outcome(state).labels, whole.labels)
    again = lloyd_on_sums([X], weights, settings)
    assert np.array_equal(again.labels, whole.labels)
    assert (whole.n_sums, whole.n_scalars) == (again.n_sums, again.n_scalars)


def test_the_rounding_of_a_secure_sum_changes_nothing():
    X, weights = points(60, seed=8)
    settings = LloydSettings(4, seed=2, n_init=6)
    state = begin(settings, weights)
    while state.request is not None:
        sums = np.round(sums_for(state, [X]) * 2**30) / 2**30 - 2.0**-30  # a little below 0
        kept = sums.copy()
        state = advance(state, sums)
        assert np.array_equal(sums, kept)
    assert np.array_equal(outcome(state).labels, lloyd_on_sums([X], weights, settings).labels)


def test_sums_and_numbers_are_counted():
    X, weights = points(40, seed=0)
    got = lloyd_on_sums([X], weights, LloydSettings(4, seed=0, n_init=1, n_trials=1))
    assert got.n_sums == 4 + got.n_rounds  # one a seed, one a round
    assert 40 * (4 + 4) < got.n_scalars < 40 * (4 + 4 * got.n_rounds)
    refined = lloyd_on_sums(
        [X], weights, LloydSettings(4, seed=0, n_init=1, max_iter=1), labels=got.labels[None]
    )
    assert (refined.n_sums, refined.n_scalars) == (1, 160)


def plain_rounds(X, weights, labels, k):
    """Yield the clusters, as sets of nodes, and the labels of each round of plain Lloyd."""
    while True:
        means = np.array([np.average(X[labels == c], 0, weights[labels == c]) for c in range(k)])
        yield [frozenset(np.flatnonzero(labels == c)) for c in range(k)], labels
        after = nearest(X, means)
        if (after == labels).all():
            return
        labels = after


def test_a_centre_is_measured_once_for_all_restarts_that_have_it():
    X, weights = points(60, seed=3)
    random = np.random.default_rng(0)
    starts = np.array([nearest(X, X[random.choice(60, 4, replace=False)]) for _ in range(9)])
    every = [list(plain_rounds(X, weights, start, 4)) for start in starts]
    last, measured = [set() for _ in every], []
    for number in range(max(map(len, every))):
        held, wanted = set().union(*last), set()
        for run, rounds in enumerate(every):
            if number < len(rounds):
                last[run] = set(rounds[number][0])
                wanted |= last[run] - held
        measured.append(len(wanted))
    state = begin_from(LloydSettings(4, seed=0, n_init=9), weights, starts)
    asked = []
    while state.request is not None:
        asked.append(int(state.request.wanted.sum()))
        assert state.request.wanted.any(axis=1).all()  # no labels of who needs nothing
        state = advance(state, sums_for(state, [X]))
    assert asked == [count for count in measured if count]  # a round without new ones is no sum
    assert state.n_scalars == 60 * sum(measured) < 60 * sum(4 * len(rounds) for rounds in every)
    assert state.n_rounds == len(measured)
    for run, rounds in enumerate(every):
        assert np.array_equal(state.labels[run], rounds[-1][1])
    assert set(state.known) == {key for keys in state.clusters for key in keys}


def test_a_mean_does_not_hang_on_what_is_asked_for_beside_it():
    X, weights = points(50, seed=2)
    labels = np.random.default_rng(1).integers(-1, 4, (3, 50))
    every = centres_of(CentresAtMeans(labels), X, weights, 4)
    wanted = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]], dtype=bool)
    some = centres_of(CentresAtMeans(labels, wanted), X, weights, 4)
    assert np.array_equal(some, every[wanted][None])


def test_seeds_are_drawn_by_weight_and_by_distance():
    far = np.array([[0.0], [0.0], [100.0]])
    runs = 4000
    state = begin(LloydSettings(2, seed=0, n_init=runs, n_trials=1), np.array([1.0, 2.0, 7.0]))
    shares = np.bincount(state.request.nodes[:, 0], minlength=3) / runs
    assert np.allclose(shares, [0.1, 0.2, 0.7], atol=0.03)
    first = state.request.nodes[:, 0]
    second = advance(state, sums_for(state, [far])).request.nodes[:, 0]
    assert (second[first < 2] == 2).all()  # nodes 0 and 1 cost nothing
    assert np.isin(second[first == 2], [0, 1]).all()
    assert np.mean(second[first == 2] == 1) == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_without_an_order_of_their_own_nodes_are_drawn_in_that_of_distances(seed):
    X, weights = points(150, seed, spread=2.0)
    X, weights = np.concatenate([X, X[:9]]), np.concatenate([weights, weights[:9]])
    settings = LloydSettings(5, seed=seed, n_init=2, n_trials=1, ordered=False)
    dealt = np.random.default_rng(seed).permutation(len(X))
    first = begin(settings, weights)
    assert first.request.wanted.sum() == 1
    assert not first.request.labels.any()
    one = lloyd_on_sums([X[:, :1], X[:, 1:]], weights, settings)
    moved = X[dealt] + 1e-13 * np.random.default_rng(0).normal(size=X.shape)
    two = lloyd_on_sums([moved], weights[dealt], settings)
    assert accuracy(one.labels[dealt], two.labels) == 1.0
    assert (one.n_sums, one.n_scalars) == (two.n_sums, two.n_scalars)
    plain = lloyd_on_sums([X], weights, LloydSettings(5, seed=seed, n_init=2, n_trials=1))
    assert one.n_sums - one.n_rounds == 1 + plain.n_sums - plain.n_rounds == 1 + 5


def test_the_one_ninth_step_keeps_what_the_rule_keeps():
    X, weights = points(80, seed=6)
    settings = LloydSettings(3, seed=1, n_init=4, n_trials=1, one_ninth=True)
    state = begin(settings, weights)
    seeds = []
    while isinstance(state.request, CentresAtNodes):
        seeds.append(state.request.nodes)
        state = advance(state, sums_for(state, [X]))
    for run, nodes in enumerate(np.hstack(seeds)):
        D = ((X[:, None] - X[nodes]) ** 2).sum(axis=2)
        assert state.request.labels[run].tolist() == oracle.one_ninth(D)
    assert (state.request.labels == -1).any()
    done = lloyd_on_sums([X], weights, settings)
    assert done.converged
    assert (done.labels >= 0).all()


def test_ties_go_to_the_lowest_cluster():
    settings = LloydSettings(2, seed=0, n_init=1, max_iter=1)
    state = begin_from(settings, np.ones(3), np.array([[1, 0, 1]]))
    assert advance(state, np.ones((3, 1, 2))).labels[0, 1:].tolist() != [1, 1]
    assert advance(state, np.ones((3, 1, 2))).labels[0].tolist().count(0) == 2  # one was moved


def test_an_empty_cluster_gets_the_farthest_node():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [40.0]])
    settings = LloydSettings(3, seed=0, n_init=1)
    got = lloyd_on_sums([X], np.ones(5), settings, labels=np.array([[0, 0, 1, 1, 1]]))
    assert got.labels.tolist() == [0, 0, 1, 1, 2]
    assert got.converged


def test_a_cluster_stays_empty_where_rows_repeat():
    X = np.array([[1.0], [1.0], [5.0], [5.0]])
    got = lloyd_on_sums([X], np.ones(4), LloydSettings(3, seed=0, n_init=3))
    assert got.labels.tolist() == [0, 0, 1, 1]
    assert got.inertia == pytest.approx(0.0, abs=1e-12)
    centres = centres_of(CentresAtMeans(got.labels[None]), X, np.ones(4), 3)
    assert centres.ravel().tolist() == [1.0, 5.0, 1.0]  # the empty one repeats the first


def test_distances_are_exact_far_from_the_origin():
    random = np.random.default_rng(0)
    rows = random.normal(size=(30, 3)) + 1e6
    centres = rows[random.integers(0, 30, (2, 4))]
    expected = ((rows[:, None, None] - centres) ** 2).sum(axis=3)
    assert np.allclose(distances_to(rows, centres), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda: LloydSettings(0, seed=0), "'n_clusters' parameter of LloydSettings"),
        (lambda: LloydSettings(2, seed=0, n_init=0), "'n_init' parameter"),
        (lambda: begin(LloydSettings(3, seed=0), np.ones(2)), "got 2 nodes for 3 clusters"),
        (lambda: begin(LloydSettings(2, seed=0), np.array([1.0, 0.0])), "must be positive"),
        (
            lambda: begin_from(LloydSettings(2, seed=0), np.ones(3), np.zeros((1, 3), int)),
            r"must have shape \(n_init, n\) = \(50, 3\)",
        ),
    ],
)
def test_bad_input_is_refused(run, words):
    with pytest.raises(InvalidInput, match=words):
        run()
