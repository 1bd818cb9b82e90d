"""Coordinates from columns of distances: the same to the last bit for any number of threads."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from daskfc.linalg import integer_points, landmarks
from daskfc.linalg.integer_points import points_from_columns
from daskfc.linalg.landmarks import LandmarkEmbedding

N, Q = 700, 6
X = np.random.default_rng(2).integers(-20, 20, (N, Q)).astype(float)
D = np.square(X[:, None] - X).sum(axis=2)


def embedded():
    found = LandmarkEmbedding(N, Q)
    while not found.converged:
        some = found.next_landmarks(3)
        found.add_columns(some, D[:, some])
    return found.coordinates, found.certificate()


def placed():
    some = np.arange(0, N, 60)
    found = points_from_columns(lambda rows: D[rows][:, some], some, n=N)
    assert found.certified
    return found.coordinates, found.error


@pytest.mark.parametrize("found_by", [embedded, placed])
def test_threads_change_no_bit(monkeypatch, found_by):
    monkeypatch.setattr(landmarks, "_ROWS", 64)
    monkeypatch.setattr(integer_points, "_ROWS", 64)
    with threadpool_limits(1, "blas"):
        alone = found_by()
    with threadpool_limits(4, "blas"):
        found = found_by()
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one, other)
