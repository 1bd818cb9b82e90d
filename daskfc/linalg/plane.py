"""The plane in which points differ most: principal components, or their like for distances."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["plane_of_distances", "plane_of_points"]

Floats = NDArray[np.float64]


def plane_of_points(points: Floats) -> tuple[Floats, float]:
    """Return where points lie along the two directions in which they differ most.

    Parameters
    ----------
    points : ndarray of shape (n, d), float64

    Returns
    -------
    coordinates : ndarray of shape (n, 2), float64
        About their mean; zeros where there is no such direction. Each direction's sign is that
        which makes its largest coordinate positive.
    share : float
        Of the points' variance that the plane holds, in [0, 1]; 1 without variance.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import plane_of_points
    >>> X, share = plane_of_points(np.array([[0.0, 7.0], [4.0, 7.0], [5.0, 7.0]]))
    >>> X[:, 0].round(9).tolist(), share
    ([3.0, -1.0, -2.0], 1.0)
    """
    n, d = points.shape
    centred = points - points.mean(axis=0) if n else points
    # the smaller of the two Gram matrices has all that is needed
    if d <= n:
        values, vectors = _largest(centred.T @ centred)
        return _with_signs(centred @ vectors), _share(values, float(np.sum(centred**2)))
    values, vectors = _largest(centred @ centred.T)
    coordinates = vectors * np.sqrt(values)
    return _with_signs(coordinates), _share(values, float(np.sum(centred**2)))


def plane_of_distances(squared: Floats) -> tuple[Floats, float]:
    """Return the same from the squared distances of the points alone.

    Parameters
    ----------
    squared : ndarray of shape (n, n), float64
        Symmetric; Euclidean, up to rounding.

    Returns
    -------
    coordinates, share
        As `plane_of_points`.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import plane_of_distances
    >>> plane_of_distances(np.array([[0.0, 4.0], [4.0, 0.0]]))[0].round(9).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
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
