"""A federated Gaussian mixture on real worker processes, held against scikit-learn's."""

import os
import signal
from collections import Counter
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import daskfc
from daskfc import FederatedGaussianMixture
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.protocols.federated_mixture import party, server
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.testing.federation import stores_of

K, D = 3, 3
KINDS = ["full", "tied", "diag", "spherical"]
ENDED = "ended after max_iter=[0-9]+ iterations, while the log-likelihood rises"


def clouds(seed=0, sizes=(500, 300, 400), centres=((0, 0, 0), (2, 1, 0), (0, 2, 2)), width=0.5):
    """Overlapping clouds of different shapes, with features of deviation 1 and mean 0."""
    random = np.random.default_rng(seed)
    parts = [
        random.normal(size=(n, D)) @ (np.eye(D) + width * random.normal(size=(D, D))) + centre
        for n, centre in zip(sizes, centres, strict=True)
    ]
    X = random.permutation(np.concatenate(parts))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def dealt(X, ends=(7, 500)):
    """Return rows by client, of very different numbers."""
    return {f"client-{i}": part for i, part in enumerate(np.split(X, ends), 1)}


X = clouds()
ROWS = dealt(X)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation.local(stores_of(tmp_path_factory.mktemp("stores"), ROWS)) as running:
        yield running


def fitted(federation, k=K, *, tol=0.01, **params):
    return FederatedGaussianMixture(k, tol=tol, **params).fit(federation)


@pytest.fixture(scope="module")
def whole(federation):
    """Return the fit with each kind of covariance, made once."""
    return cache(lambda covariance="full": fitted(federation, covariance=covariance))


def iterated(federation, n, **params):
    """Return a fit of n iterations and no fewer."""
    with pytest.warns(ConvergenceWarning, match=ENDED):
        model = fitted(federation, tol=0.0, max_iter=n, **params)
    assert model.n_iter_ == n
    assert not model.converged_
    return model


def precisions(model):
    """Return a model's precisions, as scikit-learn's `precisions_init` has them."""
    inverse = np.linalg.inv if model.covariance in ("full", "tied") else np.reciprocal
    return inverse(model.covariances_)


def pooled(model, rows, **params):
    """Return scikit-learn's mixture of pooled rows, from a federated one's parameters."""
    return GaussianMixture(
        len(model.weights_),
        covariance_type=model.covariance,
        weights_init=model.weights_,
        means_init=model.means_,
        precisions_init=precisions(model),
        reg_covar=model.reg_covar,
        **params,
    ).fit(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "argument", "told"),
    [
        (
            server.weighed,
            1,
            "masses are of other parameters",
        ),  # in which enough samples changed
        (party.own_masses, 1, "responsibilities other than"),  # since the fit began
        (party.responsibilities, 1, "responsibilities other than"),
    ],
)
def test_what_was_summed_before_opens_no_other_sum(federation, monkeypatch, step, argument, told):
    """Each is what a submitter did for changes of single samples to be opened."""
    first = []

    def changed(own):
        def verb(asked, *given, **how):
            if asked is step:
                first.append(given[argument])
                given = (*given[:argument], first[0], *given[argument + 1 :])
            return own(asked, *given, **how)

        return verb

    for name in ("on_server", "on_clients", "inline"):
        monkeypatch.setattr(federation, name, changed(getattr(federation, name)))
    with pytest.raises((PrivacyError, PartyError), match=told):
        fitted(federation, tol=0.0, max_iter=4)
    assert len(first) > 1


@pytest.mark.slow
def test_no_second_fit_is_opened_in_a_start(federation, monkeypatch):
    """By their difference two fits tell single samples, and a site counts starts."""
    monkeypatch.setattr(federation, "end_run", lambda *_, **__: None)
    fitted(federation)
    monkeypatch.setattr(federation, "start_run", lambda *_, **__: None)
    with pytest.raises((PrivacyError, PartyError), match="used for another content before"):
        fitted(federation, random_state=7)


