"""Weighted k-means on distances to landmarks: what sums to every round's centres would give."""

from dataclasses import replace

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.protocols.kcagc.maths.landmark_lloyd import (
    LandmarkState,
    add_sums,
    begin_with_landmarks,
    tells_as_much,
)
from daskfc.protocols.kcagc.maths.summed_distances import CentresAtNodes
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, advance, begin, outcome
from tests.protocols.kcagc.one_place import lloyd_on_sums, sums_for


def blocks(seed, n, widths, groups=4):
    """Return each participant's columns of nodes in groups."""
    random = np.random.default_rng(seed)
    group = random.integers(0, groups, n)
    return [random.normal(0, 3, (groups, w))[group] + random.normal(0, 1, (n, w)) for w in widths]


def with_landmarks(columns, weights, settings, noise=0.0):
    """Return the state at the end, and what was asked for on the way."""
    state = begin_with_landmarks(settings, weights, sum(part.shape[1] for part in columns))
    asked, random = [], np.random.default_rng(1)
    while isinstance(state, LandmarkState):
        sums = sums_for(state, columns)
        asked.append(sums.shape)
        state = add_sums(state, sums + noise * random.uniform(-1, 1, sums.shape))
    return state, asked


@pytest.mark.parametrize("widths", [(1,), (3, 2), (4,) * 16])
@pytest.mark.parametrize("noise", [0.0, 1e-13])
def test_it_is_k_means_on_sums_of_every_round(widths, noise):
    columns = blocks(0, 300, widths)
    weights = np.random.default_rng(2).integers(1, 9, 300).astype(float)
    settings = LloydSettings(4, seed=3, n_init=20, one_ninth=widths == (3, 2))
    state, asked = with_landmarks(columns, weights, settings, noise)
    found, expected = outcome(state), lloyd_on_sums(columns, weights, settings)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.inertia == pytest.approx(expected.inertia, rel=1e-9)
    assert (found.n_rounds, found.converged) == (expected.n_rounds, expected.converged)
    assert found.n_sums == len(asked) < expected.n_sums
    assert found.n_scalars == sum(np.prod(shape) for shape in asked) < expected.n_scalars


@pytest.mark.parametrize("far", [40.0, 0.02])
def test_a_direction_of_one_node_alone_is_found(far):
    columns = blocks(0, 400, (3, 3))
    lonely = np.zeros((400, 2))
    lonely[[7, 333], [0, 1]] = far  # two nodes, neither of them among the first landmarks
    columns.append(lonely)
    settings, weights = LloydSettings(6, seed=0, n_init=10), np.ones(400)
    first = begin_with_landmarks(settings, weights, 8).request.nodes
    assert not {7, 333} & set(first.ravel().tolist())
    state, asked = with_landmarks(columns, weights, settings)
    assert [shape[2] for shape in asked] == [17, 2]
    expected = lloyd_on_sums(columns, weights, settings)
    np.testing.assert_array_equal(outcome(state).labels, expected.labels)
    assert outcome(state).inertia == pytest.approx(expected.inertia, rel=1e-9)


@pytest.mark.parametrize("n", [1, 3])
def test_nodes_at_one_place(n):
    state, _ = with_landmarks([np.ones((n, 2))] * 2, np.ones(n), LloydSettings(1, seed=0, n_init=2))
    assert outcome(state).labels.tolist() == [0] * n
    assert outcome(state).inertia == pytest.approx(0.0, abs=1e-12)


def test_a_state_between_two_sums_may_be_used_again():
    columns = blocks(1, 100, (2, 2))
    lonely = np.zeros((100, 1))
    lonely[50] = 9.0
    columns.append(lonely)
    state = begin_with_landmarks(LloydSettings(4, seed=0, n_init=4), np.ones(100), 5)
    between = add_sums(state, sums_for(state, columns))
    assert isinstance(between, LandmarkState)
    ends = [outcome(add_sums(between, sums_for(between, columns))) for _ in range(2)]
    np.testing.assert_array_equal(ends[0].labels, ends[1].labels)
    assert state.known == ()
    assert len(between.known) == 1


def distances_that_follow(weights, seen):
    """Return all distances between nodes from those to centres, whose weights (n, c) are known.

    For D of rank r and W with r independent columns, D = D W (Wᵀ D W)⁺ Wᵀ D.
    """
    DW = seen + np.einsum("nc,nc->c", weights, seen)  # a mean's spread, half of wᵀ D w
    return DW @ np.linalg.pinv(weights.T @ DW, rcond=1e-11, hermitian=True) @ DW.T


@pytest.mark.parametrize(("n_clients", "width"), [(2, 4), (8, 4)])
def test_sums_of_every_round_tell_as_much(n_clients, width):
    """What "auto" rests on: the server could compute all distances from the sums it gets."""
    columns = blocks(4, 120, (width,) * n_clients)
    settings = LloydSettings(4, seed=0, n_init=20, max_iter=1)
    assert tells_as_much(settings, n_clients, width)
    state, weights, seen = begin(settings, np.ones(120)), [], []
    while (request := state.request) is not None:
        sums = sums_for(state, columns)
        if isinstance(request, CentresAtNodes):
            weights.append(np.eye(120)[:, request.nodes.ravel()])
        else:
            member = request.labels[..., None] == np.arange(4)  # (A, n, k)
            means = member / np.maximum(member.sum(axis=1, keepdims=True), 1)
            weights.append(means.transpose(1, 0, 2)[:, request.wanted])
        seen.append(sums.reshape(120, -1))
        state = advance(state, sums)
    X = np.hstack(columns)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    found = distances_that_follow(np.hstack(weights), np.hstack(seen))
    np.testing.assert_allclose(found, D, atol=1e-7 * D.max())


def test_one_start_tells_less():
    one = LloydSettings(7, seed=0, n_init=1)
    assert [tells_as_much(one, n, 7) for n in (1, 2, 16)] == [True, False, False]
    fifty = replace(one, n_init=50)
    assert [tells_as_much(fifty, n, 7) for n in (2, 16, 92, 93)] == [True, True, True, False]


def test_too_few_nodes_are_refused():
    with pytest.raises(InvalidInput, match="at least as many nodes as clusters; got 2 nodes for 3"):
        begin_with_landmarks(LloydSettings(3, seed=0), np.ones(2), 4)
