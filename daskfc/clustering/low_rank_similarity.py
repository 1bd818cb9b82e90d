"""FedSC's similarity of rank d, read in blocks of rows into a sparse graph, never n × n.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity
            Reconstruction", NeurIPS 2023, Eqs. (5) and (25), Appendix D.3.
Notation    paper      here           shape, range
            C          C              (d, n) float64
            -          root           (d, d) float64, lower triangular, root rootᵀ = K(Z, Z)
            -          B              (n, d) float64, Cᵀ root
            K̂_xx       B Bᵀ           (n, n), in blocks of rows only
            k          n_neighbors    int in [1, n], the sample itself among them
            -          graph          (n, n) sparse, the result of Eq. (25)
            K          n_clusters     int >= 1
Departures  The paper says little of Eq. (25); like the published runs, similarities are scaled to
            [0, 1] by the smallest and largest of all, the k largest of each row are kept and S
            becomes max(S, Sᵀ). A sample is always one of its own k.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from daskfc.checks import check_params, integer
from daskfc.clustering.kernels import atom_kernel, real_matrix
from daskfc.clustering.largest_products import Screened, largest_products
from daskfc.clustering.nearest import nearest_columns
from daskfc.errors import InvalidInput

__all__ = [
    "MostSimilar",
    "default_neighbors",
    "dictionary_root",
    "join_similar",
    "most_similar",
    "similarity_graph",
    "similarity_rows",
]

Floats: TypeAlias = NDArray[np.float64]
Graph: TypeAlias = "sparse.csr_array[Any, Any]"

_BLOCK = 1 << 23  # similarities held at a time: 64 MiB


def dictionary_root(Z: ArrayLike, width: float) -> Floats:
    """Return a triangular root of K(Z, Z).

    Parameters
    ----------
    Z : array_like of shape (d, m)
        Dictionary.
    width : float
        r > 0, in units of the data.

    Returns
    -------
    ndarray of shape (d, d), float64
        L, lower triangular, with L Lᵀ = K(Z, Z) + jI. The jitter j is 0 where that has a root in
        floating point, else the first that helps of d ε, 10 d ε, ...

    Raises
    ------
    InvalidInput
        For anything but a finite matrix, and a width not above 0.

    Notes
    -----
    Clients that share B = Cᵀ L must all use one L: computed once and told with Z, for another
    machine may round an ill-conditioned root to another one.

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import dictionary_root
    >>> dictionary_root([[0.0], [0.0]], 1.0).round(6).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    K = atom_kernel(Z, width)
    eye = np.eye(len(K))
    jitter = 0.0
    while True:
        try:
            root: Floats = scipy.linalg.cholesky(K + jitter * eye, lower=True)
        except scipy.linalg.LinAlgError:  # ends: K has no eigenvalue below -d ε or so
            jitter = max(10.0 * jitter, len(K) * float(np.finfo(np.float64).eps))
        else:
            return root


def similarity_rows(C: ArrayLike, root: ArrayLike) -> Floats:
    """Return B = Cᵀ L, whose inner products are the similarities: K̂ = B Bᵀ, Eq. (5).

    Parameters
    ----------
    C : array_like of shape (d, n)
        Coefficients of one client or of all.
    root : array_like of shape (d, d)
        L of `dictionary_root`.

    Returns
    -------
    ndarray of shape (n, d), float64
        A row for each sample.

    Raises
    ------
    InvalidInput
        For arrays that are not finite or do not fit.

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import similarity_rows
    >>> similarity_rows([[1.0, 2.0]], [[0.5]]).tolist()
    [[0.5], [1.0]]
    """
    C, L = real_matrix(C, "C"), real_matrix(root, "root")
    if L.shape != (len(C), len(C)):
        raise InvalidInput(
            f"root must have a row and a column for each of the {len(C)} atoms of C; got shape "
            f"{L.shape}. Take it from dictionary_root for the same dictionary."
        )
    B: Floats = C.T @ L
    return B


def default_neighbors(n: int) -> int:
    """Return the paper's k for n samples, max(⌈log n⌉, 1).

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import default_neighbors
    >>> default_neighbors(1440)
    8
    """
    check_params("default_neighbors", {"n": n}, {"n": integer(1)})
    return max(math.ceil(math.log(n)), 1)


@dataclass(frozen=True)
class MostSimilar:
    """What Eq. (25) keeps of a block of consecutive rows of the similarity.

    Parameters
    ----------
    start : int
        Number of the first row's sample.
    indices : ndarray of shape (b, k), int32
        Sample numbers: the row's own first, then the k - 1 most similar others.
    values : ndarray of shape (b, k), float64
        Their similarities, not scaled.
    lowest, highest : float
        Of all similarities of the block.
    """

    start: int
    indices: NDArray[np.int32]
    values: Floats
    lowest: float
    highest: float


