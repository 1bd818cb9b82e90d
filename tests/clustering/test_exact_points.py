"""Every squared distance from columns: by rounding, or by residues where rounding leaves doubt."""

import numpy as np
import pytest

from daskfc.clustering import exact_points
from daskfc.clustering.views.nearest import (
    nearest_of_matrix,
    nearest_of_points,
    within_radius_of_points,
)
from daskfc.coding import ResidueColumns
from daskfc.coding.residues.modular import BYTE_PRIMES, primes_below

N = 300
WORDS = primes_below(2**23, 2)


def samples(kind):
    rng = np.random.default_rng(7)
    if kind == "pixels":
        return np.rint(255 * rng.random((N, 20)) ** 4).astype(np.int64)
    if kind == "one-hot":  # of rank 9
        return np.hstack([np.eye(4, dtype=np.int64)[rng.integers(0, 4, N)] for _ in range(3)])
    if kind == "few":
        return rng.integers(0, 2, (N, 3))
    if kind == "equal":
        return np.full((N, 4), 9)
    size = {"four bytes": 9e3, "six bytes": 3e6}[kind]
    X = np.rint(size * rng.normal(size=(N, 12))).astype(np.int64)
    X[1::50] = X[::50]  # twins, and ties of all others to them
    return X


KINDS = ("pixels", "one-hot", "few", "equal", "four bytes", "six bytes")


def known(kind, scale2=1.0, primes=BYTE_PRIMES, landmarks=None):
    X = samples(kind)
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    landmarks = np.arange(0, N, 4) if landmarks is None else landmarks
    found = exact_points(
        lambda rows: D[rows][:, landmarks],
        landmarks,
        n=N,
        n_features=X.shape[1],
        scale2=scale2,
        primes=primes,
    )
    return D / scale2, found


@pytest.mark.parametrize("primes", [BYTE_PRIMES, WORDS], ids=["bytes", "words"])
@pytest.mark.parametrize("scale2", [1.0, 255.0**2])
@pytest.mark.parametrize("kind", KINDS)
def test_all_distances_and_graphs_are_the_true_ones(kind, scale2, primes):
    D, points = known(kind, scale2, primes)
    assert points.certified
    assert (points.residues is None) == (kind != "six bytes")
    np.testing.assert_array_equal(points.full(), D)
    wanted, found = nearest_of_matrix(D, 4), nearest_of_points(points, 4)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.distances, wanted.distances)
    radius2 = float(np.quantile(D[np.triu_indices(N, 1)], 0.1, method="lower"))  # which occurs
    pairs = [np.column_stack(block) for block in within_radius_of_points(points, radius2)]
    edges = np.concatenate(pairs) if pairs else np.empty((0, 2))
    assert sorted(edges.tolist()) == np.argwhere(np.triu(D <= radius2, 1)).tolist()


def test_as_many_primes_are_taken_as_the_error_asks_for():
    _, points = known("six bytes")
    M = points.residues.modulus
    assert M > 2 * points.points.error + 2
    assert M // points.residues.system.primes[-1] <= 2 * points.points.error + 3
    _, points = known("six bytes", primes=BYTE_PRIMES[:1])
    assert not points.certified  # one byte is too little


def test_residues_make_the_difference():
    """Coordinates alone are off: without residues some distances would be wrong."""
    D, points = known("six bytes")
    rounded = points.whole(points.full() + 3.0, lambda known: known.block(slice(0, N), slice(None)))
    np.testing.assert_array_equal(rounded, D)  # 3 too many is within the doubt, and mended


def test_a_span_that_is_not_whole_leaves_doubt():
    """Samples of rank 12 by landmarks of rank 11: nothing is said of the rest."""
    _, points = known("six bytes", landmarks=np.arange(2, 14))
    assert not points.certified
    with pytest.raises(AssertionError):
        nearest_of_points(points, 4)


def test_a_prime_that_divides_a_minor_is_passed_over():
    X = np.array([[0, 0], [251, 0], [0, 1], [5, 7], [502, 3]])  # one dimension modulo 251
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    landmarks = [0, 1, 2]
    found = ResidueColumns.among(
        BYTE_PRIMES, lambda rows: D[rows][:, landmarks], landmarks, n=5, rank=2, above=10**6
    )
    assert found.system.primes == (241, 239, 233)
    np.testing.assert_array_equal(found.block(slice(0, 5), slice(None)), D)
    i, j = np.divmod(np.arange(25), 5)
    np.testing.assert_array_equal(found.pairs(i, j), D.reshape(-1))


@pytest.mark.parametrize("primes", [BYTE_PRIMES, WORDS], ids=["bytes", "words"])
def test_residues_alone_give_distances_of_any_size(primes):
    X = np.random.default_rng(0).integers(-(2**20), 2**20, (40, 8))
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    found = ResidueColumns.among(primes, lambda r: D[r][:, :9], range(9), n=40, rank=8, above=2**45)
    np.testing.assert_array_equal(found.block(slice(0, 40), slice(None)), D)
    np.testing.assert_array_equal(found.block(slice(7, 9), slice(None)), D[7:9])
    i, j = np.array([3, 3, 0]), np.array([5, 3, 39])
    np.testing.assert_array_equal(found.pairs(i, j), D[i, j])


def test_residues_are_asked_for_beyond_twice_the_error(monkeypatch):
    asked = []
    among = ResidueColumns.among

    def noted(*args, above, **options):
        asked.append(above)
        return among(*args, above=above, **options)

    monkeypatch.setattr(ResidueColumns, "among", noted)
    _, points = known("six bytes")
    assert asked == [pytest.approx(2 * points.points.error + 3, abs=1)]
    assert asked[0] >= 2 * points.points.error + 2


def test_too_few_primes_give_nothing():
    X = np.array([[0, 0], [3, 0], [0, 4]])
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    options = {"n": 3, "rank": 2}
    assert ResidueColumns.among((251,), lambda r: D[r], range(3), above=250, **options) is not None
    assert ResidueColumns.among((251,), lambda r: D[r], range(3), above=251, **options) is None
