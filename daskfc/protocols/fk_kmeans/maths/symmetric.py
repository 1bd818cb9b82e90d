"""Symmetric matrices as vectors of their upper triangles, with the same Euclidean norm."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["matrix_of", "packed", "packed_size"]

Floats = NDArray[np.float64]


def packed_size(n: int) -> int:
    """Return how many numbers a symmetric matrix of n rows has: n (n + 1) / 2."""
    return n * (n + 1) // 2


def packed(G: Floats) -> Floats:
    """Return the upper triangle, row by row, with √2 on what is off the diagonal.

    Parameters
    ----------
    G : ndarray of shape (n, n), float64
        Symmetric.

    Returns
    -------
    ndarray of shape (n (n + 1) / 2,), float64
        Its norm is the Frobenius norm of G, so that noise on it is the noise that G needs.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.fk_kmeans.maths.symmetric import packed
    >>> packed(np.array([[1.0, 2.0], [2.0, 3.0]])).round(3).tolist()
    [1.0, 2.828, 3.0]
    """
    row, column = np.triu_indices(len(G))
    values: Floats = G[row, column]
    values[row != column] *= math.sqrt(2.0)
    return values


def matrix_of(values: Floats) -> Floats:
    """Return the symmetric matrix of a packed triangle.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.fk_kmeans.maths.symmetric import matrix_of, packed
    >>> G = np.array([[1.0, 2.0], [2.0, 3.0]])
    >>> matrix_of(packed(G)).round(12).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    n = (math.isqrt(8 * len(values) + 1) - 1) // 2
    row, column = np.triu_indices(n)
    G = np.empty((n, n))
    G[row, column] = np.where(row == column, values, values / math.sqrt(2.0))
    G[column, row] = G[row, column]
    return G
