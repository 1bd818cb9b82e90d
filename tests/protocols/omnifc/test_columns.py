"""OmniFC over clients that hold columns, or cells of a grid: labels of the pooled samples."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from daskfc import Federation, OmniFC
from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, OverflowRefused, PartyError, PrivacyError, StoreError
from daskfc.federation.party.site_rules import OnceOnly, SiteRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.metrics import ari
from daskfc.secure.distances import choose_code
from daskfc.secure.distances.parties import by_columns, server
from daskfc.secure.distances.parties.by_columns import (
    _own_view,
    columns_apart,
    describe_columns,
    encode_columns,
    plan_of_columns,
    refuse_far_columns,
)
from daskfc.secure.distances.parties.messages import SampleSummary
from daskfc.secure.distances.parties.seen import Seen
from daskfc.site.approved import Protocol
from daskfc.stores import ClientStore, load_storage, write_store
from tests.protocols.conftest import by_id, deal
from tests.protocols.omnifc.test_omnifc import CLUSTERERS, FIND_CLUSTERS

IRIS, DIGITS = load_iris().data, load_digits().data[:240]
ALL = {"iris": [np.arange(len(IRIS))], "far": [np.arange(80)]}
REAL = np.random.default_rng(0).normal(size=(80, 5)) + 3 * (np.arange(80) % 3)[:, None]
FAR = REAL + np.array([0.0, 0.0, 1e6, 1e6, 1e6])  # the columns of one client lie far


def cells(folder, X, rows, columns):
    """Write a store for each part of the rows and each part of the columns."""
    urls = {}
    for part in rows:
        for own in columns:
            name = f"client-{len(urls) + 1}"
            urls[name] = str(folder / f"{name}.zarr")
            names = [f"x{c}" for c in own]
            ids = [str(k) for k in part]
            values = X[np.ix_(part, own)]
            write_store(urls[name], name, values, ids, feature_names=names, dtype="float64")
    return urls


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """Return federations over iris: of samples, and of columns."""
    folder = tmp_path_factory.mktemp
    of_rows = deal(folder("rows"), IRIS, np.arange(len(IRIS)) % 3)
    of_columns = cells(folder("columns"), IRIS, ALL["iris"], [[0], [1, 3], [2]])
    with Federation.local(of_rows) as rows, Federation.local(of_columns) as columns:
        yield rows, columns


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CLUSTERERS)
def test_columns_give_the_labels_of_the_pooled_columns(iris, approved, name):
    n_clusters = None if name in FIND_CLUSTERS else 3
    given = {"n_clusters": n_clusters, "clusterer": CLUSTERERS[name], "random_state": 3}
    wanted, model = OmniFC(**given).fit(iris[0]), OmniFC(**given, split="columns").fit(iris[1])
    np.testing.assert_array_equal(by_id(model.labels_), by_id(wanted.labels_))
    assert len(model.labels_) == len(IRIS)  # each sample once
    assert (model.n_clusters_, model.silhouette_) == (wanted.n_clusters_, wanted.silhouette_)


@pytest.mark.parametrize("distances", ["exact", "blocks"])
def test_cells_of_a_grid_give_the_labels_of_the_pooled_samples(tmp_path, approved, distances):
    rows = np.array_split(np.random.default_rng(0).permutation(len(DIGITS)), 3)
    columns = np.array_split(np.arange(64), 3)
    given = {"clusterer": {"hierarchical": {}}, "distances": distances}
    with Federation.local(cells(tmp_path, DIGITS, rows, columns)) as federation:
        model = OmniFC(10, split="grid", **given).fit(federation)
        wanted = sum(map(len, rows))
        assert model.n_clusters_ == 10
        assert len(model.labels_) == wanted
        frame = model.ledger_.to_frame()
        counts = frame["message"].value_counts()
        assert (counts["ClientLabels"], counts["LabelledSamples"]) == (3, 3)  # of each sample once
    (tmp_path / "rows").mkdir()
    with Federation.local(deal(tmp_path / "rows", DIGITS, np.arange(240) % 4)) as federation:
        pooled = OmniFC(10, **given).fit(federation)
    np.testing.assert_array_equal(by_id(model.labels_), by_id(pooled.labels_))


def test_columns_far_from_the_origin_are_centred_where_they_lie(tmp_path, approved):
    """And nobody learns where that is."""
    urls = cells(tmp_path, FAR, ALL["far"], [[0, 1], [2, 3], [4]])
    spec = {"dbscan": {"eps": 2.5}}
    with Federation.local(urls) as federation:
        far = OmniFC(clusterer=spec, split="columns").fit(federation)
        messages = set(far.ledger_.to_frame()["message"])
    assert not {"Centre", "MaskedPart", "Reach", "Magnitude"} & messages
    (tmp_path / "near").mkdir()
    with Federation.local(deal(tmp_path / "near", REAL, np.arange(80) % 3)) as federation:
        near = OmniFC(clusterer=spec).fit(federation)
    np.testing.assert_array_equal(by_id(far.labels_), by_id(near.labels_))
    assert near.n_clusters_ > 1


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"reveal": "labels"}, "with reveal='labels' clients must hold samples; got split='colu"),
        ({"n_segments": 2}, "'n_segments' parameter of OmniFC must be 1, as clients hold segments"),
        ({"split": "views"}, "'split' parameter of OmniFC"),
    ],
)
def test_what_columns_cannot_do_is_refused(given, match):
    with pytest.raises(InvalidInput, match=match):
        OmniFC(3, **{"clusterer": "k-means", "split": "columns", **given}).check()


def test_stores_that_do_not_fit_the_split_are_refused(iris):
    with pytest.raises(InvalidInput, match="OmniFC joins columns of the same samples, each of one"):
        OmniFC(3, split="columns").fit(iris[0])
    with pytest.raises(InvalidInput, match="OmniFC needs clients with the same columns in the sa"):
        OmniFC(3).fit(iris[1])
    with pytest.raises(InvalidInput, match="graph of 200 neighbours each"):
        OmniFC(3, split="columns", clusterer={"spectral": {"n_neighbors": 200}}).fit(iris[1])


def test_new_samples_are_no_columns(iris, tmp_path):
    model = OmniFC(3, split="columns").fit(iris[1])
    urls = cells(tmp_path, IRIS, [np.arange(4)], [[0], [1, 3], [2]])
    with pytest.raises(InvalidInput, match="OmniFC with split='columns' cannot place new samples"):
        model.predict(iris[1], urls)


def summary(digests, radius=3.0, columns=7):
    share = int(np.sum(digests) % 97)
    return SampleSummary(np.array(digests, "uint64"), share, 2, columns, 0, radius, radius / 2, -1)


def test_a_plan_of_cells_has_each_sample_once_and_adds_ranges_up():
    parts = {"a": summary([5, 1]), "b": summary([9], 4.0), "c": summary([1, 9, 5], 12.0, 8)}
    plan = plan_of_columns(parts)
    assert (plan.n_samples, plan.n_features) == (3, 4)
    assert plan.radius == pytest.approx(np.hypot(4.0, 12.0))
    assert plan.spread == pytest.approx(np.hypot(2.0, 6.0))
    places = {1: plan.positions["a"][1], 5: plan.positions["a"][0], 9: plan.positions["b"][0]}
    assert sorted(places.values()) == [0, 1, 2]
    assert plan.positions["c"].tolist() == [places[1], places[9], places[5]]
    other = plan_of_columns({**parts, "c": summary([1, 9, 5], 11.0, 8)})
    assert other.problem != plan.problem


@pytest.mark.parametrize(
    ("of_c", "of_b", "match"),
    [
        ([1, 5], [9], "1 samples have those of c and lack others, or the other way round"),
        ([1, 5, 9, 7], [9], "1 samples have those of c and lack others"),
        ([1, 5, 9], [9, 1], "1 samples have those of a, b twice"),
        ([1, 5, 9, 9], [9], "1 samples have those of c twice"),
    ],
)
def test_a_grid_with_gaps_or_copies_is_refused(of_c, of_b, match):
    parts = {"a": summary([5, 1]), "b": summary(of_b), "c": summary(of_c, columns=8)}
    with pytest.raises(InvalidInput, match=match):
        plan_of_columns(parts)


def test_who_has_which_columns_is_the_clients_word():
    """By groups of a caller's, rows in other columns were taken for each other's neighbours."""
    parts = {"a": summary([1, 2]), "b": summary([3, 4], columns=8)}
    with pytest.raises(InvalidInput, match="4 samples have those of b and lack others"):
        plan_of_columns(parts)
    with pytest.raises(InvalidInput, match="need the same columns in the same order; those of"):
        server.plan(parts)
    assert plan_of_columns({"a": summary([1, 2]), "b": summary([3, 4])}).n_features == 2
    assert server.plan({"a": summary([1, 2]), "b": summary([3, 4])}).n_samples == 4


def test_columns_whose_squares_are_zeros_are_not_balanced(tmp_path):
    (url,) = cells(tmp_path, REAL * 1e-170, ALL["far"], [[0, 1]]).values()
    with pytest.raises(OverflowRefused, match="'client-1' cannot be balanced: squares of their di"):
        _own_view(ClientStore.open(url), False, True)


def test_a_storage_deals_a_grid_of_all_cells_once(tmp_path):
    storage = load_storage(
        {
            "source": {"dataset": "iris"},
            "partition": {"scheme": "grid", "clients": 6, "column_groups": 2},
            "root": str(tmp_path / "stores"),
        }
    )
    storage.build()
    stores = [ClientStore.open(url) for url in storage.client_urls().values()]
    held = [(i, c) for s in stores for i in s.sample_ids() for c in s.feature_names]
    assert len(held) == len(set(held)) == IRIS.size
    assert {store.n_features for store in stores} == {2}
    with pytest.raises(StoreError, match="as many clients hold each of the column groups"):
        load_storage(
            {
                "source": {"dataset": "iris"},
                "partition": {"scheme": "grid", "clients": 5, "column_groups": 2},
                "root": str(tmp_path / "others"),
            }
        ).build()


def test_balanced_columns_count_alike_whatever_their_units(tmp_path, approved):
    """And the units stay at the clients: nothing of them is in a message."""
    own, units = [[0, 1], [2], [3, 4]], np.array([1e3, 1e3, 1e-3, 7.0, 7.0])
    urls = cells(tmp_path, REAL * units, ALL["far"], own)
    spec = {"hierarchical": {"linkage": "average"}}
    with Federation.local(urls) as federation:
        found = OmniFC(3, clusterer=spec, split="columns", balance=True).fit(federation)
    alike = np.concatenate(
        [REAL[:, part] / np.sqrt(2 * REAL[:, part].var(axis=0).sum()) for part in own], axis=1
    )
    (tmp_path / "alike").mkdir()
    with Federation.local(deal(tmp_path / "alike", alike, np.arange(80) % 3)) as federation:
        wanted = OmniFC(3, clusterer=spec).fit(federation)
    assert ari(by_id(wanted.labels_), by_id(found.labels_)) == 1.0
    assert found.n_clusters_ == 3


@pytest.mark.parametrize("given", [{"split": "grid"}, {"split": "samples"}, {"max_abs": 9.0}])
def test_only_columns_are_balanced(given):
    with pytest.raises(InvalidInput, match="'balance' parameter of OmniFC is for split='columns'"):
        OmniFC(3, **{"split": "columns", "balance": True, **given}).check()


def test_a_client_sees_its_columns_from_their_mean_in_their_own_unit(tmp_path):
    (url,) = cells(tmp_path, FAR, ALL["far"], [[2, 3, 4]]).values()
    store = ClientStore.open(url)
    seen = _own_view(store, True, True)
    rows = seen.rows(store.rows(0, 80))
    apart = np.square(rows[:, None] - rows).sum(-1).mean()
    assert apart == pytest.approx(1.0)
    assert np.abs(rows).max() < 5
    assert _own_view(store, False, False) == Seen()
    assert _own_view(store, True, False).factor == 1.0
    assert _own_view(store, False, True).point == b""
    (tmp_path / "alike").mkdir()
    (url,) = cells(tmp_path / "alike", np.full((5, 2), 3.0), [np.arange(5)], [[0, 1]]).values()
    assert _own_view(ClientStore.open(url), True, True).factor == 1.0  # nothing is apart


class Site(SiteRules):
    """A site that remembers what was asked."""

    def __init__(self):
        self._once = OnceOnly()

    def once(self):
        return self._once


def a_store(folder, X):
    folder.mkdir()
    (url,) = cells(folder, X, [np.arange(len(X))], [np.arange(X.shape[1])]).values()
    return ClientStore.open(url)


def described(store, site, balance, centre=False):
    key = SecretKey(bytes(32))
    how = {"max_abs": None, "centre": centre, "balance": balance, "site": site}
    return describe_columns(store, key, key, **how)


def test_balanced_samples_are_apart_in_the_unit_of_distances(tmp_path):
    """In the client's own unit a grid was too coarse, and different samples became the same."""
    values = np.repeat([[0.0], [1.0], [3.0], [7.0]], 5, axis=0)
    told = [
        columns_apart(a_store(tmp_path / str(unit), values * unit), False, True).squared
        for unit in (1.0, 1024.0)
    ]
    assert told[0] == told[1]
    assert columns_apart(ClientStore.open(str(tmp_path / "1.0/client-1.zarr")), 0, 0).squared == 1.0


