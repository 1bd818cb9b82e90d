"""FedSC's choices before the first round: kernel width, number of atoms, first dictionary.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity
            Reconstruction", NeurIPS 2023, Appendix D.3.
Notation    paper     here           shape, range
            X_p       X              (n, m) float64, samples in rows, stays at the client
            D_p       -              (n, n) squared distances, read in blocks
            r         width          > 0, in units of the data
            d         n_atoms        int >= 1
            tol       mass           in (0, 1], 0.99 in the paper
            Z⁰        -              (d, m) float64, the first dictionary
Departures  (1) Each client counts atoms from its own kernel, Eq. (43), since the paper's rule needs
            the kernel of all data; it reads at most 1,000 random samples, and 20,000 for Eq. (42).
            (2) Where 0.99 of the eigenvalues' sum takes more than 200 atoms, which no client of the
            paper's tables needs, 0.95 is enough. (3) The first dictionary has the mean and spread
            of every feature, from two secure sums; the published normals are `normal_dictionary`.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.arrays import Floats, Ints
from daskfc.checks import check_params, integer, real
from daskfc.clustering.kernels.kernels import atom_kernel, gaussian, real_matrix
from daskfc.linalg import symmetric_squared_distances
from daskfc.seeds import generator

_BLOCK = 1 << 22  # distances in memory at a time: 32 MiB
_READ = 1000  # ours: samples from which a client counts its atoms
_MANY = 200  # ours: more than clients of the paper's tables need (D98)


def mean_distance(X: ArrayLike, *, seed: int = 0, max_samples: int = 20_000) -> float:
    """Return a client's part of Eq. (42), Σ_ij |x_i - x_j| / n², by a subset if n is large."""
    X = _some(real_matrix(X, "X"), max_samples, seed, "mean distance")
    n = len(X)
    Y = X - X.mean(axis=0)  # shorter vectors, less cancellation
    g = np.einsum("ij,ij->i", Y, Y)
    step = max(1, _BLOCK // n)
    parts = []
    for start in range(0, n, step):
        rows = Y[start : start + step]
        block = rows @ Y[start:].T  # each pair once, but twice within the first square
        block *= -2.0
        block += g[start:]
        block += g[start : start + step, None]
        np.maximum(block, 0.0, out=block)
        np.fill_diagonal(block, 0.0)
        np.sqrt(block, out=block)
        square = float(block[:, : len(rows)].sum())
        parts += [square, 2.0 * float(block[:, len(rows) :].sum())]
    return math.fsum(parts) / n**2


def count_atoms(
    X: ArrayLike, width: float, *, mass: float = 0.99, seed: int = 0, max_samples: int = 2000
) -> int:
    """Return how many eigenvalues have a share `mass` of their sum, Eq. (43); sent in clear."""
    params = {"width": width, "mass": mass, "seed": seed, "max_samples": max_samples}
    rules = {
        "width": real(above=0),
        "mass": real(high=1, above=0),
        "seed": integer(0),
        "max_samples": integer(1),
    }
    check_params("count_atoms", params, rules)
    return _holding(_sums_of_eigenvalues(X, width, seed, max_samples), mass)


def default_atoms(X: ArrayLike, width: float) -> int:
    """Return `count_atoms` for 0.99; above 200, for 0.95 but at least 200 (D98); sent in clear."""
    check_params("default_atoms", {"width": width}, {"width": real(above=0)})
    return _enough(_sums_of_eigenvalues(X, width, seed=0, max_samples=_READ))


def width_and_atoms(X: ArrayLike) -> tuple[float, int]:
    """Return `mean_distance` and its `default_atoms`, sent in clear; 0 and 1 for equal samples."""
    X = real_matrix(X, "X")
    n = len(X)
    if n * n > _BLOCK:
        width = mean_distance(X)
        return width, default_atoms(X, width) if width > 0 else 1
    squared = symmetric_squared_distances(X)
    width = float(np.sqrt(squared).sum()) / n**2
    if width == 0.0:
        return 0.0, 1
    check_params("width_and_atoms", {"width": width}, {"width": real(above=0)})
    rows = _drawn(n, _READ, 0, "atoms")
    return width, _enough(_sums_of_kernel(gaussian(squared[np.ix_(rows, rows)], width)))


def _enough(sums: Floats) -> int:
    """Return the default number of atoms, from the sums of the 1, 2, ... largest eigenvalues."""
    atoms = _holding(sums, 0.99)
    return atoms if atoms <= _MANY else max(_MANY, _holding(sums, 0.95))


def _sums_of_eigenvalues(X: ArrayLike, width: float, seed: int, max_samples: int) -> Floats:
    """Return the sums of the 1, 2, ... largest eigenvalues of the kernel of some samples."""
    X = _some(real_matrix(X, "X"), max_samples, seed, "atoms")
    return _sums_of_kernel(atom_kernel(X, width))


def _sums_of_kernel(K: Floats) -> Floats:
    values = np.linalg.eigvalsh(K)[::-1]
    return np.cumsum(np.maximum(values, 0.0))  # below 0 by rounding only


def _holding(sums: Floats, mass: float) -> int:
    """Return how many of the largest eigenvalues have a share of the whole sum."""
    n = len(sums)
    # The whole sum is reached by the last eigenvalue above rounding errors.
    wanted = min(mass, 1.0 - n * np.finfo(np.float64).eps) * sums[-1]
    return min(int(np.searchsorted(sums, wanted)) + 1, n)


def _some(X: Floats, most: int, seed: int, purpose: str) -> Floats:
    """Return all rows, or a random `most` of them."""
    return X if len(X) <= most else X[_drawn(len(X), most, seed, purpose)]


def _drawn(n: int, most: int, seed: int, purpose: str) -> Ints:
    """Return the indices of these rows."""
    if n <= most:
        return np.arange(n)
    return generator(seed, purpose).choice(n, most, replace=False)


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation (divisor n) of every feature of all data, in its units, (m,)."""

    mean: Floats
    spread: Floats

    @classmethod
    def of_sum(cls, total: Floats, count: int, magnitude: float) -> "Moments":
        """Return those of `count` samples, from the sum of their `parts_of_moments`."""
        sums, squares = (_of_digits(half) for half in np.split(total, 2))
        # whole numbers: in float64 little would be left of the variance far from the origin
        one = count << 120
        variance = np.maximum(one * squares - sums * sums, 0) / one**2
        spread = np.sqrt(variance.astype(np.float64))
        unit = magnitude or 1.0
        return cls(unit * (sums / one).astype(np.float64), unit * spread)


def parts_of_moments(X: Floats, magnitude: float) -> Floats:
    """Return a client's sums of features and of their squares, in units of `magnitude`, (10, m).

    Each is five digits to base 2**24, in [-n, n], whose sums in fixed point are exact.
    """
    Y = X / (magnitude or 1.0)
    centre = Y.mean(axis=0)
    Y -= centre
    parts = centre, Y.sum(axis=0), np.einsum("ij,ij->j", Y, Y)
    c, s, q = np.array([[int(math.ldexp(v, 120)) for v in part] for part in parts], dtype=object)
    sums = len(Y) * c + s
    squares = ((sums + s) * c >> 120) + q
    return np.concatenate([_digits(sums), _digits(squares)])


def _digits(values: NDArray[np.object_]) -> Floats:
    """Return the digits, (5, m), of whole numbers of 2**-120."""
    size = np.abs(values)
    rows = [size >> 96, *((size >> place) % 2**24 for place in (72, 48, 24, 0))]
    return np.where(values < 0, -1.0, 1.0) * np.array(rows, dtype=np.float64) / 2**24


def _of_digits(rows: Floats) -> NDArray[np.object_]:
    """Return whole numbers of 2**-120 from sums of digits."""
    digits = np.rint(rows * 2**24).astype(np.int64).astype(object)
    return np.asarray(functools.reduce(lambda high, low: (high << 24) + low, digits))


def first_dictionary(moments: Moments, n_atoms: int, seed: int) -> Floats:
    """Return atoms (d, m): normal draws with the mean and spread of every feature of all data."""
    normals = normal_dictionary(n_atoms, len(moments.mean), 1, seed)
    return moments.mean + moments.spread * normals


def normal_dictionary(n_atoms: int, n_features: int, n_clients: int, seed: int) -> Floats:
    """Return the published start (d, m), the mean of P standard normals: σ = 1 / √P."""
    params = {"n_atoms": n_atoms, "n_features": n_features, "n_clients": n_clients, "seed": seed}
    rules = {name: integer(0 if name == "seed" else 1) for name in params}
    check_params("the first dictionary", params, rules)
    draws = generator(seed, "first dictionary").normal(size=(n_atoms, n_features))
    return draws / math.sqrt(n_clients)
