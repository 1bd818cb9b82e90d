"""k-means by Lloyd's algorithm on shares: nobody sees a distance, a centre, a size or a label."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from daskfc.checks import boolean, check_params, integer
from daskfc.errors import OverflowRefused
from daskfc.secure.shared.comparison import bits_of, shifted, to_numbers
from daskfc.secure.shared.costs import (
    Cost,
    finding_smallest,
    making_bits,
    making_numbers,
    making_one_hot,
    sending,
    shifting,
)
from daskfc.secure.shared.pairs import Bits, Numbers
from daskfc.secure.shared.party import Party, Program, Words, together
from daskfc.secure.shared.planes import WORD, n_words
from daskfc.secure.shared.products import inner, matmul, matmul_summand, shared_again
from daskfc.secure.shared.selection import one_hot, smallest


@dataclass(frozen=True)
class Lloyd:
    """Lloyd's algorithm on whole numbers, with a fixed number of iterations.

    Parameters
    ----------
    n_samples, n_features, n_clusters : int
        Sizes, which are public.
    magnitude_bits : int
        All features of samples and start centres are in (-2^b, 2^b): what is scaled by 2^f and
        rounded has f of these bits behind the point.
    iterations : int
        How often centres are moved; labels are those of the last centres.
    at_once : int
        Comparisons that are made at once: some 150 bytes of memory each, and fewer rounds.
    flat : bool
        Compare all centres with all: more bytes, and fewer rounds; see `smallest`.

    Raises
    ------
    InvalidInput
        For parameters that are no whole numbers in range.
    OverflowRefused
        Where numbers on the way do not fit 64 bits, or centres would be off by more than a unit.

    Notes
    -----
    Privacy: a party sees uniform words only; all of them know sizes, `magnitude_bits` and
    `iterations`. No probability of failure: a distance's comparison is exact, and a moved centre is

        c = floor((s + n_c 2^b) w / 2^m + 1 / 2) - 2^b,  w = floor(2^m / n_c),  m = 61 - b,

    for a cluster of n_c samples and sum s: within one unit of s / n_c, and always the same number.
    An empty cluster keeps its centre. Of equally near centres the first one counts.
    """

    n_samples: int
    n_features: int
    n_clusters: int
    magnitude_bits: int
    iterations: int
    at_once: int = 1 << 20
    flat: bool = False

    def __post_init__(self) -> None:
        rules = {name: integer(1) for name in ("n_samples", "n_features", "n_clusters", "at_once")}
        rules |= {"magnitude_bits": integer(1, 30), "iterations": integer(0), "flat": boolean()}
        check_params("Lloyd", vars(self), rules)
        if self.score_bits > WORD or self.count_bits + 2 * self.magnitude_bits > 59:
            raise OverflowRefused(
                f"k-means on shares of {self.n_samples} samples of {self.n_features} features has "
                f"no room for numbers of {self.magnitude_bits} bits. Use fewer fraction bits."
            )

    @property
    def score_bits(self) -> int:
        """Bits of differences of c·c - 2 x·c, which are at most 5 d 2^(2 b) in magnitude."""
        return 1 + (5 * self.n_features << 2 * self.magnitude_bits).bit_length()

    @property
    def count_bits(self) -> int:
        """Bits of a cluster's size, two at least."""
        return max(2, self.n_samples.bit_length())

    @property
    def reciprocal_bits(self) -> int:
        """The m of reciprocals: (s + n_c 2^b) w is below 2^(b + 1 + m) = 2^62."""
        return 61 - self.magnitude_bits

    def cost(self) -> Cost:
        """Return what `fit` takes."""
        k, d, b = self.n_clusters, self.n_features, self.count_bits
        assigning = totals = Cost()
        for n in self._sizes():
            one = sending(k * n, self.score_bits).beside(sending(k))
            one += finding_smallest(k, n_words(n) * WORD, self.score_bits, self.flat)
            assigning, totals = assigning + one, totals + one + making_numbers(k * n)
        moved = making_bits(k, b) + making_one_hot(b, n_words(k))
        moved += making_numbers((self.reciprocal_bits + 2) * k) + sending(k * d)
        moved += shifting(k * d, self.reciprocal_bits)
        return (totals + sending(k * d) + moved) * self.iterations + assigning

    def fit(self, party: Party, x: Numbers, centres: Numbers) -> Program[tuple[Bits, Numbers]]:
        """Return one-hot rows (n_clusters, ceil(n_samples / 64)) of labels, and the centres.

        Samples x are (n_samples, n_features), start centres (n_clusters, n_features).
        """
        for _ in range(self.iterations):
            sums, sizes = yield from self._totals(party, x, centres)
            centres = yield from self._moved(party, sums, sizes, centres)
        found = []
        for block in self._blocks(x):
            found.append((yield from self.assigned(party, block, centres)))
        return Bits.joined(found, axis=1), centres

    def _sizes(self) -> list[int]:
        k, n = self.n_clusters, self.n_samples
        compared = max(k, k * (k - 1) // 2) if self.flat else k
        rows = max(1, self.at_once // (compared * WORD)) * WORD
        return [min(rows, n - first) for first in range(0, n, rows)]

    def _blocks(self, x: Numbers) -> list[Numbers]:
        ends = np.cumsum([0, *self._sizes()])
        return [x[first:last] for first, last in pairwise(ends)]

    def assigned(self, party: Party, x: Numbers, centres: Numbers) -> Program[Bits]:
        """Return the nearest centres of some samples as one-hot rows.

        Bits beyond the samples are zeros.
        """
        products, squares = yield from together(
            matmul(party, centres, x.each(np.transpose), self.score_bits),
            inner(party, centres, centres),
        )
        scores = squares[:, np.newaxis] - products * 2  # |x - c|^2 - |x|^2, (k, n)
        full = scores.each(lambda words: np.pad(words, ((0, 0), (0, -len(x) % WORD))))
        rows = yield from smallest(party, full, self.score_bits, flat=self.flat)
        return rows & _first(len(x))

    def _totals(self, party: Party, x: Numbers, centres: Numbers) -> Program[tuple[Numbers, ...]]:
        """Return the sums (k, d) and the sizes (k, 1) of the clusters of the nearest centre."""
        summand = np.zeros(centres.shape, dtype=np.uint64)
        sizes = Numbers.known(party.index, np.zeros((len(centres), 1), dtype=np.uint64))
        for block in self._blocks(x):
            rows = yield from self.assigned(party, block, centres)
            numbers = yield from to_numbers(party, rows, len(block))  # (k, n)
            summand += matmul_summand(numbers, block)
            sizes += numbers.each(lambda words: words.sum(axis=1, keepdims=True))
        sums = yield from shared_again(party, summand)
        return sums, sizes

    def _moved(
        self, party: Party, sums: Numbers, sizes: Numbers, centres: Numbers
    ) -> Program[Numbers]:
        """Return the rounded means of clusters, and the old centres of empty ones."""
        m, low = self.reciprocal_bits, 1 << self.magnitude_bits
        planes = yield from bits_of(party, sizes, self.count_bits)
        rows = yield from one_hot(party, planes)
        read = rows.each(lambda words: _looked_up(words, self.n_samples, m))
        bits = yield from to_numbers(party, read, len(sizes))  # (m + 2, k)
        weights = np.uint64(1) << np.arange(m + 1, dtype=np.uint64)
        reciprocals = (bits[: m + 1] * weights[:, np.newaxis]).sum(axis=0)
        # (s + n_c 2^b) w, and of an empty cluster (c + 2^b) 2^m, which gives c again
        parts = [sums + sizes * low, (centres + low) * (1 << m)], [reciprocals, bits[m + 1]]
        terms, factors = (
            Numbers.joined([part[..., np.newaxis] for part in two], axis=-1) for two in parts
        )
        scaled = yield from inner(party, terms, factors[:, np.newaxis])
        return (yield from shifted(party, scaled + (1 << m - 1), m)) - low


def _first(n: int) -> Words:
    """Return words in which the first n bits are set."""
    words = np.full(n_words(n), 2**64 - 1, dtype=np.uint64)
    words[-1] >>= np.uint64(-n % WORD)
    return words


def _looked_up(rows: Words, largest: int, m: int) -> Words:
    """Return the planes of floor(2^m / v), m + 1 of them, and of v = 0, of the one-hot row v.

    The table is public, so looking up is linear: a plane is the sum of the rows in which it is set.
    """
    table = np.uint64(1 << m) // np.arange(1, largest + 1, dtype=np.uint64)
    planes = [
        np.bitwise_xor.reduce(rows[1 : largest + 1][(table >> np.uint64(b)) & np.uint64(1) == 1])
        for b in range(m + 1)
    ]
    return np.stack([*planes, rows[0]])
