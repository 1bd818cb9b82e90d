"""An order of samples by their values alone, in place of that in which they came: nobody learns it.

Rows are shuffled by an order that no party knows, compared in that order with the results opened,
and put in the order found. What is opened is an order of rows that nobody can tell apart: equally
likely to be any, whatever the samples are, also of equal ones, which random bits order.

A shuffle is three moves, each by an order that two parties draw from the stream they have in common
(Laur, Willemson, Zhang, "Round-efficient oblivious database manipulation", ISC 2011): the third
learns nothing of it, so that no party knows all three.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfc.secure.shared.comparison import bits_of
from daskfc.secure.shared.costs import Cost, making_bits, moving, sending
from daskfc.secure.shared.pairs import Bits, Numbers
from daskfc.secure.shared.party import N_PARTIES, Party, Program, Words
from daskfc.secure.shared.planes import WORD, n_words, planes_of, unpacked
from daskfc.secure.shared.products import opened, shared_again, shared_bits_again
from daskfc.secure.shared.rows_of_bits import smaller

_Kind = TypeVar("_Kind", Numbers, Bits)
_Places = NDArray[np.intp]

_TIES = 40  # ours: random bits below a sample's sum, which order equal samples
_PIVOTS, _ROOM = 3, 6  # ours: of a row's root; of the pairs between pivots that are expected


@dataclass(frozen=True)
class Order:
    """What a party knows of an order: `moves` of the shuffle, and shuffled samples in order."""

    moves: tuple[_Places | None, ...]
    places: _Places


@dataclass(frozen=True)
class ByValue:
    """Samples in the order of a sum of their features with public weights, modulo 2^64.

    The weights are always the same. Equal samples come in an order of chance, as others do whose
    sums are equal: a pair in 2^64, or in 2^(64 - k) where their features differ by multiples of
    2^k. That a sum is smaller says nothing of where a sample lies.
    """

    n_samples: int
    n_features: int
    at_once: int

    @property
    def _n_pivots(self) -> int:
        return min(self.n_samples, _PIVOTS * math.isqrt(self.n_samples))

    @property
    def _n_pairs(self) -> int:
        """Pairs between pivots: rooms of n / m samples, so few beyond that it is once in 10^9."""
        n, m = self.n_samples, self._n_pivots
        return min(n * (n - 1) // 2, _ROOM * n * n // m) if m < n else 0

    def cost(self) -> Cost:
        """Return what `ordered` and `put_back` take."""
        n = self.n_samples
        total = sending(n * self.n_features) * N_PARTIES + making_bits(n, WORD)
        for n_pairs in (n * self._n_pivots, self._n_pairs):
            for first in range(0, n_pairs, self.at_once):
                width, planes = n_words(min(self.at_once, n_pairs - first)), WORD + _TIES
                total += Cost(2, (planes + 1) * width) + moving(planes, width)
        return total + sending(n) * N_PARTIES

    def ordered(self, party: Party, x: Numbers) -> Program[tuple[Numbers, Order]]:
        """Return samples (n_samples, n_features) in order."""
        moves = []
        for at in range(N_PARTIES):
            moves.append(_drawn(party, at, len(x)))
            x = yield from _moved(party, x, at, moves[-1])
        places = yield from self._sorted(party, x)
        return x[places], Order(tuple(moves), places)

    def put_back(self, party: Party, planes: Bits, order: Order) -> Program[Bits]:
        """Return planes of samples in order as planes of samples as they came."""
        n, width = self.n_samples, planes.shape[1] * WORD
        words = planes.each(lambda held: _numbers_of(held)[:n][np.argsort(order.places)])
        for at in reversed(range(N_PARTIES)):
            move = order.moves[at]
            words = yield from _moved(party, words, at, None if move is None else np.argsort(move))
        return words.each(lambda held: planes_of(np.pad(held, (0, width - n)), len(planes)))

    def _sorted(self, party: Party, x: Numbers) -> Program[_Places]:
        """Return the places of shuffled samples in order, which all parties learn."""
        n, m = self.n_samples, self._n_pivots
        digest = hashlib.shake_256(b"order of samples").digest(8 * self.n_features)
        weights = np.frombuffer(digest, dtype="<u8") | np.uint64(1)
        planes = yield from bits_of(party, (x * weights).sum(axis=1))
        numbers = planes.each(_numbers_of)
        ties = Bits(party.index, party.with_before((n,)), party.with_after((n,)))
        keys = ties, numbers[:n]
        rows, pivots = np.divmod(np.arange(n * m), m)
        below = yield from self._below(party, keys, rows, pivots)
        part = m - below.reshape(n, m).sum(axis=1, dtype=np.intp)  # 1 + pivots that are smaller
        one, other = _pairs(part, self._n_pairs)
        less = yield from self._below(party, keys, one, other)
        wins = np.bincount(np.where(less, other, one)[one != other], minlength=n)
        return np.lexsort([wins, part])

    def _below(
        self, party: Party, keys: tuple[Bits, Bits], one: _Places, other: _Places
    ) -> Program[NDArray[np.bool_]]:
        """Open which of pairs of shuffled samples are in order."""
        found = [np.zeros(0, dtype=bool)]
        for first in range(0, len(one), self.at_once):
            block = slice(first, first + self.at_once)
            x, y = (self._planes(keys, places[block]) for places in (one, other))
            words = yield from opened(party, (yield from smaller(party, x, y)))
            found.append(unpacked(words, len(one[block])).astype(bool))
        return np.concatenate(found)

    def _planes(self, keys: tuple[Bits, Bits], places: _Places) -> Bits:
        """Return planes of some samples' keys, ties as the lowest ones."""
        filled = np.pad(places, (0, -len(places) % WORD), mode="edge")
        ties, numbers = (key[filled] for key in keys)
        low, high = ties.each(lambda words: planes_of(words, _TIES)), numbers.each(planes_of)
        return Bits.joined([low, high])


def _drawn(party: Party, at: int, n: int) -> _Places | None:
    """Return an order that P_at and the party after it draw, at these two."""
    if party.index == at:
        return np.argsort(party.with_after((n,)), kind="stable")
    if party.index == (at + 1) % N_PARTIES:
        return np.argsort(party.with_before((n,)), kind="stable")
    return None


def _moved(party: Party, x: _Kind, at: int, places: _Places | None) -> Program[_Kind]:
    """Move rows to places that P_at, with two summands, and the party after it know."""
    moved = np.zeros(x.shape, dtype=np.uint64)
    if places is not None:
        held = type(x).add(x.own, x.following) if party.index == at else x.following
        moved = held[places]
    if isinstance(x, Numbers):
        return (yield from shared_again(party, moved))
    return (yield from shared_bits_again(party, moved))


def _numbers_of(planes: Words) -> Words:
    """Return numbers of up to 64 planes (b, words)."""
    full = np.zeros((WORD, planes.shape[1]), dtype=np.uint64)
    full[: len(planes)] = planes
    return planes_of(full.T.reshape(-1)).T.reshape(-1)


def _pairs(part: _Places, at_least: int) -> tuple[_Places, _Places]:
    """Return all pairs within parts, and pairs of the first one with itself up to so many."""
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], part[order], side="right")
    more = ends - np.arange(len(part)) - 1  # that follow in the same part
    one = np.repeat(order, more)
    starts = np.repeat(np.arange(len(part)) + 1, more)
    within = np.arange(len(one)) - np.repeat(np.cumsum(more) - more, more)
    other = order[starts + within]
    lacks = max(0, at_least - len(one))
    return np.pad(one, (0, lacks)), np.pad(other, (0, lacks))
