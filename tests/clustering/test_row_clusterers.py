"""Hierarchical clustering, k-medoids, and the clusterers on rows of D."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist, pdist
from sklearn.cluster import KMeans as LibraryKMeans
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import non_negative_factorization
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as LibraryMixture

from daskfc.clustering import (
    NMF,
    FullDistances,
    FuzzyCMeans,
    GaussianMixture,
    Hierarchical,
    KMeans,
    KMedoids,
    RowFactors,
)
from daskfc.clustering.clusterers.clusterer import Clustering
from daskfc.clustering.clusterers.fuzzy import fuzzy_partition, memberships
from daskfc.clustering.clusterers.hierarchical import cut
from daskfc.clustering.clusterers.nmf import factorise, spectral_start
from daskfc.clustering.views.nearest import distances_of, exact_squared_distances
from daskfc.errors import InvalidInput
from daskfc.linalg import LandmarkEmbedding
from daskfc.metrics import ari
from daskfc.seeds import integer_seed
from tests.oracles import clustering as oracle

LINKAGES = ["single", "complete", "average", "ward"]


def samples(n=150, d=6, seed=0):
    return make_blobs(n, n_features=d, centers=4, cluster_std=2.5, random_state=seed)[0]


def both_views(X):
    return FullDistances(exact_squared_distances(X)), RowFactors(X)


def test_rows_of_factors_have_the_distances_of_rows_of_d():
    X = samples() + 100.0
    D = exact_squared_distances(X)
    Z = RowFactors(X).isometric()
    assert Z.shape == (150, 7)
    rows = cdist(D, D)
    np.testing.assert_allclose(cdist(Z, Z), rows, atol=1e-9 * rows.max())
    flat = RowFactors(X[:4])  # fewer samples than features
    np.testing.assert_allclose(
        cdist(flat.isometric(), flat.isometric()), cdist(D[:4, :4], D[:4, :4]), rtol=1e-8, atol=1e-6
    )


def test_products_of_factors_are_products_of_d():
    X = samples() + 100.0
    full, thin = both_views(X)
    M = np.random.default_rng(0).random((150, 3))
    np.testing.assert_allclose(thin.dot(M), full.dot(M), rtol=1e-10)
    np.testing.assert_allclose(thin.left @ thin.right.T, full.matrix, atol=1e-8)


@pytest.mark.parametrize("method", LINKAGES)
def test_linkages_are_those_of_scipy(method):
    X = samples()
    found = Hierarchical(method).pooled(X, 5, 0)
    expected = fcluster(linkage(pdist(X), method), 5, "maxclust")
    assert oracle.same_partition(found.labels, expected)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(LINKAGES), st.integers(1, 9))
def test_linkages_follow_the_definition(seed, method, k):
    X = np.random.default_rng(seed).normal(size=(9, 2))
    found = Hierarchical(method).pooled(X, k, 0)
    assert oracle.same_partition(found.labels, oracle.agglomerate(X, k, method))


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=10), st.sampled_from(LINKAGES), st.data())
def test_ties_still_give_the_number_of_clusters_asked_for(values, method, data):
    k = data.draw(st.integers(1, len(values)))
    labels = Hierarchical(method).pooled(np.array(values, float)[:, None], k, 0).labels
    assert sorted(set(labels)) == list(range(k))


@pytest.mark.parametrize("method", ["single", "ward"])
def test_linkages_from_coordinates(method):
    full, thin = both_views(samples())
    clusterer = Hierarchical(method)
    one, two = clusterer.fit(full, 4, 0), clusterer.fit(thin, 4, 0)
    assert np.array_equal(one.labels, two.labels)


def test_linkages_that_need_all_distances_say_so():
    with pytest.raises(InvalidInput, match="linkage 'average' must be given FullDistances"):
        Hierarchical("average").fit(RowFactors(samples()), 2, 0)


@pytest.mark.parametrize("method", LINKAGES)
def test_new_samples_join_the_cluster_nearest_by_the_linkage(method):
    X, new = samples(), samples(40, seed=9)
    clusterer = Hierarchical(method)
    found = clusterer.pooled(X, 4, 0)
    D = cdist(new, X)
    groups = [np.flatnonzero(found.labels == c) for c in range(4)]
    apart = {
        "single": lambda g: D[:, g].min(axis=1),
        "complete": lambda g: D[:, g].max(axis=1),
        "average": lambda g: D[:, g].mean(axis=1),
        "ward": lambda g: cdist(new, [X[g].mean(axis=0)])[:, 0],
    }[method]
    expected = np.argmin([apart(g) for g in groups], axis=0)
    assert np.array_equal(clusterer.predict(found, D**2), expected)


def test_cutting_at_the_ends():
    merges = linkage(pdist(samples(20)), "ward")
    assert cut(merges, 20).tolist() == list(range(20))
    assert not cut(merges, 1).any()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_medoids_reach_the_best_sum_on_small_data(seed, k):
    X = np.random.default_rng(seed).normal(size=(12, 2))
    D = exact_squared_distances(X)
    found = KMedoids().fit(FullDistances(D), k, 0)
    best = oracle.best_medoids(D, k)
    assert found.score == pytest.approx(np.sqrt(D[:, found.model["medoids"]]).min(axis=1).sum())
    assert best <= found.score * (1 + 1e-12)
    assert found.score <= best * 1.05  # ours: 10 starts of a local search
    assert np.array_equal(found.labels, np.sqrt(D[:, found.model["medoids"]]).argmin(axis=1))


def test_medoids_among_duplicates_keep_their_clusters():
    found = KMedoids().pooled(np.zeros((5, 2)), 3, 0)
    assert sorted(set(found.labels)) == [0, 1, 2]


def test_kmeans_on_rows_is_the_same_from_d_and_from_factors():
    X = samples()
    full, thin = both_views(X)
    clusterer = KMeans(rows="distances")
    one, two = clusterer.fit(full, 4, 3), clusterer.fit(thin, 4, 3)
    assert np.array_equal(one.labels, two.labels)
    assert one.score == pytest.approx(two.score, rel=1e-10)
    np.testing.assert_allclose(one.model["centres"], two.model["centres"], rtol=1e-9)
    library = LibraryKMeans(4, n_init=10, random_state=0).fit(full.matrix)
    assert one.score == pytest.approx(library.inertia_, rel=1e-9)
    assert oracle.same_partition(one.labels, library.labels_)


def test_pooled_kmeans_is_kmeans_on_the_samples():
    X = load_iris().data
    library = LibraryKMeans(3, n_init=10, random_state=1).fit(X)
    found = KMeans().pooled(X, 3, 0)
    assert found.score == pytest.approx(library.inertia_, rel=1e-6)
    assert ari(library.labels_, found.labels) > 0.97


@pytest.mark.parametrize("clusterer", [KMeans(), FuzzyCMeans()], ids=lambda c: c.name)
@pytest.mark.parametrize("name", ["iris", "digits", "wide", "flat"])
def test_coordinates_give_the_clusters_of_the_pooled_samples(clusterer, name):
    """Seed for seed: the same labels, objective and labels of new samples."""
    X = {
        "iris": lambda: load_iris().data,
        "digits": lambda: load_digits().data[:600],
        "wide": lambda: samples(60, 200),  # fewer samples than features
        "flat": lambda: np.column_stack([samples(), 5 * samples()[:, :2], np.ones((150, 70))]),
    }[name]()
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(X.shape[1], X.shape[1])))[0]
    X, new = X[: -len(X) // 5], X[-len(X) // 5 :]
    D = exact_squared_distances(X)
    embedding = LandmarkEmbedding(len(X), X.shape[1], tolerance=1e-12)
    while (chosen := embedding.next_landmarks()).size:
        embedding.add_columns(chosen, D[:, chosen])
    views = (
        FullDistances(D),
        RowFactors(embedding.coordinates, X.shape[1]),
        RowFactors(X @ turn + 3.0),
    )
    for seed in (0, 1):
        pooled = clusterer.pooled(X, 5, seed)
        for view in views:
            found = clusterer.fit(view, 5, seed)
            np.testing.assert_array_equal(found.labels, pooled.labels)
            assert found.score == pytest.approx(pooled.score, rel=1e-9)
        centres = np.array([X[pooled.labels == c].mean(axis=0) for c in range(5)])
        if clusterer.name == "k-means":
            nearest = cdist(new, centres).argmin(axis=1)
            distances = cdist(new, X, "sqeuclidean")
            np.testing.assert_array_equal(clusterer.predict(found, distances), nearest)


def test_large_coordinates_are_shifted_and_shifted_back(monkeypatch):
    points = np.random.default_rng(6).normal(size=(300, 5)) + 0.3
    expected = KMeans().fit(RowFactors(points), 4, 1)
    monkeypatch.setattr("daskfc.clustering.clusterers.kmeans._LARGE", 0)
    moved = points.copy()
    found = KMeans().fit(RowFactors(moved), 4, 1)
    assert np.array_equal(found.labels, expected.labels)
    assert found.score == pytest.approx(expected.score, rel=1e-12)
    assert np.allclose(moved, points, rtol=0, atol=1e-12)
    assert not np.array_equal(moved, points)  # no copy was made


def test_kmeans_of_samples_is_that_of_scikit_learn():
    X = load_digits().data
    seed = integer_seed(4, "k-means")
    library = LibraryKMeans(10, n_init=10, random_state=seed, algorithm="elkan").fit(X)
    found = KMeans().fit(RowFactors(X - X.mean(axis=0)), 10, 4)
    assert oracle.same_partition(found.labels, library.labels_)
    assert found.score == pytest.approx(library.inertia_, rel=1e-12)


def test_equal_samples_are_one_cluster():
    for view in (FullDistances(np.zeros((4, 4))), RowFactors(np.zeros((4, 0)))):
        assert not KMeans().fit(view, 1, 0).labels.any()


def test_fewer_distinct_rows_than_clusters_is_told():
    D = exact_squared_distances(np.array([[0.0], [0.0], [1.0], [1.0]]))
    with pytest.warns(ConvergenceWarning, match="k-means was asked for 3 clusters"):
        found = KMeans().fit(FullDistances(D), 3, 0)
    assert found.notes
    assert KMeans().predict(found, D).tolist() == found.labels.tolist()


def test_new_samples_never_join_an_empty_cluster():
    """Wherever it stands among the others."""
    D = exact_squared_distances(np.array([[0.0], [1.0], [8.0], [9.0]]))
    centres = np.array([np.full(4, np.inf), D[:2].mean(axis=0), D[2:].mean(axis=0)])
    found = Clustering(np.array([1, 1, 2, 2]), 3, {"centres": centres}, True, 0.0, ())
    assert KMeans().predict(found, D).tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("m", [1.5, 2.0])
def test_a_fuzzy_step_follows_the_definition(m):
    rows, centres = samples(20), samples(3, seed=5)
    share, expected_centres = oracle.fuzzy_step(rows, centres, m)
    np.testing.assert_allclose(memberships(cdist(rows, centres) ** 2, m), share, atol=1e-12)
    after, _ = oracle.fuzzy_step(rows, expected_centres, m)
    found, objective, change = fuzzy_partition(rows, centres, fuzziness=m, tol=1e-9, max_iter=1)
    np.testing.assert_allclose(found, after, atol=1e-10)
    assert change == pytest.approx(np.abs(after - share).max())
    assert objective == pytest.approx((after**m * cdist(rows, expected_centres) ** 2).sum())


def test_fuzzy_memberships_at_a_centre_and_far_away():
    found = memberships(np.array([[0.0, 0.0, 4.0], [1e300, 2e300, 4e300]]), 2.0)
    np.testing.assert_allclose(found, [[0.5, 0.5, 0.0], [4 / 7, 2 / 7, 1 / 7]])


def test_fuzzy_on_rows_is_the_same_from_d_and_from_factors():
    full, thin = both_views(samples())
    clusterer = FuzzyCMeans(rows="distances")
    one, two = clusterer.fit(full, 4, 0), clusterer.fit(thin, 4, 0)
    assert np.array_equal(one.labels, two.labels)
    np.testing.assert_allclose(one.model["memberships"], two.model["memberships"], atol=1e-8)
    np.testing.assert_allclose(one.model["centres"], two.model["centres"], rtol=1e-7)


@pytest.mark.parametrize("m", [1.1, 2.0])
def test_fuzzy_centres_of_the_model_follow_the_definition(m):
    """Means of the rows of D by u^m (Bezdek 1984), like those of the last step."""
    full, _ = both_views(samples(60))
    clusterer = FuzzyCMeans(fuzziness=m, tol=1e-9, max_iter=1000, rows="distances")
    found = clusterer.fit(full, 3, 0)
    _, centres = oracle.fuzzy_step(full.matrix, found.model["centres"], m)
    np.testing.assert_allclose(found.model["centres"], centres, rtol=1e-6)


def test_fuzzy_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        found = FuzzyCMeans(max_iter=1).pooled(samples(), 4, 0)
    assert not found.converged


def test_nmf_takes_the_steps_of_sklearn_from_d_and_from_factors():
    full, thin = both_views(samples())
    W0, Ht0 = spectral_start(full, 3, 0)
    thin_start = spectral_start(thin, 3, 0)
    np.testing.assert_allclose(thin_start[0], W0, rtol=1e-7)
    np.testing.assert_allclose(thin_start[1], Ht0, rtol=1e-7)
    W, H, _ = non_negative_factorization(
        full.matrix, W0.copy(), Ht0.T.copy(), n_components=3, init="custom", tol=1e-3, max_iter=400
    )
    for view in (full, thin):
        found = factorise(view, W0, Ht0, tol=1e-3, max_iter=400)
        np.testing.assert_allclose(found[0], W, rtol=1e-8, atol=1e-8 * W.max())
        np.testing.assert_allclose(found[1].T, H, rtol=1e-8, atol=1e-8 * H.max())


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_nmf_start_is_that_of_sklearn(k):
    """One pass from the same start gives the same factors; D has eigenvalues of both signs.

    The two halves of a component with a negative eigenvalue are equally large: which of them goes
    into W and which into H is left to rounding.
    """
    view = FullDistances(exact_squared_distances(samples()))
    assert (np.linalg.eigvalsh(view.matrix)[:4] < -1.0).all()
    with pytest.warns(ConvergenceWarning):
        W, H, _ = non_negative_factorization(
            view.matrix, n_components=k, init="nndsvda", random_state=0, max_iter=1
        )
    W0, Ht0 = spectral_start(view, k, 0)
    misses = []
    for swapped in product([False, True], repeat=k - 1):
        swap = np.array([False, *swapped])
        start = np.where(swap, Ht0, W0), np.where(swap, W0, Ht0)
        found = factorise(view, *start, tol=1e-9, max_iter=1)
        misses.append(np.abs(found[0] @ found[1].T - W @ H).max() / (W @ H).max())
    assert min(misses) < 1e-8
    assert sorted(misses)[1] > 1e-3  # the others are other starts


def test_the_nmf_start_approximates_d():
    view = FullDistances(exact_squared_distances(samples()))
    W, Ht = spectral_start(view, 1, 0)
    D = view.matrix
    values, vectors = np.linalg.eigh(D)
    np.testing.assert_allclose(W @ Ht.T, values[-1] * np.outer(vectors[:, -1], vectors[:, -1]))
    assert (W > 0).all()


def test_nmf_prediction_minimises_the_residual():
    X = samples()
    clusterer = NMF(assignment="argmax")
    found = clusterer.fit(RowFactors(X), 3, 0)
    D = cdist(samples(12, seed=4), X, "sqeuclidean")
    H = found.model["basis"]
    predicted = clusterer.predict(found, D)
    assert predicted.tolist() == [oracle.nonnegative_weights(H, row).argmax() for row in D]


def test_nmf_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="nmf stopped after 1 passes"):
        NMF(max_iter=1).fit(RowFactors(samples()), 3, 0)
    with pytest.warns(ConvergenceWarning, match="nmf stopped after 1 passes"):
        NMF(max_iter=1).pooled(samples(), 3, 0)


def test_pooled_nmf_shifts_features_and_takes_more_clusters_than_features():
    X = samples(60, 2)
    assert X.min() < 0
    for assignment in ("k-means", "argmax"):
        found = NMF(max_iter=5000, assignment=assignment).pooled(X, 3, 0)
        assert found.labels[0] == 0
        assert found.labels.max() <= 2


def test_nmf_clusters_are_those_of_the_weights():
    X, y = make_blobs(120, n_features=5, centers=4, cluster_std=0.4, random_state=0)
    for init in ("random", "nndsvda"):
        for view in both_views(X):
            found = NMF(init=init).fit(view, 4, 0)
            assert oracle.same_partition(found.labels, y)
            assert np.array_equal(
                NMF(init=init).predict(found, exact_squared_distances(X)), found.labels
            )


def test_fuzzy_centres_that_coincide_are_told():
    X = np.random.default_rng(0).normal(size=(200, 20))
    found = FuzzyCMeans(fuzziness=2.0).pooled(X, 3, 0)
    assert "centres that coincide" in found.notes[0]
    assert not FuzzyCMeans().pooled(samples(), 4, 0).notes


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**-12, 2.0**20])
@pytest.mark.parametrize("covariance", ["full", "tied", "spherical"])
def test_a_mixture_does_not_depend_on_the_unit(covariance, unit):
    """An amount added to variances would drown those of data in small units."""
    X = samples(60, 3)
    clusterer = GaussianMixture(covariance)
    found, other = (clusterer.fit(RowFactors(one), 4, seed=0) for one in (X, unit * X))
    np.testing.assert_array_equal(found.labels, other.labels)
    assert len(np.unique(found.labels)) == 4


def test_columns_that_say_nothing_change_no_mixture():
    """Distances have no place for them, and pooled samples have."""
    X = samples(60, 3)
    padded = np.column_stack([X, np.ones((60, 40))])
    clusterer = GaussianMixture(regularisation=0.02)  # enough to move the weights
    found = clusterer.fit(distances_of(padded), 4, seed=0)
    again = clusterer.pooled(padded, 4, seed=0)
    assert ari(found.labels, again.labels) == 1.0
    shares = np.sort(found.model["weights"]), np.sort(again.model["weights"])
    np.testing.assert_allclose(*shares, rtol=1e-6)


def test_a_mixture_is_that_of_scikit_learn():
    X = samples(60, 3)
    found = GaussianMixture().fit(RowFactors(X), 4, seed=0).labels
    reg = 1e-8 * X.var(axis=0).sum()
    seed = integer_seed(0, "gaussian-mixture")
    whole = LibraryMixture(4, reg_covar=reg, random_state=seed).fit_predict(X)
    assert ari(found, whole) == 1.0
