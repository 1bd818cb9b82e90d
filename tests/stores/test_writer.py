import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
from types import SimpleNamespace

import fsspec
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr

from daskfc.errors import StoreError
from daskfc.stores import ClientStore, StoreWriter, write_store
from daskfc.stores.layout.locations import zarr_store
from daskfc.stores.store.clusters import write_clusters

X = np.arange(30, dtype=np.float64).reshape(10, 3)
IDS = [str(i) for i in range(10)]


@pytest.fixture
def url(tmp_path):
    return f"{tmp_path}/a.zarr"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_must_be_finite(bad, url, tmp_path):
    rows = X.copy()
    rows[[4, 7], 1] = bad
    with pytest.raises(StoreError, match=r"client 'b'.*in 2 of 10 rows.*first is row 4 ") as caught:
        write_store(url, "b", rows, IDS)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_row_numbers_count_earlier_blocks(url):
    rows = X.copy()
    rows[8, 0] = np.nan
    with pytest.raises(StoreError, match="first is row 8 of the client"):
        write_store(url, "b", iter([rows[:6], rows[6:]]), IDS)


def test_repeated_ids(url, tmp_path):
    with pytest.raises(
        StoreError, match=r"client 'b': sample ids must differ; got 2 repeated, rows"
    ):
        write_store(url, "b", X, [*IDS[:8], "0", "1"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("features", "ids", "labels", "match"),
    [
        (np.empty((0, 3)), [], None, "at least one sample and one feature; got 0 x 3"),
        (np.empty((2, 0)), ["a", "b"], None, "at least one sample and one feature; got 2 x 0"),
        (iter([]), [], None, "got no block"),
        (X[:, 0], IDS, None, r"got shape \(10,\)"),
        (X, IDS[:9], None, "ids"),
        (X[:9], IDS, None, "ids must be as many as samples; got 10 for 9"),
        (iter([X[:9]]), IDS, None, "10 rows were announced; got 9"),
        (X, IDS, np.arange(9), "labels must be as many as samples; got 9 for 10"),
        (iter([X]), IDS, np.arange(9), "one label a sample; got 9 labels and 10 ids"),
        (iter([X]), None, None, "need one id each in 'sample_ids'"),
        (iter([X[:2], X[2:, :2]]), IDS, None, "must have 3 columns"),
        (X.astype(str), IDS, None, "must be real numbers"),
    ],
)
def test_what_does_not_fit(features, ids, labels, match, url, tmp_path):
    with pytest.raises(StoreError, match=match):
        write_store(url, "b", features, ids, labels)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("uint8", 256.0), ("uint8", 0.5), ("uint8", -1.0), ("int8", 200.0), ("float32", 1e39)],
)
def test_values_that_the_type_cannot_hold(dtype, value, url):
    with pytest.raises(StoreError, match=f"{dtype} cannot hold 1 values") as caught:
        write_store(url, "b", np.array([[1.0, value]]), ["a"], dtype=dtype)
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16"])
def test_types(dtype, url):
    write_store(url, "b", X, IDS, dtype=dtype)
    store = ClientStore.open(url, verify=True)
    assert store.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(store.rows(0, 10), X)


def test_digest_does_not_depend_on_blocks_chunks_or_labels(tmp_path):
    digests = set()
    for i, (blocks, chunk, labels) in enumerate(
        [
            ([X], 1024, None),
            ([X[:3], X[3:]], 4, None),
            ([X[i : i + 1] for i in range(10)], 3, X[:, 0]),
        ]
    ):
        write_store(f"{tmp_path}/{i}", "b", iter(blocks), IDS, labels, chunk_rows=chunk)
        digests.add(ClientStore.open(f"{tmp_path}/{i}", verify=True).attributes["content_digest"])
    assert len(digests) == 1


def test_a_store_that_is_replaced_keeps_its_key_for_its_client_alone(url, own_secrets):
    """Pseudonyms stay a client's own; another's in its place has others."""
    keys = []
    for client in ("a", "a", "b", "b"):
        write_store(url, client, X, IDS, overwrite=True)
        keys.append(ClientStore.open(url).id_key())
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_labels_can_be_removed(url):
    write_store(url, "b", X, IDS, np.arange(10))
    shutil.rmtree(f"{url}/evaluation")
    store = ClientStore.open(url, verify=True)
    assert store.labels() is None
    assert not store.has_labels


