"""Federated kernel k-means on real worker processes: against whole matrices, and its ledger."""

import os
import signal
from functools import cache

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from daskfc import seeds
from daskfc.clustering.kernels.features import Kernel
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.protocols import FederatedKernelKMeans
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.runs.report.table import noise_in_words
from daskfc.testing.federation import stores_of
from tests.protocols.fk_kmeans.oracle import dspgd

pytestmark = pytest.mark.slow

X, TRUTH = load_iris(return_X_y=True)
ROWS = {f"client-{i + 1}": X[i::4] for i in range(4)}
TRUE = np.concatenate([TRUTH[i::4] for i in range(4)])
POOLED = np.concatenate(list(ROWS.values()))
K, D, T = 3, 20, 4
N = len(X)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation.local(stores_of(tmp_path_factory.mktemp("stores"), ROWS)) as running:
        yield running


def fitted(federation, **params):
    params = {"n_features": D, "iterations": T, **params}
    return FederatedKernelKMeans(K, **params).fit(federation)


@pytest.fixture(scope="module")
def once(federation):
    """Return the fit with some parameters, made once."""
    return cache(lambda **params: fitted(federation, **params))


def features(width, kernel="gaussian", degree=3):
    drawn = FeatureSettings(kernel, degree, D, 0)
    return [drawn.drawn(width, t, 4).of(POOLED) for t in range(1, T + 1)]


def coordinates(model, kernel="gaussian", degree=3):
    phis = features(model.kernel_width_, kernel, degree)
    return sum(phi @ G for phi, G in zip(phis, model.feature_weights_, strict=True))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "params",
    [
        {"solver": "gram"},
        {"solver": "lanczos", "lanczos_block": 1},
        {"solver": "lanczos", "lanczos_block": 5, "averaging": "plain"},
        {"communication_efficient": False},
        {"kernel": "laplacian", "kernel_width": 3.0},
        {"kernel": "polynomial", "degree": 2, "solver": "gram"},
    ],
    ids=lambda params: "-".join(str(value) for value in params.values()),
)
def test_equals_the_iterations_on_whole_matrices(once, params):
    """The embedding's inner products and the eigenvalues, whichever solver and messages."""
    model = once(**params)
    kernel = {"kernel": params.get("kernel", "gaussian"), "degree": params.get("degree", 3)}
    steps = list(dspgd(features(model.kernel_width_, **kernel), K, K))
    for t, ((Z, _, threshold), told) in enumerate(zip(steps, model.history_, strict=True), 1):
        lowered = told.values - threshold / t
        assert told.threshold == pytest.approx(threshold, rel=1e-9)
        assert np.linalg.norm(np.maximum(lowered, 0)) == pytest.approx(np.linalg.norm(Z), rel=1e-9)
    if model.communication_efficient:
        H = coordinates(model, **kernel)
        np.testing.assert_allclose(H @ H.T, steps[-1][1] @ steps[-1][1].T, atol=1e-8)
    assert model.n_iterations_ == T
    products = [told.n_products for told in model.history_]
    assert all(products) == (model.plan_["chosen"].solver == "lanczos") or not any(products)


def test_the_width_is_the_mean_interpoint_distance(once):
    """Section 6.1: γ = N² / (2 Σ Σ |x_i - x_j|²), where γ is 1 / (2 width²)."""
    model = once()
    squared = np.sum((X[:, None] - X) ** 2, axis=2)
    assert 1 / (2 * model.kernel_width_**2) == pytest.approx(N**2 / (2 * squared.sum()), rel=1e-4)


def test_solvers_give_the_same_labels(once):
    one, other = once(solver="gram"), once(solver="lanczos", lanczos_block=1)
    np.testing.assert_allclose(one.feature_weights_, other.feature_weights_, atol=1e-8)
    np.testing.assert_array_equal(one.labels_, other.labels_)


