"""OmniFC that reveals labels alone: those of the pooled samples, and no message with a distance."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import make_blobs

from daskfc import Federation, OmniFC
from daskfc.errors import InvalidInput, OverflowRefused, ResourceRefused
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.metrics import ari
from daskfc.protocols.omnifc import on_shares
from daskfc.protocols.omnifc.on_shares import _finest, _largest_within, whole_rows
from daskfc.secure.sums import Centre
from daskfc.site.approved import Protocol
from daskfc.stores import ClientStore
from daskfc.testing.federation import stores_of

X, _ = make_blobs(150, 3, centers=4, cluster_std=0.6, random_state=0)
FAR = np.concatenate([X, [[30.0, 0.0, 0.0]]])  # which is noise
NAMES = ("a", "b", "c", "d")
ROWS = dict(zip(NAMES, np.split(FAR, [20, 75, 110]), strict=True))
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
    found = model.labels_.set_index(sample=["client", "sample_id"])
    return np.concatenate([found.sel(client=name).values for name in NAMES])


def test_dbscan_has_the_pooled_labels_and_tells_nobody_a_distance(federation, urls, approved):
    model = OmniFC(clusterer={"dbscan": {"eps": 0.9}}, reveal="labels").fit(federation)
    wanted = DBSCAN(eps=0.9).fit_predict(FAR)
    assert ari(wanted, labels_of(model)) == 1.0
    np.testing.assert_array_equal(labels_of(model) == -1, wanted == -1)
    assert model.n_clusters_ == wanted.max() + 1
    assert model.choices["distances"].startswith("shares: ")
    frame = model.ledger_.to_frame()
    to_server = set(frame[frame["receiver"] == "server"]["message"])
    assert to_server == {"SampleSummary"}
    assert not {"CodedRows", "CodedDistances", "ClusterReport"} & set(frame["message"])
    assert (frame["message"] == "LabelledSamples").sum() == len(NAMES)
    with pytest.raises(InvalidInput, match="keeps nothing to place new samples by"):
        model.predict(federation, urls)


def test_k_means_is_as_good_as_the_pooled_one(federation, approved):
    model = OmniFC(4, clusterer=SHORT, reveal="labels", random_state=1).fit(federation)
    found = labels_of(model)
    inertia = sum(((FAR[found == c] - FAR[found == c].mean(0)) ** 2).sum() for c in range(4))
    best = KMeans(4, n_init=10, random_state=0).fit(FAR)
    assert inertia <= 1.02 * best.inertia_
    assert (model.n_clusters_, model.silhouette_, model.criteria) == (4, None, ())
    assert model.sample_map(federation) is None
    again = OmniFC(4, clusterer=SHORT, reveal="labels", random_state=1).fit(federation)
    np.testing.assert_array_equal(labels_of(again), found)


def test_samples_far_from_the_origin_are_seen_from_their_mean(tmp_path, approved):
    rows = {name: part + 1e5 for name, part in ROWS.items()}
    with Federation.local(stores_of(tmp_path, rows)) as federation:
        model = OmniFC(clusterer={"dbscan": {"eps": 0.9}}, reveal="labels").fit(federation)
        assert ari(DBSCAN(eps=0.9).fit_predict(FAR), labels_of(model)) == 1.0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"clusterer": "spectral"}, "clusters by k-means on coordinates or by dbscan; got 'spec"),
        ({"clusterer": {"k-means": {"rows": "distances"}}}, "by k-means on coordinates or by dbs"),
        ({"n_colluding": 2}, "'n_colluding' must be 1; got 2"),
        ({"distances": "blocks"}, "'distances' must be left out; got 'blocks'"),
        ({"reveal": "all"}, "'reveal' parameter of OmniFC"),
    ],
)
def test_what_shares_cannot_do_is_refused(changes, match):
    model = OmniFC(**{"n_clusters": 3, "clusterer": "k-means", "reveal": "labels", **changes})
    with pytest.raises(InvalidInput, match=match):
        model.check()


def test_two_clients_are_too_few():
    model = OmniFC(3, clusterer="k-means", reveal="labels")
    model.check(3)
    with pytest.raises(InvalidInput, match="needs three clients that compute; got 2"):
        model.check(2)


def test_more_clusters_than_samples_and_too_little_memory_are_refused(federation, monkeypatch):
    model = OmniFC(152, clusterer=FAST, reveal="labels")
    with pytest.raises(InvalidInput, match="at most the number of samples, 151; got 152"):
        model.fit(federation)
    monkeypatch.setattr(on_shares, "PROCESS_BYTES", 3 * 10**9)
    with pytest.raises(ResourceRefused, match=r"labels on shares of 151 samples .* at party 'a'"):
        OmniFC(3, clusterer=FAST, reveal="labels").fit(federation)


@pytest.mark.parametrize(("eps", "scale"), [(0.3, 10.0), (0.1, 10.0), (0.5, 7.0), (3.0, 1.0)])
def test_the_radius_counts_as_it_does_on_distances(eps, scale):
    largest = _largest_within(eps * eps, scale)
    assert largest / scale**2 <= eps * eps < (largest + 1) / scale**2


@pytest.mark.parametrize(("n", "d", "bits"), [(100, 2, 16), (70_000, 784, 14), (10_000, 10, 16)])
def test_features_get_the_bits_that_there_is_room_for(n, d, bits):
    task = _finest(n, d, 10, 5, seed=0)
    assert bits <= task.lloyd.magnitude_bits <= 16
    assert task.lloyd.flat == (n * 45 <= 1 << 20)


def test_a_radius_beyond_all_distances_ends_at_once():
    assert _largest_within(1e30, 2.0**20) == 1 << 62


def test_rows_beyond_the_range_are_refused_without_their_values(tmp_path):
    (url,) = stores_of(tmp_path, {"a": np.array([[1.5, 2.0], [-3.0, 0.0]])}).values()
    store = ClientStore.open(url)
    np.testing.assert_array_equal(whole_rows(store, scale=2.0, bits=3), [[3, 4], [-6, 0]])
    with pytest.raises(OverflowRefused, match=r"^samples lie beyond the range that the clients"):
        whole_rows(store, scale=3.0, bits=3)


def test_a_caller_chooses_no_point_to_see_samples_from():
    right = {"centre": None, "scale": 2.0, "bits": 3}
    assert broken_rule(whole_rows, right, Announced()) is None
    centre = Centre(np.zeros(2))
    for wrong in ({"centre": centre}, {"scale": 0.0}, {"scale": np.inf}, {"bits": 31}, {"bits": 0}):
        assert broken_rule(whole_rows, {**right, **wrong}, Announced()) is not None


def test_only_what_is_announced_is_approved():
    """Who announces labels gets no distance, and the other way round."""
    steps = Protocol.of("OmniFC").steps
    shares = "daskfc.secure.three_parties.steps.cut_rows"
    coded = "daskfc.secure.distances.parties.party.encode_rows"
    for step, reveal in ((shares, "labels"), (coded, "distances")):
        assert steps[step]["at"]["client"] == {"reveal": [reveal]}


def test_dbscan_of_many_samples_on_no_grid_has_the_finest_grid():
    scale, bits = on_shares._scaled(1000.0, 5000.0, 30, 60 - 2)
    assert (scale, bits) == (1000.0 * 2**16, 29)
    assert on_shares._scaled(1.0, 16.0, 0, 60 - 6) == (1.0, 5)
    with pytest.raises(OverflowRefused, match=r"room for numbers of 27 bits, and .* take 31"):
        on_shares._scaled(1.0, 2.0**31 - 2, 30, 60 - 6)
