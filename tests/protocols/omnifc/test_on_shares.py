"""OmniFC that reveals labels alone: those of the pooled samples, and no message with a distance."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import make_blobs

from daskfc import Federation, OmniFC
from daskfc.clustering import make_clusterer
from daskfc.errors import (
    InvalidInput,
    OverflowRefused,
    PartyError,
    PrivacyError,
    ResourceRefused,
)
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import SiteRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.metrics import ari
from daskfc.protocols.omnifc import on_shares
from daskfc.protocols.omnifc.on_shares import (
    RowGrid,
    _finest,
    _largest_within,
    begun,
    new_rows,
    whole_rows,
)
from daskfc.runs.pipeline.promises import privacy_of
from daskfc.secure.shared import DensityClusters
from daskfc.secure.shared.seeding import FRACTION_BITS
from daskfc.secure.sums import Centre
from daskfc.secure.three_parties import DensityOfShares, NeighboursOfShares, steps
from daskfc.secure.three_parties.tasks import a_task
from daskfc.site import RunRequest
from daskfc.site.approved import Protocol
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of
from tests.oracles.shared import lloyd, seeded


class Site(SiteRules):
    """A site that remembers what was asked."""

    def __init__(self):
        self._once = OnceOnly()

    def once(self):
        return self._once


X, _ = make_blobs(99, 3, centers=4, cluster_std=0.6, random_state=0)
FAR = np.concatenate([X, [[30.0, 0.0, 0.0]]])  # which is noise
NAMES = ("a", "b", "c", "d")
ROWS = dict(zip(NAMES, np.split(FAR, [13, 50, 73]), strict=True))
FAST, SHORT = ({"k-means": {"max_iter": most}} for most in (1, 6))


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    return stores_of(tmp_path_factory.mktemp("rows"), ROWS)


@pytest.fixture(scope="module")
def federation(urls):
    with Federation.local(urls) as found:
        yield found


def labels_of(model):
    """Return labels in the order of the pooled samples."""
    return pooled(model.labels_)


def pooled(labels):
    found = labels.set_index(sample=["client", "sample_id"])
    return np.concatenate([found.sel(client=name).values for name in NAMES])


def test_k_means_is_as_good_as_the_pooled_one(federation, approved):
    model = OmniFC(4, clusterer=SHORT, reveal="labels", random_state=1).fit(federation)
    found = labels_of(model)
    inertia = sum(((FAR[found == c] - FAR[found == c].mean(0)) ** 2).sum() for c in range(4))
    best = KMeans(4, n_init=10, random_state=0).fit(FAR)
    assert inertia <= 1.02 * best.inertia_
    assert (model.n_clusters_, model.silhouette_, model.criteria) == (4, None, ())
    assert model.sample_map(federation) is None


def centres_of(model):
    """Return the centres of a fit as whole numbers, in the clear: nobody in it sees them."""
    task, grid = model._fitted._fitted
    rows = np.rint(FAR * grid.scale).astype(np.int64)
    own = rows[task.candidates]
    start = own[seeded(own, task.seeding.starts, 1 << FRACTION_BITS)]
    return lloyd(rows, start, task.lloyd.iterations, grid.bits)[1]


class Stop(Exception):
    """In place of a driver that ends."""


def test_a_fit_that_was_broken_off_begins_again_from_the_rows(federation, tmp_path, monkeypatch):
    """With new keys, so that no mask serves twice; nothing of it was on a disk."""

    def stop(stage, done, total):
        raise Stop

    model = OmniFC(3, clusterer=FAST, reveal="labels", random_state=0)
    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    monkeypatch.setattr(federation, "on_progress", stop)
    with pytest.raises(Stop):
        model.fit(federation)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in written) < 16 * FAR.size  # below one's summands
    monkeypatch.setattr(federation, "on_progress", None)
    broken = labels_of(model.fit(federation))
    monkeypatch.setattr(federation, "workspace", None)
    np.testing.assert_array_equal(broken, labels_of(model.fit(federation)))


def test_new_samples_get_the_nearest_centre_of_the_fit(federation, urls, tmp_path, approved):
    """Of some clients, twice; the fit's own samples keep their labels; a far one is refused."""
    model = OmniFC(3, clusterer=FAST, reveal="labels", random_state=1).fit(federation)
    _, grid = model._fitted._fitted
    np.testing.assert_array_equal(pooled(model.predict(federation, urls)), labels_of(model))
    random = np.random.default_rng(3)
    new = {"b": random.normal(scale=4, size=(40, 3)), "d": random.normal(scale=4, size=(7, 3))}
    stores = stores_of(tmp_path, new)
    begin = len(federation.ledger.to_frame())
    found = model.predict(federation, stores).set_index(sample=["client", "sample_id"])
    frame = federation.ledger.to_frame()[begin:]
    assert set(frame["message"]) == {
        *("StoreSummary", "NewSamples", "PublicKeys", "SharedRows", "SharedWords", "RoundsTaken"),
        *("LabelSummand", "LabelledSamples"),
    }
    assert "server" not in {*frame["sender"], *frame["receiver"]}
    told_labels = frame[frame["message"].isin(["LabelSummand", "LabelledSamples"])]
    summands = told_labels[told_labels["message"] == "LabelSummand"]
    assert set(summands["receiver"]) == {"b", "d"}
    by = told_labels[told_labels["message"] == "LabelledSamples"]["sender"]
    assert sorted(by) == ["b", "d"]
    centres = centres_of(model)
    for name, rows in new.items():
        whole = np.rint(rows * grid.scale).astype(np.int64)
        nearest = np.square(whole[:, None] - centres).sum(-1).argmin(1)
        np.testing.assert_array_equal(found.sel(client=name), nearest)
        assert len(set(nearest)) > 1
    again = model.predict(federation, stores)
    np.testing.assert_array_equal(again, found)
    words = federation.ledger.to_frame()[begin:].query("message == 'SharedRows'")
    assert len(words) == 2 * len(frame.query("message == 'SharedRows'"))
    far = stores_of(tmp_path / "far", {"a": np.array([[0.0, 1.0, 2.0], [4711.25, 0.0, 0.0]])})
    with pytest.raises(PartyError, match="samples lie beyond the range") as refused:
        model.predict(federation, far)
    assert refused.value.error_type == "OverflowRefused"
    assert refused.value.party == "a"
    assert "4711" not in str(refused.value)


