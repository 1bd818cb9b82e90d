"""An order of samples that follows from their distances or values, whatever their names are.

Starts of k-means, ties of neighbours and labels of border samples hang on the order in which
samples stand. Where that follows from names or from who holds what, the same data give other
clusters when they are dealt again. Here a sample's place follows from its distances: the sum of all
of them, then its distance to samples whose place is theirs alone, one after the other. What is left
are equal samples, which share one label, and samples that a symmetry of all distances exchanges;
those stay as they stood. Who holds the same columns anyhow may order rows by their values instead,
which leaves equal rows alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Order",
    "order_of_distances",
    "order_of_points",
    "order_of_rows",
    "order_of_symmetric",
    "rounded",
    "rows_in_order",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_TIE = 1e-9  # ours: of a key; sums of the same distances in another order differ by less
_ROWS = 4096  # samples at a time
_GOLDEN = (5.0**0.5 - 1.0) / 2.0  # its multiples have fractions of no pattern
_APART = 1e-9  # ours: of a typical squared distance
_ANCHORS = 8  # ours, at most: samples to which distances are looked at
_BITS = 34  # ours: of a rounded value; what it was rounded from seldom lies at half a step
_OFF = 1.234567  # ours: so that a largest value of about a power of two does not change the step
_NOISE = 1e-13  # ours: of the largest value; a decomposition of permuted rows rounds by less


@dataclass(frozen=True)
class Order:
    """Samples in another order: `places` (n,) are their numbers in it.

    `equal` (n,), in the new order, numbers samples from 0 on so that equal samples share one.
    """

    places: Ints
    equal: Ints

    @classmethod
    def by_sums(cls, sums: Floats, equal: Ints) -> "Order":
        """Return the order by the sums of samples' distances; ties stay as they stood."""
        places = np.argsort(sums, kind="stable")
        _, numbers = np.unique(equal[places], return_inverse=True)
        return cls(places, numbers.astype(np.int64))

    def back(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return values of the samples, which come in the new order, in the old one."""
        old = np.empty_like(values)
        old[self.places] = values
        return old

    def told_apart(self, Y: Floats) -> Floats:
        """Return coordinates (n, q + 1) in the new order, with a column by which no two places tie.

        Whole numbers are often as near to one mean as to another; rounding would decide. The
        column, equal for equal samples, adds at most a billionth of a typical squared distance:
        more than rounding, less than what labels depend on elsewhere.
        """
        n, q = Y.shape
        apart = np.empty((n, q + 1))
        squared = np.empty(n)  # to the sample that is nearest to all
        for start in range(0, n, _ROWS):
            part = slice(start, start + _ROWS)
            apart[part, :q] = Y[self.places[part]]
            squared[part] = np.square(apart[part, :q] - apart[0, :q]).sum(axis=1)
        share = np.mod((self.equal + 1) * _GOLDEN, 1.0)
        apart[:, q] = np.sqrt(_APART * np.median(squared)) * share
        return apart

    def alike(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give equal samples one label: that of most of them, of equally many the smallest."""
        if self.equal.max(initial=-1) + 1 == len(labels):
            return labels
        least = int(labels.min())
        wide = int(labels.max()) - least + 1
        both, counts = np.unique(self.equal * wide + (labels - least), return_counts=True)
        groups, own = np.divmod(both, wide)
        best = np.lexsort((own, -counts, groups))
        first = best[np.unique(groups[best], return_index=True)[1]]
        shared: NDArray[np.int64] = own[first][self.equal] + least
        return shared


@dataclass(frozen=True)
class _Distances:
    """Squared distances, of which these are asked."""

    sums: Floats
    to: Callable[[int], Floats]
    among: Callable[[Ints, int], Floats]  # of some samples to one
    weighted: Callable[[Floats], Floats]
    noise: float = 0.0  # of one
    noise_of_sums: float = 0.0


def order_of_distances(D: Floats) -> Order:
    """Return the order of samples by all their squared distances (n, n)."""
    return order_of_symmetric(D.__getitem__, D.__matmul__, len(D))


def order_of_symmetric(
    row: Callable[[int], Floats], dot: Callable[[Floats], Floats], n: int
) -> Order:
    """Return the order by all squared distances of n samples, wherever these are.

    `row` returns a sample's distances to all, (n,); `dot` sums distances by weights, (n,).
    """
    return _order(_Distances(dot(np.ones(n)), row, lambda some, i: row(i)[some], dot))


def order_of_points(
    Y: Floats, noise: float = 0.0, exactly: Callable[[Floats, Ints, int], Floats] | None = None
) -> Order:
    """Return the order of samples by the squared distances of their coordinates (n, q).

    `noise` is how far one may be off; `exactly` corrects distances of some samples to one.
    """
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
        if alone.size:  # the outermost and the innermost in turns
            anchor = alone[rank[alone].argmin() if turn % 2 else rank[alone].argmax()]
            used[anchor] = True
            rank = _refined(rank, D.to(int(anchor)), D.noise)
        else:
            rank = _refined(rank, D.weighted(_weights(rank, turn)), 2 * D.noise_of_sums)
    places = np.argsort(rank, kind="stable")
    return Order(places, _equal(rank[places], places, D))


def _refined(rank: Ints, key: Floats, noise: float) -> Ints:
    """Return ranks by the rank so far and then by a key, of which near values are ties."""
    order = np.lexsort((key, rank))
    sorted_key, sorted_rank = key[order], rank[order]
    gap = np.diff(sorted_key) > _TIE * np.abs(sorted_key[1:]) + 2 * noise
    steps = gap | (np.diff(sorted_rank) > 0)
    found = np.empty(len(rank), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(steps)])
    return found


