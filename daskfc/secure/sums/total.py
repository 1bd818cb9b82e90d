"""What every way of summing gives: one signature, whatever protects the parts."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.errors import InvalidInput
from daskfc.federation import Local, PerClient

__all__ = ["Aggregation", "Noised", "Part", "Total", "as_matrix", "noise_of_part"]


@dataclass(frozen=True)
class Total:
    """A sum, as the server holds it.

    Parameters
    ----------
    values : ndarray of float64, shape (a, b)
        The sum.
    error_bound : float
        How far an entry may be off by rounding to fixed point; 0 when nothing was rounded.
    terms : tuple of str
        Whose arrays are in it.
    """

    values: NDArray[np.float64]
    error_bound: float
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Noised:
    """An array with Gaussian noise in it already, on its way into a sum.

    Parameters
    ----------
    values : ndarray of float64
        As it is to be summed.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity of the values; for the ledger.
    """

    values: NDArray[np.float64]
    noise_multiplier: float


Part: TypeAlias = "NDArray[np.float64] | Noised"


class Aggregation(ABC):
    """A way in which the server learns the sum of the clients' arrays."""

    @abstractmethod
    def sum(self, parts: PerClient[Local], *, max_abs: float) -> Local:
        """Sum one array of each client.

        Parameters
        ----------
        parts : PerClient of Local
            Arrays of one shape, (a,) or (a, b), of float64, each at its client; `Noised` ones go
            into the ledger with their noise.
        max_abs : float
            Public bound on the magnitude of every entry of every client; it fixes the precision
            of sums in fixed point, and a larger entry is refused at its client.

        Returns
        -------
        Local
            At the server: a `Total`.
        """


def noise_of_part(part: Part) -> float:
    """Return the noise multiplier of an array, infinite without noise."""
    return part.noise_multiplier if isinstance(part, Noised) else math.inf


def as_matrix(part: Part) -> NDArray[np.float64]:
    """Return a vector as one column, a matrix as it is."""
    values = np.asarray(part.values if isinstance(part, Noised) else part, dtype=np.float64)
    if values.ndim not in (1, 2):
        raise InvalidInput(
            f"an array to be summed must have one or two axes; got {values.ndim}. Reshape it."
        )
    return values.reshape(len(values), -1)