def test_dbscan_has_the_pooled_labels_and_new_samples_those_of_core_ones_within_eps(
    federation, urls, tmp_path, approved
):
    """By any three clients, and nobody is told a distance. Noise is where there is none near."""
    three = ["d", "b", "c"]
    model = OmniFC(clusterer={"dbscan": {"eps": 0.9}}, reveal="labels", members=three)
    own = labels_of(model.fit(federation))
    wanted = DBSCAN(eps=0.9).fit_predict(FAR)
    assert ari(wanted, own) == 1.0
    np.testing.assert_array_equal(own == -1, wanted == -1)
    assert model.n_clusters_ == wanted.max() + 1
    assert model.choices["distances"].startswith("shares: ")
    frame = model.ledger_.to_frame()
    assert set(frame[frame["receiver"] == "server"]["message"]) == {"SampleSummary"}
    assert not {"CodedRows", "CodedDistances", "ClusterReport"} & set(frame["message"])
    assert (frame["message"] == "LabelledSamples").sum() == len(NAMES)
    assert set(frame[frame["message"] == "SharedRows"]["receiver"]) == set(three)
    np.testing.assert_array_equal(pooled(model.predict(federation, urls)), own)
    random = np.random.default_rng(3)
    new = {"b": random.normal(scale=4, size=(60, 3)), "d": random.normal(scale=4, size=(7, 3))}
    new["d"][0] = FAR[own == 0][0]
    begin = len(federation.ledger.to_frame())
    found = model.predict(federation, stores_of(tmp_path, new))
    found = found.set_index(sample=["client", "sample_id"])
    frame = federation.ledger.to_frame()[begin:]
    assert set(frame["message"]) == {
        *("StoreSummary", "NewSamples", "PublicKeys", "SharedRows", "SharedWords", "RoundsTaken"),
        *("LabelSummand", "LabelledSamples"),
    }
    assert "server" not in {*frame["sender"], *frame["receiver"]}
    _, grid = model._fitted._fitted
    core = DBSCAN(eps=0.9).fit(FAR).core_sample_indices_
    wanted = {}
    for name, rows in new.items():
        squares = np.square(rows[:, None] - FAR[core]).sum(-1)
        assert np.abs(np.sqrt(squares) - 0.9).min() > 20 / grid.scale  # rounding moves none
        near = squares <= 0.81
        wanted[name] = [min(own[core][row], default=-1) for row in near]
        np.testing.assert_array_equal(found.sel(client=name), wanted[name])
    assert -1 in wanted["b"]
    assert 0 in wanted["d"]
    with pytest.raises(InvalidInput, match=r"there is no 'e'\. Name three of a, b, c, d"):
        OmniFC(**{**model.get_params(), "members": ["a", "b", "e"]}).fit(federation)