def _weights(rank: Ints, turn: int) -> Floats:
    """Return a weight for each rank, of no pattern: fractions of multiples of the golden ratio."""
    weights: Floats = 1.0 + np.mod((rank + 1) * (turn + 1) * _GOLDEN, 1.0)
    return weights


def _equal(rank: Ints, places: Ints, D: _Distances) -> Ints:
    """Return which samples are equal, of those that have one rank."""
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
    result: Ints = numbers.astype(np.int64)
    return result


def order_of_rows(rows: Floats) -> Ints:
    """Return the order of rows (n, d) by their values: by the first column, then the next on ties.

    Values within 1e-9 of the largest column spread plus 1e-13 of the largest value tie. Rows that
    tie in all columns may be exchanged.
    """
    return _by_values(rows, _ties_within(rows))[0]


def rows_in_order(rows: Floats) -> tuple[Order, Floats]:
    """Return the order of rows by their values, with ties equal, and the rows in it.

    Rows are rounded, so that rows computed in another order are the same to the last bit, and what
    compares them finds the same ties.
    """
    within = _ties_within(rows)
    places, rank = _by_values(rows, within)
    ordered = rows[places]
    first = np.searchsorted(rank, rank)  # of the rows that tie
    # a chain of ties may be long: what is far from its first row is not equal to it
    near = (np.abs(ordered - ordered[first]) <= within).all(axis=1)
    first = np.where(near, first, np.arange(len(rows)))
    equal: Ints = np.unique(first, return_inverse=True)[1].astype(np.int64)
    return Order(places, equal), rounded(ordered[first], _spread(rows))


def rounded(values: Floats, largest: float) -> Floats:
    """Return values in steps of about 1e-10 of the largest one, or of how far they lie apart."""
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
    """Return the order of rows, and in it the place of the first row that each ties with."""
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
        # groups that are done have left gaps: places count from the first of the group before
        starts = np.maximum.accumulate(np.where(new, numbers, 0))
        place = before + numbers - starts
        rank[tied] = place[np.maximum.accumulate(np.where(steps, numbers, 0))]
        alone = steps & np.append(steps[1:], True)
        tied = tied[~alone]
    places = np.lexsort((rows[:, 0], rank)) if d else np.argsort(rank, kind="stable")
    return places, rank[places]
