import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.privacy.leakage import (
    entropy,
    mutual_information,
    privacy_leakage,
    privacy_level,
)
from tests.oracles import kcagc as oracle

N = 4000


def gaussian(covariance, seed=0):
    random = np.random.default_rng(seed)
    return random.multivariate_normal(np.zeros(len(covariance)), covariance, N)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_the_entropy_of_a_gaussian(q):
    covariance = np.diag(np.arange(1.0, q + 1)) + 0.3
    exact = 0.5 * np.log2(np.linalg.det(2 * np.pi * np.e * covariance))
    assert entropy(gaussian(covariance)) == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("estimator", ["nearest", "histogram"])
def test_the_entropy_of_a_uniform_variable_is_the_logarithm_of_its_length(estimator):
    Y = np.random.default_rng(1).uniform(3.0, 11.0, N)
    assert entropy(Y, estimator=estimator) == pytest.approx(3.0, abs=0.05)
    assert entropy(Y * 4, estimator=estimator) == pytest.approx(5.0, abs=0.05)
    assert entropy(Y + 100, estimator=estimator) == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("estimator", "margin"), [("nearest", 0.04), ("histogram", 0.07)])
def test_leakage_of_correlated_gaussians(rho, estimator, margin):
    X, Y = gaussian(np.array([[1.0, rho], [rho, 1.0]])).T
    exact = 1.0 - np.sqrt(1.0 - rho**2)  # 1 - 2^(-I), I = -½ log2(1 - ρ²)
    got = privacy_leakage(Y, X, estimator=estimator, n_bins=12)
    assert got == pytest.approx(exact, abs=margin)
    assert got == pytest.approx(privacy_leakage(X, Y, estimator=estimator, n_bins=12), abs=1e-9)


def test_the_level_of_a_noisy_sum_is_that_of_the_noise():
    random = np.random.default_rng(2)
    X = random.normal(size=(N, 2))
    noise = random.uniform(-2.0, 2.0, N)
    level = privacy_level(X @ [1.0, -1.0] + noise, X)
    assert level == pytest.approx(4.0, rel=0.15)  # h(Y|X) is the noise's entropy: log2(4)


def test_level_and_leakage_are_two_views_of_one_estimate():
    X, Y = gaussian(np.array([[1.0, 0.6], [0.6, 1.0]])).T
    for estimator in ("nearest", "histogram"):
        ratio = privacy_level(Y, X, estimator=estimator) / 2.0 ** entropy(Y, estimator=estimator)
        assert privacy_leakage(Y, X, estimator=estimator) == pytest.approx(1.0 - ratio)


def test_leakage_has_no_unit_and_the_level_has():
    X, Y = gaussian(np.array([[1.0, 0.6], [0.6, 1.0]])).T
    assert privacy_leakage(8 * Y, X) == pytest.approx(privacy_leakage(Y, X), abs=0.03)
    assert privacy_level(8 * Y, X) == pytest.approx(8 * privacy_level(Y, X), rel=0.05)


def test_sixteen_bins_by_default():
    X, Y = gaussian(np.array([[1.0, 0.6], [0.6, 1.0]])).T
    for measure in (mutual_information, privacy_level, privacy_leakage):
        default = measure(X, Y, estimator="histogram")
        for n_bins in (15, 16, 17):
            found = measure(X, Y, estimator="histogram", n_bins=n_bins)
            assert (found == default) == (n_bins == 16)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40))
def test_the_histogram_of_symbols_is_the_plug_in_estimate(pairs):
    x, y = (list(values) for values in zip(*pairs, strict=True))
    exact = max(0.0, oracle.mutual_information(x, y))
    got = mutual_information(x, y, estimator="histogram", n_bins=4)
    assert got == pytest.approx(exact, abs=1e-9)
    assert 0.0 <= privacy_leakage(y, x, estimator="histogram", n_bins=4) < 1.0


def test_all_of_x_leaks_more_than_noise_does():
    random = np.random.default_rng(3)
    X = random.normal(size=1000)
    small, large = (privacy_leakage(X + s * random.normal(size=1000), X) for s in (0.1, 2.0))
    assert small > 0.8 > 0.3 > large
    assert privacy_leakage(random.normal(size=1000), X) < 0.05


