"""Whole squared distances from columns: against integers, and the bound against the true error."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_digits

from daskfc.linalg import LandmarkEmbedding, points_from_columns
from daskfc.linalg import integer_points as module

N = 300


def samples(kind):
    rng = np.random.default_rng(7)
    if kind == "pixels":
        return np.rint(255 * rng.random((N, 20)) ** 4).astype(np.int64)
    if kind == "one-hot":  # of rank 9: three groups of four columns
        return np.hstack([np.eye(4, dtype=np.int64)[rng.integers(0, 4, N)] for _ in range(3)])
    if kind == "sums":  # columns that are sums of others, rounded: nearly in their span
        X = rng.integers(-40, 40, (N, 5))
        return np.hstack([X, (X @ rng.normal(size=(5, 3))).round().astype(np.int64)])
    if kind == "few":
        return rng.integers(0, 2, (N, 3))
    if kind == "equal":
        return np.full((N, 4), 9)
    if kind == "heavy tails":
        return np.rint(np.exp(2 * rng.normal(size=(N, 12)))).astype(np.int64)
    if kind == "four bytes":
        return np.rint(9000 * rng.normal(size=(N, 12))).astype(np.int64)
    assert kind == "seven bytes"
    return np.rint(3e6 * rng.normal(size=(N, 12))).astype(np.int64)


CERTIFIED = ("pixels", "one-hot", "sums", "few", "equal", "heavy tails", "four bytes")


def distances_of(X):
    return ((X[:, None] - X) ** 2).sum(axis=2)


def points_of(X, landmarks):
    D = distances_of(X)
    return D, points_from_columns(lambda rows: D[rows][:, landmarks], landmarks, n=len(X))


def of_coordinates(points):
    Y = points.coordinates.astype(np.longdouble)
    return ((Y[:, None] - Y) ** 2).sum(axis=2)


def true_error(D, points):
    return float(np.abs(of_coordinates(points) - D).max())


@pytest.mark.parametrize("kind", CERTIFIED)
def test_rounding_gives_every_distance(kind):
    X = samples(kind)
    D, points = points_of(X, np.arange(0, N, 4))
    assert points.certified
    assert points.rank == np.linalg.matrix_rank((X - X[0]).astype(float))
    np.testing.assert_array_equal(np.rint(of_coordinates(points)), D)
    assert true_error(D, points) <= points.error


@pytest.mark.parametrize("kind", [*CERTIFIED, "seven bytes"])
@pytest.mark.parametrize("n_landmarks", [1, 2, 5, 40])
def test_the_error_is_never_above_its_bound(kind, n_landmarks):
    """Landmarks that do not span the samples are what few of them are."""
    D, points = points_of(samples(kind), np.arange(n_landmarks))
    assert true_error(D, points) <= points.error


@pytest.mark.parametrize("kind", ["pixels", "four bytes", "one-hot", "sums"])
@pytest.mark.parametrize("spoilt", [1e-9, 1e-6, 1e-3, 1e-1])
def test_a_bad_factor_shows_in_the_bound(monkeypatch, kind, spoilt):
    """The bound holds whatever the factor is, and tells when it is bad."""
    among = module.lapack.dpstrf

    def dpstrf(G, **options):
        factor, *rest = among(G, **options)
        noise = np.random.default_rng(1).normal(size=factor.shape)
        return factor * (1 + spoilt * noise), *rest

    X = samples(kind)
    _, good = points_of(X, np.arange(0, N, 4))
    monkeypatch.setattr(module.lapack, "dpstrf", dpstrf)
    D, bad = points_of(X, np.arange(0, N, 4))
    assert good.error < bad.error
    assert 0 < true_error(D, bad) <= bad.error


def test_what_float64_cannot_tell_is_not_certified():
    _, points = points_of(samples("seven bytes"), np.arange(0, N, 4))
    assert not points.certified
    huge = np.array([[0, 2**26], [2**26, 0]]) ** 2
    far = points_from_columns(lambda rows: huge[rows], [0, 1], n=2)
    assert not far.certified
    assert true_error(huge, far) <= far.error < 1e-12 * huge.max()


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_holds_for_distances_that_float64_rounds(seed):
    """One sample of 30 is 2^33 steps away: its squared distances have 67 bits."""
    X = np.random.default_rng(seed).integers(-3000, 3000, (30, 3)).astype(object)
    X[7] += 2**33
    D = np.array([[sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in X] for x in X])
    landmarks = [0, 7, 11, 20, 23]
    near = D.astype(np.float64)
    points = points_from_columns(lambda rows: near[rows][:, landmarks], landmarks, n=len(X))
    Y = [[Fraction(float(v)) for v in row] for row in points.coordinates]
    off = max(
        abs(sum((a - b) ** 2 for a, b in zip(Y[i], Y[j], strict=True)) - int(D[i, j]))
        for i in range(30)
        for j in range(i)
    )
    assert 0.5 < off <= points.error < 1e-9 * float(D.max())


def test_a_sample_off_the_span_is_not_certified():
    X = samples("few") * 2
    X[-1] += [1, 0, 0]  # 1 off a grid of step 2, which landmarks of two columns cannot reach
    Z = np.column_stack([X, np.zeros(N, dtype=np.int64)])
    Z[-1, 3] = 1
    D, points = points_of(Z, np.arange(0, N - 1, 4))
    assert points.rank == 3
    assert not points.certified
    assert points.error >= 4
    assert true_error(D, points) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(8))
def test_the_residual_of_a_factor_is_told_to_its_last_bits(seed):
    """L Lᵀ - G of size 1e-9 beside entries of 1e7, which a product in float64 would not show."""
    X = np.rint(2000 * np.random.default_rng(seed).normal(size=(12, 12)))
    G = X @ X.T
    L = np.linalg.cholesky(G)
    exact = [[Fraction(float(v)) for v in row] for row in L]
    F = [
        [
            float(sum(a * b for a, b in zip(p, q, strict=True)) - Fraction(float(G[i, j])))
            for j, q in enumerate(exact)
        ]
        for i, p in enumerate(exact)
    ]
    norm = np.abs(np.linalg.eigvalsh(F)).max()
    assert norm <= module._norm_of_residual(L, G) <= 1.01 * norm


def test_pivots_span_what_the_landmarks_span():
    D = distances_of(samples("one-hot")).astype(float)
    pivots = module._Pivots.among(D[:80, :80], module.SPAN)
    assert pivots.rank == 9
    assert pivots.origin not in pivots.order
    assert len(set(pivots.order.tolist())) == 9


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_a_landmark_near_the_span_may_be_the_only_one_in_its_direction(seed):
    """Digits, of rank 61: in these orders the search ends with one whose last direction is such."""
    X = np.random.default_rng(seed).permutation(load_digits().data.astype(np.int64))
    search = LandmarkEmbedding(len(X), 64, tolerance=1e-12, nearest=module.SPAN)
    landmarks = []
    while (new := search.next_landmarks(max(1, 65 - search.rank))).size:
        search.add_columns(new, ((X[:, None] - X[new]) ** 2).sum(axis=2))
        landmarks += new.tolist()
    D = ((X[:, None] - X[landmarks]) ** 2).sum(axis=2)
    known = D[landmarks].astype(float)
    pivots = module._Pivots.among(known, module.SPAN)
    alone, open_by = module._points(lambda rows: D[rows], pivots, len(X))
    assert alone.rank == 60
    assert not alone.certified
    assert open_by > alone.error / 2
    points = points_from_columns(lambda rows: D[rows], landmarks, n=len(X))
    assert points.rank == 61
    assert points.error < 1e-5
    some = np.random.default_rng(1).integers(0, len(X), (2, 4000))
    found = np.square(np.subtract(*points.coordinates[some])).sum(axis=1)
    true = np.square(np.subtract(*X[some])).sum(axis=1)
    assert np.abs(found - true).max() < points.error


@pytest.mark.parametrize("far", [10**5, 10**6])
def test_landmarks_that_are_due_close_what_others_leave_open(far):
    """In one direction the first landmarks are 1 apart, and two samples are far."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.integers(-1000, 1000, (N, 2)), random.integers(0, 2, N)])
    X[[18, N - 2], 2] = far, -far
    first = np.arange(1, N, 4)[:20]
    D, points = points_of(X, first)
    assert not points.certified
    assert true_error(D, points) <= points.error
    assert points.least < points.error <= 1.01 * (3.2 * points.error_by_sample.max() + points.least)
    due = np.argsort(-points.error_by_sample)[:8]
    assert {18, N - 2} <= set(due[:2].tolist())
    D, more = points_of(X, np.append(first, due))
    assert true_error(D, more) <= more.error < 1e-3 * points.error
    assert more.certified


