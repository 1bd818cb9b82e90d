import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
import zarr

from daskfc.errors import InvalidInput, StoreError
from daskfc.runs.pipeline.parties import locate
from daskfc.stores import ClientStore, Storage, append_samples, load_storage, write_store
from daskfc.stores.sources import readers
from daskfc.stores.store.clusters import write_clusters

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
    other.build(root, overwrite=True)
    assert ClientStore.open(urls["client-2"]).dtype == np.float64


# -- stores that follow an edit --------------------------------------------------------------------


def test_stores_follow_an_edit_of_the_file(root):
    urls = load_storage(IRIS).ensure(root)
    keys = [ClientStore.open(url).id_key() for url in urls.values()]
    edited = load_storage({**IRIS, "layout": {"dtype": "float64"}})
    assert edited.ensure(root) == urls
    opened = [ClientStore.open(url, verify=True) for url in urls.values()]
    assert {store.dtype for store in opened} == {np.dtype("float64")}
    assert [store.id_key() for store in opened] == keys  # so that earlier labels find their ids
    builds = [store.build_id for store in opened]
    edited.ensure(root)
    assert [ClientStore.open(url).build_id for url in urls.values()] == builds


@pytest.fixture
def files(tmp_path):
    for name in "ab":
        table = pd.DataFrame({"id": [f"{name}{i}" for i in range(4)], "x": np.arange(4.0), "y": 1})
        table.to_csv(tmp_path / f"{name}.csv", index=False)

    def of(**keys):
        sources = {name: {"path": str(tmp_path / f"{name}.csv"), "ids": "id"} for name in "ab"}
        sources["b"] |= keys
        clients = {name: {"source": source} for name, source in sources.items()}
        return load_storage({"clients": clients, "root": str(tmp_path / "stores")})

    return of


def test_only_the_client_that_was_edited_is_made_again(files):
    urls = files(multiply={"x": 1}).ensure()
    before = {name: ClientStore.open(url).build_id for name, url in urls.items()}
    files(multiply={"x": 2}).ensure()
    stores = {name: ClientStore.open(url) for name, url in urls.items()}
    assert stores["a"].build_id == before["a"]
    assert stores["b"].build_id != before["b"]
    assert stores["b"].rows(0, 4)[:, 0].tolist() == [0, 2, 4, 6]


def test_nothing_is_lost_by_an_edit(files, tmp_path):
    urls = files().ensure()
    edited = files(multiply={"x": 2})
    write_clusters(ClientStore.open(urls["b"]), "night", np.zeros((4, 1), np.int64), ["cluster"])
    with pytest.raises(StoreError, match="another storage file, and clusters were put into it"):
        edited.ensure()
    files().build(overwrite=True)
    append_samples(urls["b"], pd.DataFrame({"id": ["b9"], "x": [1.0], "y": [1]}), "id")
    with pytest.raises(StoreError, match="another storage file, and samples were appended to it"):
        edited.ensure()
    files().build(overwrite=True)
    (tmp_path / "b.csv").write_text("id,x,y\nb0,7,1\n")  # the store has the only copy of the others
    with pytest.raises(StoreError, match="made from an earlier version of the source"):
        edited.ensure()
    (tmp_path / "b.csv").unlink()
    with pytest.raises(StoreError, match=r"client 'b': .* made from another storage file"):
        edited.ensure()
    write_store(urls["b"], "b", np.ones((2, 2)), ["p", "q"], overwrite=True)
    with pytest.raises(StoreError, match="client 'b'"):  # by hand, of no file
        files().ensure()
    assert ClientStore.open(urls["b"]).sample_ids().tolist() == ["p", "q"]


def test_a_bundled_set_replaces_no_store_of_a_file(tmp_path):
    X = np.arange(20.0).reshape(10, 2)
    np.savez(tmp_path / "t.npz", X=X)
    partition = {"scheme": "iid", "clients": 2}
    first = {"source": {"path": str(tmp_path / "t.npz")}, "partition": partition}
    load_storage({**first, "root": str(tmp_path)}).ensure()
    other = load_storage({**IRIS, "root": str(tmp_path)})
    with pytest.raises(StoreError, match="made from another storage file"):
        other.ensure()


