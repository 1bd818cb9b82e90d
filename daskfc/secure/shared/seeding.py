"""Start centres of k-means on shares, by k-means++: nobody sees which samples they are."""

from dataclasses import dataclass

import numpy as np

from daskfc.checks import check_params, integer
from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.secure.shared.comparison import less, negative, to_numbers
from daskfc.secure.shared.costs import (
    Cost,
    choosing,
    comparing,
    finding_smallest,
    making_numbers,
    sending,
)
from daskfc.secure.shared.pairs import Numbers
from daskfc.secure.shared.party import Party, Program, Words, together
from daskfc.secure.shared.planes import WORD
from daskfc.secure.shared.products import inner, matmul
from daskfc.secure.shared.selection import chosen, smallest

FRACTION_BITS = 12
"""Of the public draws: a centre is drawn by 1 / 4,096 of the sum of squared distances."""


@dataclass(frozen=True)
class Seeding:
    """k-means++ among some samples, the candidates: the best one of several starts.

    `starts` has of each start the candidate that is the first centre and, for each further one, a
    draw in [0, 4096): the first candidate at which the running sum of squared distances to the
    nearest centre so far reaches draw / 4096 of the whole, or the first one where that is 0. The
    start with the smallest sum at its end is taken, of equal ones the first. Exact (Arthur and
    Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007).

    Privacy: a party sees uniform words only; candidates and `starts` are public, which candidate is
    a centre and which start is best are not.
    """

    n_candidates: int
    n_features: int
    magnitude_bits: int
    starts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        rules = {"n_candidates": integer(1), "n_features": integer(1)}
        rules |= {"magnitude_bits": integer(1, 30)}
        check_params("Seeding", {name: getattr(self, name) for name in rules}, rules)
        right = len({len(one) for one in self.starts}) == 1 and all(
            one
            and 0 <= one[0] < self.n_candidates
            and all(0 <= draw < 1 << FRACTION_BITS for draw in one[1:])
            for one in self.starts
        )
        if not right:
            raise InvalidInput(
                f"each of the 'starts' of Seeding must be a candidate in [0, {self.n_candidates}) "
                f"and as many draws in [0, {1 << FRACTION_BITS}) as the others; got {self.starts}."
            )
        if self.sum_bits > WORD:
            raise OverflowRefused(
                f"starts of k-means on shares of {self.n_candidates} candidates of "
                f"{self.n_features} features have no room for numbers of {self.magnitude_bits} "
                "bits. Use fewer fraction bits or candidates."
            )

    @property
    def distance_bits(self) -> int:
        """Bits of differences of squared distances, each in [0, 4 d 2^(2 b))."""
        return 1 + (4 * self.n_features << 2 * self.magnitude_bits).bit_length()

    @property
    def sum_bits(self) -> int:
        """Bits of running sums times 4,096, less another."""
        return self.distance_bits + self.n_candidates.bit_length() + FRACTION_BITS

    def cost(self) -> Cost:
        """Return what `centres` takes."""
        m, d, n = self.n_candidates, self.n_features, len(self.starts)
        draw = comparing(m, self.sum_bits) + making_numbers(m) + sending(m + d)
        draw += comparing(m, self.distance_bits) + choosing(m, WORD)
        each = draw * (len(self.starts[0]) - 1)
        total = sending(m) + sending(m * m) + Cost(each.rounds, n * each.words)
        if n == 1:
            return total
        total += finding_smallest(n, WORD, self.sum_bits) + making_numbers(n)
        return total + sending(len(self.starts[0]) * d)

    def centres(self, party: Party, c: Numbers) -> Program[Numbers]:
        """Return the centres (k, n_features) among candidates (n_candidates, n_features)."""
        squares = yield from inner(party, c, c)
        products = yield from matmul(party, c, c.each(np.transpose))
        table = Numbers.joined([squares[:, np.newaxis] + squares - products * 2, c], axis=1)
        found = yield from together(*(self._start(party, table, one) for one in self.starts))
        if len(found) == 1:
            only: Numbers = found[0][0]
            return only
        sums = Numbers.joined([left for _, left in found])  # (starts, 1)
        wide = sums.each(lambda words: np.repeat(words, WORD, axis=1))
        rows = yield from smallest(party, wide, self.sum_bits)
        best = yield from to_numbers(party, rows, 1)  # (starts, 1)
        flat = Numbers.joined([centres.reshape(1, -1) for centres, _ in found])
        chosen_one = yield from matmul(party, best.reshape(1, -1), flat)
        return chosen_one.reshape(len(self.starts[0]), -1)

    def _start(
        self, party: Party, table: Numbers, start: tuple[int, ...]
    ) -> Program[tuple[Numbers, Numbers]]:
        """Return centres, and the sum (1, 1) of squared distances that they leave.

        Rows of `table` are a candidate's squared distances to all, and its features.
        """
        m, (first, *draws) = self.n_candidates, start
        picked = table[first : first + 1]
        found, near = [picked[:, m:]], picked[:, :m]
        for draw in draws:
            sums = near.each(lambda words: np.cumsum(words, axis=1, dtype=np.uint64))
            lacks = sums * (1 << FRACTION_BITS) - sums[:, -1:] * draw
            below = yield from negative(party, lacks, self.sum_bits)
            numbers = yield from to_numbers(party, below.reshape(1, -1), m)  # ones, then zeros
            one_hot = numbers.each(_shifted) - numbers + np.eye(1, m, dtype=np.uint64)
            picked = yield from matmul(party, one_hot, table)
            found.append(picked[:, m:])
            nearer = yield from less(party, picked[:, :m], near, self.distance_bits)
            near = yield from chosen(party, nearer.reshape(1, -1), picked[:, :m], near)
        left = near.each(lambda words: words.sum(axis=1, keepdims=True, dtype=np.uint64))
        return Numbers.joined(found), left


def _shifted(words: Words) -> Words:
    """Return a row moved on by one, with 0 at its beginning."""
    moved = np.zeros_like(words)
    moved[:, 1:] = words[:, :-1]
    return moved
