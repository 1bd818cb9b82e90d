"""What OmniFC's server tells of its clusters, without a federation."""

import numpy as np

from daskfc.clustering import Clustering, RowFactors
from daskfc.linalg import LandmarkEmbedding
from daskfc.protocols.omnifc.clusters import (
    Clustered,
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
