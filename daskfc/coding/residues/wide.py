"""Whole numbers beyond int64, for squared distances of far samples on a fine grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from daskfc.arrays import Floats, Ints
from daskfc.coding.residues.modular import inverse


@dataclass(frozen=True)
class WideIntegers:
    """Whole numbers in [0, 2**104): a float64 near each, and the rest, an int64."""

    near: Floats
    rest: Ints

    @classmethod
    def of_residues(cls, residues: NDArray[Any], primes: Sequence[int]) -> "WideIntegers":
        """Return the numbers with residues (r, ...) modulo r primes below 2**24, product <= 2**104.

        By Garner's digits the number is d_1 + p_1 (d_2 + p_2 (d_3 + ...)). Its float64 is off by at
        most 2 r 2**-53 of it, below 2**57, and so the rest is known modulo 2**64.
        """
        digits: list[Ints] = []
        for a, p in enumerate(primes):
            digit = residues[a].astype(np.int64)
            for known, q in zip(digits, primes, strict=False):
                digit = (digit - known) * inverse(q, p) % p
            digits.append(digit)
        near = np.zeros(residues.shape[1:])
        whole = np.zeros(near.shape, dtype=np.uint64)  # modulo 2**64
        for digit, p in zip(reversed(digits), reversed(primes), strict=True):
            near = near * p + digit
            whole = whole * np.uint64(p) + digit.astype(np.uint64)
        rest = whole - np.fmod(near, 2.0**64).astype(np.uint64)
        return cls(near, rest.view(np.int64))

    @classmethod
    def joined(cls, parts: Sequence["WideIntegers"], axis: int = 0) -> "WideIntegers":
        """Concatenate arrays of numbers."""
        return cls(
            np.concatenate([part.near for part in parts], axis=axis),
            np.concatenate([part.rest for part in parts], axis=axis),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of both arrays."""
        return self.near.shape

    def __len__(self) -> int:
        return len(self.near)

    def __getitem__(self, key: Any) -> "WideIntegers":
        return WideIntegers(self.near[key], self.rest[key])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return (self.near + self.rest).astype(dtype or np.float64, copy=False)

    def __mod__(self, p: int) -> Ints:
        """Return the residues modulo a number below 2**52, as int64."""
        return (np.fmod(self.near, p).astype(np.int64) + self.rest % p) % p
