"""Two-dimensional coordinates for plots: principal components, of points or of distances."""

import numpy as np
import scipy.linalg

from daskfc.arrays import Floats


def plane_of_points(points: Floats) -> tuple[Floats, float]:
    """Return coordinates (n, 2) of points on their principal axes, and the share of variance."""
    n, d = points.shape
    centred = points - points.mean(axis=0) if n else points
    # the smaller of the two Gram matrices suffices
    if d <= n:
        values, vectors = _largest(centred.T @ centred)
        return _with_signs(centred @ vectors), _share(values, float(np.sum(centred**2)))
    values, vectors = _largest(centred @ centred.T)
    coordinates = vectors * np.sqrt(values)
    return _with_signs(coordinates), _share(values, float(np.sum(centred**2)))


def plane_of_distances(squared: Floats) -> tuple[Floats, float]:
    """Return `plane_of_points` from squared Euclidean distances (n, n) only."""
    means = squared.mean(axis=0) if len(squared) else squared
    gram = -0.5 * (squared - means - means[:, None] + means.mean()) if len(squared) else squared
    values, vectors = _largest(gram)
    return _with_signs(vectors * np.sqrt(values)), _share(values, float(np.trace(gram)))


def _largest(gram: Floats) -> tuple[Floats, Floats]:
    """Return the two largest eigenvalues, none below 0, and their vectors; zeros for missing."""
    n = len(gram)
    values, vectors = np.zeros(2), np.zeros((n, 2))
    if n:
        kept = min(n, 2)
        found, own = scipy.linalg.eigh(gram, subset_by_index=(n - kept, n - 1))
        values[:kept], vectors[:, :kept] = np.maximum(found[::-1], 0.0), own[:, ::-1]
    return values, vectors


def _with_signs(coordinates: Floats) -> Floats:
    if not len(coordinates):
        return coordinates
    largest = np.abs(coordinates).argmax(axis=0)
    signs = np.sign(coordinates[largest, [0, 1]])
    return np.asarray(coordinates * np.where(signs == 0, 1.0, signs) + 0.0)


def _share(values: Floats, total: float) -> float:
    return min(float(values.sum()) / total, 1.0) if total > 0 else 1.0
