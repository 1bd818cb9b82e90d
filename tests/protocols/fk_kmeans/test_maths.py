"""The maths of federated kernel k-means against whole matrices."""

import math

import numpy as np
import pytest

from daskfc.clustering.kernels.features import Kernel
from daskfc.protocols.fk_kmeans.maths.dspgd import (
    Iteration,
    change_of_whole,
    embed,
    feature_weights,
    n_kept,
    relative_change,
    weighted,
)
from daskfc.protocols.fk_kmeans.maths.lanczos import begin
from daskfc.protocols.fk_kmeans.settings import cheaper, cost_of_gram, cost_of_lanczos
from tests.protocols.fk_kmeans.oracle import dspgd

RANDOM = np.random.default_rng(0)
X = np.concatenate([RANDOM.normal(c, 0.3, size=(20, 3)) for c in (-1.0, 0.5, 2.0)])
D, K, S, T = 12, 3, 2, 5
PHIS = [Kernel("gaussian", 1.5).features(D, seed, 3).of(X) for seed in range(T)]


def in_factors():
    """Run DSPGD as clients and server do, all clients in one; yield W, eigenpairs, B_t+1."""
    B, threshold = np.empty((len(X), 0)), None
    for t, phi in enumerate(PHIS, start=1):
        W = weighted(phi, B, t)
        values, vectors = np.linalg.eigh(W.T @ W)
        values, vectors = values[::-1], vectors[:, ::-1]
        threshold = values[K + 1] if threshold is None else threshold
        n = n_kept(values, threshold, t, S)
        found = Iteration(values[:n], vectors[:, :n], threshold, t)
        B = W @ found.to_basis()
        yield W, found, B


# -- DSPGD ----------------------------------------------------------------------------------------


def test_factors_are_the_proximal_steps_on_whole_matrices():
    """Z_t+1 and K̂_t of Section 4.1, from matrices whose size does not depend on the samples."""
    for (W, found, B), (Z, H, threshold) in zip(in_factors(), dspgd(PHIS, K, S), strict=True):
        assert found.threshold == pytest.approx(threshold, rel=1e-12)
        np.testing.assert_allclose(B @ B.T, Z, atol=1e-12)
        mine = W @ found.to_embedding(S)
        np.testing.assert_allclose(mine @ mine.T, H @ H.T, atol=1e-12)


def test_the_change_is_that_of_whole_matrices():
    before, last, whole_before = None, np.zeros((len(X), len(X))), None
    for W, found, B in in_factors():
        Z = B @ B.T
        want = np.linalg.norm(Z - last) / np.linalg.norm(Z)
        assert relative_change(before, found) == pytest.approx(want, rel=1e-6)
        U = W @ found.vectors / np.sqrt(found.values)
        whole = Iteration(found.values, U, found.threshold, found.number)
        assert change_of_whole(whole_before, whole) == pytest.approx(want, rel=1e-6)
        np.testing.assert_allclose(whole.whole_basis() @ whole.whole_basis().T, Z, atol=1e-12)
        before, last, whole_before = found, Z, whole


def test_an_estimate_of_zero_changes_without_end():
    nothing = Iteration(np.array([1.0]), np.eye(3)[:, :1], 5.0, 1)
    assert relative_change(None, nothing) == change_of_whole(None, nothing) == math.inf


def test_rows_follow_from_features_alone():
    """That is how a fit goes on after a restart, and how new samples get their coordinates."""
    steps = list(in_factors())
    past = [found for _, found, _ in steps]
    np.testing.assert_allclose(embed(PHIS, past), steps[-1][2], atol=1e-12)
    some = slice(3, 9)
    np.testing.assert_allclose(
        embed([phi[some] for phi in PHIS], past), steps[-1][2][some], atol=1e-12
    )
    weights = feature_weights(past, D, S)
    assert weights.shape == (T, D, S)
    H = sum(phi @ weight for phi, weight in zip(PHIS, weights, strict=True))
    np.testing.assert_allclose(H, steps[-1][0] @ past[-1].to_embedding(S), atol=1e-12)


