"""The Gaussian kernel between samples and atoms, in blocks of rows."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.checks import check_params, real
from daskfc.errors import InvalidInput
from daskfc.linalg import squared_distances, symmetric_squared_distances

__all__ = ["atom_kernel", "gaussian", "gaussian_kernel", "real_matrix", "same_features"]

Floats: TypeAlias = NDArray[np.float64]

_BLOCK = 1 << 22  # numbers of a block of rows: 32 MiB


def real_matrix(values: ArrayLike, name: str) -> Floats:
    """Return a finite float64 matrix, or refuse it without telling a value.

    Parameters
    ----------
    values : array_like of shape (n, m)
        Integers or floats.
    name : str
        What it is, for the message.

    Returns
    -------
    ndarray of shape (n, m), float64
        The same array where it already is one.

    Raises
    ------
    InvalidInput
        For anything but a matrix of finite numbers with at least one row and one column.

    Examples
    --------
    >>> from daskfc.clustering.kernels import real_matrix
    >>> real_matrix([[1, 2]], "X").tolist()
    [[1.0, 2.0]]
    """
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
    """Return samples and atoms as finite float64 matrices of the same features.

    Parameters
    ----------
    X : array_like of shape (n, m)
        Samples.
    Z : array_like of shape (d, m)
        Atoms.

    Returns
    -------
    X, Z : ndarray, float64
        Not copied where they are such matrices.

    Raises
    ------
    InvalidInput
        For anything else.

    Examples
    --------
    >>> from daskfc.clustering.kernels import same_features
    >>> same_features([[0, 1]], [[2, 3]])[1].tolist()
    [[2.0, 3.0]]
    """
    X, Z = real_matrix(X, "X"), real_matrix(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise InvalidInput(
            f"Z must have as many columns as X, {X.shape[1]} features; got {Z.shape[1]}. "
            f"Start from a dictionary of the same features."
        )
    return X, Z


def gaussian_kernel(X: ArrayLike, Z: ArrayLike, width: float) -> Floats:
    """Return the Gaussian kernel between samples and atoms, exp(-|x - z|² / (2 r²)).

    Parameters
    ----------
    X : array_like of shape (n, m)
        Samples.
    Z : array_like of shape (d, m)
        Atoms.
    width : float
        r > 0, in units of the data.

    Returns
    -------
    ndarray of shape (n, d), float64
        In [0, 1], with the rounding of an inner product in the exponent.

    Raises
    ------
    InvalidInput
        For arrays that are no finite matrices of the same features, and a width not above 0.

    Examples
    --------
    >>> from daskfc.clustering.kernels import gaussian_kernel
    >>> gaussian_kernel([[0.0], [2.0]], [[0.0]], 1.0).round(6).tolist()
    [[1.0], [0.135335]]
    """
    check_params("the Gaussian kernel", {"width": width}, {"width": real(above=0)})
    X, Z = same_features(X, Z)
    K = np.empty((len(X), len(Z)))
    step = max(1, _BLOCK // max(K.shape[1], X.shape[1]))
    for start in range(0, len(X), step):
        K[start : start + step] = squared_distances(X[start : start + step], Z)
    return gaussian(K, width)


def gaussian(squared: Floats, width: float) -> Floats:
    """Return the Gaussian kernel of squared distances, which it is written over.

    Parameters
    ----------
    squared : ndarray, float64
        Squared distances, at least 0.
    width : float
        r > 0, in units of the data.

    Returns
    -------
    ndarray of the same shape, float64
        exp(-squared / (2 r²)), in the same memory.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.kernels import gaussian
    >>> gaussian(np.array([0.0, 4.0]), 1.0).round(6).tolist()
    [1.0, 0.135335]
    """
    with np.errstate(over="ignore"):  # exp(-inf) = 0 is the right answer
        squared /= -2.0 * width
        squared /= width
    return np.exp(squared, out=squared)


def atom_kernel(Z: ArrayLike, width: float) -> Floats:
    """Return K(Z, Z), exactly symmetric with a diagonal of exactly 1.

    Parameters
    ----------
    Z : array_like of shape (d, m)
        Atoms.
    width : float
        r > 0, in units of the data.

    Returns
    -------
    ndarray of shape (d, d), float64
        Positive semidefinite up to rounding.

    Raises
    ------
    InvalidInput
        As for `gaussian_kernel`.

    Examples
    --------
    >>> from daskfc.clustering.kernels import atom_kernel
    >>> atom_kernel([[0.0], [2.0]], 1.0).round(6).tolist()
    [[1.0, 0.135335], [0.135335, 1.0]]
    """
    check_params("the Gaussian kernel", {"width": width}, {"width": real(above=0)})
    return gaussian(symmetric_squared_distances(real_matrix(Z, "Z")), width)
