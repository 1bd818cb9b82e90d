import contextlib
import gzip
import json
import re
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pytest
import xarray as xr
import zarr
from scipy import sparse
from scipy.io import savemat
from sklearn.datasets import dump_svmlight_file

from daskfc.errors import StoreError
from daskfc.stores import SOURCES, write_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import check_source, fingerprint, format_of, open_source

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "reading-files.md"

X = np.arange(33, dtype=np.float64).reshape(11, 3) / 4
y = np.arange(11) % 3


def read(samples, rows=4):
    """All features, in blocks that are no larger than asked (parquet and all others)."""
    blocks = list(samples.blocks(rows))
    assert max(len(block) for block in blocks) <= rows
    return np.concatenate(blocks)


def opened(path, **keys):
    return open_source(SourceConfig(path=str(path), **keys))


def frame():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table.insert(1, "kind", np.array(["u", "v", "w"])[y])
    table["key"] = [f"s{i}" for i in range(11)]
    return table


def write_npz(folder):
    np.savez_compressed(folder / "t.npz", X=X, y=y)
    return {"path": folder / "t.npz"}


def write_csv(folder):
    frame().to_csv(folder / "t.csv", index=False)
    return {"path": folder / "t.csv", "labels": "kind", "ids": "key"}


def write_csv_gz(folder):
    frame().to_csv(folder / "t.tsv.gz", index=False, sep="\t")
    return {"path": folder / "t.tsv.gz", "labels": "kind", "columns": ["a", "b", "c"]}  # no ids


def write_headless(folder):
    np.savetxt(folder / "t.data", np.column_stack([y, X]), delimiter=";")
    return {"path": folder / "t.data", "labels": 0, "header": False, "delimiter": ";"}


def write_parquet(folder):
    frame().to_parquet(folder / "t.parquet", row_group_size=5)
    return {"path": folder / "t.parquet", "labels": "kind", "ids": "key"}


def write_feather(folder):
    frame().to_feather(folder / "t.feather", chunksize=5)
    return {"path": folder / "t.feather", "labels": "kind", "ids": "key"}


def write_libsvm(folder):
    dump_svmlight_file(X, y, str(folder / "t.svm"), zero_based=False)
    return {"path": folder / "t.svm"}


def write_idx(folder):
    head = struct.pack(">BBBB3I", 0, 0, 0x0E, 3, 11, 3, 1)
    with gzip.open(folder / "t-idx3-ubyte.gz", "wb") as file:
        file.write(head + X.astype(">f8").tobytes())
    (folder / "labels-idx1-ubyte").write_bytes(
        struct.pack(">BBBBI", 0, 0, 8, 1, 11) + y.astype("u1").tobytes()
    )
    return {"path": folder / "t-idx3-ubyte.gz", "labels": str(folder / "labels-idx1-ubyte")}


def write_mat(folder):
    savemat(folder / "t.mat", {"fea": X, "gnd": y[:, None]})
    return {"path": folder / "t.mat"}


def write_own_zarr(folder):
    ids = [str(i) for i in range(11)]
    write_store(folder / "t.zarr", "a", X, ids, y, feature_names=["p", "q", "r"], dtype="float64")
    return {"path": folder / "t.zarr"}


def write_other_zarr(folder):
    group = zarr.create_group(str(folder / "o.zarr"))
    group.create_array("X", data=X, chunks=(3, 3))
    group.create_array("y", data=y)
    return {"path": folder / "o.zarr"}


def write_arrow(folder):
    """A file of Arrow, and beside it a stream of the same."""
    table = pa.Table.from_pandas(frame())
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
        file.write_table(table, 5)
    return {"path": folder / "t.arrow", "labels": "kind", "ids": "key"}


def write_arrow_stream(folder):
    table = pa.Table.from_pandas(frame())
    with pa.ipc.new_stream(folder / "t.arrows", table.schema) as file:
        file.write_table(table, 5)
    return {"path": folder / "t.arrows", "labels": "kind", "ids": "key"}


