"""`simulate`: worker processes over arrays at hand, and D as an array."""

from pathlib import Path
from types import SimpleNamespace

import dask.array
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from daskfc import Federation, OmniFC, Prepare, simulate
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation.driver.opening import Opened
from daskfc.federation.methods.samples import order_secret
from daskfc.stores import ClientStore, write_store
from daskfc.stores.building.dealt import write_dealt

X = (np.random.default_rng(0).normal(size=(30, 3)) * 64).round() / 64  # the same in float32
IDS = [f"p{i}" for i in range(30)]
TABLE = pd.DataFrame(X, columns=["age", "dose", "rate"])
GROUPS = np.repeat(["north", "south", "north"], 10)


@pytest.mark.slow
def test_distances_of_a_simulation_are_those_of_its_data():
    random = np.random.default_rng(0)
    sizes = {"a": 30, "b": 20, "c": 9}
    data = {name: random.normal(size=(n, 3)).round(2) for name, n in sizes.items()}
    with simulate(data) as federation:
        D = federation.distances(tile=64)
        fitted = OmniFC(2, random_state=0).fit(federation)
        found = D.compute()
        assert fitted.labels_.shape == (59,)
        assert len(federation.ledger) > 0
    ids = found.sample_id.values.tolist()
    assert [name.split("/")[0] for name in ids] == found.client.values.tolist()
    rows = np.stack([data[name[0]][int(name[2:])] for name in ids])
    np.testing.assert_allclose(found.values, cdist(rows, rows, "sqeuclidean"), atol=1e-9)


@pytest.mark.slow
def test_one_table_is_dealt_to_clients():
    table = pd.DataFrame({"x": np.arange(12.0), "y": np.arange(12.0) ** 2})
    with simulate(table, clients=3) as federation:
        assert federation.clients == ("client-1", "client-2", "client-3")
        values = federation.distances().sortby("sample_id").values
        folder = federation.folder
        assert Path(folder, "client-1.zarr").is_dir()
    assert np.count_nonzero(values == 0) == 12
    assert not Path(folder).exists()


@pytest.mark.slow
def test_new_samples_of_clients_with_columns_of_their_own_are_tables_too():
    table = pd.DataFrame({"x": np.arange(24.0), "y": np.arange(24.0) % 7, "z": np.arange(24.0) % 5,
                          "sex": ["f", "m"] * 12}, index=[f"p{i}" for i in range(24)])  # fmt: skip
    with simulate(table, clients=3, split="vertical", categorical=["sex"]) as federation:
        federation.preparation = Prepare(["one-hot", "standardise"]).fit(federation)
        model = OmniFC(2, clusterer="k-means", split="columns", random_state=0).fit(federation)
        own = {name: table[list(names)] for name, names in federation.contract.columns.items()}
        new = model.predict(federation, own)
    assert sorted(new.values.tolist()) == sorted(model.labels_.values.tolist())


@pytest.mark.slow
def test_a_federation_is_simulated_without_any_file():
    groups = np.repeat(["south", "north", "west"], 10)
    with Federation.simulate(TABLE, by=groups) as federation:
        assert type(federation) is Federation
        assert federation.clients == ("south", "north", "west")
        model = OmniFC(2, clusterer="kmeans").fit(federation)
        labels = model.labels_
        own = TABLE[groups == "north"]
        new = model.predict(federation, {"north": own, "west": own[:0:-1]})
    told = labels[labels["client"] == "north"].values
    assert new.values.tolist() == [*told, *told[:0:-1]]
    assert new["client"].values.tolist() == ["north"] * 10 + ["west"] * 9
    with pytest.raises(InvalidInput, match="the federation is closed"):
        model.predict(federation)
    with pytest.raises(InvalidInput, match="the federation is closed"):
        model.fit(federation)
    with pytest.raises(InvalidInput, match=r"OmniFC\.predict needs a Federation; got DataFrame"):
        model.predict(pd.DataFrame(TABLE))
    assert labels["client"].values.tolist() == groups.tolist()
    assert labels["sample_id"].values.astype(int).tolist() == list(range(30))


def test_new_samples_are_read_as_those_before_were(tmp_path):
    simulation = SimpleNamespace(folder=str(tmp_path), columns={"categorical": ["sex"]})
    told = Opened.new_stores(simulation, {"a": TABLE.assign(sex="f"), "b": Path("b.zarr")})
    assert told["b"] == "b.zarr"
    assert ClientStore.open(told["a"]).categories == {"sex": ("f",)}
    assert Opened.new_stores(simulation, {"a": TABLE.assign(sex="f")}) != told  # each call its own


# -- what is dealt, without processes ----------------------------------------------------------


@pytest.fixture
def dealt(tmp_path):
    """Deal data, and return the clients' stores."""

    def stores(data, **options):
        urls = write_dealt(str(tmp_path), data, **options)
        return {name: ClientStore.open(url) for name, url in urls.items()}

    return stores


