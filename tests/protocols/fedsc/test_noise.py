"""FedSC's noise: from budgets to mechanisms, on worker processes, and in the ledger."""

import math

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import Federation
from daskfc.privacy import Accountant, GaussianEvent, Noised, classical_sigma, gaussian_sigma
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc.maths.kernel_dictionary import local_update
from daskfc.protocols.fedsc.messages import Dictionary, FinalDictionary, KernelPlan
from daskfc.protocols.fedsc.party import rows_of, samples_of, weighted_update
from daskfc.protocols.fedsc.privacy.noise import DataNoise, FactorNoise, RelativeNoise, noise_of
from daskfc.protocols.fedsc.privacy.noise_scale import composed_sigma
from daskfc.testing.federation import stores_of
from tests.protocols.fedsc.one_place import ROWS, K

DELTA = 1e-5
DATA = {"kind": "data", "epsilon": 2.0, "delta": DELTA, "clip": 10.0}
FACTORS = {"kind": "factors", "epsilon": 4.0, "delta": DELTA, "clip": 1.0}
KEY = SecretKey.from_bytes(bytes(range(32)))


def budget(noise, rounds):
    return Accountant(noise.events(rounds)).epsilon(DELTA)


def test_a_budget_becomes_noise_that_spends_all_of_it_and_no_more():
    for asked in (DATA, FACTORS):
        spent = budget(noise_of(asked, rounds=7, ridge=1e-3), 7)
        assert 0.999999 * asked["epsilon"] <= spent <= asked["epsilon"]
    data = noise_of(DATA, rounds=7, ridge=1e-3)
    assert data.sigma == pytest.approx(gaussian_sigma(2.0, DELTA, 20.0), rel=1e-9)
    factors = noise_of(FACTORS, rounds=7, ridge=1e-3)
    assert factors.dictionary_multiplier == pytest.approx(factors.coefficient_multiplier)
    assert factors.sigma_coefficients == pytest.approx(
        factors.dictionary_multiplier / math.sqrt(2e-3)
    )


def test_noise_given_by_its_size_has_the_cost_that_follows():
    data = noise_of(
        {"kind": "data", "sigma": 30.0, "clip": 10.0, "delta": DELTA}, rounds=1, ridge=1
    )
    assert data.events(5) == (GaussianEvent(1.5),)
    asked = {"kind": "factors", "sigma_dictionary": 4.0, "sigma_coefficients": 30.0, "clip": 1.0}
    factors = noise_of({**asked, "delta": DELTA}, rounds=3, ridge=0.5)
    assert factors.events(3) == (GaussianEvent(2.0, 3), GaussianEvent(30.0))
    assert noise_of({"kind": "data", "sigma": 1.0}, rounds=1, ridge=1).events(1) == ()


def test_published_formulas_are_valid_in_their_ranges_only():
    small = {**DATA, "epsilon": 0.5, "formula": "published"}
    published = noise_of(small, rounds=1, ridge=1e-3)
    assert published.sigma == classical_sigma(0.5, DELTA, 20.0)
    assert budget(published, 1) < 0.5
    with pytest.raises(InvalidInput, match="epsilon"):
        noise_of({**DATA, "formula": "published"}, rounds=1, ridge=1e-3)
    factors = noise_of({**FACTORS, "epsilon": 1.0, "formula": "published"}, rounds=5, ridge=1e-3)
    assert factors.sigma_dictionary == composed_sigma(0.5, DELTA / 2, 2.0, 5)
    assert factors.sigma_coefficients == classical_sigma(0.5, DELTA / 2, 1 / math.sqrt(2e-3))
    assert budget(factors, 5) < 1.0