@pytest.mark.slow
class TestOnProcesses:
    @pytest.mark.few(2)
    @pytest.mark.parametrize("covariance", KINDS)
    @pytest.mark.filterwarnings("ignore:Best performing initialization")
    def test_iterations_are_those_of_pooled_samples(self, federation, whole, covariance):
        first = whole(covariance)
        model = iterated(federation, first.n_iter_ + 5, covariance=covariance)
        same = pooled(first, X, max_iter=5, tol=0.0)
        np.testing.assert_allclose(model.weights_, same.weights_, rtol=1e-9)
        np.testing.assert_allclose(model.means_, same.means_, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.covariances_, same.covariances_, rtol=0, atol=1e-9)
        assert model.lower_bound_ == pytest.approx(same.score(X), rel=1e-9)
        assert model.aic_ == pytest.approx(same.aic(X), rel=1e-9)
        assert model.bic_ == pytest.approx(same.bic(X), rel=1e-9)
        np.testing.assert_array_equal(model.labels_.values, same.predict(X))
        assert len(model.lower_bounds_) == model.n_iter_ + 1
        assert np.all(np.diff(model.lower_bounds_) > 0)

    def test_a_fit_rests_where_that_of_pooled_samples_does(self, federation):
        model = fitted(federation, tol=1e-3, covariance="diag")
        assert model.converged_
        assert model.lower_bounds_[-1] == model.lower_bound_
        assert abs(np.diff(model.lower_bounds_)[-1]) < model.tol < np.diff(model.lower_bounds_)[0]
        pooled_ones = GaussianMixture(
            K, covariance_type="diag", n_init=5, random_state=0, max_iter=500
        ).fit(X)
        assert model.lower_bound_ > pooled_ones.lower_bound_ - 0.02

    def test_what_leaves_a_client_and_that_masks_change_nothing(self, federation, whole):
        model = whole()
        told = {row.message for row in model.ledger_ if row.sender.startswith("client")}
        assert told == {
            "PublicKeys", "Magnitude", "MaskedPart", "ColumnMagnitudes", "LabelledSamples"
        }  # fmt: skip
        got = {row.message for row in model.ledger_ if row.sender == "server"}
        assert got == {
            "CommonMagnitudes", "FittedMeans", "Magnitude", "MixtureUnits", "KMeansProposal",
            "KMeansCounts", "KMeansProgress", "Mixture", "MixtureHeld", "MixtureProgress",
        }  # fmt: skip
        plain = fitted(federation, averaging="plain")
        np.testing.assert_allclose(model.means_, plain.means_, atol=1e-9)
        np.testing.assert_array_equal(model.labels_, plain.labels_)

    def test_a_plan_foresees_the_messages(self, federation, whole):
        model = whole("tied")
        own = [row for row in model.ledger_ if row.receiver == "client-1"]
        groups = [row.shapes["counts"][0] for row in own if row.message == "KMeansCounts"]
        assumed = {
            "rounds of k-means": len(groups) - 1,  # the last one moves all rows
            "groups of rows of each cluster, in k-means": np.mean(groups) / K,
            "iterations of the mixture": model.n_iter_,
        }
        stores = dict(federation.contract.readable)
        rehearsal = Rehearsal(stores, STAND_INS, assumed=assumed, limits=federation.limits())
        FederatedGaussianMixture(K, covariance="tied").rehearse(rehearsal)
        planned, found = (
            Counter((row.message, row.sender, row.receiver) for row in ledger)
            for ledger in (rehearsal.ledger, model.ledger_)
        )
        assert planned == found
        assert rehearsal.ledger.payload_bytes == pytest.approx(model.ledger_.payload_bytes, rel=0.3)

    def test_another_dealing_gives_the_same_mixture(self, whole, tmp_path):
        """With sums that get over a client that leaves, too."""
        model = whole()
        own = dealt(X[::-1], ends=(900, 1195))
        with Federation.local(stores_of(tmp_path, own)) as other:
            found = fitted(other, averaging="recovering")
        np.testing.assert_allclose(found.means_, model.means_, atol=1e-9)
        np.testing.assert_allclose(found.covariances_, model.covariances_, atol=1e-9)
        np.testing.assert_array_equal(found.labels_.values, model.labels_.values[::-1])

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        ("covariance", "factor", "shift"),
        [
            ("full", 1e-160, 0.0), ("spherical", 1e120, 0.0), ("full", 1e-30, 0.0),
            ("full", 1.0, 1e8), ("spherical", 1e3, 1e11),
        ],
    )  # fmt: skip
    def test_the_unit_of_the_features_changes_nothing(
        self, whole, tmp_path, covariance, factor, shift
    ):
        model = whole(covariance)
        own = {name: factor * rows + shift for name, rows in ROWS.items()}
        with Federation.local(stores_of(tmp_path, own)) as other:
            found = fitted(other, covariance=covariance)
        np.testing.assert_allclose(found.weights_, model.weights_, atol=1e-6)
        np.testing.assert_allclose((found.means_ - shift) / factor, model.means_, atol=1e-6)
        assert (found.labels_.values == model.labels_.values).mean() > 0.999
        expected = model.lower_bound_ - D * np.log(factor)
        assert found.lower_bound_ == pytest.approx(expected, abs=1e-6)

    @pytest.mark.few(2)
    @pytest.mark.parametrize("covariance", ["full", "tied", "diag"])
    def test_features_of_different_units_count_alike(self, whole, tmp_path, covariance):
        model = whole(covariance)
        factors, shift = np.array([1e-30, 1.0, 1e8]), np.array([0.0, 1e6, -1e9])
        own = {name: factors * rows + shift for name, rows in ROWS.items()}
        with Federation.local(stores_of(tmp_path, own)) as other:
            found = fitted(other, covariance=covariance)
            np.testing.assert_allclose((found.means_ - shift) / factors, model.means_, atol=1e-8)
            scales = np.outer(factors, factors) if covariance != "diag" else factors**2
            np.testing.assert_allclose(found.covariances_ / scales, model.covariances_, atol=1e-8)
            other.start_run("another", random_state=0)
            again = found.predict(other)
        np.testing.assert_array_equal(again.values, model.labels_.values)

    def test_a_mixture_is_of_the_prepared_features(self, whole, tmp_path):
        """Prepared rows were seen in units of those in the store: no cluster was found."""
        own = {name: np.array([1e4, 1.0, 1e-3]) * rows + 5e4 for name, rows in ROWS.items()}
        with Federation.local(stores_of(tmp_path, own)) as other:
            other.preparation = daskfc.Prepare("standardise").fit(other)
            found = fitted(other)
            again = found.predict(other)
        model = whole()
        np.testing.assert_allclose(found.means_, model.means_, atol=1e-6)
        np.testing.assert_array_equal(found.labels_.values, model.labels_.values)
        np.testing.assert_array_equal(again.values, model.labels_.values)

    @pytest.mark.few(2)
    @pytest.mark.parametrize("covariance", ["tied", "full", "spherical", "diag"])
    def test_one_component_has_the_mean_and_covariance_of_all(self, federation, covariance):
        model = fitted(federation, 1, covariance=covariance, reg_covar=0.0)
        variance = X.var(axis=0)
        expected = {
            "full": np.cov(X.T, bias=True)[None], "tied": np.cov(X.T, bias=True),
            "diag": variance[None], "spherical": [variance.mean()],
        }  # fmt: skip
        np.testing.assert_allclose(model.means_[0], X.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(model.covariances_, expected[covariance], atol=1e-9)
        assert model.converged_
        assert not model.labels_.values.any()

    def test_equal_samples_leave_components_without_any_and_are_told_of(self, tmp_path):
        values = np.array([[2.5, -1e3], [4.5, 0.1]])
        own = {name: np.repeat(values, 25, axis=0) for name in "abc"}
        with (
            Federation.local(stores_of(tmp_path, own)) as federation,
            pytest.warns(ConvergenceWarning, match="found 2 of 3 clusters"),
        ):
            model = fitted(federation, 3, covariance="diag")
        assert sorted(model.weights_) == pytest.approx([0.0, 0.5, 0.5])
        assert np.isfinite(model.means_).all()

    def test_samples_without_variance_are_refused(self, tmp_path):
        own = {name: np.repeat([[1.0, 2.0], [3.0, 1.0]], 9, axis=0) for name in "abc"}
        with (
            Federation.local(stores_of(tmp_path, own)) as federation,
            pytest.raises(PartyError, match="covariance is singular"),
        ):
            fitted(federation, 2, reg_covar=0.0)

    def test_components_of_one_client_alone_are_not_opened_between_sites(self, tmp_path):
        far = np.random.default_rng(1).normal(size=(60, D)) + 30.0
        own = {**ROWS, "client-3": np.vstack([ROWS["client-3"], far])}
        with Federation.local(stores_of(tmp_path, own)) as federation:
            free = fitted(federation, 4)
            assert (free.means_.max(axis=1) > 3).sum() == 1
            federation.smallest = federation.smallest._replace(clients=2)
            with pytest.warns(ConvergenceWarning):
                held = fitted(federation, 4)
        assert not (held.means_[held.weights_ > 0].min(axis=1) > 3).any()

    def test_few_samples_end_iterations_before_the_sums_tell_all(self, tmp_path):
        own = dealt(X[:60], ends=(20, 40))
        with (
            Federation.local(stores_of(tmp_path, own)) as federation,
            pytest.warns(ConvergenceWarning, match="as many numbers as all samples have"),
        ):
            model = fitted(federation, 2, tol=0.0)
        assert not model.converged_
        assert model.n_iter_ < 10

    def test_parties_that_die_between_iterations_change_nothing(
        self, federation, whole, monkeypatch
    ):
        undisturbed, killed, progress = whole(), [], federation.publish
        left = ["client-2", "server"]

        def kill(what, *args, **options):
            name = getattr(what, "__name__", "")
            if name == "progress" and args and left and "Mixture" in sent():
                killed.append(federation.processes.pid(left.pop()))
                os.kill(killed[-1], signal.SIGKILL)
            return progress(what, *args, **options)

        def sent():
            return {row.message for row in federation.ledger}

        monkeypatch.setattr(federation, "publish", kill)
        model = fitted(federation)
        assert len(killed) == 2
        np.testing.assert_array_equal(model.covariances_, undisturbed.covariances_)
        np.testing.assert_array_equal(model.labels_, undisturbed.labels_)

    @pytest.mark.filterwarnings("ignore:Best performing initialization")
    def test_new_samples_get_the_most_probable_component(self, federation, whole, tmp_path):
        model = whole()
        model.save(tmp_path / "model")
        new = {"client-2": ROWS["client-2"][:7] + 0.5, "client-3": ROWS["client-3"][:1]}
        federation.start_run("another", random_state=0)
        urls = stores_of(tmp_path, new)
        found = daskfc.load(tmp_path / "model").predict(federation, urls)
        same = pooled(model, X, max_iter=1, tol=1e9)
        same.weights_, same.means_ = model.weights_, model.means_
        same.precisions_cholesky_ = np.linalg.cholesky(precisions(model))
        np.testing.assert_array_equal(found.values, same.predict(np.concatenate([*new.values()])))
        told = {row.message for row in federation.ledger if row.sender != "server"}
        assert told <= {"LabelledSamples", "NewStore", "StoreSummary"}


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"covariance": "round"}, "'covariance' parameter"),
        ({"reg_covar": -1.0}, "'reg_covar' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"averaging": "open"}, "'averaging' parameter"),
    ],
)
def test_parameters_that_break_their_rule_are_refused(params, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        FederatedGaussianMixture(3, **params).check()


def test_two_clients_that_may_not_collude_are_the_fewest():
    FederatedGaussianMixture(3).check(2)
    with pytest.raises(PrivacyError, match="at least two honest clients"):
        FederatedGaussianMixture(3, n_colluding=1).check(2)
    FederatedGaussianMixture(3, averaging="plain").check(1)


def test_a_fit_that_would_move_single_samples_ends_with_a_warning():
    table = load_wine().data
    with daskfc.simulate(table, clients=4) as federation:
        model = FederatedGaussianMixture(3, covariance="diag", random_state=0)
        with pytest.warns(ConvergenceWarning, match="at iteration 1, .* fewer than five samples"):
            model.fit(federation)
    assert not model.converged_