def test_repeated_samples_have_mutual_information_but_no_density():
    random = np.random.default_rng(4)
    X = random.integers(0, 2, N)
    flips = random.random(N) < 0.11
    exact = 1.0 + 0.11 * np.log2(0.11) + 0.89 * np.log2(0.89)  # a binary symmetric channel
    assert mutual_information(X, X ^ flips) == pytest.approx(exact, abs=0.05)
    Y = X + random.uniform(0.0, 0.5, N)  # X is read off Y
    assert mutual_information(X, Y) == pytest.approx(1.0, abs=0.05)
    with pytest.raises(InvalidInput, match="needs Y without 4 equal samples"):
        privacy_level(X, Y)


def psi(n):
    """Digamma of a positive integer, but for Euler's constant."""
    return sum(1.0 / j for j in range(1, n))


def farthest(rows, i):
    """Distances of sample i to all, in the largest coordinate difference."""
    return [max(abs(a - b) for a, b in zip(rows[i], row, strict=True)) for row in rows]


def entropy_by_hand(Y, k):
    """Kraskov et al., equation (20), in bits."""
    n, q = Y.shape
    logs = [np.log(2 * sorted(farthest(Y, i))[k]) for i in range(n)]
    return (psi(n) - psi(k) + q * sum(logs) / n) / np.log(2)


def information_by_hand(X, Y, k):
    """Kraskov et al., equation (8), with Gao's rule for repeated samples, in bits."""
    n, total = len(X), 0.0
    for i in range(n):
        of_x, of_y = farthest(X, i), farthest(Y, i)
        both = [max(pair) for pair in zip(of_x, of_y, strict=True)]
        reach = sorted(both)[k]  # the first is the sample itself
        if reach > 0:
            near, n_x, n_y = k, *(sum(a < reach for a in of) for of in (of_x, of_y))
        else:
            near, n_x, n_y = (sum(a == 0 for a in of) for of in (both, of_x, of_y))
        total += psi(near) - psi(n_x) - psi(n_y)
    return max(0.0, total / n + psi(n)) / np.log(2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_the_nearest_neighbour_estimates_are_their_equations(seed, k, q, d):
    random = np.random.default_rng(seed)
    n = k + int(random.integers(1, 20))
    X = random.normal(size=(n, d))
    Y = random.normal(size=(n, q)) + X.sum(1, keepdims=True) * random.uniform(0, 5)
    assert entropy(Y, n_neighbours=k) == pytest.approx(entropy_by_hand(Y, k), rel=1e-9, abs=1e-9)
    got = mutual_information(X, Y, n_neighbours=k)
    assert got == pytest.approx(information_by_hand(X, Y, k), rel=1e-9, abs=1e-9)
    X, Y = np.round(X), np.round(Y)  # many repeat
    got = mutual_information(X, Y, n_neighbours=k)
    assert got == pytest.approx(information_by_hand(X, Y, k), rel=1e-9, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 9))
def test_the_histogram_is_that_of_equal_bins_between_the_extremes(seed, q, n_bins):
    random = np.random.default_rng(seed)
    Y = random.normal(size=(30, q)) * [1.0, 50.0, 1e-3][:q] + [0.0, 9.0, -2.0][:q]
    counts, edges = np.histogramdd(Y, n_bins)
    shares = counts[counts > 0] / 30
    volume = np.prod([edge[1] - edge[0] for edge in edges])
    exact = np.log2(volume) - (shares * np.log2(shares)).sum()
    assert entropy(Y, estimator="histogram", n_bins=n_bins) == pytest.approx(exact, rel=1e-9)
    constant = np.hstack([Y, np.full((30, 1), 7.0)])  # an axis of length 1
    assert entropy(constant, estimator="histogram", n_bins=n_bins) == pytest.approx(exact, rel=1e-9)


def test_the_largest_value_is_in_the_last_bin():
    halves = entropy([0.0, 1.0, 2.0], estimator="histogram", n_bins=2)
    assert halves == pytest.approx(np.log2(3) - 2 / 3)  # one and two of three, bins of length 1


