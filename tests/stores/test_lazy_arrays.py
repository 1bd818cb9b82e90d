"""Stores are read and written by Dask, a few blocks at a time; what they say of columns stays."""

import json
import pickle
import threading
import weakref

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from distributed import Client, LocalCluster

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, append_samples, write_store
from daskfc.stores.layout.samples import encode_labels
from daskfc.stores.store.fitted_steps import HEIGHT
from daskfc.stores.store.prepared import PreparedStore

N, D = 103, 4
X = np.random.default_rng(0).integers(-99, 99, (N, D)) / 4
IDS = [f"p{i}" for i in range(N)]
NAMES = ["age", "weight", "height", "bmi"]


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def url(tmp_path):
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", X, IDS, feature_names=NAMES, chunk_rows=10, dtype="float64")
    return url


@pytest.mark.parametrize(
    ("most", "rows"), [("128MiB", N), ("1kB", 30), ("640B", 20), ("8B", 10)], ids=str
)
def test_chunks_are_whole_chunks_of_the_store(url, most, rows):
    with dask.config.set({"array.chunk-size": most}):
        features = ClientStore.open(url).dataset("auto")["features"]
    assert features.chunks[0] == tuple(min(rows, N - at) for at in range(0, N, rows))
    assert features.chunks[1] == (D,)
    np.testing.assert_array_equal(features.values, X)


@pytest.mark.parametrize("chunks", [{"sample": 7}, {"sample": 50, "feature": 2}, 33, {}], ids=str)
def test_chunks_are_as_of_xarray(url, chunks):
    lazy = ClientStore.open(url).dataset(chunks)
    assert lazy.chunksizes == ClientStore.open(url).dataset().load().chunk(chunks).chunksizes
    xr.testing.assert_identical(lazy.compute(), ClientStore.open(url).dataset().load())


def test_of_a_prepared_store_rows_are_prepared(tmp_path):
    table = pd.DataFrame({"age": X[:, 0], "stage": np.where(X[:, 1] > 0, "late", "early")})
    url = str(tmp_path / "words.zarr")
    write_store(url, "a", table, IDS, categorical=["stage"], chunk_rows=10, dtype="float64")
    steps = [{"step": "min-max", "own": True}, {"step": "one-hot", "height": HEIGHT}]
    store = PreparedStore.of(ClientStore.open(url), steps)
    lazy = pickle.loads(pickle.dumps(store.dataset("auto")))
    assert lazy.features.chunks is not None
    np.testing.assert_array_equal(lazy.features, store.rows(0, N))
    assert tuple(lazy.feature.values) == store.feature_names
    assert store.feature_names == ("age", "stage=early", "stage=late")
    assert "categories" not in lazy.coords
    assert lazy.attrs["categories"] == {}
    np.testing.assert_array_equal(store.dataset().features[3:5, 1], store.rows(3, 5)[:, 1])
    same = PreparedStore.of(ClientStore.open(url), [])
    assert "categories" in same.dataset().coords


def test_without_chunks_there_is_no_dask_array(url):
    assert ClientStore.open(url).dataset().chunks == {}


def test_a_chunk_that_is_damaged_fails_alone(url, tmp_path):
    damaged = tmp_path / "a.zarr" / "features" / "c" / "3" / "0"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    features = ClientStore.open(url).dataset({"sample": 10})["features"]
    np.testing.assert_array_equal(features[:30].values, X[:30])
    with pytest.raises(StoreError, match="client 'a': a chunk in rows 30 to 40"):
        features.values  # noqa: B018


def test_tasks_open_the_store_again_and_no_other_writing_of_it(url):
    store = ClientStore.open(url)
    features = store.dataset({"sample": 10})["features"]
    sent = pickle.dumps(features)
    np.testing.assert_array_equal(pickle.loads(sent).values, X)
    assert X[:1].tobytes() not in sent
    assert store.dataset({"sample": 10})["features"].data.name == features.data.name
    write_store(url, "a", X + 1, IDS, chunk_rows=10, dtype="float64", overwrite=True)
    again = ClientStore.open(url).dataset({"sample": 10})["features"]
    assert again.data.name != features.data.name  # a cluster that kept the former has no such task
    with pytest.raises(StoreError, match="was replaced while it was in use"):
        pickle.loads(sent).values  # noqa: B018
    np.testing.assert_array_equal(again.values, X + 1)


def test_there_and_back(url, tmp_path):
    there = ClientStore.open(url).dataset({"sample": 30})
    there["features"] = there["features"] * 2 + 1
    other = str(tmp_path / "b.zarr")
    write_store(other, "b", there, chunk_rows=25)
    store = ClientStore.open(other, verify=True)
    np.testing.assert_array_equal(store.rows(0, N), X * 2 + 1)
    assert store.sample_ids().tolist() == IDS
    assert store.feature_names == tuple(NAMES)
    assert store.chunk_rows == 25


GIVEN = {
    "dask": lambda lazy: lazy.data,
    "DataArray": lambda lazy: lazy,
    "DataArray with ids of its own": lambda lazy: xr.DataArray(
        lazy.data, {"row": IDS, "column": NAMES}, ["row", "column"]
    ),
    "not of Dask": lambda lazy: lazy.compute(),
    "Dataset": lambda lazy: lazy.to_dataset(),
    "parts of columns": lambda lazy: lazy.chunk({"feature": 1}),
}


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("rows", [1, 7, 60, N])
def test_what_is_given_is_stored(url, tmp_path, kind, rows):
    given = GIVEN[kind](ClientStore.open(url).dataset({"sample": rows})["features"])
    other = str(tmp_path / "b.zarr")
    write_store(other, "b", given, labels=np.arange(N) % 3, chunk_rows=25)
    store = ClientStore.open(other, verify=True)
    np.testing.assert_array_equal(store.rows(0, N), X)
    ids = [f"b/{i}" for i in range(N)] if kind == "dask" else IDS
    assert store.sample_ids().tolist() == ids
    assert store.feature_names == (("x0", "x1", "x2", "x3") if kind == "dask" else tuple(NAMES))
    assert store.labels().tolist() == [i % 3 for i in range(N)]


