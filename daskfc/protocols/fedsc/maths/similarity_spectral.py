"""Spectral clustering of FedSC's similarity: of its sparse graph, or of all its entries.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity
            Reconstruction", NeurIPS 2023, Eq. (12); Ng, Jordan, Weiss, "On Spectral Clustering:
            Analysis and an Algorithm", NIPS 2001.
Notation    paper      here           shape, range
            K̂_xx       B Bᵀ           (n, n), never formed; B (n, d) of `low_rank_similarity`
            -          graph          (n, n) sparse, the result of Eq. (25)
            Δ          degrees        (n,) float64, loops count
            K          n_clusters     int >= 1
Departures  Without Eq. (25) the embedding is that of K̂ as it is, unscaled, in O(n d²) from the
            singular vectors of Δ^(-1/2) B.
"""

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from daskfc.checks import check_params, integer
from daskfc.clustering.kernels import real_matrix
from daskfc.clustering.kmeans import Partition, best_partition
from daskfc.clustering.low_rank_similarity import Floats, Graph
from daskfc.errors import InvalidInput
from daskfc.linalg.laplacian import NormalisedAdjacency, components_of
from daskfc.linalg.local_basis import divide_rows, singular_coordinates, squared_row_norms
from daskfc.linalg.spectrum import laplacian_eigenvalues, laplacian_embedding

__all__ = [
    "cluster_graph",
    "cluster_rows",
    "graph_eigengaps",
    "graph_embedding",
    "normalised_with_loops",
    "row_eigengaps",
    "row_embedding",
]


def normalised_with_loops(graph: Graph) -> NormalisedAdjacency:
    """Normalise with the loops, which `NormalisedAdjacency.of` would leave out.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric, at least 0; loops count in the degrees.

    Returns
    -------
    NormalisedAdjacency
        Δ^(-1/2) S Δ^(-1/2).
    """
    degrees = np.asarray(graph.sum(axis=0), dtype=np.float64)
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    N = graph.copy()
    N.data /= np.repeat(root, np.diff(N.indptr)) * root[N.indices]
    return NormalisedAdjacency(N, root, components_of(graph))


def graph_embedding(adjacency: NormalisedAdjacency, n_clusters: int, seed: int) -> Floats:
    """Return the rows that Ng, Jordan and Weiss cluster, of a sparse similarity.

    Parameters
    ----------
    adjacency : NormalisedAdjacency
        Of `normalised_with_loops`.
    n_clusters : int
        K in [1, n].
    seed : int
        Of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (n, K), float64
        The leading K eigenvectors, every row divided by its norm; a row of zeros stays.

    Raises
    ------
    InvalidInput
        For a parameter that breaks its rule.

    Notes
    -----
    `laplacian_embedding` divides the eigenvectors by the roots of the degrees, a factor of each
    row, which the division by the norms takes out again.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from daskfc.protocols.fedsc.maths.similarity_spectral import (graph_embedding,
    ...                                                               normalised_with_loops)
    >>> pairs = sparse.csr_array(np.kron(np.eye(2), np.ones((2, 2))))
    >>> graph_embedding(normalised_with_loops(pairs), 2, seed=0).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    n = adjacency.root_degrees.size
    check_params("graph_embedding", {"n_clusters": n_clusters}, {"n_clusters": integer(1, n)})
    U = laplacian_embedding(adjacency, n_clusters, seed)
    return divide_rows(U, squared_row_norms(U))


def cluster_graph(
    graph: Graph, n_clusters: int, *, seed: int, n_init: int = 50, max_iter: int = 300
) -> Partition:
    """Cluster samples from their sparse similarity, Eq. (12).

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Of `similarity_graph` or `join_similar`.
    n_clusters : int
        K in [1, n].
    seed : int
        Of the starts.
    n_init, max_iter : int, default 50 and 300
        Runs of k-means on the embedding, and iterations of one.

    Returns
    -------
    Partition
        Clusters in order of appearance; a note when the graph has more components than clusters.

    Raises
    ------
    InvalidInput
        For a parameter that breaks its rule.

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import similarity_graph
    >>> from daskfc.protocols.fedsc.maths.similarity_spectral import cluster_graph
    >>> graph = similarity_graph([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], 2)
    >>> cluster_graph(graph, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """
    _check_runs(seed, n_init, max_iter)
    adjacency = normalised_with_loops(graph)
    rows = graph_embedding(adjacency, n_clusters, seed)
    found = _k_means(rows, n_clusters, seed, n_init, max_iter)
    if adjacency.n_components <= n_clusters:
        return found
    note = (
        f"The similarity graph has {adjacency.n_components} components, more than the "
        f"{n_clusters} clusters asked for: the largest made clusters, the others joined one."
    )
    return Partition(found.labels, found.inertia, found.converged, (note, *found.notes))


def graph_eigengaps(graph: Graph, most: int, seed: int) -> Floats:
    """Return how far the k-th smallest eigenvalue of a similarity's Laplacian is from the next one.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        As for `cluster_graph`.
    most : int
        The largest k, below n.
    seed : int
        Of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (most,)
        For k = 1, 2, ...: the largest gap tells the number of parts that hang together least.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from daskfc.protocols.fedsc.maths.similarity_spectral import graph_eigengaps
    >>> pairs = sparse.csr_array(np.kron(np.eye(2), np.ones((2, 2))))
    >>> graph_eigengaps(pairs, 3, seed=0).round(12).tolist()
    [0.0, 1.0, 0.0]
    """
    return np.diff(laplacian_eigenvalues(normalised_with_loops(graph), most + 1, seed))


def row_embedding(B: ArrayLike, n_clusters: int) -> Floats:
    """Return the rows that Ng, Jordan and Weiss cluster, of K̂ = B Bᵀ with all its entries.

    Parameters
    ----------
    B : array_like of shape (n, d)
        Of `similarity_rows`.
    n_clusters : int
        K in [1, min(n, d)].

    Returns
    -------
    ndarray of shape (n, K), float64
        The leading K eigenvectors of Δ^(-1/2) B Bᵀ Δ^(-1/2), every row divided by its norm; a
        row of zeros stays.

    Raises
    ------
    InvalidInput
        For anything but a finite matrix, a parameter that breaks its rule, and samples whose
        similarities do not sum to more than 0, for which Δ^(-1/2) does not exist.

    Notes
    -----
    The eigenvectors are the left singular vectors of Δ^(-1/2) B: O(n d²). The degrees are
    B (Bᵀ 1).

    Examples
    --------
    >>> from daskfc.protocols.fedsc.maths.similarity_spectral import row_embedding
    >>> abs(row_embedding([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]], 2)).round(6).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    B = real_matrix(B, "B")
    rule = integer(1, min(B.shape))
    check_params("row_embedding", {"n_clusters": n_clusters}, {"n_clusters": rule})
    U = singular_coordinates(_over_degrees(B), n_clusters)
    return divide_rows(U, squared_row_norms(U))


