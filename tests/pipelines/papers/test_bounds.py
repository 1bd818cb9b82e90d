"""Both sides of theorems at small size: slow oracles, data that meet conditions, federations."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from daskfc.protocols.esfmc.networks.training import ViewModel
from daskfc.protocols.esfmc.settings import recipe
from pipelines.papers import federations
from pipelines.papers.bounds import esfmc, fedsc, fk_kmeans, kcagc
from pipelines.papers.bounds.tables import render
from tests.pipelines.papers.pages import row_of


def blobs(n=60, d=3, k=3, apart=4.0, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % k
    return random.normal(size=(n, d)) + apart * random.normal(size=(k, d))[y], y


@pytest.fixture
def client():
    X, _ = blobs(20)
    return fedsc.Client(X, 2.0, 0.1)


def factors(seed, atoms=4, n=20):
    random = np.random.default_rng(seed)
    return random.normal(size=(atoms, 3)), random.normal(size=(atoms, n))


def test_the_slope_is_that_of_the_value(client):
    Z, C = factors(1)
    slope = approx_fprime(Z.ravel(), lambda z: client.value(z.reshape(Z.shape), C), 1e-7)
    np.testing.assert_allclose(client.slope(Z, C).ravel(), slope, atol=1e-4)


@pytest.mark.parametrize("distance", [1e-3, 1.0, 10.0])
def test_no_slope_changes_faster_than_the_constant(client, distance):
    Z, C = factors(2)
    for seed in range(20):
        other = Z + distance * factors(seed)[0]
        change = np.linalg.norm(client.slope(other, C) - client.slope(Z, C))
        assert change <= client.lipschitz(C) * np.linalg.norm(other - Z)


@pytest.mark.parametrize("Q", [1, 2])
def test_the_bound_of_fedsc_holds_and_psi_needs_clients(Q):
    X, _ = blobs()
    clients = [fedsc.Client(part, 2.0, 0.1) for part in np.array_split(X, 10)]
    run = fedsc.algorithm_1(clients, X[:4], 5, Q)
    if Q == 1:
        assert run.clients_needed == 0
        assert 0 < run.first_square <= run.squares
        assert run.mean <= sum(run.bound())
    else:
        assert (run.bound() is None) == (run.clients_needed >= 10)


def test_the_bounds_are_as_printed():
    run = fedsc.Moved(
        squares=6.0, first_square=1.0, rounds=2, steps=2, n_clients=50, first_value=3.0, zeta=0.5,
        least_eigenvalue=0.3, lowest=2.0, highest=4.0, ridge=0.1, last=np.zeros((1, 1)),
    )  # fmt: skip
    D, psi = 2 / 0.4 + 4 / 2, 1 + 58 * 1 * 3 / (50 - 4 * (1 + 4))
    assert run.mean == 1.0
    assert run.bound() == pytest.approx((D * 3 / 6, 16 * 0.25 * psi * D / (50 * 2)))
    run = fk_kmeans.Run(fk_kmeans.RATES["1/t"], 0.5, np.eye(3))
    run.t, run.C2, run.gamma, run.H = 16, 10.0, 4.0, 3.0
    tau = np.log(8 / 0.01)
    inside = 10 + 0.5 * 4 + 2 * 4 * tau + 2 / 3 * 2 * 3 * tau + 2 * 3
    assert fk_kmeans.bounds_of(run, 2.0, 0.5) == pytest.approx((inside / 4, 14 / 16))


@pytest.mark.slow
def test_both_sides_of_fedsc_with_a_federation():
    X, y = blobs()
    parts = np.array_split(np.arange(len(X)), 3)
    with federations.holding(X, y, parts) as federation:
        found = fedsc.measured(federation, [X[p] for p in parts], 3, [(3, 1), (2, 2)], data="blobs")
    assert found[0]["apart"] < 1e-9
    assert found[0]["value"] <= sum(found[0]["bound"])
    assert found[1]["bound"] is None
    text = render(found)
    assert row_of(text, "FedSC 2.3", "mean squared change of C and Z", "blobs, S = 3, Q = 1")[
        6
    ] == ("yes")
    assert row_of(text, "blobs", "3", "2", "2")[6:8] == ["–", "–"]


def test_iterations_are_those_of_dense_matrices():
    random = np.random.default_rng(0)
    phis = [random.normal(size=(12, 5)) / np.sqrt(5) for _ in range(4)]
    optimum = random.normal(size=(12, 2))
    for rate in fk_kmeans.RATES.values():
        run, Z = fk_kmeans.Run(rate, 0.3, optimum), np.zeros((12, 12))
        for t, phi in enumerate(phis, 1):
            run.advance(phi)
            values, vectors = np.linalg.eigh((1 - rate(t)) * Z + rate(t) * phi @ phi.T)
            Z = vectors * np.maximum(values - rate(t) * 0.3, 0) @ vectors.T
            np.testing.assert_allclose(run.B @ run.B.T, Z, atol=1e-9)
            apart = np.linalg.norm(Z - optimum @ optimum.T)
            assert run.error == pytest.approx(apart**2)
        assert run.H >= apart
        assert run.gamma >= np.trace(Z) - 1e-9
        assert run.C2 >= np.linalg.norm(phis[0] @ phis[0].T) ** 2 - 1e-9


def test_the_loss_is_that_of_distances_to_means():
    X, y = blobs(30)
    means = np.array([X[y == c].mean(axis=0) for c in range(3)])
    assert fk_kmeans.loss(X @ X.T, y) == pytest.approx(np.sum((X - means[y]) ** 2))


@pytest.mark.slow
def test_both_sides_of_kernel_k_means_with_a_federation():
    X, y = blobs()
    parts = np.array_split(np.arange(len(X)), 3)
    params = {"n_clusters": 3, "n_features": 40, "n_eigenvectors": 3}
    with federations.holding(X, y, parts) as federation:
        found = fk_kmeans.measured(federation, X, params, (2, 4), (2,), data="blobs")
    [run] = [r for r in found if r["kind"] == "fk run"]
    assert run["apart"] < 1e-9
    assert all(r["value"] <= r["bound"] for r in found if r["kind"] == "fk 1")
    [quality] = [r for r in found if r["kind"] == "fk 3"]
    assert 1.0 <= quality["value"] < quality["random"]
    text = render(found)
    assert row_of(text, "FK 1", "squared error of Z", "blobs, T = 4")[6] == "yes"
    assert row_of(text, "blobs", "2", "3", "3")[5] == "2.00 γ (1 + ε)"


def test_conditions_of_far_points_are_met_and_of_near_ones_are_not():
    y = np.arange(40) % 2
    near = np.random.default_rng(0).normal(size=(40, 3))
    far = 1e-3 * near + 10.0 * y[:, None]
    assert kcagc.separations(far, y).min() > 100
    assert kcagc.good(far, y).all()
    assert kcagc.restricted(far, y, 1e-3 * near).all()
    assert kcagc.separations(near, y).max() < 2**-0.5
    assert not kcagc.good(near, y).any()
    assert not kcagc.restricted(far, y, 100.0 * near).any()


def test_conditions_are_as_printed():
    X, y = blobs(30, apart=1.0)
    centres = np.array([X[y == c].mean(axis=0) for c in range(3)])
    norm = np.linalg.norm(X - centres[y], 2)
    delta = np.sqrt(3) * norm / np.sqrt(10)
    gaps = [np.linalg.norm(centres[p] - centres[q]) for p, q in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(kcagc.separations(X, y), np.array(gaps) / (2 * delta))
    margin = 2 / np.sqrt(10) * norm
    for i in range(30):
        mine, others = centres[y[i]], [centres[c] for c in range(3) if c != y[i]]
        lines = [(other - mine) / np.linalg.norm(other - mine) for other in others]
        shadows = [mine + (X[i] - mine) @ line * line for line in lines]
        nearer = [
            np.linalg.norm(shadow - other) - np.linalg.norm(shadow - mine)
            for shadow, other in zip(shadows, others, strict=True)
        ]
        assert kcagc.good(X, y)[i] == (min(nearer) >= margin)


def test_information_is_bounded_by_bits_and_the_bound_is_as_printed():
    assert esfmc.entropy(1) == pytest.approx(32 * np.log(2))
    assert esfmc.theorem(3.0, [8.0, 18.0], [4, 9]) == pytest.approx(3.0)


@pytest.mark.slow
def test_training_step_by_step_is_that_of_a_client():
    X, y = blobs(40)
    chosen = recipe("robust", 40, n_columns=3)
    fit = esfmc.trained(X, y, 3, chosen, 1, seed=5)
    model = ViewModel.begin(3, 3, chosen.network, seed=5, units=fit.units)
    model.pretrain(X, settings=chosen.training)
    model.train(X, y, settings=chosen.training, round=1)
    np.testing.assert_allclose(fit.weights, model.state()["weights"], atol=1e-4)
    assert fit.noise_bound > 0
    found = esfmc.losses_of(fit, X, y, 3, chosen)
    assert found.shape == (40,)
    # nearest to what the last epoch's means were, which the noise and later steps move
    told = model.train(X, y, settings=chosen.training, round=2)[0]
    assert found.mean() == pytest.approx(told.reconstruction / 3 + told.cross_entropy, rel=0.2)


def test_a_vacuous_bound_says_nothing():
    one = {"kind": "esfmc", "data": "a", "recipe": "robust", "M": 2, "N": 50, "weights": [9, 12]}
    text = render([{**one, "value": 0.1, "C": 2.0, "bound": 9.0, "by bits": 9.0, "by noise": 11.0}])
    assert row_of(text, "ESFMC 4.1")[3:] == ["0.100", "9.00", "90.0", "yes", "2.00", "no"]
    assert "## FedSC" not in text