def test_what_is_left_of_a_budget_after_a_start_that_broke_off():
    first = noise_of(FACTORS, rounds=5, ridge=1e-3)
    spent = Accountant((GaussianEvent(first.dictionary_multiplier, 3),))
    rest = noise_of(FACTORS, rounds=3, ridge=1e-3, spent=spent)  # the third round once more
    assert rest.sigma_dictionary > first.sigma_dictionary
    assert spent.compose(*rest.events(3)).epsilon(DELTA) == pytest.approx(4.0, rel=1e-6)
    whole = Accountant(noise_of(DATA, rounds=5, ridge=1e-3).events(5))
    with pytest.raises(PrivacyError, match="the whole of its budget of 2; noise is never used"):
        noise_of(DATA, rounds=5, ridge=1e-3, spent=whole)


@pytest.mark.parametrize(
    "asked",
    [{**DATA, "epsilon": 0.5, "formula": "published"}, {**FACTORS, "formula": "published"}],
)
def test_published_formulas_keep_the_budget_over_all_starts(asked):
    asked = {**asked, "epsilon": 0.5}
    spent = None
    for _ in range(9):
        try:
            noise = noise_of(asked, rounds=5, ridge=1e-3, spent=spent)
        except PrivacyError:
            break
        # the one release, or four rounds, after which the start breaks off
        events = noise.events(4)[:1]
        spent = Accountant(events) if spent is None else spent.compose(*events)
        assert spent.epsilon(DELTA) <= 0.5


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ("much", "be a mapping with 'kind'"),
        ({"kind": "labels"}, "be a mapping with 'kind'"),
        ({"kind": "data"}, "one of 'sigma' and 'epsilon'"),
        ({**DATA, "sigma": 1.0}, "one of 'sigma' and 'epsilon'"),
        ({"kind": "data", "epsilon": 1.0}, "have 'delta' and 'clip' beside 'epsilon'"),
        ({"kind": "data", "sigma": 1.0, "clip": 1.0}, "both or none of 'clip' and 'delta'"),
        ({"kind": "data", "sigma": -1.0}, "'sigma' parameter of the noise of FedSC"),
        ({"kind": "data", "relative_dictionary": 1.0}, "no parameter 'relative_dictionary'"),
        ({**DATA, "predictions": -1}, "'predictions' parameter of the noise of FedSC"),
        ({**DATA, "predictions": 1, "epsilon": 0.5, "formula": "published"}, "exact formula"),
        ({"kind": "data", "sigma": 1.0, "predictions": 1}, "'predictions' beside 'epsilon'"),
        ({**FACTORS, "delta": 1.0}, "strictly between 0 and 1"),
        ({**FACTORS, "sigma_dictionary": 1.0}, "either 'epsilon' or both"),
        ({"kind": "factors", "clip": 1.0, "delta": DELTA}, "either 'epsilon' or both"),
        ({"kind": "factors", "relative_dictionary": 0.1, "clip": 1.0}, "nothing beside shares"),
    ],
)
def test_what_is_no_noise(asked, match):
    with pytest.raises(InvalidInput, match=match):
        noise_of(asked, rounds=5, ridge=1e-3)


def test_noise_is_the_same_when_a_step_is_repeated_and_new_for_everything_else():
    noise, X = DataNoise(2.0, 100.0, DELTA), np.zeros((40, 30))
    one = noise.applied(X, KEY, "clustered")
    np.testing.assert_array_equal(noise.applied(X, KEY, "clustered"), one)
    others = [
        noise.applied(X, KEY.derive("other run"), "clustered"),
        noise.applied(X, KEY, "new"),
        noise.applied(X + 1e-9, KEY, "clustered"),
        DataNoise(2.0, 99.0, DELTA).applied(X, KEY, "clustered"),
        DataNoise(np.nextafter(2.0, 3.0), 100.0, DELTA).applied(X, KEY, "clustered"),
    ]
    factors = FactorNoise(2.0, 2.0, 1.0, 1e-3, DELTA)
    rounds = [factors.on_dictionary(X, KEY, "a", number).values for number in (1, 2)]
    wider = FactorNoise(2.0, 2.0, 2.0, 1e-3, DELTA).on_dictionary(X, KEY, "a", 1).values
    ends = [factors.on_coefficients(X, KEY, inputs).values for inputs in "ab"]
    all_of_them = np.stack([one, *others, *rounds, wider, *ends])
    correlations = np.corrcoef(all_of_them.reshape(len(all_of_them), -1))
    assert np.abs(correlations - np.eye(len(all_of_them))).max() < 0.15  # 4.9 of 1 / sqrt(1200)
    assert all_of_them.std() == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("what", ["sigma", "clip", "dictionary", "steps"])
