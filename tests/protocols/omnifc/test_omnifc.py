"""OmniFC on real worker processes: against the pooled algorithm, liars, stragglers and kills."""

import functools
import os
import signal
import sys
from dataclasses import replace

import cloudpickle
import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_samples

from daskfc.clustering import make_clusterer
from daskfc.errors import InvalidInput, OverflowRefused, PartyError, ResourceRefused
from daskfc.federation import Federation
from daskfc.federation.methods.sample_keys import order_of
from daskfc.federation.methods.sample_map import map_of_points
from daskfc.protocols import OmniFC
from daskfc.protocols.omnifc import clusters
from daskfc.secure.distances.parties import messages, party
from daskfc.secure.distances.sizing.sizing import Sizing
from daskfc.seeds import integer_seed
from daskfc.stores import ClientStore, write_store
from tests.protocols.conftest import by_id, deal

pytestmark = pytest.mark.slow

CLUSTERERS = {
    "spectral": {"spectral": {}},
    "gaussian": {"spectral": {"affinity": "gaussian"}},
    "dbscan": {"dbscan": {"eps": 0.5, "min_samples": 5}},
    "single": {"hierarchical": {"linkage": "single"}},
    "complete": {"hierarchical": {"linkage": "complete"}},
    "average": {"hierarchical": {"linkage": "average"}},
    "ward": {"hierarchical": {"linkage": "ward"}},
    "k-medoids": {"k-medoids": {}},
    "kernel-k-means": {"kernel-k-means": {}},
    "nystroem-k-means": {"nystroem-k-means": {"n_landmarks": 40}},
    "landmark-spectral": {"landmark-spectral": {"n_landmarks": 40}},
    "k-means": {"k-means": {}},
    "reduced-k-means": {"reduced-k-means": {}},
    "fuzzy-c-means": {"fuzzy-c-means": {}},
    "gaussian-mixture": {"gaussian-mixture": {}},
    "hdbscan": {"hdbscan": {}},
    # With fewer, its order hangs on which of two equal distances rounding makes the smaller.
    "optics": {"optics": {"min_samples": 20}},
    "affinity-propagation": {"affinity-propagation": {}},
    "mean-shift": {"scikit-learn": {"estimator": "MeanShift"}},
}
FIND_CLUSTERS = ("dbscan", "hdbscan", "optics", "affinity-propagation", "mean-shift")
DECLARED = {name for name, kind in vars(messages).items() if isinstance(kind, type)} | {
    "ClientLabels", "ClusterReport", "KeyOffer", "LabelledSamples", "SealedDigestKey"
}  # fmt: skip


def pooled(X, labels, spec, n_clusters):
    """The central algorithm on the pooled rows, in the order that OmniFC gives the samples."""
    clusterer = make_clusterer(spec)
    return clusterer.pooled_labels(X, n_clusters, integer_seed(0, clusterer.name))


def same_partition(a, b):
    """Whether two labellings group alike, whatever the names of the groups."""
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.fixture(scope="module")
def labels(federation):
    """Labels of the plainest fit, which hang on no code, engine, route or tile."""
    return OmniFC(3, engine="f32").fit(federation).labels_


@pytest.fixture(scope="module")
def canonical(tmp_path_factory, iris, skewed):
    """Rows of iris in canonical order."""
    urls = deal(tmp_path_factory.mktemp("again"), iris[0], skewed)
    stores = {name: ClientStore.open(url) for name, url in urls.items()}
    places = np.concatenate(list(order_of(stores).values()))
    return np.concatenate([s.sample_ids() for s in stores.values()]).astype(int)[np.argsort(places)]


@pytest.mark.parametrize("name", CLUSTERERS)
def test_labels_equal_the_pooled_clusterer(federation, iris, canonical, name):
    spec = CLUSTERERS[name]
    n_clusters = None if name in FIND_CLUSTERS else 3
    model = OmniFC(n_clusters, clusterer=spec, tolerance=1e-6).fit(federation)
    found = by_id(model.labels_)[canonical]
    central = pooled(iris[0][canonical], found, spec, n_clusters)
    assert same_partition(found, central)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "spec",
    [
        {"k-means": {"rows": "distances"}},
        {"fuzzy-c-means": {"rows": "distances"}},
        "nmf",
        "k-means",
        "gaussian-mixture",
    ],
    ids=str,
)
def test_row_clusterers_agree_between_exact_and_landmark(federation, spec):
    exact = OmniFC(3, clusterer=spec, tolerance=1e-6).fit(federation)
    landmark = OmniFC(3, clusterer=spec, tolerance=1e-6, distances="landmark").fit(federation)
    assert same_partition(exact.labels_.values, landmark.labels_.values)


