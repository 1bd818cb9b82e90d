"""Symmetric matrices as vectors of their upper triangles, with the same Euclidean norm."""

import math

import numpy as np

from daskfc.arrays import Floats


def packed_size(n: int) -> int:
    """Return the size of the triangle of an n × n symmetric matrix: n (n + 1) / 2."""
    return n * (n + 1) // 2


def packed(G: Floats) -> Floats:
    """Return the upper triangle, row by row, with entries off the diagonal times √2."""
    row, column = np.triu_indices(len(G))
    values: Floats = G[row, column]
    values[row != column] *= math.sqrt(2.0)
    return values


def matrix_of(values: Floats) -> Floats:
    """Return the symmetric matrix of a packed triangle."""
    n = (math.isqrt(8 * len(values) + 1) - 1) // 2
    row, column = np.triu_indices(n)
    G = np.empty((n, n))
    G[row, column] = np.where(row == column, values, values / math.sqrt(2.0))
    G[column, row] = G[row, column]
    return G
