"""Steps of every k-means on a client's rows: check, label, and bound their sums."""

import math

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.errors import InvalidInput
from daskfc.linalg import accurate_squared_distances
from daskfc.secure.sums.few import count_unit, sum_unit

_BLOCK = 4096  # ours: rows at a time, so that no step holds distances of all rows
_GRID = 2.0**-26  # ours: sums of a thousand clients keep its square


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


def nearest_labels(rows: Floats, centers: Floats) -> Ints:
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
        squared = accurate_squared_distances(rows[start : start + _BLOCK], centers)
        labels[start : start + len(squared)] = squared.argmin(axis=1)
    return labels


def units(bound: float, scales: Floats) -> Floats:
    """Return what makes counts, sums and squares about a point as large as `bound`, at most.

    `bound` is on squares of scaled rows, and a power of four; the (1 + 2 s,) units are powers of
    two, which round nothing. Σ|x| ≤ √(n Σx²): so in fixed point all keep their digits, whatever the
    features' units.
    """
    if (np.frexp(scales)[0] != 0.5).any():  # as for bounds
        raise InvalidInput("scales of sums must be powers of two. Round them down.")
    return np.concatenate([[count_unit(bound)], sum_unit(bound) * scales, np.square(scales)])


def on_grid(point: Floats, bound: float, scales: Floats) -> Floats:
    """Return a point whose offsets from whole numbers, and their squares, fixed point has exactly.

    Else the sum of what clients round, of n_c rows each about one point, would tell their n_c.
    """
    step = math.sqrt(bound) * _GRID / scales
    return np.asarray(np.rint(point / step) * step)