def test_new_samples_far_from_the_origin_are_seen_from_the_mean_of_the_fit(tmp_path, approved):
    rows = {name: part + 1e5 for name, part in ROWS.items()}
    with Federation.local(stores_of(tmp_path / "far", rows)) as federation:
        model = OmniFC(2, clusterer=FAST, reveal="labels").fit(federation)
        new = stores_of(tmp_path / "new", {"c": rows["c"][:9]})
        assert model._fitted._place.centre is not None
        found, own = model.predict(federation, new), model.labels_
        own = own[own["client"] == "c"][:9]
        np.testing.assert_array_equal(found.values, own.values)


def test_too_many_predictions_are_refused_and_centres_of_another_run_are_gone(
    federation, tmp_path, approved
):
    """The other run is one of the same fit, which gives the same labels."""
    same = {"n_clusters": 4, "clusterer": FAST, "reveal": "labels", "random_state": 1}
    model = OmniFC(**same).fit(federation)
    near = stores_of(tmp_path, {"b": np.ones((2, 3))})
    for _ in range(steps.PREDICTIONS):
        model.predict(federation, near)
    with pytest.raises(PartyError, match="different predictions on shares at most"):
        model.predict(federation, near)
    again = OmniFC(**same).fit(federation)
    np.testing.assert_array_equal(labels_of(again), labels_of(model))
    with pytest.raises(InvalidInput, match="lies with the parties of the run of fit, which is ov"):
        model.predict(federation, near)


def test_a_client_places_few_stores_of_new_samples_on_the_grid_of_the_fit(tmp_path):
    """Refusals of many would tell where they lie."""
    rows = {f"s{i}": np.array([[1.5, i / 2]]) for i in range(steps.PREDICTIONS + 1)}
    stores = [ClientStore.open(url) for url in stores_of(tmp_path, rows).values()]
    site, grid = Site(), RowGrid(2.0, 6, exact=False)
    whole_rows(stores[0], grid=grid, site=site)
    with pytest.raises(PrivacyError, match="the grid of rows on shares of '' were used"):
        new_rows(stores[0], grid=RowGrid(4.0, 6, exact=False), site=site)
    for i, store in enumerate([*stores[:-1], stores[0]]):
        found = new_rows(store, grid=grid, site=site)
        np.testing.assert_array_equal(found.values, [[3, i % steps.PREDICTIONS]])
        assert found.new
    with pytest.raises(PrivacyError, match="8 different stores of new samples on shares at most"):
        new_rows(stores[-1], grid=grid, site=site)


