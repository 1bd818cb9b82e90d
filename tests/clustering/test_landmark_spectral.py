"""Landmark spectral clustering against the eigenvectors of the whole graph, and on odd samples."""

import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist
from scipy.stats import special_ortho_group
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from daskfc.clustering import LandmarkSpectral, RowFactors
from daskfc.errors import InvalidInput
from tests.oracles import clustering as oracle


def landmarks_of(found, X):
    """The means of the samples that the model says each landmark is made of."""
    groups = np.split(found.model["candidates"], found.model["starts"][1:])
    return np.array([X[group].mean(axis=0) for group in groups])


def whole_graph_embedding(X, landmarks, K, k):
    """Sample rows of the leading eigenvectors of the graph of samples and landmarks, by `eigh`."""
    apart = cdist(X, landmarks)
    near = np.argsort(apart, axis=1)[:, :K]
    width = np.take_along_axis(apart, near, axis=1).mean()
    B = np.zeros_like(apart)
    np.put_along_axis(B, near, 1.0, axis=1)
    B *= np.exp(-(apart**2) / (2 * width**2))
    n, p = B.shape
    W = np.block([[np.zeros((n, n)), B], [B.T, np.zeros((p, p))]])
    degrees = W.sum(axis=1)
    values, vectors = scipy.linalg.eigh(W / np.sqrt(np.outer(degrees, degrees)))
    rows = vectors[:n, ::-1][:, :k] / np.sqrt(degrees[:n, None]) * values[::-1][:k]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_the_embedding_is_that_of_the_whole_graph(seed):
    X, _ = make_moons(400, noise=0.08, random_state=seed)
    clusterer, k = LandmarkSpectral(n_landmarks=40), 4
    found = clusterer.fit(RowFactors(X), k, seed)
    rows = whole_graph_embedding(X, landmarks_of(found, X), clusterer.n_neighbors, k)
    best = KMeans(k, n_init=10, random_state=0).fit(rows)
    assert found.score == pytest.approx(best.inertia_, rel=1e-6)
    assert oracle.same_partition(found.labels, best.labels_)


@pytest.mark.parametrize("make", [make_moons, lambda n, **kw: make_circles(n, factor=0.4, **kw)])
def test_shapes_that_k_means_cuts(make):
    X, y = make(2000, noise=0.05, random_state=0)
    found = LandmarkSpectral(n_landmarks=200).pooled(X, 2, 0)
    assert adjusted_rand_score(y, found.labels) > 0.99
    assert adjusted_rand_score(y, KMeans(2, n_init=5, random_state=0).fit_predict(X)) < 0.6


def test_rotated_shifted_and_permuted_samples_get_the_same_labels():
    X, _ = make_moons(300, noise=0.1, random_state=1)
    clusterer = LandmarkSpectral(n_landmarks=50)
    labels = clusterer.pooled_labels(X, 3, 0)
    moved = X @ special_ortho_group.rvs(2, random_state=0) + 5.0
    assert oracle.same_partition(labels, clusterer.pooled_labels(moved, 3, 0))
    order = np.random.default_rng(0).permutation(300)
    assert oracle.same_partition(labels[order], clusterer.pooled_labels(X[order], 3, 0))


def test_predict_puts_new_samples_where_their_neighbours_are():
    X, y = make_moons(600, noise=0.05, random_state=2)
    clusterer = LandmarkSpectral(n_landmarks=80)
    found = clusterer.fit(RowFactors(X[:500]), 2, 0)
    predicted = clusterer.predict(found, cdist(X[500:], X[:500], "sqeuclidean"))
    both = np.concatenate([found.labels, predicted])
    assert adjusted_rand_score(y, both) > 0.99


def test_predict_does_not_hang_on_where_the_origin_is():
    X, _ = make_moons(400, noise=0.05, random_state=0)
    clusterer = LandmarkSpectral(n_landmarks=60)
    distances = cdist(X, X, "sqeuclidean")
    near = clusterer.fit(RowFactors(X), 2, 0)
    far = clusterer.fit(RowFactors(X + 1e7), 2, 0)
    np.testing.assert_allclose(far.model["offsets"], near.model["offsets"], rtol=1e-4, atol=1e-6)
    assert np.array_equal(clusterer.predict(far, distances), far.labels)


def test_a_sample_far_from_all_landmarks_has_its_nearest_landmarks_cluster():
    X, _ = make_moons(400, noise=0.05, random_state=0)
    clusterer = LandmarkSpectral(n_landmarks=60)
    found = clusterer.fit(RowFactors(X), 2, 0)
    far = X[[0]] * 1e4  # its affinities to landmarks are 0 in float64
    nearest = cdist(far, X).argmin()
    assert clusterer.predict(found, cdist(far, X, "sqeuclidean")) == found.labels[nearest]


def test_copies_of_a_few_rows():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]], 20, axis=0)
    found = LandmarkSpectral().fit(RowFactors(X), 2, 0)
    assert len(found.model["starts"]) == 3
    assert found.labels.tolist() == [0] * 40 + [1] * 20
    with pytest.warns(ConvergenceWarning, match="fewer distinct values"):
        LandmarkSpectral().fit(RowFactors(X), 4, 0)
    same = LandmarkSpectral().fit(RowFactors(np.zeros((9, 0))), 1, 0)
    assert same.labels.tolist() == [0] * 9


def test_more_clusters_than_landmarks_are_refused():
    with pytest.raises(InvalidInput, match="must be at least the number of clusters, 5; got 3"):
        LandmarkSpectral(n_landmarks=3).pooled(np.eye(9), 5, 0)
