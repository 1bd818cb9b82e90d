"""Differential privacy of a fit: Gaussian noise on the summed Gram matrices, without clipping.

A sample contributes w wᵀ with |w|² ≤ 2: random Fourier features have |a|² / D ≤ 2, and rows of
B_t+1 = W_t C are no longer than those of W_t, since C has orthonormal columns times numbers below
1. So replacing a sample changes the sum by √(|w|⁴ + |w'|⁴) ≤ 2 √2 in Frobenius norm, which is the
norm of the packed triangle.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daskfc.arrays import Floats
from daskfc.checks import integer
from daskfc.coding import SecretKey
from daskfc.federation.steps.rules import Announced, Rule
from daskfc.privacy import (
    REACH_OF_NOISE,
    Noised,
    asked_noise,
    multiplier_of_each,
    noise_label,
    with_noise_share,
)

SENSITIVITY = 2.0 * math.sqrt(2.0)


@dataclass(frozen=True)
class GramNoise:
    """Gaussian noise, in clients' shares, with σ of each sum `multiplier` times `SENSITIVITY`."""

    multiplier: float

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every entry of the packed sum."""
        return self.multiplier * SENSITIVITY

    def reach(self, n_shares: int) -> float:
        """Return a bound on the entries of a client's share."""
        return REACH_OF_NOISE * self.sigma / math.sqrt(n_shares)

    def on_gram(
        self, values: Floats, secret: SecretKey, inputs: str, number: int, n_shares: int
    ) -> Noised:
        """Return a packed Gram matrix with the client's share of the noise of iteration t."""
        label = noise_label(
            "FK k-means Gram matrix", sigma=self.sigma, clip=None, inputs=inputs, round=number
        )
        return with_noise_share(
            values,
            sigma=self.sigma,
            sensitivity=SENSITIVITY,
            n_shares=n_shares,
            stream=secret.derive(*label).stream(),
        )


@dataclass(frozen=True)
class Noise:
    """A fit's noise: the same multiplier in every sum, also in those of `rounds` of k-means."""

    multiplier: float
    delta: float
    rounds: int

    @property
    def gram(self) -> GramNoise:
        """The noise of the iterations."""
        return GramNoise(self.multiplier)


def noise_of(asked: Mapping[str, Any] | None, *, iterations: int) -> Noise | None:
    """Return the noise for the `noise` parameter of `FederatedKernelKMeans`, for T iterations."""
    given = asked_noise(asked, "FederatedKernelKMeans", {"rounds": integer(low=1)})
    if given is None:
        return None
    rounds = int(given.get("rounds", 5))
    multiplier = multiplier_of_each(given, iterations + rounds)
    return Noise(multiplier, float(given["delta"]), rounds)


def _is_enough(noise: Any, asked: Announced) -> bool:
    least = noise_of(asked.parameters.get("noise"), iterations=asked.parameters["iterations"])
    return least is not None and noise.multiplier >= least.multiplier


ANNOUNCED = Rule("the noise that was announced, or stronger", _is_enough)
"""Of what a client is asked to add: less would be less than its site agreed to."""
