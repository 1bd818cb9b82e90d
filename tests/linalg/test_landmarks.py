"""Landmark coordinates: exact at full rank, certified below it, adaptive beats random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from daskfc.linalg import LandmarkEmbedding, row_factors
from tests.oracles import clustering as oracle


def embed(X, count, *, limit=None, **kwargs):
    """Run rounds of adaptive landmarks until the search or the limit ends them."""
    D = cdist(X, X, "sqeuclidean")
    embedding = LandmarkEmbedding(len(X), **kwargs)
    while True:
        left = count if limit is None else min(count, limit - embedding.landmarks.size)
        chosen = embedding.next_landmarks(left) if left else np.empty(0, int)
        if chosen.size == 0:
            return embedding, D
        embedding.add_columns(chosen, D[:, chosen])


def relative_error(embedding, D):
    Y = embedding.coordinates
    return np.abs(cdist(Y, Y, "sqeuclidean") - D).max() / D.mean()


def sparse_pixels(n=400, d=60):
    """Most rows use few common pixels; every rare pixel appears in a row or two."""
    random = np.random.default_rng(3)
    X = np.zeros((n, d))
    X[:, :10] = random.random((n, 10))
    X[random.choice(n, 50, replace=False), np.arange(10, 60)] = 1.0
    return X


def test_rank_plus_one_landmarks_are_exact_on_gaussian_data():
    X = np.random.default_rng(0).normal(size=(200, 20))
    embedding, D = embed(X, 21, n_features=20)
    assert embedding.landmarks.size == 21
    assert embedding.rank == 20
    assert relative_error(embedding, D) < 1e-10


def test_a_rank_above_what_was_reserved_is_found_all_the_same():
    X = np.random.default_rng(0).normal(size=(400, 300))
    embedding, D = embed(X, 90)
    assert embedding.rank == 300
    assert relative_error(embedding, D) < 1e-9


def test_low_rank_data_need_few_landmarks_far_from_the_origin():
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 4)) @ random.normal(size=(4, 50)) + 1e3
    embedding, D = embed(X, 3)
    assert embedding.rank == 4
    assert embedding.landmarks.size <= 9
    assert relative_error(embedding, D) < 1e-7


def test_adaptive_landmarks_find_rare_pixels_and_random_ones_do_not():
    X = sparse_pixels()
    adaptive, D = embed(X, 8, limit=72)
    random = LandmarkEmbedding(len(X))
    chosen = np.random.default_rng(0).choice(len(X), 72, replace=False)
    random.add_columns(chosen, D[:, chosen])
    assert relative_error(adaptive, D) < 1e-6
    assert relative_error(random, D) > 0.1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
def test_certificate_is_the_distance_to_the_span(seed, d, count):
    X = np.random.default_rng(seed).integers(-4, 5, (15, d)).astype(float)
    D = oracle.distances(X)
    embedding = LandmarkEmbedding(15)
    for _ in range(2):
        chosen = embedding.next_landmarks(count)
        if chosen.size == 0:
            break
        embedding.add_columns(chosen, D[:, chosen])
        expected = oracle.span_distance2(X, embedding.landmarks)
        np.testing.assert_allclose(embedding.certificate(), expected, atol=1e-6 * D.mean())


def test_distances_are_never_too_large_and_within_the_certificate():
    X = np.random.default_rng(5).normal(size=(80, 30))
    embedding, D = embed(X, 5, limit=15)
    Y, h = embedding.coordinates, embedding.certificate()
    missing = D - cdist(Y, Y, "sqeuclidean")
    assert missing.min() > -1e-10 * D.mean()
    assert (missing <= 2 * (h[:, None] + h) + 1e-10).all()
    assert not embedding.converged


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 4))
def test_distances_lie_between_their_bounds(seed, d, rounds):
    X = np.random.default_rng(seed).integers(-400, 500, (30, d)).astype(float) + 1e4
    D = cdist(X, X, "sqeuclidean")
    embedding = LandmarkEmbedding(30, d)
    assert embedding.spread == np.inf
    for _ in range(rounds):
        chosen = embedding.next_landmarks(2)
        if chosen.size:
            embedding.add_columns(chosen, D[:, chosen])
    least, most = embedding.bounds(slice(5, 25), np.arange(30))
    assert (least <= D[5:25]).all()
    assert (most >= D[5:25]).all()
    # both are sums as large as D, which rounds their difference
    assert (most - least).max() <= embedding.spread * (1 + 1e-12) + 1e-15 * D.max()
    if embedding.converged:
        assert embedding.spread < 1e-4 * D.max()


def test_rounding_is_in_the_unit_of_the_data_and_grows_with_a_thin_direction():
    X = np.random.default_rng(1).normal(size=(60, 3))
    told = embed(X, 8, n_features=3)[0].rounding
    assert 1e-16 < told < 1e-13
    for unit in (2.0**-40, 2.0**40):
        assert embed(X * unit, 8, n_features=3)[0].rounding == told * unit
    thin = embed(X * [1.0, 1.0, 1e-4], 8, n_features=3)[0]
    assert thin.rank == 3
    assert 1e3 * told < thin.rounding < 1e6 * told


@pytest.mark.parametrize("unit", [1e-140, 1e-25, 1e20, 1e140])
def test_bounds_hold_in_any_unit(unit):
    """A column that one sample alone has is not spanned at first."""
    X = np.random.default_rng(0).normal(size=(30, 4)) * unit
    X[np.arange(30) != 10, 3] = 0.0
    embedding, D = embed(X, 5, limit=5, n_features=4)
    assert not embedding.converged
    least, most = embedding.bounds(slice(0, 30), np.arange(30))
    assert (least <= D).all()
    assert (most >= D).all()
    assert (most - least).max() < 20 * unit**2


WIDE = {
    "salaries": lambda random, n: np.rint(4e5 * np.exp(random.normal(size=n))),
    "heavy": lambda random, n: 1e6 * np.exp(random.normal(size=n)),
    "wide": lambda random, n: 1e7 * random.normal(size=n),
    "one far": lambda random, n: 1e7 * (np.arange(n) == 3),
    "one very far": lambda random, n: 1e8 * (np.arange(n) == 3),
}


@pytest.mark.parametrize("tolerance", [0.0, 1e-12])
@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("kind", WIDE)
def test_the_search_ends_beside_columns_of_other_units(kind, d, tolerance):
    """It asked for no landmarks for ever, or made all samples landmarks."""
    random = np.random.default_rng(d)
    X = random.integers(0, 4, (300, d)).astype(float)
    X[:, 0] = WIDE[kind](random, 300)
    embedding, D = embed(X, d + 9, tolerance=tolerance, nearest=0.01, n_features=d)
    assert embedding.converged
    assert len(embedding.landmarks) <= 3 * (d + 9)
    Y, h = embedding.coordinates, embedding.certificate()
    rest = D - cdist(Y, Y, "sqeuclidean")
    rounding = 200.0 * np.finfo(float).eps * D.max()
    assert rest.min() >= -rounding
    assert (rest <= 2 * (h[:, None] + h) + rounding).all()


def test_next_landmarks_are_the_farthest_and_the_first_of_equal_ones():
    X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0], [1.0, 5.0], [0.0, 5.0], [2.0, -5.0]])
    D = oracle.distances(X)
    embedding = LandmarkEmbedding(6)
    embedding.add_columns([0, 1], D[:, :2])
    assert embedding.next_landmarks(4).tolist() == [3, 4, 5, 2]
    embedding.add_columns([3], D[:, [3]])
    assert embedding.converged
    assert embedding.next_landmarks(4).size == 0


@pytest.mark.parametrize("count", [3, 5])
def test_a_sample_is_a_landmark_once(count):
    """A landmark whose direction was too thin in its round lies beyond the span, and waits."""
    X = np.random.default_rng(1).normal(size=(40, 14)) * 10.0 ** (0.75 * np.arange(14))
    embedding, D = embed(X, count, tolerance=0.0)
    assert np.unique(embedding.landmarks).size == embedding.landmarks.size
    assert relative_error(embedding, D) < 1e-9


def test_the_work_of_a_round_is_not_repeated():
    X = np.random.default_rng(2).normal(size=(60, 12))
    D = cdist(X, X, "sqeuclidean")
    embedding = LandmarkEmbedding(60)
    embedding.add_columns([0, 1, 2], D[:, :3])
    before = embedding.coordinates.copy()
    embedding.add_columns([7, 8], D[:, [7, 8]])
    assert np.array_equal(embedding.coordinates[:, : before.shape[1]], before)


@pytest.mark.parametrize("sizes", [(60,), (1, 59), (20, 20, 20), (33, 0, 27)])
def test_columns_may_come_in_panels_of_samples(sizes):
    X = np.random.default_rng(2).normal(size=(60, 12))
    D = cdist(X, X, "sqeuclidean")
    whole, parts = LandmarkEmbedding(60), LandmarkEmbedding(60, 12)
    for chosen in ([0, 1, 2, 59], [7, 8], [40, 20, 3, 4, 5, 6, 9]):
        whole.add_columns(chosen, D[:, chosen])
        parts.add_panels(chosen, np.split(D[:, chosen], np.cumsum(sizes)[:-1]))
    assert np.allclose(parts.coordinates, whole.coordinates, rtol=0, atol=1e-10)
    assert np.allclose(parts.certificate(), whole.certificate(), rtol=0, atol=1e-10)


def test_identical_samples_have_no_coordinates():
    embedding, D = embed(np.ones((7, 3)), 2)
    assert embedding.rank == 0
    assert embedding.converged
    assert relative_error_is_zero(embedding, D)


def relative_error_is_zero(embedding, D):
    return embedding.coordinates.shape == (7, 0) and not D.any()


def test_row_factors_multiply_to_the_distances():
    X = np.random.default_rng(0).integers(-9, 9, (12, 4)).astype(float)
    U, V = row_factors(X)
    assert np.array_equal(U @ V.T, oracle.distances(X))
