"""Federated k-means on real worker processes: masks, ledger, noise, deaths, and new samples."""

import os
import signal
from functools import cache

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from daskfc import FederatedGaussianMixture, FederatedKMeans
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.runs.report.table import noise_in_words
from daskfc.secure.kmeans import nearest_labels
from daskfc.testing.federation import stores_of
from daskfc.testing.kmeans import inertia_of
from tests.protocols.federated_kmeans.test_groups_by_row import unequal

K, D, N_CLIENTS = 4, 3, 3
POOLED = unequal(1200, D, K)
ROWS = {f"client-{i + 1}": POOLED[i::N_CLIENTS] for i in range(N_CLIENTS)}
IN_ORDER = np.concatenate(list(ROWS.values()))
NOISE = {"epsilon": 2.0, "delta": 1e-5, "largest_norm": 12.0, "rounds": 2}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation.local(stores_of(tmp_path_factory.mktemp("stores"), ROWS)) as running:
        yield running


def fitted(federation, **params):
    return FederatedKMeans(K, **params).fit(federation)


@pytest.fixture(scope="module")
def whole(federation):
    """Return the fit with each way to add, made once."""
    return cache(lambda averaging="masked": fitted(federation, averaging=averaging))


@pytest.mark.slow
class TestOnProcesses:
    @pytest.mark.parametrize("averaging", ["masked", "recovering", "shared", "plain"])
    def test_labels_are_those_of_centres_as_good_as_pooled_ones(self, whole, averaging):
        model = whole(averaging)
        pooled = KMeans(K, n_init=10, random_state=0).fit(POOLED)
        inertia = inertia_of(IN_ORDER, model.cluster_centers_)
        assert inertia <= 1.003 * pooled.inertia_
        assert inertia <= model.inertia_ <= 1.01 * inertia
        np.testing.assert_array_equal(
            model.labels_.values, nearest_labels(IN_ORDER, model.cluster_centers_)
        )
        assert 5 < model.n_rounds_ < 80

    def test_what_leaves_a_client_and_that_masks_change_nothing(self, whole):
        model = whole()
        told = {row.message for row in model.ledger_ if row.sender.startswith("client")}
        assert told == {"PublicKeys", "Magnitude", "MaskedPart", "LabelledSamples"}
        plain = whole("plain")
        np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-9)
        np.testing.assert_array_equal(model.labels_, plain.labels_)
        again = whole("shared")  # masks of other clients, and the same sums
        np.testing.assert_array_equal(model.cluster_centers_, again.cluster_centers_)

    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        ("factor", "shift"), [(1e60, 0.0), (1e9, 0.0), (1e-30, 0.0), (1.0, 1e7), (1e4, 1e13)]
    )
    def test_the_unit_of_the_features_changes_no_label(self, tmp_path, factor, shift):
        own = {name: factor * rows + shift for name, rows in ROWS.items()}
        with Federation.local(stores_of(tmp_path, own)) as federation:
            model = fitted(federation)
        pooled = KMeans(K, n_init=10, random_state=0).fit(POOLED)
        centers = (model.cluster_centers_ - shift) / factor
        assert inertia_of(IN_ORDER, centers) <= 1.003 * pooled.inertia_

    def test_one_cluster_is_the_mean_of_all(self, federation):
        model, mixture = FederatedKMeans(1), FederatedGaussianMixture(1)
        for found in (model.fit(federation).cluster_centers_, mixture.fit(federation).means_):
            np.testing.assert_allclose(found, POOLED.mean(axis=0)[None], rtol=1e-12)
        assert not np.concatenate([model.labels_, mixture.labels_]).any()

    @pytest.mark.parametrize("wide", [1e15, 1e18])
    def test_centres_of_a_small_column_beside_a_large_one_are_its_means(self, tmp_path, wide):
        """As of children beside dates, in microseconds or nanoseconds."""
        random = np.random.default_rng(3)
        rows = np.column_stack([random.integers(0, 2, 90) * wide, random.random(90) + 5.0])
        rows[:, 0] += random.integers(0, 1000, 90)
        parts = dict(zip("abc", np.split(rows, 3), strict=True))
        with Federation.local(stores_of(tmp_path, parts)) as running:
            model = FederatedKMeans(2, random_state=0).fit(running)
        for label, center in enumerate(model.cluster_centers_):
            mean = rows[model.labels_.values == label, 1].mean()
            assert center[1] == pytest.approx(mean, rel=1e-4)

    def test_clusters_that_a_far_sample_takes_away_are_told_of(self, tmp_path):
        own = {**ROWS, "client-1": np.vstack([ROWS["client-1"], np.full((1, D), 1e7)])}
        with (
            Federation.local(stores_of(tmp_path, own)) as federation,
            pytest.warns(ConvergenceWarning, match=r"found \d of 4 clusters: .*clip"),
        ):
            fitted(federation)

    def test_parties_that_die_between_rounds_change_nothing(self, federation, whole, monkeypatch):
        dies, killed, begin = {4: "client-2", 5: "server"}, [], federation.next_round

        def kill():
            begin()
            if federation.round in dies:
                killed.append(federation.processes.pid(dies.pop(federation.round)))
                os.kill(killed[-1], signal.SIGKILL)

        undisturbed = whole()
        monkeypatch.setattr(federation, "next_round", kill)
        model = fitted(federation)
        assert len(killed) == 2
        np.testing.assert_array_equal(model.cluster_centers_, undisturbed.cluster_centers_)
        np.testing.assert_array_equal(model.labels_, undisturbed.labels_)

    def test_new_samples_get_the_nearest_centre_and_nothing_else_is_told(
        self, federation, whole, tmp_path
    ):
        model = whole()
        new = {"client-2": ROWS["client-2"][:7] + 0.5, "client-3": ROWS["client-3"][:1]}
        federation.start_run("another", random_state=0)
        found = model.predict(federation, stores_of(tmp_path, new))
        rows = np.concatenate(list(new.values()))
        np.testing.assert_array_equal(found.values, nearest_labels(rows, model.cluster_centers_))
        told = {row.message for row in federation.ledger if row.sender != "server"}
        assert told <= {"LabelledSamples", "NewStore", "StoreSummary"}

    def test_noise_is_in_every_sum_and_in_the_ledger(self, federation):
        model = fitted(federation, noise=NOISE)
        releases = federation.ledger.releases()
        assert set(releases) == set(ROWS)
        for own in releases.values():
            assert len(own.events) == model.privacy_["releases"] == 6
            assert own.epsilon(1e-5) == pytest.approx(2.0, rel=1e-6)
        assert model.privacy_["epsilon"] == pytest.approx(2.0, rel=1e-6)
        bare = [
            row for row in model.ledger_
            if row.message == "MaskedPart" and row.noise_multiplier is None
        ]  # fmt: skip
        assert len(bare) == len(ROWS)  # of the numbers of rows
        told = {row.message for row in model.ledger_ if row.sender.startswith("client")}
        assert told == {"PublicKeys", "Magnitude", "MaskedPart", "LabelledSamples"}
        assert model.inertia_ is None
        assert not model.can_start_again()
        words = noise_in_words({**model.privacy_, "fits": 1, "epsilon_of_all_fits": 1.0})
        assert words.startswith("on sums, multiplier")

    def test_a_noisy_fit_that_broke_off_does_not_release_again(
        self, federation, monkeypatch, tmp_path
    ):
        class Stop(Exception):
            pass

        begin = federation.next_round

        def stop():
            begin()
            if federation.round == 2:
                raise Stop

        monkeypatch.setattr(federation, "workspace", str(tmp_path))
        monkeypatch.setattr(federation, "next_round", stop)
        with pytest.raises(Stop):
            fitted(federation, noise=NOISE)
        monkeypatch.setattr(federation, "next_round", begin)
        with pytest.raises(PartyError, match="an earlier start of this fit"):
            fitted(federation, noise=NOISE)
        assert not federation.ledger.releases()


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        (
            {"n_init": 0},
            "'n_init' parameter of FederatedKMeans must be a whole number of at least 1",
        ),
        ({"averaging": "open"}, "'averaging' parameter"),
        ({"noise": 3}, "must be a mapping"),
        ({"noise": {"delta": 1e-5, "largest_norm": 1}}, "one of 'epsilon' and 'multiplier'"),
        ({"noise": {"delta": 1e-5, "epsilon": 1.0}}, "must have 'largest_norm'"),
        ({"noise": {**NOISE, "rounds": 0}}, "'rounds' parameter of the noise of FederatedKMeans"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(params, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        FederatedKMeans(3, **params).check()


def test_two_clients_that_may_not_collude_are_the_fewest():
    FederatedKMeans(3).check(2)
    with pytest.raises(PrivacyError, match="at least two honest clients"):
        FederatedKMeans(3, n_colluding=1).check(2)
    FederatedKMeans(3, averaging="plain").check(1)
