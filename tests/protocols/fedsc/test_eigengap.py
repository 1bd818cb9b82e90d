"""FedSC's gaps in the spectrum: against dense Laplacians, and on every route of similarities."""

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse
from sklearn.datasets import make_blobs

from daskfc.clustering.kernels.low_rank_similarity import similarity_graph
from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.protocols import FedSC
from daskfc.protocols.fedsc import server
from daskfc.protocols.fedsc.maths.similarity_spectral import graph_eigengaps, row_eigengaps
from daskfc.protocols.fedsc.similarity.graph import OrderedGraph, order_of_similar
from daskfc.runs.execution.choice import choose_n_clusters
from daskfc.testing.federation import stores_of


def rows_of(n, d, seed=0):
    """Rows as clients send them: not longer than 1, similarities mostly positive."""
    B = np.abs(np.random.default_rng(seed).normal(size=(n, d)))
    return B / np.linalg.norm(B, axis=1)[:, None]


def gaps_of(S, most):
    """Gaps between the ascending eigenvalues of I - Δ^(-1/2) S Δ^(-1/2), all of them."""
    root = np.sqrt(S.sum(axis=0))
    L = np.eye(len(S)) - S / np.outer(root, root)
    return np.diff(scipy.linalg.eigh(L, eigvals_only=True))[:most]


@pytest.mark.parametrize(("n", "k"), [(60, 4), (60, 20), (700, 7)])  # dense, and by iteration
def test_gaps_of_a_graph(n, k):
    graph = similarity_graph(rows_of(n, 5), k)
    expected = gaps_of(graph.toarray(), 12)
    np.testing.assert_allclose(graph_eigengaps(graph, 12, seed=0), expected, atol=1e-8)


def test_gaps_of_a_graph_in_parts():
    block = similarity_graph(rows_of(20, 4), 5).toarray()
    graph = sparse.csr_array(scipy.linalg.block_diag(*[block] * 3))
    found = graph_eigengaps(graph, 6, seed=0)
    np.testing.assert_allclose(found, gaps_of(graph.toarray(), 6), atol=1e-9)
    assert found[:2].tolist() == [0.0, 0.0]


def test_gaps_of_all_similarities():
    B = rows_of(80, 6)
    found = row_eigengaps(B, 12)
    np.testing.assert_allclose(found[:6], gaps_of(B @ B.T, 12)[:6], atol=1e-12)
    assert np.isinf(found[6:]).all()
    few = rows_of(5, 9)
    np.testing.assert_allclose(row_eigengaps(few, 4), gaps_of(few @ few.T, 4), atol=1e-12)


def test_what_the_server_tells():
    B = rows_of(60, 5)
    similar = OrderedGraph(similarity_graph(B, 9), order_of_similar(B))
    told = server.eigengaps_of_graph(similar, [2, 4], 0)
    expected = graph_eigengaps(similarity_graph(B, 9), 4, 0)[[1, 3]]
    np.testing.assert_allclose(told.scores, expected, rtol=1e-9)
    told = server.eigengaps(B, [2, 7])
    assert told.scores.tolist() == row_eigengaps(B, 7)[[1, 6]].tolist()
    assert not told.errors.any()


def test_noise_is_not_tried():
    noise = {"kind": "data", "clip": 1.0, "epsilon": 1.0, "delta": 1e-5}
    model = FedSC(2, noise=noise)
    assert model.criteria == ()
    with pytest.raises(InvalidInput, match="by 'eigengap'; it can by nothing"):
        model.scores_of(None, [2, 3], by="eigengap")


def blobs(k):
    X, _ = make_blobs(
        n_samples=160, centers=k, n_features=4, cluster_std=0.6, center_box=(-6, 6), random_state=k
    )
    return {f"client-{i + 1}": X[i::4] for i in range(4)}


@pytest.fixture(scope="module", params=[3, 5])
def of_blobs(request, tmp_path_factory):
    urls = stores_of(tmp_path_factory.mktemp("stores"), blobs(request.param))
    with Federation.local(urls) as federation:
        yield request.param, federation


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"neighbors": 20}, {"similarity": "coded"}])
def test_clear_clusters_are_counted(of_blobs, params):
    k, federation = of_blobs
    choice = choose_n_clusters(federation, FedSC(2, **params), range(2, 9))
    assert choice.by == "eigengap"
    assert choice.n_clusters == k, choice.scores
    told = choice.ledger["message"].tolist()
    assert told.count("ClusterScores") == 1
    assert "ClientLabels" not in told
    assert ("SimilarityRows" in told) == (params.get("similarity") != "coded")


@pytest.mark.slow
def test_all_similarities_have_a_curve_that_is_asked_for(of_blobs):
    k, federation = of_blobs
    model = FedSC(2, sparsify=False, n_atoms=6)
    assert model.criterion is None  # and stability goes
    choice = choose_n_clusters(federation, model, range(2, 9), by="eigengap")
    assert choice.n_clusters <= k
    assert [n for n, score in choice.scores.items() if score is None] == [7, 8]
