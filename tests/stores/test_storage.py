import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import ClientStore, Storage, load_storage, write_store

FILES = sorted((Path(__file__).parents[2] / "storage").glob("*.yaml"))
IRIS = {
    "source": {"dataset": "iris"},
    "partition": {"scheme": "label-skew", "clients": 3, "skew": 0.75, "seed": 0},
}


@pytest.fixture(params=["file", "memory"])
def root(request, tmp_path):
    return str(tmp_path / "s") if request.param == "file" else f"memory://{uuid.uuid4().hex}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_shipped_files_load(path):
    storage = load_storage(path)
    assert storage.name == path.stem
    if storage.clients is None or not any(
        "s3:" in (c.store or "") for c in storage.clients.values()
    ):
        assert storage.client_urls()


def test_a_build_holds_all_samples_once(root):
    storage = load_storage(IRIS)
    seen = []
    urls = storage.build(root, progress=lambda done, total: seen.append((done, total)))
    assert list(urls) == ["client-1", "client-2", "client-3"]
    assert seen[-1] == (150, 150)
    storage.check(root)
    from sklearn.datasets import load_iris

    data, target = load_iris(return_X_y=True)
    stores = storage.open(root).values()
    rows = np.concatenate([store.sample_ids().astype(int) for store in stores])
    np.testing.assert_array_equal(np.sort(rows), np.arange(150))
    features = np.concatenate([store.rows(0, store.n_samples) for store in stores])
    np.testing.assert_array_equal(features, data[rows].astype(np.float32))
    labels = np.concatenate([store.labels() for store in stores])
    np.testing.assert_array_equal(labels, target[rows])
    assert {store.classes for store in stores} == {("setosa", "versicolor", "virginica")}


def test_inspect(root):
    storage = load_storage(IRIS | {"layout": {"chunk_rows": 20, "dtype": "float64"}})
    with pytest.raises(StoreError, match="no store of a client is there"):
        storage.inspect(root)
    storage.build(root)
    table = storage.inspect(root)
    assert [row.pop("url").rpartition("/")[2] for row in table] == [
        f"client-{i}.zarr" for i in (1, 2, 3)
    ]
    assert all(row.pop("bytes_on_disk") > 50 * 8 for row in table)
    assert table[1] == {
        "client": "client-2",
        "samples": 50,
        "features": 4,
        "dtype": "float64",
        "chunks": 3,
        "labels": True,
    }


def test_build_refuses_and_ensure_reuses(root):
    storage = load_storage(IRIS)
    urls = storage.ensure(root)
    with pytest.raises(StoreError, match="3 of 3 stores are there already, the first is "):
        storage.build(root)
    calls = []
    assert storage.ensure(root, progress=lambda *at: calls.append(at)) == urls
    assert calls == []
    other = load_storage({**IRIS, "layout": {"dtype": "float64"}})
    with pytest.raises(StoreError, match=r"client 'client-1'.* made from another storage file"):
        other.ensure(root)
    other.build(root, overwrite=True)
    assert ClientStore.open(urls["client-2"]).dtype == np.float64


def test_ensure_builds_only_what_is_missing(root):
    import fsspec

    storage = load_storage(IRIS)
    urls = storage.build(root)
    digests = [s.attributes["content_digest"] for s in storage.open(root).values()]
    fs, path = fsspec.core.url_to_fs(urls["client-2"])
    fs.rm(path, recursive=True)
    kept, inner = fsspec.core.url_to_fs(urls["client-1"])
    before = kept.modified(f"{inner}/zarr.json")
    storage.ensure(root)
    assert kept.modified(f"{inner}/zarr.json") == before
    assert digests == [s.attributes["content_digest"] for s in storage.open(root).values()]


def test_ensure_ends_a_half_written_build():
    """On an object store a killed build leaves a group without its mark."""
    storage = load_storage({**IRIS, "root": f"memory://{uuid.uuid4().hex}"})
    url = storage.client_urls()["client-1"]
    from daskfc.stores import StoreWriter

    StoreWriter(url, "client-1", 50, 4, attributes={"storage_digest": storage.digest})
    with pytest.raises(StoreError, match="half-written"):
        ClientStore.open(url)
    storage.ensure()
    storage.check()