def most_similar(rows: ArrayLike, start: int, n_neighbors: int) -> MostSimilar:
    """Return the sample itself and the most similar others for a block of rows.

    Parameters
    ----------
    rows : array_like of shape (b, n)
        Similarities of consecutive samples to all n.
    start : int
        Number of the first row's sample.
    n_neighbors : int
        k in [1, n], the sample itself among them.

    Returns
    -------
    MostSimilar
        Equal similarities in order of the sample number.

    Raises
    ------
    InvalidInput
        For rows that are not finite, and for numbers out of their range.

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import most_similar
    >>> most_similar([[0.9, 0.1, 0.5]], 1, 2).indices.tolist()
    [[1, 0]]
    """
    rows = real_matrix(rows, "a block of similarities")
    b, n = rows.shape
    params = {"n_neighbors": n_neighbors, "start": start}
    rules = {"n_neighbors": integer(1, n), "start": integer(0, n - b)}
    check_params("most_similar", params, rules)
    negative = -rows
    local = np.arange(b)
    negative[local, start + local] = -np.inf  # a sample is the first of its own
    indices = nearest_columns(negative, n_neighbors)
    values = np.take_along_axis(rows, indices, axis=1)
    return MostSimilar(
        start, indices.astype(np.int32), values, float(rows.min()), float(rows.max())
    )


def join_similar(parts: Iterable[MostSimilar]) -> Graph:
    """Return the sparse graph of Eq. (25) from blocks that together hold all rows.

    Parameters
    ----------
    parts : iterable of MostSimilar
        In any order.

    Returns
    -------
    csr_array of shape (n, n), float64
        max(S, Sᵀ), loops included, with the similarities scaled to [0, 1] by the smallest and
        largest of all; all of them 1 where the two are equal.

    Raises
    ------
    InvalidInput
        When rows are missing, come twice, or have different numbers of neighbours.

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import join_similar, most_similar
    >>> parts = [most_similar([[4.0, 2.0]], 0, 1), most_similar([[2.0, 3.0]], 1, 2)]
    >>> join_similar([parts[0], most_similar([[2.0, 3.0]], 1, 1)]).toarray().tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """
    found = sorted(parts, key=lambda part: part.start)
    stops = [part.start + len(part.indices) for part in found]
    n = stops[-1] if stops else 0
    whole = [part.start for part in found] == [0, *stops[:-1]]
    if not found or not whole or len({part.indices.shape[1] for part in found}) > 1:
        raise InvalidInput(
            f"the blocks of a similarity must hold every row once, with as many neighbours in "
            f"each; got {len(found)} blocks that do not. Make them with most_similar, from row 0 "
            f"to the last."
        )
    lowest, highest = min(part.lowest for part in found), max(part.highest for part in found)
    values = np.concatenate([part.values for part in found])
    if highest > lowest:
        values -= lowest
        values /= highest - lowest
    else:
        values[:] = 1.0
    indices = np.concatenate([part.indices for part in found])
    ends = np.arange(0, indices.size + 1, indices.shape[1])
    S = sparse.csr_array((values.ravel(), indices.ravel(), ends), shape=(n, n))
    graph = sparse.csr_array(S.maximum(S.T))
    graph.eliminate_zeros()
    return graph


def similarity_graph(
    B: ArrayLike, n_neighbors: int | None = None, found: Sequence[Screened] = ()
) -> Graph:
    """Return the sparse graph of Eq. (25) for K̂ = B Bᵀ, read in blocks of rows.

    Parameters
    ----------
    B : array_like of shape (n, d)
        Of `similarity_rows`.
    n_neighbors : int, optional
        k in [1, n], the sample itself among them; `default_neighbors` by default.
    found : sequence of Screened
        Of shares that are all blocks together, where others did the screening.

    Returns
    -------
    csr_array of shape (n, n), float64
        As of `join_similar`.

    Raises
    ------
    InvalidInput
        For anything but a finite matrix, and for a number of neighbours out of its range.

    Notes
    -----
    O(n² d / 2) time in float32 where that tells neighbours apart, else O(n² d) in float64; about
    350 MiB beside B, and 100 bytes for each edge.

    Examples
    --------
    >>> from daskfc.clustering.low_rank_similarity import similarity_graph
    >>> similarity_graph([[1.0], [0.5], [0.0]], 2).toarray().tolist()
    [[1.0, 0.5, 0.0], [0.5, 0.25, 0.0], [0.0, 0.0, 0.0]]
    """
    B = real_matrix(B, "B")
    n = len(B)
    k = default_neighbors(n) if n_neighbors is None else n_neighbors
    check_params("similarity_graph", {"n_neighbors": k}, {"n_neighbors": integer(1, n)})
    # no product is larger than the larger of two squares
    real_matrix(np.einsum("ij,ij->i", B, B)[:, None], "the similarities")
    kept = largest_products(B, k, found)
    if kept is None:
        return join_similar(_blocks(B, k))
    highest = float(kept.values[:, 0].max())  # among the squares
    return join_similar([MostSimilar(0, kept.indices, kept.values, kept.lowest, highest)])


def _blocks(B: Floats, k: int) -> Iterator[MostSimilar]:
    step = max(1, _BLOCK // len(B))
    for start in range(0, len(B), step):
        yield most_similar(B[start : start + step] @ B.T, start, k)
