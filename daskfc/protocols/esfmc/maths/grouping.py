"""The server's clustering in a round of ESFMC, on the features that clients share.

Paper       Chen et al., ICML 2025, Section 3.4: Eq. (8) concatenation, Eqs. (9) and (10) k-means.
Departures  of recipe "robust" (see `settings`): (1) Spectral clustering on nearest neighbours, as
            k-means on features of unlike scale gets worse over the rounds. The number of neighbours
            is chosen as in `daskfc.clustering.clusterers.local_labels`, since near ties among
            eigenvalues can merge two clusters; if they do with every number, k-means is used. After
            the first round, spectral labels are used only if k-means from the last labels finds
            nearly the same. (2) A view is weighted by how well its own nearest centroids agree with
            the last labels. (3) Where too few samples are in all views, or several clients share a
            view, the clients' graphs of neighbours are summed; their number is chosen as in (1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import cohen_kappa_score
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats, Ints
from daskfc.clustering.clusterers.kmeans import best_partition, nearest_centre
from daskfc.clustering.clusterers.local_labels import (
    NEIGHBOURS,
    LocalLabels,
    separation,
    spectral_labels,
)
from daskfc.clustering.clusterers.spectral import neighbour_affinity
from daskfc.clustering.views.nearest import nearest_of_points
from daskfc.linalg.laplacian import NormalisedAdjacency
from daskfc.linalg.spectrum import laplacian_embedding
from daskfc.seeds import integer_seed

AGREEMENT = 0.97  # of spectral labels with those of k-means that starts from the last labels
N_INIT = 10
MAX_ITER = 300


@dataclass(frozen=True)
class Block:
    """One client's shared features (n_m, d_m), and its samples' places among all, in [0, N)."""

    places: Ints
    features: Floats


def scaled(features: Floats, weight: float = 1.0) -> Floats:
    """Return rows divided by the root of their mean squared norm, times a weight."""
    size = float(np.sqrt(np.mean(np.einsum("ij,ij->i", features, features))))
    return features * (weight / size) if size > 0 else features


def view_weight(features: Floats, labels: Ints) -> float:
    """Return how well a view's nearest centroids agree with labels: Cohen's kappa, at least 0."""
    own, codes = np.unique(labels, return_inverse=True)
    if len(own) < 2:
        return 1.0
    nearest = nearest_centre(features, _centroids(features, codes, len(own)))
    return max(float(cohen_kappa_score(nearest, codes)), 0.0)


def concatenated(blocks: Sequence[Block], rows: Ints, n_samples: int) -> Floats:
    """Return the features (q, Σ d_m) of the samples at places `rows`, side by side (Eq. 8)."""
    parts = []
    for block in blocks:
        at = np.full(n_samples, -1, dtype=np.int64)
        at[block.places] = np.arange(len(block.places))
        assert (at[rows] >= 0).all()
        parts.append(block.features[at[rows]])
    return np.concatenate(parts, axis=1).astype(np.float64)


def _centroids(features: Floats, labels: Ints, k: int) -> Floats:
    """Return the mean of each cluster; an empty one gets the row farthest from its own mean."""
    counts = np.bincount(labels, minlength=k)
    sums = np.zeros((k, features.shape[1]))
    np.add.at(sums, labels, features)
    centres: Floats = sums / np.maximum(counts, 1)[:, None]
    if (counts == 0).any():
        apart = np.sum((features - centres[labels]) ** 2, axis=1)
        farthest = np.argsort(-apart, kind="stable")
        for number, empty in enumerate(np.flatnonzero(counts == 0)):
            centres[empty] = features[farthest[number % len(farthest)]]
    return centres


def numbering(labels: Ints, wanted: Ints, k: int) -> Ints:
    """Return the permutation (k,) of clusters for which most labels agree with `wanted` >= 0."""
    known = wanted >= 0
    table = np.zeros((k, k))
    np.add.at(table, (labels[known], wanted[known]), 1.0)
    return linear_sum_assignment(-table)[1].astype(np.int64)


def matched(labels: Ints, previous: Ints | None, k: int) -> Ints:
    """Return labels renumbered so that most samples keep their previous label."""
    return labels if previous is None else numbering(labels, previous, k)[labels]


def by_kmeans(features: Floats, k: int, seed: int) -> Ints:
    """Return labels by k-means from several starts, Eqs. (9) and (10)."""
    return best_partition(
        features, k, seed, n_init=N_INIT, max_iter=MAX_ITER, owner="ESFMC", threads=1
    ).labels


def kmeans_from(features: Floats, k: int, previous: Ints) -> Ints:
    """Return labels by k-means from the means of the previous clusters, keeping their numbers."""
    lloyd = KMeans(k, init=_centroids(features, previous, k), n_init=1, max_iter=MAX_ITER)
    with threadpool_limits(limits=1, user_api="openmp"):
        labels: Ints = lloyd.fit(features).labels_.astype(np.int64)
    return labels


def by_spectral(features: Floats, k: int, previous: Ints | None, seed: int) -> Ints:
    """Return spectral labels, or where more reliable those of k-means or the previous ones."""
    found = spectral_labels(features, k, seed=seed, metric="euclid")
    if previous is None:
        return _better(found, by_kmeans(features, k, seed), features, k)
    other = kmeans_from(features, k, previous)
    labels = matched(found.labels, other, k)
    return labels if np.mean(labels == other) >= AGREEMENT else previous


def _better(found: LocalLabels, other: Ints, features: Floats, k: int) -> Ints:
    """Return those of two labels that are better separated in the spectral ones' graph."""
    graph = nearest_of_points(features, found.n_neighbors - 1)
    weights = neighbour_affinity(graph, found.n_neighbors)
    spectral = separation(weights, found.labels, k)
    return found.labels if spectral >= separation(weights, other, k) else other