def test_a_changed_source_is_noticed(tmp_path):
    X = np.arange(20.0).reshape(10, 2)
    np.savez(tmp_path / "t.npz", X=X)
    storage = load_storage(
        {
            "source": {"path": str(tmp_path / "t.npz")},
            "partition": {"scheme": "iid", "clients": 2},
            "root": str(tmp_path),
        }
    )
    storage.ensure()
    np.savez(tmp_path / "t.npz", X=X + 1)
    with pytest.raises(StoreError, match="made from an earlier version of the source"):
        storage.ensure()
    (tmp_path / "t.npz").unlink()
    storage.ensure()  # stores live on without their source


@pytest.mark.parametrize("n_before", [0, 2])
def test_a_build_that_breaks_leaves_what_was_there(n_before, root):
    """Row 90 is not finite: the build reaches it with several blocks written."""
    storage = load_storage({**IRIS, "layout": {"chunk_rows": 8}})
    if n_before:
        storage.build(root)
        before = {name: s.attributes["content_digest"] for name, s in storage.open(root).items()}
    table = np.ones((3000, 2))
    table[2900, 1] = np.nan
    path = f"memory://{uuid.uuid4().hex}.csv"
    pd.DataFrame(table, columns=["a", "b"]).to_csv(path, index=False)
    broken = load_storage({"source": {"path": path}, "partition": {"scheme": "iid", "clients": 3}})
    with pytest.raises(StoreError, match=r"line 2902, column 'b': .* must be finite"):
        broken.build(root, overwrite=True)
    if n_before:
        now = {name: s.attributes["content_digest"] for name, s in storage.open(root).items()}
        assert now == before
    else:
        with pytest.raises(StoreError, match="no store of a client"):
            broken.open(root)


def test_digest(tmp_path):
    storage = load_storage(IRIS)
    assert storage.digest == load_storage({**IRIS, "root": "/elsewhere"}).digest
    assert storage.digest != load_storage({**IRIS, "layout": {"chunk_rows": 7}}).digest
    (tmp_path / "i.yaml").write_text(yaml.safe_dump(IRIS))
    loaded = load_storage(tmp_path / "i.yaml")
    assert loaded.digest == storage.digest
    assert load_storage(loaded) is loaded


def test_default_root_is_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(IRIS))
    urls = load_storage("mine.yaml").ensure()
    assert urls["client-3"] == f"file://{tmp_path}/stores/mine/client-3.zarr"
    assert (tmp_path / "stores" / "mine" / "client-3.zarr" / "zarr.json").exists()


def existing(tmp_path, **stores):
    for name, (features, ids, columns) in stores.items():
        write_store(f"{tmp_path}/{name}", name, features, ids, feature_names=columns)
    return load_storage({"clients": {name: {"store": f"{tmp_path}/{name}"} for name in stores}})


def test_existing_clients(tmp_path):
    storage = existing(tmp_path, a=(np.eye(2), ["p", "q"], None), b=(np.eye(2), ["r", "s"], None))
    assert list(storage.ensure()) == ["a", "b"]
    storage.check()
    with pytest.raises(StoreError, match="nothing to build"):
        storage.build()


def test_other_columns_at_one_client(tmp_path):
    storage = existing(
        tmp_path, a=(np.eye(2), ["p", "q"], ["x", "y"]), b=(np.eye(2), ["r", "s"], ["x", "z"])
    )
    match = "column 2 of client 'a' is 'y', of client 'b' 'z'"
    for use in (storage.ensure, storage.check, storage.inspect):
        with pytest.raises(InvalidInput, match=match):
            use()


def test_an_id_at_two_clients(tmp_path):
    storage = existing(
        tmp_path,
        a=(np.eye(2), ["p", "q"], None),
        b=(np.eye(2), ["r", "s"], None),
        c=(np.eye(2), ["t", "q"], None),
    )
    storage.ensure()
    with pytest.raises(StoreError, match="1 repeated, clients 'a' and 'c' share one"):
        storage.check()


def test_missing_client(tmp_path):
    storage = load_storage({"clients": {"a": {"store": str(tmp_path / "no.zarr")}}})
    with pytest.raises(StoreError, match="no store of a client is there"):
        storage.ensure()


