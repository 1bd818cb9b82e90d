"""The draws of k-means++, and the nodes that empty clusters get."""

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.seeds import generator


def drawn(mass: Floats, count: int, order: Ints, seed: int, number: int) -> Ints:
    """Draw nodes (R, count) in proportion to their mass (R, n), accumulated in this `order`."""
    mass = mass[:, order]
    total = np.cumsum(mass, axis=1)
    random = generator(seed, "k-means++", number)
    points = random.random((len(mass), count)) * total[:, -1:]
    nodes = np.empty(points.shape, dtype=np.int64)
    for run, row in enumerate(total):
        nodes[run] = np.searchsorted(row, points[run], side="right")
        last = np.flatnonzero(mass[run])  # rounding may exceed the total
        np.minimum(nodes[run], last[-1] if last.size else mass.shape[1] - 1, out=nodes[run])
    return order[nodes]


def filled(labels: Ints, nearest: Floats, k: int, order: Ints) -> Ints:
    """Give empty clusters of labels (A, n) the farthest node, not at 0, of a larger cluster."""
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