def test_layout(url):
    write_store(url, "b", np.zeros((10, 3)), IDS, chunk_rows=4)
    features = zarr.open_group(url, mode="r")["features"]
    assert features.chunks == (4, 3)
    assert [type(codec).__name__ for codec in features.compressors] == ["ZstdCodec", "Crc32cCodec"]
    assert len(os.listdir(f"{url}/features/c")) == 3  # chunks of zeros are there too


@pytest.mark.parametrize(("dtype", "array"), [("float32", "features"), (None, "undecided")])
def test_writer_streams(dtype, array, url):
    """No more than one chunk waits in memory, and what is full is on disk."""
    with StoreWriter(url, "b", 10, 3, chunk_rows=2, dtype=dtype) as writer:
        for start in range(10):
            writer.append(X[start : start + 1], IDS[start : start + 1])
            assert sum(len(part) for part in writer._waiting) < 2
            done = (start + 1) // 2
            chunks = zarr_store(writer._staged, read_only=True).root / array / "c"
            assert (len(os.listdir(chunks)) if done else 0) == done


def test_rows_reads_only_its_chunks(url, monkeypatch):
    write_store(url, "b", X, IDS, chunk_rows=2)
    store = ClientStore.open(url)
    asked = []
    get = zarr.storage.LocalStore.get

    async def spy(self, key, *args, **kwargs):
        asked.append(key)
        return await get(self, key, *args, **kwargs)

    monkeypatch.setattr(zarr.storage.LocalStore, "get", spy)
    store.rows(3, 6)
    assert sorted(asked) == ["features/c/1/0", "features/c/2/0"]


