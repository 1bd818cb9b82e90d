"""The Gaussian kernel between samples and atoms, in blocks of rows."""

import numpy as np
from numpy.typing import ArrayLike

from daskfc.arrays import Floats
from daskfc.checks import check_params, real
from daskfc.errors import InvalidInput
from daskfc.linalg import squared_distances, symmetric_squared_distances

_BLOCK = 1 << 22  # numbers in a block of rows: 32 MiB


def real_matrix(values: ArrayLike, name: str) -> Floats:
    """Return a finite, non-empty float64 matrix, uncopied if it is; errors show no value."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a matrix of numbers; got something else.") from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise InvalidInput(
            f"{name} must be a matrix with at least one row and one column; got an array of shape "
            f"{matrix.shape}. Give samples or atoms in rows."
        )
    if not np.isfinite(matrix).all():
        raise InvalidInput(f"{name} must be finite; got nan or inf. Remove or fill these entries.")
    return matrix


def same_features(X: ArrayLike, Z: ArrayLike) -> tuple[Floats, Floats]:
    """Return samples (n, m) and atoms (d, m) as finite float64 matrices, uncopied if they are."""
    X, Z = real_matrix(X, "X"), real_matrix(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise InvalidInput(
            f"Z must have as many columns as X, {X.shape[1]} features; got {Z.shape[1]}. "
            f"Start from a dictionary of the same features."
        )
    return X, Z


def gaussian_kernel(X: ArrayLike, Z: ArrayLike, width: float) -> Floats:
    """Return exp(-|x - z|² / (2 r²)), (n, d), in [0, 1], of samples (n, m) and atoms (d, m)."""
    check_params("the Gaussian kernel", {"width": width}, {"width": real(above=0)})
    X, Z = same_features(X, Z)
    K = np.empty((len(X), len(Z)))
    step = max(1, _BLOCK // max(K.shape[1], X.shape[1]))
    for start in range(0, len(X), step):
        K[start : start + step] = squared_distances(X[start : start + step], Z)
    return gaussian(K, width)


def gaussian(squared: Floats, width: float) -> Floats:
    """Overwrite squared distances by the kernel exp(-squared / (2 r²)), and return it."""
    with np.errstate(over="ignore"):  # exp(-inf) = 0 is right
        squared /= -2.0 * width
        squared /= width
    return np.exp(squared, out=squared)


def atom_kernel(Z: ArrayLike, width: float) -> Floats:
    """Return K(Z, Z), (d, d), exactly symmetric with diagonal 1; semidefinite up to rounding."""
    check_params("the Gaussian kernel", {"width": width}, {"width": real(above=0)})
    return gaussian(symmetric_squared_distances(real_matrix(Z, "Z")), width)
