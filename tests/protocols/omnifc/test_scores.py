"""What OmniFC's server tells of its clusters, without a federation."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import calinski_harabasz_score, silhouette_score

from daskfc.clustering import Clustering, FullDistances, RowFactors
from daskfc.linalg import LandmarkEmbedding
from daskfc.protocols.omnifc import scores as module
from daskfc.protocols.omnifc.clusters import Clustered, order_of
from daskfc.protocols.omnifc.scores import (
    Sampled,
    cluster_report,
    cluster_score,
    sample_map,
    sampled,
)


def test_samples_that_are_all_alike_have_a_silhouette_and_a_map():
    embedding = LandmarkEmbedding(6, 3, tolerance=1e-6)
    assert embedding.coordinates.shape == (6, 0)
    some = sampled(embedding, order_of(embedding), n=6, seed=0)
    clustering = Clustering(np.array([0, 0, 1, 1, 1, 0]), 2, decisive=np.zeros(2))
    found = Clustered(clustering, None)
    report = cluster_report(found, some, RowFactors(embedding.coordinates, off_span=0.5))
    assert (report.silhouette, report.finest, report.equal, report.error) == (0.0, 0.0, 1, 0.5)
    assert np.isfinite(cluster_score(found, some, "calinski-harabasz").scores).all()
    assert not sample_map(found, some).positions.any()


@pytest.mark.parametrize("distances", [False, True])
def test_copies_of_three_rows_are_best_in_three_clusters(distances):
    points = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 9.0]], 20, axis=0)
    some = Sampled(np.arange(60), squareform(pdist(points)) if distances else points, distances)
    scores = []
    for labels in ([0, 0, 1], [0, 1, 2]):
        found = Clustered(Clustering(np.repeat(labels, 20), 3, decisive=np.zeros(3)), None)
        scores.append(cluster_score(found, some, "calinski-harabasz").scores[0])
    assert scores[0] == pytest.approx(269.893333)
    assert 1e6 < scores[1] < np.inf


@pytest.mark.parametrize("distances", [False, True])
@pytest.mark.parametrize("far", [1e3, 1e8])
def test_far_samples_hide_no_variance_within_clusters(far, distances):
    points, _ = make_blobs(60, centers=[[0, 0], [3, 0]], cluster_std=0.1, random_state=0)
    points, labels = np.vstack([points, [[far, 0], [far, 0.5]]]), np.repeat([0, 1, 2], [30, 30, 2])
    labels[:60] = points[:60, 0] > 1.5
    some = Sampled(np.arange(62), squareform(pdist(points)) if distances else points, distances)
    found = Clustered(Clustering(labels, 3, decisive=np.zeros(3)), None)
    (score,) = cluster_score(found, some, "calinski-harabasz").scores
    assert score == pytest.approx(calinski_harabasz_score(points, labels), rel=1e-6)


LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, -1, -1])
POINTS = np.random.default_rng(0).normal(size=(10, 2)) + 4 * LABELS[:, None]


def scored(labels, how):
    """Return a clustering at the server, some samples of it, and its report."""
    n_clusters = labels.max() + 1
    clustering = Clustering(labels, n_clusters, decisive=np.zeros(n_clusters))
    view = FullDistances(squareform(pdist(POINTS, "sqeuclidean")))
    some = sampled(view, None, n=len(labels), seed=0)
    if how == "coordinates":
        some = Sampled(some.rows, POINTS[some.rows])
    found = Clustered(clustering, None)
    return found, some, cluster_report(found, some, view)


def scores_of(labels, how):
    """Return what the server scores a clustering with, and what it reports."""
    found, some, report = scored(labels, how)
    scores = [float(cluster_score(found, some, by).scores[0]) for by in BY]
    return scores, (report.silhouette, report.modularity)


BY = ("silhouette", "calinski-harabasz", "modularity")


def modularity_by_pairs(labels, k=9):
    """Newman and Girvan's Eq. (5), pair by pair: edges within clusters, less those by chance."""
    n, D = len(POINTS), squareform(pdist(POINTS))
    np.fill_diagonal(D, np.inf)
    A = np.zeros((n, n))
    for i in range(n):
        for j in np.argsort(D[i])[: min(k, n - 1)]:
            A[i, j] += 1
            A[j, i] += 1
    degrees, edges = A.sum(axis=1), A.sum()
    return sum(
        (A[i, j] - degrees[i] * degrees[j] / edges) / edges
        for i in range(n)
        for j in range(n)
        if i == j or (labels[i] == labels[j] and labels[i] >= 0)  # noise is near nobody
    )


@pytest.mark.parametrize("how", ["distances", "coordinates"])
def test_scores_are_those_of_points_in_clusters(how):
    """Noise is no cluster, and distances are not their squares."""
    scores, told = scores_of(LABELS, how)
    kept, labels = POINTS[LABELS >= 0], LABELS[LABELS >= 0]
    wanted = [silhouette_score(kept, labels), calinski_harabasz_score(kept, labels)]
    wanted.append(modularity_by_pairs(LABELS))
    np.testing.assert_allclose(scores, wanted, rtol=1e-9, atol=1e-12)
    assert told == pytest.approx((wanted[0], wanted[2]))


