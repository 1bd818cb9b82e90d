"""The plane in which points differ most, against principal components of scikit-learn."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from daskfc.linalg import plane_of_distances, plane_of_points, squared_distances


def points(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1) + 5.0


@pytest.mark.parametrize(("n", "d"), [(40, 6), (6, 40), (30, 2)])
def test_the_plane_is_that_of_principal_components(n, d):
    X = points(n, d)
    found, share = plane_of_points(X)
    model = PCA(2).fit(X)
    np.testing.assert_allclose(np.abs(found), np.abs(model.transform(X)), atol=1e-8)
    assert share == pytest.approx(model.explained_variance_ratio_.sum())
    assert (found[np.abs(found).argmax(axis=0), [0, 1]] > 0).all()


def test_distances_alone_lead_to_the_same_plane():
    X = points(25, 5)
    found, share = plane_of_distances(squared_distances(X, X))
    expected, its_share = plane_of_points(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert share == pytest.approx(its_share)


@pytest.mark.parametrize("n", [1, 2])
def test_few_points_have_a_plane_too(n):
    X = points(n, 3)
    found, share = plane_of_points(X)
    assert found.shape == (n, 2)
    assert np.isfinite(found).all()
    assert share == pytest.approx(1.0)
    np.testing.assert_allclose(plane_of_distances(squared_distances(X, X))[0], found, atol=1e-6)


def test_points_that_are_all_one_stay_one():
    found, share = plane_of_points(np.ones((5, 3)))
    assert (found == 0).all()
    assert share == 1.0
    assert (plane_of_distances(np.zeros((5, 5)))[0] == 0).all()


def test_no_points_have_no_places():
    for found, share in (plane_of_points(np.zeros((0, 3))), plane_of_distances(np.zeros((0, 0)))):
        assert found.shape == (0, 2)
        assert share == 1.0
