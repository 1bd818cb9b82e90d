"""Planetoid's raw files, written here as Python 2 did: equal to the npz form, or refused."""

import copyreg
import io
import os
import pickle
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.stores import load_storage
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.pickles import load_numbers
from daskfc.stores.sources.readers import fingerprint, format_of, open_source
from tests.conftest import DATA, needs_data

PARTS = ("allx", "ally", "tx", "ty", "test.index", "graph")


class Python2Pickler(pickle._Pickler):
    """Writes text and bytes as the str of Python 2, in the protocols that it had."""

    def save_string(self, value):
        data = value if isinstance(value, bytes) else value.encode("latin1")
        if self.proto == 0:
            self.write(b"S" + repr(data)[1:].encode() + b"\n")
        else:
            self.write(b"T" + len(data).to_bytes(4, "little") + data)
        self.memoize(value)

    dispatch = pickle._Pickler.dispatch | {bytes: save_string, str: save_string}


def dumps(value, protocol=2):
    file = io.BytesIO()
    Python2Pickler(file, protocol).dump(value)
    # where the classes were when the files were written
    data = file.getvalue().replace(b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n")
    return data.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def write_planetoid(folder, X, A, y, test, *, name="toy", lost=(), dump=dumps):
    """Write a graph; `test` are its last nodes in any order, `lost` those without features."""
    folder.mkdir(exist_ok=True)
    test = np.array([node for node in test if node not in lost])
    rest = np.arange(len(y) - len(test) - len(lost))
    onehot = np.eye(y.max() + 1, dtype=np.int32)[y]
    A = sparse.csr_array(A)
    graph = defaultdict(list)
    for node in range(len(y)):
        graph[node] += A.indices[A.indptr[node] : A.indptr[node + 1]].tolist()
    values = {
        "allx": sparse.csr_matrix(X[rest], dtype=np.float32),
        "ally": onehot[rest],
        "tx": sparse.csr_matrix(X[test], dtype=np.float32),
        "ty": onehot[test],
        "graph": graph,
    }
    for part, value in values.items():
        (folder / f"ind.{name}.{part}").write_bytes(dump(value))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in test))
    return str(folder / f"ind.{name}")


def toy(seed=0, n=20, d=6, n_test=8):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 0.15)
    X = (rng.random((n, d)) < 0.4) * rng.integers(1, 9, (n, d))
    return X, upper | upper.T, rng.integers(0, 3, n), rng.permutation(np.arange(n - n_test, n))


def write_npz(path, X, A, y):
    X, A = sparse.csr_array(X), sparse.csr_array(A)
    parts = {"A_indices": A.indices, "A_indptr": A.indptr, "A_shape": A.shape, "y": y}
    parts |= {"X_data": X.data, "X_indices": X.indices, "X_indptr": X.indptr, "X_shape": X.shape}
    np.savez(path, **parts)
    return str(path)


def opened(path, **keys):
    return open_source(SourceConfig(path=str(path), **keys))


def assert_same(samples, others):
    for one, other in zip(samples.blocks(7), others.blocks(7), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(samples.labels, others.labels)
    assert samples.labels.dtype == others.labels.dtype
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(samples.graph, part), getattr(others.graph, part))
    assert samples.feature_names == others.feature_names
    assert samples.classes == others.classes
    assert samples.ids().tolist() == others.ids().tolist()


