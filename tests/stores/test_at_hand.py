"""What a caller has at hand becomes a store, and clients have files of their own."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

import daskfc as fc
from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import ClientStore, load_storage, write_store

X = np.arange(12, dtype=np.float64).reshape(4, 3) / 4
IDS = ["p", "q", "r", "s"]
KINDS = ["CKD", "none", "CKD", "none"]


def table():
    frame = pd.DataFrame(X, columns=["age", "weight", "height"])
    return frame.assign(id=IDS, kind=KINDS)


def write_csv(folder):
    table().to_csv(folder / "a.csv", index=False)
    return folder / "a.csv"


GIVEN = {
    "array": (lambda folder: X, {"sample_ids": IDS, "labels": KINDS}),
    "list of lists": (lambda folder: X.tolist(), {"sample_ids": IDS, "labels": KINDS}),
    "sparse array": (lambda folder: sparse.csr_array(X), {"sample_ids": IDS, "labels": KINDS}),
    "sparse matrix": (lambda folder: sparse.coo_matrix(X), {"sample_ids": IDS, "labels": KINDS}),
    "table": (lambda folder: table(), {"sample_ids": "id", "labels": "kind"}),
    "indexed table": (lambda folder: table().set_index("id"), {"labels": "kind"}),
    "DataArray": (
        lambda folder: xr.DataArray(
            X, {"row": IDS, "column": ["age", "weight", "height"]}, ["row", "column"]
        ),
        {"labels": np.array(KINDS)},
    ),
    "blocks": (lambda folder: iter([X[:1], X[1:]]), {"sample_ids": IDS, "labels": KINDS}),
    "path": (write_csv, {"sample_ids": "id", "labels": "kind"}),
    "path as text": (lambda f: str(write_csv(f)), {"sample_ids": "id", "labels": "kind"}),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_what_is_given_is_stored(tmp_path, kind):
    made, keys = GIVEN[kind]
    url = str(tmp_path / "s.zarr")
    fc.write_store(url, "hospital-a", made(tmp_path), dtype="float64", **keys)
    store = ClientStore.open(url, verify=True)
    np.testing.assert_array_equal(store.rows(0, 4), X)
    assert store.sample_ids().tolist() == IDS
    assert store.labels().tolist() == [0, 1, 0, 1]
    assert tuple(store.classes) == ("CKD", "none")
    named = kind not in ("array", "list of lists", "sparse array", "sparse matrix", "blocks")
    names = ("age", "weight", "height") if named else ("x0", "x1", "x2")
    assert store.feature_names == names


def test_samples_without_ids_get_some(tmp_path):
    url = str(tmp_path / "s.zarr")
    write_store(url, "ward-3", X)
    assert ClientStore.open(url).sample_ids().tolist() == [f"ward-3/{i}" for i in range(4)]


def test_some_columns(tmp_path):
    url = str(tmp_path / "s.zarr")
    write_store(url, "a", table(), "id", feature_names=["height", "age"], dtype="float64")
    store = ClientStore.open(url)
    assert store.feature_names == ("height", "age")
    np.testing.assert_array_equal(store.rows(0, 4), X[:, [2, 0]])
    assert not store.has_labels


@pytest.mark.parametrize(
    ("features", "keys", "match"),
    [
        (X[0], {}, r"in rows and columns, is needed; got shape \(3,\)"),
        ([[1.0, 2.0], [3.0]], {}, "all rows must have as many numbers"),
        (xr.DataArray(np.zeros((2, 2, 2))), {}, "must have samples and features; got the dim"),
        (table(), {}, "column 'id': features must be numeric; got a word"),
        (table().assign(day="2024-05-06"), {"sample_ids": "id", "labels": "kind"},
         "row 1, column 'day': features must be numeric; got a date"),
        (table(), {"sample_ids": "key"}, "the column 'key' is not there; the columns are age, "),
        (table().rename(columns={"age": "weight"}), {"labels": "kind"}, "'weight' comes twice"),
        (X, {"sample_ids": "id"}, "an array has no columns with names"),
        (X, {"labels": "kind"}, "an array has no columns with names"),
        (X, {"sample_ids": IDS[:3]}, "ids must be as many as samples; got 3 for 4"),
        (X, {"dtype": "float31"}, "dtype of client 'a' must be .* got 'float31'"),
        (X, {"dtype": "str"}, "dtype of client 'a' must be a float or an integer type"),
        ("gone.csv", {}, "gone.csv: the source file is not there"),
        ("t.csv", {"sample_ids": IDS}, "sample_ids of a file must be the name of a column"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_numbers(tmp_path, features, keys, match):
    with pytest.raises(StoreError, match=match) as caught:
        write_store(str(tmp_path / "s.zarr"), "a", features, **keys)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Zürich", "my hospital", "server", "server-2", ""])
def test_names_that_no_federation_takes(tmp_path, name):
    with pytest.raises(StoreError, match=r"client .*Rename it"):
        write_store(str(tmp_path / "s.zarr"), name, X)


# -- clients with files of their own --------------------------------------------------------------


@pytest.fixture
def hospitals(tmp_path):
    """Three hospitals' tables, with kinds that the second does not have."""
    frames = {
        "hospital-a": table(),
        "hospital-b": table().assign(id=["t", "u", "v", "w"], kind="none"),
        "hospital-c": table().assign(id=["x", "y", "z", "0"]),
    }
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    keys = {"ids": "id", "labels": "kind"}
    return {
        "clients": {
            name: {"source": {"path": str(tmp_path / f"{name}.csv"), **keys}} for name in frames
        },
        "root": str(tmp_path / "stores"),
        "layout": {"dtype": "float64"},
    }


