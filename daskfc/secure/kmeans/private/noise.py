"""Sums of a k-means whose start is found under noise, too: what clients add, and how much noise.

Paper       A. Blum, C. Dwork, F. McSherry, K. Nissim, "Practical privacy: the SuLQ framework", PODS
            2005, Section 5; offsets from centres, shortened to a radius, as in A. Diaa, T.
            Humphries, F. Kerschbaum, "FastLloyd", USENIX Security 2025 (arXiv 2405.02437).
Departures  (1) Gaussian noise, shared among the clients; neighbours replace one row, so numbers of
            rows are public. (2) Radii follow from sums that were told before. (3) Counts are summed
            in units of the radius, which costs nothing: see `sensitivity_of`.
"""

import math
from dataclasses import dataclass

import numpy as np

from daskfc.arrays import Floats
from daskfc.coding import SecretKey
from daskfc.federation.steps.rules import at_most_honest, takes
from daskfc.linalg.symmetric import packed
from daskfc.privacy import Noised, clip_rows, input_digest, noise_label, with_noise_share
from daskfc.secure.kmeans.lloyd import check_rows, nearest_labels
from daskfc.secure.kmeans.messages import KMeansReach
from daskfc.secure.kmeans.noise import ANNOUNCED, check_noise, sensitivity_of

SEEDING = 3  # ours: rounds with more centres than clusters
_BLOCK = 4096  # ours: rows at a time


@dataclass(frozen=True)
class StartedNoise:
    """The noise of a k-means that looks for its start under noise, too.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise of one release over the sensitivity, above 0. From
        ``daskfc.privacy.noise_multiplier(epsilon, delta, releases)``.
    largest_norm : float
        R: rows are shortened to this Euclidean norm, above 0. Must not depend on the rows.
    rounds : int
        Rounds of Lloyd's algorithm after the start, at least 1; none is skipped.

    Raises
    ------
    InvalidInput
        For a value outside its range.

    Examples
    --------
    >>> from daskfc.secure.kmeans import StartedNoise
    >>> StartedNoise(10.0, largest_norm=1.0, rounds=3).releases
    7
    """

    multiplier: float
    largest_norm: float
    rounds: int = 3

    def __post_init__(self) -> None:
        check_noise(self)

    @property
    def releases(self) -> int:
        """Number of releases: one of moments, then the rounds of the start and of Lloyd's."""
        return 1 + SEEDING + self.rounds

    @property
    def moments_sensitivity(self) -> float:
        """3/√2 R², the most by which one replaced row moves `moments_in_ball`.

        With R = 1, ‖x‖ = a, ‖y‖ = b and u = x·y it is a² + b² + a⁴ + b⁴ - 2 u - 2 u², squared. That
        is largest at u = -1/2, or at u = -a b where a b is below a half, and there for a = b = 1.
        """
        return 3.0 / math.sqrt(2.0) * self.largest_norm**2

    @property
    def moments_sigma(self) -> float:
        """Standard deviation of every entry of the moments."""
        return self.multiplier * self.moments_sensitivity


def moments_in_ball(rows: Floats, largest_norm: float) -> Floats:
    """Return R times the sum of rows shortened to norm R, then Σ x xᵀ packed, one after another."""
    s = rows.shape[1]
    sums, squares = np.zeros(s), np.zeros((s, s))
    for start in range(0, len(rows), _BLOCK):
        block = clip_rows(rows[start : start + _BLOCK], largest_norm)[0]
        sums += block.sum(axis=0)
        squares += block.T @ block
    return np.concatenate([largest_norm * sums, packed(squares)])


def offsets_within(rows: Floats, centers: Floats, largest_norm: float, radius: float) -> Floats:
    """Return r times counts, and sums of offsets shortened to norm r, by cluster, (k, 1 + s)."""
    k, s = centers.shape
    total = np.zeros((k, 1 + s))
    for start in range(0, len(rows), _BLOCK):
        block = clip_rows(rows[start : start + _BLOCK], largest_norm)[0]
        nearest = nearest_labels(block, centers)
        member = (nearest == np.arange(k)[:, None]).astype(np.float64)
        total[:, 0] += radius * member.sum(axis=1)
        total[:, 1:] += member @ clip_rows(block - centers[nearest], radius)[0]
    return total


@takes(noise=ANNOUNCED, n_shares=at_most_honest)
def noisy_moments(rows: Floats, noise: StartedNoise, n_shares: int, secret: SecretKey) -> Noised:
    """Return a client's part of `moments_in_ball`, with its share of the noise."""
    rows = check_rows(rows)
    inputs = input_digest(rows, n_shares)
    label = noise_label(
        "k-means moments", sigma=noise.moments_sigma, clip=noise.largest_norm, inputs=inputs
    )
    return with_noise_share(
        moments_in_ball(rows, noise.largest_norm),
        sigma=noise.moments_sigma,
        sensitivity=noise.moments_sensitivity,
        n_shares=n_shares,
        stream=secret.derive(*label).stream(),
    )


@takes(noise=ANNOUNCED, n_shares=at_most_honest)
def noisy_offsets(
    rows: Floats,
    told: KMeansReach,
    noise: StartedNoise,
    n_shares: int,
    number: int,
    secret: SecretKey,
) -> Noised:
    """Return a client's part of a round's `offsets_within`, with its share of the noise."""
    sensitivity = sensitivity_of(told.radius)
    label = noise_label(
        "k-means offsets",
        sigma=noise.multiplier * sensitivity,
        clip=noise.largest_norm,
        inputs=input_digest(rows, told.centers, told.radius, n_shares),
        round=number,
    )
    return with_noise_share(
        offsets_within(rows, told.centers, noise.largest_norm, told.radius),
        sigma=noise.multiplier * sensitivity,
        sensitivity=sensitivity,
        n_shares=n_shares,
        stream=secret.derive(*label).stream(),  # a repeated step is no second release
    )
