"""Replicated shares, two of three: whole numbers modulo 2^64, and bits packed 64 to a word.

A number is x = x_0 + x_1 + x_2 modulo 2^64, bits are b = b_0 xor b_1 xor b_2. The party P_i holds
the summands i and i + 1. What is linear is computed by each party on its own.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.errors import InvalidInput
from daskfc.secure.shared.party import N_PARTIES, Words

Fill = Callable[[Words], None]


def residues(values: ArrayLike) -> Words:
    """Return whole numbers in [-2^63, 2^64) as words modulo 2^64, in an array of one axis or more.

    Raises InvalidInput for numbers that are not whole, or that no word has room for.
    """
    found: NDArray[Any] = np.asarray(values)
    if found.dtype.kind not in "iub":
        raise InvalidInput(
            f"numbers to be shared must be whole, of 64 bits at most; got {found.dtype}. Scale "
            "them and round."
        )
    return np.atleast_1d(found.astype(np.uint64, copy=False))  # of a negative number: modulo 2^64


@dataclass(frozen=True, eq=False, repr=False)
class Pair:
    """What one party holds of shared words: `own`, the summand of its index, and the `following`.

    Arrays have one axis or more. Nothing is copied where an operation gives a view, and nothing is
    changed in place. What is shared stays out of logs: `repr` tells the shape alone.
    """

    party: int
    own: Words
    following: Words

    add: ClassVar[np.ufunc]
    subtract: ClassVar[np.ufunc]

    def each(self, change: Callable[[Words], Words]) -> Self:
        """Return what a linear change of both summands gives, such as a move of entries."""
        own, following = (np.atleast_1d(change(words)) for words in (self.own, self.following))
        return type(self)(self.party, own, following)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of both arrays."""
        return self.own.shape

    def __len__(self) -> int:
        return len(self.own)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(party={self.party}, shape={self.shape}, hidden)"

    def __getitem__(self, key: Any) -> Self:
        return self.each(lambda words: words[key])

    def reshape(self, *shape: int) -> Self:
        """Return the same entries in another shape."""
        return self.each(lambda words: words.reshape(shape))

    @classmethod
    def joined(cls, parts: Sequence[Self], axis: int = 0) -> Self:
        """Concatenate shares of one party."""
        own, following = (
            np.concatenate([getattr(part, name) for part in parts], axis=axis)
            for name in ("own", "following")
        )
        return cls(parts[0].party, own, following)

    @classmethod
    def known(cls, party: int, words: Words) -> Self:
        """Return the sharing of words that all parties know: the summand 0 is all of them."""
        zero = np.zeros_like(words)
        own, following = (words if at % N_PARTIES == 0 else zero for at in (party, party + 1))
        return cls(party, own, following)

    def with_third(self, third: Words) -> Words:
        """Return what is shared, given the summand that this party lacks."""
        add = type(self).add
        total: Words = add(add(self.own, self.following), third)
        return total

    def _plus(self, other: Self | ArrayLike) -> Self:
        """Add shares, or public words, which go to the summand 0."""
        if isinstance(other, Pair):
            pairs = ((self.own, other.own), (self.following, other.following))
            own, following = (type(self).add(one, two) for one, two in pairs)
        else:
            words = residues(other)
            own, following = (
                type(self).add(held, words if at % N_PARTIES == 0 else np.zeros_like(words))
                for held, at in ((self.own, self.party), (self.following, self.party + 1))
            )
        return type(self)(self.party, own, following)


class Numbers(Pair):
    """One party's shares of whole numbers modulo 2^64.

    ``+`` and ``-`` take shares or public numbers, ``*`` public numbers only.
    """

    add, subtract = np.add, np.subtract

    def __add__(self, other: "Numbers | ArrayLike") -> "Numbers":
        return self._plus(other)

    __radd__ = __add__

    def __sub__(self, other: "Numbers | ArrayLike") -> "Numbers":
        return self + (-other if isinstance(other, Numbers) else np.negative(residues(other)))

    def __rsub__(self, other: ArrayLike) -> "Numbers":
        return -self + other

    def __neg__(self) -> "Numbers":
        return self.each(np.negative)

    def __mul__(self, factor: ArrayLike) -> "Numbers":
        factors = residues(factor)
        return self.each(lambda words: words * factors)

    __rmul__ = __mul__
    __array_ufunc__ = None  # numpy leaves the operators to this class

    def sum(self, axis: int) -> "Numbers":
        """Return the sums along an axis."""
        return self.each(lambda words: words.sum(axis=axis, dtype=np.uint64))


class Bits(Pair):
    """One party's shares of bits, 64 to a word.

    ``^`` takes shares or public words, ``&`` public words only; ``~`` turns every bit over.
    """

    add, subtract = np.bitwise_xor, np.bitwise_xor

    def __xor__(self, other: "Bits | ArrayLike") -> "Bits":
        return self._plus(other)

    __rxor__ = __xor__

    def __and__(self, other: ArrayLike) -> "Bits":
        words = residues(other)
        return self.each(lambda held: held & words)

    def __invert__(self) -> "Bits":
        return self ^ np.uint64(2**64 - 1)

    __array_ufunc__ = None


def _fill_from_os(words: Words) -> None:
    words.reshape(-1).view(np.uint8)[:] = np.frombuffer(os.urandom(words.nbytes), np.uint8)


def _cut(words: Words, subtract: np.ufunc, fill: Fill = _fill_from_os) -> list[Words]:
    first, second = (np.empty(words.shape, dtype=np.uint64) for _ in range(2))
    fill(first)
    fill(second)
    return [first, second, subtract(subtract(words, first), second)]


def cut_numbers(values: ArrayLike, fill: Fill = _fill_from_os) -> tuple[Numbers, Numbers, Numbers]:
    """Cut whole numbers into the three parties' shares.

    Parameters
    ----------
    values : array of int
        Numbers in [-2^63, 2^64), of any shape; they count modulo 2^64.
    fill : callable
        Overwrites an array with random words that nobody else knows and that serve once; by default
        with words of the operating system.

    Returns
    -------
    tuple of Numbers
        What P_0, P_1 and P_2 are to hold: 16 bytes a number each.

    Raises
    ------
    InvalidInput
        For numbers that are not whole or too large.

    Notes
    -----
    Privacy: two of three summands are uniform, so one party's two are.
    """
    x = _cut(residues(values), np.subtract, fill)
    return Numbers(0, x[0], x[1]), Numbers(1, x[1], x[2]), Numbers(2, x[2], x[0])


def cut_bits(words: ArrayLike) -> tuple[Bits, Bits, Bits]:
    """Cut words of 64 bits into the three parties' shares, as `cut_numbers` does numbers."""
    b = _cut(residues(words), np.bitwise_xor)
    return Bits(0, b[0], b[1]), Bits(1, b[1], b[2]), Bits(2, b[2], b[0])


def put_together(one: Pair, other: Pair) -> Words:
    """Return what is shared, from what two parties hold; raise InvalidInput for one party twice."""
    if type(one) is not type(other) or one.party == other.party:
        raise InvalidInput(
            "shares are put together of two different parties' pairs of one kind; got "
            f"{type(one).__name__} of {one.party} and {type(other).__name__} of {other.party}."
        )
    last = (one.party + 2) % N_PARTIES  # the summand that `one` lacks
    return one.with_third(other.own if other.party == last else other.following)
