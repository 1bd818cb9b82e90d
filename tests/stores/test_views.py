"""Sources of several views: arrays of one file, files joined by ids, views of the digits."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.io import savemat
from sklearn.datasets import load_digits

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import load_storage, write_store
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.sources.readers import check_source, fingerprint, open_source, view_names
from daskfc.stores.sources.views import numbered_views

random = np.random.default_rng(0)
ONE, TWO, THREE = (random.normal(size=(9, width)) for width in (3, 2, 4))
y = np.arange(9) % 3


def opened(path, **keys):
    return open_source(SourceConfig(path=str(path), **keys))


def all_of(samples, rows=4):
    return np.concatenate(list(samples.blocks(rows)))


def described(samples):
    return [(view.name, view.start, view.stop) for view in samples.views]


# -- arrays of one file ---------------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_with_views(tmp_path, save):
    ids = [f"p{i}" for i in range(9)]
    save(tmp_path / "v.npz", view1=TWO, view0=ONE, view10=np.asfortranarray(THREE), y=y, ids=ids)
    samples = opened(tmp_path / "v.npz")
    assert described(samples) == [("view0", 0, 3), ("view1", 3, 5), ("view10", 5, 9)]
    assert samples.feature_names[:4] == ("view0.0", "view0.1", "view0.2", "view1.0")
    for rows in (1, 4, 100):
        np.testing.assert_array_equal(all_of(samples, rows), np.hstack([ONE, TWO, THREE]))
    np.testing.assert_array_equal(samples.labels, y)
    assert samples.ids().tolist() == ids
    part = opened(tmp_path / "v.npz", subsample={"n": 4})
    kept = [int(name[1:]) for name in part.ids()]
    np.testing.assert_array_equal(all_of(part), np.hstack([ONE, TWO, THREE])[kept])


def test_one_view_of_an_archive_is_a_table(tmp_path):
    np.savez(tmp_path / "v.npz", view0=ONE, view1=TWO, y=y)
    samples = opened(tmp_path / "v.npz", features="view1")
    assert (samples.views, samples.feature_names) == ((), ("x0", "x1"))
    np.testing.assert_array_equal(all_of(samples), TWO)


def test_chosen_arrays_are_views_in_the_order_given(tmp_path):
    np.savez(tmp_path / "v.npz", colour=ONE, shape=TWO, X=THREE, y=y)
    samples = opened(tmp_path / "v.npz", features=["shape", "colour"])
    assert described(samples) == [("shape", 0, 2), ("colour", 2, 5)]
    assert opened(tmp_path / "v.npz").views == ()
    with pytest.raises(StoreError, match=r"source.features must be one of .*; got 'size'"):
        opened(tmp_path / "v.npz", features=["shape", "size"])


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["view1", "y", "view0"], ("view0", "view1")),
        (["X2", "X1", "y"], ("X1", "X2")),
        (["X1", "y"], ()),
        (["viewer", "view_0", "X"], ()),
        (["view0", "X1", "X2"], ("view0",)),
    ],
)
def test_names_that_are_views(names, found):
    assert numbered_views(names) == found


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"view0": ONE, "view1": TWO[:5]}, r"row for every sample; got rows view0 9, view1 5\."),
        ({"view0": ONE, "view1": y}, r"'view1' must have rows and columns; got shape \(9,\)"),
        ({"view0": ONE, "view1": TWO, "y": y[:4]}, "labels must be as many as samples; got 4 for"),
        (
            {"view0": ONE, "view1": TWO, "A_indptr": y, "A_indices": y, "A_shape": [9, 9]},
            "holds several views and a graph",
        ),
    ],
)
def test_archives_that_do_not_go(tmp_path, arrays, match):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(StoreError, match=match):
        opened(tmp_path / "v.npz")


def test_names_are_found_without_reading_rows(tmp_path, monkeypatch):
    np.savez(tmp_path / "v.npz", view0=ONE, view1=TWO)
    savemat(tmp_path / "v.mat", {"X1": ONE, "X2": TWO})

    def refuse(*_, **__):
        raise AssertionError("read")

    monkeypatch.setattr("daskfc.stores.sources.formats.npz._open_member", refuse)
    monkeypatch.setattr("scipy.io.loadmat", refuse)
    assert view_names(SourceConfig(path=str(tmp_path / "v.npz"))) == ("view0", "view1")
    assert view_names(SourceConfig(path=str(tmp_path / "v.mat"))) == ("X1", "X2")
    assert view_names(SourceConfig(path="gone.csv")) == ()
    assert view_names(SourceConfig(dataset="iris")) == ()
    for name in ("gone.npz", "gone.mat"):
        with pytest.raises(StoreError, match="is not there"):
            view_names(SourceConfig(path=str(tmp_path / name)))


def test_a_graph_of_views_is_refused():
    with pytest.raises(StoreError, match=r"digits-views: source.graph joins .* has 3 views; leave"):
        open_source(SourceConfig(dataset="digits-views", graph={"neighbours": 3}))


# -- MATLAB ---------------------------------------------------------------------------------------


def cell(*tables):
    held = np.empty((1, len(tables)), dtype=object)
    for i, table in enumerate(tables):
        held[0, i] = table
    return held


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("labels", ["Y", "y", "gt", "truth", "gnd"])
@pytest.mark.parametrize(
    ("arrays", "names"),
    [
        ({"X": cell(ONE, TWO)}, ("view0", "view1")),
        ({"X": cell(ONE, sparse.csc_matrix(TWO)).T}, ("view0", "view1")),
        ({"X": cell(ONE.T, TWO.T)}, ("view0", "view1")),
        ({"X1": ONE, "X2": TWO}, ("X1", "X2")),
        ({"view0": ONE, "view1": TWO}, ("view0", "view1")),
    ],
    ids=["cell", "standing cell", "samples in columns", "numbered", "views"],
)
def test_matlab_layouts(tmp_path, arrays, names, labels, compressed):
    path = tmp_path / "v.mat"
    savemat(path, {**arrays, labels: y[:, None] + 1}, do_compression=compressed)
    samples = opened(path)
    assert described(samples) == [(names[0], 0, 3), (names[1], 3, 5)]
    np.testing.assert_array_equal(all_of(samples), np.hstack([ONE, TWO]))
    np.testing.assert_array_equal(samples.labels, y + 1)
    assert view_names(SourceConfig(path=str(path))) == names


def test_square_views_follow_their_labels(tmp_path):
    """Nine samples in columns of views that happen to have as many rows each."""
    savemat(tmp_path / "v.mat", {"X": cell(ONE.T, ONE.T * 2), "gt": y})
    np.testing.assert_array_equal(all_of(opened(tmp_path / "v.mat")), np.hstack([ONE, ONE * 2]))
    savemat(tmp_path / "v.mat", {"X": cell(ONE, ONE * 2), "gt": y})
    np.testing.assert_array_equal(all_of(opened(tmp_path / "v.mat")), np.hstack([ONE, ONE * 2]))


def test_another_cell_and_chosen_arrays(tmp_path):
    savemat(tmp_path / "v.mat", {"data": cell(ONE, TWO), "a": ONE, "b": TWO, "X": THREE})
    assert described(opened(tmp_path / "v.mat", features="data")) == [
        ("view0", 0, 3),
        ("view1", 3, 5),
    ]
    assert described(opened(tmp_path / "v.mat", features=["b", "a"])) == [("b", 0, 2), ("a", 2, 5)]
    assert opened(tmp_path / "v.mat").views == ()


@pytest.mark.parametrize(
    ("arrays", "keys", "match"),
    [
        ({"X": cell(ONE, TWO[:4])}, {}, "must have a row for every sample; got rows view0 9, view"),
        (
            {"X": cell(ONE, "words")},
            {},
            "'view1', a part of 'X', must have rows and columns of re",
        ),
        ({"X": cell(ONE, ONE + 1j)}, {}, r"'view1', .* got shape \(9, 3\) of complex128"),
        ({"X": cell(ONE, cell(TWO))}, {}, r"'view1', .* got shape \(1, 1\) of object"),
        ({"X1": ONE, "X2": np.ones((9, 2, 2))}, {}, r"'X2' must have .* got shape \(9, 2, 2\)"),
        ({"X": cell(ONE, TWO), "W": np.eye(9)}, {}, r"holds several views and a graph \(W\)"),
        ({"a": ONE, "b": cell(TWO)}, {"features": ["a", "b"]}, "'b' must be an array of .* a cell"),
        ({"X": cell(ONE, TWO), "Y": cell(y)}, {}, "'Y' must be an array of numbers; got a cell"),
        ({"X": cell(ONE, TWO), "Y": np.eye(9)}, {}, r"labels must be one number .* \(9, 9\)"),
    ],
)
def test_matlab_views_that_do_not_go(tmp_path, arrays, keys, match):
    savemat(tmp_path / "v.mat", arrays)
    with pytest.raises(StoreError, match=match):
        opened(tmp_path / "v.mat", **keys)


# -- views of the digits --------------------------------------------------------------------------


def test_views_of_the_digits():
    samples = open_source(SourceConfig(dataset="digits-views"))
    images = load_digits().images
    assert described(samples) == [("pixels", 0, 64), ("profiles", 64, 80), ("fourier", 80, 114)]
    found = all_of(samples, 500)
    np.testing.assert_array_equal(found[:, :64], images.reshape(-1, 64))
    np.testing.assert_array_equal(found[:, 64:72], images.sum(axis=2))
    np.testing.assert_array_equal(found[:, 72:80], images.sum(axis=1))
    whole = np.abs(np.fft.fft2(images))
    names = [name.removeprefix("fourier.") for name in samples.feature_names[80:]]
    places = [tuple(map(int, name.split("_"))) for name in names]
    for column, (u, v) in enumerate(places):
        np.testing.assert_allclose(found[:, 80 + column], whole[:, u, v], atol=1e-9)
    # every coefficient, or the conjugate that is as large, is there once
    once = {frozenset([(u, v), (-u % 8, -v % 8)]) for u, v in places}
    assert len(once) == len(places) == 34
    assert set().union(*once) == {(u, v) for u in range(8) for v in range(8)}
    np.testing.assert_array_equal(samples.labels, load_digits().target)


def test_the_shipped_file_needs_no_data(tmp_path):
    storage = load_storage(Path(__file__).parents[2] / "storage" / "digits-views.yaml")
    storage.build(str(tmp_path))
    storage.check(str(tmp_path))
    table = storage.inspect(str(tmp_path))
    assert [row["view"] for row in table] == ["pixels", "profiles", "fourier"]
    assert {row["scaling"] for row in table} == {"min-max"}
    steps = storage.open(str(tmp_path))["client-3"].attributes["steps"]
    assert [step["step"] for step in steps] == ["making", "scaling"]
    assert "Fourier" in steps[0]["kind"]


# -- files joined by ids --------------------------------------------------------------------------

BLOOD = pd.DataFrame(
    {"patient": ["p1", "p2", "p3", "p4"], "age": [30, 40, 50, 60], "x0": [1.5, 2.5, 3.5, 4.5]}
)
IMAGE = pd.DataFrame({"patient": ["p5", "p4", "p2"], "age": [5.0, 4.0, 2.0]})


@pytest.fixture
def files(tmp_path):
    BLOOD.assign(kind=["ill", "well", "ill", "well"]).to_csv(tmp_path / "blood.csv", index=False)
    IMAGE.assign(kind=["ill", "well", "well"]).to_parquet(tmp_path / "image.parquet")
    np.savez(tmp_path / "genes.npz", X=ONE[:3], ids=["p1", "p2", "p5"])
    views = {
        "blood": {"path": str(tmp_path / "blood.csv"), "ids": "patient"},
        "image": {"path": str(tmp_path / "image.parquet"), "ids": "patient"},
        "genes": {"path": str(tmp_path / "genes.npz")},
    }
    return tmp_path, views


def joined(views, **keys):
    return open_source(SourceConfig(views=views, **keys))


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_files_are_joined_by_ids(files, rows):
    _, views = files
    samples = joined(views, labels="kind")
    assert samples.ids().tolist() == ["p1", "p2", "p3", "p4", "p5"]
    assert samples.feature_names == (
        "blood.age", "blood.x0", "image.age", "genes.x0", "genes.x1", "genes.x2",
    )  # fmt: skip
    nan = [np.nan] * 3
    wanted = [
        [30, 1.5, np.nan, *ONE[0]],
        [40, 2.5, 2, *ONE[1]],
        [50, 3.5, np.nan, *nan],
        [60, 4.5, 4, *nan],
        [np.nan, np.nan, 5, *ONE[2]],
    ]
    np.testing.assert_array_equal(all_of(samples, rows), wanted)
    np.testing.assert_array_equal(samples.present, ~np.isnan(np.array(wanted)[:, [0, 2, 3]]))
    assert samples.classes == ("ill", "well")
    assert samples.labels.tolist() == [0, 1, 0, 1, 0]
    part = joined(views, labels="kind", subsample={"n": 3})
    kept = [samples.ids().tolist().index(name) for name in part.ids()]
    np.testing.assert_array_equal(all_of(part), np.array(wanted)[kept])
    np.testing.assert_array_equal(part.present, samples.present[kept])
    whole = [joined(views, labels="kind", subsample={"n": 1, "seed": s}) for s in range(20)]
    assert {one.ids()[0] for one in whole if one.present is None} == {"p2"}  # no view lacks it


def test_labels_do_not_hang_on_the_order_of_the_views(files):
    _, views = files
    for order in itertools.permutations(views):
        samples = joined({name: views[name] for name in order}, labels="kind")
        words = np.array(samples.classes)[samples.labels]
        told = dict(zip(samples.ids().tolist(), words.tolist(), strict=True))
        assert told == {"p1": "ill", "p2": "well", "p3": "ill", "p4": "well", "p5": "ill"}


def test_ids_stay_in_the_order_in_which_they_are_first_seen(tmp_path):
    """Rows follow the first file, whatever the alphabet says of their names."""
    orders = {"one": ["z", "c", "p"], "two": ["m", "p", "a"]}
    for name, ids in orders.items():
        table = pd.DataFrame({"id": ids, "x": [float(ord(letter)) for letter in ids]})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    views = {name: {"path": str(tmp_path / f"{name}.csv"), "ids": "id"} for name in orders}
    samples = joined(views)
    assert samples.ids().tolist() == ["z", "c", "p", "m", "a"]
    for row, name in zip(all_of(samples), samples.ids(), strict=True):
        assert set(row[~np.isnan(row)]) == {float(ord(name))}


def storage_of(views, root, source=None, **partition):
    return load_storage(
        {
            "source": {"views": views, **(source or {})},
            "partition": {"scheme": "views", **partition},
            "layout": {"dtype": "float64"},
            "root": str(root),
        }
    )


def test_stores_of_a_source_that_is_incomplete_itself(files):
    folder, views = files
    storage = storage_of(views, folder / "s", {"labels": "kind", "scaling": "min-max"})
    assert storage.client_names() == ("blood", "image", "genes")
    storage.build()
    storage.check()
    found = storage.open()
    assert found["blood"].sample_ids().tolist() == ["p1", "p2", "p3", "p4"]
    assert found["image"].sample_ids().tolist() == ["p2", "p4", "p5"]
    assert found["genes"].sample_ids().tolist() == ["p1", "p2", "p5"]
    np.testing.assert_allclose(found["blood"].rows(0, 4), [[i / 3, i / 3] for i in range(4)])
    np.testing.assert_allclose(found["image"].rows(0, 3), [[0], [2 / 3], [1]])
    assert found["image"].labels().tolist() == [1, 1, 0]
    assert [row["view"] for row in storage.inspect()] == ["blood", "image", "genes"]
    with pytest.raises(StoreError, match=r"of this source's 5 samples 1 have all views. Leave it"):
        storage_of(views, folder / "t", overlap=0.5).build()
    with pytest.raises(StoreError, match=r"'iid' deals .* 4 of the source's 5 lack a view. Use s"):
        load_storage(
            {"source": {"views": views}, "partition": {"scheme": "iid", "clients": 2}}
        ).build(str(folder / "t"))


def test_several_clients_of_each_view(files):
    folder, views = files
    storage = storage_of(views, folder / "s", {"labels": "kind"}, clients_per_view=2)
    assert storage.client_names() == tuple(f"{v}-{i}" for v in views for i in (1, 2))
    storage.build()
    storage.check()


def test_views_with_the_same_samples_in_another_order(tmp_path):
    BLOOD.to_csv(tmp_path / "a.csv", index=False)
    BLOOD[::-1].to_csv(tmp_path / "b.csv", index=False)
    views = {name: {"path": str(tmp_path / f"{name}.csv"), "ids": "patient"} for name in "ab"}
    samples = joined(views)
    assert samples.present is None
    both = all_of(samples, 3)
    np.testing.assert_array_equal(both[:, :2], both[:, 2:])
    storage_of(views, tmp_path / "s", overlap=0.5).build()  # complete, so that overlap may be drawn


def test_other_formats_as_views(tmp_path):
    ids = [f"p{i}" for i in range(9)]
    write_store(tmp_path / "z.zarr", "z", ONE, ids, y, feature_names=["p", "q", "r"])
    np.savez(tmp_path / "n.npz", view1=TWO, view0=ONE, sample_id=ids, y=y)
    samples = joined(
        {
            "z": {"path": str(tmp_path / "z.zarr")},
            "n": {"path": str(tmp_path / "n.npz"), "features": "view1"},
        }
    )
    assert samples.feature_names == ("z.p", "z.q", "z.r", "n.x0", "n.x1")
    np.testing.assert_array_equal(samples.labels, y)


def test_the_fingerprint_is_that_of_all_files(files):
    folder, views = files
    source = SourceConfig(views=views)
    before = fingerprint(source)
    assert before == fingerprint(source)
    IMAGE.assign(age=[5.0, 4.0, 3.0]).to_parquet(folder / "image.parquet")
    assert fingerprint(source) != before
    (folder / "genes.npz").unlink()
    assert fingerprint(source) is None
    assert len(storage_of(views, folder / "s").client_urls()) == 3


@pytest.mark.parametrize(
    ("change", "keys", "match"),
    [
        (
            {"image": {"labels": "kind"}, "blood": {"labels": "kind"}},
            {},
            r"^view 'image': its labels must be those of view 'blood'; 1 of 3 samples have another "
            r"one there. Correct them, or name labels in one view only.$",
        ),
        (
            {"blood": {"labels": "kind"}},
            {},
            r"^views blood: every sample must have a label; got none for 1 of 5, which only other ",
        ),
        ({}, {"labels": "colour"}, "no table has the column 'colour'"),
        ({"image": {"ids": None}}, {}, "'image': .* has none; name them by source.views.image.ids"),
        ({"blood": {"path": "gone.csv"}}, {}, "^view 'blood': gone.csv: the source file is not th"),
        (
            {"blood": {"ids": "kind"}},
            {},
            r"^view 'blood': sample ids must differ; got 2 repeated",
        ),
        ({"genes": {"delimiter": ";"}}, {}, "^view 'genes': source.delimiter means nothing to the"),
        ({"genes": {"features": "Z"}}, {}, "^view 'genes': .*source.features must be one of"),
    ],
    ids=["contradiction", "some labels", "no labels", "no ids", "gone", "repeats", "key", "array"],
)
def test_files_that_do_not_go(files, change, keys, match):
    folder, views = files
    table = IMAGE.assign(kind=["ill", "ill", "well"])
    table.to_parquet(folder / "image.parquet")
    changed = {name: {**view, **change.get(name, {})} for name, view in views.items()}
    if change.get("image", {}).get("ids", 1) is None:
        IMAGE[["age"]].to_parquet(folder / "image.parquet")
    with pytest.raises(StoreError, match=match) as caught:
        joined(changed, **keys)
    assert "\n" not in str(caught.value)
    assert "p4" not in str(caught.value)


def test_a_file_of_views_or_a_graph_is_no_view(files):
    folder, views = files
    np.savez(folder / "genes.npz", view0=ONE[:3], view1=ONE[:3], ids=["p1", "p2", "p5"])
    with pytest.raises(StoreError, match=r"'genes': .* one table; got several views. Name an"):
        joined(views)


def test_files_that_nothing_links(files):
    folder, views = files
    IMAGE.assign(patient=["q1", "q2", "q3"]).to_parquet(folder / "image.parquet")
    match = r"nothing links view 'image' to view 'blood', .* ids mean the same in every file"
    with pytest.raises(StoreError, match=match):
        storage_of(views, folder / "s").build()


def test_a_view_that_shrinks_while_it_is_read(files):
    folder, views = files
    samples = joined(views, labels="kind")
    lines = (folder / "blood.csv").read_text().splitlines(keepends=True)
    (folder / "blood.csv").write_text("".join(lines[:3]))
    with pytest.raises(StoreError, match="'blood': its file has fewer samples than when it was op"):
        list(samples.blocks(2))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ({"views": {"a": {"path": "a.csv"}}}, "'source.views': must have at least 2 entries"),
        ({"views": {"a": {}, "b": {}}}, "key 'source.views.a.path' is required and missing"),
        (
            {"views": {"a": {"path": "a.csv", "scale": 2}, "b": {"path": "b.csv"}}},
            "key 'source.views.a.scale' is not known there",
        ),
        (
            {"views": {"a.b": {"path": "a.csv"}, "b": {"path": "b.csv"}}},
            "'source.views': a view's name must be 1 to 63 letters, .* no 'a.b'",
        ),
        (
            {"views": {"server": {"path": "a.csv"}, "b": {"path": "b.csv"}}},
            "a client may not be called 'server'",
        ),
        (
            {"views": {"a": {"path": "a.csv"}, "b": {"path": "b.csv"}}, "path": "c.csv"},
            "exactly one of 'dataset', 'path', 'uri' and 'views'",
        ),
        (
            {"views": {"a": {"path": "a.csv"}, "b": {"path": "b.csv"}}, "ids": "patient"},
            "source.ids means nothing to source.views, each of which has a file of its own",
        ),
        (
            {"views": {"a": {"path": "a.xyz"}, "b": {"path": "b.csv"}}},
            "view 'a': the format of source.path 'a.xyz' cannot be told",
        ),
        ({"path": "a.npz", "features": ["x"]}, "'source.features': must be the name of an array"),
        ({"path": "a.npz", "features": ["x", "x"]}, "'source.features': must be the name of an a"),
        ({"path": "a.npz", "features": 3}, "'source.features': must be the name of an array, or"),
        ({"path": "a.zarr", "features": ["x", "y"]}, "must be one name for the format 'zarr', who"),
    ],
)
def test_bad_sources(source, match):
    with pytest.raises(InvalidInput, match=match) as caught:
        load_storage({"source": source, "partition": {"scheme": "views"}})
    assert "\n" not in str(caught.value)


def test_sources_are_checked_before_anything_is_read():
    check_source(SourceConfig(path="a.mat", features=["x", "y"]))
    check_source(SourceConfig(views={"a": {"path": "a.csv"}, "b": {"path": "b.npz"}}))
