import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.linalg import local_basis
from daskfc.linalg.local_basis import divide_rows, singular_coordinates, squared_row_norms


def matrix(n, d, seed=0, decay=0.7):
    """Singular values 1, decay, decay^2, ...: gaps wide enough to tell the vectors apart."""
    random = np.random.default_rng(seed)
    U = np.linalg.qr(random.normal(size=(n, min(n, d))))[0]
    V = np.linalg.qr(random.normal(size=(d, min(n, d))))[0]
    return U @ np.diag(decay ** np.arange(min(n, d))) @ V.T


def dense(X, k):
    U, values, _ = np.linalg.svd(X, full_matrices=False)
    U, values = U[:, :k], values[:k]
    return U * np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]), values


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 25), st.integers(1, 8))
def test_it_is_the_dense_decomposition(n, d, k):
    X = matrix(n, d, seed=n * d)
    U, values = dense(X, min(k, n, d))
    got = singular_coordinates(X, k)
    assert got.shape == (n, min(k, n, d))
    assert np.allclose(got, U, atol=1e-9)
    assert np.allclose(singular_coordinates(X, k, "scaled"), U * values, atol=1e-9)


@pytest.mark.parametrize("way", ["gram", "lanczos"])
def test_the_ways_of_large_matrices_agree_with_the_dense_one(way, monkeypatch):
    X = matrix(300, 60) if way == "gram" else matrix(120, 100)
    monkeypatch.setattr(local_basis, "_BLOCK", 37)
    monkeypatch.setattr(local_basis, "_DENSE", 0)
    U, values = dense(X, 7)
    assert np.allclose(singular_coordinates(X, 7), U, atol=1e-9)
    assert np.allclose(singular_coordinates(X, 7, "scaled"), U * values, atol=1e-9)
    assert np.array_equal(singular_coordinates(X, 7), singular_coordinates(X, 7))


def test_rows_are_normalised_and_empty_rows_stay_empty():
    X = matrix(30, 5)
    X[4] = 0.0
    got = singular_coordinates(X, 3, "row-normalised")
    scaled = singular_coordinates(X, 3, "scaled")
    assert np.allclose(np.delete(np.linalg.norm(got, axis=1), 4), 1.0)
    assert np.allclose(got[4], 0.0)
    assert np.allclose(got * np.linalg.norm(scaled, axis=1)[:, None], scaled)


def test_global_norms_make_the_rows_of_all_participants_together_have_norm_1():
    parts = [singular_coordinates(matrix(30, 6, seed), 4, "scaled") for seed in range(3)]
    total = sum(squared_row_norms(part) for part in parts)
    assert np.allclose(total, [sum(x @ x for x in rows) for rows in zip(*parts, strict=True)])
    together = np.hstack([divide_rows(part, total) for part in parts])
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0)
    assert divide_rows(np.ones((1, 2)), np.array([-1e-9])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("shape", [(60, 40), (300, 40)])
def test_rows_of_nothing_but_rounding_have_no_direction(shape):
    X = (np.random.default_rng(0).random(shape) < 0.03).astype(float)
    empty = ~X.any(axis=1)
    assert empty.sum() > 9
    for basis in ("U", "scaled", "row-normalised"):
        got = singular_coordinates(X, 6, basis)
        assert not got[empty].any()
        assert got[~empty].any()


@pytest.mark.parametrize("shape", [(40, 6), (6, 40), (20, 15)])
def test_directions_without_weight_are_0(shape):
    random = np.random.default_rng(1)
    X = random.normal(size=(shape[0], 2)) @ random.normal(size=(2, shape[1]))
    got = singular_coordinates(X, 4)
    assert np.allclose(got[:, 2:], 0.0)
    assert np.allclose(got[:, :2].T @ got[:, :2], np.eye(2))
    assert not singular_coordinates(np.zeros((5, 2)), 2).any()


def test_float32_features_are_decomposed_in_float64():
    X = matrix(50, 6).astype(np.float32)
    got = singular_coordinates(X, 3)
    assert got.dtype == np.float64
    assert np.allclose(got, dense(X.astype(np.float64), 3)[0], atol=1e-6)


def test_what_is_no_number_is_refused():
    with pytest.raises(InvalidInput, match="must be finite"):
        singular_coordinates(np.array([[np.inf]]), 1)


@pytest.mark.parametrize("code", [0.0, 1e6, 999_999_999.0, 1e10])
@pytest.mark.parametrize("d", [8, 20])
def test_one_cell_that_is_very_far_hides_no_direction(d, code):
    """The Gram matrix loses what is below 1e-8 of the first singular value."""
    random = np.random.default_rng(d)
    X = 0.1 * random.normal(size=(91, d)) + np.repeat(random.normal(size=(3, d)), 31, axis=0)[:91]
    X[-1, 2] = code or X[-1, 2]
    found = singular_coordinates(X, 4, "scaled")
    U, values, _ = np.linalg.svd(X, full_matrices=False)
    exact = U[:, :4] * values[:4]
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=2e-9 * max(code, 1.0))
    others = found[:90] @ found[:90].T
    np.testing.assert_allclose(others, exact[:90] @ exact[:90].T, atol=1e-5)


def test_a_matrix_that_is_too_large_for_that_is_not_decomposed(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 4)) * [1.0, 1.0, 1e-9, 1e-9]
    monkeypatch.setattr(local_basis, "_LARGE", 199)
    monkeypatch.setattr(np.linalg, "svd", _only_narrow(np.linalg.svd))
    assert singular_coordinates(X, 3, "scaled").shape == (50, 3)


def _only_narrow(own):
    def narrow(matrix, **how):
        assert matrix.shape[1] <= 3
        return own(matrix, **how)

    return narrow