def content(stores):
    """Return the rows of all stores by sample id."""
    ids = np.concatenate([store.sample_ids() for store in stores.values()])
    rows = np.concatenate([store.rows(0, store.n_samples) for store in stores.values()])
    assert len(set(ids)) == len(ids)
    return dict(zip(ids.tolist(), rows.tolist(), strict=True))


def dask_table():
    return pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]").from_pandas(
        TABLE, npartitions=4
    )


WHOLE = {
    "array": lambda: X,
    "list": lambda: X.tolist(),
    "table": lambda: TABLE,
    "array of Dask": lambda: dask.array.from_array(X, chunks=(7, 2)),
    "DataArray": lambda: xr.DataArray(X, dims=("sample", "feature")),
    "DataArray on Dask": lambda: xr.DataArray(X, dims=("row", "column")).chunk(row=8),
    "Dataset": lambda: xr.Dataset({"features": (("sample", "feature"), X)}),
    "sparse": lambda: csr_array(X),
    "table of Dask": dask_table,
}


@pytest.mark.parametrize("kind", WHOLE)
def test_all_samples_are_dealt_once_whatever_holds_them(dealt, kind):
    stores = dealt(WHOLE[kind](), clients=4, seed=3)
    assert list(stores) == ["client-1", "client-2", "client-3", "client-4"]
    assert sorted(store.n_samples for store in stores.values()) == [7, 7, 8, 8]
    assert content(stores) == {str(i): row for i, row in enumerate(X.tolist())}


def test_the_deal_is_that_of_a_storage_file_and_hangs_on_the_seed_alone(dealt, tmp_path):
    first = write_dealt(str(tmp_path / "a"), X, clients=3, seed=1)
    again = write_dealt(str(tmp_path / "b"), dask.array.from_array(X, chunks=4), clients=3, seed=1)
    other = write_dealt(str(tmp_path / "c"), X, clients=3, seed=2)
    ids = [
        [ClientStore.open(url).sample_ids().tolist() for url in urls.values()]
        for urls in (first, again, other)
    ]
    assert ids[0] == ids[1] != ids[2]


def test_samples_that_are_dealt_again_are_in_the_same_order_at_the_server(tmp_path):
    """Their order hangs on secrets of the stores, which one hand may know."""
    for data, options in ((X, {"clients": 2}), ({"a": X}, {})):
        folders = [str(tmp_path / f"{len(options)}-{turn}") for turn in (1, 2)]
        first, again = (
            [order_secret(ClientStore.open(url)).to_bytes() for url in urls.values()]
            for urls in (write_dealt(folder, data, **options) for folder in folders)
        )
        assert first == again


@pytest.mark.parametrize("kind", ["array", "table", "DataArray on Dask", "sparse", "table of Dask"])
def test_each_client_may_give_its_own(dealt, kind):
    whole = WHOLE[kind]()
    if kind == "table of Dask":
        parts = {"a": whole, "b": TABLE[:10]}
        stores = dealt(parts)
        assert [store.n_samples for store in stores.values()] == [30, 10]
        return
    stores = dealt({"a": whole[:20], 7: whole[20:]})
    assert list(stores) == ["a", "7"]
    rows = [store.rows(0, store.n_samples) for store in stores.values()]
    np.testing.assert_array_equal(np.concatenate(rows), X)


def test_variables_along_the_samples_are_features(dealt):
    data = xr.Dataset({name: ("patient", TABLE[name]) for name in TABLE})
    data = data.assign_coords(patient=IDS).chunk(patient=7)
    (store,) = dealt({"a": data}).values()
    assert store.feature_names == ("age", "dose", "rate")
    assert store.sample_ids().tolist() == IDS
    np.testing.assert_array_equal(store.rows(0, 30), X)
    with pytest.raises(StoreError, match="along the samples alone; it has age, other"):
        dealt({"b": xr.Dataset({"age": ("patient", X[:, 0]), "other": ("visit", X[:2, 0])})})


def test_a_column_of_a_dask_table_tells_whose_samples_are(dealt):
    table = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]").from_pandas(
        TABLE.assign(site=GROUPS), npartitions=4
    )
    north, south = dealt(table, by="site").values()
    assert north.feature_names == ("age", "dose", "rate")
    np.testing.assert_array_equal(north.rows(0, 20), X[GROUPS == "north"])
    np.testing.assert_array_equal(south.rows(0, 10), X[GROUPS == "south"])


def test_what_is_wrong_with_a_table_is_told_by_keywords(dealt, tmp_path):
    words = TABLE.assign(site="x")
    told = "Name the column in 'categorical', as 'labels' or as 'sample_ids', or list the "
    with pytest.raises(StoreError, match=rf"column 'site'.*{told}features in 'feature_names'\."):
        dealt(words, clients=2)
    with pytest.raises(StoreError, match=told):
        write_store(str(tmp_path / "a"), "a", words)
    gaps = TABLE.where(TABLE != TABLE.iloc[0, 0])
    with pytest.raises(StoreError, match="or set missing='keep', and have"):
        dealt({"b": gaps})
    assert dealt({"c": gaps}, missing="keep")["c"].n_samples == 30


