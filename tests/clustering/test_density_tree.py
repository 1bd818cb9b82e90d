"""Clusters of the largest modularity in a tree of densities, against all choices there are."""

from bisect import bisect_left
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.cluster import HDBSCAN
from sklearn.datasets import make_blobs

from daskfc.clustering.clusterers.density_tree import clusters_by_modularity
from daskfc.clustering.views.nearest import nearest_of_points
from tests.oracles.clustering import same_partition


def graph_of(X, k):
    """Return the graph of k nearest neighbours, weighted by nearness."""
    near = nearest_of_points(X, k)
    rows = np.repeat(np.arange(len(X)), k)
    weights = np.exp(-near.distances.ravel() / near.distances.mean())
    edges = sparse.csr_matrix((weights, (rows, near.indices.ravel())), shape=(len(X), len(X)))
    return edges.maximum(edges.T)


def modularity_in(W):
    """Newman and Girvan's Eq. (5), with weights; samples in no cluster count for none."""
    total, known = W.sum(), {}

    def of(c):
        if c.tobytes() not in known:
            own = W[np.ix_(c, c)].sum() / total - (W[c].sum() / total) ** 2
            known[c.tobytes()] = own
        return known[c.tobytes()]

    return lambda clusters: sum(map(of, clusters))


def tree_of(X, core, least):
    """Return HDBSCAN's clusters as (samples, inner clusters): components at each distance."""
    D = cdist(X, X)
    dense = np.sort(D, axis=1)[:, core - 1]
    D = np.maximum(np.maximum(D, dense[:, None]), dense)

    def parts(samples, edges):
        number = connected_components(edges[np.ix_(samples, samples)])[1]
        return [samples[number == c] for c in range(number.max() + 1)]

    def inner(samples):
        heights = np.unique(D[np.ix_(samples, samples)])
        whole = bisect_left(heights, True, key=lambda h: len(parts(samples, D <= h)) == 1)
        joined = heights[whole]
        large = [part for part in parts(samples, D < joined) if len(part) >= least]
        return inner(large[0]) if len(large) == 1 else large

    def cluster(samples):
        return samples, [cluster(part) for part in inner(samples)]

    return cluster(np.arange(len(X)))


def choices(tree):
    """Yield every choice of clusters of which none holds another, and that leave no inner out."""
    samples, inner = tree
    yield [samples]
    if inner:
        for several in product(*map(choices, inner)):
            yield [cluster for chosen in several for cluster in chosen]


def best_of_all(X, W, core, least):
    found = max(choices(tree_of(X, core, least)), key=modularity_in(W))
    labels = np.full(len(X), -1)
    for number, samples in enumerate(found):
        labels[samples] = number
    return labels


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("core", "least"), [(1, 2), (3, 5), (6, 4)])
def test_no_choice_of_clusters_in_the_tree_is_better(seed, core, least):
    random = np.random.default_rng(seed)
    centres = random.normal(scale=4, size=(5, 2))
    X = centres[random.integers(0, 5, 70)] + random.normal(size=(70, 2))
    graph = graph_of(X, 8)
    found = clusters_by_modularity(
        X, graph, min_cluster_size=least, min_samples=core, n_neighbors=len(X)
    )
    expected = best_of_all(X, graph.toarray(), core, least)
    assert same_partition(found, expected)
    np.testing.assert_array_equal(found < 0, expected < 0)
    assert set(found[found >= 0]) == set(range(found.max() + 1))


def test_few_neighbours_give_the_clusters_of_all_distances():
    X, _ = make_blobs(500, centers=7, cluster_std=0.8, random_state=1)
    graph, how = graph_of(X, 15), {"min_cluster_size": 12, "min_samples": 5}
    found, whole = (clusters_by_modularity(X, graph, n_neighbors=k, **how) for k in (20, len(X)))
    assert same_partition(found, whole)
    assert found.max() > 3


def test_parts_without_an_edge_join_by_their_means():
    """Six far groups in three pairs: pairs are clusters if the graph has edges within pairs."""
    random = np.random.default_rng(0)
    at = np.array([[0, 0], [9, 0], [100, 0], [100, 9], [0, 300], [9, 300]])
    order = random.permutation(180)
    y = (np.arange(180) // 30)[order]
    X = at[y] + random.normal(size=(180, 2))
    graph = sparse.csr_matrix(np.where((y // 2)[:, None] == y // 2, 1.0, 0.0))
    how = {"min_cluster_size": 10, "min_samples": 3, "n_neighbors": 5}
    assert same_partition(clusters_by_modularity(X, graph, **how), y // 2)
    apart = sparse.csr_matrix(np.where(y[:, None] == y, 1.0, 0.0))
    assert same_partition(clusters_by_modularity(X, apart, **how), y)


def test_lone_samples_are_noise_as_with_hdbscan():
    X, y = make_blobs(120, centers=[[0, 0], [20, 0]], cluster_std=0.5, random_state=0)
    X = np.r_[X, [[10.0, 50.0], [10.0, -70.0]]]
    how = {"min_cluster_size": 10, "min_samples": 4}
    found = clusters_by_modularity(X, graph_of(X, 10), n_neighbors=30, **how)
    library = HDBSCAN(**how, copy=True).fit_predict(X)
    np.testing.assert_array_equal(found < 0, library < 0)
    assert (found[:120] >= 0).all()
    assert same_partition(found[:120], y)
    assert found[120:].tolist() == [-1, -1]


def test_a_core_sample_has_its_neighbours_however_few_the_tree_is_made_of():
    X, y = make_blobs(90, centers=[[0, 0], [20, 0]], cluster_std=0.5, random_state=0)
    how = {"min_cluster_size": 5, "min_samples": 12, "n_neighbors": 6}
    assert same_partition(clusters_by_modularity(X, graph_of(X, 10), **how), y)
    assert (clusters_by_modularity(X[:9], graph_of(X[:9], 3), **how) == -1).all()


@pytest.mark.parametrize("n", [1, 3, 4, 12])
def test_copies_are_one_cluster_and_too_few_samples_none(n):
    graph = sparse.csr_matrix(np.ones((n, n)))
    found = clusters_by_modularity(
        np.ones((n, 2)), graph, min_cluster_size=4, min_samples=2, n_neighbors=5
    )
    assert found.tolist() == [0 if n >= 4 else -1] * n
