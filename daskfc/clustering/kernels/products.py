"""Products with a kernel matrix of samples, which is never in memory as a whole if it is large."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from daskfc.arrays import Floats
from daskfc.clustering.kernels.features import Kernel
from daskfc.clustering.views.views import Places
from daskfc.seeds import generator

Real: TypeAlias = Any  # an array of float32 or float64
Block: TypeAlias = Callable[[Places, Places], Real]

_STEP = 2048  # ours: samples on a side of a block; 32 MiB of float64
_NULL = 1e-12  # ours: smaller eigenvalues, relative to the largest, are rounding errors
_BLOCK = 1 << 22  # numbers in a block of rows: 32 MiB
HELD = 512 * 2**20
"""Ours: bytes of half a kernel matrix that is held."""


def kernel_of_points(points: Floats, kernel: Kernel, *, single: bool = False) -> Block:
    """Return a function from places of rows and columns of samples to kernel values."""
    dtype = np.float32 if single else np.float64
    if kernel.kind == "laplacian":

        def city_block(rows: Places, columns: Places) -> Real:
            K: Real = cdist(points[rows], points[columns], "cityblock")
            K *= -1.0 / kernel.width
            return np.exp(K, out=K).astype(dtype, copy=False)

        return city_block
    offset = points.mean(axis=0) if kernel.kind == "gaussian" else 0.0  # less cancellation
    Y: Real = ((points - offset) / kernel.width).astype(dtype)
    if kernel.kind == "polynomial":

        def polynomial(rows: Places, columns: Places) -> Real:
            K = Y[rows] @ Y[columns].T
            K += 1.0
            return np.power(K, kernel.degree, out=K)

        return polynomial
    halves = np.einsum("ij,ij->i", Y, Y) / 2

    def gaussian(rows: Places, columns: Places) -> Real:
        K = Y[rows] @ Y[columns].T
        K -= halves[rows][:, None]
        K -= halves[columns]
        np.minimum(K, 0.0, out=K)
        return np.exp(K, out=K)

    return gaussian


def kernel_of_distances(squared: Floats, width: float) -> Block:
    """Return a function from places of rows and columns to exp(-D / (2 r²)), with D (n, n)."""

    def gaussian(rows: Places, columns: Places) -> Real:
        K = squared[rows][:, columns] * (-0.5 / width**2)
        return np.exp(K, out=K)

    return gaussian


def near_leading(block: Block, n: int, width: int, seed: int, least: int = 1) -> Floats:
    """Return b in [`least`, `width`] vectors (n, b) near the leading eigenvectors, by Nyström."""
    L = np.sort(generator(seed, "start").choice(n, min(max(1000, 4 * width), n // 2), False))
    root = inverse_root(np.asarray(block(L, L), dtype=np.float64), width)
    start = np.empty((n, root.shape[1]))
    for part in parts_of(n, len(L)):
        start[part] = block(part, L) @ root
    if start.shape[1] < least:  # landmarks are too similar
        more = generator(seed, "more").standard_normal((n, least - start.shape[1]))
        start = np.hstack([start, more])
    return start


def inverse_root(W: Floats, rank: int) -> Floats:
    """Return R with R Rᵀ = W⁺ on W's leading eigenvectors, except those of rounding errors."""
    values, vectors = scipy.linalg.eigh((W + W.T) / 2)
    kept = np.flatnonzero(values > _NULL * values[-1])[-rank:]
    return vectors[:, kept] / np.sqrt(values[kept])


def parts_of(n: int, width: int) -> list[slice]:
    """Return slices of n rows of a width, in blocks."""
    step = max(1, _BLOCK // width)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


class KernelProducts:
    """A symmetric kernel matrix, half of it kept up to 512 MiB, or recomputed in each product."""

    def __init__(self, block: Block, n: int, dtype: type = np.float64) -> None:
        self.n = n
        self._block = block
        self._dtype = dtype
        self._held: dict[tuple[int, int], Real] | None = {} if self.holds(n, dtype) else None

    @staticmethod
    def size(n: int, dtype: type) -> int:
        """Return the bytes of half the matrix of n samples."""
        return int(n * (n + _STEP) // 2 * np.dtype(dtype).itemsize)

    @classmethod
    def holds(cls, n: int, dtype: type) -> bool:
        """Return whether half the matrix of n samples is kept."""
        return cls.size(n, dtype) <= HELD

    def _at(self, i: int, j: int) -> Real:
        if self._held is not None and (i, j) in self._held:
            return self._held[i, j]
        K = self._block(slice(i, i + _STEP), slice(j, j + _STEP))
        if self._held is not None:
            self._held[i, j] = K
        return K

    def dot(self, vectors: Floats) -> Floats:
        """Return the matrix times vectors, (n, c)."""
        V: Real = vectors.astype(self._dtype, copy=False)
        result = np.zeros(V.shape)
        for i in range(0, self.n, _STEP):
            for j in range(i, self.n, _STEP):
                K = self._at(i, j)
                result[i : i + _STEP] += K @ V[j : j + _STEP]
                if j > i:
                    result[j : j + _STEP] += K.T @ V[i : i + _STEP]
        return result
