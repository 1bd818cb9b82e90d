import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.privacy import classical_sigma, gaussian_epsilon, gaussian_sigma, noise_multiplier
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

SEEDS = st.integers(0, 10_000)
SCALES = st.sampled_from([0.0, 0.01, 0.1, 0.5])


def column_norm(C):
    return np.linalg.norm(C, axis=0).max()


def instance(seed):
    random = np.random.default_rng(seed)
    n, m, d = random.integers([2, 1, 1], [15, 12, 8])
    width, ridge = random.uniform(0.5, 5.0), 10.0 ** random.uniform(-3, -1)
    return random, random.normal(size=(n, m)), random.normal(size=(d, m)), width, ridge


def largest_error(Z, C, X, width):
    return np.abs(C.T @ oracle.kernel(Z, Z, width) @ C - oracle.kernel(X, X, width)).max()


def residual_by_definition(Z, C, X, width):
    K = oracle.kernel(np.vstack([Z, X]), np.vstack([Z, X]), width)
    d = len(Z)
    errors = []
    for i in range(len(X)):
        v = np.concatenate([C[:, i], np.zeros(len(X))])
        v[d + i] -= 1.0
        errors.append(max(v @ K @ v, 0.0) ** 0.5)
    return max(errors)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_the_residual_is_a_distance_in_feature_space(seed):
    _, X, Z, width, ridge = instance(seed)
    C = oracle.coefficients(Z, X, width, ridge)
    got = feature_residual(C, oracle.kernel(Z, Z, width), oracle.kernel(Z, X, width))
    assert got == pytest.approx(residual_by_definition(Z, C, X, width), abs=1e-7)


@given(SEEDS, SCALES)
@settings(max_examples=60, deadline=None)
def test_theorem_3_1_holds(seed, sigma):
    random, X, Z, width, ridge = instance(seed)
    noisy = X + sigma * random.normal(size=X.shape)
    C = oracle.coefficients(Z, noisy, width, ridge)
    bound = perturbed_data_bound(
        sigma,
        width=width,
        n_samples=len(X),
        n_features=X.shape[1],
        n_atoms=len(Z),
        data_norm=np.linalg.norm(X, axis=1).max(),
        coefficient_norm=column_norm(C),
        residual=residual_by_definition(Z, C, noisy, width),
        failure=1e-6,
    )
    assert largest_error(Z, C, X, width) <= bound * (1 + 1e-9) + 1e-12


@given(SEEDS, SCALES, SCALES)
@settings(max_examples=60, deadline=None)
def test_theorem_3_8_holds(seed, sigma_z, sigma_c):
    random, X, Z, width, ridge = instance(seed)
    C = oracle.coefficients(Z, X, width, ridge)
    noisy_z = Z + sigma_z * random.normal(size=Z.shape)
    noisy_c = C + sigma_c * random.normal(size=C.shape)
    bound = perturbed_factors_bound(
        sigma_z,
        sigma_c,
        width=width,
        n_samples=len(X),
        n_features=X.shape[1],
        n_atoms=len(Z),
        coefficient_norm=column_norm(C),
        residual=residual_by_definition(Z, C, X, width),
        failure=1e-6,
    )
    assert largest_error(noisy_z, noisy_c, X, width) <= bound * (1 + 1e-9) + 1e-12


def test_the_printed_theorem_3_8_fails_with_more_features_than_atoms():
    n_atoms, n_features, sigma, width = 10, 4000, 0.016, 1.0
    X = np.zeros((2, n_features))
    Z = np.zeros((n_atoms, n_features))  # every atom is the row: nothing to reconstruct
    C = np.full((n_atoms, 2), 1.0 / n_atoms)
    noisy = Z + sigma * np.random.default_rng(0).normal(size=Z.shape)
    known = {"width": width, "n_samples": 2, "n_atoms": n_atoms, "residual": 0.0}
    known["coefficient_norm"] = column_norm(C)
    error = largest_error(noisy, C, X, width)
    assert error > perturbed_factors_bound(sigma, 0.0, n_features=n_atoms, **known)
    assert error < perturbed_factors_bound(sigma, 0.0, n_features=n_features, **known)


