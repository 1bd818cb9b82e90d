"""Graphs of distances are the same whether one worker of the server makes them, or several."""

import numpy as np
import pytest

from daskfc.clustering import NeighbourGraph, exact_points
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points
from daskfc.federation import Federation
from daskfc.protocols import OmniFC
from daskfc.secure.distances import graphs
from daskfc.secure.distances.graphs import NearPairs, near_pairs, score_rows, settled_graph
from daskfc.testing.federation import stores_of

N, D = 1500, 4


@pytest.fixture(scope="module")
def rows():
    """Four groups of whole numbers, with many ties."""
    random = np.random.default_rng(3)
    return random.integers(0, 12, (N, D)) + 30.0 * random.integers(0, 2, (N, 2)).repeat(2, axis=1)


@pytest.fixture(scope="module")
def points(rows):
    whole = ((rows[:, None] - rows[None, : D + 8]) ** 2).sum(axis=2).astype(int)
    found = exact_points(lambda part: whole[part], np.arange(D + 8), n=N, n_features=D)
    assert found.certified
    return found


def parts_of(points, of, **asked):
    told = score_rows(points, radius2=asked["radius2"])
    k = asked["n_neighbors"]
    return {str(i): near_pairs(told, n_neighbors=k, part=i, of=of) for i in range(of)}


def edges(graph):
    return sorted(np.concatenate([np.column_stack(pairs) for pairs in graph]).tolist())


@pytest.mark.parametrize("of", [2, 3])
def test_neighbours_by_several_are_those_of_the_samples(rows, points, of):
    asked = {"n_neighbors": 3, "radius2": None}
    parts = parts_of(points, of, **asked)
    assert all(part.complete and 0 < part.samples.size < N * N / of for part in parts.values())
    found = settled_graph(points, parts, **asked)
    wanted = nearest_of_points(rows, 3)
    assert isinstance(found, NeighbourGraph)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.distances, wanted.distances)


@pytest.mark.parametrize("of", [2, 3])
def test_pairs_within_a_radius_by_several_are_those_of_the_samples(rows, points, of):
    asked = {"n_neighbors": None, "radius2": 9.0}
    parts = parts_of(points, of, **asked)
    assert all(part.complete and part.samples.size for part in parts.values())
    found = settled_graph(points, parts, **asked)
    assert edges(found) == edges(within_radius_of_points(rows, 9.0))


@pytest.mark.parametrize("asked", [(3, None), (None, 9.0)], ids=["neighbours", "radius"])
def test_the_server_goes_alone_where_a_part_is_missing(rows, points, asked):
    asked = dict(zip(("n_neighbors", "radius2"), asked, strict=True))
    parts = parts_of(points, 2, **asked)
    none = np.empty(0, np.int32)
    parts["1"] = NearPairs(none, none, np.empty(0, bool), 0)
    found, alone = settled_graph(points, parts, **asked), settled_graph(points, {}, **asked)
    if isinstance(found, NeighbourGraph):
        np.testing.assert_array_equal(found.indices, alone.indices)
    else:
        assert edges(found) == edges(alone) == edges(within_radius_of_points(rows, 9.0))


def test_a_part_with_no_pairs_is_a_part(points):
    asked = {"n_neighbors": None, "radius2": 0.9}
    told = score_rows(points, radius2=0.9)
    part = near_pairs(told, n_neighbors=None, part=N - 1, of=N)
    assert part.complete
    assert part.samples.size == 0
    parts = parts_of(points, 2, **asked)
    assert edges(settled_graph(points, parts, **asked)) == edges(settled_graph(points, {}, **asked))


def test_too_many_pairs_are_not_listed(points, monkeypatch):
    told = score_rows(points, radius2=9.0)
    whole = near_pairs(told, n_neighbors=None, part=0, of=2)
    monkeypatch.setattr(graphs, "_MOST", whole.samples.size - 1)
    part = near_pairs(told, n_neighbors=None, part=0, of=2)
    assert not part.complete
    assert part.samples.size == 0


@pytest.mark.parametrize("asked", [(3, None), (None, 1e-6)], ids=["neighbours", "radius"])
def test_what_float32_cannot_tell_is_left_to_the_server(asked):
    asked = dict(zip(("n_neighbors", "radius2"), asked, strict=True))
    alike = (
        np.ones((400, 2)) if asked["radius2"] is None else np.random.default_rng(0).random((400, 2))
    )
    told = score_rows(alike, radius2=asked["radius2"])
    assert told.rows.size == 0
    parts = {"0": near_pairs(told, n_neighbors=asked["n_neighbors"], part=0, of=1)}
    assert not parts["0"].complete
    found, alone = settled_graph(alike, parts, **asked), settled_graph(alike, {}, **asked)
    if isinstance(found, NeighbourGraph):
        np.testing.assert_array_equal(found.indices, alone.indices)
    else:
        assert edges(found) == edges(alone)


FITS = {
    "spectral": {"n_clusters": 4, "clusterer": {"spectral": {"n_neighbors": 4}}},
    "dbscan": {"clusterer": {"dbscan": {"eps": 3.0}}},
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The neighbour graph has:sklearn.exceptions.ConvergenceWarning")
def test_labels_do_not_depend_on_the_number_of_the_servers_workers(rows, tmp_path):
    urls = stores_of(tmp_path, {f"client-{i + 1}": rows[i::3] for i in range(3)})
    labels, told, limits = {}, {}, {"memory_limit": "1500MB"}
    for workers in (1, 3):
        cluster = {
            "cluster": "local",
            "server": {"workers": workers},
            "parties": {"server": limits},
        }
        with Federation.local(urls, cluster=cluster) as federation:
            assert federation.limits()["server"] == federation.limits()[federation.parties[-1]]
            for name, params in FITS.items():
                model = OmniFC(**params, n_colluding=1, random_state=0).fit(federation)
                assert model.route_ == "columns"
                labels[name, workers] = model.labels_.values
                told[name, workers] = model.ledger_
            assert set(federation.peak_memory()) == set(federation.parties)
    for name in FITS:
        np.testing.assert_array_equal(labels[name, 1], labels[name, 3])
        assert len(set(labels[name, 1].tolist())) > 2
        alone = {(row.sender, row.receiver, row.message) for row in told[name, 1]}
        shared = {(row.sender, row.receiver, row.message) for row in told[name, 3]}
        assert shared - alone == {
            ("server", "server-2", "ScoreRows"),
            ("server", "server-3", "ScoreRows"),
            ("server-2", "server", "NearPairs"),
            ("server-3", "server", "NearPairs"),
        }


def test_workers_without_room_get_no_share():
    def needs(limit):
        class Federation:
            server_workers = ("server-2",)

            def limits(self):
                return {"server": 2_000_000_000, "server-2": limit, "client-1": 1}

        class Distances:
            federation, n_samples, n_features = Federation(), 70_000, 784

        return graphs._helps(Distances(), 9)

    assert needs(2_000_000_000)
    assert needs(None)
    assert not needs(1_000_000_000)