def change(**sections):
    return {key: {**IRIS.get(key, {}), **value} for key, value in {**IRIS, **sections}.items()}


@pytest.mark.parametrize(
    ("document", "match"),
    [
        ({**IRIS, "sauce": 1}, "key 'sauce' is not known there"),
        (change(source={"colour": 1}), "key 'source.colour' is not known there"),
        (change(source={"path": "a.npz"}), "exactly one of 'dataset', 'path', 'uri' and 'views'"),
        ({"source": {"dataset": "iris"}}, "'source' and 'partition' must be given together"),
        ({}, "exactly one of 'source' and 'clients'"),
        (
            change(partition={"clients": 0}),
            "'partition.clients'.*must be at least 1; got 0",
        ),
        (change(partition={"clients": "ten"}), "'partition.clients'.*got 'ten'"),
        (change(partition={"skew": 1.5}), "'partition.skew'.*must be at most 1.0; got 1.5"),
        (change(partition={"skew": None}), "scheme 'label-skew' needs key 'skew'"),
        (change(partition={"alpha": 1.0}), "scheme 'label-skew' has no key 'alpha'"),
        (change(partition={"scheme": "magic"}), "must be one of dirichlet, iid, label-skew"),
        (change(layout={"dtype": "float16"}), "'layout.dtype'"),
        (change(layout={"chunk_rows": True}), "'layout.chunk_rows'"),
        (change(source={"scale": 0}), "'source.scale'"),
        (change(source={"delimiter": ";"}), "source.delimiter means nothing"),
        ({"clients": {}}, "clients"),
        ({"clients": {"server": {"store": "a"}}}, "a client may not be called 'server'"),
        ({"clients": {"a/b": {"store": "a"}}}, "a client's name must be"),
        ({"clients": {"a": {}}}, "'clients.a': a client must have a 'store' that exists, or"),
        ({"clients": {"a": {"store": "a"}}, "root": "b"}, "mean nothing to 'clients'"),
    ],
)
def test_bad_documents(document, match, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InvalidInput, match=match) as caught:
        load_storage(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("document", "match"),
    [
        (change(partition={"clients": 151}), "got 151 clients for 150 samples"),
        (change(source={"subsample": {"n": 151}}), "got 151 of 150"),
        (change(source={"dataset": "moons"}), "source.dataset must be one of"),
    ],
)
def test_refused_when_the_source_is_known(document, match, tmp_path):
    with pytest.raises(StoreError, match=match):
        load_storage(document).build(str(tmp_path / "s"))
    assert not (tmp_path / "s").exists()


def test_partition_by_labels_needs_labels(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(4))
    storage = load_storage({**IRIS, "source": {"path": str(tmp_path / "t.npz")}})
    with pytest.raises(StoreError, match="deals by labels and the source has none"):
        storage.build(str(tmp_path / "s"))


def test_repeated_ids_in_the_source(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(4), ids=["a", "b", "c", "b"])
    storage = load_storage(
        {"source": {"path": str(tmp_path / "t.npz")}, "partition": {"scheme": "iid", "clients": 2}}
    )
    with pytest.raises(StoreError, match="1 repeated, samples 1 and 3 are the first pair"):
        storage.build(str(tmp_path / "s"))


def test_no_space_for_all_clients(tmp_path, monkeypatch):
    from types import SimpleNamespace

    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=3000))
    with pytest.raises(StoreError, match=r"no space on disk for storage '.*': up to 13200 bytes"):
        load_storage(IRIS).build(str(tmp_path / "s"))
    assert list(tmp_path.iterdir()) == []


def test_uint8_pixels_stay_pixels(tmp_path):
    storage = load_storage(
        {
            "source": {"dataset": "digits", "subsample": {"n": 100, "seed": 0}},
            "partition": {"scheme": "iid", "clients": 4},
            "layout": {"dtype": "uint8"},
        }
    )
    assert isinstance(storage, Storage)
    storage.build(str(tmp_path))
    assert {row["dtype"] for row in storage.inspect(str(tmp_path))} == {"uint8"}
    storage.check(str(tmp_path))
