"""The default width of a kernel, from the distances between samples.

Paper       A Communication Efficient Federated Kernel k-means, Section 6.1: γ = N² / (2 Σ |x - y|²)
            over all pairs, which is a width r of exp(-|x - y|² / (2 r²)) with r² = Σ |x - y|² / N².
Departures  The paper has the Gaussian kernel only. For the Laplacian the width is a bound on the
            mean distance |x - y|₁, for the polynomial the root mean squared norm.
"""

import numpy as np
from numpy.typing import ArrayLike

from daskfc.arrays import Floats
from daskfc.clustering.kernels.features import KERNELS
from daskfc.clustering.kernels.kernels import real_matrix
from daskfc.errors import InvalidInput

_CONSTANT = 1e-30  # ours: smaller variances, relative to mean squares, are rounding errors


def width_of_moments(kind: str, variances: ArrayLike, squares: ArrayLike) -> float:
    """Return a kernel's width from moments of the features, (d,) or summed (1,); 0 if constant.

    √(2 Σ var); Σ √(2 var), at least the mean |x - y|₁, for the Laplacian; √(Σ squares), the root
    mean squared norm, for the polynomial kernel.
    """
    assert kind in KERNELS, kind
    if kind == "polynomial":
        return float(np.sqrt(np.sum(squares)))
    twice = 2.0 * np.asarray(variances, dtype=np.float64)
    return float(np.sqrt(twice).sum() if kind == "laplacian" else np.sqrt(twice.sum()))


def interpoint_width(X: ArrayLike, kind: str = "gaussian") -> float:
    """Return a kernel's width > 0 from pooled samples (n, d); refuse equal ones."""
    rows = real_matrix(X, "X")
    mean, squares = rows.mean(axis=0), np.einsum("ij,ij->j", rows, rows) / len(rows)
    variances = np.zeros_like(mean)
    step = max(1, (1 << 22) // rows.shape[1])
    for start in range(0, len(rows), step):
        variances += _squares(rows[start : start + step] - mean)
    variances /= len(rows)
    variances[variances <= _CONSTANT * squares] = 0.0
    width = width_of_moments(kind, variances, squares)
    if not 0 < width < np.inf:
        raise InvalidInput(
            "the kernel width must be above 0 and finite; the samples, all alike or too large, "
            "give none. Give kernel_width, or other samples."
        )
    return width


def _squares(rows: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", rows, rows))