@pytest.mark.parametrize("reveal", ["labels", "neighbours"])
def test_samples_far_from_the_origin_are_seen_from_their_mean(tmp_path, approved, reveal):
    rows = {name: part + 1e5 for name, part in ROWS.items()}
    with Federation.local(stores_of(tmp_path, rows)) as federation:
        model = OmniFC(clusterer={"dbscan": {"eps": 0.9}}, reveal=reveal).fit(federation)
        assert ari(DBSCAN(eps=0.9).fit_predict(FAR), labels_of(model)) == 1.0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"clusterer": "spectral"}, "clusters by k-means on coordinates or by dbscan; got 'spec"),
        ({"clusterer": {"k-means": {"rows": "distances"}}}, "by k-means on coordinates or by dbs"),
        ({"n_colluding": 2}, "'n_colluding' must be 1; got 2"),
        ({"distances": "blocks"}, "'distances' must be left out; got 'blocks'"),
        ({"reveal": "neighbours"}, "clusters by dbscan, or spectral of affinity 'radius'; got 'k-"),
        ({"reveal": "neighbours", "clusterer": "spectral"}, "of affinity 'radius'; got 'spectral'"),
        ({"clusterer": {"spectral": {"affinity": "radius", "eps": 1.0}}}, "by dbscan; got 'spec"),
        ({"reveal": "all"}, "'reveal' parameter of OmniFC"),
        ({"members": ["a", "b", "b"]}, "'members' parameter of OmniFC must be three different"),
        ({"members": "abc"}, "'members' parameter of OmniFC must be three different names"),
        ({"reveal": "distances", "members": ["a", "b", "c"]}, "'members' parameter .* Leave it"),
    ],
)
def test_what_shares_cannot_do_is_refused(changes, match):
    model = OmniFC(**{"n_clusters": 3, "clusterer": "k-means", "reveal": "labels", **changes})
    with pytest.raises(InvalidInput, match=match):
        model.check()


def test_what_is_claimed_hangs_on_what_is_revealed():
    told = {r: privacy_of(OmniFC(3, reveal=r)) for r in ("distances", "neighbours", "labels")}
    assert told["distances"] == privacy_of(OmniFC)
    assert "the server learns all distances" in told["distances"]
    assert told["neighbours"].startswith("the server learns which samples are within eps of each")
    assert told["labels"].startswith("nobody learns a distance, as long as no two")


def test_a_site_shares_its_rows_with_the_announced_three_alone():
    def broken(names, **told):
        asked = Announced({"reveal": "labels", **told}, clients=NAMES)
        return broken_rule(steps.cut_rows, {"members": names}, asked)

    assert broken(("b", "c", "d"), members=["b", "c", "d"]) is None
    assert broken(("a", "b", "c"), members=None) is None
    assert "the announced ones" in broken(("b", "c", "d"), members=None)
    for names in (("a", "c", "d"), ("d", "c", "b"), ("b", "c")):
        assert "the announced ones" in broken(names, members=["b", "c", "d"])


def test_two_clients_are_too_few():
    model = OmniFC(3, clusterer="k-means", reveal="labels")
    model.check(3)
    with pytest.raises(InvalidInput, match="needs three clients that compute; got 2"):
        model.check(2)


def test_more_clusters_than_samples_and_too_little_memory_are_refused(federation, monkeypatch):
    model = OmniFC(101, clusterer=FAST, reveal="labels")
    with pytest.raises(InvalidInput, match="at most the number of samples, 100; got 101"):
        model.fit(federation)
    monkeypatch.setattr(on_shares, "PROCESS_BYTES", 3 * 10**9)
    with pytest.raises(ResourceRefused, match=r"labels on shares of 100 samples .* at party 'a'"):
        OmniFC(3, clusterer=FAST, reveal="labels").fit(federation)


@pytest.mark.parametrize("reveal", ["labels", "neighbours"])
def test_the_memory_of_a_graph_is_foreseen_at_the_server_that_opens_it(reveal):
    n, told = 60_000, {}
    density = DensityClusters(n, 2, 10, 9, 5)
    task = (NeighboursOfShares if reveal == "neighbours" else DensityOfShares)(density)
    limits = dict.fromkeys("abc", 10**12) | {"server": 2 * 10**9}
    federation = SimpleNamespace(limits=lambda: limits, foresee=lambda needs, _: told.update(needs))
    at = federation, SimpleNamespace(members=tuple("abc")), task, n, 2
    if reveal == "neighbours":
        with pytest.raises(ResourceRefused, match="GB of memory at party 'server'"):
            on_shares._check_memory(*at)
        limits["server"] *= 4
    on_shares._check_memory(*at)
    assert ("server" in told) == (reveal == "neighbours")


