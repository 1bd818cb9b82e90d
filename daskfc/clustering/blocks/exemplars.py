"""Affinity propagation on matrices in files.

Method      B. Frey, D. Dueck, "Clustering by passing messages between data points", Science 315,
            2007, in the steps of scikit-learn's implementation, number for number.
Notation    here    paper
            S       s(i, k), minus squared distances; the preference on the diagonal
            R, A    responsibilities r(i, k), availabilities a(i, k)
Here        Availabilities need sums of columns of R, known only after all its rows: a pass over
            the rows computes A of the iteration before, and then R.
"""

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from daskfc.arrays import Floats, Ints
from daskfc.clustering.blocks.row_file import RowFile
from daskfc.clustering.kernels.gaussian_graph import ranked
from daskfc.clustering.views.views import DistanceBlocks

_STABLE = 15  # iterations with the same exemplars until convergence, as in scikit-learn
_EPS, _TINY = np.finfo(np.float64).eps, np.finfo(np.float64).tiny * 100


def exemplars_by_blocks(
    view: DistanceBlocks, *, preference: float | None, damping: float, max_iter: int, seed: int
) -> tuple[Ints, Ints]:
    """Return exemplars (k,) and labels (n,) of scikit-learn's affinity propagation, from files."""
    n = view.n
    preferred = -_median(view) if preference is None else preference
    with RowFile(n, view.folder) as S, RowFile(n, view.folder) as A, RowFile(n, view.folder) as R:
        first, alike = _write_similarities(view, S, preferred, np.random.RandomState(seed))
        if alike:
            return _all_alike(n, preferred > first)
        messages = _Messages(S, A, R, damping)
        stood = np.zeros((n, _STABLE))
        converged = False
        for turn in range(max_iter):
            stands = messages.pass_on()
            stood[:, turn % _STABLE] = stands
            if turn >= _STABLE and stands.any():
                count = stood.sum(axis=1)
                converged = bool(((count == _STABLE) | (count == 0)).all())
                if converged:
                    break
        if not converged:
            warnings.warn(
                "Affinity propagation did not converge.", ConvergenceWarning, stacklevel=2
            )
        return _clusters(S, np.flatnonzero(stands))


def _median(view: DistanceBlocks) -> float:
    """Return the median of all n² squared distances."""

    def apart() -> Iterator[Floats]:
        for rows, columns, D in view.upper():
            yield D[np.triu_indices(len(D), 1)] if rows == columns else D.ravel()

    n = view.n
    middle = [place - n for place in ((n * n - 1) // 2, n * n // 2)]  # after the n zeros on it
    pairs = [place // 2 for place in middle if place >= 0]  # each distance occurs twice
    return float(ranked(apart, lambda _: tuple(pairs)).sum()) / 2


def _write_similarities(
    view: DistanceBlocks, S: RowFile, preference: float, random: np.random.RandomState
) -> tuple[float, bool]:
    """Write similarities with their noise; return the first one, and whether all are equal."""
    n, first, alike = view.n, 0.0, True
    for start, panel in view.panels(copies=4):
        np.negative(panel, out=panel)
        places = np.arange(len(panel)), np.arange(start, start + len(panel))
        if start == 0:
            first = float(panel[0, n - 1])
        panel[places] = first
        alike = alike and bool((panel == first).all())
        panel[places] = preference
        noise = panel * _EPS + _TINY
        noise *= random.standard_normal(panel.shape)
        panel += noise
        S.write(start, panel)
    return first, alike


def _all_alike(n: int, each_alone: bool) -> tuple[Ints, Ints]:
    if each_alone:
        return np.arange(n), np.arange(n)
    return np.zeros(1, np.int64), np.zeros(n, np.int64)


class _Messages:
    """Responsibilities and availabilities; the latter are an iteration behind."""

    def __init__(self, S: RowFile, A: RowFile, R: RowFile, damping: float) -> None:
        self._S, self._A, self._R, self._damping = S, A, R, damping
        self._step = max(1, (1 << 19) // S.n)
        self._sums: Floats | None = None  # of columns of max(R, 0), with R itself on the diagonal
        self._a, self._r = np.zeros(S.n), np.zeros(S.n)  # diagonals of A and R

    def pass_on(self) -> NDArray[np.bool_]:
        """Run one iteration; return a mask of the exemplars."""
        n = self._S.n
        sums = np.zeros(n)
        for start in range(0, n, self._step):
            stop = min(start + self._step, n)
            S, A, R = (file.read(start, stop) for file in (self._S, self._A, self._R))
            if self._sums is not None:
                self._available(A, R, start, self._sums)
                self._A.write(start, A)
            self._responsible(S, A, R)
            self._R.write(start, R)
            places = np.arange(stop - start), np.arange(start, stop)
            self._r[start:stop] = R[places]
            positive = np.maximum(R, 0.0)
            positive[places] = R[places]
            for row in positive:  # one by one, in the order in which numpy sums a matrix's rows
                sums += row
        self._sums = sums
        self._a = self._damping * self._a - (self._r - sums) * (1 - self._damping)
        return self._a + self._r > 0

    def _available(self, A: Floats, R: Floats, start: int, sums: Floats) -> None:
        places = np.arange(len(A)), np.arange(start, start + len(A))
        new = np.maximum(R, 0.0)
        new[places] = R[places]
        new -= sums
        own = new[places]
        np.maximum(new, 0.0, out=new)
        new[places] = own
        new *= 1 - self._damping
        A *= self._damping
        A -= new

    def _responsible(self, S: Floats, A: Floats, R: Floats) -> None:
        A += S  # A is in its file already
        numbers = np.arange(len(A))
        best = A.argmax(axis=1)
        highest = A[numbers, best]
        A[numbers, best] = -np.inf
        second = A.max(axis=1)
        new = np.subtract(S, highest[:, None], out=A)
        new[numbers, best] = S[numbers, best] - second
        new *= 1 - self._damping
        R *= self._damping
        R += new


def _clusters(S: RowFile, stand: Ints) -> tuple[Ints, Ints]:
    """Return the best exemplar of each cluster, and labels."""
    if not stand.size:
        return stand, np.full(S.n, -1)
    own = _nearest(S, stand)
    for cluster in range(stand.size):
        members = np.flatnonzero(own == cluster)
        total = np.zeros(members.size)
        for member in members.tolist():
            total += S.row(member)[members]
        stand[cluster] = members[total.argmax()]
    labels = stand[_nearest(S, stand)]
    centres = np.unique(labels)
    return centres, np.searchsorted(centres, labels)


def _nearest(S: RowFile, stand: Ints) -> Ints:
    own = np.empty(S.n, dtype=np.int64)
    step = max(1, (1 << 20) // S.n)
    for start in range(0, S.n, step):
        stop = min(start + step, S.n)
        own[start:stop] = S.read(start, stop)[:, stand].argmax(axis=1)
    own[stand] = np.arange(stand.size)
    return own
