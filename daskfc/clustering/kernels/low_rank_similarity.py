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
Departures  The paper says little of Eq. (25); as in the published runs, similarities are scaled to
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

from daskfc.arrays import Floats
from daskfc.checks import check_params, integer
from daskfc.clustering.kernels.kernels import atom_kernel, real_matrix
from daskfc.clustering.views.largest_products import Screened, largest_products
from daskfc.clustering.views.nearest import nearest_columns

Graph: TypeAlias = "sparse.csr_array[Any, Any]"

_BLOCK = 1 << 23  # similarities in memory at a time: 64 MiB


def dictionary_root(Z: ArrayLike, width: float) -> Floats:
    """Return lower triangular L with L Lᵀ = K(Z, Z) + jI, of a dictionary Z (d, m).

    The jitter j is 0 if K has a root in floating point, else the first sufficient one of d ε,
    10 d ε, ... Clients must all use one L, computed once and sent with Z, as another machine may
    round an ill-conditioned root differently.
    """
    K = atom_kernel(Z, width)
    eye = np.eye(len(K))
    jitter = 0.0
    while True:
        try:
            root: Floats = scipy.linalg.cholesky(K + jitter * eye, lower=True)
        except scipy.linalg.LinAlgError:  # terminates: eigenvalues of K are above about -d ε
            jitter = max(10.0 * jitter, len(K) * float(np.finfo(np.float64).eps))
        else:
            return root


def similarity_rows(C: Floats, root: Floats) -> Floats:
    """Return B = Cᵀ L, (n, d), whose inner products are the similarities: K̂ = B Bᵀ, Eq. (5)."""
    return C.T @ root


def default_neighbors(n: int) -> int:
    """Return the paper's k for n samples, max(⌈log n⌉, 1)."""
    return max(math.ceil(math.log(n)), 1)


@dataclass(frozen=True)
class MostSimilar:
    """What Eq. (25) keeps, (b, k), of rows from `start`: itself, then the most similar others."""

    start: int
    indices: NDArray[np.int32]
    values: Floats
    lowest: float
    highest: float


def most_similar(rows: Floats, start: int, n_neighbors: int) -> MostSimilar:
    """Return each sample itself and its k - 1 most similar others, from rows (b, n)."""
    negative = -rows
    local = np.arange(len(rows))
    negative[local, start + local] = -np.inf  # a sample is the first of its own
    indices = nearest_columns(negative, n_neighbors)
    values = np.take_along_axis(rows, indices, axis=1)
    return MostSimilar(
        start, indices.astype(np.int32), values, float(rows.min()), float(rows.max())
    )


def join_similar(parts: Iterable[MostSimilar]) -> Graph:
    """Return max(S, Sᵀ) of Eq. (25), with loops, scaled to [0, 1], from blocks in any order."""
    found = sorted(parts, key=lambda part: part.start)
    lowest, highest = min(part.lowest for part in found), max(part.highest for part in found)
    values = np.concatenate([part.values for part in found])
    if highest > lowest:
        values -= lowest
        values /= highest - lowest
    else:
        values[:] = 1.0
    indices = np.concatenate([part.indices for part in found])
    ends = np.arange(0, indices.size + 1, indices.shape[1])
    n = len(indices)
    S = sparse.csr_array((values.ravel(), indices.ravel(), ends), shape=(n, n))
    graph = sparse.csr_array(S.maximum(S.T))
    graph.eliminate_zeros()
    return graph


def similarity_graph(
    B: ArrayLike, n_neighbors: int | None = None, found: Sequence[Screened] = ()
) -> Graph:
    """Return the sparse graph of Eq. (25) for K̂ = B Bᵀ, read in blocks of rows.

    `n_neighbors` includes the sample itself, `default_neighbors` by default. `found`, the pairs of
    other processes, must cover all blocks. O(n² d / 2) time in float32 if that separates the
    neighbours, else O(n² d) in float64; about 350 MiB beside B, and 100 bytes for each edge.
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
    highest = float(kept.values[:, 0].max())  # the largest product is a square
    return join_similar([MostSimilar(0, kept.indices, kept.values, kept.lowest, highest)])


def _blocks(B: Floats, k: int) -> Iterator[MostSimilar]:
    step = max(1, _BLOCK // len(B))
    for start in range(0, len(B), step):
        yield most_similar(B[start : start + step] @ B.T, start, k)
