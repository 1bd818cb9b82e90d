"""Where Lloyd's algorithm starts, and starts again, when nobody may see a row.

k-means++ draws rows as first centres, which nobody may see here. They are drawn from a Gaussian
around the mean of all rows instead. Such starts are worse, so that afterwards they compete: every
few rounds the best one goes on, beside copies of it in which one centre has moved to where rows are
far from theirs (random swaps; P. Fränti, "Efficiency of random swap clustering", Journal of Big
Data 2018). That needs nothing but the counts, means and variances of the clusters.
"""

import numpy as np
from numpy.typing import NDArray

from daskfc.linalg import squared_distances
from daskfc.secure.kmeans.lloyd import Moments

__all__ = ["first_starts", "refilled", "swapped"]

Floats = NDArray[np.float64]

_SPREAD = 0.5  # ours: between always the best pair and any pair


def first_starts(
    mean: Floats, variance: Floats, n_clusters: int, n_init: int, random: np.random.Generator
) -> Floats:
    """Draw the centres of all starts from a Gaussian with the variances of all rows.

    Returns
    -------
    ndarray of shape (n_init, n_clusters, s)

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.starts import first_starts
    >>> first_starts(np.zeros(2), np.ones(2), 3, 5, np.random.default_rng(0)).shape
    (5, 3, 2)
    """
    deviates = random.standard_normal((n_init, n_clusters, len(mean)))
    starts: Floats = mean + np.sqrt(variance) * deviates
    return starts


def _split(
    means: Floats,
    variances: Floats,
    empty: int | np.integer,
    full: int | np.integer,
    random: np.random.Generator,
) -> None:
    """Put a centre beside another, which makes room for it, in place."""
    step = np.sqrt(variances[full]) * random.standard_normal(means.shape[1])
    means[empty] = means[full] + step
    means[full] -= step


def refilled(moments: Moments, random: np.random.Generator) -> Floats:
    """Return the means of all starts, empty clusters put beside those with the largest scatter.

    Returns
    -------
    ndarray of shape (a, k, s)

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.lloyd import moments_of
    >>> from daskfc.secure.kmeans.starts import refilled
    >>> all_in_one = np.array([[2.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    >>> found = moments_of(all_in_one, np.array([[[5.0], [99.0]]]))
    >>> first, second = refilled(found, np.random.default_rng(0)).ravel()
    >>> bool(first + second == 10.0)
    True
    """
    means = moments.means.copy()
    for own, counts, variances, scatters in zip(
        means, moments.counts, moments.variances, moments.scatters, strict=True
    ):
        empty = np.flatnonzero(counts == 0)
        largest = np.argsort(-scatters, kind="stable")
        for one, other in zip(empty, largest, strict=False):
            if counts[other] > 0:
                _split(own, variances, one, other, random)
    return means


def swapped(moments: Moments, n_init: int, random: np.random.Generator) -> Floats:
    """Return one start as it is, and copies of it in which one centre has moved.

    Parameters
    ----------
    moments : Moments
        Of one start, (1, ...).
    n_init : int
        Starts in all, at least 1.
    random : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_init, k, s)
        The centre that moves is one whose rows lie near another centre; it goes into a cluster with
        large scatter. Both are drawn, so that copies differ.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.lloyd import Moments
    >>> from daskfc.secure.kmeans.starts import swapped
    >>> means = np.array([[[0.0], [0.1], [9.0]]])
    >>> best = Moments(np.ones((1, 3)), means, np.array([[[0.0], [0.0], [4.0]]]), np.ones(1))
    >>> swapped(best, 4, np.random.default_rng(0)).shape
    (4, 3, 1)
    """
    means, variances, counts = moments.means[0], moments.variances[0], moments.counts[0]
    starts = np.repeat(refilled(moments, random), n_init, axis=0)
    k = len(means)
    if k == 1:
        return starts
    apart = squared_distances(means, means)
    np.fill_diagonal(apart, np.inf)
    # What removing a centre adds to the inertia, and what splitting a cluster may take from it.
    costs = counts * apart.min(axis=1)
    with np.errstate(divide="ignore"):
        low, high = np.log(costs), np.log(moments.scatters[0])
    for own in starts[1:]:
        # The largest of logarithms with Gumbel noise: a draw in proportion to their squares.
        gone = int(np.argmin(low + random.gumbel(size=k) * _SPREAD))
        scores = high + random.gumbel(size=k) * _SPREAD
        scores[gone] = -np.inf
        _split(own, variances, gone, int(np.argmax(scores)), random)
    return starts