BY_BLOCKS = ("gaussian", "complete", "average", "k-medoids", "affinity-propagation")


@pytest.mark.few(5)
@pytest.mark.parametrize("distances", ["exact", "blocks", "landmark"])
@pytest.mark.parametrize("name", BY_BLOCKS)
def test_labels_where_memory_has_no_room_for_all_distances(
    federation, iris, monkeypatch, name, distances
):
    """The same as in memory, from coordinates and from tiles on the server's disk."""
    n_clusters = None if name in FIND_CLUSTERS else 3
    how = {"clusterer": CLUSTERERS[name], "random_state": 0, "landmark_tolerance": 1e-12}
    whole = OmniFC(n_clusters, distances=distances, **how).fit(federation)
    asked = []

    def no_room(sizing, reader):
        asked.append(reader.memory)
        return False

    monkeypatch.setattr(Sizing, "holds", no_room)
    model = OmniFC(n_clusters, distances=distances, **how).fit(federation)
    matrices = make_clusterer(CLUSTERERS[name]).matrices
    assert set(asked) == {int(matrices * 8 * len(iris[0]) ** 2)}
    np.testing.assert_array_equal(by_id(model.labels_), by_id(whole.labels_))
    assert model.silhouette_ == pytest.approx(whole.silhouette_, abs=1e-6)


def test_a_clusterer_that_reads_no_blocks_is_refused_with_what_it_would_take(
    federation, monkeypatch
):
    small = dict.fromkeys(federation.parties, 10**9) | {"server": 309_000_000}
    monkeypatch.setattr(Federation, "limits", lambda self: small)
    spec = {"scikit-learn": {"estimator": "DBSCAN", "on": "distances"}}
    said = r"and scikit-learn on them, would take 0\.2\d GB of memory at party 'server'"
    with pytest.raises(ResourceRefused, match=said):
        OmniFC(clusterer=spec).fit(federation)
    assert federation.ledger.payload_bytes < 10_000  # nothing was shared out


def test_the_caller_hears_what_the_server_noticed(federation):
    model = OmniFC(3, clusterer={"nmf": {"max_iter": 1}})
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        model.fit(federation)


@pytest.mark.few(2)
@pytest.mark.parametrize("spec", ["spectral", "hierarchical", {"dbscan": {"eps": 0.5}}])
def test_landmarks_give_the_exact_partition(federation, spec):
    n_clusters = None if isinstance(spec, dict) else 3
    exact = OmniFC(n_clusters, clusterer=spec).fit(federation)
    landmark = OmniFC(
        n_clusters, clusterer=spec, distances="landmark", landmark_tolerance=1e-10
    ).fit(federation)
    assert same_partition(exact.labels_.values, landmark.labels_.values)


def test_labels_do_not_depend_on_the_partition(labels, iris, tmp_path):
    urls = deal(tmp_path, iris[0], np.arange(len(iris[0])) % 3)
    with Federation.local(urls) as three:
        even = OmniFC(3).fit(three)
    np.testing.assert_array_equal(by_id(labels), by_id(even.labels_))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "params",
    [
        {"n_segments": 1, "n_colluding": 2, "n_spares": 0},
        {"n_segments": 1, "n_colluding": 1, "n_spares": 2},
        {"engine": "f64"},
        {"engine": "int8"},
        {"tile": 64},
        {"hide_segments": False},
    ],
)
def test_labels_do_not_depend_on_code_engine_or_tiles(federation, labels, params):
    np.testing.assert_array_equal(OmniFC(3, **params).fit(federation).labels_, labels)


@pytest.mark.parametrize("distances", ["exact", "blocks"])
def test_ledger_holds_declared_messages_only(federation, iris, distances):
    model = OmniFC(3, n_spares=0, distances=distances).fit(federation)
    frame = model.ledger_.to_frame()
    assert set(frame["message"]) <= DECLARED
    assert set(frame.loc[frame["receiver"] == "server", "message"]) == {
        "SampleSummary", "CodedDistances",
    }  # fmt: skip
    n, r, k = len(iris[0]), 2, 4  # tenths: two primes hold the distances exactly
    coded = frame[frame["message"] == "CodedRows"]
    # shares of own rows stay where they are; every other row goes to three of the five evaluators,
    # and its key to the first two
    own = model.labels_.client.to_series().value_counts()
    travelled = sum(n - own[f"client-{j}"] for j in range(3, 6))
    keys = coded["receiver"].isin(["client-1", "client-2"]).sum()
    assert coded["payload_bytes"].sum() == travelled * r * k + 32 * len(coded) + 32 * keys
    answers = frame[frame["message"] == "CodedDistances"]["payload_bytes"].sum()
    chosen = frame[(frame["message"] == "Landmarks") & (frame["receiver"] == "client-1")]
    columns = n if distances == "blocks" else chosen["payload_bytes"].sum() // 8
    assert columns <= n
    assert answers == 5 * (r * n * columns + 8 * max(1, len(chosen)))
    assert model.route_ == ("blocks" if distances == "blocks" else "columns")


