"""Squared Euclidean distances as one matrix product."""

import numpy as np

from daskfc.arrays import Floats

_ENTRIES = 1 << 18  # ours: differences of rows and points at a time


def squared_distances(rows: Floats, points: Floats) -> Floats:
    """Return squared distances (n, k) of rows (n, d) to points (k, d), >= 0, by inner products."""
    offset = points.mean(axis=0)  # shorter vectors, less cancellation
    rows, points = rows - offset, points - offset
    squared: Floats = rows @ points.T
    squared *= -2.0
    squared += np.einsum("ij,ij->i", rows, rows)[:, None]
    squared += np.einsum("ij,ij->i", points, points)
    return np.maximum(squared, 0.0, out=squared)


def accurate_squared_distances(rows: Floats, points: Floats) -> Floats:
    """Return `squared_distances` (n, k), by differences for rows where products do not do.

    These are rows of which rounding hides the nearest point, or the sixth digit of how near it is.
    """
    squared = squared_distances(rows, points)
    if len(points) == 1:  # seen from that point
        return squared
    first, second = np.partition(squared, 1, axis=1)[:, :2].T
    offset = points.mean(axis=0)  # far away beside one point that is
    largest = np.square(rows - offset).sum(axis=1) + np.square(points - offset).sum(axis=1).max()
    rounding = 8.0 * (rows.shape[1] + 4) * np.finfo(np.float64).eps * largest
    unsure = np.flatnonzero(np.minimum(second - first, 1e-6 * first) <= rounding)
    step = max(1, _ENTRIES // points.size)
    for part in (unsure[start : start + step] for start in range(0, unsure.size, step)):
        squared[part] = np.square(rows[part, None] - points).sum(axis=2)
    return squared


def symmetric_squared_distances(points: Floats) -> Floats:
    """Return `squared_distances` (n, n) of points, exactly symmetric, with a diagonal of 0."""
    centred = points - points.mean(axis=0)
    squared: Floats = centred @ centred.T  # half a matrix product and its mirror image
    norms = squared.diagonal().copy()
    squared *= -2.0
    squared += np.add.outer(norms, norms)  # in one step, so that the sum is symmetric
    return np.maximum(squared, 0.0, out=squared)
