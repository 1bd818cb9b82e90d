"""An order that follows from distances alone: the same rows stand there, however they are dealt."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group
from sklearn.cluster import KMeans as LibraryKMeans
from sklearn.datasets import load_iris

from daskfc.clustering import FullDistances, RowFactors, exact_points, make_clusterer
from daskfc.clustering.views.order import (
    Order,
    order_of_distances,
    order_of_points,
    order_of_rows,
    rows_in_order,
)
from daskfc.linalg import LandmarkEmbedding
from daskfc.metrics import ari
from daskfc.seeds import integer_seed

RNG = np.random.default_rng(0)
DATA = {
    "continuous": RNG.normal(size=(120, 4)),
    "whole": RNG.integers(0, 3, (90, 3)).astype(float),
    "copies": np.repeat(RNG.normal(size=(30, 2)), 3, axis=0),
    "one far": np.concatenate([RNG.normal(size=(80, 2)), [[1e6, 1e6]]]),
    "all equal": np.ones((9, 2)),
    "one": np.ones((1, 2)),
}


def rows_in(X, order):
    return X[order.places]


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("seed", range(3))
def test_the_same_rows_stand_in_the_same_places(name, seed):
    X = DATA[name]
    random = np.random.default_rng(seed)
    dealt = random.permutation(len(X))
    D = cdist(X, X, "sqeuclidean")
    first = rows_in(X, order_of_distances(D))
    second = rows_in(X[dealt], order_of_distances(D[np.ix_(dealt, dealt)]))
    np.testing.assert_array_equal(first, second)
    moved = X[dealt] @ ortho_group.rvs(X.shape[1], random_state=seed) + 7.0
    noise = 1e-11 * max(1.0, D.max() / 1e6)
    third = rows_in(X[dealt], order_of_points(moved, noise))
    np.testing.assert_array_equal(rows_in(X, order_of_points(X, noise)), third)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 3))
def test_equal_samples_and_no_others_share_a_number(seed, n, d):
    X = np.random.default_rng(seed).integers(0, 3, (n, d)).astype(float)
    for order in (order_of_points(X), order_of_distances(cdist(X, X, "sqeuclidean"))):
        assert sorted(order.places.tolist()) == list(range(n))
        rows = rows_in(X, order)
        equal = (rows[:, None] == rows).all(axis=2)
        np.testing.assert_array_equal(order.equal[:, None] == order.equal, equal)


def test_equal_samples_get_the_label_of_most():
    order = Order(np.arange(7), np.array([0, 0, 0, 1, 1, 2, 2]))
    assert order.alike(np.array([2, 1, 2, 3, -1, 0, 0])).tolist() == [2, 2, 2, -1, -1, 0, 0]


def test_points_and_distances_move_together():
    X = RNG.integers(-(2**20), 2**20, (40, 3))  # so far apart that residues must tell
    X[30:] = X[10:20]  # whose order hangs on single distances
    D = cdist(X, X, "sqeuclidean")
    columns = D[:, :9]
    primes = (251, 241, 239, 233, 229, 227)
    far = 2**26
    for scale in (1, far // 2**20):
        whole = (columns * scale**2).astype(np.int64)
        points = exact_points(lambda r, w=whole: w[r], range(9), n=40, n_features=3, primes=primes)
        assert points.certified
        moved = points.in_order()
        assert moved is points.in_order()  # once
        expected = D[np.ix_(moved.order.places, moved.order.places)] * scale**2
        np.testing.assert_array_equal(moved.full(), expected)
        equal = moved.order.equal
        np.testing.assert_array_equal(equal[:, None] == equal, expected == 0)
    full = FullDistances.in_order(D.copy())
    np.testing.assert_array_equal(full.matrix, D[np.ix_(full.order.places, full.order.places)])


@pytest.mark.parametrize("spec", ["k-means", "spectral", "k-medoids", "hierarchical", "hdbscan",
                                  {"dbscan": {"eps": 0.7}}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ["continuous", "whole", "copies"])
def test_pooled_samples_in_another_order_give_the_same_partition(name, spec):
    X, clusterer = DATA[name], make_clusterer(spec)
    k = None if clusterer.finds_n_clusters else 4
    dealt = np.random.default_rng(1).permutation(len(X))
    found = clusterer.pooled_labels(X, k, seed=0)
    again = np.empty_like(found)
    again[dealt] = clusterer.pooled_labels(X[dealt], k, seed=0)
    np.testing.assert_array_equal(found[:, None] == found, again[:, None] == again)
    rows, own = np.unique(X, axis=0, return_inverse=True)
    for group in range(len(rows)):
        assert np.unique(found[own.ravel() == group]).size == 1


@settings(max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 4), st.sampled_from([1, 1e-6, 1e8])
)
def test_rows_stand_as_their_values_do(seed, n, d, scale):
    random = np.random.default_rng(seed)
    X = random.integers(0, 4, (n, d)) * scale
    assume(X.any())  # else what moves them is all that there is
    expected = X[np.lexsort(X.T[::-1])]
    np.testing.assert_array_equal(X[order_of_rows(X)], expected)
    moved = X + 1e-14 * scale * random.normal(size=X.shape)
    np.testing.assert_array_equal(X[order_of_rows(moved)], expected)
    order, rows = rows_in_order(moved)
    np.testing.assert_array_equal(X[order.places], expected)
    np.testing.assert_allclose(rows, expected, atol=1e-9 * scale)
    if np.ptp(X, axis=0).any():
        np.testing.assert_array_equal(rows, rows_in_order(X)[1])  # to the last bit
    equal = (expected[:, None] == expected).all(axis=2)
    np.testing.assert_array_equal((rows[:, None] == rows).all(axis=2), equal)
    np.testing.assert_array_equal(order.equal[:, None] == order.equal, equal)


@pytest.mark.parametrize("d", [0, 3])
def test_no_rows_and_rows_of_nothing(d):
    assert order_of_rows(np.empty((0, d))).tolist() == []
    order, rows = rows_in_order(np.zeros((4, d)))
    assert sorted(order.places.tolist()) == [0, 1, 2, 3]
    assert order.equal.tolist() == [0] * 4
    assert rows.shape == (4, d)


def test_a_long_chain_of_ties_is_not_one_row():
    x = np.append(np.arange(5000) * 5e-10, 1.0)[:, None]
    dealt = np.random.default_rng(0).permutation(len(x))
    order, rows = rows_in_order(x[dealt])
    assert np.abs(rows - x).max() <= 1.2e-9
    np.testing.assert_array_equal(x[dealt][order.places], x)


def test_wide_rows_are_compared_as_far_as_they_tie():
    X = np.random.default_rng(0).normal(size=(20_000, 500))
    X[10_000:] = X[:10_000]
    X[10_000:, -1] += 1.0
    places = order_of_rows(X)
    assert (np.diff(X[places, 0]) >= 0).all()
    np.testing.assert_array_equal(places[1::2] - places[::2], 10_000)


@pytest.mark.parametrize("spec", ["k-means", "fuzzy-c-means"])
@pytest.mark.parametrize("seed", range(4))
def test_coordinates_of_tied_samples_give_one_partition(spec, seed):
    """Of zeros and ones: many are as near to one mean as to another."""
    random = np.random.default_rng(seed)
    X, clusterer = random.integers(0, 2, (120, 20)).astype(float), make_clusterer(spec)
    expected = clusterer.pooled_labels(X, 4, seed)
    for _ in range(3):
        dealt = random.permutation(len(X))
        D = cdist(X[dealt], X[dealt], "sqeuclidean")
        embedding = LandmarkEmbedding(len(X), 20, tolerance=1e-12)
        while (chosen := embedding.next_landmarks()).size:
            embedding.add_columns(chosen, D[:, chosen])
        order = order_of_points(embedding.coordinates, 1e-12)
        view = RowFactors(order.told_apart(embedding.coordinates), 20, told_apart=True)
        labels = order.back(order.alike(clusterer.fit(view, 4, seed).labels))
        np.testing.assert_array_equal(labels, expected[dealt])


def test_what_tells_samples_apart_is_no_distance():
    """A far sample does not make it larger, and equal samples stay equal."""
    X = np.array([[0.0], [1.0], [1.0], [3.0], [1e6]])
    order = order_of_points(X)
    Y = order.told_apart(X)
    np.testing.assert_array_equal(Y[:, 0], X[order.places, 0])
    assert 0 < Y[:, 1].max() <= np.sqrt(1e-9 * 4)
    one, other = np.flatnonzero(Y[:, 0] == 1.0)
    assert Y[one, 1] == Y[other, 1]
    assert np.unique(Y[:, 1]).size == 4


def test_labels_of_pooled_samples_are_those_of_scikit_learn_in_this_order():
    X = load_iris().data
    order = order_of_points(X)
    seed = integer_seed(4, "k-means")
    library = LibraryKMeans(3, n_init=10, random_state=seed).fit(X[order.places])
    found = make_clusterer("k-means").pooled_labels(X, 3, 4)
    assert ari(order.back(library.labels_.astype(np.int64)), found) == 1.0
