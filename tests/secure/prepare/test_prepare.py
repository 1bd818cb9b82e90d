"""Prepared features are those of scikit-learn's transformers on the pooled samples."""

import pickle

import numpy as np
import pytest
from distributed.protocol import dumps, loads
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfc import OmniFC, Prepare
from daskfc.errors import InvalidInput, PartyError, StoreError
from daskfc.federation import Federation, Message, array
from daskfc.stores import ClientStore, write_store
from daskfc.stores.store.prepared import PreparedStore, spread_of
from daskfc.testing.federation import federation_of, stores_of

X, y = load_wine(return_X_y=True)
OWNERS = np.arange(len(X)) % 4
ROWS = {f"client-{i + 1}": X[OWNERS == i] for i in range(4)}
POOLED = np.concatenate(list(ROWS.values()))


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with federation_of(tmp_path_factory.mktemp("stores"), ROWS) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_prepared(federation):
    federation.preparation = None
    yield
    federation.preparation = None


class Rows(Message, route="client → caller", reveals="all, for a test"):
    rows: np.ndarray = array("sample", "column", dtype="float64")


def all_rows(data) -> Rows:
    return Rows(data.rows(0, data.n_samples))


def prepared_rows(federation):
    federation.start_run("rows", random_state=0)
    told = federation.publish(all_rows, party="clients")
    return np.concatenate([told[name].rows for name in federation.clients])


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, atol=1e-9 * np.abs(wanted).max(), rtol=1e-9)


@pytest.mark.slow
def test_standardised_features_are_scikit_learns(federation):
    prepared = Prepare("standardise").fit(federation)
    scaler = StandardScaler().fit(POOLED)
    (step,) = prepared.steps["client-1"]
    np.testing.assert_allclose(step["mean"], scaler.mean_, rtol=1e-9)
    np.testing.assert_allclose(step["scale"], scaler.scale_, rtol=1e-9)
    federation.preparation = prepared
    close(prepared_rows(federation), scaler.transform(POOLED))
    of_clients = {
        row.message
        for row in prepared.ledger
        if row.protection == "plain" and row.sender.startswith("client")
    }
    assert "ColumnMagnitudes" in of_clients
    assert not {"FittedMeans", "FittedScales"} & of_clients


@pytest.mark.slow
@pytest.mark.parametrize("within", [None, "site"])
def test_features_whose_squares_are_no_numbers_are_standardised(tmp_path, within):
    """They were taken for constant ones, and left as they are."""
    rows = {name: own * 1e-170 for name, own in ROWS.items()}
    with federation_of(tmp_path, rows) as tiny:
        tiny.preparation = Prepare({"standardise": {"within": within}}).fit(tiny)
        found = prepared_rows(tiny)
    parts = [POOLED] if within is None else list(ROWS.values())
    close(found, np.concatenate([StandardScaler().fit_transform(part) for part in parts]))


@pytest.mark.slow
def test_wine_is_clustered_as_well_as_pooled(federation):
    raw = OmniFC(3, clusterer="k-means", n_colluding=1).fit(federation)
    federation.preparation = Prepare(["standardise"]).fit(federation)
    model = OmniFC(3, clusterer="k-means", n_colluding=1).fit(federation)
    ids = model.labels_.sample_id.values.astype(str)
    truth = {f"client-{o + 1}/{i}": label for o in range(4)
             for i, label in enumerate(y[OWNERS == o])}  # fmt: skip
    classes = [truth[name] for name in ids]
    pooled = KMeans(3, n_init=10, random_state=0).fit_predict(StandardScaler().fit_transform(X))
    assert adjusted_rand_score(classes, raw.labels_.values) < 0.5
    assert adjusted_rand_score(classes, model.labels_.values) == pytest.approx(
        adjusted_rand_score(y, pooled), abs=0.02
    )
    assert adjusted_rand_score(classes, model.labels_.values) > 0.85


@pytest.mark.slow
def test_steps_go_through_in_order_and_new_samples_too(federation, tmp_path):
    asked = ["log", {"clip": {"high": 5.0}}, "standardise", {"pca": {"n_components": 3}}]
    prepared = Prepare(asked).fit(federation)
    federation.preparation = prepared
    scaled = StandardScaler().fit_transform(np.minimum(np.log1p(POOLED), 5.0))
    wanted = PCA(3).fit(scaled)
    found = prepared_rows(federation)
    np.testing.assert_allclose(found, wanted.transform(scaled), atol=1e-7)
    model = OmniFC(3, clusterer="k-means", n_colluding=1).fit(federation)
    new = stores_of(tmp_path, {"client-2": ROWS["client-1"][:7]})
    labels = model.predict(federation, new).values
    first = model.labels_.values[model.labels_.client.values == "client-1"][:7]
    np.testing.assert_array_equal(labels, first)
    federation.preparation = None
    with pytest.raises(InvalidInput, match="must be prepared as those of fit were"):
        model.predict(federation, new)