def test_a_column_tells_whose_samples_are(dealt):
    stores = dealt(TABLE.assign(site=GROUPS), by="site")
    assert {name: store.n_samples for name, store in stores.items()} == {"north": 20, "south": 10}
    assert stores["north"].feature_names == ("age", "dose", "rate")
    np.testing.assert_array_equal(stores["south"].rows(0, 10), X[10:20])


def test_an_index_and_coordinates_are_ids(dealt):
    assert set(content(dealt(TABLE.set_axis(IDS), clients=2))) == set(IDS)


def test_labels_are_kept_apart_and_may_deal(dealt):
    labels = np.arange(30) % 3
    split = {"scheme": "label-skew", "skew": 1.0}
    stores = dealt(TABLE.assign(kind=labels), clients=3, labels="kind", split=split)
    assert [len(set(store.labels())) for store in stores.values()] == [1, 1, 1]
    assert all(store.feature_names == ("age", "dose", "rate") for store in stores.values())


def test_columns_are_dealt_too(dealt):
    stores = dealt(TABLE, clients=3, split="vertical", sample_ids=IDS, graph=np.eye(30))
    assert [store.feature_names for store in stores.values()] == [("age",), ("dose",), ("rate",)]
    assert all(store.sample_ids().tolist() == IDS for store in stores.values())
    assert all(store.has_graph for store in stores.values())


def test_sides_of_each_client_go_by_its_name(dealt):
    data, labels = {"a": X[:4], "b": X[4:6]}, {"a": [0, 1, 0, 1]}
    stores = dealt(data, labels=labels, sample_ids={"a": IDS[:4], "b": IDS[4:6]})
    assert stores["a"].labels().tolist() == [0, 1, 0, 1]
    assert not stores["b"].has_labels
    assert stores["b"].sample_ids().tolist() == ["p4", "p5"]


@pytest.mark.parametrize(
    ("data", "options", "error", "words"),
    [
        (X, {}, InvalidInput, "the number of 'clients' to deal them to.*got none with ndarray"),
        ({"a": X}, {"clients": 2}, InvalidInput, "got clients with dict"),
        ({"a": X}, {"split": "iid"}, InvalidInput, "got split with dict"),
        (X, {"clients": 2, "by": GROUPS}, InvalidInput, "got clients, by with ndarray"),
        (X, {"by": GROUPS, "split": "iid"}, InvalidInput, "got split, by with ndarray"),
        (X, {"clients": 2, "chunk_rows": 0}, InvalidInput, "the layout: key 'chunk_rows'"),
        ({}, {}, InvalidInput, "needs at least one client; got none"),
        ({"server": X}, {}, InvalidInput, "may not be called 'server'"),
        (X, {"client": 2}, InvalidInput, "no keyword 'client'. Did you mean 'clients'"),
        (X, {"clients": 2, "where": "x"}, InvalidInput, "no keyword 'where'"),
        (TABLE, {"by": "site", "ids": "age"}, InvalidInput, "'ids'. Call it 'sample_ids'"),
        (TABLE, {"by": "site"}, InvalidInput, "got 'site', and the columns are age, dose, rate"),
        (X, {"by": "site"}, InvalidInput, "and the columns are no names"),
        (X, {"by": GROUPS[:9]}, InvalidInput, "each of the 30 samples; got 9"),
        (X, {"clients": 31}, StoreError, "got 31 clients for 30 samples"),
        (X, {"clients": 2, "split": "random"}, InvalidInput, "the split: key 'scheme'"),
        (X, {"clients": 2, "split": {"scheme": "dirichlet", "alpha": 1.0}}, InvalidInput,
         "'dirichlet' deals by labels, and there are none"),
        (X, {"by": GROUPS, "graph": np.eye(30)}, InvalidInput, "'by' would cut it"),
        (X, {"clients": 2, "graph": np.eye(30)}, StoreError, "edges of the source's graph"),
        (TABLE, {"clients": 2, "labels": "kind"}, StoreError, r"the samples.*'kind' is not there"),
    ],
)  # fmt: skip
def test_what_cannot_be_dealt_is_refused_before_anything_starts(
    tmp_path, monkeypatch, data, options, error, words
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(error, match=words):
        write_dealt(str(tmp_path), data, **options)
    with pytest.raises(error, match=words):
        Federation.simulate(data, **options)
    assert not list(tmp_path.iterdir())


def test_words_of_a_dask_table_are_told_at_once(dealt):
    table = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]").from_pandas(
        TABLE.assign(sex=["f", "m"] * 15), npartitions=2
    )
    with pytest.raises(StoreError, match=r"'sex' of a Dask DataFrame holds no numbers.*compute"):
        dealt(table, clients=2)
    stores = dealt(table, clients=2, labels="sex")
    assert stores["client-1"].classes == ("f", "m")
