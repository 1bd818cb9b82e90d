"""Lloyd's algorithm with differential privacy: noise in the sums of a fixed number of rounds.

Paper       A. Blum, C. Dwork, F. McSherry, K. Nissim, "Practical privacy: the SuLQ framework", PODS
            2005, Section 5; with Gaussian noise, shared among the clients.
Departures  (1) Neighbours replace one row, since the ledger's events do; numbers of rows are then
            public. (2) Counts are summed in units of the largest norm, which costs nothing: see
            `sensitivity_of`. (3) First centres cover the ball in which rows must lie.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats
from daskfc.checks import check_params, integer, real
from daskfc.coding import SecretKey
from daskfc.federation.steps.rules import Announced, Rule, at_most_honest, takes
from daskfc.privacy import Noised, clip_rows, input_digest, noise_label, with_noise_share
from daskfc.secure.kmeans.lloyd import nearest_labels
from daskfc.secure.kmeans.messages import KMeansCenters
from daskfc.secure.sums import Total
from daskfc.seeds import generator, integer_seed

_FLOOR = 2.0  # ours: a count below this many of its own σ is taken for noise
_STEP = 0.05  # ours: of the largest norm, by which a split centre moves to either side
_POINTS = 100  # ours: of the ball, for each centre


@dataclass(frozen=True)
class LloydNoise:
    """The noise that protects the sums of k-means, and the number of their releases.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise of one round over the sensitivity, above 0. From
        ``daskfc.privacy.noise_multiplier(epsilon, delta, rounds)``.
    largest_norm : float
        R: rows are shortened to this Euclidean norm, above 0. Must not depend on the rows.
    rounds : int
        Number of releases, at least 1; no round is skipped.

    Raises
    ------
    InvalidInput
        For a value outside its range.

    Examples
    --------
    >>> from daskfc.privacy import noise_multiplier
    >>> from daskfc.secure.kmeans import LloydNoise
    >>> noise = LloydNoise(noise_multiplier(1.0, 1e-5, 5), largest_norm=1.0, rounds=5)
    >>> round(noise.sigma, 2)
    16.68
    """

    multiplier: float
    largest_norm: float
    rounds: int = 5

    def __post_init__(self) -> None:
        check_noise(self)

    @property
    def sigma(self) -> float:
        """Standard deviation of every entry of a round's sums, in the unit of the rows."""
        return self.multiplier * sensitivity_of(self.largest_norm)


def check_noise(noise: Any) -> None:
    """Refuse (InvalidInput) a multiplier, a largest norm or a number of rounds out of range."""
    ranges = {"multiplier": real(above=0), "largest_norm": real(above=0), "rounds": integer(low=1)}
    check_params(type(noise).__name__, vars(noise), ranges)


def sensitivity_of(largest_norm: float) -> float:
    """Return 2 R, the most by which one replaced row moves sums by cluster, in Euclidean norm.

    Let x become y, ‖x‖, ‖y‖ ≤ R, other rows keep their (public) centres. In one cluster, ‖y - x‖ ≤
    2 R; in two, lines move by (-R, -x) and (R, y), ‖x‖² + ‖y‖² + 2 R² ≤ 4 R². Both are reached.
    Counts in a unit above R would raise it; in one below R they would be noisier without need.
    x and y are rows, as in `sums_in_ball`, or offsets from centres.
    """
    return 2.0 * largest_norm


def sums_in_ball(rows: Floats, centers: Floats, largest_norm: float) -> Floats:
    """Return R times counts, and sums of rows shortened to norm R, by cluster, (k, 1 + s)."""
    k, s = centers.shape
    total = np.zeros((k, 1 + s))
    if len(rows):
        shortened = clip_rows(rows, largest_norm)[0]
        member = (nearest_labels(shortened, centers) == np.arange(k)[:, None]).astype(np.float64)
        total[:, 0] = largest_norm * member.sum(axis=1)
        total[:, 1:] = member @ shortened
    return total


def centers_in_ball(n_clusters: int, n_features: int, largest_norm: float, seed: int) -> Floats:
    """Return first centres, (n_clusters, n_features): k-means of points uniform in the ball."""
    random = generator(seed, "k-means in a ball")
    points = random.standard_normal((_POINTS * n_clusters, n_features))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points *= largest_norm * random.random((len(points), 1)) ** (1.0 / n_features)
    model = KMeans(n_clusters, n_init=1, random_state=integer_seed(seed, "k-means in a ball"))
    with threadpool_limits(limits=1):
        model.fit(points)
    return np.asarray(model.cluster_centers_, dtype=np.float64)


def _is_enough(noise: Any, asked: Announced) -> bool:
    # where an epsilon is announced, the party counts the releases against it
    announced = asked.parameters.get("noise") or {}
    return bool(noise.multiplier >= (announced.get("multiplier") or 0.0))


ANNOUNCED = Rule("noise with the multiplier that was announced, or a larger one", _is_enough)
"""Of the noise that a client is asked to add."""


@takes(noise=ANNOUNCED, n_shares=at_most_honest)
def noisy_sums(
    rows: Floats,
    centers: KMeansCenters,
    noise: LloydNoise,
    n_shares: int,
    number: int,
    secret: SecretKey,
) -> Noised:
    """Return a client's part of a round's sums, (k, 1 + s), with its share of the noise."""
    values = sums_in_ball(rows, centers.centers, noise.largest_norm)
    label = noise_label(
        "k-means sums",
        sigma=noise.sigma,
        clip=noise.largest_norm,
        inputs=input_digest(rows, centers.centers, n_shares),
        round=number,
    )
    return with_noise_share(
        values,
        sigma=noise.sigma,
        sensitivity=sensitivity_of(noise.largest_norm),
        n_shares=n_shares,
        stream=secret.derive(*label).stream(),  # a repeated step is no second release
    )


def updated(
    centers: KMeansCenters, total: Total, noise: LloydNoise, seed: int, number: int
) -> KMeansCenters:
    """Return the next centres from noisy sums, (k, 1 + s); `number` of the round counts from 0.

    A centre with a noisy count below 1 or twice its standard deviation moves beside one with a
    large count, or stays after the last round. Centres outside the ball are put back.
    """
    R = noise.largest_norm
    counts = total.values[:, 0] / R
    there = counts >= max(1.0, _FLOOR * noise.sigma / R)
    means = centers.centers.copy()
    means[there] = total.values[there, 1:] / counts[there, None]
    if number + 1 < noise.rounds:
        random = generator(seed, "k-means on noisy sums", number)
        order = np.argsort(-counts, kind="stable")
        for empty, full in zip(np.flatnonzero(~there), order[: there.sum()], strict=False):
            # To both sides: the border between the two then goes through the former mean.
            step = random.standard_normal(means.shape[1])
            step *= _STEP * R / float(np.linalg.norm(step))
            means[empty] = means[full] + step
            means[full] -= step
    return KMeansCenters(clip_rows(means, R)[0], math.nan)
