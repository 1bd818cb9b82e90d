"""HDBSCAN on a graph of nearest neighbours beside scikit-learn's on all distances."""

import numpy as np
import pytest
import sklearn.cluster
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from daskfc.clustering import HDBSCAN, FullDistances, RowFactors
from daskfc.clustering.clusterers.density import _edges
from daskfc.clustering.views.nearest import nearest_of_matrix, nearest_of_points
from daskfc.errors import InvalidInput
from tests.oracles import clustering as oracle


def blobs(seed, n=300):
    return make_blobs(n, n_features=3, centers=6, cluster_std=1.5, random_state=seed)


def library(X, size=8, core=5):
    return sklearn.cluster.HDBSCAN(size, min_samples=core, copy=True).fit_predict(X)


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 6, 8])  # without ties between clusters
def test_all_neighbours_give_the_clusters_of_all_distances(seed):
    X, _ = blobs(seed)
    expected = library(X)
    found = HDBSCAN(8, 5, n_neighbors=len(X)).pooled(X, None, 0).labels
    assert oracle.same_partition(found, expected)
    np.testing.assert_array_equal(found == -1, expected == -1)
    assert expected.max() >= 1


@pytest.mark.parametrize("seed", range(8))
def test_ties_move_few_samples(seed):
    X, _ = blobs(seed + 10)
    found = HDBSCAN(8, 5, n_neighbors=len(X)).pooled(X, None, 0).labels
    assert adjusted_rand_score(found, library(X)) > 0.98


def test_a_graph_that_holds_a_spanning_tree_is_enough():
    X, _ = blobs(13)
    core = np.sort(cdist(X, X), axis=1)[:, 4]
    reach = np.maximum(cdist(X, X), np.maximum(core, core[:, None]))
    tree = minimum_spanning_tree(reach)
    for k in (10, 20, 40, 80):
        graph = _edges(nearest_of_points(X, k), k)
        weights = graph.tocoo()
        weights.data = np.maximum(weights.data, np.maximum(core[weights.row], core[weights.col]))
        whole = connected_components(nearest_graph(X, k), directed=False)[0] == 1
        if whole and np.isclose(minimum_spanning_tree(weights.tocsr()).sum(), tree.sum()):
            break
    assert k < 80
    found = HDBSCAN(8, 5, n_neighbors=k + 1).pooled(X, None, 0).labels
    assert adjusted_rand_score(found, library(X)) > 0.98


def nearest_graph(X, k):
    near = nearest_of_points(X, k).indices
    full = np.zeros((len(X), len(X)), dtype=bool)
    np.put_along_axis(full, near, True, axis=1)
    return full


def test_edges_are_symmetric_in_one_part_and_never_zero():
    X = np.repeat(np.array([[0.0], [0.1], [5.0], [5.1], [90.0], [90.1]]), 3, axis=0)
    graph = _edges(nearest_of_points(X, 3), 3)
    assert connected_components(graph, directed=False)[0] == 1
    assert graph.nnz == (graph != 0).nnz
    assert abs(graph - graph.T).max() == 0
    dense = graph.toarray()
    direct = np.abs(X - X.T)
    near = nearest_graph(X, 3) | nearest_graph(X, 3).T
    np.testing.assert_allclose(dense[near], direct[near], atol=1e-12 * 90)
    bridges = (dense != 0) & ~near & ~np.eye(len(X), dtype=bool)
    np.testing.assert_allclose(dense[bridges], dense[near].max())
    assert dense[bridges].min() > dense[near].max()


def test_separate_parts_become_clusters_and_lone_samples_are_counted_to_them():
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(60, 2)), random.normal(size=(60, 2)) + 100.0])
    far = np.array([[1e4, 0.0], [-1e4, 0.0], [0.0, 1e4]])
    found = HDBSCAN(20, 5, n_neighbors=6).pooled(np.concatenate([X, far]), None, 0)
    assert found.n_clusters == 2
    assert adjusted_rand_score(found.labels[:120], np.repeat([0, 1], 60)) == 1.0
    assert found.labels[120:].min() >= 0  # noise on all distances


def test_every_view_and_more_neighbours_than_asked_for_give_the_same():
    X, _ = blobs(3)
    clusterer = HDBSCAN(8, 5, n_neighbors=12)
    D = cdist(X, X, "sqeuclidean")
    views = (nearest_of_points(X, 11), nearest_of_points(X, 30), FullDistances(D), RowFactors(X))
    labels = [clusterer.fit(view, None, 0).labels for view in views]
    for other in labels[1:]:
        np.testing.assert_array_equal(labels[0], other)
    fitted = clusterer.fit(nearest_of_matrix(D, 11), None, 0)
    np.testing.assert_array_equal(clusterer.predict(fitted, D), fitted.labels)
    assert fitted.decisive.size == len(X)


def test_copies_and_few_samples():
    copies = HDBSCAN(5, n_neighbors=6).pooled(np.zeros((40, 2)), None, 0)
    assert np.unique(copies.labels).size == 1
    assert HDBSCAN(5, n_neighbors=5).pooled(np.eye(5), None, 0).labels.tolist() == [-1] * 5


def test_refusals():
    with pytest.raises(
        InvalidInput, match=r"at least min_samples, 500; got 30\. Raise it or lower"
    ):
        HDBSCAN(500, n_neighbors=30)
    assert HDBSCAN(500, 10, n_neighbors=30).needs(10**6, 9) == "neighbours"
    with pytest.raises(InvalidInput, match="must be RowFactors or FullDistances without n_nei"):
        HDBSCAN().fit(nearest_of_points(np.eye(9), 8), None, 0)
    with pytest.raises(InvalidInput, match="at most the number of samples, 4; got 5"):
        HDBSCAN(n_neighbors=5).pooled(np.eye(4), None, 0)
