"""disKPCA: principal components in a kernel's space, of samples at several clients.

Paper       M.-F. Balcan, Y. Liang, L. Song, D. Woodruff, B. Xie, "Communication efficient
            distributed kernel principal component analysis", KDD 2016 (arXiv 1503.06858):
            disLS (leverage scores), RepSample (representatives), disLR (components).
Notation    paper    here
            A^i      a client's samples, (n_i, d)
            S        `embedded`: random features, then a sketch to t numbers a sample
            E^i      (t, n_i), S(φ(A^i))
            T^i      `sketched`: from n_i columns to p
            Z        `leverage_factor` returns Z^(-T)
            Y        representatives, (p, d)
            Q        orthonormal basis of the span of φ(Y): R^(-1) of Cholesky's K(Y, Y) = Rᵀ R
            Π^i      `projected`: coordinates Qᵀ φ(A^i), (p, n_i)
            W        `leading_directions`: left singular vectors of all Π^i T^i
Departures  (1) Z^(-T) is restricted to the rank of E's sketch. (2) K(Y, Y) gets 1e-10 of its mean
            diagonal, so that equal representatives cause no error. (3) Sketches are Gaussian, and
            left out where they would not reduce the size; the paper composes faster ones. (4) A
            client draws samples without replacement.
"""

from collections.abc import Iterable

import numpy as np
import scipy.linalg

from daskfc.arrays import Floats, Ints
from daskfc.clustering.kernels.features import Kernel, RandomFeatures
from daskfc.linalg.spectrum import signed
from daskfc.seeds import generator

_RANK = 1e-10  # ours: smaller singular values, relative to the largest, are rounding errors
_RIDGE = 1e-10
_BLOCK = 1 << 20  # random numbers of a sketch drawn at a time: 8 MiB


def embedded(features: RandomFeatures, rows: Floats, n_rows: int, seed: int) -> Floats:
    """Return E = S(φ(rows)), (min(t, D), n), for rows (n, d), by a seed that all clients share."""
    E = features.of(rows).T
    if len(E) <= n_rows:
        return E
    S = generator(seed, "embedding").standard_normal((n_rows, len(E)))
    return np.asarray(S @ E / np.sqrt(n_rows))


def sketched(
    blocks: Iterable[Floats], n: int, n_columns: int, seed: int, *key: int | str
) -> Floats:
    """Return blocks of a (t, n) matrix times a random (n, p) one; itself if n is at most p."""
    if n <= n_columns:
        return np.concatenate(list(blocks), axis=1)
    random, step = generator(seed, *key, "sketch"), max(1, _BLOCK // n_columns)
    result: Floats | None = None
    for block in blocks:
        for start in range(0, block.shape[1], step):
            part = block[:, start : start + step]
            share = part @ random.standard_normal((part.shape[1], n_columns))
            result = share if result is None else result + share
    assert result is not None, n
    return np.asarray(result / np.sqrt(n_columns))


def leverage_factor(sketches: Iterable[Floats]) -> Floats:
    """Return F (rank, t) with FᵀF = (M Mᵀ)⁺, for M of all clients' sketches side by side."""
    M = np.concatenate(list(sketches), axis=1)
    U, sigma, _ = scipy.linalg.svd(M, full_matrices=False)
    kept = sigma > _RANK * max(float(sigma.max()), np.finfo(float).tiny)
    return np.asarray((U[:, kept] / sigma[kept]).T)


def leverage_scores(factor: Floats, E: Floats) -> Floats:
    """Return the leverage score of each column of E in all clients' space, (n,)."""
    return np.asarray(np.square(factor @ E).sum(axis=0))


def shares(totals: Floats, n_samples: int, seed: int, what: str) -> Ints:
    """Draw each client's number of samples in proportion to its sum of scores, 0 without any."""
    if not totals.sum() > 0:
        return np.zeros(len(totals), dtype=np.int64)
    return generator(seed, "shares", what).multinomial(n_samples, totals / totals.sum())


def drawn(scores: Floats, n_samples: int, seed: int, *key: int | str) -> Ints:
    """Draw up to `n_samples` in proportion to scores, each once; return their places, ascending."""
    able = np.flatnonzero(scores > 0)
    count = min(n_samples, able.size)
    if count == 0:
        return able[:0]
    chance = scores[able] / scores[able].sum()
    return np.sort(generator(seed, *key, "drawn").choice(able, count, replace=False, p=chance))


class SpanOfSamples:
    """The span of φ of some samples, the rows of Y (p, d), of which some may be equal."""

    def __init__(self, kernel: Kernel, points: Floats) -> None:
        self._kernel, self._points = kernel, points
        K = kernel.values(points, points)
        K = (K + K.T) / 2
        K[np.diag_indices_from(K)] += _RIDGE * np.trace(K) / len(K)
        self._root = scipy.linalg.cholesky(K)  # unique: the same at every client

    def projected(self, rows: Floats) -> Floats:
        """Return Π: coordinates of φ(rows) in an orthonormal basis of the span, (p, n)."""
        K = self._kernel.values(self._points, rows)
        return np.asarray(scipy.linalg.solve_triangular(self._root, K, trans="T"))

    def residuals(self, rows: Floats) -> Floats:
        """Return squared distances of φ(rows) to the span, (n,), without rounding errors near 0."""
        norms = self._norms(rows)
        rest = norms - np.square(self.projected(rows)).sum(axis=0)
        return np.where(rest > 1e3 * _RIDGE * norms, rest, 0.0)

    def _norms(self, rows: Floats) -> Floats:
        """Return κ(x, x)."""
        if self._kernel.is_stationary:
            return np.ones(len(rows))
        squares = np.einsum("ij,ij->i", rows, rows)
        return np.asarray((squares / self._kernel.width**2 + 1.0) ** self._kernel.degree)


def leading_directions(sketches: Iterable[Floats], k: int) -> Floats:
    """Return W (p, k), the leading left singular vectors of all clients' Π^i T^i side by side."""
    gram: Floats = np.asarray(sum(part @ part.T for part in sketches))
    vectors = scipy.linalg.eigh(gram)[1][:, ::-1][:, :k]
    W = np.zeros((len(gram), k))
    W[:, : vectors.shape[1]] = signed(vectors)
    return W