def test_every_client_has_its_own_file(hospitals):
    storage = load_storage(hospitals)
    urls = storage.ensure()
    assert list(urls) == list(hospitals["clients"])
    stores = storage.open(verify=True)
    for store in stores.values():
        np.testing.assert_array_equal(store.rows(0, 4), X)
        assert store.feature_names == ("age", "weight", "height")
    assert stores["hospital-b"].sample_ids().tolist() == ["t", "u", "v", "w"]
    assert tuple(stores["hospital-b"].classes) == ("none",)
    storage.check()
    assert storage.ensure() == urls  # nothing is made again
    with pytest.raises(StoreError, match=r"3 of 3 stores are there already"):
        storage.build()


def test_one_file_changes(hospitals, tmp_path):
    storage = load_storage(hospitals)
    storage.ensure()
    before = {name: s.attributes["build_id"] for name, s in storage.open().items()}
    path = tmp_path / "hospital-b.csv"
    path.write_text(path.read_text() + "1,2,3,more,none\n")
    with pytest.raises(StoreError, match=r"'hospital-b': .* an earlier version of the source"):
        storage.ensure()
    storage.build(overwrite=True)
    assert storage.open()["hospital-b"].n_samples == 5
    changed = {**hospitals["clients"]}
    changed["hospital-c"] = {"source": {**changed["hospital-c"]["source"], "columns": ["age"]}}
    with pytest.raises(InvalidInput, match="clients 'hospital-a' and 'hospital-c' both have a col"):
        load_storage({**hospitals, "clients": changed}).ensure()
    load_storage(hospitals).ensure()
    assert storage.open()["hospital-c"].n_features == 3
    assert before.keys() == {"hospital-a", "hospital-b", "hospital-c"}


def test_stores_and_files_side_by_side(hospitals, tmp_path):
    write_store(str(tmp_path / "d.zarr"), "hospital-d", table().assign(id=list("abcd")), "id",
                feature_names=["age", "weight", "height"])  # fmt: skip
    clients = {**hospitals["clients"], "hospital-d": {"store": str(tmp_path / "d.zarr")}}
    storage = load_storage({**hospitals, "clients": clients})
    urls = storage.build()
    assert urls["hospital-d"].endswith("d.zarr")
    assert urls["hospital-a"].endswith("stores/hospital-a.zarr")
    assert [row["client"] for row in storage.inspect()] == list(clients)


