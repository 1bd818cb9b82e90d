"""Views dealt to clients: overlap, several clients of a view, and what cannot be dealt."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput, StoreError
from daskfc.stores import ClientStore, load_storage
from daskfc.stores.dealing.views import (
    deal_to_clients,
    draw_holders,
    unlinked_view,
    view_clients,
)
from tests.oracles.views import check_views

seeds = st.integers(0, 2**31)
overlaps = st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 0.99, 1.0])


@given(n=st.integers(1, 60), views=st.integers(2, 5), overlap=overlaps, seed=seeds)
def test_overlap_is_exact_and_nobody_is_lost(n, views, overlap, seed):
    held = draw_holders(n, views, overlap=overlap, seed=seed)
    assert held.shape == (n, views)
    assert held.any(axis=1).all()
    assert held.all(axis=1).sum() == round(overlap * n)
    np.testing.assert_array_equal(held, draw_holders(n, views, overlap=overlap, seed=seed))


@given(
    n=st.integers(1, 60),
    views=st.integers(2, 4),
    clients=st.integers(1, 4),
    overlap=overlaps,
    seed=seeds,
)
def test_a_deal_is_what_it_says(n, views, clients, overlap, seed):
    held = draw_holders(n, views, overlap=overlap, seed=seed)
    assume(held.sum(axis=0).min() >= clients)
    dealt = deal_to_clients(held, clients_per_view=clients, seed=seed)
    check_views([rows.tolist() for rows in dealt], n, views, clients, overlap)
    again = deal_to_clients(held, clients_per_view=clients, seed=seed)
    assert [rows.tolist() for rows in dealt] == [rows.tolist() for rows in again]


def test_every_proper_subset_is_as_likely():
    held = draw_holders(60_000, 3, overlap=0.0, seed=0)
    counts = Counter(tuple(row) for row in held.tolist())
    assert len(counts) == 2**3 - 2
    assert max(abs(count - 10_000) for count in counts.values()) < 5 * np.sqrt(10_000)


def test_seeds_draw_other_samples():
    one, two = (draw_holders(50, 2, overlap=0.5, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one, two)
    every = np.ones((50, 2), dtype=bool)
    first, second = (deal_to_clients(every, clients_per_view=2, seed=s) for s in (0, 1))
    assert first[0].tolist() != second[0].tolist()
    assert first[0].tolist() != first[2].tolist()  # each view is dealt by itself


@pytest.mark.parametrize(
    ("rows", "unlinked"),
    [(["11", "10"], None), (["10", "01"], 1), (["110", "011"], None), (["1100", "0011"], 2)],
)
def test_views_that_nothing_links(rows, unlinked):
    assert unlinked_view(np.array([[c == "1" for c in row] for row in rows])) == unlinked


def test_names_of_clients():
    assert view_clients(["blood", "image"], 2, by_name=True) == (
        "blood-1",
        "blood-2",
        "image-1",
        "image-2",
    )
    assert view_clients(["a", "b", "c"], 1, by_name=False) == ("client-1", "client-2", "client-3")


N, WIDTHS = 40, (3, 2, 4)


@pytest.fixture
def archive(tmp_path):
    random = np.random.default_rng(0)
    views = {f"view{i}": random.normal(size=(N, width)) for i, width in enumerate(WIDTHS)}
    ids = [f"p{i}" for i in range(N)]
    np.savez(tmp_path / "v.npz", **views, y=np.arange(N) % 4, ids=ids)
    return tmp_path / "v.npz", views, ids


def storage_of(path, tmp_path, source=None, **partition):
    return load_storage(
        {
            "source": {"path": str(path), **(source or {})},
            "partition": {"scheme": "views", **partition},
            "layout": {"dtype": "float64", "chunk_rows": 7},
            "root": str(tmp_path / "stores"),
        }
    )


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("overlap", [None, 0.0, 0.3])
def test_stores_hold_the_rows_of_their_view(archive, tmp_path, clients, overlap):
    path, views, ids = archive
    given = {} if overlap is None else {"overlap": overlap}
    storage = storage_of(path, tmp_path, clients_per_view=clients, seed=3, **given)
    urls = storage.build()
    assert list(urls) == [f"client-{i}" for i in range(1, 3 * clients + 1)]
    storage.check()
    stores = [ClientStore.open(url, verify=True) for url in urls.values()]
    rows = [[ids.index(name) for name in store.sample_ids()] for store in stores]
    check_views(rows, N, 3, clients, 1.0 if overlap is None else overlap)
    for number, (store, own) in enumerate(zip(stores, rows, strict=True)):
        name = f"view{number // clients}"
        assert store.view == name
        assert store.feature_names == tuple(f"{name}.{i}" for i in range(views[name].shape[1]))
        np.testing.assert_array_equal(store.rows(0, store.n_samples), views[name][own])
        np.testing.assert_array_equal(store.labels(), np.array(own) % 4)
    assert [row["view"] for row in storage.inspect()] == [store.view for store in stores]
    assert storage.ensure() == urls


def test_a_complete_deal_is_one_of_columns(archive, tmp_path):
    from daskfc.stores.store.together import check_together

    storage = storage_of(archive[0], tmp_path)
    storage.build()
    assert check_together(storage.open()) == "columns"


def test_chosen_views_are_known_without_the_file(archive, tmp_path):
    storage = storage_of(tmp_path / "no.npz", tmp_path, {"features": ["view2", "view0"]})
    assert storage.client_names() == ("client-1", "client-2")
    storage = storage_of(archive[0], tmp_path, {"features": ["view2", "view0"]})
    storage.build()
    assert [row["view"] for row in storage.inspect()] == ["view2", "view0"]


def test_the_number_of_clients_outlives_the_file(archive, tmp_path):
    path, *_ = archive
    storage = storage_of(path, tmp_path, clients_per_view=2)
    urls = storage.ensure()
    path.rename(tmp_path / "elsewhere.npz")
    assert storage.client_urls() == urls
    assert storage.ensure() == urls
    assert len(storage.inspect()) == 6
    sentence = (
        r"storage 's.* as many clients as .*v.npz has views, .* counted: .* is not there; .* "
    )
    with pytest.raises(StoreError, match=sentence + "list them by source.features"):
        storage.client_urls(str(tmp_path / "other"))
    other = storage_of(path, tmp_path, clients_per_view=3)  # not of these stores
    with pytest.raises(StoreError, match="cannot be counted"):
        other.client_names()


def test_a_changed_file_is_noticed(archive, tmp_path):
    path, views, _ = archive
    storage = storage_of(path, tmp_path)
    storage.ensure()
    np.savez(path, view0=views["view0"], view1=views["view1"])
    assert len(storage.client_names()) == 2
    with pytest.raises(StoreError, match="made from an earlier version of the source"):
        storage.ensure()


@pytest.mark.parametrize(
    ("partition", "match"),
    [
        ({"clients": 3}, "scheme 'views' has no key 'clients'"),
        ({"skew": 0.5}, "scheme 'views' has no key 'skew'"),
        ({"overlap": 1.5}, "'partition.overlap': must be at most 1.0; got 1.5"),
        ({"overlap": -0.1}, "'partition.overlap': must be at least 0.0; got -0.1"),
        ({"overlap": float("nan")}, "'partition.overlap'"),
        ({"clients_per_view": 0}, "'partition.clients_per_view': .* got 0"),
        ({"scheme": "iid", "clients": 2, "overlap": 0.5}, "'iid' has no key 'overlap'"),
        ({"scheme": "iid", "clients": 2, "clients_per_view": 2}, "has no key 'clients_per_view'"),
        ({"scheme": "iid"}, "scheme 'iid' needs key 'clients'"),
    ],
)
def test_bad_partitions(partition, match):
    document = {
        "source": {"dataset": "digits-views"},
        "partition": {"scheme": "views", **partition},
    }
    with pytest.raises(InvalidInput, match=match):
        load_storage(document)


@pytest.mark.parametrize(
    ("partition", "match"),
    [
        ({"clients_per_view": 41}, "view 'view0' has 40 for 41 clients. Lower partition.clients_p"),
        ({"overlap": 0.0, "clients_per_view": 30}, r"view 'view\d' has \d+ for 30 clients"),
    ],
)
def test_more_clients_than_samples_of_a_view(archive, tmp_path, partition, match):
    with pytest.raises(StoreError, match=match):
        storage_of(archive[0], tmp_path, **partition).build()
    assert not (tmp_path / "stores").exists()


def test_two_views_without_overlap_are_refused(archive, tmp_path):
    two = storage_of(archive[0], tmp_path, {"features": ["view0", "view1"]}, overlap=0.0)
    match = "nothing links view 'view1' to view 'view0', .* Raise partition.overlap"
    with pytest.raises(StoreError, match=match):
        two.build()


def test_a_table_has_no_views(tmp_path):
    with pytest.raises(InvalidInput, match="the data set 'iris' is one table; see digits-views"):
        load_storage({"source": {"dataset": "iris"}, "partition": {"scheme": "views"}})
    np.savez(tmp_path / "t.npz", X=np.eye(4))
    with pytest.raises(StoreError, match=r"deals at least two views; .*t.npz has none. Name arr"):
        storage_of(tmp_path / "t.npz", tmp_path).build()
    np.savez(tmp_path / "t.npz", view0=np.eye(4))
    with pytest.raises(StoreError, match=r"at least two views; .*t.npz has 1\."):
        storage_of(tmp_path / "t.npz", tmp_path).client_names()
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(StoreError, match=r"t.csv has none"):
        storage_of(tmp_path / "t.csv", tmp_path).client_names()


def test_views_may_be_dealt_as_one_table(archive, tmp_path):
    path, views, _ = archive
    storage = load_storage(
        {
            "source": {"path": str(path)},
            "partition": {"scheme": "label-skew", "clients": 4, "skew": 1.0},
            "layout": {"dtype": "float64"},
        }
    )
    storage.build(str(tmp_path / "s"))
    store = storage.open(str(tmp_path / "s"))["client-2"]
    rows = [int(name[1:]) for name in store.sample_ids()]
    np.testing.assert_array_equal(
        store.rows(0, store.n_samples), np.hstack(list(views.values()))[rows]
    )
    assert store.view is None
