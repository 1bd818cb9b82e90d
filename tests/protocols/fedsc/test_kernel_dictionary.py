from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.clustering.kernels.kernels import atom_kernel, gaussian_kernel
from daskfc.errors import InvalidInput
from daskfc.protocols.fedsc.maths.dictionary_start import (
    count_atoms,
    default_atoms,
    first_dictionary,
    mean_distance,
    normal_dictionary,
    width_and_atoms,
)
from daskfc.protocols.fedsc.maths.kernel_dictionary import (
    coefficients,
    local_update,
)
from daskfc.protocols.fedsc.messages import KernelPlan
from daskfc.protocols.fedsc.server import normal_start
from tests.conftest import DATA, needs_data
from tests.oracles import fedsc as oracle
from tests.protocols.fedsc.one_place import moments_of

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))  # n, d, m
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed, n, d, m):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, m)), random.normal(size=(d, m)), random.normal(size=(d, n))


@given(SEEDS, SIZES, st.floats(0.3, 5.0))
def test_the_kernel_is_its_definition(seed, sizes, width):
    X, Z, _ = drawn(seed, *sizes)
    np.testing.assert_allclose(gaussian_kernel(X, Z, width), oracle.kernel(X, Z, width), atol=1e-12)
    K = atom_kernel(Z, width)
    np.testing.assert_allclose(K, oracle.kernel(Z, Z, width), atol=1e-12)
    assert np.array_equal(K, K.T)
    assert (np.diag(K) == 1.0).all()


def test_the_kernel_in_blocks_is_the_kernel(monkeypatch):
    X, Z, _ = drawn(0, 50, 4, 3)
    whole = gaussian_kernel(X, Z, 1.0)
    monkeypatch.setattr("daskfc.clustering.kernels.kernels._BLOCK", 28)
    np.testing.assert_allclose(gaussian_kernel(X, Z, 1.0), whole, rtol=1e-12)


def test_a_width_that_overflows_the_exponent_gives_zeros_without_a_warning():
    assert gaussian_kernel([[0.0], [1.0]], [[0.0]], 1e-200).tolist() == [[1.0], [0.0]]


@given(SEEDS, SIZES, st.sampled_from([1e-3, 1e-1, 2.0]))
def test_the_c_step_is_eq_14_and_the_best_there_is(seed, sizes, ridge):
    X, Z, other = drawn(seed, *sizes)
    C = coefficients(X, Z, 1.3, ridge)
    np.testing.assert_allclose(C, oracle.best_coefficients(X, Z, 1.3, ridge), atol=1e-8)
    best = oracle.objective(X, Z, C, 1.3, ridge)
    assert best <= oracle.objective(X, Z, C + 1e-2 * other, 1.3, ridge) + 1e-12


@given(SEEDS, st.tuples(st.integers(6, 12), st.integers(1, 4), st.integers(1, 4)))
@settings(max_examples=30)
def test_the_preconditioned_step_is_its_unsimplified_definition(seed, sizes):
    X, Z, _ = drawn(seed, *sizes)
    C = oracle.best_coefficients(X, Z, 1.3, 0.1)
    want = oracle.preconditioned(X, Z, C, 1.3, 0.1)
    np.testing.assert_allclose(local_update(X, Z, 1.3, 0.1), want, rtol=1e-4, atol=1e-5)


def test_an_atom_that_no_sample_uses_stays():
    X, far = np.array([[0.0], [0.5]]), np.array([[0.2], [1e3]])
    moved = local_update(X, far, 1.0, 1e-3)
    assert moved[1] == pytest.approx(1e3)
    assert 0.0 <= moved[0, 0] <= 0.5
    assert np.array_equal(local_update(X, far[1:], 1.0, 1e-3), far[1:])


@given(SEEDS, st.integers(1, 3))
def test_repeated_atoms_and_samples_are_no_obstacle(seed, repeats):
    X, Z, _ = drawn(seed, 6, 3, 2)
    moved = local_update(np.tile(X, (repeats, 1)), np.tile(Z, (repeats, 1)), 1.0, 1e-3, steps=2)
    assert np.isfinite(moved).all()


