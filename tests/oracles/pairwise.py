"""Slow rewrites of what daskfc.pairwise streams: plain loops over a matrix that lies in memory."""

import numpy as np

__all__ = ["distances", "edges", "nearest"]


def distances(points):
    """Squared distances of integer points, entry by entry; exact in float64."""
    n = len(points)
    D = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            D[i, j] = sum((int(a) - int(b)) ** 2 for a, b in zip(points[i], points[j], strict=True))
    return D


def nearest(D, k):
    """Indices and distances of the k nearest others; equal distances in order of the index."""
    ranked = [
        sorted((float(d), j) for j, d in enumerate(row) if j != i)[:k] for i, row in enumerate(D)
    ]
    indices = np.array([[j for _, j in row] for row in ranked])
    return indices, np.array([[d for d, _ in row] for row in ranked])


def edges(D, radius2):
    """All pairs i < j within the radius."""
    n = len(D)
    return {(i, j) for i in range(n) for j in range(i + 1, n) if D[i, j] <= radius2}
