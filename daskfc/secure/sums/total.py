"""The interface of every secure sum: `Aggregation`, and the `Total` that it gives the server."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.coding import FixedPoint
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Inline, Local, PerClient, Sent
from daskfc.privacy import Noised, Part
from daskfc.secure.sums.messages import Magnitude

OwnParts: TypeAlias = PerClient[Local] | PerClient[Inline]  # of clients, where they are

_LARGEST = 2.0**1023  # the largest power of two in float64


@dataclass(frozen=True)
class Total:
    """A sum at the server.

    Parameters
    ----------
    values : ndarray of float64, shape (a, b)
        The sum.
    error_bound : float
        Largest error of an entry by rounding to fixed point; 0 when nothing was rounded.
    terms : tuple of str
        The clients whose arrays are in it.
    """

    values: NDArray[np.float64]
    error_bound: float
    terms: tuple[str, ...]

    @classmethod
    def decoded(
        cls, values: NDArray[np.uint64], fraction_bits: int, terms: tuple[str, ...]
    ) -> "Total":
        """Return a sum of fixed-point numbers with the bits that the clients say."""
        ring = FixedPoint(0.0, len(terms), fraction_bits)
        return cls(ring.decode(values), ring.error_bound, terms)


class Aggregation(ABC):
    """A way in which the server learns the sum of the clients' arrays.

    Parameters
    ----------
    federation : Federation
        In a run.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def sum(self, parts: OwnParts, *, max_abs: float | None = None) -> Local[Total]:
        """Sum one array of each client.

        Parameters
        ----------
        parts : PerClient of Local or Inline
            Arrays of one shape, (a,) or (a, b), of float64, each at its client; the ledger records
            the noise of `Noised` ones.
        max_abs : float, optional
            Public bound on the magnitude of every entry of every client; it fixes the precision
            of sums in fixed point, and a client refuses an entry above it, as rounded up to a
            power of two. Without it the clients agree on one: each reports its largest magnitude,
            so rounded.

        Returns
        -------
        Local
            At the server: a `Total`.
        """
        if max_abs is not None:
            return self._sum(parts, max_abs)
        if any(isinstance(part, Inline) for part in parts.values()):  # it is used twice here
            parts = self._federation.on_clients(itself, parts, clients=tuple(parts))
        bound, those = self.agree(parts)
        return self._sum(parts.only(those), bound)

    def agree(self, parts: OwnParts) -> tuple[float, tuple[str, ...]]:
        """Return a power of two above every magnitude in the clients' arrays, and who answered."""
        told = self.arrived(self._federation.ask(magnitude, parts, clients=tuple(parts)))
        return self._federation.publish(largest, told).bound, tuple(told)

    def prepare(self) -> None:  # noqa: B027 - a sum in the clear needs nothing
        """Start the key agreement of the first sum now, without waiting for it.

        Otherwise the first sum starts it; between sites it takes three round trips, which this
        call lets overlap with other messages.
        """

    @property
    def n_noise_shares(self) -> int:
        """Least number of clients in a sum whose shares of noise are hidden from the server.

        Where each adds Gaussian noise of variance σ² / `n_noise_shares`, the part of the sum's
        noise that server and announced colluders do not know has a variance of σ² or more. It is
        one where the server sees every array: each array then needs the whole noise.
        """
        return 1

    @abstractmethod
    def _sum(self, parts: OwnParts, max_abs: float) -> Local[Total]:
        """Sum arrays whose entries are within a bound."""

    def arrived(self, sent: PerClient[Sent]) -> PerClient[Any]:
        """Return the messages that the server uses: all of them."""
        return sent


def itself(part: Part) -> Part:
    """Return an array as it is, as a step that keeps it at its client."""
    return part


def magnitude(part: Part) -> Magnitude:
    """Report to the server the largest magnitude in an array, rounded up to a power of two."""
    found = float(np.abs(as_matrix(part)).max(initial=0.0))
    if not found <= _LARGEST:
        raise InvalidInput(
            "an array to be summed must be finite, and at most 2**1023 in magnitude. "
            "Mend what computes it."
        )
    return Magnitude(_power_of_two(found))


def _power_of_two(least: float) -> float:
    """Return the smallest power of two that is no less than a number; 0 for 0."""
    mantissa, exponent = math.frexp(least)  # exact, where a logarithm may fall short
    return math.ldexp(1.0, exponent - (mantissa == 0.5)) if least > 0 else 0.0


def largest(parts: Mapping[str, Magnitude]) -> Magnitude:
    """Report to the caller the largest of all magnitudes, as the bound of the sum."""
    return Magnitude(max(part.bound for part in parts.values()))


def encoded(part: Part, ring: FixedPoint) -> NDArray[np.uint64]:
    """Return an array in fixed point; OverflowRefused beyond the bound, as a power of two.

    By refusals at bounds between these, which a caller chooses, it would learn what is in the
    array; powers of two are what `magnitude` reports.
    """
    wide = FixedPoint(_power_of_two(ring.max_abs), ring.n_terms, ring.fraction_bits)
    return np.ascontiguousarray(wide.encode(as_matrix(part)))


def as_matrix(part: Part) -> NDArray[np.float64]:
    """Return a vector as one column, a matrix as it is; either may be empty."""
    values = np.asarray(part.values if isinstance(part, Noised) else part, dtype=np.float64)
    if values.ndim not in (1, 2):
        raise InvalidInput(
            f"an array to be summed must have one or two axes; got {values.ndim}. Reshape it."
        )
    return values if values.ndim == 2 else values[:, None]
