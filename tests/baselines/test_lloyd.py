import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.baselines.centers.lloyd import (
    assign,
    kmeans_plus_plus,
    lloyd,
    means_of,
    weighted_k_means,
)
from daskfc.errors import InvalidInput
from tests.oracles import baselines as oracle


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**16), k=st.integers(1, 5), block=st.integers(1, 9))
def test_lloyd_equals_the_loops_for_any_block_size(store_class, seed, k, block):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((23, 3))
    start = rows[rng.choice(len(rows), k, replace=False)]
    centers, labels = lloyd(store_class(rows, block), start, max_iterations=50)
    expected_centers, expected_labels = oracle.lloyd(rows, start, 50)
    np.testing.assert_allclose(centers, expected_centers, atol=1e-12)
    np.testing.assert_array_equal(labels, expected_labels)


@pytest.fixture(scope="session")
def store_class():
    from tests.baselines.conftest import ArrayStore

    return ArrayStore


def test_a_centre_without_rows_stays(store):
    centers, labels = lloyd(store([[0.0], [1.0]]), np.array([[0.5], [9.0]]), max_iterations=5)
    np.testing.assert_array_equal(centers, [[0.5], [9.0]])
    assert labels.tolist() == [0, 0]


def test_no_step_reads_more_than_a_block(store, easy):
    data = store(easy[0], block=10)
    seeds = kmeans_plus_plus(data, 4, np.random.default_rng(0))
    lloyd(data, seeds, max_iterations=5)
    assert data.largest_read == 10


def test_ties_go_to_the_lower_index(store):
    assert assign(store([[0.0]]), np.array([[1.0], [-1.0]])).tolist() == [0]


def test_rows_beside_a_far_centre_go_to_the_nearest(store):
    centers = np.array([[0.0], [1.0], [9999999999.0]])
    assert assign(store([[0.9], [0.2], [1.3]]), centers).tolist() == [1, 0, 1]


def test_means_ignore_negative_labels(store):
    labels = np.array([0, -1, 0])
    means = means_of(store([[1.0], [50.0], [3.0]]), labels, otherwise=np.array([[0.0], [7.0]]))
    assert means.tolist() == [[2.0], [7.0]]


def test_seeds_are_different_rows_and_run_out_with_them(store):
    rows = np.repeat([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], 5, axis=0)
    seeds = kmeans_plus_plus(store(rows), 9, np.random.default_rng(1))
    assert sorted(map(tuple, seeds)) == [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)]


def test_seeds_follow_the_squared_distances(store):
    rows = np.array([[0.0]] * 50 + [[1.0]] * 10 + [[3.0]])
    second = []
    for seed in range(400):
        first, other = kmeans_plus_plus(store(rows), 2, np.random.default_rng(seed))
        if first == 0.0:
            second.append(float(other[0]))
    # from 0: ten rows at squared distance 1, one at 9
    assert np.mean(np.array(second) == 3.0) == pytest.approx(9 / 19, abs=0.08)


def test_weighted_k_means_counts_weights():
    points, weights = np.array([[0.0], [1.0], [10.0]]), np.array([1.0, 3.0, 1.0])
    centers, inertia = weighted_k_means(points, weights, 2, seed=0)
    assert sorted(centers[:, 0]) == pytest.approx([0.75, 10.0])
    assert inertia == pytest.approx(0.75)


def test_too_few_different_points_are_refused():
    with pytest.raises(InvalidInput, match="2 different local centres and 3 clusters"):
        weighted_k_means(np.array([[0.0], [0.0], [1.0]]), np.ones(3), 3, seed=0)
