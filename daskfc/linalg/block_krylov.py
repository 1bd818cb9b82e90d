"""Leading eigenpairs of a symmetric matrix by block Lanczos: few products with many vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from daskfc.arrays import Floats

_RANK = 1e-10  # ours: least part of a block's column outside of the blocks before


@dataclass(frozen=True)
class Eigenpairs:
    """Leading eigenpairs, largest first, vectors in orthonormal columns, with an error bound."""

    values: Floats
    vectors: Floats
    residual: float  # largest norm of A u - λ u: an eigenvalue of A lies within it of each value
    n_products: int  # with a block


def block_eigenpairs(
    product: Callable[[Floats], Floats],
    start: Floats,
    k: int,
    *,
    tolerance: float,
    max_products: int,
) -> Eigenpairs:
    """Return the k largest eigenpairs of symmetric A from the block Krylov space of a start (n, b).

    Rayleigh-Ritz on [S, A S, A² S, …] with full reorthogonalisation (block Lanczos), b at least k,
    for an A whose products with many vectors cost as much as with one. Ends when all residuals are
    at most `tolerance` times the largest eigenvalue's size.
    """
    n, wanted = len(start), k
    assert start.shape[1] >= k >= 1, (start.shape, k)
    block: Floats = np.asarray(scipy.linalg.qr(start, mode="economic")[0], dtype=np.float64)
    room = min(n, block.shape[1] * max_products)
    kept, known = (np.empty((n, room), order="F") for _ in range(2))  # uses memory as it fills
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
    """Return orthonormal columns for the part of a block outside of a basis, at most n in all."""
    sizes = np.linalg.norm(block, axis=0)
    block = block / np.where(sizes > 0, sizes, 1.0)
    for _ in range(2):  # twice is enough
        block = block - basis @ (basis.T @ block)
    Q, R, _ = scipy.linalg.qr(block, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(R)) > _RANK).sum())
    rest: Floats = np.asarray(Q, dtype=np.float64)[:, : min(rank, len(basis) - basis.shape[1])]
    rest = rest - basis @ (basis.T @ rest)  # scaling up small columns scales up rounding
    return np.asarray(scipy.linalg.qr(rest, mode="economic")[0]) if rest.shape[1] else rest
