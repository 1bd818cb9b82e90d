"""Distances in residues from a few columns, beside those of the samples themselves."""

import numpy as np
import pytest

from daskfc.coding import ResidueColumns
from daskfc.coding.codes import residue_columns as module

SMALL = (251, 241, 239, 233)
LARGE = (16777213, 16777199)  # the largest below 2**24


def whole_samples(n, d, high, seed=0):
    return np.random.default_rng(seed).integers(-high, high, (n, d))


def distances_of(X):
    X = X.astype(object)  # Python's whole numbers
    return ((X[:, None] - X) ** 2).sum(axis=2)


def found(X, primes, landmarks, *, rank=None, above=None, dtype=np.int64):
    """Return the distances that columns of samples give, and the true ones."""
    D = distances_of(X)
    columns = D[:, landmarks].astype(dtype)
    rank = X.shape[1] if rank is None else rank
    above = int(D.max()) if above is None else above
    known = ResidueColumns.among(
        primes, lambda rows: columns[rows], landmarks, n=len(X), rank=rank, above=above
    )
    return known, D


def check(known, D):
    n = len(D)
    np.testing.assert_array_equal(known.block(slice(0, n), slice(None)), D % known.modulus)
    np.testing.assert_array_equal(known.block(slice(3, 5), slice(None)), D[3:5] % known.modulus)
    i, j = (np.ravel(one) for one in np.indices((n, n)))
    pairs = known.pairs(i, j)
    assert pairs.dtype == np.int64
    np.testing.assert_array_equal(pairs.reshape(n, n), D % known.modulus)


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.float64])
@pytest.mark.parametrize(
    ("primes", "d", "high"),
    [(SMALL, 5, 20), (LARGE, 5, 2000), (LARGE, 70, 20)],
    ids=["small primes", "large primes", "more products than float64 holds at once"],
)
def test_all_distances_are_the_true_ones(monkeypatch, primes, d, high, dtype):
    monkeypatch.setattr(module, "_ROWS", 7)
    monkeypatch.setattr(module, "_PAIRS", 11 * d)
    known, D = found(whole_samples(90, d, high), primes, range(d + 1), dtype=dtype)
    assert known.modulus > D.max()
    assert known.row_terms.dtype == known.column_terms.dtype == np.int64
    check(known, D)


def test_a_basis_is_found_behind_landmarks_that_are_none():
    X = whole_samples(30, 4, 9)
    X[1] = X[0]  # no direction
    X[3] = 2 * X[2] - X[0]  # that of the one before
    X[5] = X[2] + X[4] - X[0]  # of two before
    known, D = found(X, SMALL, range(9))
    check(known, D)
    D = np.array(distances_of(X[:9]), dtype=np.int64)
    picked, inverted = module._basis(D, 251, 4)
    assert picked.tolist() == [2, 4, 6, 7]
    assert picked.dtype == inverted.dtype == np.int64
    G = (D[:1, picked].T + D[0, picked] - D[np.ix_(picked, picked)]) // 2 % 251
    np.testing.assert_array_equal(G @ inverted % 251, np.eye(4))


def test_rows_that_a_product_makes_independent_are_told_apart():
    G = np.array([[1, 2, 0], [2, 4, 1], [3, 6, 2], [0, 0, 5]])
    assert module._independent_rows(G, 7, 3).tolist() == [0, 1]  # the third is a combination
    assert module._independent_rows(G, 7, 1).tolist() == [0]


def test_a_matrix_whose_pivots_are_zero_is_inverted():
    G = np.array([[0, 0, 3], [0, 2, 5], [1, 6, 4]])
    inverted = module._inverted(G, 11)
    assert inverted.dtype == np.int64
    np.testing.assert_array_equal(G @ inverted % 11, np.eye(3))


@pytest.mark.parametrize("p", [2, 3, 251, LARGE[0]])
def test_a_product_is_exact_whatever_its_depth(p):
    rng = np.random.default_rng(p)
    least = p - max(1, p // 9)
    left, right = rng.integers(least, p, (5, 200)), rng.integers(least, p, (200, 6))
    left[0, ::2] = 0
    product = module._product(left, right, p)
    assert product.dtype == np.int64
    np.testing.assert_array_equal(product, left.astype(object) @ right.astype(object) % p)


@pytest.mark.parametrize("n", [1, 4])
def test_samples_that_are_one_point_need_no_basis(n):
    known, D = found(np.full((n, 2), 5), SMALL, [0], rank=0, above=10)
    np.testing.assert_array_equal(known.block(slice(0, n), slice(None)), D)
    np.testing.assert_array_equal(known.pairs(np.zeros(n, int), np.arange(n)), np.zeros(n))


@pytest.mark.parametrize("primes", [(2, 251), (3, 251)], ids=str)
def test_the_smallest_primes(primes):
    """2 has no half, 3 has."""
    X = np.array([[0], [1], [2], [5]])
    known, D = found(X, primes, [0, 1], above=200)
    assert known.system.primes == primes[primes[0] == 2 :][: 1 + (primes[0] == 3)]
    np.testing.assert_array_equal(known.block(slice(0, 4), slice(None)), D)


def test_primes_are_taken_until_their_product_exceeds_what_is_asked():
    X = whole_samples(12, 2, 5)
    for above, taken in ((250, SMALL[:1]), (251, SMALL[:2]), (251 * 241 - 1, SMALL[:2])):
        known, _ = found(X, SMALL, range(3), above=above)
        assert known.system.primes == taken
        assert known.modulus == np.prod(taken)
        assert (known.system.scale, known.system.bound) == (1.0, known.modulus - 1)
    assert found(X, SMALL[:1], range(3), above=250)[0] is not None
    assert found(X, SMALL[:1], range(3), above=251)[0] is None  # its product is no more than that
    assert found(X, SMALL, range(2))[0] is None  # two landmarks span no plane