# -- gaps ------------------------------------------------------------------------------------------


def test_a_pipeline_that_imputes_needs_no_word_in_the_file(files, tmp_path):
    (tmp_path / "b.csv").write_text("id,x,y\nb0,,1\nb1,3,2\n")
    with pytest.raises(StoreError, match=r"line 2, column 'x': .* got a missing value"):
        files().ensure()
    urls = files().ensure(gaps=True)
    stores = {name: ClientStore.open(url, verify=True) for name, url in urls.items()}
    assert {name: store.missing for name, store in stores.items()} == {"a": False, "b": True}
    np.testing.assert_array_equal(stores["b"].rows(0, 2), [[np.nan, 1], [3, 2]])
    files().ensure()  # the store is that of the file


POOLED = {"method": "central", "params": {"n_clusters": 2}}


@pytest.mark.parametrize(
    "prepare", [["impute"], [{"impute": {"strategy": "median"}}, "standardise"]]
)
def test_a_run_tells_the_storage_that_its_pipeline_imputes(files, tmp_path, prepare):
    (tmp_path / "b.csv").write_text("id,x,y\nb0,,1\nb1,3,2\n")
    storage = files().model_dump(exclude_none=True)
    with pytest.raises(StoreError, match="missing value"):
        locate({**POOLED, "prepare": ["standardise"]}, storage, {"cluster": "local"})
    located = locate({**POOLED, "prepare": prepare}, storage, {"cluster": "local"})
    assert located.stores["b"].missing


def test_gaps_of_a_source_that_is_dealt(tmp_path):
    lines = [f"{i},{'' if i == 3 else i}" for i in range(8)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
    source = {"path": str(tmp_path / "t.csv")}
    document = {"source": source, "partition": {"scheme": "iid", "clients": 2}}
    storage = load_storage({**document, "root": str(tmp_path / "stores")})
    with pytest.raises(StoreError, match="missing value"):
        storage.ensure()
    assert not list(tmp_path.glob("stores/*"))
    stores = map(ClientStore.open, storage.ensure(gaps=True).values())
    assert all(store.missing for store in stores)


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


@pytest.mark.parametrize("name", ["t.csv", "t.zarr"])
def test_a_number_that_was_corrected_is_noticed(tmp_path, monkeypatch, name):
    """Far from the ends of a file, by one of as many digits: the old store was used."""
    monkeypatch.setattr(readers, "_EDGE", 16)
    rows = np.full((99, 1), 1001, dtype=np.int16)
    clients = {"a": {"source": {"path": str(tmp_path / name)}}}
    storage = load_storage({"clients": clients, "root": str(tmp_path / "stores")})

    def written():
        if name == "t.zarr":
            whole = zarr.create_array(tmp_path / name, data=rows, compressors=None, overwrite=True)
            return whole.nbytes
        return (tmp_path / name).write_text("x\n" + "\n".join(map(str, rows[:, 0].tolist())))

    size = written()
    storage.ensure()
    storage.ensure()
    rows[50] = 1002
    assert written() == size
    with pytest.raises(StoreError, match="made from an earlier version of the source"):
        storage.ensure()


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


def test_a_file_that_is_not_there_is_noticed_before_any_store_is_written(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\na,1\nb,2\n")
    sources = {"a": "a.csv", "b": "a.csv", "c": "gone.csv"}
    clients = {
        name: {"source": {"path": str(tmp_path / file), "ids": "id"}}
        for name, file in sources.items()
    }
    storage = load_storage({"clients": clients, "root": str(tmp_path / "stores")})
    for write in (storage.build, storage.ensure):
        with pytest.raises(StoreError, match=r"gone\.csv: the source file is not there"):
            write()
        assert not (tmp_path / "stores").exists()


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


def test_what_holds_data_is_no_storage_file():
    for given in (np.eye(2), {"a": np.eye(2), "b": np.eye(2)}):
        with pytest.raises(InvalidInput, match=r"holds none; got ndarray. Try .* daskfc.simulate"):
            load_storage(given)
    with pytest.raises(InvalidInput, match=r"the storage is given as the path of a file.*got int"):
        load_storage(7)


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
        (change(partition={"scheme": "magic"}), "must be one of dirichlet, grid, iid, label-skew"),
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
