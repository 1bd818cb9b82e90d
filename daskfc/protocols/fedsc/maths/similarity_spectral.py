"""Spectral clustering of FedSC's similarity: of its sparse graph, or of all its entries.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity
            Reconstruction", NeurIPS 2023, Eq. (12); Ng, Jordan, Weiss, "On Spectral Clustering:
            Analysis and an Algorithm", NIPS 2001.
Notation    paper      here           shape, range
            K̂_xx       B Bᵀ           (n, n), never formed; B (n, d) of `low_rank_similarity`
            -          graph          (n, n) sparse, the result of Eq. (25)
            Δ          degrees        (n,) float64, loops count
            K          n_clusters     int >= 1
Departures  Without Eq. (25) the embedding is that of the unscaled K̂, in O(n d²) from the singular
            vectors of Δ^(-1/2) B.
"""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from daskfc.arrays import Floats
from daskfc.checks import check_params, integer
from daskfc.clustering.clusterers.kmeans import Partition, best_partition
from daskfc.clustering.kernels.kernels import real_matrix
from daskfc.clustering.kernels.low_rank_similarity import Graph
from daskfc.errors import InvalidInput
from daskfc.linalg.laplacian import NormalisedAdjacency, components_of
from daskfc.linalg.local_basis import divide_rows, singular_coordinates, squared_row_norms
from daskfc.linalg.spectrum import laplacian_eigenvalues, laplacian_embedding


def normalised_with_loops(graph: Graph) -> NormalisedAdjacency:
    """Return Δ^(-1/2) S Δ^(-1/2) with the loops of S, which `NormalisedAdjacency.of` would drop."""
    degrees = np.asarray(graph.sum(axis=0), dtype=np.float64)
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    N = graph.copy()
    N.data /= np.repeat(root, np.diff(N.indptr)) * root[N.indices]
    return NormalisedAdjacency(N, root, components_of(graph))


def graph_embedding(adjacency: NormalisedAdjacency, n_clusters: int, seed: int) -> Floats:
    """Return the rows (n, K) that Ng, Jordan and Weiss cluster: unit rows of top eigenvectors."""
    n = adjacency.root_degrees.size
    check_params("graph_embedding", {"n_clusters": n_clusters}, {"n_clusters": integer(1, n)})
    U = laplacian_embedding(adjacency, n_clusters, seed)
    return divide_rows(U, squared_row_norms(U))


def cluster_graph(graph: Graph, n_clusters: int, *, seed: int, n_init: int = 50) -> Partition:
    """Cluster samples on their sparse similarity, Eq. (12); labels are in order of appearance."""
    _check_runs(seed, n_init)
    adjacency = normalised_with_loops(graph)
    rows = graph_embedding(adjacency, n_clusters, seed)
    found = _k_means(rows, n_clusters, seed, n_init)
    if adjacency.n_components <= n_clusters:
        return found
    note = (
        f"The similarity graph has {adjacency.n_components} components, more than the "
        f"{n_clusters} clusters asked for: the largest made clusters, the others joined one."
    )
    return Partition(found.labels, found.inertia, found.converged, (note, *found.notes))


def graph_eigengaps(graph: Graph, most: int, seed: int) -> Floats:
    """Return the gaps (most,) after the smallest eigenvalues of a similarity's Laplacian."""
    return np.diff(laplacian_eigenvalues(normalised_with_loops(graph), most + 1, seed))


def row_embedding(B: ArrayLike, n_clusters: int) -> Floats:
    """Return the rows (n, K) that Ng, Jordan and Weiss cluster, of all entries of K̂ = B Bᵀ."""
    B = real_matrix(B, "B")
    rule = integer(1, min(B.shape))
    check_params("row_embedding", {"n_clusters": n_clusters}, {"n_clusters": rule})
    U = singular_coordinates(_over_degrees(B), n_clusters)
    return divide_rows(U, squared_row_norms(U))


def row_eigengaps(B: ArrayLike, most: int) -> Floats:
    """Return the gaps between the k-th and next eigenvalue of the Laplacian of K̂ = B Bᵀ, O(n d²).

    Gaps (most,) are infinite beyond d, where there are no more vectors to cluster. The eigenvalues
    are 1 minus those of Bᵀ Δ⁻¹ B, and 1 for all others.
    """
    B = real_matrix(B, "B")
    rule = integer(1, len(B) - 1)
    check_params("row_eigengaps", {"most": most}, {"most": rule})
    rows = _over_degrees(B)
    leading = scipy.linalg.eigvalsh(rows.T @ rows)[::-1]
    gaps = np.full(max(most, leading.size), np.inf)
    gaps[: leading.size] = leading - np.append(leading[1:], 0.0)
    return gaps[:most]


def _over_degrees(B: Floats) -> Floats:
    """Return Δ^(-1/2) B."""
    degrees = B @ B.sum(axis=0)  # (n,)
    if (degrees <= 0).any():
        raise InvalidInput(
            f"the similarities of every sample must sum to more than 0 where all of them count; "
            f"got some of {len(B)} samples for which they do not. Keep only the nearest "
            f"neighbours, or use more atoms or less noise."
        )
    return np.asarray(B / np.sqrt(degrees)[:, None])


def cluster_rows(B: ArrayLike, n_clusters: int, *, seed: int, n_init: int = 50) -> Partition:
    """Cluster samples on all entries of K̂ = B Bᵀ, Eq. (12) without Eq. (25), K <= min(n, d)."""
    _check_runs(seed, n_init)
    return _k_means(row_embedding(B, n_clusters), n_clusters, seed, n_init)


def _check_runs(seed: int, n_init: int) -> None:
    given, rules = {"n_init": n_init, "seed": seed}, {"n_init": integer(1), "seed": integer(0)}
    check_params("spectral clustering of a similarity", given, rules)


def _k_means(rows: Floats, k: int, seed: int, n_init: int) -> Partition:
    return best_partition(rows, k, seed, n_init=n_init, max_iter=300, owner="FedSC")
