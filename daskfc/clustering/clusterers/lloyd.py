"""Lloyd's k-means from k-means++ starts, with the steps of scikit-learn's and fewer products.

Paper       G. Hamerly, "Making k-means even faster", SDM 2010: bounds tell whose nearest centre
            cannot have changed; the others' distances are one product.
Notation    here    paper
            u, l    upper bound on the distance to the own centre, lower bound to all others
            p       how far centres moved
Ours        Each start is one thread's, so that labels are the same for any number of threads.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import kmeans_plusplus
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats, Ints
from daskfc.threads import own_threads

_ENTRIES = 1 << 18  # ours: numbers of rows in a product, 2 MiB
_FRESH = 0.25  # ours: sums are made anew where more labels changed, which ends rounding errors
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class LloydRun:
    """Labels (n,), the inertia, and the number of iterations of one start."""

    labels: Ints
    inertia: float
    n_iter: int


def best_run(
    rows: Floats,
    k: int,
    seed: int,
    *,
    n_init: int,
    max_iter: int,
    tol: float,
    copy: bool,
    threads: int | None,
) -> LloydRun:
    """Return the run with the least inertia of `n_init` on rows (n, q).

    It ends when the squared moves of all centres add up to `tol` of the mean variance of columns at
    most. Without a copy, rows are shifted and shifted back.
    """
    threads = own_threads() if threads is None else threads
    random = np.random.RandomState(seed)  # one for all starts, as in scikit-learn
    centre = rows.mean(axis=0)
    centred = np.subtract(rows, centre, out=None if copy else rows, dtype=np.float64)
    squares = np.einsum("ij,ij->i", centred, centred)
    tol *= float(centred.var(axis=0).mean())

    def start() -> Floats:
        centres: Floats
        centres, _ = kmeans_plusplus(centred, k, x_squared_norms=squares, random_state=random)
        return centres

    def run(centres: Floats) -> LloydRun:
        return _Lloyd(centred, squares, centres).run(max_iter, tol)

    try:
        with threadpool_limits(1):
            if min(threads, n_init) == 1:
                found = [run(start()) for _ in range(n_init)]
            else:
                with ThreadPoolExecutor(min(threads, n_init)) as pool:
                    runs = [pool.submit(run, start()) for _ in range(n_init)]
                    found = [one.result() for one in runs]
            return min(found, key=lambda one: one.inertia)
    finally:
        if not copy:
            rows += centre


class _Lloyd:
    """One run: labels, bounds, and sums of clusters."""

    def __init__(self, rows: Floats, squares: Floats, centres: Floats) -> None:
        self._rows, self._squares, self._centres = rows, squares, centres
        n, self._k = len(rows), len(centres)
        self._labels = np.full(n, -1)
        self._u, self._l = np.full(n, np.inf), np.zeros(n)
        self._sums = np.zeros_like(centres)
        self._step = max(64, _ENTRIES // (rows.shape[1] + self._k))
        # of a squared distance that a product gives
        self._error = _ROUNDING * (rows.shape[1] + 4) * 4.0 * float(squares.max(initial=0.0))

    def run(self, max_iter: int, tol: float) -> LloydRun:
        """Move centres until labels or centres stay."""
        n_iter, strict = 0, False
        while n_iter < max_iter and not strict:
            n_iter += 1
            changed, before = self._assign()
            strict = not changed.size
            if not strict:
                self._add_up(changed, before)
                if self._move() <= tol:
                    break
        if not strict:
            self._assign()  # to the last centres
        return LloydRun(self._labels, float(self._from_centres().sum()), n_iter)

    def _assign(self) -> tuple[Ints, Ints]:
        """Give each row its nearest centre; return rows whose centre is new, and the old ones."""
        apart = np.sqrt(_between(self._centres))
        np.fill_diagonal(apart, np.inf)
        half = 0.5 * apart.min(axis=1)
        safe = self._u < np.maximum(half[self._labels], self._l)
        unsure = np.flatnonzero(~safe)
        before = self._labels[unsure]
        lengths = np.einsum("ij,ij->i", self._centres, self._centres)
        for start in range(0, unsure.size, self._step):
            part = unsure[start : start + self._step]
            scores = self._part(part) @ self._centres.T
            scores *= -2.0
            scores += lengths
            places = np.arange(part.size)
            nearest = scores.argmin(axis=1)
            self._labels[part] = nearest
            squares = self._squares[part] + self._error
            self._u[part] = np.sqrt(np.maximum(squares + scores[places, nearest], 0.0))
            scores[places, nearest] = np.inf
            squares -= 2.0 * self._error
            self._l[part] = np.sqrt(np.maximum(squares + scores.min(axis=1), 0.0))
        moved = before != self._labels[unsure]
        return unsure[moved], before[moved]

    def _part(self, places: Ints) -> Floats:
        """Return some rows, without a copy where they lie side by side."""
        if places.size and places[-1] - places[0] == places.size - 1:
            return self._rows[places[0] : places[-1] + 1]
        return self._rows[places]

    def _add_up(self, changed: Ints, before: Ints) -> None:
        """Bring the sums of clusters up to date."""
        if changed.size > _FRESH * len(self._rows):
            self._sums[:] = 0.0
            for part in self._parts(np.arange(len(self._rows))):
                self._sums += self._members(self._labels[part]).T @ self._part(part)
            return
        for part in self._parts(np.arange(changed.size)):
            rows = changed[part]
            weights = self._members(self._labels[rows])
            weights -= self._members(before[part])
            self._sums += weights.T @ self._part(rows)

    def _parts(self, places: Ints) -> Iterator[Ints]:
        for start in range(0, places.size, self._step):
            yield places[start : start + self._step]

    def _members(self, labels: Ints) -> Floats:
        found = np.zeros((labels.size, self._k))
        found[np.arange(labels.size), labels] = 1.0
        return found

    def _move(self) -> float:
        """Move centres to the means; return the sum of their squared moves."""
        counts = np.bincount(self._labels, minlength=self._k).astype(np.float64)
        sums = self._sums
        if not counts.all():
            sums, counts = self._relocated(counts)
        centres = sums / np.where(counts > 0, counts, 1.0)[:, None]
        centres[counts == 0] = centres[counts.argmax()]
        moves = ((centres - self._centres) ** 2).sum(axis=1)
        p = np.sqrt(moves) * (1.0 + _ROUNDING)
        first = int(p.argmax())
        others = np.full(self._k, p[first])  # the farthest that another centre went
        others[first] = np.delete(p, first).max(initial=0.0)
        self._u += p[self._labels]
        self._l -= others[self._labels]
        self._centres = centres
        return float(moves.sum())

    def _relocated(self, counts: Floats) -> tuple[Floats, Floats]:
        """Move centres without rows to the rows that lie farthest from theirs."""
        empty = np.flatnonzero(counts == 0)
        apart = self._from_centres()
        sums = self._sums.copy()
        if apart.max() == 0.0:  # fewer different rows than clusters
            return sums, counts
        far = np.argpartition(apart, -empty.size)[: -empty.size - 1 : -1]
        for cluster, row in zip(empty, far, strict=True):
            own = self._labels[row]
            sums[own] -= self._rows[row]
            sums[cluster] = self._rows[row]
            counts[[own, cluster]] += -1.0, 1.0
        return sums, counts

    def _from_centres(self) -> Floats:
        apart = np.empty(len(self._rows))
        for part in self._parts(np.arange(len(self._rows))):
            offsets = self._part(part) - self._centres[self._labels[part]]
            apart[part] = np.einsum("ij,ij->i", offsets, offsets)
        return apart


def _between(centres: Floats) -> Floats:
    """Return squared distances between centres, a lower bound."""
    lengths = np.einsum("ij,ij->i", centres, centres)
    apart = lengths[:, None] + lengths - 2.0 * (centres @ centres.T)
    apart -= _ROUNDING * (centres.shape[1] + 4) * 4.0 * lengths.max(initial=0.0)
    return np.asarray(np.maximum(apart, 0.0))
