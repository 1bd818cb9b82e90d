"""Columns of clients weighed by how clearly each finds groups in its own."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from daskfc import Federation, OmniFC
from daskfc.clustering import make_clusterer
from daskfc.clustering.clusterers.local_labels import NEIGHBOURS, spectral_labels
from daskfc.errors import InvalidInput, PartyError, PrivacyError
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.metrics import ari
from daskfc.secure.distances import choose_code
from daskfc.secure.distances.parties.by_columns import (
    columns_apart,
    describe_columns,
    encode_columns,
    own_modularity,
    refuse_far_columns,
)
from daskfc.seeds import integer_seed
from daskfc.site.approved import Protocol
from tests.protocols.conftest import by_id
from tests.protocols.omnifc.test_columns import Site, a_store, cells, nearest_mean, new_cells

N, K = 150, 3
Y = np.arange(N) % K
OWN = [[0, 1], [2, 3, 4], [5, 6]]


def views(seed=0):
    """Clear groups, no groups, and groups that overlap."""
    random = np.random.default_rng(seed)
    middles = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[Y]
    return np.hstack([
        middles + random.normal(size=(N, 2)),
        random.normal(size=(N, 3)),
        40.0 * (0.5 * middles + random.normal(size=(N, 2))),
    ])  # fmt: skip


X = views()


def newman(rows, labels, n_neighbors):
    """The modularity of labels in the graph of nearest neighbours, by its definition."""
    near = NearestNeighbors(n_neighbors=n_neighbors).fit(rows).kneighbors_graph(rows).toarray()
    A = (near + near.T) / 2.0
    np.fill_diagonal(A, np.diag(near))
    degrees = A.sum(axis=0)
    alike = labels[:, None] == labels
    return (alike * (A - np.outer(degrees, degrees) / A.sum())).sum() / A.sum()


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    urls = cells(tmp_path_factory.mktemp("views"), X, [np.arange(N)], OWN)
    with Federation.local(urls) as running:
        yield running


def own_score(columns):
    found = spectral_labels(X[:, columns], K, seed=integer_seed(0, "own columns"))
    assert found.n_neighbors in NEIGHBOURS
    return newman(X[:, columns], found.labels, found.n_neighbors)


def weighed(scores):
    spreads = [2.0 * X[:, columns].var(axis=0).sum() for columns in OWN]
    return np.repeat(np.sqrt(scores / np.array(spreads)), [len(columns) for columns in OWN])


def test_labels_are_those_of_the_pooled_columns_so_weighed(federation, tmp_path, approved):
    given = {"clusterer": "k-means", "split": "columns", "random_state": 0}
    model = OmniFC(K, balance="modularity", **given).fit(federation)
    weights = np.array([model.weights_[name] for name in federation.clients])
    scores = np.array([own_score(columns) for columns in OWN])
    np.testing.assert_allclose(weights, scores / scores.sum(), atol=0.02)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] > 1.1 * weights[1]
    clusterer = make_clusterer("k-means")
    units = weighed(weights)
    pooled = clusterer.pooled_labels(X * units, K, integer_seed(0, clusterer.name))
    np.testing.assert_array_equal(by_id(model.labels_), pooled)
    assert f"client-1 {weights[0]:.3f}" in model.choices["weights of columns"]
    new = 0.5 * (X[:20] + X[20:40])
    found = model.predict(federation, new_cells(tmp_path, new, OWN))
    wanted = nearest_mean(X * units, by_id(model.labels_), new * units)
    np.testing.assert_array_equal(by_id(found), wanted)


def test_lengths_are_those_of_columns_so_weighed(federation, approved):
    spec = {"reduced-k-means": {"centred": False}}
    given = {"clusterer": spec, "split": "columns", "random_state": 0}
    model = OmniFC(K, balance="modularity", **given).fit(federation)
    units = weighed(np.array([model.weights_[name] for name in federation.clients]))
    clusterer = make_clusterer(spec)
    pooled = clusterer.pooled_labels(X * units, K, integer_seed(0, clusterer.name))
    assert ari(by_id(model.labels_), pooled) == 1.0


def test_each_client_tells_the_caller_one_number(federation, approved):
    given = {"clusterer": "k-means", "split": "columns", "random_state": 0}
    frames = [
        OmniFC(K, balance=balance, **given).fit(federation).ledger_.to_frame()
        for balance in ("modularity", True)
    ]
    told = frames[0][frames[0]["message"] == "ViewModularity"]
    assert sorted(told["sender"]) == sorted(federation.clients)
    assert set(told["receiver"]) == {"caller"}
    assert (told["payload_bytes"] == 8).all()
    assert set(frames[0]["message"]) - set(frames[1]["message"]) == {"ViewModularity"}
    assert OmniFC(K, balance=True, **given).fit(federation).weights_ == {}


def test_the_order_of_a_store_changes_no_weight(tmp_path):
    moved = np.random.default_rng(1).permutation(N)
    one, other = (
        own_modularity(a_store(tmp_path / name, rows), n_clusters=K, seed=0)
        for name, rows in (("a", X[:, 2:5]), ("b", X[moved, 2:5]))
    )
    assert one == pytest.approx(other, rel=1e-12)


def test_a_weight_is_of_squared_distances(tmp_path):
    store = a_store(tmp_path / "a", X)
    whole, quarter = (columns_apart(store, True, True, w).squared for w in (1.0, 0.25))
    assert quarter == 0.25 * whole


@pytest.mark.filterwarnings("ignore")
def test_columns_without_groups_count_a_little(tmp_path):
    assert own_modularity(a_store(tmp_path / "a", np.ones((30, 2))), n_clusters=2, seed=0) >= 0.01


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"n_clusters": 1}, "'n_clusters' parameter of OmniFC must be 2 or more"),
        ({"clusterer": {"dbscan": {"eps": 1.0}}, "n_clusters": None}, "must be 2 or more"),
        ({"split": "grid"}, "'balance' parameter of OmniFC is for split='columns'"),
        ({"balance": "entropy"}, "true, false or 'modularity'"),
        ({"balance": 1}, "true, false or 'modularity'"),
    ],
)
def test_what_cannot_be_weighed_is_refused(given, match):
    how = {"n_clusters": 3, "split": "columns", "balance": "modularity", "clusterer": "k-means"}
    with pytest.raises(InvalidInput, match=match):
        OmniFC(**{**how, **given}).check()


def test_weights_are_the_clients_own(tmp_path):
    """By weights of a caller's, distances were as good as those over one client's columns."""
    announced = Announced({"balance": "modularity", "max_abs": None}, tuple("abc"))
    code = {"code": choose_code(3, None, None, None), "evaluators": []}
    for step in (describe_columns, encode_columns, columns_apart, refuse_far_columns):
        given = {"balance": "modularity", **(code if step is encode_columns else {})}
        assert broken_rule(step, given, announced) is None
        told = broken_rule(step, {**given, "weight": 1e9}, announced)
        assert told == "'weight' must be None, unless a message tells it"
    steps = Protocol.of("OmniFC").steps
    name = own_modularity.__module__
    for step in ("describe_columns", "encode_columns"):
        sources = set(steps[f"{name}.{step}"]["weight"])
        assert sources == {"caller", f"{name}.own_modularity"}
    assert steps[f"{name}.own_modularity"]["at"]["client"]["balance"] == ["modularity"]
    store, site = a_store(tmp_path / "a", X), Site()
    columns_apart(store, True, "modularity", 0.5, site=site)
    with pytest.raises(PrivacyError, match="view of columns of '' were used for another content"):
        columns_apart(store, True, "modularity", 0.25, site=site)


def asks_everything(monkeypatch):
    """Have a fit ask how near samples are, and who has far ones; return what was told."""
    near, opened = [], OmniFC._opened

    def asked(model, *given):
        distances = opened(model, *given)
        near.append(distances.nearest_apart())
        with pytest.raises(PartyError, match="lie too far from the others"):
            distances.refuse_far_samples("why")
        return distances

    monkeypatch.setattr(OmniFC, "_opened", asked)
    return near


def test_what_is_near_or_far_is_told_of_columns_as_they_are_seen(federation, approved, monkeypatch):
    """By the one view of a run: another would be refused."""
    near = asks_everything(monkeypatch)
    given = {"clusterer": "k-means", "split": "columns", "random_state": 0}
    for balance in ("modularity", True):
        model = OmniFC(K, balance=balance, **given).fit(federation)
        assert ari(by_id(model.labels_), Y) > 0.8
    assert 0.0 < near[0] < near[1] < 1.0  # weights are below 1


def test_what_is_near_or_far_is_told_of_cells(tmp_path, approved, monkeypatch):
    near = asks_everything(monkeypatch)
    halves = np.split(np.arange(N), 2)
    with Federation.local(cells(tmp_path, X, halves, [[0, 1, 2, 3], [4, 5, 6]])) as federation:
        OmniFC(K, clusterer="k-means", split="grid", random_state=0).fit(federation)
    assert near[0] > 0.0
