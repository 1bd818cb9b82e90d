"""OmniFC over clients that hold columns, or cells of a grid: labels of the pooled samples."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris

from daskfc import Federation, OmniFC
from daskfc.coding import SecretKey, choose_residues
from daskfc.errors import InvalidInput, OverflowRefused, PartyError, PrivacyError, StoreError
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import SiteRules
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
from daskfc.secure.distances.parties.party import share_of
from daskfc.secure.distances.parties.seen import Seen
from daskfc.secure.distances.routes import new_panels
from daskfc.site.approved import Protocol
from daskfc.stores import ClientStore, load_storage, write_store
from tests.protocols.conftest import by_id, deal
from tests.protocols.omnifc.test_omnifc import CLUSTERERS, FIND_CLUSTERS

IRIS, DIGITS = load_iris().data, load_digits().data[:240]
ALL = {"iris": [np.arange(len(IRIS))], "far": [np.arange(80)]}
REAL = np.random.default_rng(0).normal(size=(80, 5)) + 3 * (np.arange(80) % 3)[:, None]
OWN = [[0], [1, 3], [2]]
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
    of_columns = cells(folder("columns"), IRIS, ALL["iris"], OWN)
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


def between(X, n, seed=0):
    """Return points halfway between rows, to a tenth: none reaches farther than the rows."""
    a, b = np.random.default_rng(seed).integers(0, len(X), (2, n))
    return np.trunc(5 * (X[a] + X[b])) / 10


def new_cells(folder, X, own):
    """Write new samples, which each client has in an order of its own."""
    urls = {}
    for number, part in enumerate(own):
        name = f"client-{number + 1}"
        order = np.random.default_rng(number).permutation(len(X))
        values, ids = X[np.ix_(order, part)], [str(1000 + k) for k in order]
        urls[name] = str(folder / f"{name}.zarr")
        names = [f"x{c}" for c in part]
        write_store(urls[name], name, values, ids, feature_names=names, dtype="float64")
    return urls


def nearest_mean(X, labels, new):
    """Return the cluster of k-means that is nearest to each new sample."""
    means = np.array([X[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    return cdist(new, means).argmin(axis=1)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CLUSTERERS)
def test_new_samples_get_the_labels_of_their_pooled_columns(iris, tmp_path, approved, name):
    given = {"clusterer": CLUSTERERS[name], "random_state": 3}
    given["n_clusters"] = None if name in FIND_CLUSTERS else 3
    new = between(IRIS, 40)
    (tmp_path / "rows").mkdir()
    pooled = deal(tmp_path / "rows", new, np.arange(40) % 3, ids=1000 + np.arange(40))
    wanted = OmniFC(**given).fit(iris[0]).predict(iris[0], pooled)
    model = OmniFC(**given, split="columns").fit(iris[1])
    found = model.predict(iris[1], new_cells(tmp_path, new, OWN))
    np.testing.assert_array_equal(by_id(found), by_id(wanted))
    assert len(found) == 40  # each once


@pytest.mark.parametrize("name", ["k-means", "spectral", "dbscan"])
def test_copies_of_samples_get_their_labels_and_others_those_of_the_nearest(
    iris, tmp_path, approved, name
):
    n_clusters = None if name in FIND_CLUSTERS else 3
    model = OmniFC(n_clusters, clusterer=CLUSTERERS[name], split="columns").fit(iris[1])
    labels, own = by_id(model.labels_), model.predict(iris[1])  # of fit, which are readable
    np.testing.assert_array_equal(by_id(own)[labels >= 0], labels[labels >= 0])
    if name == "k-means":
        new = between(IRIS, 40)
        found = by_id(model.predict(iris[1], new_cells(tmp_path, new, OWN)))
        np.testing.assert_array_equal(found, nearest_mean(IRIS, labels, new))


def test_new_samples_leave_clients_as_shares_and_digests_alone(iris, tmp_path, approved):
    model = OmniFC(3, split="columns", clusterer="k-means").fit(iris[1])
    before = len(iris[1].ledger.to_frame())
    model.predict(iris[1], new_cells(tmp_path, between(IRIS, 9), OWN))
    told = iris[1].ledger.to_frame().iloc[before:]
    counts = told["message"].value_counts().to_dict()
    # each shares out to the two others, who have nothing else of its columns
    assert counts == {
        "StoreSummary": 3, "SampleSummary": 3, "PublicPlan": 1, "CodedRows": 6, "RowPositions": 3,
        "CodedDistances": 3, "DecodedBlock": 1, "ClientLabels": 1, "LabelledSamples": 1,
    }  # fmt: skip
    to_server = told[told["message"] == "SampleSummary"]
    assert set(to_server["receiver"]) == {"server"}


def test_new_columns_come_in_panels(iris, tmp_path, approved, monkeypatch):
    monkeypatch.setattr(new_panels, "PANEL_ENTRIES", 4 * len(IRIS))
    model = OmniFC(3, split="columns", clusterer="k-means").fit(iris[1])
    new = between(IRIS, 9)
    found = by_id(model.predict(iris[1], new_cells(tmp_path, new, OWN)))
    np.testing.assert_array_equal(found, nearest_mean(IRIS, by_id(model.labels_), new))


def test_balanced_new_columns_count_as_those_of_fit(tmp_path, approved):
    """By units of their own, new samples that lie close together were spread over the clusters."""
    own, units = [[0, 1], [2], [3, 4]], np.array([1e3, 1e3, 1e-3, 7.0, 7.0])
    X, new = REAL * units, 0.5 * (REAL[:20] + REAL[20:40]) * units
    with Federation.local(cells(tmp_path, X, ALL["far"], own)) as federation:
        model = OmniFC(3, clusterer="k-means", split="columns", balance=True).fit(federation)
        (tmp_path / "new").mkdir()
        found = model.predict(federation, new_cells(tmp_path / "new", new, own))
    weights = np.concatenate([np.full(len(c), 2 * X[:, c].var(axis=0).sum()) for c in own]) ** -0.5
    wanted = nearest_mean(X * weights, by_id(model.labels_), new * weights)
    np.testing.assert_array_equal(by_id(found), wanted)
    assert len(set(wanted)) > 1
    unweighed = nearest_mean(X, by_id(model.labels_), new)
    assert (unweighed != wanted).any()


def test_new_columns_are_centred_as_those_of_fit(tmp_path, approved):
    own = [[0, 1], [2, 3], [4]]
    new = 0.5 * (FAR[:20] + FAR[20:40])
    with Federation.local(cells(tmp_path, FAR, ALL["far"], own)) as federation:
        model = OmniFC(3, clusterer="k-means", split="columns").fit(federation)
        (tmp_path / "new").mkdir()
        found = model.predict(federation, new_cells(tmp_path / "new", new, own))
    np.testing.assert_array_equal(by_id(found), nearest_mean(FAR, by_id(model.labels_), new))
    assert len(set(found.values.tolist())) > 1


def test_new_cells_of_a_grid_get_the_labels_of_their_pooled_columns(tmp_path, approved):
    rows = np.array_split(np.random.default_rng(0).permutation(len(DIGITS)), 2)
    columns = np.array_split(np.arange(64), 2)
    new = np.trunc(0.5 * (DIGITS[:30] + DIGITS[30:60]))
    with Federation.local(cells(tmp_path, DIGITS, rows, columns)) as federation:
        model = OmniFC(10, split="grid", clusterer="k-means").fit(federation)
        (tmp_path / "new").mkdir()
        parts = [np.arange(21), np.arange(21, 30)]
        urls = cells(tmp_path / "new", new, parts, columns)
        found = model.predict(federation, urls)
        with pytest.raises(
            InvalidInput, match="columns of every client; those of client-2, client"
        ):
            model.predict(federation, {name: urls[name] for name in ("client-1", "client-3")})
    wanted = nearest_mean(DIGITS, by_id(model.labels_), new)
    np.testing.assert_array_equal(by_id(found), wanted)
    assert set(found.client.values) == {"client-1", "client-3"}


def test_new_samples_that_do_not_fit_are_refused(iris, tmp_path):
    model = OmniFC(3, split="columns", clusterer="k-means").fit(iris[1])
    new = IRIS[:6]

    def predict(X, own=OWN, leave_out=(), less=()):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        urls = new_cells(folder, X, own)
        if less:
            (folder / "less").mkdir()
            urls["client-2"] = new_cells(folder / "less", X[: -len(less)], own)["client-2"]
        return model.predict(iris[1], {n: u for n, u in urls.items() if n not in leave_out})

    with pytest.raises(InvalidInput, match="needs the columns of every client; those of client-3"):
        predict(new, leave_out=["client-3"])
    with pytest.raises(InvalidInput, match="column 1 is 'x0' there and 'x1' in the new store"):
        predict(new, own=[[1], [1, 3], [2]])
    with pytest.raises(PartyError, match="2 samples have those of client-2 and lack others"):
        predict(new, less=[0, 1])
    far = new.copy()
    far[0, 3] = 40.0
    with pytest.raises(PartyError, match="those of client-2 reach farther") as refused:
        predict(far)
    assert isinstance(refused.value.__cause__, OverflowRefused)
    assert "40" not in str(refused.value)
    assert len(predict(new)) == 6  # the run goes on


def test_new_samples_beyond_a_declared_bound_are_refused(iris, tmp_path):
    model = OmniFC(3, split="columns", clusterer="k-means", max_abs=8.0).fit(iris[1])
    new = IRIS[:6].copy()
    new[0, 0] = 8.5
    with pytest.raises(PartyError, match=r"'client-1' must lie within the declared max_abs=8.0"):
        model.predict(iris[1], new_cells(tmp_path, new, OWN))


def test_samples_of_fit_that_are_given_as_new_ones_have_other_shares_and_digests(tmp_path):
    """Noise that hides two rows tells their difference; digests of one key tell who was there."""
    store, key = a_store(tmp_path / "a", REAL), SecretKey(bytes(32))
    code = choose_code(3, None, None, None)
    system = choose_residues(radius=20.0, n_features=5, tolerance=1e-3, grids=0,
                             n_columns=5, n_points=6)  # fmt: skip
    how = {"code": code, "system": system, "evaluators": tuple("abc"), "start": 0, "stop": 80}
    told = [encode_columns(store, key, False, False, new=new, **how) for new in (None, store)]
    for name in "abc":
        one, other = (share_of(sent[name], code, system) for sent in told)
        assert (one != other).mean() > 0.9
    how = {"max_abs": None, "centre": False, "balance": False}
    fit, new = (describe_columns(store, key, key, new=new, **how) for new in (None, store))
    assert not np.isin(fit.digests, new.digests).any()
    assert (fit.radius, fit.n_features) == (new.radius, new.n_features)


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
    assembled = steps["daskfc.secure.distances.parties.party.assemble"]["parts"]
    assert list(assembled) == ["daskfc.secure.distances.parties.messages.CodedRows"]
    named = [f"{by_columns.__name__}.{name}" for name in ("encode_columns", "columns_apart")]
    for step in (*named, "daskfc.secure.distances.parties.party.nearest_apart"):
        assert steps[step]["at"]["client"]["reveal"] == ["distances"]