def test_its_clusters_are_those_of_the_exact_kernel(federation):
    """After some iterations, with few random features in each."""
    model = FederatedKernelKMeans(K, n_features=30, iterations=15).fit(federation)
    matrix = Kernel("gaussian", model.kernel_width_).values(POOLED, POOLED)
    values, vectors = np.linalg.eigh(matrix)
    H = vectors[:, -K:] * np.sqrt(values[-K:])
    exact = KMeans(K, n_init=10, random_state=0).fit_predict(H)
    assert adjusted_rand_score(exact, model.labels_.values) > 0.9
    nmi = [normalized_mutual_info_score(TRUE, labels) for labels in (exact, model.labels_.values)]
    assert abs(nmi[0] - nmi[1]) < 0.03


@pytest.mark.parametrize("clustering", ["coreset", "sums"])
def test_what_leaves_a_client(federation, clustering):
    """Per iteration one triangle of (D + r)(D + r + 1) / 2 numbers from each client."""
    model = fitted(federation, clustering=clustering, kernel_width=2.0, solver="gram")
    rows = [row for row in model.ledger_ if row.sender.startswith("client")]
    kinds = {"StoreContent", "PublicKeys", "MaskedPart", "LabelledSamples"}
    assert {row.message for row in rows} - {"Magnitude"} == kinds | (
        {"LocalCost", "CoresetPart"} if clustering == "coreset" else set()
    )
    width = D
    for number, told in enumerate(model.history_, start=1):
        up = [r for r in rows if r.round == number and r.message == "MaskedPart"]
        numbers = width * (width + 1) // 2
        assert sorted(r.sender for r in up) == list(ROWS)
        assert all(numbers * 8 <= r.payload_bytes <= numbers * 8 + 128 for r in up)
        assert told.n_floats == numbers * len(ROWS)
        width = D + np.count_nonzero(told.values > told.threshold / number)


def test_lanczos_uploads_its_products(federation):
    model = fitted(federation, kernel_width=2.0, solver="lanczos", lanczos_block=1, iterations=2)
    for number, told in enumerate(model.history_, start=1):
        up = [r for r in model.ledger_ if r.round == number and r.message == "MaskedPart"]
        taken = [r for r in up if r.sender == "client-1"]
        assert told.n_products <= len(taken) < 1.6 * told.n_products + 2  # asked for ahead
        assert len(up) == len(ROWS) * len(taken)
        numbers = sum(r.payload_bytes for r in up) - told.n_floats * 8
        assert 0 <= numbers <= 128 * len(up)  # tags, and the digest of what was told


@pytest.mark.long
def test_without_the_mechanism_what_is_uploaded_grows_with_the_samples(federation):
    """Section 5.2: N + M D numbers a product, where the mechanism needs M (D + r)."""
    short = {"iterations": 2, "lanczos_block": 1, "kernel_width": 2.0}
    model = fitted(federation, communication_efficient=False, **short)
    for number, told in enumerate(model.history_, start=1):
        up = [r for r in model.ledger_ if r.round == number and r.sender != "server"
              and r.receiver == "server"]  # fmt: skip
        assert {r.message for r in up} == {"MaskedPart", "ProductRows"}
        taken = sum(r.sender == "client-1" and r.message == "ProductRows" for r in up)
        assert told.n_floats == taken * (N + len(ROWS) * D)
        assert told.n_products <= taken < 1.6 * told.n_products + 2


def test_the_error_of_the_sums_is_known_before(once):
    assert 0 < once().sum_error_bound_ < 1e-14
    assert once(averaging="plain").sum_error_bound_ == 0


def test_predict_of_the_same_samples(federation, once, tmp_path):
    model = once()
    new = {name: ROWS[name] for name in ("client-2", "client-4")}
    federation.start_run("another", random_state=0)
    found = model.predict(federation, stores_of(tmp_path, new))
    own = model.labels_.values[np.isin(model.labels_.client.values, list(new))]
    np.testing.assert_array_equal(found.values, own)
    assert {row.message for row in federation.ledger if row.sender != "server"} <= {
        "LabelledSamples", "NewStore", "StoreSummary",
    }  # fmt: skip
    whole = once(communication_efficient=False, iterations=1)
    with pytest.raises(InvalidInput, match="needs communication_efficient=True"):
        whole.predict(federation, stores_of(tmp_path / "again", new))


