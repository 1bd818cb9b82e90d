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


def slope(f, Z, h=1e-6):
    """Central differences of f in every entry of Z."""
    G = np.zeros_like(Z)
    for index in np.ndindex(Z.shape):
        step = np.zeros_like(Z)
        step[index] = h
        G[index] = (f(Z + step) - f(Z - step)) / (2 * h)
    return G


def gradient_steps(X, Z, C, width, ridge, steps):
    """Eq. (16) with C as it is; η is halved from 1 / L until f falls by ½ η |G|²."""

    def f(moved):
        return objective(X, moved, C, width, ridge)

    for _ in range(steps):
        G, eta = slope(f, Z), width**2 / np.linalg.norm(C @ C.T, 2)
        while f(Z - eta * G) > f(Z) - eta / 2 * np.sum(G**2):
            eta /= 2
        Z = Z - eta * G
    return Z


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