def test_it_is_an_estimator_of_scikit_learn():
    asked = ["impute", {"pca": {"n_components": 2}}]
    prepare = Prepare(asked)
    assert prepare.get_params() == {"asked": asked}
    assert clone(prepare).steps == prepare.steps == [("impute", {}), ("pca", {"n_components": 2})]
    assert repr(Prepare("standardise")) == "Prepare(asked='standardise')"
    assert prepare.set_params(asked="log").steps == [("log", {})]
    with pytest.raises(NotFittedError):
        prepare.transform(None)


@pytest.mark.slow
def test_in_a_pipeline_it_stands_before_a_method(federation):
    model = OmniFC(3, clusterer="k-means", random_state=0)
    federation.preparation = Prepare("standardise").fit(federation)
    wanted = model.fit(federation).labels_
    federation.preparation = None
    pipeline = make_pipeline(Prepare("standardise"), clone(model)).fit(federation)
    assert pipeline[-1].labels_.identical(wanted)
    assert pipeline.predict(federation).identical(wanted)
    federation.preparation = None
    assert not model.fit(federation).labels_.identical(wanted)


@pytest.mark.slow
def test_columns_of_very_different_sizes_keep_their_digits(tmp_path):
    random = np.random.default_rng(0)
    scales = np.array([1e6, 1e-6, 1.0, 1e3])
    rows = {f"client-{i}": random.normal(size=(40, 4)) * scales + 5 * scales for i in (1, 2, 3)}
    for own in rows.values():
        own[:, 2] = 7.0  # constant
    pooled = np.concatenate(list(rows.values()))
    with federation_of(tmp_path, rows) as federation:
        federation.preparation = Prepare("standardise").fit(federation)
        close(prepared_rows(federation), StandardScaler().fit_transform(pooled))


@pytest.mark.slow
def test_columns_of_one_client_alone_are_prepared_there(tmp_path):
    rows = {"a": X[:, :5], "b": X[:, 5:]}
    columns = {name: [f"{name}{i}" for i in range(part.shape[1])] for name, part in rows.items()}
    urls = {}
    for name, part in rows.items():
        urls[name] = str(tmp_path / f"{name}.zarr")
        write_store(urls[name], name, part, [str(i) for i in range(len(X))],
                    feature_names=columns[name], dtype="float64")  # fmt: skip
    with Federation.local(urls) as federation:
        prepared = Prepare("standardise").fit(federation)
        assert len(prepared.ledger) == 0
        assert prepared.steps["a"] == [{"step": "standardise", "own": True}]
        federation.preparation = prepared
        federation.start_run("rows", random_state=0)
        told = federation.publish(all_rows, party="clients")
        found = np.hstack([told["a"].rows, told["b"].rows])
        close(found, StandardScaler().fit_transform(X))
        with pytest.raises(InvalidInput, match="client 'a' has columns of its own"):
            Prepare({"pca": {"n_components": 2}}).fit(federation)


@pytest.mark.slow
def test_a_log_of_what_has_none_is_refused(federation):
    with pytest.raises(PartyError, match="the step 'log' needs features above -1; some of"):
        Prepare(["standardise", "log", "standardise"]).fit(federation)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (
            "scale",
            "no step of a preparation is called 'scale'; there are impute, one-hot, ",
        ),
        ({"pca": None}, "the step 'pca' needs the parameter 'n_components'"),
        (
            {"pca": {"n_components": 0}},
            "'n_components' parameter of step 'pca' must be a whole number",
        ),
        ({"pca": {"k": 2}}, "the step 'pca' has no parameter 'k'; it has n_components"),
        ({"standardise": {"mean": 0}}, "has no parameter 'mean'; it has low, high"),
        ({"clip": {}}, "needs 'low', 'high' or both"),
        ({"clip": {"low": 2, "high": 1}}, "needs 'low' to be at most 'high'"),
        ([{"log": {}, "clip": {"low": 1}}], "must be a name, or a mapping of one name"),
        ([3], "must be a name, or a mapping of one name"),
    ],
)
def test_steps_that_cannot_be(asked, match):
    with pytest.raises(InvalidInput, match=match):
        Prepare(asked)


