"""Which nodes k-means++ draws, and which one an empty cluster gets."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.seeds import generator

__all__ = ["drawn", "filled"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


def drawn(mass: Floats, count: int, order: Integers, seed: int, number: int) -> Integers:
    """Draw nodes with probability in proportion to their mass.

    Parameters
    ----------
    mass : ndarray of shape (R, n), float64
        Of each node, in each restart.
    count : int
        Nodes that are drawn in a restart.
    order : ndarray of shape (n,), int64
        The order of the nodes that a draw's random number goes along.
    seed, number : int
        Of the draws, and of this one.

    Returns
    -------
    ndarray of shape (R, count), int64
        Nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.draws import drawn
    >>> drawn(np.array([[0.0, 2.0, 0.0]]), 3, np.array([2, 1, 0]), 0, 0).tolist()
    [[1, 1, 1]]
    """
    mass = mass[:, order]
    total = np.cumsum(mass, axis=1)
    random = generator(seed, "k-means++", number)
    points = random.random((len(mass), count)) * total[:, -1:]
    nodes = np.empty(points.shape, dtype=np.int64)
    for run, row in enumerate(total):
        nodes[run] = np.searchsorted(row, points[run], side="right")
        last = np.flatnonzero(mass[run])  # rounding may step past the end
        np.minimum(nodes[run], last[-1] if last.size else mass.shape[1] - 1, out=nodes[run])
    return order[nodes]


def filled(labels: Integers, nearest: Floats, k: int, order: Integers) -> Integers:
    """Give every empty cluster the farthest node whose cluster has another node.

    Parameters
    ----------
    labels : ndarray of shape (A, n), int64
        Clusters of the nodes, in each restart.
    nearest : ndarray of shape (A, n), float64
        Their distances to their centres.
    k : int
        Number of clusters.
    order : ndarray of shape (n,), int64
        Of equally far nodes, the first in this order counts.

    Returns
    -------
    ndarray of shape (A, n), int64
        A copy. A cluster stays empty where no node with a positive distance may leave its own.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.draws import filled
    >>> filled(np.array([[0, 0, 0]]), np.array([[1.0, 4.0, 4.0]]), 2, np.array([2, 1, 0])).tolist()
    [[0, 0, 1]]
    """
    labels = labels.copy()
    for row, far in zip(labels, nearest, strict=True):
        sizes = np.bincount(row, minlength=k)
        empty = np.flatnonzero(sizes == 0)
        if not empty.size:
            continue
        candidates = iter(order[np.argsort(-far[order], kind="stable")])
        for cluster in empty:
            node = next((i for i in candidates if far[i] > 0 and sizes[row[i]] > 1), None)
            if node is None:
                break
            sizes[row[node]] -= 1
            row[node] = cluster
            sizes[cluster] = 1
    return labels