def test_the_estimate_tends_to_the_kernel_matrix():
    """Theorem 1: over 100 draws the error falls about as 1/t."""
    phis = [Kernel("gaussian", 1.5).features(D, 1000 + t, 3).of(X) for t in range(100)]
    values, vectors = np.linalg.eigh(Kernel("gaussian", 1.5).values(X, X))
    best = (vectors[:, -S:] * values[-S:]) @ vectors[:, -S:].T
    errors = [np.linalg.norm(H @ H.T - best) ** 2 for _, H, _ in dspgd(phis, K, S)]
    assert np.mean(errors[40:60]) < np.mean(errors[:5]) / 4
    assert np.mean(errors[80:]) < np.mean(errors[:5]) / 8


@pytest.mark.parametrize(
    ("values", "number", "want"),
    [
        ([9.0, 5.0, 1.0], 1, 2),  # above λ = 4
        ([9.0, 5.0, 1.0], 8, 3),  # above λ / 8
        ([9.0, 1.0, 0.5], 1, 2),  # s, though one alone is above
        ([9.0, 0.0, -1.0], 1, 1),  # what is not positive cannot be divided by
    ],
)
def test_pairs_above_the_threshold_are_kept_and_s_at_least(values, number, want):
    assert n_kept(np.array(values), 4.0, number, 2) == want


# -- Lanczos --------------------------------------------------------------------------------------


def solved(R, width, **wanted):
    state, rounds = begin(len(R), width, seed=0), 0
    while not state.has_converged(**wanted):
        state = state.advance(R @ state.block)
        rounds += 1
    return state, rounds


@pytest.mark.parametrize("width", [1, 3, 8])
def test_lanczos_finds_the_eigenpairs_that_are_wanted(width):
    values = np.array([50.0, 20.0, 10.0, 5.0, *np.linspace(1.0, 0.0, 96)])
    Q = np.linalg.qr(RANDOM.normal(size=(100, 100)))[0]
    R = (Q * values) @ Q.T
    for wanted, n in (({"least": 2}, 2), ({"least": 1, "threshold": 4.0}, 4)):
        state, rounds = solved(R, width, **wanted)
        found = state.ritz()
        np.testing.assert_allclose(found.values[:n], values[:n], rtol=1e-12)
        overlaps = np.abs(np.sum(found.vectors[:, :n] * Q[:, :n], axis=0))
        np.testing.assert_allclose(overlaps, 1.0, atol=1e-12)
        assert rounds * width < 100
        np.testing.assert_allclose(state.basis.T @ state.basis, np.eye(state.basis.shape[1]),
                                   atol=1e-13)  # fmt: skip


def test_a_block_needs_fewer_rounds():
    R = np.diag(np.linspace(0, 1, 100) ** 8)
    assert solved(R, 8, least=6)[1] < solved(R, 1, least=6)[1] / 3


def test_eigenvalues_that_occur_twice_and_a_small_rank_are_found():
    """No Krylov space of one vector has both; new random vectors join where it cannot grow."""
    R = np.diag([3.0, 3.0, 2.0] + [0.0] * 20)
    state, _ = solved(R, 1, least=3)
    np.testing.assert_allclose(state.ritz().values[:3], [3.0, 3.0, 2.0], rtol=1e-12)
    assert state.n_restarts > 0


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_whole_space_ends_it(width):
    R = np.diag([3.0, 2.0, 1.0])
    state, _ = solved(R, width, least=3)
    assert state.basis.shape == (3, 3)
    np.testing.assert_allclose(state.ritz().values, [3.0, 2.0, 1.0], rtol=1e-12)
    assert state.block.shape[1] == 0


# -- costs ----------------------------------------------------------------------------------------


def test_the_cheaper_solver_is_chosen_by_the_width_of_the_matrix():
    """Few columns: one round trip. Thousands: their square is worse than some round trips."""
    assert [cheaper(m, 12, 4, 5).solver for m in (50, 200, 500, 5000)] == ["gram"] * 3 + ["lanczos"]
    assert cost_of_gram(212, 5).floats == 212 * 213 // 2
    one, four = (cost_of_lanczos(212, 12, block, 5) for block in (1, 4))
    assert one.rounds > 3 * four.rounds
    assert one.floats < four.floats
    assert cost_of_lanczos(20, 30, 4, 5).rounds == 5  # no more products than columns