@pytest.mark.parametrize(
    "options",
    [
        {"n_neighbours": 1},
        {"n_neighbours": 7},
        {"estimator": "histogram", "n_bins": 3},
        {"estimator": "histogram", "n_bins": 11},
    ],
)
def test_level_and_leakage_are_made_of_entropy_and_information(options):
    X, Y = gaussian(np.array([[1.0, 0.6], [0.6, 1.0]]))[:200].T
    h, shared = entropy(Y, **options), mutual_information(X, Y, **options)
    assert privacy_level(Y, X, **options) == pytest.approx(2.0 ** (h - shared), rel=1e-12)
    assert privacy_leakage(Y, X, **options) == pytest.approx(1.0 - 0.5**shared, rel=1e-12)
    assert shared > 0.1
    columns = X[:, None], Y[:, None].tolist()
    assert mutual_information(*columns, **options) == pytest.approx(shared, rel=1e-12)


@pytest.mark.parametrize("kind", [bool, np.int8, np.float32])
@pytest.mark.parametrize("estimator", ["nearest", "histogram"])
def test_samples_of_every_kind_are_taken_as_double(kind, estimator):
    random = np.random.default_rng(5)
    X, Y = (random.uniform(-128, 127, size=(40, 2)).round(3).astype(kind) for _ in "XY")
    got = mutual_information(X, Y, estimator=estimator)
    assert got == mutual_information(X.astype(float), Y.astype(float), estimator=estimator)
    if kind is not bool:
        assert entropy(X, estimator=estimator) == entropy(X.astype(float), estimator=estimator)


def test_as_many_samples_may_be_equal_as_there_are_neighbours():
    Y = np.array([0.0, 0.0, 0.0, 1.0, 2.5, 4.0])
    assert entropy(Y, n_neighbours=3) == pytest.approx(entropy_by_hand(Y[:, None], 3))
    with pytest.raises(InvalidInput, match="needs Y without 3 equal samples"):
        entropy(Y, n_neighbours=2)
    assert np.isfinite(entropy([0.0, 1.0], n_neighbours=1))
    with pytest.raises(InvalidInput, match="more than 2 samples; got 2"):
        entropy([0.0, 1.0], n_neighbours=2)


@pytest.mark.parametrize("values", [3.0, np.ones((9, 0)), np.ones((9, 1, 1)), np.ones(8)])
@pytest.mark.parametrize("estimator", ["nearest", "histogram"])
def test_what_is_not_a_row_for_each_sample_is_named(values, estimator):
    with pytest.raises(InvalidInput, match=r"^Y of a leakage measure must have shape \(9,\)"):
        mutual_information(np.arange(9.0), values, estimator=estimator)
    if np.shape(values) != (8,):
        with pytest.raises(InvalidInput, match=r"^X of a leakage measure must have shape \(n,\)"):
            mutual_information(values, np.arange(9.0), estimator=estimator)
        with pytest.raises(InvalidInput, match=r"^Y of a leakage measure must have shape \(n,\)"):
            entropy(values, estimator=estimator)
    with pytest.raises(InvalidInput, match=r"^X of a leakage measure must be finite"):
        mutual_information([1.0, np.inf], [1.0, 2.0], estimator=estimator)
    with pytest.raises(InvalidInput, match=r"^Y of a leakage measure must be finite"):
        entropy([1.0, -np.inf], estimator=estimator)


@pytest.mark.parametrize(
    ("X", "Y", "options", "words"),
    [
        (np.ones(9), np.arange(8.0), {}, r"Y of a leakage measure must have shape \(9,\)"),
        (np.ones(9), np.full(9, np.nan), {}, "Y of a leakage measure must be finite"),
        (np.arange(3.0), np.arange(3.0), {}, "more than 3 samples; got 3"),
        (np.ones(9), np.ones(9), {"estimator": "exact"}, "'estimator' parameter"),
        (np.ones(9), np.ones(9), {"n_bins": 0}, "'n_bins' parameter"),
    ],
)
def test_bad_input_is_refused(X, Y, options, words):
    with pytest.raises(InvalidInput, match=words):
        privacy_leakage(Y, X, **options)