def data_bound(**changes):
    known = {"data_sigma": 0.1, "width": 2.0, "n_samples": 50, "n_features": 5, "n_atoms": 8}
    known |= {"data_norm": 1.0, "coefficient_norm": 0.7, "residual": 0.05, "failure": 0.01}
    return perturbed_data_bound(**(known | changes))


def test_theorem_3_1_as_printed():
    t = np.log(50 * 49 / 0.01)
    xi = np.sqrt(5 + 2 * np.sqrt(5 * t) + 2 * t)
    data = ((0.1 * xi + np.sqrt(2)) ** 2 - 2) / 4
    assert data_bound() == pytest.approx(data + (np.sqrt(8) * 0.7 + 1) * 0.05, rel=1e-12)
    assert data_bound(data_sigma=0.0, residual=0.0) == 0.0


def factors_bound(**changes):
    known = {"dictionary_sigma": 0.1, "coefficient_sigma": 0.02, "width": 2.0, "n_samples": 50}
    known |= {"n_features": 5, "n_atoms": 8, "coefficient_norm": 0.7, "residual": 0.05}
    return perturbed_factors_bound(**(known | {"failure": 0.01} | changes))


@pytest.mark.parametrize("bound", [data_bound, factors_bound])
def test_bounds_grow_with_what_makes_them_worse(bound):
    start = bound()
    names = ["coefficient_norm", "residual", "n_samples", "n_atoms", "n_features"]
    names += ["data_sigma", "data_norm"] if bound is data_bound else ["dictionary_sigma"]
    for name in names:
        assert bound(**{name: 60}) > start, name
    assert bound(failure=0.001) > start
    assert bound(width=3.0) < start


@pytest.mark.parametrize("bound", [data_bound, factors_bound])
@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0.0},
        {"failure": 1.0},
        {"failure": 0.0},
        {"residual": -0.1},
        {"n_samples": 0},
        {"coefficient_norm": float("nan")},
    ],
)
def test_bounds_refuse_what_they_are_not_about(bound, wrong):
    with pytest.raises(InvalidInput, match="parameter of the bound of Theorem 3"):
        bound(**wrong)


def test_the_residual_refuses_shapes_that_do_not_fit():
    with pytest.raises(InvalidInput, match="kernel_zx"):
        feature_residual(np.eye(2), np.eye(2), np.eye(3))


def test_proposition_3_7_is_the_classical_formula_for_twice_the_norm():
    sigma = perturbed_data_sigma(0.5, 1e-5, 3.0)
    assert sigma == pytest.approx(2 * np.sqrt(2 * np.log(1.25e5)) * 3.0 / 0.5, rel=1e-12)
    assert gaussian_epsilon(sigma, 1e-5, 6.0) < 0.5
    with pytest.raises(InvalidInput, match="below 1"):
        perturbed_data_sigma(2.0, 1e-5, 3.0)


@given(st.floats(0.01, 30.0), st.floats(1e-10, 0.1), st.integers(1, 50))
def test_theorem_3_9_noise_is_private_and_wasteful_where_it_is_given(epsilon, delta, rounds):
    sigma = composed_sigma(epsilon, delta, 2.0, rounds)
    formula = np.sqrt(8 * rounds * 4.0 * np.log(np.e + epsilon / delta)) / epsilon
    assert sigma == pytest.approx(formula, rel=1e-12)
    assert gaussian_epsilon(sigma / np.sqrt(rounds), delta, 2.0) <= epsilon
    assert noise_multiplier(epsilon, delta, rounds) * 2.0 <= sigma