def write_excel(folder):
    pytest.importorskip("python_calamine", reason="needs daskfc[excel]")
    frame().to_excel(folder / "t.xlsx", index=False, engine="openpyxl")
    return {"path": folder / "t.xlsx", "labels": "kind", "ids": "key"}


def write_sqlite(folder):
    with contextlib.closing(sqlite3.connect(folder / "t.sqlite")) as database:
        frame().to_sql("samples", database, index=False)
    keys = {"labels": "kind", "ids": "key"}
    return {"path": folder / "t.sqlite", "sql": "select * from samples", **keys}


def write_duckdb(folder):
    duckdb = pytest.importorskip("duckdb", reason="needs daskfc[sql]")
    table = frame()  # which the query names
    with contextlib.closing(duckdb.connect(folder / "t.duckdb")) as database:
        database.register("given", table)
        database.execute("create table samples as select * from given")
    keys = {"labels": "kind", "ids": "key"}
    return {"path": folder / "t.duckdb", "sql": "select * from samples", **keys}


def write_json_lines(folder):
    frame().to_json(folder / "t.jsonl", orient="records", lines=True, double_precision=15)
    return {"path": folder / "t.jsonl", "labels": "kind", "ids": "key"}


def write_json(folder):
    text = json.dumps(frame().to_dict("records"), indent=1)
    (folder / "t.json.gz").write_bytes(gzip.compress(f"\n {text}".encode()))
    return {"path": folder / "t.json.gz", "labels": "kind", "ids": "key"}


def data_set():
    """The samples as xarray has them, in one array, and labels beside."""
    array = xr.DataArray(X, dims=["person", "gene"], coords={"gene": ["p", "q", "r"]})
    return xr.Dataset({"X": array, "kind": ("person", y)})


def write_netcdf(folder):
    data_set().to_netcdf(folder / "t.nc", engine="scipy")
    return {"path": folder / "t.nc", "features": "X", "labels": "kind"}


def write_netcdf4(folder):
    pytest.importorskip("h5netcdf", reason="needs daskfc[netcdf]")
    keyed = data_set().assign_coords(person=[f"s{i}" for i in range(11)])
    keyed.to_netcdf(folder / "t.nc4", engine="h5netcdf")
    return {"path": folder / "t.nc4", "features": "X", "labels": "kind", "ids": "person"}


def write_netcdf_table(folder):
    table = xr.Dataset.from_dataframe(frame().set_index("key"))
    table.to_netcdf(folder / "t.nc", engine="scipy")
    return {"path": folder / "t.nc", "labels": "kind", "ids": "key"}


def write_xarray_zarr(folder):
    data_set().drop_vars("gene").to_zarr(folder / "t.zarr", zarr_format=2, consolidated=False)
    return {"path": folder / "t.zarr", "format": "xarray", "features": "X", "labels": "kind"}


def write_h5ad(folder, matrix=X, name="X"):
    anndata = pytest.importorskip("anndata", reason="needs daskfc[h5ad]")
    # anndata for Python 3.11 writes no strings of pandas 3
    names, genes = ([f"s{i}" for i in range(11)], ["p", "q", "r"])
    obs = pd.DataFrame({"kind": y}, index=pd.Index(names, dtype=object))
    genes = pd.DataFrame(index=pd.Index(genes, dtype=object))
    data = anndata.AnnData(matrix, obs=obs, var=genes)
    data.layers["counts"] = matrix
    data.write_h5ad(folder / "t.h5ad")
    return {"path": folder / "t.h5ad", "labels": "kind", "features": name}


def write_h5ad_by_rows(folder):
    return write_h5ad(folder, sparse.csr_matrix(X), "layers/counts")


def write_h5ad_by_columns(folder):
    return write_h5ad(folder, sparse.csc_matrix(X))


