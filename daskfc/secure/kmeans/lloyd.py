"""Lloyd's algorithm on sums over all rows: what a client adds up, what a server makes of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import InvalidInput
from daskfc.linalg import squared_distances

__all__ = [
    "Moments",
    "bound_of_sums",
    "check_rows",
    "moments_of",
    "nearest_labels",
    "row_moments",
]

Floats = NDArray[np.float64]

_BLOCK = 4096  # ours: rows at a time, so that no step holds distances of all rows


def check_rows(rows: Floats) -> Floats:
    """Return a client's rows, if k-means can work on them.

    Raises
    ------
    InvalidInput
        When they are no finite float64 array with two axes.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.lloyd import check_rows
    >>> check_rows(np.zeros(3))
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: the rows of a k-means must be finite float64 with two axes, \
(n, s), s at least 1; got float64 with 1 axes. Mend what computes them.
    """
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


def row_moments(rows: Floats, centers: Floats) -> Floats:
    """Return a client's part of the sums of one round.

    Parameters
    ----------
    rows : ndarray of shape (n, s), float64
    centers : ndarray of shape (a, k, s), float64
        Of every start.

    Returns
    -------
    ndarray of shape (a * k, 1 + 2 s), float64
        For every cluster its number of rows, Σ (x - c) and Σ (x - c)², entry by entry. Differences
        from the centre keep their digits where rows lie far from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.lloyd import row_moments
    >>> row_moments(np.array([[1.0], [2.0], [9.0]]), np.array([[[0.0], [8.0]]]))
    array([[2., 3., 5.],
           [1., 1., 1.]])
    """
    a, k, s = centers.shape
    total = np.zeros((a, k, 1 + 2 * s))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        for own, told in zip(total, centers, strict=True):
            labels = squared_distances(block, told).argmin(axis=1)
            member = (labels == np.arange(k)[:, None]).astype(np.float64)  # (k, b)
            difference = block - told[labels]
            own[:, 0] += member.sum(axis=1)
            own[:, 1 : 1 + s] += member @ difference
            own[:, 1 + s :] += member @ difference**2
    return total.reshape(a * k, 1 + 2 * s)


@dataclass(frozen=True)
class Moments:
    """Sums over all rows in the terms of the clusters.

    Parameters
    ----------
    counts : ndarray of shape (a, k)
        Rows of each cluster.
    means : ndarray of shape (a, k, s)
        Their mean; the told centre, of a cluster without rows.
    variances : ndarray of shape (a, k, s)
        Of each feature, around the mean.
    inertia : ndarray of shape (a,)
        Sum of squared distances of all rows to the nearest of the told centres.
    """

    counts: Floats
    means: Floats
    variances: Floats
    inertia: Floats

    @property
    def scatters(self) -> Floats:
        """Sum of squared distances of each cluster's rows to their mean, (a, k)."""
        scatters: Floats = self.counts * self.variances.sum(axis=2)
        return scatters

    def start(self, index: int) -> "Moments":
        """Return those of one start, (1, ...)."""
        one = slice(index, index + 1)
        return Moments(self.counts[one], self.means[one], self.variances[one], self.inertia[one])


def moments_of(values: Floats, centers: Floats) -> Moments:
    """Read sums over all clients of what `row_moments` returns.

    Parameters
    ----------
    values : ndarray of shape (a * k, 1 + 2 s)
        The sum. Sums in fixed point may be off in their last bits.
    centers : ndarray of shape (a, k, s)
        As they were told.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.lloyd import moments_of
    >>> found = moments_of(np.array([[2.0, 3.0, 5.0], [0.0, 0.0, 0.0]]), np.array([[[0.0], [8.0]]]))
    >>> found.means.ravel().tolist(), found.inertia.tolist()
    ([1.5, 8.0], [5.0])
    """
    a, k, s = centers.shape
    sums = values.reshape(a, k, 1 + 2 * s)
    counts = np.rint(sums[..., 0])
    divisor = np.maximum(counts, 1.0)[..., None]
    offsets = np.where(counts[..., None] > 0, sums[..., 1 : 1 + s] / divisor, 0.0)
    squares = np.where(counts[..., None] > 0, np.maximum(sums[..., 1 + s :], 0.0), 0.0)
    variances = np.maximum(squares / divisor - offsets**2, 0.0)
    return Moments(counts, centers + offsets, variances, squares.sum(axis=(1, 2)))


def bound_of_sums(n: float, scatter: float, mean: Floats, centers: Floats) -> float:
    """Return a bound on every entry of `row_moments`, of any client, that follows from known sums.

    Parameters
    ----------
    n, scatter, mean : float, float, ndarray of shape (s,)
        Number of all rows, and the sum of their squared distances to a point.
    centers : ndarray of shape (a, k, s)
        Of the next round.

    Returns
    -------
    float
        So that clients need not agree on a bound in every round.

    Notes
    -----
    With q = scatter and δ the largest distance of a centre to the point, the triangle inequality
    of ℓ2 gives Σ ‖x - c‖² ≤ (√q + √n δ)² =: b², and Cauchy and Schwarz Σ |x - c| ≤ √n b. Twice the
    largest, for rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.lloyd import bound_of_sums
    >>> bound_of_sums(4.0, 9.0, np.zeros(1), np.array([[[1.0]]]))
    50.0
    """
    reach = float(np.sqrt(np.square(centers - mean).sum(axis=-1).max()))
    b = np.sqrt(scatter) + np.sqrt(n) * reach
    return 2.0 * float(max(n, b * b, np.sqrt(n) * b))
