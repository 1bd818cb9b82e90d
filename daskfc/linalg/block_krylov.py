"""Leading eigenpairs of a symmetric matrix in few products with blocks of vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["Eigenpairs", "block_eigenpairs"]

Floats = NDArray[np.float64]

_RANK = 1e-10  # ours: of a block's column, what must be left of it outside of the blocks before


@dataclass(frozen=True)
class Eigenpairs:
    """Leading eigenpairs, and how exact they are.

    Parameters
    ----------
    values : ndarray of shape (k,), float64
        Largest first.
    vectors : ndarray of shape (n, k), float64
        Orthonormal columns.
    residual : float
        The largest norm of A u - λ u. An eigenvalue of A lies within it of each of `values`.
    n_products : int
        Products with a block that it took.
    """

    values: Floats
    vectors: Floats
    residual: float
    n_products: int


def block_eigenpairs(
    product: Callable[[Floats], Floats],
    start: Floats,
    k: int,
    *,
    tolerance: float,
    max_products: int,
) -> Eigenpairs:
    """Return the k largest eigenpairs of A, from the block Krylov space of a start.

    Parameters
    ----------
    product : callable
        From (n, c) to A times it, (n, c); A symmetric.
    start : ndarray of shape (n, b), float64
        b at least k; the nearer to the leading eigenvectors, the fewer products.
    k : int
        Number of pairs.
    tolerance : float
        Ends when all residuals are at most this share of the largest eigenvalue's size.
    max_products : int
        Ends after as many, at least 1.

    Returns
    -------
    Eigenpairs

    Notes
    -----
    Rayleigh and Ritz on [S, A S, A² S, …], with full reorthogonalisation (block Lanczos). Where a
    product costs the same for one vector as for many, because A is computed anew in each, products
    count and not vectors; this has the fewest.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg.block_krylov import block_eigenpairs
    >>> A = np.diag([5.0, 3.0, 1.0, 0.5])
    >>> found = block_eigenpairs(
    ...     lambda x: A @ x, np.ones((4, 2)) + np.eye(4, 2), 2, tolerance=1e-9, max_products=9
    ... )
    >>> found.values.round(9).tolist(), found.n_products
    ([5.0, 3.0], 2)
    """
    n, wanted = len(start), k
    assert start.shape[1] >= k >= 1, (start.shape, k)
    block: Floats = np.asarray(scipy.linalg.qr(start, mode="economic")[0], dtype=np.float64)
    room = min(n, block.shape[1] * max_products)
    kept, known = (np.empty((n, room), order="F") for _ in range(2))  # memory as they fill
    done = filled = 0
    while True:
        image = product(block)
        done += 1
        columns = slice(filled, filled + block.shape[1])
        kept[:, columns], known[:, columns] = block, image
        filled = columns.stop
        basis, images = kept[:, :filled], known[:, :filled]
        small = basis.T @ images  # (done * b, done * b), symmetric up to rounding
        values, rotation = scipy.linalg.eigh((small + small.T) / 2)
        order = np.argsort(-values, kind="stable")[:wanted]
        values, rotation = values[order], rotation[:, order]
        vectors = basis @ rotation
        residual = float(np.linalg.norm(images @ rotation - vectors * values, axis=0).max())
        block = _outside(image, basis)
        enough = residual <= tolerance * max(float(np.abs(values).max()), np.finfo(float).tiny)
        if enough or done == max_products or block.shape[1] == 0:
            return Eigenpairs(values, vectors, residual, done)


def _outside(block: Floats, basis: Floats) -> Floats:
    """Return orthonormal columns for what of a block lies outside of a basis, at most n in all."""
    sizes = np.linalg.norm(block, axis=0)
    block = block / np.where(sizes > 0, sizes, 1.0)
    for _ in range(2):  # twice is enough
        block = block - basis @ (basis.T @ block)
    Q, R, _ = scipy.linalg.qr(block, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(R)) > _RANK).sum())
    rest: Floats = np.asarray(Q, dtype=np.float64)[:, : min(rank, len(basis) - basis.shape[1])]
    rest = rest - basis @ (basis.T @ rest)  # of what was small, rounding is no longer small
    return np.asarray(scipy.linalg.qr(rest, mode="economic")[0]) if rest.shape[1] else rest