WRITERS = [
    write_npz,
    write_csv,
    write_csv_gz,
    write_headless,
    write_parquet,
    write_feather,
    write_libsvm,
    write_idx,
    write_mat,
    write_own_zarr,
    write_other_zarr,
    write_arrow,
    write_arrow_stream,
    write_excel,
    write_sqlite,
    write_duckdb,
    write_json_lines,
    write_json,
    write_netcdf,
    write_netcdf4,
    write_netcdf_table,
    write_xarray_zarr,
    write_h5ad,
    write_h5ad_by_rows,
    write_h5ad_by_columns,
]


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_same_samples(write, tmp_path):
    keys = write(tmp_path)
    source = SourceConfig(**(keys | {"path": str(keys["path"])}))
    samples = open_source(source)
    np.testing.assert_array_equal(read(samples), X)
    np.testing.assert_array_equal(read(samples, 100), X)  # and a second time
    np.testing.assert_array_equal(samples.labels, y)
    assert samples.n_samples == 11
    named = keys.get("ids") or str(keys["path"]).endswith("h5ad")  # which always has names
    ids = [f"s{i}" if named else str(i) for i in range(11)]
    assert samples.ids().tolist() == ids


@pytest.mark.parametrize("write", WRITERS)
def test_missing_file(write, tmp_path):
    keys = write(tmp_path)
    gone = str(keys["path"]).replace(str(tmp_path), str(tmp_path / "gone"))
    with pytest.raises(StoreError, match="source file is not there"):
        open_source(SourceConfig(**(keys | {"path": gone})))
    assert fingerprint(SourceConfig(**(keys | {"path": gone}))) is None


@pytest.mark.parametrize(
    "name",
    ["npz", "parquet", "feather", "idx", "libsvm", "mat", "excel", "xarray", "h5ad"],
)
def test_not_of_the_format(name, tmp_path):
    needed = {"excel": "python_calamine", "h5ad": "anndata"}
    pytest.importorskip(needed.get(name, "numpy"), reason=f"needs daskfc[{name}]")
    (tmp_path / "file").write_bytes(b"certainly not it\n")
    with pytest.raises(StoreError, match=f"cannot be read as {name}"):
        opened(tmp_path / "file", format=name)


def test_feather_with_text_beyond_its_bytes_is_refused(tmp_path):
    words = pa.array([f"{i:02}" for i in range(40)])
    pf.write_feather(pa.table({"a": range(40), "y": words}), tmp_path / "t.feather", "uncompressed")
    ends = np.arange(0, 82, 2, dtype="<i4")
    damaged = np.append(ends[:-1], 1 << 30).astype("<i4")
    whole = (tmp_path / "t.feather").read_bytes()
    assert whole.count(ends.tobytes()) == 1
    (tmp_path / "t.feather").write_bytes(whole.replace(ends.tobytes(), damaged.tobytes()))
    with pytest.raises(StoreError, match="cannot be read as feather"):
        opened(tmp_path / "t.feather", labels="y")


def test_feather_is_streamed(tmp_path):
    rows = np.random.default_rng(0).standard_normal((64_000, 8))
    pd.DataFrame(rows, columns=list("abcdefgh")).to_feather(tmp_path / "t.feather", chunksize=1000)
    samples = opened(tmp_path / "t.feather")
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in samples.blocks(500)]
    assert len(held) == 128
    assert max(held) < rows.nbytes / 4


def test_names_and_classes(tmp_path):
    samples = open_source(SourceConfig(**{**write_csv(tmp_path), "path": str(tmp_path / "t.csv")}))
    assert samples.feature_names == ("a", "b", "c")
    assert samples.classes == ("u", "v", "w")
    write_own_zarr(tmp_path)
    assert opened(tmp_path / "t.zarr").feature_names == ("p", "q", "r")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_images_are_flattened(order, save, tmp_path):
    images = np.asarray(np.arange(60, dtype="u1").reshape(5, 3, 4), order=order)
    save(tmp_path / "t.npz", images=images)
    samples = opened(tmp_path / "t.npz", features="images")
    np.testing.assert_array_equal(read(samples, 2), images.reshape(5, 12))
    assert samples.labels is None


def test_npz_is_streamed(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "t.npz", X=X, y=y)
    samples = opened(tmp_path / "t.npz")

    def refuse(*_, **__):
        raise AssertionError("read whole")

    monkeypatch.setattr("daskfc.stores.sources.formats.npz.np.load", refuse)
    np.testing.assert_array_equal(next(iter(samples.blocks(2))), X[:2])