class Stop(Exception):
    pass


@pytest.mark.few(1)
@pytest.mark.parametrize(("solver", "ends"), [("gram", [3]), ("lanczos", [2]), ("gram", [1, 2])])
def test_an_interrupted_fit_goes_on_at_the_iteration_it_had_reached(
    federation, once, monkeypatch, tmp_path, solver, ends
):
    whole = once(solver=solver)
    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    for end in ends:

        def stop(stage, done, total, end=end):
            if (stage, done) == ("iterating", end):
                raise Stop

        monkeypatch.setattr(federation, "on_progress", stop)
        with pytest.raises(Stop):
            fitted(federation, solver=solver)
    monkeypatch.setattr(federation, "on_progress", None)
    model = fitted(federation, solver=solver)
    rounds = {row.round for row in model.ledger_ if row.message == "Eigenpairs"}
    assert rounds == set(range(T - ends[-1] + 1))  # what was kept, and the iterations left
    np.testing.assert_allclose(model.feature_weights_, whole.feature_weights_, atol=1e-10)
    np.testing.assert_array_equal(model.labels_, whole.labels_)
    again = fitted(federation, solver=solver)  # all of it was kept
    np.testing.assert_array_equal(again.labels_, whole.labels_)
    assert len(again.history_) == T
    assert not [p for p in tmp_path.rglob("iteration-*") if p.exists()]


def test_parties_that_die_between_iterations_change_nothing(federation, once, monkeypatch):
    """The server's is the worse case: clients are asked for the first iterations again."""
    whole, dies, killed = once(), {("iterating", 2): "client-2", ("iterating", 3): "server"}, []

    def kill(stage, done, total):
        if (stage, done) in dies:
            killed.append(federation.processes.pid(dies.pop((stage, done))))
            os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setattr(federation, "on_progress", kill)
    model = fitted(federation)
    assert len(killed) == 2
    np.testing.assert_array_equal(model.labels_, whole.labels_)
    np.testing.assert_array_equal(model.feature_weights_, whole.feature_weights_)


def test_the_estimate_that_rests_ends_the_iterations(federation):
    model = FederatedKernelKMeans(K, n_features=60, iterations=50, tolerance=0.02).fit(federation)
    assert 2 < model.n_iterations_ < 50
    assert model.history_[-1].change < 0.02 <= model.history_[-2].change
    assert len(model.feature_weights_) == model.n_iterations_


def test_noise_is_in_the_ledger_and_nothing_else_is_told(federation):
    noise = {"epsilon": 8.0, "delta": 1e-4, "rounds": 2}
    model = fitted(federation, noise=noise, kernel_width=2.0, solver="gram", clustering="sums")
    releases = federation.ledger.releases()
    assert set(releases) == set(ROWS)
    for own in releases.values():
        assert len(own.events) == T + 2
        assert own.epsilon(1e-4) == pytest.approx(8.0, rel=1e-6)
    assert model.privacy_["epsilon"] == pytest.approx(8.0, rel=1e-6)
    assert model.privacy_["releases"] == T + 2
    told = {row.message for row in model.ledger_ if row.sender.startswith("client")}
    assert told == {"PublicKeys", "Magnitude", "MaskedPart", "LabelledSamples"}
    magnitudes = [row for row in model.ledger_ if row.message == "Magnitude"]
    assert len(magnitudes) == len(ROWS) + 1  # of the numbers of rows, which noise does not hide
    told = noise_in_words({**model.privacy_, "fits": 1, "epsilon_of_all_fits": 1.0})
    assert told.startswith("on sums, multiplier")
    assert not model.can_start_again()


