"""A canonical order of samples, from their distances or values, independent of ids and clients.

Starts of k-means, ties of neighbours and labels of border samples depend on the order of samples.
If that followed from ids or clients, the same data would give other clusters after a new partition.
Here a sample's place follows from the sum of all its distances, then from its distances to samples
with a unique place, one after the other. Only equal samples, which share one label, and samples
that a symmetry of all distances exchanges keep their previous order. A party with all columns may
order rows by their values instead, and one with a graph alone by who is near whose neighbours.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints

_TIE = 1e-9  # ours: relative to a key; sums of distances in another order differ by less
_ROWS = 4096  # samples at a time
_GOLDEN = (5.0**0.5 - 1.0) / 2.0  # fractions of its multiples have no pattern
_APART = 1e-9  # ours: relative to a typical squared distance
_ANCHORS = 8  # ours: at most; samples to which distances are compared
_BITS = 34  # ours: of a rounded value; computed values are seldom near half a step
_OFF = 1.234567  # ours: so that a largest value near a power of two does not change the step
_PASSES = 256  # ours: over a graph, at most
_NOISE = 1e-13  # ours: of the largest value; rounding after a permutation of rows is less


@dataclass(frozen=True)
class Order:
    """An order of samples by their `places` (n,); equal samples share a number in `equal` (n,)."""

    places: Ints
    equal: Ints

    @classmethod
    def by_sums(cls, sums: Floats | NDArray[np.uint64], equal: Ints) -> "Order":
        """Return the order by sums of samples' distances, or other keys; ties keep their order."""
        places = np.argsort(sums, kind="stable")
        _, numbers = np.unique(equal[places], return_inverse=True)
        return cls(places, numbers.astype(np.int64))

    def back(self, values: Ints) -> Ints:
        """Return values that are in the new order in the original one."""
        old = np.empty_like(values)
        old[self.places] = values
        return old

    def told_apart(self, Y: Floats) -> Floats:
        """Return coordinates (n, q + 1) in the new order, with a column that breaks ties.

        Whole numbers are often as near to one mean as to another, where rounding would decide. The
        column adds more than rounding, but less than differences that labels depend on.
        """
        n, q = Y.shape
        apart = np.empty((n, q + 1))
        squared = np.empty(n)  # distances to the first, most central sample
        for start in range(0, n, _ROWS):
            part = slice(start, start + _ROWS)
            apart[part, :q] = Y[self.places[part]]
            squared[part] = np.square(apart[part, :q] - apart[0, :q]).sum(axis=1)
        share = np.mod((self.equal + 1) * _GOLDEN, 1.0)
        apart[:, q] = np.sqrt(_APART * np.median(squared)) * share
        return apart

    def alike(self, labels: Ints) -> Ints:
        """Give equal samples their most frequent label, in a tie the smallest."""
        if self.equal.max(initial=-1) + 1 == len(labels):
            return labels
        least = int(labels.min())
        wide = int(labels.max()) - least + 1
        both, counts = np.unique(self.equal * wide + (labels - least), return_counts=True)
        groups, own = np.divmod(both, wide)
        best = np.lexsort((own, -counts, groups))
        first = best[np.unique(groups[best], return_index=True)[1]]
        return np.asarray(own[first][self.equal] + least)


def order_of_graph(pairs: Iterable[tuple[Any, Any]], n: int) -> Order:
    """Return the order of a graph's nodes, by blocks (rows, cols) that are read in several passes.

    By hashes of their neighbours' hashes (Weisfeiler, Leman 1968); nodes that these do not tell
    apart, such as those that a symmetry of the graph exchanges, keep their order.
    """
    colours, found = np.zeros(n, dtype=np.uint64), 0
    for _ in range(_PASSES):
        own, sums = _hashed(colours), np.zeros(n, dtype=np.uint64)
        for rows, cols in pairs:
            np.add.at(sums, rows, own[cols])
            np.add.at(sums, cols, own[rows])
        colours, before = _hashed(sums) + own, found
        found = np.unique(colours).size
        if found == before:
            break
    return Order.by_sums(colours, np.arange(n))


def _hashed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits of each number (Steele, Lea, Flood 2014: SplitMix)."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


@dataclass(frozen=True)
class _Distances:
    """Access to squared distances: sums, to one sample, and weighted sums, with their errors."""

    sums: Floats
    to: Callable[[int], Floats]
    among: Callable[[Ints, int], Floats]  # of some samples to one
    weighted: Callable[[Floats], Floats]
    noise: float = 0.0  # of one distance
    noise_of_sums: float = 0.0


def order_of_distances(D: Floats) -> Order:
    """Return the order of samples by all their squared distances (n, n)."""
    return order_of_symmetric(D.__getitem__, D.__matmul__, len(D))


def order_of_symmetric(
    row: Callable[[int], Floats], dot: Callable[[Floats], Floats], n: int
) -> Order:
    """Return the order of n samples by a function for a sample's squared distances, (n,)."""
    return _order(_Distances(dot(np.ones(n)), row, lambda some, i: row(i)[some], dot))


