"""Squared distances as one product against scipy's differences."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from daskfc.linalg import accurate_squared_distances, squared_distances, symmetric_squared_distances


def test_distances_far_from_the_origin_keep_their_digits():
    rng = np.random.default_rng(0)
    rows, points = 1e6 + rng.standard_normal((20, 3)), 1e6 + rng.standard_normal((4, 3))
    expected = cdist(rows, points, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(rows, points), expected, rtol=1e-9)
    assert squared_distances(rows, rows).min() == 0.0


def test_a_far_point_takes_no_digits_of_distances_to_near_ones():
    near = np.random.default_rng(0).normal(size=(5, 3))
    points = np.concatenate([near, [[9999999999.0, 1.0, 1.0]]])
    rows = near + 0.3 * np.random.default_rng(1).normal(size=near.shape)
    expected = cdist(rows, points, "sqeuclidean")
    found = accurate_squared_distances(rows, points)
    np.testing.assert_array_equal(found.argmin(axis=1), expected.argmin(axis=1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    # products tell which of two far apart is nearer, and nothing of how near it is
    rows, points = points[:2], np.array([points[0] + 0.1, points[-1]])
    assert accurate_squared_distances(rows, points)[0, 0] == pytest.approx(0.03, abs=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 1), (30, 3), (333, 5), (700, 200)])
def test_all_distances_are_symmetric_to_the_last_bit(n, m, order):
    points = np.asarray(1e6 + np.random.default_rng(0).standard_normal((n, m)), order=order)
    for some in (points, points[::2]):
        D = symmetric_squared_distances(some)
        np.testing.assert_array_equal(D, D.T)
        assert not np.diag(D).any()
        assert D.min() == 0.0
        np.testing.assert_allclose(D, cdist(some, some, "sqeuclidean"), rtol=1e-8, atol=1e-12)