def test_a_repeated_start_cannot_subtract_noise(what):
    """Twice the same noise under another σ gave rows back to 3e-8 by their difference."""
    random = np.random.default_rng(0)
    X, Z = random.normal(size=(30, 4)), random.normal(size=(5, 4))
    if what == "sigma":
        one, two = (DataNoise(s, 50.0, DELTA).applied(X, KEY, "clustered") for s in (20.0, 40.0))
        found, true = (one / 20.0 - two / 40.0) / (1 / 20.0 - 1 / 40.0), X
    elif what == "clip":
        one, two = (DataNoise(20.0, c, DELTA).applied(X, KEY, "clustered") for c in (1e-6, 50.0))
        found, true = two - one, X
    else:
        noise, plan = FactorNoise(20.0, 1.0, 50.0, 1e-3, DELTA), KernelPlan(1.0, 5, 4, 1.0, 30)

        def told(Z, steps):
            return weighted_update(
                X, Dictionary(Z), plan, KEY, ridge=1e-3, steps=steps,
                uniform=True, noise=noise, number=1,
            ).values  # fmt: skip

        def change(Z, steps):
            return local_update(X, Z, 1.0, 1e-3, steps=steps) - Z

        other = (Z + 0.1, 1) if what == "dictionary" else (Z, 3)
        found = told(Z, 1) - told(*other)
        true = change(Z, 1) - change(*other)
    assert np.abs(found - true).mean() > 5.0


def test_rows_are_shortened_before_they_are_perturbed():
    far = np.full((50, 20), 1e6)
    noisy = DataNoise(0.5, 2.0, DELTA).applied(far, KEY, "clustered")
    assert np.linalg.norm(noisy.mean(axis=0)) == pytest.approx(2.0, abs=0.5)


def test_a_change_of_the_dictionary_is_shortened_whatever_the_data():
    noise = FactorNoise(1e-3, 1.0, 0.5, 1e-3, DELTA)
    Z = np.random.default_rng(0).normal(size=(5, 4))
    plan = KernelPlan(1.0, 5, 4, 1.0, 60)
    for scale in (1.0, 100.0):
        X = scale * np.random.default_rng(1).normal(size=(30, 4))
        part = weighted_update(
            X, Dictionary(Z), plan, KEY, ridge=1e-3, steps=1,
            uniform=False, noise=noise, number=1,
        )  # fmt: skip
        assert isinstance(part, Noised)
        assert part.noise_multiplier == 1e-3
        assert np.linalg.norm(part.values) <= 0.5 * (0.5 + 0.02)  # half of the largest client


def test_noise_relative_to_the_factors_is_of_their_spread():
    noise, C = RelativeNoise(0.1, 0.5), np.random.default_rng(0).normal(size=(40, 200))
    noisy = noise.on_coefficients(C, KEY, "rows")
    assert (noisy - C).std() == pytest.approx(0.5 * C.std(), rel=0.05)
    X, Z = (
        np.random.default_rng(1).normal(size=(60, 3)),
        np.random.default_rng(2).normal(size=(8, 3)),
    )
    final, plan = FinalDictionary(Z, np.eye(8)), KernelPlan(1.0, 8, 3, 1.0, 60)
    clean = rows_of(X, final, None, plan, KEY, ridge=0.1, noise=None)
    nothing = rows_of(X, final, None, plan, KEY, ridge=0.1, noise=RelativeNoise(0.0, 0.0))
    np.testing.assert_array_equal(nothing, clean)
    assert samples_of.__doc__


# -- on worker processes ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation.local(stores_of(tmp_path_factory.mktemp("stores"), ROWS)) as running:
        yield running


