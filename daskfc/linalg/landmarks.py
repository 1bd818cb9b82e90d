"""Coordinates of samples from a few columns of their distance matrix, with a certificate.

D has rank at most d + 2, so the squared distances to s ≥ (rank of the points) + 1 landmarks
determine all of D. Landmarks arrive in rounds; each round adds the part of the new columns that
the coordinates so far do not explain (a block-wise pivoted Cholesky factorisation of the Gram
matrix), so a round costs one product with its own columns.

Notation    here   shape    meaning
            D      (n, n)   squared distances
            c               the centroid of the first round's landmarks: the origin
            m      (n,)     mean squared distance to those landmarks
            G      (n, n)   inner products of the samples relative to c
            Y      (n, q)   coordinates, |y_i - y_j|² = D_ij as far as the landmarks span
            h      (n,)     squared distance of a sample to the landmarks' span
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from daskfc.arrays import Floats, Ints
from daskfc.threads import do_all

_ROWS = 2048  # ours: samples at a time
_COARSE = 1e-12  # ours: of the largest squared distance, while samples are farther from the span


class LandmarkEmbedding:
    """Coordinates from landmark columns, a certificate per sample, and the next landmarks.

    Ends when no squared distance to the landmarks' span exceeds `tolerance` times the mean one,
    `nearest` or what rounding beside the farthest sample hides (the largest counts); the error of
    squared distances is then at most 4 times as much.
    `n_features`, if known, bounds the rank. Privacy: landmark columns reveal as much as all of D,
    the samples up to a rigid motion.
    """

    def __init__(
        self,
        n: int,
        n_features: int | None = None,
        *,
        tolerance: float = 1e-8,
        nearest: float = 0.0,
    ) -> None:
        self.n = n
        self.tolerance = tolerance
        self.nearest = nearest
        self.max_rank = n - 1 if n_features is None else min(n - 1, n_features)
        reserved = min(self.max_rank, 256) if n_features is None else self.max_rank
        # Columns are contiguous, so that reserved ones use no memory until they are written.
        self._storage: Floats = np.empty((n, reserved), order="F")
        self._rank = 0
        self._landmarks: Ints = np.empty(0, dtype=np.int64)
        self._used = np.zeros(n, dtype=bool)
        self._offsets: Floats = np.empty(0)  # m - mean(m over the first landmarks) / 2 = |x - c|²
        self._magnified = 0.0  # 1 / √λ of the smallest λ
        self._residual: Floats = np.full(n, np.inf)

    @property
    def landmarks(self) -> Ints:
        """Sample numbers of the landmarks, in the order in which they were added, shape (s,)."""
        return self._landmarks

    @property
    def rank(self) -> int:
        """Number of coordinates so far."""
        return self._rank

    @property
    def coordinates(self) -> Floats:
        """Coordinates of all samples, shape (n, rank), a view in column order."""
        return self._storage[:, : self._rank]

    @property
    def scale(self) -> float:
        """Mean squared distance of two samples, estimated as twice that to c; 0 at first."""
        return 2.0 * float(self._offsets.mean()) if self._landmarks.size else 0.0

    @property
    def _limit(self) -> float:
        """Squared distance to the span that ends the search."""
        return max(self.tolerance * self.scale, self.nearest, self._hidden)

    @property
    def _hidden(self) -> float:
        """Squared distance to the span that rounding of inner products with far samples hides."""
        largest = float(self._offsets.max(initial=0.0))
        return (self._rank + 16) * 2.0**-51 * max(largest, 0.0)

    @property
    def converged(self) -> bool:
        """Whether every sample lies in the landmarks' span, up to the tolerance."""
        if not self._landmarks.size:
            return False
        return self._rank >= self.max_rank or not self._open().any()

    def certificate(self) -> Floats:
        """Return h (n,), infinite at first; D_ij is too small by at most ``2 * (h[i] + h[j])``."""
        return self._residual.copy()

    @property
    def off_span(self) -> float:
        """Bound on the amount by which squared distances are too small; infinite at first."""
        return 4 * float(self._residual.max()) if self._landmarks.size else np.inf

    @property
    def rounding(self) -> float:
        """Approximate distance by which rounding moves the coordinates of a sample.

        Inner products with the farthest sample round most, and the direction in which landmarks
        spread least magnifies that. For samples at up to the median distance from c.
        """
        if not self._landmarks.size:
            return np.inf
        largest = float(np.sqrt(self._offsets.max() * np.median(self._offsets)))
        return (self._rank + 16) * 2.0**-52 * largest * self._magnified

    @property
    def spread(self) -> float:
        """Largest difference of the two `bounds` of a squared distance; infinite at first."""
        largest = float(self._residual.max())
        return 4 * largest + 2 * self._slack if self._landmarks.size else np.inf

    @property
    def _slack(self) -> float:
        """Rounding error of `bounds`, at most: float32 products round by (q + 2) 2**-23 |y|²."""
        return (self._rank + 16) * 2.0**-22 * float(self._offsets.max())

    def bounds(self, rows: slice, indices: ArrayLike) -> tuple[Floats, Floats]:
        """Return lower and upper bounds, (b, c), of the squared distances of samples to others.

        With e_i the part of sample i beyond the span, ``D_ij = |y_i - y_j|² + |e_i - e_j|²`` and
        ``|e_i|² = h_i``. They are `spread` apart at most; a lower bound may be below 0.
        """
        others = np.asarray(indices, dtype=np.int64)
        # in a unit whose squares float32 has, a power of two
        unit = 2.0 ** np.ceil(np.log2(max(float(self._offsets.max()), 0.0) or 1.0) / 2)
        A, B = ((self.coordinates[part] / unit).astype(np.float32) for part in (rows, others))
        squares, rests = (
            [unit**2 * np.einsum("ij,ij->i", X, X).astype(np.float64) for X in (A, B)],
            [np.sqrt(self._residual[part]) for part in (rows, others)],
        )
        inner = unit**2 * (A @ B.T).astype(np.float64)
        inner *= -2
        inner += squares[0][:, None]
        inner += squares[1]
        least = inner + (rests[0][:, None] - rests[1]) ** 2
        least -= self._slack
        inner += (rests[0][:, None] + rests[1]) ** 2
        inner += self._slack
        return least, inner

    def next_landmarks(self, count: int = 128) -> Ints:
        """Return up to `count` samples farthest from the span, ties by number; none at the end."""
        if not self._landmarks.size:
            return np.unique(np.linspace(0, self.n - 1, min(count, self.n)).astype(np.int64))
        if self.converged:
            return np.empty(0, dtype=np.int64)
        candidates = np.flatnonzero(self._open())
        order = np.argsort(-self._residual[candidates], kind="stable")
        return candidates[order[:count]]

    def _open(self) -> NDArray[np.bool_]:
        """Return which samples are beyond the span, and no landmarks yet."""
        return (self._residual > self._limit) & ~self._used

    def add_columns(self, indices: ArrayLike, columns: ArrayLike) -> None:
        """Add new landmarks by number (c,), with all samples' squared distances (n, c) to them."""
        block = np.asarray(columns, dtype=np.float64)
        self.add_panels(indices, [block[a : a + _ROWS] for a in range(0, self.n, _ROWS)])

    def add_panels(self, indices: ArrayLike, panels: Sequence[Floats]) -> None:
        """Add landmarks as `add_columns`, with columns in panels of samples, in order."""
        new = np.asarray(indices, dtype=np.int64)
        if not self._landmarks.size:
            means = np.concatenate([part.mean(axis=1) for part in panels])
            self._offsets = means - float(means[new].mean()) / 2
            self._residual = self._offsets.copy()
        Y = self.coordinates
        at, far = Y[new], self._offsets[new]
        own = self._gram(_rows_of(panels, new), far, far)
        own -= at @ at.T  # the part that the coordinates so far do not explain
        # Y_new = rest V Λ^(-1/2), for the eigenpairs of the symmetric block rest[new] = V Λ Vᵀ.
        lam, V = scipy.linalg.eigh((own + own.T) / 2)
        # Thin directions come last: a sample that is far in one is to be a landmark of it before.
        coarse = _COARSE * 2.0 * max(float(self._offsets.max()), 0.0)
        farthest = self._residual[~self._used].max(initial=0.0)
        floor = max(coarse if farthest > coarse else self._hidden, self._limit / 8)
        kept = np.flatnonzero(lam > floor)[::-1][: self.max_rank - self._rank]
        transform = V[:, kept] / np.sqrt(lam[kept])  # (c, q_new)
        self._magnified = max(self._magnified, *(1.0 / np.sqrt(lam[kept])), 0.0)
        self._append(panels, at, far, transform)
        self._landmarks = np.concatenate([self._landmarks, new])
        self._used[new] = True

    @staticmethod
    def _gram(block: Floats, left: Floats, right: Floats) -> Floats:
        """Return inner products relative to c: (|x_i - c|² + |x_j - c|² - D_ij) / 2."""
        gram = left[:, None] - block
        gram += right
        gram /= 2
        return gram

    def _append(self, panels: Sequence[Floats], at: Floats, far: Floats, transform: Floats) -> None:
        first, stop = self._rank, self._rank + transform.shape[1]
        if stop > self._storage.shape[1]:
            wider = np.empty((self.n, min(self.max_rank, max(stop, 2 * first))), order="F")
            wider[:, :first] = self.coordinates
            self._storage = wider

        def append(panel: tuple[int, Floats]) -> None:
            start, part = panel
            rows = slice(start, start + len(part))
            rest = self._gram(part, self._offsets[rows], far)
            rest -= self._storage[rows, :first] @ at.T  # (·, c)
            found = rest @ transform
            self._storage[rows, first:stop] = found
            self._residual[rows] -= np.einsum("ij,ij->i", found, found)

        starts = accumulate((len(part) for part in panels), initial=0)
        do_all(append, zip(starts, panels, strict=False))
        self._rank = stop
        np.maximum(self._residual, 0.0, out=self._residual)  # below 0 by rounding only


def _rows_of(panels: Sequence[Floats], rows: Ints) -> Floats:
    """Return some rows of a matrix given in panels of rows."""
    sizes = [len(part) for part in panels]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    owners = np.searchsorted(ends, rows, side="right")
    return np.stack([panels[i][row - starts[i]] for i, row in zip(owners, rows, strict=True)])


def row_factors(points: ArrayLike) -> tuple[Floats, Floats]:
    """Return U = [g, 1, Y] and V = [1, g, -2 Y]; U Vᵀ has the squared distances of Y (n, q)."""
    Y = np.asarray(points, dtype=np.float64)
    g = np.einsum("ij,ij->i", Y, Y)[:, None]
    one = np.ones_like(g)
    return np.hstack([g, one, Y]), np.hstack([one, g, -2.0 * Y])
