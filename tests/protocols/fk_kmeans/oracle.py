"""DSPGD on whole matrices, one line for each of the paper's: slow, and written apart."""

import numpy as np


def dspgd(phis, n_clusters, n_eigenvectors):
    """Yield Z_t+1, K̂_t's factor H and λ after each iteration, of features a / √D of all samples."""
    n = len(phis[0])
    Z, threshold = np.zeros((n, n)), None
    for t, phi in enumerate(phis, start=1):
        R = (1 - 1 / t) * Z + (1 / t) * phi @ phi.T
        values, vectors = np.linalg.eigh(R)
        values, vectors = values[::-1], vectors[:, ::-1]
        if threshold is None:
            threshold = values[n_clusters + 1]
        Z = (vectors * np.maximum(values - threshold / t, 0)) @ vectors.T
        s = n_eigenvectors
        H = vectors[:, :s] * np.sqrt(values[:s] + (1 - 1 / t) * threshold)
        yield Z, H, threshold
