"""FedSC's graph, divided among the server's workers: the same bits, whoever screens the pairs."""

import numpy as np
import pytest

from daskfc import FedSC
from daskfc.clustering.kernels.low_rank_similarity import similarity_graph
from daskfc.federation import Federation
from daskfc.protocols.fedsc.similarity import graph
from daskfc.testing.federation import stores_of

K = 2


@pytest.fixture(scope="module")
def rows():
    """Rows of length one in four directions, most similar to those of their own."""
    random = np.random.default_rng(3)
    B = np.repeat(np.eye(4, 12), 150, axis=0) + 0.25 * random.normal(size=(600, 12))
    return B / np.linalg.norm(B, axis=1, keepdims=True)


def divided(rows, of, room=None):
    told = graph.rounded_similarities(rows, K, room)
    parts = {str(i): graph.similar_pairs(told, part=i, of=of) for i in range(of)}
    return told, parts


def same(found, wanted):
    assert np.array_equal(found.indptr, wanted.indptr)
    assert np.array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.data, wanted.data)


@pytest.mark.parametrize("of", [2, 3])
def test_the_graph_is_the_same_bits(rows, of):
    told, parts = divided(rows, of)
    assert told.rows.dtype == np.float32
    assert all(part.complete and part.samples.size for part in parts.values())
    same(graph.settled_graph(rows, parts, K).graph, similarity_graph(rows, K))


def test_what_float32_cannot_tell_is_left_to_the_server(rows):
    alike = np.ones((600, 3))
    _, parts = divided(alike, 2)
    assert not any(part.complete for part in parts.values())
    same(graph.settled_graph(alike, parts, K).graph, similarity_graph(alike, K))
    _, parts = divided(rows, 2)
    parts["1"] = graph.similar_pairs(divided(alike, 2)[0], part=1, of=2)  # one alone gave up
    same(graph.settled_graph(rows, parts, K).graph, similarity_graph(rows, K))


def test_workers_without_room_get_nothing(rows):
    assert divided(rows, 2, room=2_000_000_000)[0].rows.size
    assert not divided(rows, 2, room=500_000_000)[0].rows.size


@pytest.mark.long
@pytest.mark.slow
def test_labels_do_not_depend_on_the_number_of_the_servers_workers(tmp_path):
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(6.0 * i, 1.0, size=(400, 4)) for i in range(4)])
    urls = stores_of(tmp_path, {f"client-{i + 1}": X[i::3] for i in range(3)})
    labels, told = {}, {}
    for workers in (1, 3):
        cluster = {
            "cluster": "local",
            "server": {"workers": workers},
            "parties": {"server": {"memory_limit": "1500MB"}},
        }
        with Federation.local(urls, cluster=cluster) as federation:
            model = FedSC(4, rounds=2, neighbors=5).fit(federation)
            labels[workers], told[workers] = model.labels_.values, model.ledger_
            assert model.scores_of(federation, [3, 4], by="eigengap")[4] is not None
    np.testing.assert_array_equal(labels[1], labels[3])
    assert len(set(labels[1].tolist())) == 4
    alone, shared = (
        {(row.sender, row.receiver, row.message) for row in told[workers]} for workers in (1, 3)
    )
    assert shared - alone == {
        ("server", "server-2", "RoundedSimilarities"),
        ("server", "server-3", "RoundedSimilarities"),
        ("server-2", "server", "SimilarPairs"),
        ("server-3", "server", "SimilarPairs"),
    }
    pairs = [row for row in told[3] if row.message == "SimilarPairs"]
    assert all(row.payload_bytes > 1600 for row in pairs)
