"""Scaling against scikit-learn's, by blocks, by view, and of views that lack samples."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import load_storage
from daskfc.stores.dealing.config import SourceConfig
from daskfc.stores.dealing.scaling import rescaled
from daskfc.stores.layout.samples import Samples
from daskfc.stores.sources.readers import open_source

tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.integers(-1000, 1000).map(lambda x: x / 8),
)


def samples_of(table, **more):
    def blocks(rows):
        for start in range(0, len(table), rows):
            yield table[start : start + rows]

    names = tuple(f"c{i}" for i in range(table.shape[1]))
    return Samples(len(table), names, blocks, **more)


def all_of(samples, rows=4):
    return np.concatenate(list(samples.blocks(rows)))


@given(table=tables, rows=st.integers(1, 7))
def test_kinds_are_those_of_scikit_learn(table, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "daskfc.stores.dealing.scaling._ROWS", rows
        )  # of the pass that makes statistics
        found = {
            kind: all_of(rescaled(samples_of(table), kind, "t"))
            for kind in ("min-max", "standard", "min-max-all", "none")
        }
    np.testing.assert_allclose(found["min-max"], MinMaxScaler().fit_transform(table), atol=1e-12)
    np.testing.assert_allclose(found["standard"], StandardScaler().fit_transform(table), atol=1e-9)
    np.testing.assert_array_equal(found["none"], table)
    spread = table.max() - table.min()
    wanted = (table - table.min()) / spread if spread else np.zeros_like(table)
    np.testing.assert_allclose(found["min-max-all"], wanted, atol=1e-12)
    for kind in ("min-max", "min-max-all"):
        assert found[kind].min() >= 0
        assert found[kind].max() <= 1


@pytest.mark.parametrize("kind", ["min-max", "min-max-all", "standard"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, -7.3])
def test_constant_columns_become_zero_without_a_warning(kind, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = all_of(rescaled(samples_of(np.full((9, 2), value)), kind, "t"))
    np.testing.assert_array_equal(found, 0)
    assert not np.signbit(found).any()


def test_a_far_mean_costs_no_digits():
    table = 1e8 + np.random.default_rng(0).normal(size=(500, 3))
    found = all_of(rescaled(samples_of(table), "standard", "t"), 100)
    np.testing.assert_allclose(found, StandardScaler().fit_transform(table), atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-6)


def test_integers_do_not_wrap_around():
    table = np.array([[250, 0], [5, 255]], dtype=np.uint8)
    np.testing.assert_array_equal(
        all_of(rescaled(samples_of(table), "min-max", "t")), [[1, 0], [0, 1]]
    )


@pytest.fixture
def archive(tmp_path):
    random = np.random.default_rng(1)
    views = {"view0": random.normal(size=(20, 3)), "view1": random.integers(0, 9, (20, 2))}
    np.savez(tmp_path / "v.npz", **views)
    return str(tmp_path / "v.npz"), views


def test_kinds_by_view(archive, tmp_path):
    path, views = archive
    storage = load_storage(
        {
            "source": {"path": path, "scaling": {"view0": "standard"}},
            "partition": {"scheme": "views"},
            "layout": {"dtype": "float64"},
        }
    )
    storage.build(str(tmp_path / "s"))
    one, two = storage.open(str(tmp_path / "s")).values()
    wanted = StandardScaler().fit_transform(views["view0"])
    np.testing.assert_allclose(one.rows(0, 20), wanted, atol=1e-12)
    np.testing.assert_array_equal(two.rows(0, 20), views["view1"])
    assert one.attributes["steps"] == [{"step": "scaling", "kind": "standard", "view": "view0"}]
    assert two.attributes["steps"] == [{"step": "scaling", "kind": "none", "view": "view1"}]
    table = storage.inspect(str(tmp_path / "s"))
    assert [(row["view"], row["scaling"]) for row in table] == [
        ("view0", "standard"),
        ("view1", "none"),
    ]


def test_a_global_range_is_that_of_one_view(archive):
    path, views = archive
    samples = open_source(SourceConfig(path=path, scaling="min-max-all"))
    for view, table in zip(samples.views, views.values(), strict=True):
        found = all_of(samples)[:, view.start : view.stop]
        np.testing.assert_allclose(found, (table - table.min()) / np.ptp(table))
        assert (found.min(), found.max()) == (0, 1)


def test_kinds_of_views_that_are_dealt_as_one_table(archive, tmp_path):
    path, _ = archive
    document = {
        "source": {"path": path, "scaling": {"view0": "min-max", "view1": "none"}},
        "partition": {"scheme": "iid", "clients": 2},
    }
    storage = load_storage(document)
    storage.build(str(tmp_path / "s"))
    (row, _) = storage.inspect(str(tmp_path / "s"))
    assert row["scaling"] == "view0: min-max, view1: none"


def test_a_table_without_views(tmp_path):
    source = {"dataset": "iris", "scaling": "min-max"}
    partition = {"scheme": "iid", "clients": 2}
    storage = load_storage({"source": source, "partition": partition})
    storage.build(str(tmp_path / "s"))
    stores = storage.open(str(tmp_path / "s")).values()
    assert [store.attributes["steps"] for store in stores] == [
        [{"step": "scaling", "kind": "min-max"}]
    ] * 2
    rows = np.concatenate([store.rows(0, store.n_samples) for store in stores])
    np.testing.assert_array_equal((rows.min(axis=0), rows.max(axis=0)), ([0] * 4, [1] * 4))
    plain = load_storage({"source": {"dataset": "iris"}, "partition": partition})
    plain.build(str(tmp_path / "p"))
    assert "steps" not in plain.open(str(tmp_path / "p"))["client-1"].attributes
    assert "scaling" not in plain.inspect(str(tmp_path / "p"))[0]


def test_statistics_are_those_of_the_subsample():
    source = SourceConfig(dataset="iris", scaling="min-max", subsample={"n": 20})
    found = all_of(open_source(source))
    np.testing.assert_array_equal((found.min(axis=0), found.max(axis=0)), ([0] * 4, [1] * 4))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ({"scaling": "max"}, "'source.scaling': must be one of min-max, min-max-all, standard, no"),
        ({"scaling": {"view0": "max"}}, "'source.scaling': must be one of min-max"),
        ({"scaling": ["min-max"]}, "'source.scaling': must be one of min-max"),
        ({"scaling": {}}, "'source.scaling': must be one of min-max"),
        ({"scaling": "min-max", "scale": 2}, "'scale' and 'scaling' undo each other"),
    ],
)
def test_bad_kinds(source, match):
    with pytest.raises(InvalidInput, match=match) as caught:
        load_storage(
            {"source": {"dataset": "digits-views", **source}, "partition": {"scheme": "views"}}
        )
    assert "\n" not in str(caught.value)


def test_views_that_are_not_there(archive):
    with pytest.raises(StoreError, match=r"must name views .*, view0, view1; got 'view2'. Correct"):
        open_source(SourceConfig(path=archive[0], scaling={"view2": "min-max"}))
    with pytest.raises(StoreError, match=r"iris: source.scaling names views and the source has no"):
        open_source(SourceConfig(dataset="iris", scaling={"view0": "min-max"}))


def test_values_that_are_not_finite_are_refused(tmp_path):
    table = np.ones((5, 2))
    table[3, 1] = np.nan
    np.savez(tmp_path / "t.npz", X=table)
    with pytest.raises(StoreError, match="finite to be scaled; got NaN or infinity in 1 of 5 rows"):
        open_source(SourceConfig(path=str(tmp_path / "t.npz"), scaling="min-max"))


@pytest.mark.parametrize("kind", ["min-max", "standard"])
def test_ranges_that_no_float_holds_are_refused(kind):
    table = np.array([[-1.5e308], [1.5e308]])
    with pytest.raises(StoreError, match="too large to be scaled"):
        rescaled(samples_of(table), kind, "t")