def events(model):
    return {name: own.events for name, own in model.ledger_.releases().items()}


@pytest.mark.slow
def test_perturbed_data_are_one_release_of_each_client(federation):
    model = FedSC(K, noise=DATA).fit(federation)
    sigma = gaussian_sigma(2.0, DELTA, 20.0)
    assert model.privacy_ == {
        "kind": "data", "sigma": pytest.approx(sigma), "clip": 10.0, "delta": DELTA,
        "epsilon": pytest.approx(2.0),
    }  # fmt: skip
    assert events(model) == {name: (GaussianEvent(model.privacy_["sigma"] / 20),) for name in ROWS}
    noised = {row.message for row in model.ledger_ if row.noise_multiplier is not None}
    assert noised == {"KernelSummary"}  # the first that says anything of the data
    assert model.kernel_width_ > sigma  # of the noise, not of the flowers


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("averaging", ["masked", "plain", "recovering", "shared"])
def test_perturbed_factors_are_released_in_every_round_and_once_more(federation, averaging):
    params = {"kernel_width": 2.5, "n_atoms": 8, "start": "normal", "rounds": 3}
    model = FedSC(K, noise=FACTORS, averaging=averaging, **params).fit(federation)
    found = events(model)
    assert set(found) == set(ROWS)
    assert {len(own) for own in found.values()} == {4}
    assert model.privacy_["epsilon"] == pytest.approx(4.0)
    from_clients = [row for row in model.ledger_ if row.sender != "server"]
    bare = {row.message for row in from_clients if row.noise_multiplier is None}
    public = {
        "KeyOffer",
        "SealedDigestKey",
        "SampleDigests",
        "KernelSummary",
        "LabelledSamples",
        "PublicKeys",
    }
    assert bare <= public | {"KeyShares", "RevealedShares", "MaskSum"}
    np.testing.assert_array_equal(np.unique(model.labels_.values), np.arange(K))


@pytest.mark.slow
def test_a_budget_is_not_reset_by_starting_again(federation, monkeypatch, tmp_path):
    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    params = {"kernel_width": 2.5, "n_atoms": 8, "start": "normal", "noise": FACTORS}

    def interrupt(stage, done, total):
        if (stage, done) == ("averaging", 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(federation, "on_progress", interrupt)
    with pytest.raises(KeyboardInterrupt):
        FedSC(K, **params).fit(federation)
    monkeypatch.setattr(federation, "on_progress", None)
    resumed = FedSC(K, **params).fit(federation)
    assert resumed.privacy_["epsilon"] == pytest.approx(4.0)
    assert {len(own) for own in events(resumed).values()} == {4}  # three rounds and the rows
    with pytest.raises(PrivacyError, match="the whole of its budget"):
        FedSC(K, **params).fit(federation)
    assert not resumed.can_start_again()
    assert (len(resumed.released_before), len(resumed.released)) == (2, 6)
    elsewhere = FedSC(K, **params)  # the server's folder is lost, the driver's record is not
    elsewhere.remember(resumed.released)
    monkeypatch.setattr(federation, "workspace", str(tmp_path / "other"))
    with pytest.raises(PrivacyError, match="the whole of its budget"):
        elsewhere.fit(federation)


@pytest.mark.slow
def test_errors_beside_their_bounds(federation):
    clean = FedSC(K, diagnostics=True).fit(federation).reconstruction_
    noisy = FedSC(K, diagnostics=True, noise={"kind": "data", "sigma": 0.5}).fit(federation)
    rough = FedSC(
        K, diagnostics=True, noise={"kind": "factors", "relative_coefficients": 0.1}
    ).fit(federation)  # fmt: skip
    assert set(clean) == set(ROWS)
    for name in ROWS:
        own = noisy.reconstruction_[name]
        assert 0 < clean[name]["rms"] < clean[name]["error"] < clean[name]["bound"]
        assert clean[name]["error"] < own["error"] < own["bound"]
        assert rough.reconstruction_[name]["error"] > clean[name]["error"]
        assert math.isnan(rough.reconstruction_[name]["bound"])
    assert noisy.privacy_ == {
        "kind": "data", "sigma": 0.5, "clip": None, "epsilon": math.inf, "delta": None
    }  # fmt: skip


FEW = {"kernel_width": 2.5, "n_atoms": 8, "start": "normal", "rounds": 1}
CODED = {"rounds": 1, "similarity": "coded"}
SIZED = {"kind": "data", "sigma": 30.0, "delta": DELTA, "clip": 10.0}


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "params"),
    [(FACTORS, FEW), (DATA, {"rounds": 1}), (DATA, CODED), (SIZED, {"rounds": 1})],
    ids=["factors", "data", "coded", "sigma"],
)
def test_new_samples_are_a_release_that_is_counted(federation, tmp_path, asked, params):
    """The same rows again under fresh noise halve it; the ledger had no word of that."""
    more = {} if asked is SIZED else {"predictions": 1}
    model = FedSC(K, noise={**asked, **more}, **params).fit(federation)
    fitted, before = model.privacy_["epsilon"], events(model)["client-2"]
    new = stores_of(tmp_path, {"client-2": ROWS["client-2"]})
    found = model.predict(federation, new)
    assert len(found) == len(ROWS["client-2"])
    after = federation.ledger.releases()
    assert len(after["client-2"].events) == len(before) + 1
    assert len(after["client-1"].events) == len(before)
    assert model.privacy_["epsilon"] == pytest.approx(after["client-2"].epsilon(DELTA))
    assert fitted < model.privacy_["epsilon"]
    if asked is SIZED:  # no budget was named that could be exceeded
        assert model.predict(federation, new) is not None
        return
    assert model.privacy_["epsilon"] == pytest.approx(asked["epsilon"], rel=1e-6)
    before = len(federation.ledger)
    with pytest.raises(PrivacyError, match="predict would bring epsilon of client 'client-2' to"):
        model.predict(federation, new)
    assert {row.message for row in federation.ledger.rows[before:]} == {"StoreSummary"}
    assert model.privacy_["epsilon"] == pytest.approx(asked["epsilon"], rel=1e-6)


