"""What OmniFC's server tells of its clusters, without a federation."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import calinski_harabasz_score, silhouette_score

from daskfc.clustering import Clustering, FullDistances, RowFactors
from daskfc.linalg import LandmarkEmbedding
from daskfc.protocols.omnifc.clusters import (
    Clustered,
    Sampled,
    cluster_report,
    cluster_score,
    order_of,
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


LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, -1, -1])
POINTS = np.random.default_rng(0).normal(size=(10, 2)) + 4 * LABELS[:, None]


def scores_of(labels, how):
    """Return what the server scores a clustering with, and the silhouette that it reports."""
    n_clusters = labels.max() + 1
    clustering = Clustering(labels, n_clusters, decisive=np.zeros(n_clusters))
    view = FullDistances(squareform(pdist(POINTS, "sqeuclidean")))
    some = sampled(view, None, n=len(labels), seed=0)
    if how == "coordinates":
        some = Sampled(some.rows, POINTS[some.rows])
    found = Clustered(clustering, None)
    scores = [float(cluster_score(found, some, by).scores[0]) for by in BY]
    return scores, cluster_report(found, some, view).silhouette


BY = ("silhouette", "calinski-harabasz")


@pytest.mark.parametrize("how", ["distances", "coordinates"])
def test_scores_are_those_of_points_in_clusters(how):
    """Noise is no cluster, and distances are not their squares."""
    scores, silhouette = scores_of(LABELS, how)
    kept, labels = POINTS[LABELS >= 0], LABELS[LABELS >= 0]
    wanted = [silhouette_score(kept, labels), calinski_harabasz_score(kept, labels)]
    np.testing.assert_allclose(scores, wanted, rtol=1e-9)
    assert silhouette == pytest.approx(wanted[0])


@pytest.mark.parametrize("how", ["distances", "coordinates"])
@pytest.mark.parametrize("labels", [np.where(LABELS < 0, -1, 0), np.arange(10)])
def test_one_cluster_or_one_for_each_sample_has_no_score(how, labels):
    assert scores_of(labels, how) == ([np.inf, np.inf], np.inf)
