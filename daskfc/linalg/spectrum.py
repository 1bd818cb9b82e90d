"""Leading eigenvectors: of a graph's normalised adjacency, and of a symmetric product."""

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from daskfc.linalg.block_krylov import block_eigenpairs
from daskfc.linalg.laplacian import NormalisedAdjacency
from daskfc.seeds import generator

__all__ = ["laplacian_eigenvalues", "laplacian_embedding", "largest_eigenpairs"]

Floats = NDArray[np.float64]

_DENSE = 600  # ours: below this a full eigendecomposition takes a fraction of a second
_TOLERANCE = 1e-8  # ours: of the largest eigenvalue, where products are dear
_PRODUCTS = 8  # ours: whose vectors are held, before the iteration begins again from its result
_RESTARTS = 20


def _signed(vectors: Floats) -> Floats:
    """Fix the signs: the entry of largest size in each column becomes positive."""
    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    result: Floats = vectors * np.where(peaks < 0, -1.0, 1.0)
    return result


def largest_eigenpairs(
    product: Callable[[Floats], Floats], n: int, k: int, seed: int, *, by_size: bool
) -> tuple[Floats, Floats]:
    """Return the k leading eigenpairs of a symmetric matrix given by its products.

    Parameters
    ----------
    product : callable
        From (n, c) to A times it, (n, c).
    n : int
        Order of A.
    k : int
        Number of pairs, at most n.
    seed : int
        Of the start vector.
    by_size : bool
        True for the largest absolute values, False for the largest values.

    Returns
    -------
    values : ndarray of shape (k,)
        Leading first.
    vectors : ndarray of shape (n, k)
        Orthonormal columns; the entry of largest size in each is positive.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg.spectrum import largest_eigenpairs
    >>> A = np.diag([1.0, -5.0, 3.0])
    >>> largest_eigenpairs(lambda x: A @ x, 3, 2, 0, by_size=True)[0].tolist()
    [-5.0, 3.0]
    """
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
    return values[order], _signed(vectors[:, order])


def laplacian_embedding(graph: NormalisedAdjacency, k: int, seed: int) -> Floats:
    """Return the k smoothest functions on a graph: random-walk eigenvectors of its Laplacian.

    Parameters
    ----------
    graph : NormalisedAdjacency
        N, degrees, components.
    k : int
        Number of functions.
    seed : int
        Of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (n, k)
        Eigenvectors of I - N for the smallest eigenvalues, over the square roots of the degrees;
        each eigenvector of N has norm 1 before that. Eigenvalues ascend.

    Notes
    -----
    The null space of I - N is known: one vector for each component, constant on it. It is
    written down, and the iteration runs beside it, so that no eigenvalue to be found is
    repeated because of components. With more than k components the largest k count, earlier ones
    first among equals.
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
    """Return the k smallest eigenvalues of a graph's normalised Laplacian.

    Parameters
    ----------
    graph : NormalisedAdjacency
        N, degrees, components.
    k : int
        Number of eigenvalues, at most n.
    seed : int
        Of the start vector of the iteration.

    Returns
    -------
    ndarray of shape (k,)
        Of I - N, ascending, in [0, 2]; exactly 0 once for each component.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import NormalisedAdjacency
    >>> from daskfc.linalg.spectrum import laplacian_eigenvalues
    >>> pairs = NormalisedAdjacency.of(np.kron(np.eye(2), np.ones((2, 2))))
    >>> laplacian_eigenvalues(pairs, 3, seed=0).tolist()
    [0.0, 0.0, 2.0]
    """
    known = min(graph.n_components, k)
    values, _ = _beside_null_space(graph, k - known, seed)
    return np.concatenate([np.zeros(known), np.clip(1.0 - values, 0.0, 2.0)])


def _beside_null_space(graph: NormalisedAdjacency, k: int, seed: int) -> tuple[Floats, Floats]:
    """Return the k leading eigenpairs of N that are not of the null space of I - N."""
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
    return found.values, _signed(found.vectors)
