"""The gap statistic: how much tighter k clusters are than those of samples without clusters.

Paper       Tibshirani, Walther, Hastie, "Estimating the number of clusters in a data set via the
            gap statistic", Journal of the Royal Statistical Society B 63, 2001.
Notation    paper      here            shape, range
            n          len(points)     int >= 1
            W_k        dispersion      float >= 0, Σ |x - mean of x's cluster|²
            B          REFERENCES      20
            s_k        error           sd √(1 + 1 / B) of the references' log W_k
Departures  (1) References are drawn in the box of the principal axes, choice (b), and are not
                rotated back, on which clusters do not depend. They depend on the box's widths only,
                so a server that knows the samples up to a motion draws the same.
            (2) W_k is at least 2^-40 of W_1: coordinates have rounding errors, and copies of k rows
                would otherwise have no logarithm.
"""

import math

import numpy as np
import scipy.linalg

from daskfc.arrays import Floats, Ints
from daskfc.clustering.clusterers.kmeans import KMeans, best_partition
from daskfc.seeds import generator

REFERENCES = 20
"""Ours, the paper's B: s_k is then within 2.5 % of that of any number of them."""

_LEAST = 2.0**-40  # ours: of W_1, so that copies of k rows have a logarithm


def box_of(points: Floats) -> Floats:
    """Return the widths (d,) of samples (n, d) along their principal axes, largest spread first."""
    centred = points - points.mean(axis=0)
    _, axes = scipy.linalg.eigh(centred.T @ centred)
    along = centred @ axes[:, ::-1]
    return np.asarray(np.ptp(along, axis=0))


def reference(widths: Floats, n: int, seed: int, number: int) -> Floats:
    """Return n samples, (n, d), uniform over a box; `number` distinguishes the references."""
    # axis by axis, so that an axis without width does not change those before it
    chance = generator(seed, "gap", number).random((widths.size, n))
    drawn: Floats = (chance * widths[:, None]).T
    return np.ascontiguousarray(drawn)


def dispersion(points: Floats, labels: Ints) -> float:
    """Return W_k, the sum of squared distances of samples (n, d) to their clusters' means."""
    parts = (points[labels == cluster] for cluster in np.unique(labels))
    return float(sum(np.square(part - part.mean(axis=0)).sum() for part in parts))


def gap_statistic(points: Floats, k: int, clusterer: KMeans, seed: int) -> tuple[float, float]:
    """Return the gap statistic of k clusters, and its standard error, the paper's s_k.

    The gap is the mean log W_k of the references, minus that of the samples; infinite for equal
    samples, or fewer than k. Choose the smallest k with ``gap(k) >= gap(k + 1) - error(k + 1)``.
    """
    n = len(points)
    total = dispersion(points, np.zeros(n, dtype=np.int64))
    if not total > 0 or k > n:
        return math.inf, 0.0

    def log_within(rows: Floats, least: float) -> float:
        found = best_partition(
            rows,
            k,
            seed,
            n_init=clusterer.n_init,
            max_iter=clusterer.max_iter,
            owner=clusterer.name,
            threads=1,  # many small fits: a second thread costs more time than it saves
        )
        return math.log(max(dispersion(rows, found.labels), least))

    own = log_within(points, _LEAST * total)
    widths = box_of(points)
    drawn = [
        log_within(reference(widths, n, seed, number), _LEAST * total)
        for number in range(REFERENCES)
    ]
    error = float(np.std(drawn)) * math.sqrt(1.0 + 1.0 / REFERENCES)
    return float(np.mean(drawn)) - own, error
