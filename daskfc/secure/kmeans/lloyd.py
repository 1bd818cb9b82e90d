"""Steps of every k-means on a client's rows: check, label, and bound their sums."""

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.errors import InvalidInput
from daskfc.linalg import squared_distances
from daskfc.secure.sums.few import count_unit, sum_unit

_BLOCK = 4096  # ours: rows at a time, so that no step holds distances of all rows
_ENTRIES = 1 << 18  # ours: differences of rows and centres at a time
_STEP = 2.0**-40  # ours: of the bound; sums in fixed point have some 2**-60


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
        block = rows[start : start + _BLOCK]
        labels[start : start + len(block)] = _nearest(block, centers)
    return labels


def _nearest(rows: Floats, centers: Floats) -> Ints:
    """Return the nearest centre of each row, where products cannot tell by differences."""
    squared = squared_distances(rows, centers)
    found: Ints = squared.argmin(axis=1)
    if len(centers) == 1:
        return found
    first, second = np.partition(squared, 1, axis=1)[:, :2].T
    offset = centers.mean(axis=0)  # far away beside one centre that is
    largest = np.square(rows - offset).sum(axis=1) + np.square(centers - offset).sum(axis=1).max()
    rounding = 8.0 * (rows.shape[1] + 4) * np.finfo(np.float64).eps * largest
    unsure = np.flatnonzero(second - first <= rounding)
    step = max(1, _ENTRIES // centers.size)
    for part in (unsure[start : start + step] for start in range(0, unsure.size, step)):
        apart = np.square(rows[part, None] - centers).sum(axis=2)
        found[part] = apart.argmin(axis=1)
    return found


def in_units(moments: Floats, bound: float) -> Floats:
    """Return counts, sums and squares (m, 1 + 2 s) about a point as (m, 1 + 3 s), of up to `bound`.

    `bound` is on squares, and a power of four; units are powers of two, which round nothing. Σ|x| ≤
    √(n Σx²): so in fixed point all keep their digits, whatever the features' unit. The last s are
    what sums have below a step, larger: digits of a feature that is small beside another.
    """
    s = moments.shape[1] // 2
    found = moments * _units(bound, s)
    sums = found[:, 1 : 1 + s]
    whole = np.rint(sums / (bound * _STEP)) * (bound * _STEP)
    rest = (sums - whole) / _STEP
    found[:, 1 : 1 + s] = whole
    return np.concatenate([found, rest], axis=1)


def from_units(values: Floats, bound: float) -> Floats:
    """Return the counts, sums and squares (m, 1 + 2 s) of summed `in_units`."""
    s = values.shape[1] // 3
    found = values[:, : 1 + 2 * s].copy()
    found[:, 1 : 1 + s] += values[:, 1 + 2 * s :] * _STEP
    return found / _units(bound, s)


def _units(bound: float, n_features: int) -> Floats:
    return np.concatenate([[count_unit(bound)], np.repeat((sum_unit(bound), 1.0), n_features)])