def test_no_space_known_before(url, monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(
        StoreError, match=r"no space on disk for client 'b': up to 720 bytes.*100 are"
    ):
        write_store(url, "b", X, IDS)
    assert list(tmp_path.iterdir()) == []


def test_names_in_a_store_are_those_that_earlier_releases_wrote(url):
    """Another name would be a store without a key, words, labels or clusters."""
    graph = scipy.sparse.csr_array(2.0 * (np.ones((10, 10)) - np.eye(10)))
    table = pd.DataFrame({"x": ["a", "b"] * 5, "y": [1.0, *[None] * 9]})
    write_store(
        url, "b", table, IDS, np.arange(10) % 2, graph=graph, categorical=["x"], missing="keep"
    )
    write_clusters(ClientStore.open(url), "night", np.zeros((10, 1), np.int64), ["F/0"])
    root = zarr.open_group(url, mode="r")
    places = {name: set(one.attrs) for name, one in root.members(max_depth=None)}
    assert places == {
        "features": set(), "sample_id": {"id_key"},
        "evaluation": {"classes", "labels_digest"}, "evaluation/labels": set(),
        "graph": {"digest", "edges", "entries"}, "graph/indices": set(), "graph/indptr": set(),
        "graph/weights": set(), "clusters": set(), "clusters/night": {"complete", "fits"},
    }  # fmt: skip
    assert set(root.attrs) == {
        "build_id", "categories", "chosen_dtype", "client", "complete", "content_digest",
        "feature_names", "format", "missing", "version",
    }  # fmt: skip


def test_the_space_for_a_graph_is_known_before(url, monkeypatch):
    """Eight bytes a sample and twelve an entry, beside those of the features."""
    graph = scipy.sparse.csr_array(np.ones((10, 10)) - np.eye(10))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(StoreError, match=f"up to {720 + 8 * 10 + 12 * graph.nnz} bytes"):
        write_store(url, "b", X, IDS, graph=graph)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("old", [False, True])
def test_disk_errors_while_writing(number, old, url, monkeypatch, tmp_path):
    if old:
        write_store(url, "old", X, IDS)
    put = zarr.storage.LocalStore.set

    async def refuse(self, key, *args, **kwargs):
        if "/c/" in key:
            raise OSError(number, os.strerror(number))
        await put(self, key, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(zarr.storage.LocalStore, "set", refuse)
        reason = "no space on disk" if number == errno.ENOSPC else "PermissionError"
        with pytest.raises(StoreError, match=f"client 'b'.*{reason}") as caught:
            write_store(url, "b", X, IDS, overwrite=old)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == (["a.zarr"] if old else [])
    if old:
        assert ClientStore.open(url, verify=True).name == "old"


def test_failed_replacement_elsewhere_keeps_a_whole_copy(monkeypatch):
    fs = fsspec.filesystem("memory")
    url = "memory://replaced/a.zarr"
    write_store(url, "old", X, IDS, overwrite=True)

    def refuse(*_):
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "cp_file", refuse)
        with pytest.raises(StoreError, match=r"it is whole at [^,]+, move it by hand") as caught:
            write_store(url, "new", X, IDS, overwrite=True)
    staged = str(caught.value).partition("whole at ")[2].partition(",")[0]
    assert ClientStore.open(staged, verify=True).name == "new"
    fs.rm("/replaced", recursive=True)


def test_leftovers_of_dead_processes_are_swept(url, tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    dead = f".a.zarr.partial-{socket.gethostname()}-{int(process.stdout)}-00"
    alive = f".a.zarr.partial-{socket.gethostname()}-{os.getpid()}-00"
    (tmp_path / dead).mkdir()
    (tmp_path / alive).mkdir()
    write_store(url, "b", X, IDS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alive, "a.zarr"])


def test_other_groups_are_refused(tmp_path):
    zarr.create_group(f"{tmp_path}/other.zarr")
    with pytest.raises(StoreError, match="is no store of daskfc; import it"):
        ClientStore.open(f"{tmp_path}/other.zarr")
    (tmp_path / "file.zarr").write_text("no")
    with pytest.raises(StoreError, match="this is a file and no store; make one of it"):
        ClientStore.open(f"{tmp_path}/file.zarr")
    with pytest.raises(StoreError, match="protocol 'nowhere' cannot be used"):
        ClientStore.open("nowhere://a.zarr")


def test_attributes_are_checked(url):
    write_store(url, "b", X, IDS)
    group = zarr.open_group(url, mode="r+")
    group.attrs["feature_names"] = ["a", "b"]
    with pytest.raises(StoreError, match="client 'b': feature_names has 2 entries"):
        ClientStore.open(url)
    group.attrs["version"] = 99
    with pytest.raises(StoreError, match=r"version 99 and this daskfc reads versions 1 and 2"):
        ClientStore.open(url)
    group.attrs["complete"] = False
    group.attrs["version"] = 1
    with pytest.raises(StoreError, match="half-written"):
        ClientStore.open(url)


def test_check_finds_what_other_writers_put_there(url):
    write_store(url, "b", X, IDS, dtype="float64")
    group = zarr.open_group(url, mode="r+")
    group["features"][2, 0] = np.nan
    with pytest.raises(StoreError, match=r"client 'b': .*NaN or infinity in 1 of 10 rows.*row 2"):
        ClientStore.open(url).check()
    group["features"][2, 0] = 5
    with pytest.raises(StoreError, match=r"content of .* is not what was written"):
        ClientStore.open(url).check()
    group["sample_id"][3] = "0"
    with pytest.raises(StoreError, match="got 1 repeated, rows 0 and 3 are the first pair"):
        ClientStore.open(url).check()


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_store_is_its_owners(url, umask):
    before = os.umask(umask)
    try:
        for overwrite in (False, True):
            write_store(url, "b", X, IDS, overwrite=overwrite)
            assert stat.S_IMODE(os.stat(url).st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["a**b", "a*", "a?", "a[1]"])
def test_names_that_stand_for_other_names(tmp_path, name):
    write_store(url := str(tmp_path / name / "a.zarr"), "a", [[1.0, 2.0]], ["one"])
    assert ClientStore.open(url).n_samples == 1
    with pytest.raises(StoreError, match=r"must have no \*, \? or \[ in its name"):
        write_store(f"memory://{name}/a.zarr", "a", [[1.0, 2.0]], ["one"])
