"""Squared distances that labels depend on, which must be exact enough for the labels to hold."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, RowFactors, View

_EQUAL = 1e-18  # ours: relative to the largest; at smaller distances samples count as equal
_ENTRIES = 1 << 21  # ours: distances at a time, 16 MiB
_WORK = 1 << 29  # ours: most differences of coordinates to compute, in about a second


def smallest_hundredth(squared: Floats) -> float:
    """Return the first percentile of the squared distances above 0; 0.0 if there are none."""
    apart = squared[_apart(squared)]
    return float(np.quantile(apart, 0.01, method="lower")) if apart.size else 0.0


def many_are_equal(squared: Floats) -> bool:
    """Return whether over a hundredth of the squared distances are between equal samples."""
    return bool((~_apart(squared)).sum() > squared.size // 100)


def _apart(squared: Floats) -> NDArray[np.bool_]:
    finite = np.where(np.isfinite(squared), squared, 0.0)
    above: NDArray[np.bool_] = squared > _EQUAL * finite.max(initial=0.0)
    return above & np.isfinite(squared)


def between_nearest_means(view: View, labels: Ints) -> Floats:
    """Return, for each cluster, the squared distance of its mean to the nearest other mean."""
    _, own = np.unique(labels[labels >= 0], return_inverse=True)
    k = int(own.max(initial=-1)) + 1
    if k < 2 or not isinstance(view, FullDistances | DistanceBlocks | RowFactors):
        return np.empty(0)
    members = np.zeros((len(labels), k))
    members[np.flatnonzero(labels >= 0), own] = 1.0
    members /= members.sum(axis=0)
    if isinstance(view, RowFactors):
        means = members.T @ (view.points[:, :-1] if view.told_apart else view.points)
        apart = cdist(means, means, "sqeuclidean")
    else:
        mixed = members.T @ view.dot(members)  # mean squared distances between clusters' samples
        own_spread = np.diag(mixed) / 2
        apart = np.maximum(mixed - own_spread - own_spread[:, None], 0.0)
    np.fill_diagonal(apart, np.inf)
    return np.asarray(apart.min(axis=1))


def between_samples(view: FullDistances | DistanceBlocks, some: Ints) -> Floats:
    """Return the squared distance of each of some samples to the nearest other one of them."""
    if not some.size:
        return np.empty(0)

    def nearest(part: Ints) -> Floats:
        rows = view.block(some[part], some).copy()
        rows[np.arange(part.size), part] = np.inf
        return np.asarray(rows.min(axis=1))

    return _by_parts(nearest, np.arange(some.size), some.size)


def to_kth_nearest(view: FullDistances | RowFactors, k: int) -> Floats:
    """Return squared distances of some evenly chosen samples to their k-th nearest other."""
    kth = min(k, view.n - 1)
    if kth < 1:
        return np.empty(0)
    width = 1 if isinstance(view, FullDistances) else view.points.shape[1]

    def nearest(part: Ints) -> Floats:
        if isinstance(view, FullDistances):
            rows = view.matrix[part]
        else:
            rows = cdist(view.points[part], view.points, "sqeuclidean")
        rows.partition(kth, axis=1)
        return rows[:, kth].copy()

    return _by_parts(nearest, _evenly(view.n, width), view.n)


def to_nearest_apart(points: Floats) -> Floats:
    """Return squared distances of some samples to the nearest different one, or infinity."""

    def nearest(part: Ints) -> Floats:
        rows = cdist(points[part], points, "sqeuclidean")
        rows[rows == 0.0] = np.inf
        return np.asarray(rows.min(axis=1))

    return _by_parts(nearest, _evenly(*points.shape), len(points))


def _by_parts(ask: Callable[[Ints], Floats], some: Ints, width: int) -> Floats:
    """Return `ask` of some samples, few enough at a time for rows of that width."""
    step = max(1, _ENTRIES // width)
    return np.concatenate([ask(some[i : i + step]) for i in range(0, some.size, step)])


def _evenly(n: int, width: int) -> Ints:
    """Return some of n samples, as many as can be compared with all in about a second."""
    most = max(32, _WORK // (n * (width + 1)))
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
