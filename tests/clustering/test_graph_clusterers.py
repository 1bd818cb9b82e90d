"""Spectral clustering and DBSCAN against scikit-learn and the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import laplacian
from sklearn.cluster import DBSCAN as LibraryDBSCAN
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_moons
from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

from daskfc.clustering import DBSCAN, FullDistances, RadiusGraph, Spectral
from daskfc.clustering.clusterers import spectral
from daskfc.clustering.clusterers.spectral import (
    median_gamma,
    neighbour_affinity,
    radius_affinity,
)
from daskfc.clustering.views.nearest import (
    exact_squared_distances,
    nearest_of_matrix,
    nearest_of_points,
    within_radius_of_points,
)
from daskfc.errors import InvalidInput, ResourceRefused
from daskfc.metrics import accuracy, ari
from tests.oracles import clustering as oracle

grids = st.integers(2, 12).flatmap(
    lambda n: st.lists(st.tuples(*[st.integers(-2, 2)] * 2), min_size=n, max_size=n)
)


@settings(deadline=None)
@given(grids, st.integers(1, 5), st.sampled_from([1.0, 1 / 255, 0.1]))
def test_neighbours_are_exact_and_ties_follow_no_pattern_of_numbers(points, k, step):
    X = np.array(points, dtype=float)
    k = min(k, len(X) - 1)
    D = oracle.distances(X)  # of the integers, where equal distances are equal
    expected = oracle.neighbours(D, k)
    assert nearest_of_matrix(D.astype(float), k).indices.tolist() == expected
    if step != 0.1:  # tenths are no grid in binary: their ties are decided by rounding
        graph = nearest_of_points(X * step, k)
        assert graph.indices.tolist() == expected
        wanted = np.take_along_axis(D, np.array(expected), axis=1) * step**2
        np.testing.assert_allclose(graph.distances, wanted, rtol=1e-14)


def test_neighbours_of_real_points_far_from_the_origin():
    X = np.random.default_rng(0).normal(size=(200, 7)) + 1e4
    graph = nearest_of_points(X, 6)
    assert graph.indices.tolist() == oracle.neighbours(((X[:, None] - X) ** 2).sum(2), 6)


def test_distances_are_symmetric_with_a_diagonal_of_zeros():
    random = np.random.default_rng(0)
    for X in (random.integers(0, 255, (50, 9)) / 255, random.normal(size=(50, 9)) + 100):
        D = exact_squared_distances(X)
        assert np.array_equal(D, D.T)
        assert not D.diagonal().any()
        np.testing.assert_allclose(D, ((X[:, None] - X) ** 2).sum(2), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_spectral_labels_are_those_of_sklearn_on_digits():
    X = load_digits().data[:1000]
    X = X + 1e-3 * np.random.default_rng(0).normal(size=X.shape)  # scikit-learn's ties are random
    library = SpectralClustering(
        10, affinity="nearest_neighbors", n_neighbors=10, random_state=0
    ).fit(X)
    assert ari(library.labels_, Spectral().pooled(X, 10, 0).labels) == 1.0


def test_spectral_within_a_radius_is_that_of_sklearn(monkeypatch):
    X, _ = make_moons(300, noise=0.1, random_state=0)
    A = radius_neighbors_graph(X, 0.3).toarray()
    library = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(A)
    clusterer = Spectral(affinity="radius", eps=0.3)
    found = clusterer.pooled(X, 3, 0)
    assert ari(library, found.labels) == 1.0
    assert found.decisive.tolist() == [0.3**2]
    whole = FullDistances(exact_squared_distances(X))
    assert np.array_equal(clusterer.fit(whole, 3, 0).labels, found.labels)
    graph = within_radius_of_points(X, clusterer.radius2)
    assert np.array_equal(radius_affinity(graph).toarray(), A)
    with pytest.raises(InvalidInput, match=r"squared radius eps² = 0\.25; got 0\.09"):
        Spectral(affinity="radius", eps=0.5).fit(graph, 3, 0)
    monkeypatch.setattr(spectral, "_PAIRS", int(A.sum()) // 2 - 1)
    with pytest.raises(ResourceRefused, match=r"graph of spectral with eps = 0\.3 must have at mo"):
        clusterer.fit(graph, 3, 0)


def test_samples_without_neighbours_leave_the_others_apart():
    X = np.concatenate([np.arange(9.0), 50 + np.arange(6.0), [1e3, 2e3]])[:, None]
    found = Spectral(affinity="radius", eps=1.0).pooled(X, 2, 0)
    assert "4 components, more than the 2 clusters" in found.notes[0]
    assert [len(set(part)) for part in (found.labels[:9], found.labels[9:15])] == [1, 1]
    assert found.labels[0] != found.labels[9]


def test_affinity_is_that_of_sklearn():
    X = np.random.default_rng(0).normal(size=(80, 3))
    A = kneighbors_graph(X, 7, include_self=True).toarray()
    A = (A + A.T) / 2
    np.fill_diagonal(A, 0.0)
    ours = neighbour_affinity(nearest_of_points(X, 6), 7)
    assert np.array_equal(ours.toarray(), A)


@pytest.mark.parametrize("affinity", ["nearest_neighbors", "gaussian"])
def test_eigengaps_are_those_of_the_dense_laplacian(affinity):
    X = np.concatenate([load_digits().data[:40], load_digits().data[:40] + 500.0])
    spectral = Spectral(affinity=affinity, gamma=1e-3 if affinity == "gaussian" else None)
    D = exact_squared_distances(X)
    W = np.exp(-1e-3 * D) if affinity == "gaussian" else neighbour_affinity(
        nearest_of_points(X, 9), 10
    ).toarray()  # fmt: skip
    values = np.linalg.eigvalsh(laplacian(W - np.diag(np.diag(W)), normed=True))
    gaps = spectral.eigengaps(FullDistances(D), 6, 0)
    np.testing.assert_allclose(gaps, np.diff(values)[:6], atol=1e-8)


def test_spectral_labels_are_those_of_sklearn_on_moons():
    X, _ = make_moons(300, noise=0.12, random_state=0)
    for k in (2, 4):
        library = SpectralClustering(k, affinity="nearest_neighbors", random_state=0).fit(X)
        assert ari(library.labels_, Spectral().pooled(X, k, 0).labels) == 1.0


def test_gaussian_labels_are_those_of_sklearn():
    X, _ = make_moons(200, noise=0.03, random_state=1)
    W = np.exp(-20.0 * exact_squared_distances(X))
    library = SpectralClustering(3, affinity="precomputed", random_state=0).fit(W)
    ours = Spectral(affinity="gaussian", gamma=20.0).pooled(X, 3, 0)
    assert ari(library.labels_, ours.labels) == 1.0


def test_median_width_ignores_zeros():
    D = exact_squared_distances(np.array([[0.0], [0.0], [0.0], [2.0]]))
    assert median_gamma(D) == 1 / 8
    assert median_gamma(np.zeros((3, 3))) == 1.0


def test_components_become_clusters():
    X = np.concatenate([np.arange(5), 100 + np.arange(4), 200 + np.arange(6)])[:, None]
    found = Spectral(n_neighbors=3).pooled(X, 3, 0)
    assert found.labels.tolist() == [0] * 5 + [1] * 4 + [2] * 6
    assert found.notes == ()


def test_more_components_than_clusters_are_noted_and_stay_whole():
    X = np.concatenate([100 * c + np.arange(4 + c) for c in range(4)])[:, None]
    found = Spectral(n_neighbors=3).pooled(X, 3, 0)
    assert "4 components, more than the 3 clusters" in found.notes[0]
    assert sorted(set(found.labels)) == [0, 1, 2]
    for c, start in enumerate([0, 4, 9, 15]):
        assert len(set(found.labels[start : start + 4 + c])) == 1


def test_spectral_refuses_graphs_that_are_too_small():
    D = exact_squared_distances(np.arange(8.0)[:, None])
    with pytest.raises(InvalidInput, match="must hold 4 others of each sample"):
        Spectral(n_neighbors=5).fit(nearest_of_matrix(D, 3), 2, 0)
    with pytest.raises(InvalidInput, match="at most the number of samples, 8; got 9"):
        Spectral(n_neighbors=9).pooled(np.arange(8.0)[:, None], 2, 0)
    for spec in ({"affinity": "gaussian"}, {"affinity": "radius", "eps": 1.0}):
        with pytest.raises(InvalidInput, match=r"must be given FullDistances or .*; got Neighbour"):
            Spectral(**spec).fit(nearest_of_matrix(D, 7), 2, 0)
    graph = within_radius_of_points(np.arange(8.0)[:, None], 1.0)
    with pytest.raises(InvalidInput, match=r"FullDistances or NeighbourGraph; got RadiusGraph"):
        Spectral(n_neighbors=3).eigengaps(graph, 2, 0)


def test_a_larger_graph_is_cut_to_the_neighbours_wanted():
    X, _ = make_moons(100, noise=0.05, random_state=0)
    D = exact_squared_distances(X)
    exact = Spectral().fit(nearest_of_matrix(D, 9), 2, 0)
    assert np.array_equal(exact.labels, Spectral().fit(nearest_of_matrix(D, 20), 2, 0).labels)
    assert np.array_equal(exact.labels, Spectral().fit(FullDistances(D), 2, 0).labels)


def test_spectral_prediction_is_the_majority_and_the_nearer_of_equal_ones():
    X = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    clusterer = Spectral(n_neighbors=3)
    found = clusterer.pooled(X, 2, 0)
    new = np.array([[4.0], [5.0], [20.0]])
    assert clusterer.predict(found, (new - X.T) ** 2).tolist() == [0, 1, 1]
    pairs = Spectral(n_neighbors=2)
    model = pairs.fit(nearest_of_points(X, 1), 2, 0)
    assert pairs.predict(model, (np.array([[4.4], [4.6]]) - X.T) ** 2).tolist() == [0, 1]


def test_the_last_of_the_voters_counts():
    X = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    clusterer = Spectral(n_neighbors=3)
    found = clusterer.pooled(X, 2, 0)
    # the nearest sample is of the first cluster, the next two are of the second
    assert clusterer.predict(found, np.array([[9.0, 9.0, 1.0, 2.0, 3.0, 9.0]])).tolist() == [1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.2), st.integers(1, 8))
def test_dbscan_labels_are_those_of_sklearn(seed, eps, min_samples):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    D = exact_squared_distances(X)
    ours = DBSCAN(eps=eps, min_samples=min_samples)
    library = LibraryDBSCAN(eps=eps, min_samples=min_samples, metric="precomputed").fit(np.sqrt(D))
    expected = library.labels_
    assert np.array_equal(ours.pooled(X, None, 0).labels, expected)
    found = ours.fit(FullDistances(D), None, 0)
    assert np.array_equal(found.labels, expected)
    assert np.array_equal(found.model["core"], library.core_sample_indices_)
    assert found.n_clusters == expected.max() + 1


@settings(deadline=None)
@given(grids, st.sampled_from([1.0, 2.0, 3.0]), st.integers(1, 5))
def test_dbscan_on_a_grid_follows_the_definition(points, eps, min_samples):
    X = np.array(points, dtype=float)
    found = DBSCAN(eps=eps, min_samples=min_samples).pooled(X, None, 0)
    assert found.labels.tolist() == oracle.dbscan(oracle.distances(X), eps, min_samples)


def test_a_border_sample_joins_the_first_cluster_that_reaches_it():
    # The sample at 0 has 4 within 1 and is no core; those at 1 and at -1 are.
    X = np.array([1.0, 1.5, 1.2, 1.3, 1.4, -1.0, -1.5, -1.2, -1.3, -1.4, 0.0])[:, None]
    for order in (np.arange(11), np.arange(11)[::-1]):
        found = DBSCAN(eps=1.0, min_samples=5).pooled(X[order], None, 0)
        library = LibraryDBSCAN(eps=1.0, min_samples=5).fit(X[order])
        assert np.array_equal(found.labels, library.labels_)
        assert found.n_clusters == 2
        assert found.labels[order.tolist().index(10)] == 0


def test_dbscan_reads_blocks_in_any_cut():
    random = np.random.default_rng(4)
    X = random.normal(size=(150, 2))
    whole = within_radius_of_points(X, 0.3**2)
    rows, cols = (np.concatenate(part) for part in zip(*whole, strict=True))
    shuffled = random.permutation(rows.size)
    rows, cols = rows[shuffled], cols[shuffled]

    def edges():
        for start in range(0, rows.size, 7):
            part = slice(start, start + 7)
            # a diagonal tile may repeat its pairs mirrored, and list loops
            yield (
                np.concatenate([rows[part], cols[part], [3]]),
                np.concatenate([cols[part], rows[part], [3]]),
            )

    clusterer = DBSCAN(eps=0.3, min_samples=4)
    cut = clusterer.fit(RadiusGraph(edges, 150, clusterer.radius2), None, 0)
    assert np.array_equal(cut.labels, clusterer.fit(whole, None, 0).labels)
    assert cut.n_clusters > 1


def test_dbscan_refuses_a_graph_of_another_radius():
    with pytest.raises(InvalidInput, match=r"squared radius eps² = 4\.0; got 2\.0"):
        DBSCAN(eps=2.0).fit(RadiusGraph(lambda: [], 3, 2.0), None, 0)


def test_dbscan_prediction():
    X = np.array([0.0, 1.0, 2.0, 3.0, 50.0])[:, None]
    clusterer = DBSCAN(eps=1.0, min_samples=3)
    found = clusterer.pooled(X, None, 0)
    assert found.labels.tolist() == [0, 0, 0, 0, -1]
    new = np.array([[1.5], [-0.5], [3.0], [50.0]])  # only 1 and 2 are core samples
    assert clusterer.predict(found, (new - X.T) ** 2).tolist() == [0, -1, 0, -1]
    nothing = clusterer.pooled(X[3:], None, 0)
    assert nothing.n_clusters == 0
    assert clusterer.predict(nothing, (new - X[3:].T) ** 2).tolist() == [-1] * 4


@pytest.mark.parametrize("seed", [3, 4])
def test_groups_of_yes_and_no_are_found_where_most_distances_are_equal(seed):
    """If the first of equal neighbours were taken, they were the same alike few: accuracy .43."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 3, 2000)
    yes = np.array([[0.12] * 12, [0.12] * 6 + [0.75] * 6, [0.75] * 6 + [0.12] * 6])
    X = (random.random((2000, 12)) < yes[group]).astype(float)
    assert len(np.unique(X, axis=0)) < 800
    assert accuracy(group, Spectral().pooled_labels(X, 3, 0)) > 0.7