@pytest.mark.parametrize("protocol", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_raw_files_equal_the_npz_form(tmp_path, protocol, seed):
    X, A, y, test = toy(seed)
    path = write_planetoid(tmp_path, X, A, y, test, dump=partial(dumps, protocol=protocol))
    assert_same(opened(path), opened(write_npz(tmp_path / "toy.npz", X, A, y)))
    assert next(opened(path).blocks(3)).dtype == np.uint8
    assert next(opened(write_planetoid(tmp_path, X / 3, A, y, test)).blocks(3)).dtype == np.float32


def test_names_of_todays_python(tmp_path):
    X, A, y, test = toy()
    path = write_planetoid(tmp_path, X, A, y, test, dump=pickle.dumps)
    assert_same(opened(path), opened(write_npz(tmp_path / "toy.npz", X, A, y)))


@needs_data
def test_cora(tmp_path, monkeypatch):
    with np.load(DATA / "cora.npz") as cora:
        X, A = (
            sparse.csr_array(
                (
                    cora.get(f"{m}_data", np.ones(len(cora[f"{m}_indices"]))),
                    cora[f"{m}_indices"],
                    cora[f"{m}_indptr"],
                ),
                shape=cora[f"{m}_shape"],
            )
            for m in "XA"
        )
        y = cora["y"].astype(int)
    test = np.random.default_rng(0).permutation(np.arange(1708, 2708))
    samples = opened(write_planetoid(tmp_path / "planetoid", X, A, y, test, name="cora"))
    assert_same(samples, opened(DATA / "cora.npz"))
    assert samples.graph.nnz == 2 * 5278
    monkeypatch.setenv("DASKFC_DATA", str(tmp_path))
    storage = load_storage(Path(__file__).parents[2] / "storage" / "cora-planetoid.yaml")
    storage.ensure(str(tmp_path / "stores"))
    assert [row["edges"] for row in storage.inspect(str(tmp_path / "stores"))] == [5278] * 4


def test_nodes_without_features_and_labels(tmp_path):
    X, A, y, test = toy()
    lost = [13, 17]
    path = write_planetoid(tmp_path, X, A, y, test, lost=lost)
    X[lost], y[lost] = 0, 0
    assert_same(opened(path), opened(write_npz(tmp_path / "toy.npz", X, A, y)))


def test_graphs_are_made_symmetric_and_unweighted(tmp_path):
    X, _, y, test = toy(n=10, n_test=4)
    path = write_planetoid(tmp_path, X, np.zeros((10, 10)), y, test)
    (tmp_path / "ind.toy.graph").write_bytes(dumps({0: [1, 1, 2], 1: [0], 3: [3, 3], 9: []}))
    wanted = np.zeros((10, 10))
    wanted[[0, 1, 0, 2, 3], [1, 0, 2, 0, 3]] = 1
    np.testing.assert_array_equal(opened(path).graph.toarray(), wanted)


def test_folders_and_names(tmp_path):
    assert format_of(SourceConfig(path="/data/ind.cora")) == "planetoid"
    one, two, none = tmp_path / "one", tmp_path / "two", tmp_path / "none"
    path = write_planetoid(one, *toy())
    assert_same(opened(one, format="planetoid"), opened(path))
    for name in ("a", "b"):
        write_planetoid(two, *toy(), name=name)
    with pytest.raises(StoreError, match=r"got 2: ind.a, ind.b. Let source.path end in one"):
        opened(two, format="planetoid")
    none.mkdir()
    with pytest.raises(StoreError, match=r"must hold one ind.NAME.graph; got 0\. Let"):
        opened(none, format="planetoid")
    with pytest.raises(StoreError, match="source file is not there"):
        opened(none / "ind.toy")


def test_fingerprint_follows_every_part(tmp_path):
    source = SourceConfig(path=write_planetoid(tmp_path, *toy()))
    prints = {fingerprint(source)}
    for part in PARTS:
        with (tmp_path / f"ind.toy.{part}").open("ab") as file:
            file.write(b" ")
        prints.add(fingerprint(source))
    assert len(prints) == 1 + len(PARTS)
    (tmp_path / "ind.toy.ty").unlink()
    assert fingerprint(source) is None


def test_stores_of_raw_files(tmp_path):
    X, A, y, test = toy()
    path = write_planetoid(tmp_path, X, A, y, test)
    storage = load_storage(
        {"source": {"path": path}, "partition": {"scheme": "vertical", "clients": 2}}
    )
    storage.ensure(str(tmp_path / "stores"))
    stores = storage.open(str(tmp_path / "stores"), verify=True)
    np.testing.assert_array_equal(np.hstack([s.rows(0, 20) for s in stores.values()]), X)
    np.testing.assert_array_equal(stores["client-2"].graph().toarray(), A)


# -- pickles that are not to be trusted ------------------------------------------------------------


class Call:
    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("part", ["allx", "ally", "tx", "ty", "graph"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_pickle_that_runs_code_is_refused(tmp_path, part, protocol, wrapped):
    path = write_planetoid(tmp_path, *toy())
    call = Call(os.mkdir, str(tmp_path / "run"))
    (tmp_path / f"ind.toy.{part}").write_bytes(pickle.dumps([call] if wrapped else call, protocol))
    with pytest.raises(StoreError, match=rf"toy.{part}: a pickle may name only.*'posix.mkdir'"):
        opened(path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        (b"__builtin__\neval", "__builtin__.eval"),
        (b"numpy\nload", "numpy.load"),
        (b"numpy.core.multiarray\nfromfile", "numpy.core.multiarray.fromfile"),
        (b"scipy.sparse.csr\nnp", "scipy.sparse.csr.np"),
        (b"collections\ndefaultdict.fromkeys", "collections.defaultdict.fromkeys"),
        (b"copy_reg\n__newobj__", "copy_reg.__newobj__"),
    ],
)
def test_other_names_are_refused(name, function):
    with pytest.raises(StoreError, match=f"x: a pickle may name only .* got '{function}', which"):
        load_numbers(b"c" + name + b"\n(S'1'\ntR.", "x")


def test_names_by_their_numbers_are_refused(monkeypatch):
    monkeypatch.setitem(copyreg._extension_cache, 7, print)  # what another library may have loaded
    monkeypatch.setitem(copyreg._inverted_registry, 7, ("builtins", "list"))
    for data in (b"\x80\x02\x82\x07)R.", b"\x80\x02\x83\x07\x00)R."):
        with pytest.raises(StoreError, match=r"cannot be read as a pickle of numbers"):
            load_numbers(data, "x")


NAMES = [
    b"numpy\nndarray",
    b"numpy\ndtype",
    b"numpy.core.multiarray\n_reconstruct",
    b"scipy.sparse.csr\ncsr_matrix",
    b"collections\ndefaultdict",
    b"copy_reg\n_reconstructor",
    b"_codecs\nencode",
    b"__builtin__\nlist",
    b"__builtin__\ndict",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attribute", ["matrix", "array", "dtype", "__init__", "func", "__code__"])
def test_a_pickle_changes_nothing_for_the_next(name, attribute):
    value = sparse.csr_matrix(np.eye(3))
    state = b"(N(dS'" + attribute.encode() + b"'\nNstb."  # sets an attribute of what is named
    with suppress(StoreError):
        load_numbers(b"c" + name + b"\n" + state, "x")
    assert (load_numbers(dumps(value), "x") != value).nnz == 0
    assert load_numbers(dumps({1: [2]}), "x") == {1: [2]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle\n",
        b"\x80\x02.",
        dumps(np.array([None, "a"])),
        dumps(np.array([1 + 2j])),
        dumps(np.zeros(2, "V8")),
        dumps(np.array(["2020-01-01"], "M8[D]")),
        b"cnumpy\ndtype\n(S'f8'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb0" + dumps([1])[2:-1],
        b"c_codecs\nencode\n(S'a'\nS'zip'\ntR.",
        b"ccopy_reg\n_reconstructor\n(c__builtin__\nlist\nc__builtin__\nobject\nNtR.",
    ],
)
def test_no_pickle_of_numbers(data):
    with pytest.raises(StoreError, match=r"x: the source cannot be read as a pickle of numbers"):
        load_numbers(data, "x")


def test_memory_is_not_what_a_file_says():
    # a small file, which names a place so far off that its reader would make room of 64 GiB
    for data in (b"\x80\x02Nr\xff\xff\xff\xff.", b"Np4294967295\n."):
        assert load_numbers(data, "x") is None


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "<f8", ">f8", "i8", ">i2", "u1", "?"])
def test_arrays_come_back(dtype, order):
    values = np.asarray(np.arange(6).reshape(2, 3) % 2, dtype=dtype, order=order)
    for protocol in (0, 2):
        found = load_numbers(dumps(values, protocol), "x")
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype.newbyteorder("=")
    assert load_numbers(dumps([np.int64(7), np.float32(0.5)]), "x") == [7, 0.5]


