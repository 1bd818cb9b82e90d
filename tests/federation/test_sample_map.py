"""What a map of samples tells the caller, and what it does not."""

import numpy as np
import pytest

from daskfc.federation.messages.declaration import check_message
from daskfc.federation.methods.sample_map import (
    MAPPED,
    map_of_distances,
    map_of_points,
    mapped_rows,
)
from daskfc.linalg import squared_distances

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)) + 6 * (np.arange(60) % 3 == 0)[:, None]
LABELS = (np.arange(60) % 3 == 0).astype(np.int64)


def test_places_are_the_plane_to_a_255th():
    told = map_of_points(X, LABELS)
    check_message(told)
    assert told.positions.min() == 0
    assert told.positions.max() == 255
    centred = X - X.mean(axis=0)
    plane = centred @ np.linalg.svd(centred)[2][:2].T
    # signs and order aside: distances in the plane, in units of its width
    width = np.ptp(plane, axis=0).max() / 255
    expected = np.sort(squared_distances(plane, plane) ** 0.5 / width, axis=None)
    places = told.positions.astype(float)
    found = np.sort(squared_distances(places, places) ** 0.5, axis=None)
    assert np.abs(found - expected).max() < 1.5


def test_distances_draw_the_map_of_their_points():
    by_points = map_of_points(X, LABELS)
    by_distances = map_of_distances(squared_distances(X, X) ** 0.5, LABELS)
    np.testing.assert_array_equal(by_distances.labels, by_points.labels)
    assert np.abs(by_distances.positions.astype(int) - by_points.positions).max() <= 1


def test_the_order_of_samples_is_not_told():
    order = RNG.permutation(len(X))
    first, other = map_of_points(X, LABELS), map_of_points(X[order], LABELS[order])
    np.testing.assert_array_equal(first.labels, other.labels)
    np.testing.assert_array_equal(first.positions, other.positions)


def test_clusters_go_with_their_places():
    told = map_of_points(X, LABELS)
    means = [told.positions[told.labels == c].mean(axis=0) for c in (0, 1)]
    assert np.linalg.norm(means[0] - means[1]) > 100


def test_no_more_samples_than_promised():
    rows = mapped_rows(MAPPED + 1, seed=3)
    assert len(np.unique(rows)) == MAPPED
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, mapped_rows(MAPPED + 1, seed=3))
    assert not np.array_equal(rows, mapped_rows(MAPPED + 1, seed=4))
    assert mapped_rows(MAPPED, seed=3).tolist() == list(range(MAPPED))


@pytest.mark.parametrize("draw", [map_of_points, map_of_distances])
def test_nothing_to_draw_is_an_empty_map(draw):
    told = draw(np.zeros((0, 0)), np.zeros(0, dtype=np.int64))
    check_message(told)
    assert told.positions.shape == (0, 2)


def test_samples_that_are_all_alike_lie_in_one_place():
    told = map_of_points(np.ones((5, 3)), np.zeros(5, dtype=np.int64))
    assert (told.positions == 0).all()
