"""Steps of every k-means on a client's rows: check, label, and bound their sums."""

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import InvalidInput
from daskfc.linalg import squared_distances

__all__ = ["bound_of_sums", "check_rows", "nearest_labels"]

Floats = NDArray[np.float64]

_BLOCK = 4096  # ours: rows at a time, so that no step holds distances of all rows


def check_rows(rows: Floats) -> Floats:
    """Return a client's rows if they are finite float64, (n, s); refuse others."""
    given = np.asarray(rows)
    if given.dtype != np.float64 or given.ndim != 2 or given.shape[1] < 1:
        got = f"{given.dtype.name} with {given.ndim} axes"
    elif not np.isfinite(given).all():
        got = "some that are not finite"
    else:
        return given
    raise InvalidInput(
        "the rows of a k-means must be finite float64 with two axes, (n, s), s at least 1; "
        f"got {got}. Mend what computes them."
    )


def nearest_labels(rows: Floats, centers: Floats) -> NDArray[np.int64]:
    """Return the nearest centre of every row; the first of equal ones.

    Parameters
    ----------
    rows : ndarray of shape (n, s), float64
        Any number of them, also rows that were not clustered.
    centers : ndarray of shape (k, s), float64

    Returns
    -------
    ndarray of shape (n,), int64

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans import nearest_labels
    >>> nearest_labels(np.array([[0.1], [8.0], [0.2]]), np.array([[9.0], [0.0]])).tolist()
    [1, 0, 1]
    """
    labels = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        labels[start : start + len(block)] = squared_distances(block, centers).argmin(axis=1)
    return labels


def bound_of_sums(n: float, scatter: float) -> float:
    """Return a bound on every sum about a point c of any client's rows.

    Cauchy-Schwarz: Σ |x - c| ≤ √(n Σ |x - c|²), for all n rows with `scatter` Σ |x - c|²; the
    result is twice the largest moment, for rounding.
    """
    return 2.0 * float(max(n, scatter, np.sqrt(n * scatter)))
