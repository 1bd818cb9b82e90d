import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from daskfc.baselines import FedMAvg
from daskfc.baselines.centers.fedmavg import (
    Basis,
    average_basis,
    basis_shift,
    coefficient_labels,
    first_basis,
    local_basis,
    local_factors,
    local_moments,
    nearest_direction,
    sample_shares,
    step_coefficients,
)
from daskfc.errors import InvalidInput
from daskfc.federation import check_message
from daskfc.metrics import kappa
from tests.oracles import baselines as oracle


def rounds(stores, k, *, orthogonality=0.1, q1=10, q2=10, n_rounds=20, seed=0):
    """FedMAvg's wiring without a federation."""
    moments = {name: local_moments(data) for name, data in stores.items()}
    average = first_basis(moments, n_clusters=k, orthogonality=orthogonality, random_state=seed)
    start, factors, uploads = average, dict.fromkeys(stores), {}
    for s in range(1, n_rounds + 1):
        factors = {
            name: local_factors(
                data, average, factors[name], coefficient_steps=q1, steps=q2 // s + 1
            )
            for name, data in stores.items()
        }
        uploads = {name: local_basis(one) for name, one in factors.items()}
        before, average = average, average_basis(uploads, sample_shares(moments), average)
    shift = basis_shift(before, average).shift
    labels = {
        name: coefficient_labels(data, factors[name], average, coefficient_steps=q1).labels
        for name, data in stores.items()
    }
    return start, average, factors, labels, {"moments": moments, "uploads": uploads, "shift": shift}


def split(store, rows, n):
    parts = np.array_split(np.arange(len(rows)), n)
    return {f"client-{i}": store(rows[part]) for i, part in enumerate(parts)}


@pytest.mark.parametrize("orthogonality", [0.0, 0.1, 1.0])
def test_equals_the_algorithm_as_printed(store, orthogonality):
    rows = np.random.default_rng(0).random((26, 5))
    stores = split(store, rows, 3)
    start, average, factors, _, _ = rounds(
        stores, 3, orthogonality=orthogonality, q1=4, q2=6, n_rounds=5
    )
    W, Hs = oracle.fedmavg(
        [data.rows(0, data.n_samples) for data in stores.values()],
        start.basis.T.copy(),
        start.penalty,
        4,
        6,
        5,
    )
    np.testing.assert_allclose(average.basis, W.T, rtol=1e-8)
    for found, H in zip(factors.values(), Hs, strict=True):
        np.testing.assert_allclose(found.coefficients, H.T, atol=1e-9)


def test_equals_pooled_on_easy_data_and_counts_messages(store, easy):
    rows, truth = easy
    k, d = 4, rows.shape[1]
    best = 0.0
    for seed in range(3):  # random starts: the model is not convex
        _, average, _, labels, messages = rounds(split(store, rows, 3), k, n_rounds=30, seed=seed)
        found = np.concatenate([*labels.values()])
        best = max(best, kappa(truth, found))
        if best == 1:
            break
    assert best == 1
    assert kappa(truth, nearest_direction(rows, average.basis)) == 1
    for upload in messages["uploads"].values():
        check_message(upload, {"n_features": d})
        assert upload.basis.size == k * d
    for moments in messages["moments"].values():
        check_message(moments, {"n_features": d})


def test_one_client_never_raises_the_objective(store):
    rows = np.random.default_rng(1).standard_normal((40, 6))
    data, last, values = store(rows), None, []
    alone = {"a": local_moments(data)}
    average = first_basis(alone, n_clusters=4, orthogonality=0.3, random_state=0)
    for _ in range(15):
        last = local_factors(data, average, last, coefficient_steps=3, steps=3)
        average = average_basis({"a": local_basis(last)}, sample_shares(alone), average)
        values.append(
            oracle.fedmavg_objective(rows, average.basis, last.coefficients, average.penalty)
        )
    assert (np.diff(values) <= 1e-9 * values[0]).all()


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 2**16))
def test_without_penalty_the_coefficients_reach_nonnegative_least_squares(seed):
    rng = np.random.default_rng(seed)
    rows, W = rng.standard_normal((5, 8)), rng.standard_normal((3, 8))
    H = step_coefficients(np.zeros((5, 3)), rows @ W.T, W @ W.T, penalty=0.0, steps=3000)
    for x, h in zip(rows, H, strict=True):
        np.testing.assert_allclose(h, nnls(W.T, x)[0], atol=1e-6)


def test_a_large_penalty_leaves_one_coefficient_a_sample(store, easy):
    rows, _ = easy
    _, _, factors, _, _ = rounds(split(store, rows, 2), 4, orthogonality=2.0, n_rounds=20)
    H = np.concatenate([one.coefficients for one in factors.values()])
    assert (H >= 0).all()
    assert (H.sum(axis=1) - H.max(axis=1)).max() <= 1e-6 * H.max()


def test_the_start_does_not_depend_on_the_partition(store, easy):
    rows = easy[0]
    for n in (1, 2, 5):
        moments = {name: local_moments(data) for name, data in split(store, rows, n).items()}
        start = first_basis(moments, n_clusters=3, orthogonality=0.1, random_state=4)
        assert sum(sample_shares(moments).values()) == pytest.approx(1)
        assert start.penalty == pytest.approx(0.1 * np.square(rows).sum(axis=1).mean())
        if n == 1:
            expected = start.basis
        np.testing.assert_allclose(start.basis, expected, rtol=1e-9)
        assert (start.basis >= 0).all()


def test_a_client_without_a_cluster_leaves_its_direction_alone(store):
    data = store(np.tile([3.0, 0.0], (5, 1)))
    alone = {"a": local_moments(data)}
    start = first_basis(alone, n_clusters=2, orthogonality=0.1, random_state=0)
    average = Basis(np.array([[1.0, 0.0], [0.0, 1.0]]), start.penalty)
    found = local_factors(data, average, None, coefficient_steps=5, steps=5)
    np.testing.assert_array_equal(found.basis[1], [0.0, 1.0])
    np.testing.assert_array_equal(found.coefficients[:, 1], 0)


def test_rows_of_zeros_are_harmless(store):
    stores = {"a": store(np.zeros((4, 3))), "b": store(np.eye(3))}
    _, average, _, labels, _ = rounds(stores, 2, n_rounds=3)
    assert np.isfinite(average.basis).all()
    assert labels["a"].tolist() == [0, 0, 0, 0]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**16))
def test_new_samples_get_the_best_single_direction(seed):
    rng = np.random.default_rng(seed)
    rows, W = rng.standard_normal((6, 4)), rng.standard_normal((3, 4))
    errors = [[np.square(x - max(x @ w, 0) / (w @ w) * w).sum() for w in W] for x in rows]
    explained = (rows @ W.T).max(axis=1) > 0  # otherwise all directions explain nothing
    found = nearest_direction(rows, W)
    np.testing.assert_array_equal(found[explained], np.argmin(errors, axis=1)[explained])


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"n_clusters": 2, "orthogonality": -1}, "'orthogonality' parameter of FedMAvg"),
        ({"n_clusters": 2, "coefficient_steps": 0}, "'coefficient_steps' parameter of FedMAvg"),
        ({"n_clusters": 2, "basis_steps": -1}, "'basis_steps' parameter of FedMAvg"),
        ({"n_clusters": True}, "'n_clusters' parameter of FedMAvg"),
    ],
)
def test_bad_parameters_are_refused(params, rule):
    with pytest.raises(InvalidInput, match=rule):
        FedMAvg(**params).check()
