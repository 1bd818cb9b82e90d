"""Leading eigenpairs: of a graph's normalised adjacency, and of a symmetric product."""

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from daskfc.arrays import Floats
from daskfc.linalg.block_krylov import block_eigenpairs
from daskfc.linalg.laplacian import NormalisedAdjacency
from daskfc.seeds import generator

_DENSE = 600  # ours: below this a full eigendecomposition takes a fraction of a second
_TOLERANCE = 1e-8  # ours: of the largest eigenvalue, where products are expensive
_PRODUCTS = 8  # ours: whose vectors are kept, before the iteration restarts from its result
_RESTARTS = 20


def signed(vectors: Floats) -> Floats:
    """Return vectors with other signs: the largest entry in size of each column is positive."""
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return vectors * np.where(peaks < 0, -1.0, 1.0)


def largest_eigenpairs(
    product: Callable[[Floats], Floats], n: int, k: int, seed: int, *, by_size: bool
) -> tuple[Floats, Floats]:
    """Return the k leading eigenpairs, by size or value, of symmetric (n, n) products."""
    if k == 0:
        return np.empty(0), np.empty((n, 0))
    if n <= max(_DENSE, 2 * k + 1):
        A = product(np.eye(n))
        values, vectors = scipy.linalg.eigh((A + A.T) / 2)
    else:
        operator = LinearOperator(
            (n, n),
            matvec=lambda x: product(x.reshape(n, 1)).ravel(),
            matmat=product,
            dtype=np.float64,
        )
        start = generator(seed, "eigenvectors").uniform(-1.0, 1.0, n)
        values, vectors = eigsh(
            operator,
            k,
            which="LM" if by_size else "LA",
            v0=start,
            ncv=min(n - 1, max(4 * k, 64)),  # ours: fastest of 20..128 on a graph of 70,000 nodes
            tol=1e-9,
            maxiter=20 * n,
        )
    order = np.argsort(-np.abs(values) if by_size else -values, kind="stable")[:k]
    return values[order], signed(vectors[:, order])


def laplacian_embedding(graph: NormalisedAdjacency, k: int, seed: int) -> Floats:
    """Return the k smoothest functions on a graph, (n, k): its random walk's eigenvectors.

    They are eigenvectors of I - N, of norm 1, over the square roots of the degrees; eigenvalues
    ascend. Its null space is known, one vector for each component (of more than k, for the largest
    ones), and excluded from the iteration, which so meets no eigenvalue repeated by components.
    """
    n = graph.root_degrees.size
    component = graph.components
    volume = np.bincount(component, weights=graph.root_degrees**2)
    sizes = np.bincount(component)
    known = np.argsort(-sizes, kind="stable")[:k]
    null = np.zeros((n, known.size))  # already over the root of the degrees
    for column, number in enumerate(known):
        null[component == number, column] = 1.0 / np.sqrt(volume[number])
    _, vectors = _beside_null_space(graph, k - known.size, seed)
    return np.hstack([null, vectors / graph.root_degrees[:, None]])


def laplacian_eigenvalues(graph: NormalisedAdjacency, k: int, seed: int) -> Floats:
    """Return the k smallest eigenvalues of I - N, ascending, in [0, 2]; 0 for each component."""
    known = min(graph.n_components, k)
    values, _ = _beside_null_space(graph, k - known, seed)
    return np.concatenate([np.zeros(known), np.clip(1.0 - values, 0.0, 2.0)])


def _beside_null_space(graph: NormalisedAdjacency, k: int, seed: int) -> tuple[Floats, Floats]:
    """Return the k leading eigenpairs of N outside of the null space of I - N."""
    root = graph.root_degrees
    component = graph.components
    volume = np.bincount(component, weights=root**2)

    def product(x: Floats) -> Floats:
        y = graph.matrix @ x
        for column in range(x.shape[1]):
            share = np.bincount(component, weights=root * x[:, column]) / volume
            # 1 - 2 = -1 is the least eigenvalue of all, so that these come last.
            y[:, column] -= 2.0 * root * share[component]
        return np.asarray(y)

    if graph.near is None or k == 0:
        return largest_eigenpairs(product, root.size, k, seed, by_size=False)
    start = graph.near
    for _ in range(_RESTARTS):
        found = block_eigenpairs(product, start, k, tolerance=_TOLERANCE, max_products=_PRODUCTS)
        if found.residual <= _TOLERANCE:
            break
        start = found.vectors
    return found.values, signed(found.vectors)