def test_several_files_of_one_client(tmp_path):
    table().to_csv(tmp_path / "ward-1.csv", index=False)
    table().assign(id=list("tuvw"), kind=["acute", *KINDS[1:]]).to_csv(
        tmp_path / "ward-2.csv", index=False
    )
    source = {"path": f"{tmp_path}/ward-*.csv", "ids": "id", "labels": "kind"}
    storage = load_storage({"clients": {"a": {"source": source}}, "root": str(tmp_path / "s")})
    storage.ensure()
    store = storage.open()["a"]
    np.testing.assert_array_equal(store.rows(0, 8), np.vstack([X, X]))
    assert store.sample_ids().tolist() == [*IDS, *"tuvw"]
    assert tuple(store.classes) == ("CKD", "acute", "none")
    assert store.labels().tolist() == [0, 2, 0, 2, 1, 2, 0, 2]
    (tmp_path / "ward-3.csv").write_text("age,weight,kind,id\n1,2,none,n\n")
    with pytest.raises(StoreError, match=r"ward-3.csv: .* same columns .* this one lacks 'height'"):
        storage.build(overwrite=True)


def test_a_fault_names_client_and_line(hospitals, tmp_path):
    path = tmp_path / "hospital-b.csv"
    path.write_text(path.read_text() + "1,2,?,more,none\n")
    with pytest.raises(
        StoreError, match=r"hospital-b.csv: line 6, column 'height': .* got '\?'\. Set source.na_v"
    ):
        load_storage(hospitals).ensure()


@pytest.mark.parametrize(
    ("client", "match"),
    [
        ({"store": "a.zarr", "source": {"path": "a.csv"}}, "a 'store' that exists or a 'source'"),
        ({}, "must have a 'store' that exists, or a 'source'"),
        ({"source": {"path": "a.npz", "decimal": ","}}, "source.decimal means nothing to"),
        ({"source": {"path": "a.what"}}, "cannot be told from its name"),
        ({"source": {}}, "exactly one of 'dataset', 'path', 'uri' and 'views'"),
    ],
)
def test_clients_that_cannot_be(client, match):
    with pytest.raises((InvalidInput, StoreError), match=match):
        load_storage({"clients": {"a": client}})


def test_no_file_matches(tmp_path):
    source = {"path": f"{tmp_path}/hospital_*.csv"}
    with pytest.raises(StoreError, match=r"hospital_\*.csv: no file matches"):
        load_storage({"clients": {"a": {"source": source}}, "root": str(tmp_path)}).ensure()


# -- masks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("given", ["array", "rows", "blocks"])
def test_what_a_mask_hides_is_missing(given, dtype, tmp_path):
    url = str(tmp_path / "a.zarr")
    hidden = np.ma.array(np.array([[1, -99], [2, 3]], dtype=dtype), mask=[[0, 1], [0, 0]])
    forms = {
        "array": lambda: hidden,
        "rows": lambda: list(hidden),
        "blocks": lambda: iter([hidden]),
    }
    with pytest.raises(StoreError, match=r"finite; got NaN or infinity in 1 of 2 rows"):
        write_store(url, "a", forms[given](), ["p", "q"])
    if given != "blocks":
        write_store(url, "a", forms[given](), ["p", "q"], missing="keep")
        np.testing.assert_array_equal(ClientStore.open(url).rows(0, 2), [[1, np.nan], [2, 3]])


def test_masked_ids_and_labels_are_missing():
    ids, labels = np.ma.array(["p", "q"], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])
    with pytest.raises(StoreError, match="every sample must have an id; 1 of 2 have none"):
        write_store("memory://masked.zarr", "a", np.eye(2), ids)
    with pytest.raises(StoreError, match="every sample must have a label; got none for 1 of 2"):
        write_store("memory://masked.zarr", "a", np.eye(2), labels=labels)
