"""Eigenvectors of the random walk on a neighbour graph, with signs matched between clients.

Paper       J. Shi, J. Malik, "Normalized cuts and image segmentation", IEEE TPAMI 22 (2000): the
            eigenvectors of Δ⁻¹ S; U. von Luxburg, "A tutorial on spectral clustering" (2007),
            Section 2.2, for the graph.
Notation    S graph (n, n) sparse, Δ its degrees, s scale > 0, V (n, K) eigenvectors in columns.
"""

from typing import Any

import numpy as np
from scipy import sparse

from daskfc.arrays import Floats
from daskfc.clustering.kernels.low_rank_similarity import Graph
from daskfc.clustering.views.nearest import nearest_of_points
from daskfc.linalg.laplacian import NormalisedAdjacency
from daskfc.linalg.spectrum import laplacian_embedding


def neighbour_similarity(X: Floats, n_neighbors: int, scale: float) -> Graph:
    """Return max(S, Sᵀ), (n, n), with S exp(-(distance / s)²) of each sample's nearest others."""
    n = len(X)
    if n_neighbors == 0:
        return sparse.csr_array((n, n), dtype=np.float64)
    found = nearest_of_points(X, n_neighbors)
    with np.errstate(over="ignore"):  # exp(-inf) = 0 is right
        weights = np.exp(-(found.distances / scale / scale))
    ends = np.arange(0, n * n_neighbors + 1, n_neighbors)
    S: Any = sparse.csr_array((weights.ravel(), found.indices.ravel(), ends), shape=(n, n))
    graph: Graph = sparse.csr_array(S.maximum(S.T))
    graph.eliminate_zeros()
    return graph


def walk_embedding(graph: Graph, n_clusters: int, seed: int) -> Floats:
    """Return the K leading eigenvectors of the walk on a graph, (n, K), of norm 1."""
    V = laplacian_embedding(NormalisedAdjacency.of(graph), n_clusters, seed)
    return np.asarray(V / np.linalg.norm(V, axis=0))


def match_signs(rows: Floats, own: Floats, theirs: Floats) -> Floats:
    """Flip columns of V where `own` and `theirs` (K,), rows of a common sample, differ in sign."""
    return rows * np.where(own * theirs < 0, -1.0, 1.0)