def by_graphs(
    blocks: Sequence[Block], weights: Sequence[float], n_samples: int, k: int, seed: int
) -> Ints:
    """Return spectral labels (N,) of the weighted sum of clients' neighbour graphs."""
    graphs = []
    for block, weight in zip(blocks, weights, strict=True):
        n = len(block.places)
        if n > 1 and weight > 0:
            points = block.features.astype(np.float64)
            nearest = nearest_of_points(points, min(NEIGHBOURS[-1], n) - 1)
            graphs.append((block.places, weight, nearest))
    best, highest = None, -np.inf
    for n_neighbors in NEIGHBOURS:
        total = sparse.csr_array((n_samples, n_samples))
        for places, weight, nearest in graphs:
            own = neighbour_affinity(nearest, min(n_neighbors, len(places))).tocoo()
            at = (places[own.row], places[own.col])
            total = total + sparse.csr_array((weight * own.data, at), shape=total.shape)
        embedding = laplacian_embedding(NormalisedAdjacency.of(total), k, seed)
        labels = best_partition(
            embedding, k, seed, n_init=N_INIT, max_iter=MAX_ITER, owner="ESFMC", threads=1
        ).labels
        fitness = separation(total, labels, k)
        if best is None or fitness > highest:
            best, highest = labels, fitness
    assert best is not None
    return best


def averaged_assignments(blocks: Sequence[Block], n_samples: int) -> Floats:
    """Return Q (N, K) from blocks of Q^m (n_m, K), averaged over a sample's clients (Eq. 14)."""
    total = np.zeros((n_samples, blocks[0].features.shape[1]))
    owners = np.zeros((n_samples, 1))
    for block in blocks:
        total[block.places] += block.features
        owners[block.places] += 1.0
    return total / owners  # Eq. (14)


def seed_of(random_state: int, number: int) -> int:
    """Return the seed of the server's clustering in a round."""
    return integer_seed(random_state, "ESFMC", "server", number)