def order_of_points(
    Y: Floats, noise: float = 0.0, exactly: Callable[[Floats, Ints, int], Floats] | None = None
) -> Order:
    """Return the order of samples by squared distances of coordinates (n, q), off by `noise`."""
    n = len(Y)
    centre = Y.mean(axis=0)
    parts = [slice(start, start + _ROWS) for start in range(0, n, _ROWS)]

    def among(some: Ints, i: int) -> Floats:
        found = np.empty(some.size)
        for part in (slice(start, start + _ROWS) for start in range(0, some.size, _ROWS)):
            found[part] = np.square(Y[some[part]] - Y[i]).sum(axis=1)
        return found if exactly is None else exactly(found, some, i)

    def weighted(w: Floats) -> Floats:
        g, mean = np.empty(n), np.zeros(Y.shape[1])
        for part in parts:
            seen = Y[part] - centre
            g[part] = np.einsum("ij,ij->i", seen, seen)
            mean += w[part] @ seen
        keys: Floats = g * w.sum() + w @ g
        for part in parts:
            keys[part] -= 2.0 * ((Y[part] - centre) @ mean)
        return keys

    everyone = np.arange(n)
    sums = weighted(np.ones(n))
    noise_of_one = noise if exactly is None else 0.0
    asked = (lambda i: among(everyone, i)), among, weighted
    return _order(_Distances(sums, *asked, noise_of_one, n * noise))


def _order(D: _Distances) -> Order:
    n = len(D.sums)
    rank = _refined(np.zeros(n, dtype=np.int64), D.sums, D.noise_of_sums)
    used = np.zeros(n, dtype=bool)
    for turn in range(_ANCHORS):
        if rank.max(initial=0) == n - 1:
            break
        alone = np.flatnonzero((np.bincount(rank)[rank] == 1) & ~used)
        if alone.size:  # the outermost and the innermost alternately
            anchor = alone[rank[alone].argmin() if turn % 2 else rank[alone].argmax()]
            used[anchor] = True
            rank = _refined(rank, D.to(int(anchor)), D.noise)
        else:
            rank = _refined(rank, D.weighted(_weights(rank, turn)), 2 * D.noise_of_sums)
    places = np.argsort(rank, kind="stable")
    return Order(places, _equal(rank[places], places, D))


def _refined(rank: Ints, key: Floats, noise: float) -> Ints:
    """Return ranks by the previous rank and then by a key, with near values as ties."""
    order = np.lexsort((key, rank))
    sorted_key, sorted_rank = key[order], rank[order]
    gap = np.diff(sorted_key) > _TIE * np.abs(sorted_key[1:]) + 2 * noise
    steps = gap | (np.diff(sorted_rank) > 0)
    found = np.empty(len(rank), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(steps)])
    return found


def _weights(rank: Ints, turn: int) -> Floats:
    """Return weights without a pattern by rank: fractions of multiples of the golden ratio."""
    return np.asarray(1.0 + np.mod((rank + 1) * (turn + 1) * _GOLDEN, 1.0))


def _equal(rank: Ints, places: Ints, D: _Distances) -> Ints:
    """Return numbers of groups of equal samples, among those of the same rank."""
    equal = np.arange(len(rank))
    starts = np.flatnonzero(np.diff(rank, prepend=-1))
    ends = np.append(starts[1:], len(rank))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        left = np.arange(start, end)
        while left.size > 1:
            same = D.among(places[left], int(places[left[0]])) <= D.noise
            same[0] = True
            equal[left[same]] = left[0]
            left = left[~same]
    _, numbers = np.unique(equal, return_inverse=True)
    return numbers.astype(np.int64)


def order_of_rows(rows: Floats) -> Ints:
    """Return the order of rows (n, d) by their values, column by column; near values tie."""
    return _by_values(rows, _ties_within(rows))[0]


def rows_in_order(rows: Floats) -> tuple[Order, Floats]:
    """Return the order of rows by their values, and the rows in it, rounded to the same bits."""
    within = _ties_within(rows)
    places, rank = _by_values(rows, within)
    ordered = rows[places]
    first = np.searchsorted(rank, rank)  # of the rows that tie
    # a chain of ties may be long: a row far from its first one is not equal to it
    near = (np.abs(ordered - ordered[first]) <= within).all(axis=1)
    first = np.where(near, first, np.arange(len(rows)))
    equal: Ints = np.unique(first, return_inverse=True)[1].astype(np.int64)
    return Order(places, equal), rounded(ordered[first], _spread(rows))


def rounded(values: Floats, largest: float) -> Floats:
    """Return values rounded to steps of about 1e-10 of `largest`, their size or spread."""
    if not largest > 0.0:
        return values
    step = 2.0 ** (np.ceil(np.log2(_OFF * largest)) - _BITS)
    steps: Floats = np.rint(values / step)
    steps *= step
    return steps


def _spread(rows: Floats) -> float:
    return float(np.ptp(rows, axis=0).max()) if rows.size else 0.0


def _ties_within(rows: Floats) -> float:
    return _TIE * _spread(rows) + _NOISE * float(np.abs(rows).max(initial=0.0))


def _by_values(rows: Floats, within: float) -> tuple[Ints, Ints]:
    """Return the order of rows, and for each place the first one that it ties with."""
    n, d = rows.shape
    rank = np.zeros(n, dtype=np.int64)
    tied = np.arange(n)
    for column in range(d):
        if not tied.size:
            break
        key = rows[tied, column]
        if np.ptp(key) <= within:
            continue
        order = np.lexsort((key, rank[tied]))
        tied, key = tied[order], key[order]
        before = rank[tied]
        new = np.diff(before, prepend=-1) > 0
        steps = new | (np.diff(key, prepend=-np.inf) > within)
        numbers = np.arange(tied.size)
        # finished groups leave gaps: places count from the first of the previous group
        starts = np.maximum.accumulate(np.where(new, numbers, 0))
        place = before + numbers - starts
        rank[tied] = place[np.maximum.accumulate(np.where(steps, numbers, 0))]
        alone = steps & np.append(steps[1:], True)
        tied = tied[~alone]
    places = np.lexsort((rows[:, 0], rank)) if d else np.argsort(rank, kind="stable")
    return places, rank[places]