def test_theorem_3_9_is_refused_where_its_noise_is_too_little():
    with pytest.raises(InvalidInput, match="too little noise"):
        composed_sigma(400.0, 1e-5, 1.0, 5)


def two_data_sets(seed):
    """Z, two data sets that differ in one row, width and ridge."""
    random, X, Z, width, ridge = instance(seed)
    other = X.copy()
    other[0] = random.normal(size=X.shape[1]) * 10.0 ** random.uniform(-1, 1)
    scale = 10.0 ** random.uniform(-1.5, 1)
    return Z * scale, X * scale, other * scale, width, ridge


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_sensitivities_hold_for_every_replaced_row(seed):
    Z, X, other, width, ridge = two_data_sets(seed)
    C, C_other = (oracle.coefficients(Z, rows, width, ridge) for rows in (X, other))
    norm = max(np.linalg.norm(X, axis=1).max(), np.linalg.norm(other, axis=1).max())
    change = np.linalg.norm(C - C_other)
    assert change <= coefficient_sensitivity(ridge, spread=norm / width) * (1 + 1e-9)
    assert coefficient_sensitivity(ridge, spread=norm / width) <= coefficient_sensitivity(ridge)
    assert column_norm(C) <= 1 / (2 * np.sqrt(ridge)) * (1 + 1e-9)
    reach = max(np.linalg.norm(z - x) for z in Z for x in np.vstack([X, other]))
    limits = {"width": width, "n_atoms": len(Z), "data_norm": norm, "reach": reach}
    assert change <= printed_coefficient_sensitivity(ridge=ridge, **limits) * (1 + 1e-9)

    step = 0.3
    moved = step * np.linalg.norm(
        oracle.gradient(Z, X, C, width) - oracle.gradient(Z, other, C_other, width)
    )
    ours = gradient_sensitivity(step=step, width=width, n_atoms=len(Z), ridge=ridge)
    assert moved <= ours * (1 + 1e-9)


def test_the_sensitivity_of_lemma_j_2_is_exceeded_when_c_moves_too():
    Z = np.array([[-0.11816294], [-0.11551752]])  # found by search
    x, other, width, ridge = np.array([[1e-3]]), np.array([[-1e-3]]), 1.0, 1e-4
    C, C_other = (oracle.coefficients(Z, rows, width, ridge) for rows in (x, other))
    printed = printed_dictionary_sensitivity(
        step=1.0,
        width=width,
        n_atoms=2,
        coefficient_norm=max(column_norm(C), column_norm(C_other)),
        data_norm=1e-3,
        dictionary_norm=np.linalg.norm(Z, 2),
        reach=0.11816294 + 1e-3,
    )
    held = oracle.gradient(Z, x, C, width) - oracle.gradient(Z, other, C, width)
    moved = oracle.gradient(Z, x, C, width) - oracle.gradient(Z, other, C_other, width)
    assert np.linalg.norm(held) <= printed
    assert np.linalg.norm(moved) > 1.2 * printed


def test_sensitivities_refuse_what_is_not_positive():
    with pytest.raises(InvalidInput, match="'ridge' parameter of the sensitivity of C"):
        coefficient_sensitivity(0.0)
    with pytest.raises(InvalidInput, match="'spread' parameter"):
        coefficient_sensitivity(0.1, spread=0.0)
    with pytest.raises(InvalidInput, match="'step' parameter of the sensitivity of Z"):
        gradient_sensitivity(step=-1.0, width=1.0, n_atoms=2, ridge=0.1)


def test_noise_for_c_by_the_paper_and_by_us():
    printed = printed_coefficient_sensitivity(
        ridge=0.01, width=1.0, n_atoms=20, data_norm=1.0, reach=2.0
    )
    ours = coefficient_sensitivity(0.01, spread=1.0)
    assert gaussian_sigma(0.5, 1e-5, ours) < 0.01 * classical_sigma(0.5, 1e-5, printed)