def test_broken_graphs_are_refused(tmp_path):
    np.savez(tmp_path / "g.npz", A_indptr=y, A_indices=y, X_data=y, y=y)
    with pytest.raises(StoreError, match="must have A_shape"):
        opened(tmp_path / "g.npz")
    np.savez(tmp_path / "h.npz", A_indptr=y, A_indices=y, A_shape=[11, 11], X=X, y=y)
    with pytest.raises(StoreError, match="those of one matrix"):
        opened(tmp_path / "h.npz")


def test_npz_names(tmp_path):
    np.savez(tmp_path / "t.npz", a=X, b=y)
    with pytest.raises(StoreError, match=r"must have an array called X.*it has a, b"):
        opened(tmp_path / "t.npz")
    with pytest.raises(StoreError, match=r"source.features must be one of a, b; got 'c'"):
        opened(tmp_path / "t.npz", features="c")
    with pytest.raises(StoreError, match=r"must have rows and columns; got shape \(11,\)"):
        opened(tmp_path / "t.npz", features="b")


def test_lengths_differ(tmp_path):
    np.savez(tmp_path / "t.npz", X=X, y=y[:-1])
    with pytest.raises(StoreError, match="labels must be as many as samples; got 10 for 11"):
        opened(tmp_path / "t.npz")


def test_csv_columns(tmp_path):
    write_csv(tmp_path)
    with pytest.raises(StoreError, match="the column 'colour' named by the source is not there"):
        opened(tmp_path / "t.csv", labels="colour")
    with pytest.raises(
        StoreError, match="line 2, column 'kind': features must be numeric; got a word"
    ):
        read(opened(tmp_path / "t.csv", ids="key"))
    some = opened(tmp_path / "t.csv", columns=["c", "a"])
    np.testing.assert_array_equal(read(some), X[:, [2, 0]])