def test_a_noisy_fit_that_broke_off_does_not_release_again(federation, monkeypatch, tmp_path):
    """Also when another process starts it again, which knows nothing of the first."""
    noise = {"multiplier": 1.0, "delta": 1e-4}
    how = {"noise": noise, "kernel_width": 2.0, "solver": "gram", "clustering": "sums"}

    def stop(stage, done, total):
        if (stage, done) == ("iterating", 1):
            raise Stop

    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    monkeypatch.setattr(federation, "on_progress", stop)
    with pytest.raises(Stop):
        fitted(federation, **how)
    monkeypatch.setattr(federation, "on_progress", None)
    with pytest.raises(PartyError, match="an earlier start of this fit"):
        fitted(federation, **how)
    assert not federation.ledger.releases()
    fitted(federation, **{**how, "noise": {**noise, "multiplier": 2.0}})  # another fit


def test_masks_that_two_hold_change_nothing(once):
    named = ("client-2", "client-3")
    masked, shared = once(averaging="masked"), once(averaging="shared", aggregators=named)
    np.testing.assert_array_equal(masked.labels_, shared.labels_)
    np.testing.assert_array_equal(masked.feature_weights_, shared.feature_weights_)
    assert masked.sum_error_bound_ == shared.sum_error_bound_
    told = {row.message for row in shared.ledger_} - {row.message for row in masked.ledger_}
    assert told == {"Arrivals", "MaskSum"}
    assert {row.sender for row in shared.ledger_ if row.message == "MaskSum"} == {*named}


def test_a_client_that_sleeps_through_an_iteration_is_left_out_of_it(federation, once, monkeypatch):
    pid = federation.processes.pid("client-2")

    def sleep_and_wake(stage, done, total):
        if (stage, done) == ("iterating", 1):
            os.kill(pid, signal.SIGSTOP)
        elif (stage, done) == ("iterating", 2):
            os.kill(pid, signal.SIGCONT)

    whole = once(averaging="recovering")
    monkeypatch.setattr(federation, "on_progress", sleep_and_wake)
    try:
        model = fitted(federation, averaging="recovering", patience_s=2.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert model.n_iterations_ == T
    assert model.labels_.shape == (N,)
    first, second = (told.history_[1].values[0] for told in (whole, model))
    assert second < 0.9 * first  # its samples are not in the second sum
    assert adjusted_rand_score(model.labels_.values, whole.labels_.values) > 0.5


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"n_features": 4}, "'n_features' parameter .* must be at least 5"),
        ({"n_eigenvectors": 9, "n_features": 8}, "must be at least 9"),
        ({"communication_efficient": False, "solver": "gram"}, "needs solver 'lanczos' or 'auto'"),
        ({"noise": 3}, "must be a mapping"),
        ({"noise": {"delta": 1e-5}}, "one of 'epsilon' and 'multiplier'"),
        ({"kernel": "cosine"}, "'kernel' parameter"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(params, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        FederatedKernelKMeans(3, **params).check()


def test_noise_beside_what_it_does_not_protect_is_refused():
    noise = {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(PrivacyError, match="needs kernel_width, solver='gram', clustering='sums'"):
        FederatedKernelKMeans(3, noise=noise).check()
    enough = {"kernel_width": 1.0, "solver": "gram", "clustering": "sums"}
    FederatedKernelKMeans(3, noise=noise, **enough).check()
    with pytest.raises(PrivacyError, match="kernel='gaussian' or 'laplacian'"):
        FederatedKernelKMeans(3, noise=noise, kernel="polynomial", **enough).check()


def test_seeds_differ_for_every_iteration():
    """A fresh draw each time: the same one twice would not bring the estimate nearer."""
    one, two = (FeatureSettings("gaussian", 3, D, 0).drawn(1.0, t, 4).seed for t in (1, 2))
    assert one != two
    assert one == seeds.integer_seed(0, "FK k-means", "features", 1)