@pytest.mark.parametrize(("eps", "scale"), [(0.3, 10.0), (0.1, 10.0), (0.5, 7.0), (3.0, 1.0)])
def test_the_radius_counts_as_it_does_on_distances(eps, scale):
    largest = _largest_within(eps * eps, scale)
    assert largest / scale**2 <= eps * eps < (largest + 1) / scale**2


@pytest.mark.parametrize(("n", "d", "bits"), [(100, 2, 16), (70_000, 784, 14), (10_000, 10, 16)])
def test_features_get_the_bits_that_there_is_room_for(n, d, bits):
    task = _finest(n, d, 10, 5, seed=0, scale=1.0)
    assert bits <= task.lloyd.magnitude_bits <= 16
    assert task.lloyd.flat == (n * 45 <= 1 << 20)


def test_a_radius_beyond_all_distances_ends_at_once():
    assert _largest_within(1e30, 2.0**20) == 1 << 62


def announced(**changes):
    said = {"clusterer": {"dbscan": {"eps": 2.0}}, "n_clusters": None, "reveal": "labels"}
    return Announced({**said, **changes})


def test_rows_beyond_the_range_are_refused_without_their_values(tmp_path):
    (url,) = stores_of(tmp_path, {"a": np.array([[1.5, 2.0], [-3.0, 0.0]])}).values()
    store = ClientStore.open(url)
    rows = whole_rows(store, grid=RowGrid(2.0, 3, exact=True))
    np.testing.assert_array_equal(rows.values, [[3, 4], [-6, 0]])
    assert (rows.scale, rows.point) == (2.0, None)
    for grid in (RowGrid(3.0, 3, exact=False), RowGrid(1.0, 3, exact=True)):
        with pytest.raises(OverflowRefused, match=r"^samples lie beyond the range, or off the gr"):
            whole_rows(store, grid=grid)


def test_a_start_has_one_grid(tmp_path):
    """Refusals of many would tell where samples are."""
    (url,) = stores_of(tmp_path, {"a": np.array([[1.5, 2.0], [-3.0, 0.0]])}).values()
    store, site, grid = ClientStore.open(url), Site(), RowGrid(2.0, 3, exact=True)
    for centre in (None, None):
        assert whole_rows(store, centre, grid=grid, site=site).bits == 3
    others = [(None, RowGrid(2.0, 4, exact=True)), (Centre(np.zeros(2)), grid)]
    for centre, other in others:
        with pytest.raises(PrivacyError, match="the grid of rows on shares of '' were used"):
            whole_rows(store, centre, grid=other, site=site)


def test_a_caller_chooses_no_point_to_see_samples_from_and_no_coarse_grid():
    right = {"centre": None, "grid": RowGrid(1000.0, 12, exact=False)}
    assert broken_rule(whole_rows, right, announced()) is None
    assert broken_rule(whole_rows, {"grid": RowGrid(1.0, 3, exact=True)}, announced()) is None
    coarse = RowGrid(400.0, 12, exact=False)
    assert broken_rule(whole_rows, {"grid": coarse}, announced()) is not None
    assert broken_rule(whole_rows, {"grid": coarse}, announced(clusterer="k-means")) is None
    assert broken_rule(whole_rows, {**right, "centre": Centre(np.zeros(2))}, announced())
    for scale, bits, exact in ((0.0, 3, True), (np.inf, 3, True), (2.0, 31, True), (2.0, 0, True)):
        assert broken_rule(whole_rows, {"grid": RowGrid(scale, bits, exact)}, announced())
    for wrong in ((2, 3, True), (2.0, 3.0, True), (2.0, 3, 1)):
        assert broken_rule(whole_rows, {"grid": RowGrid(*wrong)}, announced())


