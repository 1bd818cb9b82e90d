"""Fixed-point numbers as integers modulo 2**64, for exact masked sums."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats
from daskfc.coding.residues.scratch import scratch
from daskfc.errors import InvalidInput, OverflowRefused

_CHUNK = 1 << 15  # ours: numbers; a chunk and its results stay in a 1 MiB L2 cache


@dataclass(frozen=True)
class FixedPoint:
    """Fixed-point numbers, integers round(2**q x), whose sum over the parties cannot overflow.

    `max_abs` is a public bound on every entry of every party; OverflowRefused if a sum could reach
    2**63. Each entry is rounded once: the error of a sum is at most n_terms 2**-(q + 1).
    """

    max_abs: float
    n_terms: int
    fraction_bits: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_abs) and self.max_abs >= 0):
            raise InvalidInput(
                f"the 'max_abs' of FixedPoint must be finite and at least 0; got {self.max_abs}."
            )
        if self.n_terms < 1:
            raise InvalidInput(
                f"the 'n_terms' of FixedPoint must be at least 1; got {self.n_terms}."
            )
        if not -900 <= self.fraction_bits <= 900:
            raise InvalidInput(
                "the 'fraction_bits' of FixedPoint must be in [-900, 900]; "
                f"got {self.fraction_bits}."
            )
        if self.n_terms * (math.ldexp(self.max_abs, self.fraction_bits) + 0.5) >= 2.0**63:
            raise OverflowRefused(
                f"the sum of {self.n_terms} numbers of magnitude up to {self.max_abs:.6g} with "
                f"{self.fraction_bits} fraction bits does not fit 64 bits. Use fewer fraction bits."
            )

    @classmethod
    def for_bound(cls, max_abs: float, *, n_terms: int) -> "FixedPoint":
        """Return the numbers with the most fraction bits that cannot overflow."""
        if not (math.isfinite(max_abs) and max_abs >= 0) or n_terms < 1:
            return cls(max_abs, n_terms, 0)  # which refuses
        room = 62.0 - math.log2(n_terms)  # one bit for roundings and for this rounding
        exponent = math.frexp(max_abs)[1]  # max_abs < 2**exponent; 0 for 0
        return cls(max_abs, n_terms, max(-900, min(900, math.floor(room) - exponent)))

    @property
    def error_bound(self) -> float:
        """Largest error of a sum, before its one rounding to float64."""
        return math.ldexp(self.n_terms, -(self.fraction_bits + 1))

    def encode(self, values: Floats) -> NDArray[np.uint64]:
        """Return round(2**q values) modulo 2**64; refuse beyond `max_abs`, without a count."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        scale = math.ldexp(1.0, self.fraction_bits)  # products are exact: ldexp, five times as fast
        encoded = np.empty(np.shape(values), dtype=np.int64)
        flat, to = values.reshape(-1), encoded.reshape(-1)
        beyond = False
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK]
            low, high = float(part.min()), float(part.max())
            if not (math.isfinite(low) and math.isfinite(high)):  # one NaN makes both NaN
                raise InvalidInput(
                    f"some of {values.size} numbers to be summed are NaN or infinite; every number "
                    "must be finite. Look where they come from."
                )
            if beyond := beyond or max(-low, high) > self.max_abs:
                continue  # the other chunks are checked for NaN
            scaled = scratch("fixed point", part.shape, np.float64)
            np.rint(np.multiply(part, scale, out=scaled), out=scaled)
            np.copyto(to[start : start + _CHUNK], scaled, casting="unsafe")
        if beyond:
            raise OverflowRefused(
                f"some of {values.size} numbers to be summed exceed the agreed magnitude of "
                f"{self.max_abs:.6g}. Nothing was sent; agree on a larger one."
            )
        return encoded.view(np.uint64)

    def decode(self, total: NDArray[np.uint64]) -> Floats:
        """Return the real numbers of a sum modulo 2**64."""
        signed = np.ascontiguousarray(total).view(np.int64).astype(np.float64)
        signed *= math.ldexp(1.0, -self.fraction_bits)
        return signed
