"""Slow, independent rewrites of what daskfc.secure.shared computes, on plain whole numbers."""

import numpy as np

__all__ = ["lloyd"]


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
