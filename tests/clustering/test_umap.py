"""UMAP on exact neighbours: the library's own map, whatever the order, and its refusals."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.cluster import HDBSCAN as LibraryHDBSCAN
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from daskfc.clustering import HDBSCAN, UMAP, KMeans, NeighbourGraph, make_clusterer
from daskfc.clustering.clusterers import umap as ours
from daskfc.clustering.views.nearest import nearest_of_points
from daskfc.errors import InvalidInput
from daskfc.seeds import integer_seed
from tests.oracles import clustering as oracle

missing = find_spec("umap") is None
needs_umap = pytest.mark.skipif(missing, reason="umap-learn is missing: pip install 'daskfc[umap]'")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


@needs_umap
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("min_dist", "n_components"), [(0.0, 2), (0.1, 3)])
def test_the_map_is_the_one_of_the_library(digits, min_dist, n_components):
    library = pytest.importorskip("umap", reason="needs daskfc[umap]")
    X, n, k = digits[0], len(digits[0]), 15
    graph = nearest_of_points(X, k - 1)
    clusterer = UMAP(k, min_dist, n_components, n_epochs=60)
    found, _, notes = clusterer._map(graph, 5)
    near = np.column_stack([np.arange(n), graph.indices])
    apart = np.column_stack([np.zeros(n), np.sqrt(graph.distances)]).astype(np.float32)
    with threadpool_limits(1, "blas"):
        expected = library.UMAP(
            n_neighbors=k,
            min_dist=min_dist,
            n_components=n_components,
            n_epochs=60,
            random_state=5,
            precomputed_knn=(near, apart, None),
            force_approximation_algorithm=True,
        ).fit_transform(X)
    np.testing.assert_array_equal(found.astype(np.float32), expected)
    assert notes == ()


@needs_umap
@pytest.mark.slow
def test_then_any_clusterer_finds_the_clusters_of_the_map(digits):
    X, y = digits
    graph = nearest_of_points(X, 14)
    spread = make_clusterer(
        {"umap": {"n_neighbors": 15, "then": {"hdbscan": {"min_cluster_size": 20}},
                  "selection": "excess_of_mass"}}
    )  # fmt: skip
    found = spread.fit(graph, None, 0)
    places, _, _ = spread._map(ours._in_order(graph, 14)[0], integer_seed(0, "umap"))
    expected = LibraryHDBSCAN(min_cluster_size=20, copy=True).fit_predict(places)
    expected = expected[ours._in_order(graph, 14)[1]]
    assert adjusted_rand_score(found.labels, expected) == 1.0
    assert adjusted_rand_score(found.labels, y) > 0.65
    chosen = replace(spread, selection="modularity").fit(graph, None, 0)
    assert adjusted_rand_score(chosen.labels, y) > 0.65
    for then in ("k-means", "spectral", "hierarchical"):
        clusterer = make_clusterer({"umap": {"n_neighbors": 15, "then": then}})
        assert not clusterer.finds_n_clusters
        one = clusterer.fit(graph, 10, 0)
        assert one.n_clusters == 10
        assert adjusted_rand_score(one.labels, y) > 0.65


@needs_umap
@pytest.mark.slow
def test_a_graph_in_another_order_and_with_more_neighbours_gives_the_same_labels():
    X = np.random.default_rng(0).normal(size=(200, 6))
    clusterer = UMAP(15, n_epochs=50, then=KMeans())
    graph = nearest_of_points(X, 20)
    found = clusterer.fit(graph, 6, 0).labels
    dealt = np.random.default_rng(1).permutation(len(X))
    again = clusterer.fit(nearest_of_points(X[dealt], 14), 6, 0).labels
    assert oracle.same_partition(again, found[dealt])


@needs_umap
@pytest.mark.slow
def test_the_seed_alone_decides(digits):
    graph = nearest_of_points(digits[0], 14)
    clusterer = UMAP(15, n_epochs=30, then=KMeans())
    maps = [clusterer._map(graph, seed)[0] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(maps[0], maps[1])
    assert not np.array_equal(maps[0], maps[2])


@needs_umap
@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit(digits):
    graph = nearest_of_points(digits[0], 14)
    clusterer = UMAP(15, n_epochs=30)
    maps = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            maps.append(clusterer._map(graph, 0)[0])
    np.testing.assert_array_equal(*maps)


@needs_umap
@pytest.mark.slow
@pytest.mark.parametrize("apart", [5.0, 1000.0])
def test_parts_without_an_edge_between_them_stay_apart(apart):
    """More than twice the dimensions of the map: the library would draw their places anew."""
    X, y = make_blobs(
        240,
        n_features=3,
        centers=apart * np.eye(8)[:, :3] + apart * np.arange(8)[:, None],
        random_state=0,
    )
    clusterer = UMAP(8, n_epochs=100, then=KMeans())
    labels = [clusterer.pooled(X, 8, 0).labels for _ in range(2)]
    np.testing.assert_array_equal(*labels)
    assert adjusted_rand_score(labels[0], y) > 0.95


@needs_umap
@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 2), (6, 3), (9, 9)])
def test_few_samples_and_copies(n, k):
    for X in (np.random.default_rng(n).normal(size=(n, 2)), np.zeros((n, 2))):
        found = UMAP(k, then=KMeans()).pooled(X, 1, 0)
        assert found.labels.tolist() == [0] * n


@needs_umap
def test_refusals():
    with pytest.raises(
        InvalidInput,
        match="'then' parameter of umap must be a clusterer that needs no origin; got 3",
    ):
        UMAP(then=3)
    with pytest.raises(InvalidInput, match="no clusterer is named 'hdbscam'"):
        make_clusterer({"umap": {"then": "hdbscam"}})
    with pytest.raises(InvalidInput, match=r"'min_dist' parameter of umap must be .* \[0, 1"):
        UMAP(min_dist=2.0)
    with pytest.raises(InvalidInput, match="at most the number of samples, 4; got 30"):
        UMAP().pooled(np.eye(4), None, 0)
    with pytest.raises(InvalidInput, match="graph given to umap must hold 4 others of each"):
        UMAP(5).fit(NeighbourGraph(np.ones((9, 1), np.int32), np.ones((9, 1))), None, 0)
    assert make_clusterer("umap") == UMAP(30, 0.0, 2, None, HDBSCAN())


def test_a_missing_library_is_told_before_the_run(monkeypatch):
    monkeypatch.setattr(ours, "find_spec", lambda name: None)
    with pytest.raises(
        InvalidInput, match=r"not installed here\. .* pip install 'daskfc\[umap\]'\."
    ):
        make_clusterer({"umap": {"then": "k-means"}})


@needs_umap
def test_memory_counts_the_graph_and_the_clusterer_on_the_map():
    least = UMAP().row_bytes(1000, 0)
    assert UMAP().row_bytes(100_000, 0) - least > 72 * 99_000 * 30
    full = make_clusterer({"umap": {"then": {"hierarchical": {"linkage": "average"}}}})
    assert full.row_bytes(8000, 10) > least + 8 * 8000**2 > full.row_bytes(8200, 10)
