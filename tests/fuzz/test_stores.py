"""Stores and files of others: damaged or made on purpose, they are read rightly or refused."""

import contextlib
import json
import pickle
import sqlite3
import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.io
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from daskfc.stores import ClientStore, write_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.pickles import load_numbers
from daskfc.stores.sources.readers import open_source
from daskfc.stores.sources.tables import copied
from daskfc.stores.store.clusters import read_clusters, write_clusters
from tests.fuzz.changes import PLAIN, changed_bytes, changed_tree
from tests.fuzz.watch import answer, everything_loaded, fuzzed

pytestmark = [
    pytest.mark.slow,
    # NumPy and SciPy warn of values that are refused in a sentence a moment later.
    pytest.mark.filterwarnings("ignore"),
]

X = np.arange(20.0).reshape(5, 4)
IDS = [f"é{i}" for i in range(5)]
LABELS = np.array([0, 1, 0, 1, 1])


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        everything_loaded()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A store, and the bytes of each of its files."""
    folder = tmp_path_factory.mktemp("store") / "a.zarr"
    graph = sparse.csr_array(np.ones((5, 5)))
    more = {"chunk_rows": 2, "graph": graph}
    write_store(str(folder), "a", X, IDS, LABELS, **more)
    write_clusters(ClientStore.open(str(folder)), "night", np.zeros((5, 1), np.int64), ["cluster"])
    read(folder)  # imports what an xarray view needs
    return folder, {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def read(folder):
    """Return everything that a run reads of a store."""
    store = ClientStore.open(str(folder), verify=True)
    parts = {
        "rows": store.rows(0, store.n_samples),
        "ids": store.sample_ids(),
        "labels": store.labels(),
        "graph": store.graph(),
        "key": store.id_key(),
        "about": [store.view, store.scaling, store.classes, store.unprepared, store.build_id],
        "clusters": read_clusters(store, "night"),
    }
    store.dataset()
    return store, parts


def check_same(found):
    """Damage that passes every check has changed nothing: digests are of what was written."""
    store, parts = found
    if parts["rows"].shape == X.shape and store.feature_names == ("x0", "x1", "x2", "x3"):
        np.testing.assert_array_equal(parts["rows"], X)
        assert parts["ids"].tolist() == IDS


def test_the_store_is_read_as_it_was_written(files):
    check_same(read(files[0]))


def test_files_of_a_store(files):
    folder, whole = files
    metadata = {name: json.loads(data) for name, data in whole.items() if name.suffix == ".json"}

    @st.composite
    def changed(draw):
        name = draw(st.sampled_from(sorted(whole)))
        if name in metadata and draw(st.integers(0, 3)):
            tree = draw(changed_tree([metadata[name], *metadata.values()][:3]))
            return name, json.dumps(tree, default=lambda _: "bytes").encode(errors="replace")
        return name, draw(changed_bytes([whole[name], *whole.values()][:6]))

    @fuzzed(200)
    @given(changed())
    def tried(change):
        name, data = change
        (folder / name).write_bytes(data)
        try:
            found = answer(lambda: read(folder))
        finally:
            (folder / name).write_bytes(whole[name])
        if found is not None:
            check_same(found)

    tried()


# -- files of other programs -----------------------------------------------------------------------


def sources(folder):
    """Write one small file of each format, and return its keys as a source."""
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=list("uvuvv"))
    table.to_csv(folder / "t.csv", index=False)
    table.to_parquet(folder / "t.parquet")
    table.to_feather(folder / "t.feather")
    np.savez_compressed(folder / "t.npz", X=X, y=LABELS)
    graph = sparse.csr_array(np.ones((5, 5)))
    np.savez(
        folder / "graph.npz", X=X, A_indices=graph.indices, A_indptr=graph.indptr, A_shape=(5, 5)
    )
    scipy.io.savemat(folder / "t.mat", {"X": X, "Y": LABELS[:, None]}, do_compression=True)
    batch = pa.RecordBatch.from_pandas(table)
    with pa.ipc.new_stream(folder / "t.arrows", batch.schema) as file:
        file.write_batch(batch)
    table.to_excel(folder / "t.xlsx", index=False)
    table.to_json(folder / "t.jsonl", orient="records", lines=True)
    with contextlib.closing(sqlite3.connect(folder / "t.sqlite")) as database:
        table.to_sql("t", database, index=False)
    xr.Dataset({"X": (("row", "column"), X)}).to_netcdf(folder / "t.nc", engine="scipy")
    (folder / "t.libsvm").write_text("1 1:0.5 3:2\n0 2:1\n")
    idx = b"\0\0\x08\x03" + np.array([5, 2, 2], ">u4").tobytes() + bytes(range(20))
    (folder / "t-idx3-ubyte").write_bytes(idx)
    return {
        "t.csv": {"labels": "y"},
        "t.parquet": {"labels": "y"},
        "t.feather": {"labels": "y"},
        "t.npz": {},
        "graph.npz": {},
        "t.mat": {},
        "t.arrows": {"labels": "y"},
        "t.xlsx": {"labels": "y"},
        "t.jsonl": {"labels": "y"},
        "t.sqlite": {"labels": "y", "sql": "select * from t"},
        "t.nc": {"features": "X"},
        "t.libsvm": {},
        "t-idx3-ubyte": {"format": "idx"},
    }


FILES = (
    "t.csv", "t.parquet", "t.feather", "t.npz", "graph.npz", "t.mat", "t.libsvm", "t-idx3-ubyte",
    "t.arrows", "t.xlsx", "t.jsonl", "t.sqlite", "t.nc",
)  # fmt: skip


def opened(path, keys):
    samples = open_source(SourceConfig(path=str(path), **keys))
    return samples, [np.asarray(block) for block in samples.blocks(2)]


class Frames:
    """In place of the pickles that a copy of rows writes and reads itself."""

    def __init__(self):
        self.by_place = {}

    def dump(self, frame, file, protocol):
        self.by_place[file.tell()] = frame.copy()
        file.write(b".")

    def load(self, file):
        return self.by_place[file.tell()].copy()


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_programs(name, tmp_path, monkeypatch):
    monkeypatch.setattr(copied, "pickle", Frames())
    keys = sources(tmp_path)[name]
    path = tmp_path / name
    whole = path.read_bytes()
    assert len(opened(path, keys)[1]) > 0

    @fuzzed(60)
    @given(changed_bytes([whole]))
    def tried(data):
        path.write_bytes(data)
        answer(lambda: opened(path, keys))

    tried()


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_other_programs(version, tmp_path):
    path = tmp_path / "t.zarr"
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    for name, data in (("X", X), ("y", LABELS)):
        group.create_array(name, data=data, chunks=(2, *data.shape[1:]))
    whole = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    told = {file: json.loads(data) for file, data in whole.items() if b"{" in data[:2]}
    assert len(opened(path, {})[1]) == 3

    @fuzzed(80)
    @given(st.data())
    def tried(data):
        file = data.draw(st.sampled_from(sorted(whole)))
        if file in told and data.draw(st.integers(0, 3)):
            tree = data.draw(changed_tree([told[file]], PLAIN))
            changed = json.dumps(tree, default=lambda _: "bytes").encode(errors="replace")
        else:
            changed = data.draw(changed_bytes([whole[file]]))
        file.write_bytes(changed)
        try:
            answer(lambda: opened(path, {}))
        finally:
            file.write_bytes(whole[file])

    tried()


def only_numbers(value):
    if isinstance(value, dict):
        return all(only_numbers(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return all(map(only_numbers, value))
    if isinstance(value, np.ndarray | sparse.csr_array | np.generic):
        return value.dtype.kind in "biuf"
    return value is None or type(value) in (bool, int, float, str, bytes)


PICKLES = [
    pickle.dumps(value, protocol)
    for protocol in (0, 2, 4)
    for value in (
        X,
        LABELS,
        sparse.csr_matrix(np.eye(3)),
        defaultdict(list, {0: [1, 2], 1: [0]}),
        [np.float32(1.0), {"a": (1, 2)}],
    )
]


@fuzzed(300)
@given(changed_bytes(PICKLES))
def test_pickles_of_numbers(data):
    """Graphs of Planetoid are pickles; nothing that one names is called."""
    found = answer(lambda: [load_numbers(data, "ind.toy.x")])
    assert found is None or only_numbers(found)
