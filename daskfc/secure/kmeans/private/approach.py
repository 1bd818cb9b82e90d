"""What the server makes of noisy sums: where clusters begin, and centres that come nearer.

Rows lie about their mean as the told moments say. Between clusters they differ most, so the first
centres, four for each cluster, cover the plane of the largest variances; after some rounds k-means
of these centres, weighted by their counts, joins them (R. Kannan, S. Vempala, "Spectral
algorithms", 2009, Chapter 2, on why the plane keeps clusters apart). All of it is of told values
alone.

Notation    here      shape, range
            k, q      clusters; dimensions of the plane, min(k, s) at most
            axes      (s, q), orthonormal
            scatter   mean squared distance of a row to the mean of all
            radius    r > 0, to which offsets are shortened
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats
from daskfc.linalg.symmetric import matrix_of
from daskfc.privacy import clip_rows
from daskfc.secure.kmeans.clusters import KMeansPlan, check_enough
from daskfc.secure.kmeans.coreset import k_means
from daskfc.secure.kmeans.messages import KMeansCenters, KMeansReach
from daskfc.secure.kmeans.noise import sensitivity_of
from daskfc.secure.kmeans.private.noise import SEEDING, StartedNoise
from daskfc.secure.sums import Total
from daskfc.seeds import generator, integer_seed

OVER = 4  # ours: first centres for each cluster
_POINTS = 100  # ours: drawn for each of these
_FLOOR = 2.0  # ours: a count below so many of its own σ is taken for noise
_FAR = 1.5  # ours: radius over the root mean squared distance to centres, as far as that is known
_STEP = 0.3  # ours: of that distance, by which a split centre moves to either side
_LEAST = 0.02  # ours: of the scatter, below which noise hides what is left within clusters


@dataclass(frozen=True)
class Approach:
    """The server's state between two rounds."""

    centers: Floats  # (c, s), c = 4 k in the start, then k
    radius: float
    mean: Floats  # (s,)
    axes: Floats
    scatter: float
    n_rows: float


def started(counts: Total, total: Total, plan: KMeansPlan, noise: StartedNoise) -> Approach:
    """Return first centres that cover the plane of the largest told variances."""
    n, s, R = float(np.rint(counts.values[0, 0])), len(counts.values), noise.largest_norm
    check_enough(n, plan.n_clusters)
    told = total.values.ravel()
    mean = clip_rows(told[None, :s] / (R * n), R)[0][0]
    covariance = matrix_of(told[s:]) / n - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    # The largest eigenvalue of the noise alone, whose entries off the diagonal have σ / √2.
    floor = math.sqrt(2.0 * s) * noise.moments_sigma / n
    q = min(plan.n_clusters, s)
    kept = np.flatnonzero(values > floor)[-q:]
    kept = kept if len(kept) else np.array([s - 1])
    deviations = np.sqrt(np.clip(values[kept], floor, R**2))
    m = OVER * plan.n_clusters
    random = generator(plan.seed, "k-means under noise")
    points = random.standard_normal((_POINTS * m, len(kept))) * deviations
    seed = integer_seed(plan.seed, "k-means under noise")
    first, _ = k_means(points, None, replace(plan, n_clusters=m), seed, 1)
    scatter = min(max(float(np.trace(covariance)), float(np.sum(deviations**2))), R**2)
    state = Approach(first, _FAR * math.sqrt(scatter), mean, vectors[:, kept], scatter, n)
    return replace(state, centers=clip_rows(mean + first @ state.axes.T, R)[0])


def reach_of(state: Approach) -> KMeansReach:
    """Send all clients the centres of the next round."""
    return KMeansReach(state.centers, state.radius)


def approached(
    state: Approach, total: Total, plan: KMeansPlan, noise: StartedNoise, number: int
) -> Approach:
    """Return the state after a round, `number` of which counts from 0.

    After the last round of the start its centres are joined to `n_clusters`.
    """
    R, r = noise.largest_norm, state.radius
    sigma = noise.multiplier * sensitivity_of(r)
    counts = total.values[:, 0] / r
    there = counts >= max(1.0, _FLOOR * sigma / r)
    means = state.centers.copy()
    means[there] += total.values[there, 1:] / counts[there, None]
    seeding = number < SEEDING
    if number + 1 == SEEDING and there.sum() >= plan.n_clusters:
        means, counts = _joined(state, means[there], counts[there], plan)
        there = np.ones(len(means), dtype=bool)
    elif number + 1 == SEEDING:  # noise hides nearly all
        k = plan.n_clusters
        means, counts, there = means[:k], counts[:k], there[:k]
    elif seeding:
        means = state.mean + (means - state.mean) @ state.axes @ state.axes.T
    within = _within(state, means[there], counts[there], sigma)
    if number + 1 < SEEDING + noise.rounds:
        _split(means, counts, there, _STEP * within, generator(plan.seed, "k-means split", number))
    return replace(state, centers=clip_rows(means, R)[0], radius=min(_FAR * within, 2.0 * R))


def _joined(
    state: Approach, means: Floats, counts: Floats, plan: KMeansPlan
) -> tuple[Floats, Floats]:
    """Return the weighted means of centres that belong together in the plane, and their counts."""
    plane = (means - state.mean) @ state.axes
    seed = integer_seed(plan.seed, "k-means under noise", "joined")
    middles, _ = k_means(plane, counts, plan, seed, plan.n_init)
    square = np.square(plane[:, None] - middles).sum(axis=2)
    member = (square.argmin(axis=1) == np.arange(len(middles))[:, None]) * counts
    whole = member.sum(axis=1)
    found = state.mean + middles @ state.axes.T
    full = whole > 0
    found[full] = member[full] @ means / whole[full, None]
    return found, whole


def _within(state: Approach, means: Floats, counts: Floats, sigma: float) -> float:
    """Return the root mean squared distance of rows to their centres, less what noise adds."""
    s = means.shape[1]
    between = float((counts * np.square(means - state.mean).sum(axis=1)).sum())
    noise = float((s * sigma**2 / counts).sum())
    left = state.scatter - max(between - noise, 0.0) / state.n_rows
    return math.sqrt(max(left, _LEAST * state.scatter))


def _split(
    means: Floats,
    counts: Floats,
    there: NDArray[np.bool_],
    step: float,
    random: np.random.Generator,
) -> None:
    """Move centres without rows beside those with most, in place."""
    order = [int(i) for i in np.argsort(-counts, kind="stable") if there[i]]
    for empty, full in zip(np.flatnonzero(~there), order, strict=False):
        # To both sides: the border between the two then goes through the former mean.
        way = random.standard_normal(means.shape[1])
        way *= step / float(np.linalg.norm(way))
        means[empty] = means[full] + way
        means[full] -= way


def ended(state: Approach) -> KMeansCenters:
    """Return the centres; the inertia is not released."""
    return KMeansCenters(state.centers, math.nan)
