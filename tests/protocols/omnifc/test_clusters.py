"""What OmniFC's server tells of its clusters, without a federation."""

import numpy as np

from daskfc.clustering import Clustering, RowFactors
from daskfc.linalg import LandmarkEmbedding
from daskfc.protocols.omnifc.clusters import cluster_report, cluster_score, sample_map, sampled


def test_samples_that_are_all_alike_have_a_silhouette_and_a_map():
    embedding = LandmarkEmbedding(6, 3, tolerance=1e-6)
    assert embedding.coordinates.shape == (6, 0)
    some = sampled(embedding, n=6, seed=0)
    found = Clustering(np.array([0, 0, 1, 1, 1, 0]), 2, decisive=np.zeros(2))
    report = cluster_report(found, some, RowFactors(embedding.coordinates, error=0.5))
    assert (report.silhouette, report.finest, report.equal, report.error) == (0.0, 0.0, 1, 0.5)
    assert np.isfinite(cluster_score(found, some, "calinski-harabasz").scores).all()
    assert not sample_map(found, some).positions.any()
