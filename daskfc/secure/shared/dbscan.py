"""DBSCAN on shares: nobody sees a distance, a neighbour, a size or a label."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfc.checks import check_params, integer
from daskfc.errors import OverflowRefused
from daskfc.secure.shared.comparison import at_most, bits_of, to_numbers
from daskfc.secure.shared.costs import (
    Cost,
    comparing,
    counting,
    finding_first,
    log2_up,
    looking_at_rows,
    making_bits,
    making_numbers,
    making_one_hot,
    moving,
    sending,
)
from daskfc.secure.shared.pairs import Bits, Numbers
from daskfc.secure.shared.party import Party, Program, together
from daskfc.secure.shared.planes import WORD, n_words, planes_of, transposed
from daskfc.secure.shared.products import both, inner, matmul, opened
from daskfc.secure.shared.rows_of_bits import (
    all_set,
    any_set,
    at_least,
    first_set,
    looked_up,
    masked,
    smaller,
    smallest_of_rows,
)
from daskfc.secure.shared.selection import one_hot

_AHEAD = 4  # ours: passes of a fifth of the bytes, after which one or two others are enough
_JUMPS = 4  # ours: of clusters in a row that join, in a pass after the first, up to 16 do at once


@dataclass(frozen=True)
class DensityClusters:
    """DBSCAN on whole numbers (Ester, Kriegel, Sander, Xu, KDD 1996).

    Parameters
    ----------
    n_samples, n_features : int
        Sizes, which are public.
    magnitude_bits : int
        All features are in (-2^b, 2^b).
    squared_eps : int
        Samples at this squared distance or nearer are neighbours, in units of the features squared.
    min_samples : int
        A sample with so many neighbours, itself included, is a core sample.
    at_once : int
        Pairs of samples that are compared at once: some 500 bytes of memory each, and fewer rounds.

    Raises
    ------
    InvalidInput
        For parameters that are no whole numbers in range.
    OverflowRefused
        Where squared distances do not fit 64 bits.

    Notes
    -----
    Exact: labels are those of scikit-learn. Clusters are numbered by their first core sample; a
    sample that is a neighbour of several clusters' core samples is of the first of these clusters.

    Privacy: a party sees uniform words only, and after each pass over the graph the opened bit
    whether clusters joined: so all learn the number of passes. Which samples are core, how many
    clusters there are, and the graph stay hidden. Memory: two bits a pair, n^2 / 4 bytes, some four
    times that in between, and what `at_once` says.
    """

    n_samples: int
    n_features: int
    magnitude_bits: int
    squared_eps: int
    min_samples: int
    at_once: int = 1 << 20

    def __post_init__(self) -> None:
        rules = {name: integer(1) for name in ("n_samples", "n_features", "min_samples", "at_once")}
        rules |= {"magnitude_bits": integer(1, 30), "squared_eps": integer(0)}
        check_params("DensityClusters", vars(self), rules)
        if self.distance_bits > WORD:
            raise OverflowRefused(
                f"DBSCAN on shares of {self.n_features} features has no room for numbers of "
                f"{self.magnitude_bits} bits. Use fewer fraction bits."
            )

    @property
    def distance_bits(self) -> int:
        """Bits of a squared distance, at most 4 d 2^(2 b), less another."""
        return 1 + (4 * self.n_features << 2 * self.magnitude_bits).bit_length()

    @property
    def label_bits(self) -> int:
        """Bits b of a label: 2^b - 1 is no sample's number, and stands for noise."""
        return max(6, self.n_samples.bit_length())  # of 6 bits at least: a word of labels

    def cost(self, passes: int = 2) -> Cost:
        """Return what `fit` takes with so many passes, each of which but the last moves labels."""
        if self.min_samples > self.n_samples:
            return Cost()
        b, width = self.label_bits, n_words(self.n_samples)
        n = width * WORD
        table, first = making_one_hot(b, width), finding_first(n, width)
        index = making_one_hot(log2_up(n), width)
        own, bit, planes = Cost(1, n * width), Cost(1, width), Cost(1, b * width)
        agreeing = Cost(log2_up(b), (b - 1) * width)  # all planes
        total = self.cost_of_neighbours()
        total += counting(n, width, self.min_samples) + own + first + planes
        total += (table + planes) * b
        moved = table + own + first + index + planes * 3 + (table + planes) * _JUMPS
        total += (first + index + planes + planes + moving(b, width) + bit + moved) * _AHEAD
        opening = Cost(log2_up(width) + 6 + 1, width - 1 + 6 + 1)
        seen = looking_at_rows(n, b, width, 8 * self.at_once) + agreeing + bit + opening
        total += seen * passes + moved * (passes - 1) + agreeing + bit + making_numbers(n)
        return total + making_bits(n, b).beside(table) + planes + agreeing + planes

    def cost_of_neighbours(self) -> Cost:
        """Return what `neighbours` takes."""
        n = n_words(self.n_samples) * WORD
        total = sending(n)
        for start, last in self._row_blocks():
            pairs = (last - start) * (n - start)
            total += sending(pairs, self.distance_bits) + comparing(pairs, self.distance_bits)
        return total

    def fit(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return planes (label_bits, words) of the clusters of samples x (n_samples, n_features).

        All ones are noise. Bits beyond the samples have no meaning.
        """
        return (yield from self.clustered(party, x))[0]

    def clustered(self, party: Party, x: Numbers) -> Program[tuple[Bits, Bits]]:
        """Return planes as `fit` does, and which samples are core: packed bits (words)."""
        if self.min_samples > self.n_samples:
            width = n_words(self.n_samples)
            none = Bits.known(party.index, np.zeros((self.label_bits, width), dtype=np.uint64))
            return ~none, none[0]
        near = yield from self.neighbours(party, x)
        core = yield from at_least(party, near, self.min_samples)
        near = yield from masked(party, near, core)  # rows of samples that are no core are zeros
        labels = yield from self._joined(party, near, core)
        return (yield from self._numbered(party, labels, core)), core

    def placed(
        self, party: Party, new: Numbers, x: Numbers, planes: Bits, core: Bits
    ) -> Program[Bits]:
        """Return planes (label_bits, words) of new samples (m, n_features), from `clustered`.

        Each is of the first cluster of which a core sample is a neighbour, and noise without any.
        """
        padded = new.each(lambda words: np.pad(words, ((0, -len(new) % WORD), (0, 0))))
        bound, found = self._bound, []
        squares, others = yield from together(inner(party, x, x), inner(party, padded, padded))
        for first, last in self._new_blocks(len(new)):
            columns = padded[first:last].each(np.transpose)
            products = yield from matmul(party, x, columns, self.distance_bits)
            distances = squares[:, np.newaxis] + others[first:last] - products * 2
            near = yield from at_most(party, distances, bound, self.distance_bits)
            near = yield from masked(party, near.reshape(len(x), -1), core)
            found.append((yield from smallest_of_rows(party, near, planes, 8 * self.at_once)))
        return Bits.joined(found, axis=1)

    def cost_of_placing(self, n_new: int) -> Cost:
        """Return what `placed` takes for so many new samples."""
        n, b = self.n_samples, self.label_bits
        total = sending(n).beside(sending(n_words(n_new) * WORD))
        for first, last in self._new_blocks(n_new):
            pairs, width = n * (last - first), (last - first) // WORD
            total += sending(pairs, self.distance_bits) + comparing(pairs, self.distance_bits)
            total += Cost(1, n * width) + looking_at_rows(n, b, width, 8 * self.at_once)
        return total

    def _new_blocks(self, n_new: int) -> list[tuple[int, int]]:
        """Return the columns of blocks of new samples, whole words."""
        each, end = max(1, self.at_once // self.n_samples // WORD) * WORD, n_words(n_new) * WORD
        return [(first, min(first + each, end)) for first in range(0, end, each)]

    @property
    def _bound(self) -> int:
        return min(self.squared_eps, 4 * self.n_features << 2 * self.magnitude_bits)

    def _row_blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the rows of blocks, of which the columns from the first row on are computed."""
        first, end = 0, n_words(self.n_samples) * WORD
        while first < end:
            last = min(first + max(1, self.at_once // (end - first) // WORD) * WORD, end)
            yield first, last
            first = last

    def neighbours(self, party: Party, x: Numbers) -> Program[Bits]:
        """Return who is near whom, a symmetric matrix of bits (rows, words).

        Rows are filled up to whole words; bits beyond the samples are zeros.
        """
        n, width = self.n_samples, n_words(self.n_samples)
        x = x.each(lambda words: np.pad(words, ((0, width * WORD - n), (0, 0))))
        bound = self._bound
        squares = yield from inner(party, x, x)
        own, following = np.zeros((2, width * WORD, width), dtype=np.uint64)
        for first, last in self._row_blocks():
            at = first // WORD
            others = x[first:].each(np.transpose)
            products = yield from matmul(party, x[first:last], others, self.distance_bits)
            distances = squares[first:last, np.newaxis] + squares[first:] - products * 2
            found = yield from at_most(party, distances, bound, self.distance_bits)
            block = found.reshape(last - first, -1)
            for matrix, part in ((own, block.own), (following, block.following)):
                matrix[first:last, at:] = part
                matrix[last:, at : last // WORD] = transposed(part[:, (last - first) // WORD :])
        valid = np.full(width, 2**64 - 1, dtype=np.uint64)
        valid[-1] >>= np.uint64(-n % WORD)
        own[n:], following[n:] = 0, 0
        return Bits(party.index, own, following) & valid

    def _joined(self, party: Party, near: Bits, core: Bits) -> Program[Bits]:
        """Return each sample's smallest label of core samples near it, or all ones.

        Labels of core samples are the smallest number of a sample of their component. They start as
        each sample's smallest neighbour. Some passes ahead look at one neighbour of each sample, by
        other orders of the samples; then, in a pass every sample sees the smallest label near it.
        Without a label to leave, neighbours have the same.
        """
        b, size = self.label_bits, len(near)
        itself = self._itself(party, size)
        index, _ = yield from first_set(party, near)
        first = itself ^ (yield from both(party, core.reshape(1, -1), _planes(index, b) ^ itself))
        labels = yield from self._followed(party, first, b)
        for k in range(_AHEAD):
            order = _order(size, k)
            index, _ = yield from first_set(party, near[order])
            who = (yield from one_hot(party, index))[:size][np.argsort(order)]
            seen = yield from looked_up(party, labels, who)
            leaves = yield from both(party, core, (yield from smaller(party, seen, labels)))
            labels = yield from self._left(party, labels, seen, leaves)
        while True:
            seen = yield from smallest_of_rows(party, near, labels, 8 * self.at_once)
            same = yield from all_set(party, ~(seen ^ labels))
            leaves = yield from both(party, core, ~same)
            changed = yield from opened(party, (yield from any_set(party, leaves)))
            if not changed.any():
                return seen
            labels = yield from self._left(party, labels, seen, leaves)

    def _left(self, party: Party, labels: Bits, seen: Bits, leaves: Bits) -> Program[Bits]:
        """Return the labels after some were left for the smaller ones that their samples see.

        The first sample that may leave a label tells where all samples of that label go. A label
        leads to a sample of the same component, and never to a larger one.
        """
        size = labels.shape[1] * WORD
        having = (yield from one_hot(party, labels))[:size]  # by label: who has it
        leaving = yield from masked(party, having.each(transposed), leaves)  # by sample
        index, some = yield from first_set(party, leaving)
        who = (yield from one_hot(party, index))[:size]
        target = yield from looked_up(party, seen, who)
        itself = self._itself(party, size)
        step = yield from both(party, some.reshape(1, -1), target ^ itself)
        leads = yield from self._followed(party, itself ^ step, _JUMPS)
        return (yield from looked_up(party, leads, having))

    def _itself(self, party: Party, size: int) -> Bits:
        """Return each sample's own number, which all parties know."""
        numbers = np.arange(size, dtype=np.uint64)
        return Bits.known(party.index, planes_of(numbers, self.label_bits))

    def _followed(self, party: Party, leads: Bits, jumps: int) -> Program[Bits]:
        """Return where labels lead after 2^jumps steps (pointer jumping)."""
        for _ in range(jumps):
            rows = yield from one_hot(party, leads)
            leads = yield from looked_up(party, leads, rows)
        return leads

    def _numbered(self, party: Party, labels: Bits, core: Bits) -> Program[Bits]:
        """Return labels as numbers of clusters, from 0 on in the order of labels."""
        size = labels.shape[1] * WORD
        own_label = yield from all_set(party, ~(labels ^ self._itself(party, size)))
        starts = yield from to_numbers(party, (yield from both(party, core, own_label)), size)
        before = starts.each(lambda words: np.cumsum(words, dtype=np.uint64)) - starts
        (numbers, rows) = yield from together(
            bits_of(party, before, self.label_bits), one_hot(party, labels)
        )
        found = yield from looked_up(party, numbers, rows)
        noise = yield from all_set(party, labels)
        return ~(yield from both(party, ~found, ~noise.reshape(1, -1)))


def _planes(index: Bits, n: int) -> Bits:
    """Return planes with planes of zeros, as the highest ones, up to n."""
    return index.each(lambda words: np.pad(words, ((0, n - len(words)), (0, 0))))


def _order(n: int, k: int) -> NDArray[np.intp]:
    """Return the k-th order of n samples: the same at all parties, whatever the data are."""
    hashes = np.frombuffer(hashlib.shake_256(bytes([k])).digest(8 * n), dtype="<u8")
    return np.argsort(hashes, kind="stable")
