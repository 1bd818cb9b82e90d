"""Slow rewrites of FedSC's pieces from their definitions, with n x n matrices, for small inputs."""

import numpy as np


def kernel(X, Z, width):
    return np.array([[np.exp(-np.sum((x - z) ** 2) / (2 * width**2)) for z in Z] for x in X])


def objective(X, Z, C, width, ridge):
    """Eq. (8) with its three traces."""
    fit = np.trace(kernel(X, X, width)) / 2 - np.trace(C.T @ kernel(Z, X, width))
    smooth = np.trace(C.T @ kernel(Z, Z, width) @ C) / 2
    return fit + smooth + ridge / 2 * np.sum(C**2)


def best_coefficients(X, Z, width, ridge):
    """Eq. (14), with an inverse."""
    return np.linalg.inv(kernel(Z, Z, width) + ridge * np.eye(len(Z))) @ kernel(Z, X, width)


def preconditioned(X, Z, C, width, ridge):
    """Z - r² H⁻¹ ∂f/∂Z with H from Eq. (15)'s intermediate variables, nothing simplified."""
    W = C * kernel(Z, X, width)
    Q = 0.5 * (C @ C.T) * kernel(Z, Z, width)
    H = np.diag(W.sum(axis=1)) - 2 * np.diag(Q.sum(axis=1)) + 2 * Q
    G = -(W @ X - np.diag(W.sum(axis=1)) @ Z) + 2 * (Q @ Z - np.diag(Q.sum(axis=1)) @ Z)
    return Z - np.linalg.inv(H) @ G


def mean_distance(X):
    return np.mean([[np.sqrt(np.sum((x - y) ** 2)) for y in X] for x in X])


def sparsified(K, k):
    """Eq. (25): scale to [0, 1], keep a sample and its k - 1 most similar others, symmetrise."""
    scaled = (K - K.min()) / (K.max() - K.min())
    S = np.zeros_like(scaled)
    for i in range(len(K)):
        others = [j for j in range(len(K)) if j != i]
        kept = sorted(others, key=lambda j: (-scaled[i, j], j))[: k - 1]
        for j in [i, *kept]:
            S[i, j] = scaled[i, j]
    return np.maximum(S, S.T)


def spectral_rows(S, k):
    """Ng, Jordan and Weiss: rows of the k leading eigenvectors, each divided by its norm."""
    degrees = S.sum(axis=1)
    N = S / np.sqrt(np.outer(degrees, degrees))
    values, vectors = np.linalg.eigh((N + N.T) / 2)
    U = vectors[:, np.argsort(-values)[:k]]
    return U / np.linalg.norm(U, axis=1)[:, None]
