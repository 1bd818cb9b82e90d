import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.privacy import (
    add_gaussian_noise,
    classical_sigma,
    clip_matrix,
    clip_rows,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    normal_deviates,
)
from daskfc.privacy.gaussian import _smallest
from tests.oracles.privacy import hockey_stick

EPSILONS = st.floats(1e-3, 30.0)
DELTAS = st.floats(1e-12, 0.9)


def stream(number=0):
    return SecretKey.from_bytes(bytes(32)).derive("test", number).stream()


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize(("sigma", "sensitivity"), [(1.0, 1.0), (0.4, 1.0), (6.0, 2.5), (0.2, 0.9)])
def test_delta_is_the_integral_that_defines_it(epsilon, sigma, sensitivity):
    exact = hockey_stick(epsilon, sigma, sensitivity)
    assert gaussian_delta(epsilon, sigma, sensitivity) == pytest.approx(exact, rel=1e-8)


@given(EPSILONS, DELTAS, st.floats(1e-3, 1e3))
def test_sigma_is_the_least_that_keeps_epsilon_and_delta(epsilon, delta, sensitivity):
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert gaussian_delta(epsilon, sigma, sensitivity) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon, sigma * (1 - 1e-6), sensitivity) > delta
    assert sigma == pytest.approx(sensitivity * gaussian_sigma(epsilon, delta, 1.0), rel=1e-12)


@given(EPSILONS, DELTAS)
def test_epsilon_and_sigma_undo_each_other(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta, 1.0)
    assert gaussian_epsilon(sigma, delta, 1.0) == pytest.approx(epsilon, rel=1e-8)


@given(EPSILONS, DELTAS, st.floats(1.001, 3.0))
def test_more_privacy_needs_more_noise(epsilon, delta, factor):
    sigma = gaussian_sigma(epsilon, delta, 1.0)
    assert gaussian_sigma(epsilon * factor, delta, 1.0) < sigma
    assert gaussian_sigma(epsilon, delta / factor, 1.0) > sigma
    assert gaussian_epsilon(sigma * factor, delta, 1.0) < epsilon * (1 + 1e-9)


def test_noise_that_hides_more_than_delta_has_epsilon_zero():
    assert gaussian_epsilon(10.0, 0.5, 1.0) == 0.0


@pytest.mark.parametrize("sigma", [1e12, 1e18, 1e300])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-30, 1.0, 700.0])
def test_noise_beyond_all_digits_hides_everything_quietly(epsilon, sigma):
    assert 0.0 <= gaussian_delta(epsilon, sigma, 1.0) < 1e-12
    if sigma > 1e16:
        assert gaussian_delta(epsilon, sigma, 1.0) == 0.0
        assert gaussian_epsilon(sigma, 1e-300, 1.0) == 0.0


def test_next_to_no_noise_hides_nothing():
    for epsilon in (1e-300, 1.0, 700.0):
        assert gaussian_delta(epsilon, 1e-3, 1.0) == 1.0
    assert gaussian_epsilon(1e-3, 0.5, 1.0) == pytest.approx(1e6 / 2, rel=1e-5)  # Δ²/2σ²


# dp-accounting 0.6.0: get_sigma_gaussian(epsilon, delta)
@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (0.1, 1e-5, 30.74956613197769),
        (1.0, 1e-5, 3.7306316348159374),
        (10.0, 1e-6, 0.5410868318184269),
        (50.0, 1e-9, 0.17478362493932859),
        (0.5, 0.1, 1.5562878953733268),
    ],
)
def test_sigma_agrees_with_another_library(epsilon, delta, sigma):
    assert gaussian_sigma(epsilon, delta, 1.0) == pytest.approx(sigma, rel=1e-9)


@given(st.floats(1e-4, 0.999), st.floats(1e-12, 0.999))
def test_the_classical_formula_is_private_and_wasteful(epsilon, delta):
    sigma = classical_sigma(epsilon, delta, 2.0)
    assert sigma == pytest.approx(2.0 * np.sqrt(2.0 * np.log(1.25 / delta)) / epsilon, rel=1e-12)
    assert gaussian_delta(epsilon, sigma, 2.0) <= delta
    assert gaussian_sigma(epsilon, delta, 2.0) <= sigma


def test_the_classical_formula_is_refused_where_it_is_not_proved():
    with pytest.raises(InvalidInput, match=r"must be below 1, where its proof ends; got 1\.0"):
        classical_sigma(1.0, 1e-5, 1.0)
    # the reason: far out it is wrong, not only unproved
    wrong = np.sqrt(2 * np.log(1.25 / 1e-5)) / 50.0
    assert gaussian_delta(50.0, wrong, 1.0) > 1e-5


@pytest.mark.parametrize("function", [gaussian_sigma, classical_sigma])
@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [
        (0.0, 0.1, 1.0),
        (float("nan"), 0.1, 1.0),
        (0.5, 0.0, 1.0),
        (0.5, 1.0, 1.0),
        (0.5, 0.1, 0.0),
        (0.5, 0.1, float("inf")),
    ],
)
def test_parameters_outside_their_range_are_refused(function, epsilon, delta, sensitivity):
    with pytest.raises(InvalidInput, match="parameter of the Gaussian mechanism must be"):
        function(epsilon, delta, sensitivity)