def test_the_bound_is_of_the_two_samples_that_open_most(monkeypatch):
    """A factor that is off in each entry: no pair is off by more than the bound says of it."""
    X = samples("pixels")
    X[5] *= 40
    _, one = points_of(X, np.arange(0, N, 4))
    X[9] = X[5]
    _, two = points_of(X, np.arange(0, N, 4))
    assert one.error < two.error < 4 * one.error


def test_one_sample_alone():
    points = points_from_columns(lambda rows: np.zeros((1, 1)), [0], n=1)
    assert (points.n, points.rank, points.certified) == (1, 0, True)


def test_the_bound_counts_the_factor_and_the_arithmetic(monkeypatch):
    """Each has its part, also where the other parts would show what is wrong."""
    X = samples("pixels")
    _, points = points_of(X, np.arange(0, N, 4))
    squares = (points.coordinates**2).sum(axis=1).max()
    assert points.error >= 8 * (points.rank + 8) * 2.0**-53 * squares
    monkeypatch.setattr(module, "_norm_of_residual", lambda L, G: 1.0)
    _, one = points_of(X, np.arange(0, N, 4))
    monkeypatch.setattr(module, "_norm_of_residual", lambda L, G: 2.0)
    _, two = points_of(X, np.arange(0, N, 4))
    assert one.error >= 16  # a pivot's own coefficients have norm 1
    assert two.error - one.error == pytest.approx(one.error - points.error)


def test_half_a_unit_is_the_limit():
    assert module.IntegerPoints(np.zeros((2, 1)), np.nextafter(0.5, 0)).certified
    assert not module.IntegerPoints(np.zeros((2, 1)), 0.5).certified
