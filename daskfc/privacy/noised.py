"""Arrays that bear noise already, with what the ledger says of it."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Noised", "Part", "noise_of_part"]


@dataclass(frozen=True)
class Noised:
    """An array with Gaussian noise in it already, on its way to another party.

    Parameters
    ----------
    values : ndarray of float64
        As they are sent.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity of the values; for the ledger.
    """

    values: NDArray[np.float64]
    noise_multiplier: float


Part: TypeAlias = "NDArray[np.float64] | Noised"


def noise_of_part(part: Part) -> float:
    """Return the noise multiplier of an array, infinite without noise."""
    return part.noise_multiplier if isinstance(part, Noised) else math.inf