@given(st.data())
def test_damaged_pickles_raise_one_error(data):
    rng = np.random.default_rng(0)
    matrix = sparse.csr_matrix(rng.random((4, 3)) < 0.5, dtype=np.float32)
    content = bytearray(dumps(data.draw(st.sampled_from([matrix, matrix.toarray(), {1: [0, 2]}]))))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    with suppress(StoreError):  # a damaged number is a number
        load_numbers(bytes(content), "x")


# -- files that do not go together -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "match"),
    [
        ("allx", r"allx and ally as many rows must be; got 11, 12"),
        ("ally", r"allx and ally as many rows must be; got 12, 11"),
        ("tx", r"tx, ty and test.index as many rows must be; got 7, 8, 8"),
        ("ty", r"tx, ty and test.index as many rows must be; got 8, 7, 8"),
    ],
)
def test_lengths_differ(tmp_path, part, match):
    path = write_planetoid(tmp_path, *toy())
    file = tmp_path / f"ind.toy.{part}"
    value = load_numbers(file.read_bytes(), "x")
    shorter = value[:-1] if isinstance(value, np.ndarray) else sparse.csr_matrix(value[:-1])
    file.write_bytes(dumps(shorter))
    with pytest.raises(StoreError, match=match):
        opened(path)


NARROW = dumps(sparse.csr_matrix(np.ones((8, 5))))
BROKEN = dumps(sparse.csr_matrix(np.ones((8, 6)))).replace(b"\x06\x00\x00\x00", b"\x07\x00\x00\x00")