def test_blocks_are_computed_once_and_few_are_alive(tmp_path):
    """The type is found out from all rows, which therefore wait on disk, not in memory."""
    alive, most, made = weakref.WeakSet(), [], []
    lock = threading.Lock()

    class Noted(np.ndarray):
        """An array that can be in a set."""

        __hash__ = object.__hash__
        __eq__ = object.__eq__

    def block(block_info=None):
        (start, stop), columns = block_info[None]["array-location"]
        made.append((start, columns[0]))
        rows = np.random.default_rng(start).normal(size=(stop - start, columns[1] - columns[0]))
        with lock:
            alive.add(noted := rows.view(Noted))
            most.append(len(alive))
        return noted

    chunks = ((500,) * 12 + (1500, 3), (3, 2))
    lazy = da.map_blocks(block, chunks=chunks, dtype=float, meta=np.empty((0, 0)))
    write_store(str(tmp_path / "s.zarr"), "a", lazy, chunk_rows=100)
    assert sorted(made) == sorted((s, c) for s in [*range(0, 6001, 500), 7500] for c in (0, 3))
    assert max(most) <= 8, max(most)  # a block is made of 1000 rows, so of two times two chunks
    assert ClientStore.open(str(tmp_path / "s.zarr"), verify=True).n_samples == 7503


def words():
    return pd.DataFrame(
        {"id": ["p", "q", "r"], "age": [61.0, 58.0, np.nan], "kind": ["b", "a", "b"]}
    )


@pytest.fixture
def of_words(tmp_path):
    url = str(tmp_path / "w.zarr")
    keys = {"categorical": ["kind"], "missing": "keep", "words": {"b": "B"}}
    write_store(url, "w", words(), "id", **keys)
    return ClientStore.open(url)


@pytest.mark.parametrize("change", [lambda d: d, lambda d: d * 1.0, lambda d: d.isel(feature=[1])])
def test_words_and_gaps_stay(of_words, tmp_path, change):
    lazy = change(of_words.dataset("auto"))
    assert json.loads(lazy["categories"].values[-1]) == ["B", "a"]
    write_store(str(tmp_path / "v.zarr"), "v", lazy, missing="keep")
    store = ClientStore.open(str(tmp_path / "v.zarr"), verify=True)
    assert store.categories == of_words.categories == {"kind": ("B", "a")}
    assert store.missing
    np.testing.assert_array_equal(store.rows(0, 3)[:, -1], [0, 1, 0])


def test_a_dataset_says_itself_that_values_may_be_missing(of_words, tmp_path):
    write_store(str(tmp_path / "v.zarr"), "v", of_words.dataset("auto"))
    store = ClientStore.open(str(tmp_path / "v.zarr"))
    np.testing.assert_array_equal(store.rows(0, 3)[:, 0], [61, 58, np.nan])
    assert store.attributes["words"] == {"b": "B"}
    told = append_samples(str(tmp_path / "v.zarr"), words().assign(id=["s", "t", "u"]), "id")
    assert told["samples"] == 6
    assert ClientStore.open(str(tmp_path / "v.zarr")).categories == {"kind": ("B", "a")}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d * 2 + 1, "column 'kind' holds words, 0 to 1; row 1 has another number"),
        (lambda d: d + 0.5, "column 'kind' holds words, 0 to 1; row 0 has another number"),
        (
            lambda d: d.assign_coords(categories=("feature", ["", "body"])),
            "a list of words in JSON",
        ),
        (lambda d: d.rename(features="rows"), "must have a variable 'features'.*it has rows"),
        (lambda d: d.expand_dims("day"), "got the dimensions day, sample, feature"),
    ],
)
def test_what_cannot_be_stored(of_words, tmp_path, change, match):
    with pytest.raises(StoreError, match=match):
        write_store(str(tmp_path / "v.zarr"), "v", change(of_words.dataset("auto")), missing="keep")
    assert not (tmp_path / "v.zarr").exists()


def test_numbers_that_were_words_can_be_made_numbers(of_words, tmp_path):
    lazy = of_words.dataset("auto").drop_vars("categories")
    write_store(str(tmp_path / "v.zarr"), "v", lazy * 2 + 1, missing="keep")
    assert ClientStore.open(str(tmp_path / "v.zarr")).categories == {}


def test_rows_of_an_unknown_number(tmp_path):
    rows = da.from_array(X, chunks=(50, D))
    with pytest.raises(StoreError, match="Call compute_chunk_sizes"):
        write_store(str(tmp_path / "v.zarr"), "v", rows[rows[:, 0] > 0])


@pytest.mark.slow
def test_a_cluster_of_the_site_opens_the_store_by_its_url(url, tmp_path):
    with (
        LocalCluster(n_workers=1, dashboard_address=None, silence_logs=False) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        lazy = ClientStore.open(url).dataset({"sample": 30})
        write_store(str(tmp_path / "b.zarr"), "b", lazy + 1)
        rows = lazy["features"].sum("sample").compute()
    np.testing.assert_array_equal(rows, X.sum(axis=0))
    np.testing.assert_array_equal(ClientStore.open(str(tmp_path / "b.zarr")).rows(0, N), X + 1)


def test_labels_may_be_lazy(url, tmp_path):
    labels = da.from_array(np.arange(N) % 2, chunks=50)
    assert encode_labels(labels, "a")[0].tolist() == [i % 2 for i in range(N)]
