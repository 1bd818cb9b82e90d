"""Squared distances as one product against scipy's differences."""

import numpy as np
from scipy.spatial.distance import cdist

from daskfc.linalg import squared_distances, symmetric_squared_distances


def test_distances_far_from_the_origin_keep_their_digits():
    rng = np.random.default_rng(0)
    rows, points = 1e6 + rng.standard_normal((20, 3)), 1e6 + rng.standard_normal((4, 3))
    expected = cdist(rows, points, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(rows, points), expected, rtol=1e-9)
    assert squared_distances(rows, rows).min() == 0.0


def test_all_distances_are_symmetric_to_the_last_bit():
    points = 1e6 + np.random.default_rng(0).standard_normal((30, 3))
    D = symmetric_squared_distances(points)
    np.testing.assert_array_equal(D, D.T)
    assert not np.diag(D).any()
    np.testing.assert_allclose(D, cdist(points, points, "sqeuclidean"), rtol=1e-9)