@pytest.mark.parametrize(
    ("part", "content", "match"),
    [
        ("tx", NARROW, "allx and tx as many columns must be; got 6, 5"),
        ("tx", BROKEN, r"toy\.tx: the source cannot be read as a pickle"),
        ("tx", dumps(np.eye(8)), "must hold a matrix of sparse rows; got ndarray"),
        ("ty", NARROW, "must hold an array of one-hot rows; got csr_array"),
        ("ty", dumps(np.ones(8)), "must hold an array of one-hot rows; got ndarray"),
        ("ty", dumps(np.ones((8, 3))), "must be 1 at its class and 0 elsewhere"),
        ("ty", dumps(np.full((8, 3), np.nan)), "must be 1 at its class and 0 elsewhere"),
        ("test.index", b"12\n13\nx\n", "the number of a node in every line"),
        ("test.index", b"12\n13\n" + b"9" * 30, "the number of a node in every line"),
        ("test.index", b"12 13 14 15 16 17 18 18", "must differ and follow the 12 nodes of allx"),
        ("test.index", b"11 13 14 15 16 17 18 19", "must differ and follow the 12 nodes of allx"),
        ("test.index", b"12 13 14 15 16 17 18 99", r"; 79 without features are not there either"),
        ("test.index", b"12 13 14 15 16 17 18 9999999999999", "without features are not there"),
        ("graph", dumps([[1], [0]]), "a dictionary of the neighbours of every node; got list"),
        ("graph", dumps({0: 1}), "a dictionary of the neighbours of every node; got dict"),
        ("graph", dumps({0: [20]}), r"nodes must be integers in \[0, 19\]"),
        ("graph", dumps({-1: [0]}), r"nodes must be integers in \[0, 19\]"),
        ("graph", dumps({0: [1.0]}), r"nodes must be integers in \[0, 19\]"),
        ("graph", dumps({0: ["1"]}), r"nodes must be integers in \[0, 19\]"),
    ],
)
def test_contents_that_do_not_go(tmp_path, part, content, match):
    path = write_planetoid(tmp_path, *toy())
    (tmp_path / f"ind.toy.{part}").write_bytes(content)
    with pytest.raises(StoreError, match=match):
        opened(path)


@pytest.mark.parametrize("part", PARTS)
def test_missing_and_cut_off_parts(tmp_path, part):
    path = write_planetoid(tmp_path, *toy())
    file = tmp_path / f"ind.toy.{part}"
    content = file.read_bytes()
    for size in range(0, len(content) - 1, max(len(content) // 7, 1)):
        file.write_bytes(content[:size])
        with pytest.raises(StoreError):
            opened(path)
    file.unlink()
    with pytest.raises(StoreError, match=rf"; {part} of them are not there. Get them too"):
        opened(path)


def test_keys_that_mean_nothing():
    with pytest.raises(StoreError, match=r"source.labels means nothing to the format 'planetoid'"):
        opened("ind.toy", labels="y")
