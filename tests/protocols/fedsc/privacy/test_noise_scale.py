"""FedSC's formulas by hand, with numbers that differ from 1, and in other units."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.privacy import gaussian_delta
from daskfc.protocols.fedsc.privacy.bounds import (
    feature_residual,
    perturbed_data_bound,
    perturbed_factors_bound,
)
from daskfc.protocols.fedsc.privacy.noise_scale import (
    coefficient_sensitivity,
    composed_sigma,
    gradient_sensitivity,
    perturbed_data_sigma,
    printed_coefficient_sensitivity,
    printed_dictionary_sensitivity,
)
from tests.oracles import privacy as oracle
from tests.oracles.fedsc_margin import clustering_margin, printed_clustering_margin
from tests.oracles.fedsc_utility import (
    largest_coefficient_sigma,
    largest_data_sigma,
    largest_dictionary_sigma,
    perturbed_data_interval,
)

exactly = pytest.approx


def test_lemma_j_1_by_hand():
    known = {"ridge": 1 / 8, "width": 3 / 2, "n_atoms": 9, "data_norm": 5 / 4, "reach": 7 / 4}
    # 2 · 3 · 5/4 · 3 over 9/32
    assert printed_coefficient_sensitivity(**known) == exactly(80.0, rel=1e-14)


def test_lemma_j_2_by_hand():
    known = {"step": 1 / 2, "width": 3 / 2, "n_atoms": 9, "coefficient_norm": 2 / 3}
    known |= {"data_norm": 5 / 4, "dictionary_norm": 3 / 4, "reach": 7 / 4}
    first = 5.0  # T.1: 2 · 3 · 2/3 · 5/4
    second = first * (2 * 3) / (9 / 4)  # T.2
    assert printed_dictionary_sensitivity(**known) == exactly((first + second) * 2 / 9, rel=1e-14)


def test_our_sensitivities_by_hand():
    half = math.sqrt(math.log(2) / 2)  # where k of two rows at most 2 τ_X apart is at least 1/2
    assert coefficient_sensitivity(1 / 64, spread=half) == exactly(4.0, rel=1e-14)
    assert coefficient_sensitivity(1 / 64) == exactly(math.sqrt(32.0), rel=1e-14)
    known = {"step": 3 / 4, "width": 1 / 2, "n_atoms": 9, "ridge": 1 / 16}  # τ = 2
    one_row = (2 + 3 * 2**2) * math.exp(-1 / 2) / known["width"]
    assert gradient_sensitivity(**known) == exactly(3 / 4 * 2 * one_row, rel=1e-14)


@pytest.mark.parametrize("n_samples", [1, 2, 7])
def test_theorem_3_1_by_hand(n_samples):
    pairs = max(n_samples * (n_samples - 1), 1)
    known = {"width": 2.0, "n_samples": n_samples, "n_features": 4, "n_atoms": 9}
    known |= {"data_norm": math.sqrt(1 / 2), "coefficient_norm": 2 / 3, "residual": 0.1}
    t = 4.0  # ξ² = 4 + 2 · 4 + 2 · 4 = 20
    known["failure"] = pairs * math.exp(-t)
    bound = perturbed_data_bound(1 / math.sqrt(20.0), **known)
    assert bound == exactly((2.0**2 - 1.0) / 4 + (3 * 2 / 3 + 1) * 0.1, rel=1e-13)
    assert largest_data_sigma(bound, **known) == exactly(1 / math.sqrt(20.0), rel=1e-13)


def test_theorem_3_8_by_hand():
    known = {"n_samples": 2, "n_features": 8, "n_atoms": 2, "failure": 4 * math.exp(-2.0)}  # t = 2
    known |= {"coefficient_norm": 0.4, "residual": 0.05, "width": 1.5}
    sigma_c = 0.1 / math.sqrt(2 + 4 + 4)
    sigma_z = 1.5 * math.sqrt(2 * math.log(2.0) / (8 + 8 + 4))  # k(z, z̃) ≥ 1/2
    gamma = 0.05 + math.sqrt(2.0) * (0.1 + 0.4)
    bound = perturbed_factors_bound(sigma_z, sigma_c, **known)
    assert bound == exactly(gamma**2 + 2 * gamma, rel=1e-13)
    assert largest_dictionary_sigma(bound, sigma_c, **known) == exactly(sigma_z, rel=1e-12)
    assert largest_coefficient_sigma(bound, sigma_z, **known) == exactly(sigma_c, rel=1e-12)


def test_even_atoms_without_meaning_may_stay_within_the_margin():
    """At σ_Z = ∞ a column of C is off by √2 τ_C: a margin beyond is never used up."""
    known = {"width": 1.0, "n_samples": 5, "n_features": 3, "n_atoms": 4, "residual": 0.0}
    known["coefficient_norm"] = 0.25
    gamma = 2 * math.sqrt(2.0) * 0.25
    margin = gamma * (gamma + 2)
    assert largest_dictionary_sigma(1.0001 * margin, 0.0, **known) == math.inf
    assert largest_dictionary_sigma(0.9999 * margin, 0.0, **known) < math.inf
    known["coefficient_norm"] = 0.0
    assert largest_dictionary_sigma(0.01, 0.0, **known) == math.inf
    known |= {"coefficient_norm": 0.5, "n_atoms": 1}  # this limit is met to the last bit
    assert largest_dictionary_sigma(0.5 + math.sqrt(2.0), 0.0, **known) == math.inf


@pytest.mark.parametrize("coefficient_norm", [0.1, 0.3, 0.7])
def test_margins_beside_that_limit_give_a_number_or_infinity(coefficient_norm):
    known = {"width": 1.0, "n_samples": 5, "n_features": 3, "n_atoms": 4, "residual": 0.0}
    gamma = 2 * math.sqrt(2.0) * coefficient_norm
    margin = gamma * (gamma + 2)
    beside = margin + np.spacing(margin) * np.arange(-20, 21)
    found = [
        largest_dictionary_sigma(m, 0.0, coefficient_norm=coefficient_norm, **known) for m in beside
    ]
    assert found == sorted(found)
    assert found[-1] == math.inf


COUNTS = {"n_samples": 9, "n_features": 3, "n_atoms": 4}
SHARES = {"coefficient_norm": 0.7, "residual": 0.01, "failure": 0.01}
BUDGET = {"epsilon": 0.5, "delta": 1e-5}


# what is a length, or the power of one; the power of the result; the other arguments
@pytest.mark.parametrize(
    ("formula", "lengths", "power", "others"),
    [
        (perturbed_data_sigma, {"data_norm": 1}, 1, BUDGET),
        (composed_sigma, {"sensitivity": 1}, 1, BUDGET | {"n_rounds": 5}),
        (
            printed_coefficient_sensitivity,
            {"width": 1, "data_norm": 1, "reach": 1},
            0,
            {"ridge": 0.1, "n_atoms": 4},
        ),
        (
            printed_dictionary_sensitivity,
            {"step": 2, "width": 1, "data_norm": 1, "dictionary_norm": 1, "reach": 1},
            1,
            {"n_atoms": 4, "coefficient_norm": 0.7},
        ),
        (gradient_sensitivity, {"step": 2, "width": 1}, 1, {"n_atoms": 4, "ridge": 0.1}),
        (
            perturbed_data_bound,
            {"data_sigma": 1, "width": 1, "data_norm": 1},
            0,
            COUNTS | SHARES,
        ),
        (
            perturbed_factors_bound,
            {"dictionary_sigma": 1, "width": 1},
            0,
            COUNTS | SHARES | {"coefficient_sigma": 0.1},
        ),
        (
            largest_data_sigma,
            {"width": 1, "data_norm": 1},
            1,
            COUNTS | SHARES | {"margin": 0.3},
        ),
        (
            perturbed_data_interval,
            {"width": 1, "data_norm": 1, "clip_norm": 1},
            1,
            COUNTS | SHARES | BUDGET | {"margin": 0.3},
        ),
        (
            largest_dictionary_sigma,
            {"width": 1},
            1,
            COUNTS | SHARES | {"margin": 0.3, "coefficient_sigma": 0.001},
        ),
    ],
)
def test_another_unit_of_length_changes_the_unit_of_the_result_only(
    formula, lengths, power, others
):
    start = {name: 0.8 + 0.1 * i for i, name in enumerate(lengths)}
    scaled = {name: value * 3.0 ** lengths[name] for name, value in start.items()}
    found, want = formula(**scaled, **others), formula(**start, **others)
    np.testing.assert_allclose(found, np.multiply(want, 3.0**power), rtol=1e-13)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_theorem_3_9_is_given_exactly_where_its_noise_is_enough(delta):
    given_for = []
    for epsilon in np.geomspace(10.0, 1000.0, 40):
        sigma = math.sqrt(8 * math.log(math.e + epsilon / delta)) / epsilon  # of one round, Δ = 1
        enough = gaussian_delta(epsilon, sigma, 1.0) <= delta
        if enough:
            assert composed_sigma(epsilon, delta, 1.0, 1) == exactly(sigma, rel=1e-13)
        else:
            with pytest.raises(InvalidInput, match=r"Theorem 3\.9 gives too little noise"):
                composed_sigma(epsilon, delta, 1.0, 1)
        given_for.append(enough)
    assert given_for == sorted(given_for, reverse=True)
    assert 5 < sum(given_for) < 35


def test_the_residual_of_single_precision_factors_is_computed_in_double():
    random = np.random.default_rng(0)
    Z, X = random.normal(size=(6, 3)), random.normal(size=(9, 3))
    K_zz, K_zx = oracle.kernel(Z, Z, 2.0), oracle.kernel(Z, X, 2.0)
    single = [a.astype(np.float32) for a in (np.linalg.solve(K_zz, K_zx), K_zz, K_zx)]
    double = [a.astype(np.float64) for a in single]
    assert feature_residual(*single) == feature_residual(*double)
    assert feature_residual([[0]], [[1]], [[1]]) == 1.0


@pytest.mark.parametrize(
    ("c", "zz", "zx"),
    [
        ((3,), (3, 3), (3,)),
        ((3, 2, 1), (3, 3), (3, 2, 1)),
        ((0, 2), (0, 0), (0, 2)),
        ((3, 0), (3, 3), (3, 0)),
        ((3, 2), (3, 3), (3, 1)),
        ((3, 2), (2, 2), (3, 2)),
        ((3, 2), (3,), (3, 2)),
    ],
)
def test_the_residual_needs_matrices_that_fit(c, zz, zx):
    with pytest.raises(InvalidInput, match="the feature residual needs"):
        feature_residual(np.ones(c), np.ones(zz), np.ones(zx))


@given(st.floats(0.0, 1.0))
def test_ties_between_classes_leave_the_tolerance(tolerance):
    """No sample leads, none lags: half the tolerance by both formulas."""
    K = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    classes = [0, 0, 1, 1]
    assert clustering_margin(K, classes, tolerance=tolerance) == tolerance / 2
    assert printed_clustering_margin(K, classes, tolerance=tolerance) == tolerance / 2
