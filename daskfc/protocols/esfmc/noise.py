"""Gaussian noise on shared features: (ε, δ) of what a client sends of one sample.

Rows are divided by their norms, so that replacing a sample moves its row by at most 2. The claim is
for a sample's own row under a fixed network: it does not cover what the network and its units,
computed from the samples, reveal. The paper's Lemma C.11 claims more, for Langevin dynamics without
clipping, which does not hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfc.arrays import Floats
from daskfc.coding import SecretKey
from daskfc.federation.steps.rules import Announced, Rule
from daskfc.privacy import (
    Noised,
    add_gaussian_noise,
    asked_noise,
    input_digest,
    multiplier_of_each,
    noise_label,
)

SENSITIVITY = 2.0


@dataclass(frozen=True)
class FeatureNoise:
    """Noise on the shared rows in every round, with σ of `multiplier` times `SENSITIVITY`."""

    multiplier: float
    delta: float

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on every entry; rows have norm 1."""
        return self.multiplier * SENSITIVITY

    def applied(self, features: Floats, secret: SecretKey, number: int) -> Noised:
        """Return rows of norm 1 with noise, the same if the party repeats the step of a round."""
        norms = np.linalg.norm(features, axis=1, keepdims=True)
        rows = features / np.where(norms > 0, norms, 1.0)
        label = noise_label(
            "ESFMC features",
            sigma=self.sigma,
            clip=1.0,
            inputs=input_digest(features),
            round=number,
        )
        noisy = add_gaussian_noise(rows, self.sigma, stream=secret.derive(*label).stream())
        return Noised(noisy, self.multiplier)


def noise_of(asked: Mapping[str, Any] | None, *, rounds: int) -> FeatureNoise | None:
    """Return the noise for the `noise` parameter of `ESFMC`; a row is released `rounds` times."""
    given = asked_noise(asked, "ESFMC")
    if given is None:
        return None
    return FeatureNoise(multiplier_of_each(given, rounds), float(given["delta"]))


def _is_enough(noise: Any, asked: Announced) -> bool:
    # the default number of rounds depends on the data; the party counts them
    params = asked.parameters
    least = noise_of(params.get("noise"), rounds=params["rounds"] or 1)
    if least is None or not isinstance(noise, FeatureNoise):
        return noise is least
    return noise.multiplier >= least.multiplier


ANNOUNCED = Rule("the noise that was announced, or stronger", _is_enough)
"""Of what a client is asked to add: less would be less than its site agreed to."""