@given(SEEDS, st.floats(-50.0, 50.0))
@settings(max_examples=30)
def test_a_shift_of_the_data_shifts_the_dictionary(seed, shift):
    X, Z, _ = drawn(seed, 20, 3, 2)
    moved = local_update(X, Z, 1.5, 1e-2)
    shifted = local_update(X + shift, Z + shift, 1.5, 1e-2)
    np.testing.assert_allclose(shifted, moved + shift, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_dictionary_far_from_the_origin_loses_its_last_bit_alone(seed):
    far = 1e9
    X, Z, _ = ((part + far) - far for part in drawn(seed, 40, 12, 2))
    moved = local_update(X, Z, 1.5, 1e-2)
    shifted = local_update(X + far, Z + far, 1.5, 1e-2) - far
    np.testing.assert_allclose(shifted, moved, rtol=0, atol=np.spacing(far))


def test_several_preconditioned_steps_are_single_ones():
    X, Z, _ = drawn(5, 40, 4, 3)
    twice = local_update(X, local_update(X, Z, 1.5, 1e-2), 1.5, 1e-2)
    assert np.array_equal(local_update(X, Z, 1.5, 1e-2, steps=2), twice)


def test_updates_bring_the_reconstruction_nearer_to_the_kernel():
    X = np.concatenate([np.random.default_rng(1).normal(3 * c, 1, size=(30, 4)) for c in range(3)])
    Z = first_dictionary(moments_of(X), 8, seed=0)
    K, errors = oracle.kernel(X, X, 2.0), []
    for _ in range(4):
        C = coefficients(X, Z, 2.0, 1e-3)
        errors.append(np.linalg.norm(C.T @ atom_kernel(Z, 2.0) @ C - K) / np.linalg.norm(K))
        Z = local_update(X, Z, 2.0, 1e-3)
    assert errors[-1] < 0.6 * errors[0]


@given(SEEDS, SIZES)
def test_the_mean_distance_counts_every_ordered_pair(seed, sizes):
    X = drawn(seed, *sizes)[0]
    assert mean_distance(X) == pytest.approx(oracle.mean_distance(X), rel=1e-6, abs=1e-12)


def test_the_mean_distance_of_many_samples_is_that_of_some():
    X = np.random.default_rng(0).normal(size=(900, 3))
    whole = mean_distance(X)
    some = [mean_distance(X, seed=seed, max_samples=400) for seed in range(8)]
    assert len(set(some)) == 8
    assert mean_distance(X, seed=3, max_samples=400) == some[3]
    assert np.abs(np.array(some) / whole - 1).max() < 0.05
    assert mean_distance(X, max_samples=900) == whole


def test_the_mean_distance_in_blocks_is_the_mean_distance(monkeypatch):
    X = drawn(0, 41, 1, 3)[0]
    monkeypatch.setattr("daskfc.protocols.fedsc.maths.dictionary_start._BLOCK", 41 * 6)
    assert mean_distance(X) == pytest.approx(oracle.mean_distance(X), rel=1e-10)


@given(SEEDS, st.integers(1, 15), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_atoms_are_the_fewest_that_hold_the_mass(seed, n, mass):
    X = drawn(seed, n, 1, 2)[0]
    values = np.sort(np.linalg.eigvalsh(oracle.kernel(X, X, 1.0)))[::-1]
    d = count_atoms(X, 1.0, mass=mass)
    assert values[:d].sum() >= mass * n - 1e-9
    assert values[: d - 1].sum() < mass * n + 1e-9


def test_a_large_client_counts_atoms_in_a_sample_of_its_rows():
    X = np.repeat(np.arange(5.0)[:, None] * 100, 40, axis=0)
    assert count_atoms(X, 1.0, max_samples=60) == count_atoms(X, 1.0) == 5
    assert count_atoms(X, 1.0, max_samples=3) <= 3
    assert count_atoms(X, 1.0, max_samples=3, seed=4) == count_atoms(X, 1.0, max_samples=3, seed=4)


@given(SEEDS, st.integers(1, 15), st.integers(1, 15))
def test_by_default_there_are_atoms_for_099_and_where_these_are_many_for_095(seed, n, many):
    X = drawn(seed, n, 1, 2)[0]
    all_of_it, most = (count_atoms(X, 1.0, mass=mass) for mass in (0.99, 0.95))
    assert default_atoms(X, 1.0) == all_of_it
    with mock.patch("daskfc.protocols.fedsc.maths.dictionary_start._MANY", many):
        assert default_atoms(X, 1.0) == (all_of_it if all_of_it <= many else max(many, most))


def test_the_default_is_counted_in_1000_samples():
    apart = 100.0 * np.arange(1100)[:, None]  # all eigenvalues are 1
    assert default_atoms(apart, 1.0) == 950


@given(SEEDS, SIZES)
def test_width_and_atoms_are_the_mean_distance_and_its_atoms(seed, sizes):
    X = drawn(seed, *sizes)[0]
    width, atoms = width_and_atoms(X)
    assert width == pytest.approx(mean_distance(X), rel=1e-7, abs=1e-12)
    assert atoms == (default_atoms(X, width) if width > 0 else 1)


@pytest.mark.parametrize("n", [1000, 1001, 1500, 2049])
def test_the_atoms_of_many_samples_are_counted_in_the_same_1000(n):
    X = np.random.default_rng(n).normal(size=(n, 200))
    width, atoms = width_and_atoms(X)
    assert width == pytest.approx(mean_distance(X), rel=1e-12)
    assert atoms == default_atoms(X, width)
    assert atoms > default_atoms(X[:700], width)


def test_where_all_samples_are_alike_one_atom_is_enough():
    assert width_and_atoms(np.full((30, 2), 7.0)) == (0.0, 1)


def test_distances_that_float64_cannot_hold_are_refused():
    with np.errstate(all="ignore"), pytest.raises(InvalidInput, match="of width_and_atoms must be"):
        width_and_atoms(np.eye(2) * 1e200)


@needs_data
@pytest.mark.slow
def test_coil20_gets_the_number_of_atoms_of_table_4():
    with np.load(DATA / "coil20_20x20.npz") as file:
        X = file["X"].reshape(1440, -1).astype(float)
    assert count_atoms(X, mean_distance(X)) == 194


@given(SEEDS, st.integers(1, 10), st.integers(1, 10), st.sampled_from([0.0, 5.0, -3e9, 1e13]))
def test_moments_of_clients_add_up_wherever_the_origin_is(seed, n, other, offset):
    X = np.column_stack([drawn(seed, n + other, 1, 3)[0] + offset, np.full(n + other, 4e13)])
    found = moments_of(X[:n], X[n:])
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=1e-12, atol=1e-9)
    exact = (X - X[0]).std(axis=0)  # of what the offset left of the samples
    np.testing.assert_allclose(found.spread, exact, rtol=1e-3, atol=1e-4)  # 2**-60 of the largest


def test_the_first_dictionary_has_the_mean_and_spread_of_each_feature():
    X = np.random.default_rng(0).normal([0.0, 100.0], [1.0, 0.1], size=(500, 2))
    Z = first_dictionary(moments_of(X), 4000, seed=3)
    np.testing.assert_allclose(Z.mean(axis=0), X.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(Z.std(axis=0), X.std(axis=0), rtol=0.05)
    assert np.array_equal(Z, first_dictionary(moments_of(X), 4000, seed=3))
    plan = KernelPlan(1.0, 2000, 3, 1.0, 9)
    published = normal_start(plan, 16, 0).atoms
    assert published.shape == (2000, 3)
    assert published.std() == pytest.approx(0.25, rel=0.05)


X0, Z0 = np.zeros((3, 2)), np.ones((2, 2))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gaussian_kernel(X0, np.ones((2, 3)), 1.0), "as many columns as X, 2 features"),
        (lambda: gaussian_kernel(X0, Z0, 0.0), "'width' parameter of the Gaussian kernel"),
        (lambda: gaussian_kernel(X0[0], Z0, 1.0), "X must be a matrix with at least one row"),
        (lambda: gaussian_kernel(X0 + np.nan, Z0, 1.0), "X must be finite"),
        (lambda: gaussian_kernel(X0, [["secret"]], 1.0), "Z must be a matrix of numbers; got some"),
        (lambda: coefficients(X0, Z0, 1.0, 0.0), "'ridge' parameter of coefficients must be"),
        (lambda: coefficients(X0, Z0, 1.0, 1e-300), "must outweigh the rounding of a kernel of 2"),
        (lambda: local_update(X0, Z0, np.inf, 0.1), "'width' parameter of local_update"),
        (lambda: local_update(X0, Z0, 1.0, 0.1, steps=0), "'steps' parameter of local_update"),
        (lambda: mean_distance(np.empty((0, 2))), "X must be a matrix with at least one row"),
        (lambda: count_atoms(X0, 1.0, mass=1.5), "'mass' parameter of count_atoms"),
        (lambda: default_atoms(X0, 0.0), "'width' parameter of default_atoms"),
        (lambda: normal_dictionary(0, 1, 1, seed=0), "'n_atoms' parameter"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        call()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("far", [26.0, 29.5, 29.9, 29.95, 30.0, 30.05, 31.0, 40.0])
def test_atoms_that_are_all_but_out_of_reach_of_the_samples_end_too(far):
    """Kernel values are there and their products are not: a damping of 0 was raised for ever."""
    random = np.random.default_rng(0)
    X, E = random.normal(size=(40, 3)), 0.3 * random.normal(size=(20, 3))
    Z = X.mean(axis=0) + np.array([far, 0.0, 0.0]) + E
    found = local_update(X, Z, 1.0, 1e-3)
    assert np.isfinite(found).all()
    if far > 29.0:
        assert np.abs(found - Z).max() <= far
