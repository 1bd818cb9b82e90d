"""MATLAB files: equal to the npz form of the same graph, or refused in one sentence."""

from contextlib import suppress

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from daskfc.errors import StoreError
from daskfc.stores import load_storage
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import open_source
from tests.conftest import DATA, needs_data

rng = np.random.default_rng(0)
X = rng.integers(0, 3, (9, 4)) * 0.5
A = np.triu(rng.random((9, 9)) < 0.4) * rng.integers(1, 4, (9, 9))  # weights and loops, as in Wiki
A = (A + np.triu(A, 1).T).astype(float)
y = rng.integers(1, 4, 9)


def opened(path, **keys):
    return open_source(SourceConfig(path=str(path), **keys))


def saved(folder, arrays, **options):
    savemat(folder / "t.mat", arrays, **options)
    return folder / "t.mat"


def write_npz(path, X, A, y):
    A = sparse.csr_array(A)
    np.savez(path, X=X, y=y, A_data=A.data, A_indices=A.indices, A_indptr=A.indptr, A_shape=A.shape)
    return path


def assert_same(samples, others):
    for one, other in zip(samples.blocks(4), others.blocks(4), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(samples.labels, others.labels)
    np.testing.assert_array_equal(samples.graph.toarray(), others.graph.toarray())
    assert samples.feature_names == others.feature_names
    assert samples.classes == others.classes


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csc_matrix])
@pytest.mark.parametrize(
    "names", [("fea", "W", "gnd"), ("X", "A", "y"), ("features", "adj", "label")]
)
def test_a_graph_equals_its_npz_form(tmp_path, names, kind, compressed):
    arrays = dict(zip(names, (kind(X), kind(A), y), strict=True))
    path = saved(tmp_path, arrays | {"other": np.ones(3)}, do_compression=compressed)
    assert_same(opened(path), opened(write_npz(tmp_path / "t.npz", X, A, y)))


@pytest.mark.parametrize("labels", [y, y[:, None], sparse.csc_matrix(y[:, None]), y.astype("u1")])
def test_labels_stay_as_they_are(tmp_path, labels):
    samples = opened(saved(tmp_path, {"fea": X, "gnd": labels}))
    assert samples.graph is None
    np.testing.assert_array_equal(samples.labels, y)


def test_words_as_labels(tmp_path):
    samples = opened(saved(tmp_path, {"fea": X[:3], "gnd": ["cat", "horse", "cat"]}))
    assert samples.classes == ("cat", "horse")
    assert samples.labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csc_matrix])
def test_logical_features(tmp_path, kind):
    samples = opened(saved(tmp_path, {"fea": kind(X > 0), "W": kind(A > 0)}))
    block = next(samples.blocks(9))
    np.testing.assert_array_equal(block, X > 0)
    assert block.dtype == np.uint8
    np.testing.assert_array_equal(samples.graph.toarray(), A > 0)
    assert samples.labels is None


def test_other_names(tmp_path):
    path = saved(tmp_path, {"Attributes": X, "Network": A, "Label": y, "fea": X * 2, "W": A * 2})
    samples = opened(path, features="Attributes", adjacency="Network", labels="Label")
    assert_same(samples, opened(write_npz(tmp_path / "t.npz", X, A, y)))
    with pytest.raises(StoreError, match=r"source.adjacency must be one of Attr.*got 'G'"):
        opened(path, adjacency="G")
    with pytest.raises(StoreError, match=r"source.adjacency means nothing to the format 'npz'"):
        opened(tmp_path / "t.npz", adjacency="A")
    bare = saved(tmp_path, {"Attributes": X})
    with pytest.raises(StoreError, match=r"called fea, X, features, or one named .* has Attrib"):
        opened(bare)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"fea": X, "W": np.triu(A)}, "must be symmetric; .* Add the transpose"),
        ({"fea": X, "W": A[:5, :5]}, "as many rows and columns; got 5 x 5"),
        ({"fea": X, "W": -A}, "weights of a graph must be finite and at least 0"),
        ({"fea": X, "gnd": y[:5]}, "labels must be as many as samples; got 5 for 9"),
        ({"fea": X, "gnd": y + 0.5}, "labels must be integers or words"),
        ({"fea": X, "gnd": np.eye(3)[y - 1]}, r"one number or word a sample; got \(9, 3\)"),
        ({"fea": X + 1j}, "'fea' must have rows and columns of real numbers; got shape .* complex"),
        ({"fea": np.ones((9, 2, 2))}, r"'fea' must have .* got shape \(9, 2, 2\)"),
        ({"fea": "words"}, "'fea' must have rows and columns of real numbers"),
        (
            {"fea": X, "W": np.array(["a", 2], dtype=object)},
            "'W' must be an array of numbers; got a cell",
        ),
        ({"fea": {"a": X}}, "'fea' must be an array of numbers; got a struct"),
        (
            {"fea": X, "gnd": np.array(["a", 2], dtype=object)},
            "'gnd' must be an array .* got a cell",
        ),
    ],
)
def test_arrays_that_do_not_go(tmp_path, arrays, match):
    with pytest.raises(StoreError, match=match):
        opened(saved(tmp_path, arrays))