@pytest.mark.parametrize("least", [1e-6, 0.1, 0.7, 1.0, 1.1, 37.3, 1e8])
def test_the_smallest_is_found_to_the_last_bit_and_holds(least):
    """Rounded up, never down: one bit less noise would not keep the promise."""
    assert _smallest(lambda x: x >= least, 1e9, "x") == least


def test_extremes_are_refused_and_not_guessed():
    with pytest.raises(InvalidInput, match="sigma over sensitivity lies beyond 1e"):
        gaussian_sigma(1e-300, 1e-300, 1.0)
    with pytest.raises(InvalidInput, match="epsilon lies beyond 1e"):
        gaussian_epsilon(1e-9, 1e-5, 1.0)


ROWS = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.floats(-1e300, 1e300, allow_nan=False),
)


@given(ROWS, st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_clipped_rows_are_short_and_point_the_same_way(X, bound):
    rows, count = clip_rows(X, bound)
    lengths = [math.hypot(*row) for row in X]
    for row, clipped, length in zip(X, rows, lengths, strict=True):
        assert math.hypot(*clipped) <= bound * (1 + 1e-15)
        if length <= bound * (1 - 1e-9):
            np.testing.assert_array_equal(clipped, row)
        elif length >= bound * (1 + 1e-9):
            np.testing.assert_allclose(clipped, row / length * bound, rtol=1e-9, atol=1e-290)
    above = sum(length > bound for length in lengths)
    close = sum(abs(length / bound - 1) < 1e-9 for length in lengths)
    assert above - close <= count <= above + close


@pytest.mark.parametrize("size", [1, 2, 17, 256])
def test_clipped_rows_stay_within_the_bound_exactly(size):
    """In rational numbers: the sensitivity is a promise, without a rounding error on top."""
    X = np.random.default_rng(size).normal(size=(60, size)) * 100
    for bound in (0.1, 1.0, 3.7):
        rows, _ = clip_rows(X, bound)
        clipped = rows[np.linalg.norm(X, axis=1) > bound]
        assert len(clipped) > 40
        for row in clipped.tolist():
            assert sum(Fraction(x) ** 2 for x in row) <= Fraction(bound) ** 2
        matrix, _ = clip_matrix(X[:1], bound)
        assert sum(Fraction(x) ** 2 for x in matrix[0].tolist()) <= Fraction(bound) ** 2


def test_clipping_a_matrix_uses_its_frobenius_norm():
    clipped, was = clip_matrix([[3.0, 0.0], [0.0, 4.0]], 2.5)
    np.testing.assert_allclose(clipped, [[1.5, 0.0], [0.0, 2.0]], rtol=1e-12)
    assert was
    Z = np.ones((2, 3))
    same, was = clip_matrix(Z, 10.0)
    same[0, 0] = 7.0
    assert Z[0, 0] == 1.0
    assert not was


def test_errors_hold_no_private_value():
    with pytest.raises(InvalidInput, match="must be finite") as error:
        clip_rows([[123.456, float("nan")]], 1.0)
    assert "123" not in str(error.value)
    with pytest.raises(PrivacyError, match="hides nothing") as error:
        add_gaussian_noise([123.456e9], 1e-3)
    assert "123" not in str(error.value)
    with pytest.raises(InvalidInput, match="2 axes"):
        clip_rows([1.0, 2.0], 1.0)


def test_deviates_are_normal_and_independent():
    z = normal_deviates((300_000,), stream())
    assert stats.kstest(z, "norm").pvalue > 0.01
    cells = np.floor(stats.norm.cdf(z) * 64).astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=64)).pvalue > 0.01
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.01
    assert abs((np.abs(z) > 4).mean() - 2 * stats.norm.sf(4)) < 4e-5
    assert abs(np.corrcoef(np.sign(z), np.abs(z))[0, 1]) < 0.01


def test_deviates_do_not_depend_on_how_they_are_drawn():
    whole, parts = stream(1), stream(1)
    z = normal_deviates(1000, whole)
    again = np.concatenate([normal_deviates(n, parts) for n in (1, 399, 600)])
    np.testing.assert_array_equal(z, again)


def test_the_extreme_words_give_finite_and_opposite_numbers():
    class Words:
        def __init__(self, word):
            self.word = word

        def fill(self, out):
            out[...] = self.word

    smallest = normal_deviates(1, Words(0))[0]
    assert smallest == pytest.approx(-8.29, abs=0.01)
    assert normal_deviates(1, Words(1))[0] == -smallest
    assert normal_deviates(1, Words(2**64 - 1))[0] == 0.0


def test_the_system_is_the_default_source_and_never_repeats():
    assert not np.array_equal(normal_deviates(16), normal_deviates(16))


def test_noise_has_the_asked_spread_and_hides_the_values():
    values = np.linspace(-3, 3, 60_000).reshape(200, 300)
    noise = add_gaussian_noise(values, 0.7, stream=stream(2)) - values
    assert stats.kstest(noise.ravel() / 0.7, "norm").pvalue > 0.01
    assert abs(np.corrcoef(noise.ravel(), values.ravel())[0, 1]) < 0.02


@given(st.floats(-10, 10), st.floats(1e-3, 1e3))
def test_every_output_lies_on_a_grid_that_sigma_alone_sets(value, sigma):
    noisy = add_gaussian_noise([value], sigma, stream=stream(3))
    steps = noisy / 2.0 ** (np.floor(np.log2(sigma)) - 30)
    assert steps == np.rint(steps)
