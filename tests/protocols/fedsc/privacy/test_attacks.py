import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.protocols.fedsc.privacy import attacks
from daskfc.protocols.fedsc.privacy.attacks import cluster_coefficients, reconstruct_rows
from tests.oracles import privacy as oracle

WIDTH, RIDGE = 1.7, 1e-2


def factors(n, m, d, seed=0):
    random = np.random.default_rng(seed)
    X, Z = random.normal(size=(n, m)), random.normal(size=(d, m))
    return X, Z, oracle.coefficients(Z, X, WIDTH, RIDGE)


def noisy(C, share, seed=2):
    return C + share * np.random.default_rng(seed).normal(size=C.shape)


def columns_of(values, Z):
    """Return the coefficients of which the attack gets these kernel values, (n, d)."""
    gram = oracle.kernel(Z, Z, WIDTH) + RIDGE * np.eye(len(Z))
    return np.linalg.solve(gram, np.transpose(values))


def relative_error(found, X):
    return np.linalg.norm(found - X) / np.linalg.norm(X - X.mean(0))


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_without_noise_the_rows_come_out(m, spare, seed):
    X, Z, C = factors(6, m, m + 1 + spare, seed)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE)
    # as exact as the atoms are in general position
    condition = np.linalg.cond(Z - Z.mean(0))
    near = np.exp(-((X[:, None] - Z[None]) ** 2).sum(2) / (2 * WIDTH**2)).min()
    assert np.abs(found - X).max() < 1e-11 * condition**2 / near


def test_the_closed_form_alone_is_exact_too_and_rows_may_lie_far_from_the_origin():
    X, Z, C = factors(20, 4, 9)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE, max_iter=0)
    np.testing.assert_allclose(found, X, atol=1e-9)
    C = oracle.coefficients(Z + 1e4, X + 1e4, WIDTH, RIDGE)
    np.testing.assert_allclose(
        reconstruct_rows(Z + 1e4, C, width=WIDTH, ridge=RIDGE), X + 1e4, atol=1e-7
    )


@pytest.mark.parametrize("d", [1, 2, 4, 6])
def test_with_fewer_atoms_their_plane_is_what_comes_out(d):
    X, Z, C = factors(10, 6, d)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE)
    plane = (Z[1:] - Z[0]).T  # (m, d - 1)
    projected = Z[0] + (X - Z[0]) @ plane @ np.linalg.pinv(plane)
    np.testing.assert_allclose(found, projected, atol=1e-7)


def test_noise_on_c_is_what_stands_in_the_way():
    X, Z, C = factors(60, 5, 20)
    random = np.random.default_rng(1)
    noise = C.std() * random.normal(size=C.shape)
    errors = [
        relative_error(reconstruct_rows(Z, C + s * noise, width=WIDTH, ridge=RIDGE), X)
        for s in (0.0, 0.01, 0.1, 1.0)
    ]
    assert errors == sorted(errors)
    assert errors[0] < 1e-9
    assert errors[1] < 0.1
    assert errors[3] > 0.5


def test_the_refined_rows_fit_the_kernel_values_better_than_any_nearby():
    X, Z, C = factors(8, 3, 10)
    noisy = C + 0.05 * np.random.default_rng(2).normal(size=C.shape)
    target = (oracle.kernel(Z, Z, WIDTH) + RIDGE * np.eye(10)) @ noisy

    def cost(rows):
        return ((oracle.kernel(Z, rows, WIDTH) - target) ** 2).sum(0)

    found = reconstruct_rows(Z, noisy, width=WIDTH, ridge=RIDGE, max_iter=1000)
    for axis in range(3):
        for shift in (-1e-3, 1e-3):
            moved = found.copy()
            moved[:, axis] += shift
            assert (cost(moved) >= cost(found) - 1e-12).all()
    assert (cost(found) <= cost(X) + 1e-12).all()


def test_rows_come_out_alike_in_blocks_and_alone():
    random = np.random.default_rng(0)
    X, Z = 0.3 * random.normal(size=(600, 60)), 0.3 * random.normal(size=(80, 60))
    C = oracle.coefficients(Z, X[:3], WIDTH, RIDGE)[:, np.arange(600) % 3]  # 4,800 numbers a row
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE, max_iter=1)
    np.testing.assert_allclose(found, X[np.arange(600) % 3], atol=1e-7)


def test_hopeless_columns_stay_finite():
    _, Z, C = factors(5, 3, 6)
    for columns in (np.zeros_like(C), -C, 1e3 * C):
        found = reconstruct_rows(Z, columns, width=WIDTH, ridge=RIDGE)
        assert np.isfinite(found).all()
        assert np.abs(found).max() < 30 * WIDTH