def header(version, text=b"MATLAB 7.3 MAT-file"):
    return text.ljust(124) + version.to_bytes(2, "little") + b"IM"


@pytest.mark.parametrize("content", [header(0x200) + b"\x89HDF", b"\x89HDF\r\n\x1a\n" + b" " * 500])
def test_version_7_3(tmp_path, content):
    (tmp_path / "t.mat").write_bytes(content)
    with pytest.raises(StoreError, match=r"t.mat: MATLAB's version 7.3.* save\(..., '-v7'\)"):
        opened(tmp_path / "t.mat")


def test_no_file_of_version_5(tmp_path):
    path = saved(tmp_path, {"fea": X}, format="4")
    with pytest.raises(StoreError, match="cannot be read as mat"):
        opened(path)
    for content in (b"", b"no", bytes(500), header(0x300), header(0x100) + b"no mat"):
        path.write_bytes(content)
        with pytest.raises(StoreError, match=r"cannot be read as mat|an array called fea"):
            opened(path)


@pytest.mark.parametrize("name", ["fea", "W", "gnd"])
def test_row_numbers_beyond_a_sparse_array(tmp_path, name):
    arrays = {"fea": X, "W": A, "gnd": y[:, None]}
    arrays[name] = sparse.csc_matrix(arrays[name])
    arrays[name].indices[0] = 10**9
    with pytest.raises(StoreError, match="cannot be read as mat"):
        opened(saved(tmp_path, arrays))


@pytest.mark.parametrize("compressed", [False, True])
def test_cut_off_files(tmp_path, compressed):
    path = saved(
        tmp_path, {"fea": X, "W": sparse.csc_matrix(A), "gnd": y}, do_compression=compressed
    )
    content = path.read_bytes()
    whole = 0
    for size in range(0, len(content), 23):
        path.write_bytes(content[:size])
        with suppress(StoreError):
            whole += opened(path).labels is not None
    assert not whole


@pytest.mark.parametrize("graph", [None, "all"])
def test_stores(tmp_path, graph):
    storage = load_storage(
        {
            "source": {
                "path": str(saved(tmp_path, {"fea": sparse.csc_matrix(X), "W": A, "gnd": y}))
            },
            "partition": {"scheme": "vertical", "clients": 2, "graph": graph},
            "layout": {"dtype": "float64"},
        }
    )
    storage.ensure(str(tmp_path / "stores"))
    stores = storage.open(str(tmp_path / "stores"), verify=True)
    np.testing.assert_array_equal(np.hstack([s.rows(0, 9) for s in stores.values()]), X)
    np.testing.assert_array_equal(stores["client-1"].graph().toarray(), A)


@needs_data
def test_cora(tmp_path):
    whole = opened(DATA / "cora.npz")
    X = np.concatenate(list(whole.blocks(1000)))
    arrays = {"fea": sparse.csc_matrix(X), "W": sparse.csc_matrix(whole.graph)}
    arrays["gnd"] = whole.labels[:, None] + 1
    samples = opened(saved(tmp_path, arrays, do_compression=True))
    np.testing.assert_array_equal(samples.labels - 1, whole.labels)
    np.testing.assert_array_equal(np.concatenate(list(samples.blocks(1000))), X)
    assert (samples.graph != whole.graph).nnz == 0
