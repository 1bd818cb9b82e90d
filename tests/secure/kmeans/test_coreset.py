"""Coresets: shares, weights and costs against slow sums, and what is uploaded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.federation import PerClient
from daskfc.secure.kmeans import KMeansPlan, open_kmeans
from daskfc.secure.kmeans.coreset import (
    coreset_part,
    local_solution,
    sample_sizes,
    solved,
)
from daskfc.secure.kmeans.messages import CoresetPart, SampleSize
from tests.secure.kmeans.here import Here

ROWS = np.random.default_rng(0).normal(size=(60, 3)) * [5.0, 1.0, 0.1]
SOLUTION = local_solution(ROWS, KMeansPlan(4, seed=0), "client-1")


@pytest.mark.slow
@given(
    st.dictionaries(st.text("abcdef", min_size=1), st.floats(0, 1e300) | st.just(0.0), min_size=1),
    st.integers(0, 5000),
)
def test_shares_sum_to_the_size_and_are_off_by_rounding_only(costs, size):
    total = sum(value / 1e300 for value in costs.values())
    found = sample_sizes(costs, size)
    if not any(costs.values()):
        assert not any(found.values())
        return
    assert sum(found.values()) == size
    for name, cost in costs.items():
        if total > 1e-290:
            assert abs(found[name] - size * (cost / 1e300) / total) < 1 + 1e-9
        assert cost > 0 or found[name] == 0


def test_shares_do_not_depend_on_who_answered_first():
    costs = {"a": 1.0, "b": 1.0, "c": 1.0}
    backwards = dict(reversed(costs.items()))
    assert sample_sizes(costs, 10) == sample_sizes(backwards, 10) == {"a": 4, "b": 3, "c": 3}


def test_a_client_with_few_rows_has_them_as_centres():
    found = local_solution(ROWS[:4], KMeansPlan(4, seed=0), "client-1")
    np.testing.assert_array_equal(found.centers, ROWS[:4])
    assert found.cost == 0
    part = coreset_part(ROWS[:4], found, SampleSize(0), KMeansPlan(4, seed=0), "client-1")
    assert part.weights.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("t", [0, 1, 7, 200])
def test_weights_are_those_of_the_paper_one_by_one(t):
    plan = KMeansPlan(4, seed=3)
    part = coreset_part(ROWS, SOLUTION, SampleSize(t), plan, "client-1")
    assert part.points.shape == (t + 4, 3)
    rows, left = ROWS.tolist(), [0.0] * 4
    nearest = []
    for row in rows:
        squares = [sum((x - c) ** 2 for x, c in zip(row, b, strict=True)) for b in SOLUTION.centers]
        nearest.append((min(squares), squares.index(min(squares))))
        left[nearest[-1][1]] += 1
    cost = sum(own for own, _ in nearest)
    for point, weight in zip(part.points[:t].tolist(), part.weights[:t], strict=True):
        own, b = nearest[rows.index(point)]
        assert weight == pytest.approx(cost / (t * own))
        left[b] -= weight
    np.testing.assert_allclose(part.weights[t:], left, atol=1e-9)
    np.testing.assert_array_equal(part.points[t:], SOLUTION.centers)
    assert part.weights.sum() == pytest.approx(len(ROWS))


@pytest.mark.slow
def test_the_cost_of_any_centres_is_estimated_without_bias():
    """Over many seeds, the mean is within four of its standard errors of the true cost."""
    centers = np.random.default_rng(9).normal(size=(5, 3))

    def cost(points, weights):
        return weights @ np.square(points[:, None] - centers).sum(axis=2).min(axis=1)

    truth = cost(ROWS, np.ones(len(ROWS)))
    found = []
    for seed in range(2000):
        plan = KMeansPlan(4, seed=seed)
        part = coreset_part(ROWS, SOLUTION, SampleSize(5), plan, "client-1")
        found.append(cost(part.points, part.weights))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 4 * error
    assert error < 0.02 * truth


def test_a_weight_below_zero_counts_for_nothing():
    points = np.array([[0.0], [1.0], [50.0], [100.0]])
    part = CoresetPart(points, np.array([3.0, 1.0, -4.0, 2.0]))
    found = solved({"a": part}, KMeansPlan(2, seed=0))
    assert sorted(found.centers.ravel()) == pytest.approx([0.25, 100.0])
    assert found.inertia == pytest.approx(0.75)


def test_what_is_uploaded_is_what_the_paper_says():
    """Rows: t s + L k s floats; beside them a weight of each and two counts and a cost."""
    t, k, s, names = 50, 4, 3, ("a", "b", "c")
    federation = Here(names)
    rows = PerClient({name: ROWS[i::3] for i, name in enumerate(names)})
    kmeans = open_kmeans(federation, "coreset", n_clusters=k, seed=0, coreset_size=t)
    kmeans.fit(rows)
    up = [row for row in federation.ledger if row.receiver == "server"]
    n_points = t + len(names) * k
    assert sum(row.payload_bytes for row in up) == 8 * (n_points * s + n_points + 3 * len(names))
    for row in up:
        if row.message == "CoresetPart":
            own = {tuple(one) for one in rows[row.sender].tolist()}
            assert {tuple(one) for one in row.content.points[:-k].tolist()} <= own


def test_the_answers_may_come_in_any_order():
    plan = KMeansPlan(3, seed=0)
    parts = {}
    for i, name in enumerate("abc"):
        own = ROWS[i::3]
        parts[name] = coreset_part(own, local_solution(own, plan, name), SampleSize(9), plan, name)
    first, second = solved(parts, plan), solved(dict(reversed(parts.items())), plan)
    np.testing.assert_array_equal(first.centers, second.centers)


def test_clients_draw_apart():
    plan = KMeansPlan(4, seed=0)
    one, other = (coreset_part(ROWS, SOLUTION, SampleSize(9), plan, name) for name in "ab")
    assert (one.points != other.points).any()


def test_rows_of_other_lengths_are_refused():
    rows = PerClient({"a": np.ones((3, 2)), "b": np.ones((3, 3))})
    with pytest.raises(InvalidInput, match="as many columns at all clients; got 2, 3"):
        open_kmeans(Here("ab"), "coreset", n_clusters=2, seed=0).fit(rows)
