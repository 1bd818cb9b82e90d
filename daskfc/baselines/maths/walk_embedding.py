"""Eigenvectors of the random walk on a graph of nearest neighbours, made comparable between places.

Paper       J. Shi, J. Malik, "Normalized cuts and image segmentation", IEEE TPAMI 22 (2000): the
            eigenvectors of Δ⁻¹ S; U. von Luxburg, "A tutorial on spectral clustering" (2007),
            Section 2.2, for the graph.
Notation    S graph (n, n) sparse, Δ its degrees, s scale > 0, V (n, K) eigenvectors in columns.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from daskfc.clustering.low_rank_similarity import Graph
from daskfc.clustering.nearest import nearest_of_points
from daskfc.linalg.laplacian import NormalisedAdjacency
from daskfc.linalg.spectrum import laplacian_embedding

__all__ = ["match_signs", "neighbour_similarity", "walk_embedding"]

Floats: TypeAlias = NDArray[np.float64]


def neighbour_similarity(X: Floats, n_neighbors: int, scale: float) -> Graph:
    """Return the Gaussian weights of all pairs of which one is a nearest neighbour of the other.

    Parameters
    ----------
    X : ndarray of shape (n, d), float64
        Samples.
    n_neighbors : int
        Neighbours of a sample, itself not counted; in [0, n - 1].
    scale : float
        s > 0, in units of the data.

    Returns
    -------
    csr_array of shape (n, n), float64
        max(S, Sᵀ) of exp(-(distance / s)²), without loops; weights that underflow are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.baselines.maths.walk_embedding import neighbour_similarity
    >>> neighbour_similarity(np.array([[0.0], [1.0], [3.0]]), 1, 1.0).toarray().round(3).tolist()
    [[0.0, 0.368, 0.0], [0.368, 0.0, 0.018], [0.0, 0.018, 0.0]]
    """
    n = len(X)
    if n_neighbors == 0:
        return sparse.csr_array((n, n), dtype=np.float64)
    found = nearest_of_points(X, n_neighbors)
    with np.errstate(over="ignore"):  # exp(-inf) = 0 is the right answer
        weights = np.exp(-(found.distances / scale / scale))
    ends = np.arange(0, n * n_neighbors + 1, n_neighbors)
    S: Any = sparse.csr_array((weights.ravel(), found.indices.ravel(), ends), shape=(n, n))
    graph: Graph = sparse.csr_array(S.maximum(S.T))
    graph.eliminate_zeros()
    return graph


def walk_embedding(graph: Graph, n_clusters: int, seed: int) -> Floats:
    """Return the leading eigenvectors of the random walk on a graph.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric, at least 0; loops are ignored.
    n_clusters : int
        K in [1, n].
    seed : int
        Of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (n, K), float64
        Columns of norm 1 in descending order of their eigenvalues; one for each of the largest
        components first, for the eigenvalue 1.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.baselines.maths.walk_embedding import neighbour_similarity, walk_embedding
    >>> graph = neighbour_similarity(np.array([[0.0], [1.0], [7.0], [8.0]]), 1, 1.0)
    >>> walk_embedding(graph, 2, seed=0).round(3).tolist()
    [[0.707, 0.0], [0.707, 0.0], [0.0, 0.707], [0.0, 0.707]]
    """
    V = laplacian_embedding(NormalisedAdjacency.of(graph), n_clusters, seed)
    result: Floats = V / np.linalg.norm(V, axis=0)
    return result


def match_signs(rows: Floats, own: Floats, theirs: Floats) -> Floats:
    """Flip each eigenvector whose sign at a sample is not that of another place's eigenvector.

    Parameters
    ----------
    rows : ndarray of shape (n, K), float64
        V of this place.
    own, theirs : ndarray of shape (K,), float64
        The sample's row of V, here and there.

    Returns
    -------
    ndarray of shape (n, K), float64
        A column stays where one of the two is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.baselines.maths.walk_embedding import match_signs
    >>> match_signs(np.array([[0.5, 0.5]]), np.array([0.1, -0.1]), np.array([0.2, 0.2])).tolist()
    [[0.5, -0.5]]
    """
    result: Floats = rows * np.where(own * theirs < 0, -1.0, 1.0)
    return result
