"""Block Lanczos on a symmetric matrix that is known only by its products with vectors.

Paper       Algorithm 2 and Appendix B, after Penna and Stańczak 2014: full reorthogonalisation
            twice; ends when all Ritz values above a threshold have converged. The paper has one
            vector in a block; b of them need b times fewer products.
Notation    paper              here
            c_q                columns of `Krylov.block`
            C_q                `Krylov.basis`
            T_q                the Rayleigh quotient of the basis, from the products themselves
"""

from dataclasses import dataclass, replace

import numpy as np

from daskfc.arrays import Floats
from daskfc.seeds import generator

CONVERGED = 1e-12  # ours: residual of a Ritz pair over the largest Ritz value
_DEPENDENT = 1e-13  # ours: relative; a vector with a smaller remainder lies in the basis


@dataclass(frozen=True)
class Ritz:
    """Approximate eigenpairs, values descending, vectors (m, q), and residuals |R v - θ v|."""

    values: Floats
    vectors: Floats
    residuals: Floats


@dataclass(frozen=True)
class Krylov:
    """The state of Lanczos: orthonormal `basis` (m, q), its `products` by R, the next `block`."""

    basis: Floats
    products: Floats
    block: Floats
    width: int
    seed: int
    n_restarts: int = 0

    def advance(self, product: Floats) -> "Krylov":
        """Take the product R block, and orthogonalise it to the next block (Eq. 3, twice)."""
        basis = np.hstack([self.basis, self.block])
        products = np.hstack([self.products, product])
        scale = float(np.abs(products).max(initial=0.0))
        after = replace(self, basis=basis, products=products, block=basis[:, :0])
        block = _orthonormal(product, basis, _DEPENDENT * scale)
        if not block.shape[1]:
            return after._restarted()
        return replace(after, block=block)

    def _restarted(self) -> "Krylov":
        m, q = self.basis.shape
        number = self.n_restarts + 1
        drawn = generator(self.seed, "Lanczos", number).standard_normal((m, min(self.width, m - q)))
        block = _orthonormal(drawn, self.basis, _DEPENDENT)
        return replace(self, block=block, n_restarts=number)

    def ritz(self) -> Ritz:
        """Return the Ritz pairs of the basis (Algorithm 2, lines 13 to 15)."""
        quotient = self.basis.T @ self.products
        values, vectors = np.linalg.eigh((quotient + quotient.T) / 2.0)
        values, vectors = values[::-1], vectors[:, ::-1]
        pairs = self.basis @ vectors
        residuals = np.linalg.norm(self.products @ vectors - pairs * values, axis=0)
        return Ritz(values, pairs, residuals)

    def has_converged(
        self, *, least: int, threshold: float | None = None, tolerance: float = CONVERGED
    ) -> bool:
        """Whether the `least` largest Ritz pairs, and all above `threshold`, are eigenpairs."""
        m, q = self.basis.shape
        if q == m:
            return True
        found = self.ritz()
        wanted = least
        if threshold is not None:
            wanted = max(wanted, int(np.count_nonzero(found.values > threshold)))
        if q <= wanted:
            return False
        return bool(np.all(found.residuals[:wanted] <= tolerance * found.values[0]))


def begin(m: int, width: int, seed: int) -> Krylov:
    """Begin with a block of `width` random vectors for an m × m matrix."""
    nothing = np.empty((m, 0))
    drawn = generator(seed, "Lanczos", 0).standard_normal((m, min(width, m)))
    return Krylov(nothing, nothing, _orthonormal(drawn, nothing, _DEPENDENT), width, seed)


def _orthonormal(vectors: Floats, basis: Floats, negligible: float) -> Floats:
    """Return an orthonormal basis of the vectors' non-negligible part outside a basis."""
    for _ in range(2):
        vectors = vectors - basis @ (basis.T @ vectors)
    left, sizes, _ = np.linalg.svd(vectors, full_matrices=False)
    left = left[:, sizes > max(negligible, 0.0)]
    left = left - basis @ (basis.T @ left)  # the remainder of small vectors has rounding errors
    return np.asarray(np.linalg.qr(left)[0][:, : basis.shape[0] - basis.shape[1]])