CLUSTERERS_OF_ALL = ["spectral", "gaussian", "dbscan", "single", "average", "ward", "k-medoids"]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CLUSTERERS_OF_ALL)
def test_columns_give_the_labels_of_all_blocks(federation, name):
    n_clusters = None if name == "dbscan" else 3
    params = {"n_clusters": n_clusters, "clusterer": CLUSTERERS[name]}
    blocks = OmniFC(**params, distances="blocks").fit(federation)
    columns = OmniFC(**params).fit(federation)
    np.testing.assert_array_equal(columns.labels_, blocks.labels_)
    assert columns.choices["distances"].startswith("columns: ")
    assert columns.ledger_.payload_bytes < blocks.ledger_.payload_bytes / 2


def test_later_columns_need_fewer_primes(federation, monkeypatch):
    for name, few in (("LANDMARKS_A_ROUND", 2), ("_ROOM", 0)):
        monkeypatch.setattr(f"daskfc.secure.distances.sizing.sizing.{name}", few)
    blocks = OmniFC(3, distances="blocks").fit(federation)
    columns = OmniFC(3, max_abs=1000.0).fit(federation)  # four primes hold what such values may do
    np.testing.assert_array_equal(columns.labels_, blocks.labels_)
    frame = columns.ledger_.to_frame()
    answers = frame[frame["message"] == "CodedDistances"]["shapes"]
    n_primes = [shapes["residues"][0] for shapes in answers]
    assert n_primes[0] == 4
    assert min(n_primes) <= 2


@pytest.mark.few(1)
@pytest.mark.parametrize("rows", ["coordinates", "distances"])
def test_blocks_serve_clusterers_on_rows(federation, rows):
    spec = {"k-means": {"rows": rows}}
    exact = OmniFC(3, clusterer=spec).fit(federation)
    blocks = OmniFC(3, clusterer=spec, distances="blocks").fit(federation)
    assert same_partition(exact.labels_.values, blocks.labels_.values)
    assert "Landmarks" not in set(blocks.ledger_.to_frame()["message"])


def test_estimator_contract(federation):
    model = OmniFC(3, clusterer="k-medoids", random_state=1)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert model.fit(federation) is model
    assert model.labels_.dims == ("sample",)
    assert set(model.labels_.coords) == {"client", "sample_id"}
    assert model.n_clusters_ == 3
    assert model.timing_["total_s"] > 0
    np.testing.assert_array_equal(copy.fit(federation).labels_, model.labels_)


@pytest.mark.few(2)
@pytest.mark.parametrize("spec", ["spectral", "k-means", {"dbscan": {"eps": 1.0}}, "k-medoids"])
def test_predict_labels_new_samples_like_their_twins(federation, iris, tmp_path, spec):
    n_clusters = None if isinstance(spec, dict) else 3
    model = OmniFC(n_clusters, clusterer=spec).fit(federation)
    twins = np.arange(0, 150, 10)
    labels = by_id(model.labels_)
    urls = deal(tmp_path, iris[0][twins], np.arange(len(twins)) % 2, ids=1000 + twins)
    new = model.predict(federation, urls)
    order = np.argsort(new.sample_id.values.astype(int))
    keep = labels[twins] >= 0
    np.testing.assert_array_equal(new.values[order][keep], labels[twins][keep])
    assert set(new.client.values) == {"client-1", "client-2"}


def test_predict_refuses_what_does_not_fit(federation, iris, tmp_path):
    model = OmniFC(3).fit(federation)
    with pytest.raises(InvalidInput, match="client-77"):
        model.predict(federation, {"client-77": "nowhere"})
    narrow = str(tmp_path / "narrow.zarr")
    write_store(narrow, "client-1", iris[0][:4, :3], list("abcd"))
    with pytest.raises(InvalidInput, match="column 4 is 'x3' there and missing in the new"):
        model.predict(federation, {"client-1": narrow})
    far = str(tmp_path / "far.zarr")
    write_store(far, "client-1", iris[0][:4] * 1e3, list("abcd"))
    with pytest.raises(PartyError) as error:
        model.predict(federation, {"client-1": far})
    assert isinstance(error.value.__cause__, OverflowRefused)