# -- prepared stores -----------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    return ClientStore.open(stores_of(tmp_path, {"a": X})["a"])


def test_a_prepared_store_reads_as_it_is_written_but_for_its_rows(store):
    mean, scale = spread_of(store)
    step = {"step": "standardise", "mean": mean.tolist(), "scale": scale.tolist()}
    made = PreparedStore.of(store, [step])
    close(made.rows(0, len(X)), StandardScaler().fit_transform(X))
    np.testing.assert_array_equal(
        np.concatenate([block for _, block in made.blocks(50)]), made.rows(0, len(X))
    )
    assert made.sample_ids().tolist() == store.sample_ids().tolist()
    assert made.feature_names == store.feature_names
    assert made.dtype == np.float64
    assert made.digest != store.digest
    assert PreparedStore.of(store, [step]).digest == made.digest
    own = PreparedStore.of(store, [{"step": "standardise", "own": True}])
    np.testing.assert_array_equal(own.rows(3, 9), made.rows(3, 9))


def test_a_prepared_store_travels_with_its_steps(store):
    made = PreparedStore.of(store, [{"step": "clip", "low": 1.0}, {"step": "log"}])
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.rows(0, 5), np.log1p(np.maximum(X[:5], 1.0)))


@pytest.mark.parametrize(
    ("step", "match"),
    [
        (
            {"step": "standardise", "mean": [0.0], "scale": [1.0]},
            "was fitted on 1 columns, and the",
        ),
        (
            loads(dumps({"step": "min-max", "low": [0.0], "width": [1.0]})),  # as parties get it
            "was fitted on 1 columns, and the",
        ),
        ({"step": "other"}, "no step is called 'other'"),
    ],
)
def test_steps_of_other_stores(store, step, match):
    with pytest.raises(StoreError, match=match):
        PreparedStore.of(store, [step]).rows(0, 1)


def test_steps_come_after_those_that_a_store_has(store):
    """Units of a mixture were those of the store's own numbers, and not of the prepared ones."""
    d = X.shape[1]
    shift = {"step": "standardise", "mean": [1.0] * d, "scale": [2.0] * d}
    once = PreparedStore.of(store, [shift])
    np.testing.assert_array_equal(PreparedStore.of(once, []).rows(0, 3), once.rows(0, 3))
    twice = PreparedStore.of(once, [shift])
    np.testing.assert_array_equal(twice.rows(0, 3), PreparedStore.of(store, [shift] * 2).rows(0, 3))
    assert [step["step"] for step in twice.steps] == ["standardise"] * 2


def test_a_projection_makes_no_more_columns_than_there_are(store):
    d = X.shape[1]
    step = {"step": "pca", "mean": [0.0] * d, "components": np.eye(d + 1, d).tolist()}
    with pytest.raises(StoreError, match=f"makes {d + 1} columns of {d}"):
        PreparedStore.of(store, [step])


def test_jitter_is_the_same_however_rows_are_read(tmp_path):
    rows = np.random.default_rng(0).normal(size=(2500, 3)) * [1.0, 1000.0, 0.0] + [0.0, 5.0, 3.0]
    url = stores_of(tmp_path, {"a": rows}, chunk_rows=700)["a"]
    store = ClientStore.open(url)
    step = {"step": "jitter", "share": 0.1, "seed": 4}
    made = PreparedStore.of(store, [step])
    whole = made.rows(0, 2500)
    np.testing.assert_array_equal(made.rows(1020, 2100), whole[1020:2100])
    np.testing.assert_array_equal(np.concatenate([b for _, b in made.blocks(333)]), whole)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).rows(3, 9), whole[3:9])
    moved = whole - rows
    np.testing.assert_allclose(moved.std(axis=0), 0.1 * rows.std(axis=0), rtol=0.05)
    assert not moved[:, 2].any()  # a constant column stays one
    assert np.abs(whole).max() <= np.abs(store.rows(0, 2500)).max()  # a declared bound holds
    assert made.rows(3, 3).shape == (0, 3)
    other = PreparedStore.of(store, [{**step, "seed": 5}])
    assert abs(np.corrcoef(other.rows(0, 2500)[:, 0] - rows[:, 0], moved[:, 0])[0, 1]) < 0.1
    assert other.digest != made.digest
