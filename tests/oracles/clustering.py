"""Slow rewrites of the clustering algorithms from their definitions, for tiny inputs."""

from itertools import combinations, permutations

import numpy as np


def distances(X):
    return np.array([[sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in X] for x in X])


def neighbours(D, k):
    """The nearest first; of equal ones those whose number times Knuth's, modulo 2³², is least."""
    n = len(D)
    others = [
        sorted((D[i][j], j * 2654435761 % 2**32, j) for j in range(n) if j != i)[:k]
        for i in range(n)
    ]
    return [[j for *_, j in row] for row in others]


def dbscan(D, eps, min_samples):
    """Ester et al.: grow a cluster from every core sample not yet in one, in index order."""
    n = len(D)
    near = [[j for j in range(n) if D[i][j] <= eps**2] for i in range(n)]
    labels = [-1] * n
    cluster = 0
    for i in range(n):
        if labels[i] != -1 or len(near[i]) < min_samples:
            continue
        labels[i] = cluster
        queue = [i]
        while queue:
            for j in near[queue.pop(0)]:
                if labels[j] == -1:
                    labels[j] = cluster
                    if len(near[j]) >= min_samples:
                        queue.append(j)
        cluster += 1
    return labels


def agglomerate(X, k, linkage):
    """Merge the two nearest clusters until k are left, distances from the definition."""
    X = np.asarray(X, dtype=float)
    clusters = [[i] for i in range(len(X))]

    def apart(a, b):
        pairs = [np.sqrt(((X[i] - X[j]) ** 2).sum()) for i in a for j in b]
        if linkage == "ward":
            gap = X[a].mean(0) - X[b].mean(0)
            return 2 * len(a) * len(b) / (len(a) + len(b)) * (gap @ gap)
        return {"single": min, "complete": max, "average": np.mean}[linkage](pairs)

    while len(clusters) > k:
        p, q = min(
            combinations(range(len(clusters)), 2),
            key=lambda pair: apart(clusters[pair[0]], clusters[pair[1]]),
        )
        clusters[p] += clusters.pop(q)
    return [next(c for c, members in enumerate(clusters) if i in members) for i in range(len(X))]


def best_medoids(D, k):
    """The smallest sum of Euclidean distances over all choices of k medoids."""
    return min(np.sqrt(D[:, list(m)]).min(axis=1).sum() for m in combinations(range(len(D)), k))


def fuzzy_step(rows, centres, m):
    """Memberships and then centres, entry by entry (Bezdek 1984)."""
    n, k = len(rows), len(centres)
    d = [[((r - c) ** 2).sum() for c in centres] for r in rows]
    u = np.array(
        [
            [1 / sum((d[i][j] / d[i][o]) ** (1 / (m - 1)) for o in range(k)) for j in range(k)]
            for i in range(n)
        ]
    )
    new = [
        sum(u[i, j] ** m * rows[i] for i in range(n)) / sum(u[i, j] ** m for i in range(n))
        for j in range(k)
    ]
    return u, np.array(new)


def nonnegative_weights(H, row):
    """The best non-negative combination of the rows of H, by trying every support."""
    best = (np.inf, None)
    for size in range(1, len(H) + 1):
        for support in combinations(range(len(H)), size):
            weights = np.zeros(len(H))
            weights[list(support)] = np.linalg.lstsq(H[list(support)].T, row, rcond=None)[0]
            if (weights >= 0).all():
                best = min(best, (((row - weights @ H) ** 2).sum(), weights), key=lambda b: b[0])
    return best[1]


def span_distance2(X, landmarks):
    """Squared distance of each row of X to the affine span of some of them."""
    origin = X[landmarks[0]]
    basis = (X[landmarks] - origin).T
    result = []
    for x in X:
        weights = np.linalg.lstsq(basis, x - origin, rcond=None)[0]
        result.append(((x - origin - basis @ weights) ** 2).sum())
    return np.array(result)


def best_kappa(true, pred):
    """Cohen's kappa of the matching with most agreement, by trying all of them."""
    classes, clusters = sorted(set(true)), sorted(set(pred))
    n = len(true)
    names = classes + [f"unmatched {i}" for i in range(max(0, len(clusters) - len(classes)))]
    best = (-1.0, -1.0)
    for image in permutations(names, len(clusters)):
        mapped = [image[clusters.index(p)] for p in pred]
        observed = sum(t == m for t, m in zip(true, mapped, strict=True)) / n
        chance = sum(true.count(c) * mapped.count(c) for c in classes) / n**2
        best = max(best, (observed, 1.0 if chance == 1 else (observed - chance) / (1 - chance)))
    return best


def same_partition(a, b):
    """Whether two labellings differ in the names of the clusters only."""
    pairs = set(zip(map(int, a), map(int, b), strict=True))
    return len(pairs) == len({p for p, _ in pairs}) == len({q for _, q in pairs})
