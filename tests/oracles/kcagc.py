"""Slow rewrites of the pieces of kCAGC from their definitions, for small inputs."""

import numpy as np


def normalised(A, self_loops=True):
    A = np.asarray(A, dtype=float) + (np.eye(len(A)) if self_loops else 0.0)
    d = A.sum(axis=1)
    N = np.zeros_like(A)
    for i in range(len(A)):
        for j in range(len(A)):
            if A[i, j]:
                N[i, j] = A[i, j] / np.sqrt(d[i] * d[j])
    return N


def filtered(A, X, order, kind, self_loops=True):
    """The paper's way: decompose L_s, apply p to its eigenvalues (Eq. 7)."""
    values, Q = np.linalg.eigh(np.eye(len(A)) - normalised(A, self_loops))
    norm = 2.0 if kind == "agc" else np.abs(values).max()
    p = (1.0 - values / norm) ** order if norm > 1e-12 else np.ones_like(values)
    return Q @ np.diag(p) @ Q.T @ X


def intersections(labels):
    """Protocol 3, lines 6 to 11, with sets; in the order of the clusters that they are of."""
    n = len(labels[0])
    found = [set(range(n))]
    for own in labels:
        clusters = [{i for i in range(n) if own[i] == c} for c in sorted(set(own))]
        found = [one & other for one in found for other in clusters]
    return [sorted(one) for one in found if one]


def lloyd(X, weights, labels, k, max_iter):
    """Weighted Lloyd from labels; clusters must not run empty."""
    labels = list(labels)
    for _ in range(max_iter):
        centres = []
        for c in range(k):
            members = [i for i in range(len(X)) if labels[i] == c]
            assert members, c
            mass = sum(weights[i] for i in members)
            centres.append(sum(weights[i] * X[i] for i in members) / mass)
        new = [min(range(k), key=lambda c: ((x - centres[c]) ** 2).sum()) for x in X]
        if new == labels:
            break
        labels = new
    return labels


def one_ninth(D):
    """Protocol 1, line 10: the cluster of each row of distances, or -1."""
    result = []
    for row in D:
        fits = [r for r in range(len(row)) if all(row[r] <= d / 9 for d in np.delete(row, r))]
        result.append(fits[0] if fits else -1)
    return result


def gcc_turns(X, labels, k, turns):
    """The turns of GCC with every matrix written out; also the loss ‖X - G F Wᵀ‖ after each."""
    values, vectors = np.linalg.eigh(np.cov(X.T))
    W = vectors[:, np.argsort(-values)[:k]]
    G = np.eye(k)[labels]
    F = np.linalg.pinv(G) @ X @ W
    losses = []
    for _ in range(turns):
        left, _, right = np.linalg.svd(X.T @ G @ F, full_matrices=False)
        W = left @ right
        G = np.eye(k)[[((x - F) ** 2).sum(axis=1).argmin() for x in X @ W]]
        F = np.linalg.pinv(G) @ X @ W
        losses.append(np.linalg.norm(X - G @ F @ W.T))
    return G.argmax(axis=1), losses


def mutual_information(x, y):
    """Plug-in mutual information of two sequences of symbols, in bits."""
    n, total = len(x), 0.0
    for a in set(x):
        for b in set(y):
            both = sum(1 for p, q in zip(x, y, strict=True) if (p, q) == (a, b)) / n
            if both:
                total += both * np.log2(both / (x.count(a) / n * y.count(b) / n))
    return total
