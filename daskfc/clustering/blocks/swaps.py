"""k-medoids by eager swaps, on distances that are in memory some columns at a time.

Method      FasterPAM: E. Schubert, P. Rousseeuw, "Fast and eager k-medoids clustering", Information
            Systems 101, 2021; the swaps are those of the package kmedoids.
Here        All runs read the distances together, once in a pass. With near and next the distances
            of x to its nearest and second nearest medoid, swapping medoid i for sample j changes
            the loss by

                T_j - Σ_i G_ij + G_ij - N_i     G_ij = Σ_x∈i max(near, min(d_xj, next))
                                                T_j  = Σ_x min(d_xj, next),  N_i = Σ_x∈i near
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.views import DistanceBlocks

_COLUMNS = 64  # ours: samples tried at a time while nothing is swapped
_ROWS = 2048  # ours: rows of these columns at a time, 1 MiB
_ROUNDING = 1e-12  # ours: relative to the loss; smaller changes do not count


@dataclass(frozen=True)
class Medoids:
    """The outcome of one run: medoids (k,), summed distances to the nearest, and passes."""

    medoids: Ints
    loss: float
    n_iter: int


def medoids_by_swaps(
    view: DistanceBlocks, order: Ints, starts: Mapping[int, Ints], max_iter: int
) -> list[Medoids]:
    """Return medoids that no swap improves, for each start by the place where it begins."""
    runs = {place: _Run(view, start, max_iter) for place, start in starts.items()}
    while not all(run.done for run in runs.values()):
        for place, tried in _stretches(view.n, sorted(runs)):
            if place in runs:
                runs[place].begin()
            going = [run for run in runs.values() if run.trying]
            if going:
                columns = view.block(slice(0, view.n), order[tried])
                np.sqrt(columns, out=columns)
            for run in going:
                run.try_all(order[tried], columns)
    return [Medoids(run.medoids, run.loss, run.n_iter) for run in runs.values()]


def _stretches(n: int, begins: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """Yield slices of the order, cut where runs begin, and their first places."""
    step = max(1, (1 << 22) // n)  # more have faster products and take more memory
    for first, last in pairwise([*begins, n]):
        for place in range(first, last, step):
            yield place, slice(place, min(place + step, last))


class _Run:
    """One run: its medoids, and each sample's distances to the nearest and second nearest one."""

    def __init__(self, view: DistanceBlocks, start: Ints, max_iter: int) -> None:
        self._view, self.medoids, self._max_iter = view, start.copy(), max_iter
        self.n_iter, self._last = 0, -1
        self._swapped = self.trying = False
        n = view.n
        self._own, self._second = np.empty(n, np.int64), np.empty(n, np.int64)
        self._near, self._next = np.empty(n), np.empty(n)
        self._assign(np.arange(n))

    @property
    def done(self) -> bool:
        """Whether the last pass, or a pass without a swap, is over."""
        return self.n_iter > 0 and not self.trying

    def begin(self) -> None:
        """Begin a pass, unless the run is done."""
        first = self.n_iter == 0
        self.trying = first or (self.trying and self._swapped and self.n_iter < self._max_iter)
        self.n_iter += self.trying
        self._swapped = False

    def _assign(self, some: Ints) -> None:
        """Find the two nearest medoids of some samples."""
        k = len(self.medoids)
        for start in range(0, some.size, step := max(1, (1 << 20) // k)):
            part = some[start : start + step]
            D = np.sqrt(self._view.block(part, self.medoids))
            D[part[:, None] == self.medoids] = -1.0  # a medoid is nearest to itself, not to copies
            for places, far in ((self._own, self._near), (self._second, self._next)):
                numbers = np.arange(len(D)), D.argmin(axis=1)
                places[part], far[part] = numbers[1], np.maximum(D[numbers], 0.0)
                D[numbers] = np.inf
        self._sums = np.bincount(self._own, weights=self._near, minlength=k)
        self.loss = float(self._near.sum())

    def try_all(self, samples: Ints, columns: Floats) -> None:
        """Try samples, with distances `columns` to all, as medoids one by one; swap if better."""
        start, wide = 0, 1
        while self.trying and start < samples.size:
            if samples[start] == self._last:  # all others were tried since the last swap
                self._swapped = self.trying = False
                return
            some = samples[start : start + wide]
            if (ends := np.flatnonzero(some == self._last)).size:
                some = some[: ends[0]]
            change = self._changes(columns[:, start : start + some.size])
            best = change.argmin(axis=0)
            least = change[best, np.arange(some.size)]
            least[np.isin(some, self.medoids)] = 0.0
            better = np.flatnonzero(least < -_ROUNDING * self.loss)
            if better.size:
                first = int(better[0])
                self._swap(int(best[first]), int(some[first]), columns[:, start + first])
                start, wide = start + first + 1, 1
            else:
                start, wide = start + some.size, min(2 * wide, _COLUMNS)

    def _swap(self, medoid: int, sample: int, distances: Floats) -> None:
        """Replace a medoid by a sample."""
        lost = (self._own == medoid) | (self._second == medoid)
        self.medoids[medoid] = self._last = sample
        self._swapped = True
        nearest, nearer = distances < self._near, distances < self._next
        nearest[sample] = True
        self._second[nearest], self._next[nearest] = self._own[nearest], self._near[nearest]
        self._own[nearest], self._near[nearest] = medoid, distances[nearest]
        between = nearer & ~nearest
        self._second[between], self._next[between] = medoid, distances[between]
        self._assign(np.flatnonzero(lost))

    def _changes(self, columns: Floats) -> Floats:
        """Return the change of the loss if each medoid is swapped for each sample, (k, b)."""
        k = len(self.medoids)
        total, sums = np.zeros(columns.shape[1]), np.zeros((k, columns.shape[1]))
        for start in range(0, self._view.n, _ROWS):
            rows = slice(start, start + _ROWS)
            own = self._own[rows]
            far = np.minimum(columns[rows], self._next[rows, None])
            total += far.sum(axis=0)
            np.maximum(far, self._near[rows, None], out=far)
            sums += (
                sparse.csc_array((np.ones(own.size), own, np.arange(own.size + 1)), (k, own.size))
                @ far
            )
        total -= sums.sum(axis=0)
        sums += total
        sums -= self._sums[:, None]
        return sums