def row_eigengaps(B: ArrayLike, most: int) -> Floats:
    """Return how far the k-th smallest eigenvalue of the Laplacian of K̂ = B Bᵀ is from the next.

    Parameters
    ----------
    B : array_like of shape (n, d)
        Of `similarity_rows`.
    most : int
        The largest k, below n.

    Returns
    -------
    ndarray of shape (most,)
        For k = 1, 2, ...; infinite beyond d, where there are no more vectors to cluster.

    Raises
    ------
    InvalidInput
        As for `row_embedding`.

    Notes
    -----
    The eigenvalues are 1 less those of Bᵀ Δ⁻¹ B, of order d, and 1 for all others: O(n d²).

    Examples
    --------
    >>> from daskfc.protocols.fedsc.maths.similarity_spectral import row_eigengaps
    >>> row_eigengaps([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 1.0]], 3).round(12).tolist()
    [0.0, 1.0, inf]
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
    missing = int((degrees <= 0).sum())
    if missing:
        raise InvalidInput(
            f"the similarities of every sample must sum to more than 0 where all of them count; "
            f"got {missing} of {len(B)} samples for which they do not. Keep only the nearest "
            f"neighbours, or use more atoms or less noise."
        )
    result: Floats = B / np.sqrt(degrees)[:, None]
    return result


def cluster_rows(
    B: ArrayLike, n_clusters: int, *, seed: int, n_init: int = 50, max_iter: int = 300
) -> Partition:
    """Cluster samples from K̂ = B Bᵀ with all its entries, Eq. (12) without Eq. (25).

    Parameters
    ----------
    B : array_like of shape (n, d)
        Of `similarity_rows`.
    n_clusters : int
        K in [1, min(n, d)].
    seed : int
        Of the starts.
    n_init, max_iter : int, default 50 and 300
        Runs of k-means on the embedding, and iterations of one.

    Returns
    -------
    Partition
        Clusters in order of appearance.

    Raises
    ------
    InvalidInput
        As for `row_embedding`.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.maths.similarity_spectral import cluster_rows
    >>> B = [[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]
    >>> cluster_rows(B, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """
    _check_runs(seed, n_init, max_iter)
    return _k_means(row_embedding(B, n_clusters), n_clusters, seed, n_init, max_iter)


def _check_runs(seed: int, n_init: int, max_iter: int) -> None:
    rules = {"n_init": integer(1), "max_iter": integer(1), "seed": integer(0)}
    check_params(
        "spectral clustering of a similarity",
        {"n_init": n_init, "max_iter": max_iter, "seed": seed},
        rules,
    )


def _k_means(rows: Floats, k: int, seed: int, n_init: int, max_iter: int) -> Partition:
    return best_partition(rows, k, seed, n_init=n_init, max_iter=max_iter, owner="FedSC")