@pytest.mark.slow
def test_a_budget_that_is_spent_leaves_no_predictions_and_fit_is_never_repeated(
    federation, tmp_path
):
    new = stores_of(tmp_path, {"client-2": ROWS["client-2"]})
    model = FedSC(K, noise=DATA, rounds=1).fit(federation)
    with pytest.raises(PrivacyError, match=r"above the budget of 2; .* Fit with 'predictions'"):
        model.predict(federation, new)
    assert "SimilarityRows" in {row.message for row in federation.ledger}
    FedSC(K, rounds=1).fit(federation)
    with pytest.raises(PrivacyError, match="would release the data once more"):
        model.predict(federation, new)


@pytest.mark.parametrize("asked", [DATA, FACTORS])
def test_a_budget_suffices_for_the_predictions_that_it_names(asked):
    noise = noise_of({**asked, "predictions": 3}, rounds=2, ridge=1e-3)
    new = GaussianEvent(noise.prediction_multiplier, 3)
    spent = Accountant((*noise.events(2), new)).epsilon(DELTA)
    assert 0.999999 * asked["epsilon"] <= spent <= asked["epsilon"]


def test_what_would_undo_the_noise_is_refused():
    with pytest.raises(PrivacyError, match="Give 'kernel_width' and 'n_atoms', and start='normal'"):
        FedSC(K, noise=FACTORS).check()
    with pytest.raises(PrivacyError, match="measured on private data"):
        FedSC(K, noise=DATA, diagnostics=True).check()


@pytest.mark.slow
def test_a_fit_without_noise_claims_nothing_of_an_earlier_one(federation):
    model = FedSC(K, rounds=1, noise=DATA).fit(federation)
    assert "StoreContent" not in {row.message for row in model.ledger_}
    assert model.privacy_["delta"] == DELTA
    model.set_params(noise=None).fit(federation)
    assert not hasattr(model, "privacy_")