def lying_answer_block(coded, party, **public):
    answer = _answer_block(coded, party, **public)
    if party == "client-3":
        answer.residues[0, 0, 0] ^= 1
    return answer


def lying_answer_columns(coded, chosen, party, **public):
    answer = _answer_columns(coded, chosen, party, **public)
    if party == "client-3":
        answer.residues[0, 0, 0] ^= 1
    return answer


_answer_block, _answer_columns = party.answer_block, party.answer_columns
lying_answer_block.__annotations__ = _answer_block.__annotations__
lying_answer_columns.__annotations__ = _answer_columns.__annotations__


def late_answer_block(coded, party, *, gate, **public):
    if party == "client-2":
        with open(gate) as pipe:  # opens when the test opens the other end
            pipe.read()
    return _answer_block(coded, party, **public)


late_answer_block.__annotations__ = _answer_block.__annotations__


@pytest.mark.parametrize(
    ("distances", "lie"),
    [("blocks", lying_answer_block), ("exact", lying_answer_columns)],
)
def test_a_liar_is_named_and_left_out(federation, labels, monkeypatch, distances, lie):
    code = {"n_segments": 1, "n_colluding": 1, "n_spares": 2}
    params = {"n_clusters": 3, **code, "tile": 64, "distances": distances}
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(party, lie.__name__.removeprefix("lying_"), lie)
    try:
        model = OmniFC(**params).fit(federation)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert list(model.dropped_evaluators_) == ["client-3"]
    np.testing.assert_array_equal(model.labels_, labels)


def test_a_straggler_is_cut_off(federation, labels, monkeypatch, tmp_path):
    blocks = {"tile": 64, "distances": "blocks"}
    gate = str(tmp_path / "gate")
    os.mkfifo(gate)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(party, "answer_block", functools.partial(late_answer_block, gate=gate))
    opened = []

    def let_go(stage, done, total):
        if stage == "clustering" and not opened:  # it must live to tell its own labels
            opened.append(os.close(os.open(gate, os.O_WRONLY)))

    federation.on_progress = let_go
    try:
        model = OmniFC(3, n_spares=1, **blocks).fit(federation)
    finally:
        federation.on_progress = None
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert model.dropped_evaluators_ == {"client-2": "was late 3 times"}
    np.testing.assert_array_equal(model.labels_, labels)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("distances", "during", "victim"),
    [
        ("blocks", "distances", "server"),
        ("exact", "landmarks", "client-1"),
        pytest.param("blocks", "distances", "client-1", marks=pytest.mark.long),
        pytest.param("exact", "landmarks", "server", marks=pytest.mark.long),
    ],
)
def test_a_killed_worker_changes_nothing(federation, labels, victim, distances, during):
    params = {"n_clusters": 3, "tile": 64, "distances": distances}
    killed = []

    def kill_once(stage, done, total):
        if stage == during and done and not killed:
            killed.append(federation.processes.pid(victim))
            os.kill(killed[0], signal.SIGKILL)

    federation.on_progress = kill_once
    try:
        model = OmniFC(**params).fit(federation)
    finally:
        federation.on_progress = None
    assert killed
    assert federation.processes.pid(victim) != killed[0]
    np.testing.assert_array_equal(model.labels_, labels)


def test_an_interrupted_fit_goes_on_with_the_missing_blocks(federation, monkeypatch, tmp_path):
    blocks = {"tile": 64, "n_spares": 0, "distances": "blocks"}
    whole = OmniFC(3, **blocks).fit(federation)
    monkeypatch.setattr(federation, "workspace", str(tmp_path))
    seen = []

    def interrupt(stage, done, total):
        if stage == "distances" and done:
            seen.append(done)
            if len(seen) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(federation, "on_progress", interrupt)
    with pytest.raises(KeyboardInterrupt):
        OmniFC(3, **blocks).fit(federation)
    monkeypatch.setattr(federation, "on_progress", None)
    resumed = OmniFC(3, **blocks).fit(federation)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)

    def answers(model):
        return (model.ledger_.to_frame()["message"] == "CodedDistances").sum()

    assert answers(whole) == 6 * 5
    assert 0 < answers(resumed) <= 4 * 5
    again = OmniFC(3, **blocks).fit(federation)
    assert answers(again) == 0
    np.testing.assert_array_equal(again.labels_, whole.labels_)