@pytest.mark.parametrize(("m", "d"), [(3, 8), (4, 3)])
@pytest.mark.parametrize("max_iter", [0, 1, 3, 50])
def test_the_unit_of_the_rows_does_not_matter(m, d, max_iter):
    """By powers of two, so that every digit stays."""
    X, Z, C = factors(8, m, d, seed=5)
    centre = oracle.coefficients(Z, np.vstack([X, Z.mean(0)]), WIDTH, RIDGE)
    for columns in (noisy(C, 0.05), centre):  # beside the plane, and a row within it
        known = {"ridge": RIDGE, "max_iter": max_iter}
        found = reconstruct_rows(Z, columns, width=WIDTH, **known)
        for unit in (2.0**-30, 2.0**30):
            again = reconstruct_rows(unit * Z, columns, width=unit * WIDTH, **known)
            np.testing.assert_allclose(again / unit, found, rtol=1e-9, atol=1e-9)


def test_single_precision_is_widened_before_anything_is_computed():
    _, Z, C = factors(8, 3, 8)
    Z, C = Z.astype(np.float32), C.astype(np.float32)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE)
    assert found.dtype == np.float64
    wide = reconstruct_rows(Z.astype(float), C.astype(float), width=WIDTH, ridge=RIDGE)
    np.testing.assert_array_equal(found, wide)


@pytest.mark.parametrize("max_iter", [0, 50])
def test_atoms_out_of_sight_tell_nothing_and_spoil_nothing(max_iter):
    X, Z, C = factors(6, 3, 6)
    far = np.vstack([Z, [[30.0, 0.0, 0.0], [0.0, -30.0, 9.0]]])
    C = oracle.coefficients(far, X, WIDTH, RIDGE)
    found = reconstruct_rows(far, C, width=WIDTH, ridge=RIDGE, max_iter=max_iter)
    np.testing.assert_allclose(found, X, atol=1e-9)


def test_a_row_far_from_all_atoms_is_found_by_the_closed_form():
    _, Z, _ = factors(1, 3, 8)
    X = Z.mean(0) + WIDTH * np.array([[6.5, 0.0, 0.0], [0.0, -6.8, 0.0]])
    assert oracle.kernel(Z, X, WIDTH).max() < 1e-6
    C = oracle.coefficients(Z, X, WIDTH, RIDGE)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE, max_iter=0)
    np.testing.assert_allclose(found, X, atol=1e-3)


def test_a_row_amid_the_atoms_is_found_by_the_closed_form():
    _, Z, _ = factors(1, 3, 8)
    C = oracle.coefficients(Z, Z.mean(0)[None], WIDTH, RIDGE)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE, max_iter=0)
    np.testing.assert_allclose(found, Z.mean(0)[None], atol=1e-11)


def test_a_row_that_one_atom_sees_starts_at_that_atom():
    """And one that none sees in their middle: a single value gives no direction."""
    _, Z, _ = factors(1, 2, 5)
    values = np.vstack([0.5 * np.eye(5), 3 * np.eye(5), -np.ones((1, 5))])
    values[values == 0] = -1e-3
    found = reconstruct_rows(Z, columns_of(values, Z), width=WIDTH, ridge=RIDGE, max_iter=0)
    np.testing.assert_allclose(found, np.vstack([Z, Z, Z.mean(0)]), atol=1e-9)


def test_where_distances_contradict_each_other_the_fit_starts_from_the_mean():
    """The closed form lies 24 widths off, out of sight of both atoms, and is not taken."""
    Z = WIDTH * np.array([[0.0, 0.0], [1.0, 0.0]])
    target = np.array([[0.9, 1e-11]])
    at = np.linspace(-3, 4, 7001)[:, None] * [WIDTH, 0.0]
    k = oracle.kernel(Z, at, WIDTH)
    share = np.clip(target @ k / (k * k).sum(0), 0.0, 1.0)  # the best distance from the line
    best = at[((share * k - target.T) ** 2).sum(0).argmin()]
    found = reconstruct_rows(Z, columns_of(target, Z), width=WIDTH, ridge=RIDGE)
    np.testing.assert_allclose(found[0], best, atol=1e-3 * WIDTH)


def test_what_no_row_explains_stays_between_the_atoms():
    Z = np.array([[0.0], [40 * WIDTH]])
    C = columns_of([[0.5, 0.4], [0.4, 0.5]], Z)
    found = reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE)
    assert (found > 0).all()
    assert (found < 40 * WIDTH).all()


def test_with_little_noise_a_few_steps_are_enough():
    X, Z, C = factors(30, 3, 10, seed=5)
    columns = noisy(C, 1e-3 * C.std())
    end, *found = (
        reconstruct_rows(Z, columns, width=WIDTH, ridge=RIDGE, max_iter=i) for i in (1000, 0, 1, 3)
    )
    assert np.abs(end - X).max() > 1e-3
    closed, one, three = (np.abs(rows - end).max() for rows in found)
    assert one < closed / 50
    assert three < 1e-6


