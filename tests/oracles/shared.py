"""Slow, independent rewrites of what daskfc.secure.shared computes, on plain whole numbers."""

import numpy as np

__all__ = ["dbscan", "lloyd", "seeded"]


def lloyd(x, centres, iterations, bits):
    """Lloyd's algorithm of samples below 2^bits, with the rounding of docs/shares.md."""
    samples = [[int(value) for value in row] for row in x]
    centres = [[int(value) for value in row] for row in centres]

    def nearest(sample):
        squares = [
            sum((a - b) ** 2 for a, b in zip(sample, centre, strict=True)) for centre in centres
        ]
        return squares.index(min(squares))

    def mean(values):
        shift = 61 - bits
        reciprocal = 2**shift // len(values)
        positive = sum(values) + len(values) * 2**bits
        return (2 * positive * reciprocal + 2**shift) // 2 ** (shift + 1) - 2**bits

    for _ in range(iterations):
        labels = [nearest(sample) for sample in samples]
        for j in range(len(centres)):
            members = [sample for sample, label in zip(samples, labels, strict=True) if label == j]
            if members:
                centres[j] = [mean(values) for values in zip(*members, strict=True)]
    return np.array([nearest(sample) for sample in samples]), np.array(centres)


def dbscan(x, squared_eps, min_samples):
    """DBSCAN as in the paper: clusters grow one after the other from their first core sample."""
    samples = [[int(value) for value in row] for row in x]
    near = [
        [
            j
            for j, other in enumerate(samples)
            if sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) <= squared_eps
        ]
        for one in samples
    ]
    labels, cluster = [-1] * len(samples), 0
    for i in range(len(samples)):
        if labels[i] >= 0 or len(near[i]) < min_samples:
            continue
        labels[i], growing = cluster, [i]
        while growing:
            for j in near[growing.pop()]:
                if labels[j] < 0:
                    labels[j] = cluster
                    if len(near[j]) >= min_samples:
                        growing.append(j)
        cluster += 1
    return np.array(labels)


def seeded(candidates, starts, whole):
    """Return which candidates k-means++ takes, of the start that leaves the smallest sum.

    A draw takes the first candidate whose running sum reaches that share of the whole.
    """
    points = [[int(value) for value in row] for row in candidates]

    def squares(found):
        return [
            min(sum((a - b) ** 2 for a, b in zip(point, points[j], strict=True)) for j in found)
            for point in points
        ]

    every = []
    for first, *draws in starts:
        found = [first]
        for draw in draws:
            near = squares(found)
            reached, i = near[0], 0
            while reached * whole < draw * sum(near):
                i += 1
                reached += near[i]
            found.append(i)
        every.append(found)
    return min(every, key=lambda found: sum(squares(found)))
