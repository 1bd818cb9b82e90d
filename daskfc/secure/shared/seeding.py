"""Start centres of k-means on shares, by k-means++: nobody sees which samples they are."""

from dataclasses import dataclass

import numpy as np

from daskfc.checks import check_params, integer
from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.secure.shared.comparison import less, negative, to_numbers
from daskfc.secure.shared.costs import Cost, choosing, comparing, making_numbers, sending
from daskfc.secure.shared.pairs import Numbers
from daskfc.secure.shared.party import Party, Program
from daskfc.secure.shared.planes import WORD
from daskfc.secure.shared.products import inner, matmul
from daskfc.secure.shared.selection import chosen

__all__ = ["FRACTION_BITS", "Seeding"]

FRACTION_BITS = 12
"""Of the public draws: a centre is drawn by 1 / 4,096 of the sum of squared distances."""


@dataclass(frozen=True)
class Seeding:
    """k-means++ among some samples, the candidates.

    Parameters
    ----------
    n_candidates, n_features : int
        Sizes, which are public.
    magnitude_bits : int
        All features are in (-2^b, 2^b).
    first : int
        The candidate that is the first centre.
    draws : tuple of int
        In [0, 4096), for each further centre: the first candidate at which the running sum of
        squared distances to the nearest centre so far reaches draw / 4096 of the whole.

    Raises
    ------
    InvalidInput
        For numbers out of range.
    OverflowRefused
        Where running sums do not fit 64 bits.

    Notes
    -----
    Exact. Privacy: a party sees uniform words only; `first` and `draws` are public, and so is which
    candidate comes first. Where all candidates are centres already, the first one is taken again.

    References
    ----------
    Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
    """

    n_candidates: int
    n_features: int
    magnitude_bits: int
    first: int
    draws: tuple[int, ...]

    def __post_init__(self) -> None:
        rules = {"n_candidates": integer(1), "n_features": integer(1)}
        rules |= {"magnitude_bits": integer(1, 30), "first": integer(0, self.n_candidates - 1)}
        check_params("Seeding", {name: getattr(self, name) for name in rules}, rules)
        if not all(0 <= draw < 1 << FRACTION_BITS for draw in self.draws):
            raise InvalidInput(
                f"the 'draws' of Seeding must be in [0, {1 << FRACTION_BITS}); got {self.draws}."
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
        m = self.n_candidates
        one = comparing(m, self.sum_bits) + making_numbers(m) + sending(m + self.n_features)
        one += comparing(m, self.distance_bits) + choosing(m, WORD)
        return sending(m) + sending(m * m) + one * len(self.draws)

    def centres(self, party: Party, c: Numbers) -> Program[Numbers]:
        """Return 1 + len(draws) of the candidates (n_candidates, n_features)."""
        squares = yield from inner(party, c, c)
        products = yield from matmul(party, c, c.each(np.transpose))
        table = Numbers.joined([squares[:, np.newaxis] + squares - products * 2, c], axis=1)
        picked = table[self.first : self.first + 1]
        m = self.n_candidates
        found, near = [picked[:, m:]], picked[:, :m]
        for draw in self.draws:
            sums = near.each(lambda words: np.cumsum(words, axis=1, dtype=np.uint64))
            lacks = sums * (1 << FRACTION_BITS) - sums[:, -1:] * draw
            below = yield from negative(party, lacks, self.sum_bits)
            numbers = yield from to_numbers(party, below.reshape(1, -1), m)  # ones, then zeros
            one_hot = numbers.each(_shifted) - numbers
            one_hot = one_hot + np.eye(1, m, dtype=np.uint64)
            picked = yield from matmul(party, one_hot, table)
            found.append(picked[:, m:])
            nearer = yield from less(party, picked[:, :m], near, self.distance_bits)
            near = yield from chosen(party, nearer.reshape(1, -1), picked[:, :m], near)
        return Numbers.joined(found)


def _shifted(words: np.ndarray) -> np.ndarray:
    """Return a row moved on by one, with 0 at its beginning."""
    moved = np.zeros_like(words)
    moved[:, 1:] = words[:, :-1]
    return moved
