"""Preparation within a budget: declared ranges, noise on the sums, one (epsilon, delta) in all."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine

from daskfc import FedSC, Prepare
from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import Federation
from daskfc.privacy import Accountant, GaussianEvent, noise_multiplier
from daskfc.secure.prepare.declared import Declared, noisy_moments
from daskfc.stores import ClientStore, write_store
from daskfc.testing.federation import stores_of

X, y = load_wine(return_X_y=True)
X = X[:, [0, 12]]  # alcohol in per cent, proline in mg/l
LOW, HIGH = {"alcohol": 10, "proline": 0}, {"alcohol": 16, "proline": 2000}
COLUMNS = ["alcohol", "proline"]
DECLARED = {"low": LOW, "high": HIGH}
DATA = {"kind": "data", "clip": 3.0, "epsilon": 2.0, "delta": 1e-5}


def noisily(**budget):
    return {"standardise": {**DECLARED, **budget}}


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    rows = {f"client-{i + 1}": X[i::3] for i in range(3)}
    columns = dict.fromkeys(rows, COLUMNS)
    urls = stores_of(tmp_path_factory.mktemp("stores"), rows, columns=columns)
    with Federation.local(urls) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_prepared(federation):
    federation.preparation = None
    yield
    federation.preparation = None


ends = st.floats(-0.5, 0.5)


@given(st.lists(st.tuples(ends, ends), min_size=1, max_size=5))
@settings(deadline=None)
def test_one_sample_moves_the_sums_by_the_root_of_the_columns(pairs):
    before, after = np.array(pairs).T
    moved = np.concatenate([before - after, 3 * (before**2 - after**2)])
    assert np.linalg.norm(moved) <= math.sqrt(len(pairs)) * (1 + 1e-12)


def test_sums_are_of_values_within_the_range_and_bear_the_noise_that_is_claimed(tmp_path):
    rows = np.array([[11.0, -5.0], [17.0, 500.0], [13.0, 1000.0]])
    write_store(str(tmp_path / "a"), "a", rows, feature_names=COLUMNS, dtype="float64")
    store = ClientStore.open(str(tmp_path / "a"))
    declared = Declared.of({**DECLARED, "epsilon": 1.0, "delta": 1e-5}, COLUMNS)
    assert declared.multiplier == noise_multiplier(1.0, 1e-5)
    v = np.array([[1 / 6, 0.0], [1.0, 0.25], [0.5, 0.5]]) - 0.5
    wanted = np.array([v.sum(axis=0), 3 * (v**2).sum(axis=0)])
    drawn = [noisy_moments(store, [], declared, 4, SecretKey.from_os()) for _ in range(2000)]
    noise = np.array([part.values for part in drawn]) - wanted
    sigma = declared.multiplier * math.sqrt(2) / 2  # a share of four, of two columns
    assert {part.noise_multiplier for part in drawn} == {declared.multiplier}
    # 8,000 numbers: their deviation is known to 0.8 %, their mean to 1.1 %
    np.testing.assert_allclose(noise.std(), sigma, rtol=0.04)
    assert abs(noise.mean()) < 0.06 * sigma
    key = SecretKey.from_os()
    first, again = (noisy_moments(store, [], declared, 4, key).values for _ in range(2))
    np.testing.assert_array_equal(first, again)
    later = noisy_moments(store, [{"step": "clip", "low": 0.0}], declared, 4, key).values - first
    assert np.abs(later).min() > 1e-6
    # in shares of another number the noise is another one, or both would solve for the sums
    whole = noisy_moments(store, [], declared, 1, key).values
    assert np.abs((2.0 * first - whole) - wanted).min() > 1e-6


@pytest.mark.slow
def test_with_a_large_budget_it_is_the_standardised(federation):
    prepared = Prepare(noisily(epsilon=100.0, delta=1e-3)).fit(federation)
    (step,) = prepared.steps["client-1"]
    width = np.array([6.0, 2000.0])
    sigma = noise_multiplier(100.0, 1e-3) * math.sqrt(2)
    np.testing.assert_allclose(step["mean"], X.mean(axis=0), atol=6 * sigma / len(X) * width.max())
    off = np.abs(np.array(step["mean"]) - X.mean(axis=0)) / width
    assert (off < 6 * sigma / len(X)).all()
    np.testing.assert_allclose(step["scale"], X.std(axis=0), rtol=0.1)
    told = {row.message: row for row in prepared.ledger}
    assert told.keys() == {"PublicKeys", "MaskedPart", "Magnitude", "SampleTotal", "NoisyScales"}
    multipliers = [r.noise_multiplier for r in prepared.ledger if r.noise_multiplier is not None]
    assert multipliers == [noise_multiplier(100.0, 1e-3)] * 3  # each client, once
    assert prepared.spent.epsilon(1e-3) == pytest.approx(100.0)
    assert prepared.bare == ()


@pytest.mark.slow
def test_preparation_and_fit_share_one_budget(federation):
    federation.preparation = Prepare(noisily(epsilon=0.5, delta=1e-5)).fit(federation)
    model = FedSC(3, rounds=1, noise=DATA).fit(federation)
    assert model.privacy_["epsilon"] < 2.0
    assert model.privacy_["epsilon_with_preparation"] == pytest.approx(2.0)
    (mine,) = {row.noise_multiplier for row in model.ledger_} - {None}
    both = federation.preparation.spent.compose(GaussianEvent(mine))
    assert both.epsilon(1e-5) == pytest.approx(2.0)
    federation.preparation = Prepare(noisily(epsilon=2.0, delta=1e-5)).fit(federation)
    with pytest.raises(PrivacyError, match="the whole of the budget of 2"):
        FedSC(3, rounds=1, noise=DATA).fit(federation)


@pytest.mark.slow
def test_what_is_declared_asks_nothing(federation):
    prepared = Prepare(["log", {"clip": {"low": 0}}, {"min-max": {"low": 0, "high": {
        "alcohol": 4, "proline": 8}}}]).fit(federation)  # fmt: skip
    assert len(prepared.ledger) == 0
    assert prepared.steps["client-1"][-1] == {
        "step": "min-max", "low": [0.0, 0.0], "width": [4.0, 8.0]
    }  # fmt: skip
    assert prepared.spent == Accountant()
    federation.preparation = prepared
    model = FedSC(3, rounds=1, noise=DATA).fit(federation)
    assert model.privacy_["epsilon"] == pytest.approx(2.0)


@pytest.mark.slow
def test_a_run_that_goes_on_hears_the_same_noise(federation, tmp_path):
    federation.workspace = str(tmp_path)
    try:
        asked = Prepare(noisily(epsilon=1.0, delta=1e-5))
        first, again = (asked.fit(federation).steps for _ in range(2))
    finally:
        federation.workspace = None
    assert first == again
    assert asked.fit(federation).steps != first


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (["standardise"], "'standardise', whose values bear none"),
        (["log", "robust", {"min-max": {}}], "'robust', 'min-max', whose values"),
    ],
)
@pytest.mark.slow
def test_noise_is_not_mixed_with_what_bears_none(federation, asked, match):
    federation.preparation = Prepare(asked).fit(federation)
    with pytest.raises(PrivacyError, match=match):
        FedSC(3, rounds=1, noise=DATA).fit(federation)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"low": 0, "high": 1}, "has all of 'low', 'high', 'epsilon' and 'delta', or none"),
        ({"low": 0, "high": 1, "epsilon": 1}, "got epsilon, high, low. Give the others"),
        ({"epsilon": 1, "delta": 1e-5}, "got delta, epsilon"),
        ({"low": "x", "high": 1, "epsilon": 1, "delta": 1e-5}, "'low' .* a finite number"),
        ({"low": 0, "high": 1, "epsilon": 1, "delta": 1}, "'delta'"),
    ],
)
def test_half_a_declaration_is_refused(params, match):
    with pytest.raises(InvalidInput, match=match):
        Prepare({"standardise": params})


@pytest.mark.parametrize(
    ("low", "match"),
    [
        ({"alcohol": 1}, "column 'proline' has none"),
        (2000, "column 'proline' must have 'low' below"),
    ],
)
def test_ranges_that_do_not_fit_the_columns_are_refused(federation, low, match):
    with pytest.raises(InvalidInput, match=match):
        Prepare({"min-max": {"low": low, "high": {"alcohol": 3000, "proline": 10}}}).fit(federation)


def test_columns_of_one_client_alone_bear_no_noise(tmp_path):
    rows = {"a": X[:, :1], "b": X[:, 1:]}
    ids = [str(i) for i in range(len(X))]
    for name, column in (("a", "alcohol"), ("b", "proline")):
        url = str(tmp_path / name)
        write_store(url, name, rows[name], ids, feature_names=[column], dtype="float64")
    with (
        Federation.local({name: str(tmp_path / name) for name in rows}) as running,
        pytest.raises(InvalidInput, match="client 'a' has columns of its own"),
    ):
        Prepare(noisily(epsilon=1.0, delta=1e-5)).fit(running)
