"""Squared Euclidean distances as one matrix product."""

import numpy as np

from daskfc.arrays import Floats


def squared_distances(rows: Floats, points: Floats) -> Floats:
    """Return squared distances (n, k) of rows (n, d) to points (k, d), >= 0, by inner products."""
    offset = points.mean(axis=0)  # shorter vectors, less cancellation
    rows, points = rows - offset, points - offset
    squared: Floats = rows @ points.T
    squared *= -2.0
    squared += np.einsum("ij,ij->i", rows, rows)[:, None]
    squared += np.einsum("ij,ij->i", points, points)
    return np.maximum(squared, 0.0, out=squared)


def symmetric_squared_distances(points: Floats) -> Floats:
    """Return `squared_distances` (n, n) of points, exactly symmetric, with a diagonal of 0."""
    centred = points - points.mean(axis=0)
    squared: Floats = centred @ centred.T  # half a matrix product and its mirror image
    norms = squared.diagonal().copy()
    squared *= -2.0
    squared += np.add.outer(norms, norms)  # in one step, so that the sum is symmetric
    return np.maximum(squared, 0.0, out=squared)