def test_missing_labels(tmp_path):
    table = frame()
    table.loc[3, "kind"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(StoreError, match=r"must have a label; got none for 1 of 11"):
        opened(tmp_path / "t.csv", labels="kind", ids="key")


def test_real_labels_are_refused(tmp_path):
    dump_svmlight_file(X, y + 0.5, str(tmp_path / "t.svm"))
    with pytest.raises(StoreError, match="must be integers or words"):
        opened(tmp_path / "t.svm")


def test_scale_and_subsample(tmp_path):
    np.savez(tmp_path / "t.npz", X=X, y=y)
    part = opened(tmp_path / "t.npz", scale=0.5, subsample={"n": 5, "seed": 1})
    rows = part.ids().astype(int)
    np.testing.assert_array_equal(np.concatenate(list(part.blocks(3))), X[rows] * 0.5)
    np.testing.assert_array_equal(part.labels, y[rows])
    assert len(set(rows)) == 5
    with pytest.raises(StoreError, match=r"subsample.n must be at most .* got 12 of 11"):
        opened(tmp_path / "t.npz", subsample={"n": 12})


def test_the_seed_chooses_the_subsample(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.zeros((200, 1)))

    def chosen(**keys):
        return tuple(opened(tmp_path / "t.npz", subsample={"n": 20, **keys}).ids())

    assert len({chosen(seed=0), chosen(seed=1), chosen(seed=2)}) == 3
    assert chosen(seed=1) == chosen(seed=1)
    assert chosen() == chosen(seed=0)


def test_empty_source(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.empty((0, 3)))
    with pytest.raises(StoreError, match="at least one sample and one feature; got 0 x 3"):
        opened(tmp_path / "t.npz")


def test_formats_and_their_keys():
    assert format_of(SourceConfig(path="s3://bucket/a.csv.gz")) == "csv"
    names = {key: [f"x{s}" for s in r.suffixes] for key, r in SOURCES.items()}
    for key, reader in SOURCES.items():
        names[key] += [f"folder.csv/{prefix}x" for prefix in reader.prefixes]
        assert key == "bundled" or names[key]
        assert {format_of(SourceConfig(path=name)) for name in names[key]} <= {key}
    with pytest.raises(StoreError, match="cannot be told from its name"):
        format_of(SourceConfig(path="a.xyz"))
    with pytest.raises(StoreError, match=r"source.format must be one of .* got 'words'"):
        format_of(SourceConfig(path="a.xyz", format="words"))
    with pytest.raises(StoreError, match=r"source.delimiter means nothing to the format 'npz'"):
        check_source(SourceConfig(path="a.npz", delimiter=";"))
    with pytest.raises(StoreError, match="got 'moons'"):
        open_source(SourceConfig(dataset="moons"))


def test_environment_variables(tmp_path, monkeypatch):
    write_npz(tmp_path)
    monkeypatch.setenv("HERE", str(tmp_path))
    assert opened("${HERE}/t.npz").n_samples == 11
    monkeypatch.delenv("HERE")
    with pytest.raises(StoreError, match="names the environment variable HERE, which is not set"):
        opened("${HERE}/t.npz")


def test_fingerprint_follows_the_content(tmp_path):
    write_npz(tmp_path)
    source = SourceConfig(path=str(tmp_path / "t.npz"))
    before = fingerprint(source)
    write_npz(tmp_path)
    assert fingerprint(source) == before
    np.savez_compressed(tmp_path / "t.npz", X=X + 1, y=y)
    assert fingerprint(source) != before


@pytest.mark.parametrize("at", [0, 2**20 - 1, -(2**20), -1], ids=["first", "", "", "last"])
def test_fingerprint_sees_a_change_at_either_end_of_a_large_file(at, tmp_path):
    content = bytearray(3 * 2**20)
    (tmp_path / "t.npz").write_bytes(content)
    source = SourceConfig(path=str(tmp_path / "t.npz"))
    before = fingerprint(source)
    content[at] = 1
    (tmp_path / "t.npz").write_bytes(content)
    assert fingerprint(source) != before


def test_fingerprint_sees_a_file_grow_in_the_middle(tmp_path):
    (tmp_path / "t.npz").write_bytes(bytes(3 * 2**20))
    source = SourceConfig(path=str(tmp_path / "t.npz"))
    before = fingerprint(source)
    (tmp_path / "t.npz").write_bytes(bytes(3 * 2**20 + 1))
    assert fingerprint(source) != before


def test_fingerprint_of_a_folder_sees_names_and_sizes(tmp_path):
    write_other_zarr(tmp_path)
    source = SourceConfig(path=str(tmp_path / "o.zarr"))
    seen = {fingerprint(source)}
    (tmp_path / "o.zarr" / "X" / "more").write_bytes(b"1")
    seen.add(fingerprint(source))
    (tmp_path / "o.zarr" / "X" / "more").write_bytes(b"12")
    seen.add(fingerprint(source))
    (tmp_path / "o.zarr" / "X" / "more").rename(tmp_path / "o.zarr" / "X" / "other")
    seen.add(fingerprint(source))
    assert len(seen) == 4


@pytest.mark.parametrize("name", ["iris", "digits", "digits-views", "wine", "breast_cancer"])
def test_bundled(name):
    samples = open_source(SourceConfig(dataset=name))
    assert len(samples.feature_names) == next(samples.blocks(10)).shape[1]
    assert len(samples.classes) == len(np.unique(samples.labels))


def test_pickled_objects_are_told_and_never_opened(tmp_path):
    np.savez(tmp_path / "o.npz", X=np.array([[1, "a"]], dtype=object))
    with pytest.raises(StoreError, match=r"array 'X' must hold numbers; it holds Python objects"):
        opened(tmp_path / "o.npz")


def test_every_ending_of_the_guide_tells_the_format():
    table = GUIDE.read_text(encoding="utf-8").partition("|:--|")[2].partition("\n\n")[0]
    endings = re.findall(r"`(\.\w+)`", table)
    packed = {".gz", ".bz2", ".xz"}
    assert len(endings) > 25
    for ending in endings:
        name = f"s3://a/patients{'.csv' * (ending in packed)}{ending}"
        assert format_of(SourceConfig(path=name)) in SOURCES, name