def test_members_begin_the_clustering_that_was_announced_and_no_other():
    """Who may choose eps learns distances by and by; who may choose centres, too."""
    own = DensityOfShares(DensityClusters(9, 2, 12, 16, 5), 2.0)
    assert broken_rule(begun, {"task": own}, announced()) is None
    changes = ({"squared_eps": 17}, {"squared_eps": 15}, {"min_samples": 1})
    for task in [
        *(replace(own, clusters=replace(own.clusters, **one)) for one in changes),
        replace(own, scale=4.0),
        _finest(9, 2, 3, 20, 0, 2.0),
    ]:
        assert "'task' must be the clustering" in broken_rule(begun, {"task": task}, announced())
    near = NeighboursOfShares(own.clusters, own.scale)
    for task, reveal in ((own, "neighbours"), (near, "labels"), (own, "distances")):
        assert broken_rule(begun, {"task": task}, announced(reveal=reveal)) is not None
    assert broken_rule(begun, {"task": near}, announced(reveal="neighbours")) is None
    spectral = {"spectral": {"affinity": "radius", "eps": 2.0}}
    asked = announced(clusterer=spectral, n_clusters=3, reveal="neighbours")
    least = replace(near, clusters=replace(near.clusters, min_samples=1))
    assert broken_rule(begun, {"task": least}, asked) is None
    assert broken_rule(begun, {"task": near}, asked) is not None
    for other in (1.0, 3.0):
        further = {"spectral": {"affinity": "radius", "eps": other}}
        asked = announced(clusterer=further, n_clusters=3, reveal="neighbours")
        assert broken_rule(begun, {"task": least}, asked) is not None
    asked = announced(clusterer=spectral, n_clusters=3)
    assert broken_rule(begun, {"task": replace(own, clusters=least.clusters)}, asked) is not None
    means = announced(clusterer={"k-means": {"max_iter": 6}}, n_clusters=3)
    own = _finest(9, 2, 3, 6, 5, 2.0)
    assert broken_rule(begun, {"task": own}, means) is None
    changes = ({"n_clusters": 2}, {"iterations": 1}, {"magnitude_bits": 8})
    for task in [
        *(replace(own, lloyd=replace(own.lloyd, **one)) for one in changes),
        DensityOfShares(DensityClusters(9, 2, 12, 16, 5), 2.0),
    ]:
        assert "'task' must be the clustering" in broken_rule(begun, {"task": task}, means)
    for unknown in ({}, {"clusterer": "DBSCAN"}):
        assert broken_rule(begun, {"task": own}, Announced(unknown)) is not None


def test_a_clusterer_is_announced_with_its_parameters():
    told = RunRequest("OmniFC", parameters={"clusterer": make_clusterer({"dbscan": {"eps": 2.0}})})
    spec = RunRequest.of_json(told.as_json()).parameters["clusterer"]
    assert make_clusterer(spec) == make_clusterer({"dbscan": {"eps": 2.0}})


def test_only_what_is_announced_is_approved():
    """Who announces labels gets no distance, and the other way round."""
    approved = Protocol.of("OmniFC").steps
    shares = "daskfc.secure.three_parties.steps"
    coded = "daskfc.secure.distances.parties.party.encode_rows"
    for step, reveal in (
        (f"{shares}.cut_rows", ["labels", "neighbours"]),
        (f"{shares}.label_summands", ["labels"]),
        (f"{shares}.graph_summand", ["neighbours"]),
        (coded, ["distances"]),
    ):
        assert approved[step]["at"]["client"]["reveal"] == reveal
    columns = coded.replace("party.encode_rows", "by_columns.encode_columns")
    assert approved[coded]["at"]["client"]["split"] == ["samples"]
    assert approved[columns]["at"]["client"]["split"] == ["columns", "grid"]
    # a member begins what was announced, by OmniFC's own step
    assert f"{shares}.begun" not in approved


def test_dbscan_of_many_samples_on_no_grid_has_the_finest_grid():
    scale, bits = on_shares._scaled(1000.0, 5000.0, 30, 60 - 2)
    assert (scale, bits) == (1000.0 * 2**16, 29)
    assert on_shares._scaled(1.0, 16.0, 0, 60 - 6) == (1.0, 5)
    with pytest.raises(OverflowRefused, match=r"room for numbers of 27 bits, and .* take 31"):
        on_shares._scaled(1.0, 2.0**31 - 2, 30, 60 - 6)


def test_numbers_of_numpy_are_taken():
    """A sweep over np.arange was refused."""
    task = _finest(20, 2, np.int64(3), np.int64(6), 1, 1.0)
    assert task == _finest(20, 2, 3, 6, 1, 1.0)
    assert a_task.holds(task, Announced())