def test_fifty_steps_are_made():
    _, Z, C = factors(8, 3, 3, seed=3)
    known = {"width": WIDTH, "ridge": RIDGE}
    default = reconstruct_rows(Z, noisy(C, 1.0), **known)
    for n in (49, 50, 51):
        found = reconstruct_rows(Z, noisy(C, 1.0), max_iter=n, **known)
        assert np.array_equal(found, default) == (n == 50)


def test_memory_is_bounded_by_the_block(monkeypatch):
    random = np.random.default_rng(0)
    Z, C = random.normal(size=(20, 10)), random.normal(size=(20, 2000))
    peaks = []
    for block in (1 << 30, 1 << 14):
        monkeypatch.setattr(attacks, "_BLOCK", block)
        tracemalloc.start()
        reconstruct_rows(Z, C, width=WIDTH, ridge=RIDGE, max_iter=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] > 20 * 10 * 2000 * 8 > 2 * peaks[1]


def test_clusters_of_coefficients():
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    X = np.repeat(centres, 20, axis=0) + np.random.default_rng(0).normal(size=(60, 2))
    C = oracle.coefficients(centres, X, WIDTH, RIDGE)
    labels = cluster_coefficients(C, 3, seed=0)
    assert sorted(labels[::20].tolist()) == [0, 1, 2]
    for group in labels.reshape(3, 20):
        assert (group == group[0]).all()
    np.testing.assert_array_equal(labels, cluster_coefficients(C, 3, seed=0))


def inertia(C, labels):
    groups = [C[:, labels == k] for k in range(labels.max() + 1)]
    return sum(((group - group.mean(1, keepdims=True)) ** 2).sum() for group in groups)


def test_more_restarts_find_denser_clusters_and_ten_are_made():
    one, ten = 0.0, 0.0
    for seed in (3, 44):
        C = np.random.default_rng(seed).normal(size=(2, 30))
        labels = cluster_coefficients(C, 6, seed)
        one += inertia(C, cluster_coefficients(C, 6, seed, n_init=1))
        ten += inertia(C, labels)
        np.testing.assert_array_equal(labels, cluster_coefficients(C, 6, seed, n_init=10))
    assert ten < one


def test_every_column_may_be_its_own_cluster():
    labels = cluster_coefficients(10 * np.eye(4), 4, 0)
    assert sorted(labels.tolist()) == [0, 1, 2, 3]
    assert labels.dtype == np.int64


@pytest.mark.parametrize("values", [np.ones(3), np.ones((0, 3)), np.ones((1, 1, 3)), [[np.inf]]])
def test_what_is_no_matrix_is_named(values):
    known = {"width": WIDTH, "ridge": RIDGE}
    with pytest.raises(InvalidInput, match=r"^C of an attack must be a finite matrix"):
        cluster_coefficients(values, 1, 0)
    with pytest.raises(InvalidInput, match=r"^C of an attack must be a finite matrix"):
        reconstruct_rows(np.eye(3), values, **known)
    with pytest.raises(InvalidInput, match=r"^Z of an attack must be a finite matrix"):
        reconstruct_rows(values, np.eye(3), **known)


@pytest.mark.parametrize(("m", "noise"), [(2, 0.3), (3, 0.3), (3, 1.0)])
def test_in_their_plane_the_refined_rows_fit_best(m, noise):
    """With as many atoms as features, the distance from the plane scales all values of a row."""
    X, Z, C = factors(8, m, m, seed=3)
    noisy = C + noise * np.random.default_rng(2).normal(size=C.shape)
    target = (oracle.kernel(Z, Z, WIDTH) + RIDGE * np.eye(m)) @ noisy

    def cost(rows):
        k = oracle.kernel(Z, rows, WIDTH)
        share = np.clip((k * target).sum(0) / (k * k).sum(0), 0.0, 1.0)  # the best distance
        return ((share * k - target) ** 2).sum(0)

    found = reconstruct_rows(Z, noisy, width=WIDTH, ridge=RIDGE, max_iter=1000)
    for direction in Z[1:] - Z[0]:
        for shift in (-1e-3, 1e-3):
            assert (cost(found + shift * direction) >= cost(found) - 1e-9).all()
    assert (cost(found) <= cost(X) + 1e-9).all()
    default = reconstruct_rows(Z, noisy, width=WIDTH, ridge=RIDGE)
    assert cost(default).sum() == pytest.approx(cost(found).sum(), abs=1e-6)


def test_refusals():
    _, Z, C = factors(4, 2, 3)
    with pytest.raises(InvalidInput, match="one row for each of the 3 atoms"):
        reconstruct_rows(Z, C[:2], width=WIDTH, ridge=RIDGE)
    with pytest.raises(InvalidInput, match="'width' parameter"):
        reconstruct_rows(Z, C, width=0.0, ridge=RIDGE)
    with pytest.raises(InvalidInput, match="finite matrix"):
        cluster_coefficients([[np.nan]], 1, 0)
    with pytest.raises(InvalidInput, match="at most 4 clusters"):
        cluster_coefficients(C, 5, 0)