@pytest.mark.parametrize("how", ["distances", "coordinates"])
def test_modularity_is_that_of_the_graph_of_nearest_neighbours(how, monkeypatch):
    monkeypatch.setattr(module, "_NEIGHBOURS", 2)
    for labels in (LABELS, np.arange(10) % 3, np.arange(10) // 5):
        found, some, report = scored(labels, how)
        wanted = modularity_by_pairs(labels, k=2)
        assert report.modularity == pytest.approx(wanted, abs=1e-12)
        told = cluster_score(found, some, "silhouette-modularity")
        silhouette = report.silhouette
        product = silhouette * wanted if min(silhouette, wanted) > 0 else min(silhouette, wanted)
        assert told.scores == pytest.approx([product])
        assert told.parts[:, 0] == pytest.approx([silhouette, wanted])


@pytest.mark.parametrize("values", [2, 5])
def test_no_order_of_samples_decides_between_ties(values):
    """Answers of a questionnaire: most distances are those of others too, but for rounding."""
    chance = np.random.default_rng(values)
    X = chance.integers(0, values, (200, 5)).astype(float)
    labels, told = X[:, 0].astype(int) % 2, set()
    for _ in range(5):
        order = chance.permutation(200)
        turned = np.linalg.qr(chance.normal(size=(5, 5)))[0]  # as coordinates from distances are
        for some in (
            Sampled(np.arange(200), X[order] @ turned),
            Sampled(np.arange(200), squareform(pdist(X[order])), distances=True),
        ):
            told.add(round(module._modularity(some, labels[order]), 12))
    assert len(told) == 1


@pytest.mark.parametrize("far", [1e6, 99_999_999.0, 1e10, 1e11])
def test_one_sample_far_away_decides_nothing(far):
    """A code for a missing value that was left in."""
    X, labels = make_blobs(200, centers=4, n_features=3, cluster_std=0.3, random_state=0)
    without = module._modularity(Sampled(np.arange(200), X), labels)
    both = np.vstack([X, np.full((1, 3), far)])
    assert without > 0.7
    for points in (both, both - both.mean(axis=0)):
        with_one = module._modularity(Sampled(np.arange(201), points), np.append(labels, 0))
        assert with_one == pytest.approx(without, abs=0.02)


def test_what_is_worse_than_chance_is_never_better_by_being_twice_so():
    """Two negative scores have a positive product."""
    mixed = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    found, some, report = scored(mixed, "coordinates")
    assert report.silhouette < 0
    assert cluster_score(found, some, "silhouette-modularity").scores[0] < 0


@pytest.mark.parametrize("how", ["distances", "coordinates"])
@pytest.mark.parametrize("labels", [np.where(LABELS < 0, -1, 0), np.arange(10)])
def test_one_cluster_or_one_for_each_sample_has_no_score(how, labels):
    assert scores_of(labels, how) == ([np.inf] * 3, (np.inf, np.inf))
    found, some, _ = scored(labels, how)
    told = cluster_score(found, some, "silhouette-modularity")
    assert not np.isfinite([*told.scores, *told.parts.ravel()]).any()


def test_a_column_of_two_values_does_not_hide_four_groups():
    """The silhouette is largest for the two halves of the column."""
    groups = make_blobs(
        300, centers=4, n_features=4, cluster_std=1.5, center_box=(-6, 6), random_state=2
    )[0]
    X = np.column_stack([groups, np.random.default_rng(2).integers(0, 2, 300)])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    some, told = Sampled(np.arange(300), X), {}
    for k in range(2, 13):
        labels = KMeans(k, n_init=5, random_state=0).fit_predict(X)
        found = Clustered(Clustering(labels, k, decisive=np.zeros(k)), None)
        message = cluster_score(found, some, "silhouette-modularity")
        told[k] = float(message.scores[0]), float(message.parts[0, 0])
    assert max(told, key=lambda k: told[k][1]) == 2
    assert max(told, key=lambda k: told[k][0]) == 8  # each group, with each of the values


CLOUD = np.random.default_rng(3).normal(size=(300, 20))
KINDS = {
    "cloud": CLOUD,
    "tiny": CLOUD * 1e-150,
    "huge": CLOUD * 1e150,
    "copies": np.repeat(CLOUD[:60], 5, axis=0),
    "whole numbers": np.rint(CLOUD),
    "two scales": np.vstack([CLOUD[:150], CLOUD[150:] * 1e-6]),
    "one far away": np.vstack([CLOUD[1:], np.full((1, 20), 1e12)]),
    "far from the origin": CLOUD + 1e9,
    "one value": np.ones((300, 20)),
    "few": CLOUD[:11],
}


@pytest.mark.parametrize("kind", KINDS)
def test_near_samples_by_products_are_those_of_all_differences(monkeypatch, kind):
    X, k, plain = KINDS[kind], 10, []
    blocks = [slice(a, a + 64) for a in range(0, len(X), 64)]
    monkeypatch.setattr(
        module, "pairwise_distances", lambda A, B, metric: plain.append(0) or cdist(A, B, metric)
    )
    found = np.vstack([module._squares_of_near(X, rows, k) for rows in blocks])
    D = cdist(X, X, "sqeuclidean")
    last = np.sort(D, axis=1)[:, k - 1, None]
    near = D <= last * (1 + 2e-7)
    np.testing.assert_allclose(found[near], D[near], rtol=1e-12, atol=0)
    assert (found >= D * (1 - 1e-12)).all()
    if kind in ("cloud", "tiny", "huge", "copies"):
        assert not plain
        assert np.isinf(found).mean() > 0.9
    if kind in ("one far away", "far from the origin", "one value"):
        assert len(plain) == len(blocks)