def test_far_columns_are_named_as_they_are_seen(tmp_path):
    """Columns far from the origin are centred, and are no outliers of others."""
    near, radius = a_store(tmp_path / "near", REAL[:, :2] + 1e6), 1e3
    refuse_far_columns(near, True, False, radius=radius, why="why")
    with pytest.raises(OverflowRefused, match="lie too far from the others in columns 'x0', 'x1'"):
        refuse_far_columns(near, False, False, radius=radius, why="why")
    urls = cells(tmp_path, FAR[:, :4] * [1.0, 1e9, 1.0, 1.0], ALL["far"], [[0, 1], [2], [3]])
    with (
        Federation.local(urls) as federation,
        pytest.raises(PartyError, match=r"client 'client-1' lie too far .* column 'x1': "),
    ):
        OmniFC(clusterer={"dbscan": {"eps": 1e-14}}, split="columns").fit(federation)


def test_columns_are_seen_in_one_way_that_was_announced(tmp_path):
    """Distances in two units give those of one client's columns."""
    store, site = a_store(tmp_path / "a", REAL), Site()
    balanced, other = described(store, site, True), described(store, Site(), False)
    assert balanced.content != other.content  # blocks of one are none of the other
    assert described(store, site, True).content == balanced.content
    with pytest.raises(PrivacyError, match="view of columns of '' were used for another content"):
        described(store, site, False)
    with pytest.raises(PrivacyError, match="view of columns of '' were used for another content"):
        columns_apart(store, True, True, site=site)
    announced = Announced({"balance": False, "max_abs": None})
    code = {"code": choose_code(3, None, None, None), "evaluators": []}
    for step in (describe_columns, encode_columns, columns_apart, refuse_far_columns):
        given = {"balance": True, **(code if step is encode_columns else {})}
        told = broken_rule(step, given, announced)
        assert told == "'balance' must be the 'balance' that was announced"


def test_no_columns_leave_a_client_where_distances_are_not_revealed():
    """And nobody tells how near samples are."""
    steps = Protocol.of("OmniFC").steps
    named = [f"{by_columns.__name__}.{name}" for name in ("encode_columns", "columns_apart")]
    for step in (*named, "daskfc.secure.distances.parties.party.nearest_apart"):
        assert steps[step]["at"]["client"]["reveal"] == ["distances"]