def test_bad_parameters_are_refused_before_anything_runs(federation):
    for params, match in [
        ({"n_clusters": 0}, "'n_clusters' parameter of OmniFC must be"),
        ({"n_clusters": 151}, "at most the number of samples, 150; got 151"),
        ({}, "'n_clusters' parameter of OmniFC must be given"),
        ({"n_clusters": 3, "clusterer": {"dbscan": {"eps": 1.0}}}, "must be left out"),
        ({"n_clusters": 3, "clusterer": "louvain"}, "no clusterer is named 'louvain'"),
        ({"n_clusters": 3, "n_segments": 4, "n_colluding": 4}, "2l \\+ 2t - 1 = 15 clients"),
        ({"n_clusters": 3, "tolerance": 0.0}, "above 0"),
    ]:
        with pytest.raises(InvalidInput, match=match):
            OmniFC(**params).fit(federation)


def test_more_memory_than_a_party_has_is_refused_with_numbers(federation, monkeypatch):
    monkeypatch.setattr(federation, "limits", lambda: dict.fromkeys(federation.parties, 10**8))
    with pytest.raises(ResourceRefused, match=r"0\.\d+ GB of memory at party"):
        OmniFC(3).fit(federation)


def test_more_neighbours_than_samples_are_refused_before_distances(federation, monkeypatch):
    model = OmniFC(3, clusterer={"spectral": {"n_neighbors": 151}})
    before, refused = federation.run_id, "spectral clustering of 150 samples can have no graph"
    with pytest.raises(InvalidInput, match=refused):
        model.fit(federation)
    assert federation.run_id == before  # nothing began
    unread = replace(federation.contract, readable={})  # as at a running cluster
    monkeypatch.setattr(federation, "_contract", unread)
    with pytest.raises(InvalidInput, match=refused):
        model.fit(federation)
    assert "CodedRows" not in {row.message for row in federation.ledger}


@pytest.mark.parametrize("clusterer", ["k-means", "spectral", {"hierarchical": {}}])
def test_the_silhouette_is_that_of_the_samples(federation, iris, clusterer):
    model = OmniFC(3, clusterer=clusterer, tolerance=1e-6).fit(federation)
    each = silhouette_samples(iris[0], labels := by_id(model.labels_))
    assert model.silhouette_ == pytest.approx(each.mean(), abs=1e-4)
    told = [each[labels == c].mean() for c in range(3)]
    assert [*model.silhouettes_.values()] == pytest.approx(told, abs=1e-4)


def test_no_silhouette_is_told_of_a_cluster_of_a_few_samples(federation, iris):
    model = OmniFC(12, clusterer={"hierarchical": {"linkage": "single"}}).fit(federation)
    sizes = np.bincount(model.labels_)
    assert (sizes < 5).any()
    assert sorted(model.silhouettes_) == np.flatnonzero(sizes >= 5).tolist()


def test_one_cluster_has_no_silhouette(federation, monkeypatch):
    monkeypatch.setattr(clusters, "FEW", 0)
    assert OmniFC(1, clusterer="k-means").fit(federation).silhouette_ is None
    model = OmniFC(3, distances="blocks").fit(federation)  # the server keeps a graph alone
    assert model.silhouette_ is None


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "how", [{"clusterer": "k-means"}, {"clusterer": "spectral"}, {"clusterer": "hierarchical"}]
)
def test_the_map_is_the_plane_of_the_pooled_samples(federation, iris, how):
    model = OmniFC(3, tolerance=1e-6, **how).fit(federation)
    told = model.sample_map(federation)
    expected = map_of_points(iris[0], by_id(model.labels_))
    assert told.share == pytest.approx(expected.share, abs=1e-4)
    np.testing.assert_array_equal(told.labels, expected.labels)
    found, true = (pdist(one.positions.astype(float)) for one in (told, expected))
    assert np.abs(np.sort(found) - np.sort(true)).max() < 3  # of 255: both are rounded
    (row,) = [row for row in federation.ledger if row.message == "SampleMap"]
    assert (row.sender, row.receiver, row.payload_bytes) == ("server", "caller", 150 * 10 + 8)
    assert "SampleMap" not in {row.message for row in model.ledger_}


def test_a_graph_alone_draws_no_map(federation, monkeypatch):
    monkeypatch.setattr(clusters, "FEW", 0)  # or all distances would be kept
    model = OmniFC(3, distances="blocks").fit(federation)
    assert model.sample_map(federation) is None
