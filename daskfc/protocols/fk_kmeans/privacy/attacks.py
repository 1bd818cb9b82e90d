"""Attack on sums of WᵀW: the server recovers the samples themselves, if they are fewer than D.

Paper       Theorem 4 and Appendix F: a Gram matrix AᵀA determines A only up to a rotation, so that
            "recovering the random feature matrix is an ill-posed problem".
Departures  That holds for an arbitrary matrix A, but the server knows ω and b, and so all possible
            vectors φ(x). Where A has fewer rows than columns, AᵀA gives the span of its rows, and
            of all φ(x) only those of the samples lie in it. `rows_in_span` searches for them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from daskfc.arrays import Floats
from daskfc.clustering.kernels.features import RandomFeatures
from daskfc.errors import InvalidInput

_RANK = 1e-10  # ours: smaller eigenvalues, relative to the largest, are rounding errors


@dataclass(frozen=True)
class Reconstruction:
    """The end points `rows` (m, d) of the search for samples, one for each start.

    Residuals are the distances of φ(x) from the span over |φ(x)|, 0 for a client's sample. `rank`
    is the dimension of the span; a rank of D reveals no samples.
    """

    rows: Floats
    residuals: Floats
    rank: int


def span_of(gram: Floats) -> Floats:
    """Return an orthonormal basis (D, rank) of the span of A's rows, from AᵀA (D, D)."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors[:, values > _RANK * values[-1]])


def rows_in_span(gram: Floats, features: RandomFeatures, starts: Floats) -> Reconstruction:
    """Search for samples whose random features lie in the span of AᵀA, from starts (m, d).

    AᵀA is of the first iteration (W = A / √D), of one client or the sum; the server knows the draw.
    L-BFGS minimises |φ(x) - P φ(x)|² / |φ(x)|²: D - rank equations for d unknowns, so it succeeds
    where rank + d is below D. Refuse a polynomial kernel.
    """
    if not features.kernel.is_stationary or gram.shape != (features.n_features,) * 2:
        raise InvalidInput(
            f"rows_in_span needs a Gram matrix of {features.n_features} Fourier features; got one "
            f"of shape {gram.shape}, kernel {features.kernel.kind!r}. Give that of one draw."
        )
    basis = span_of(gram)

    def outside(x: Floats) -> tuple[float, Floats]:
        phi, slope = features.with_slope(x)
        left = phi - basis @ (basis.T @ phi)
        size, far = float(phi @ phi), float(left @ left)
        gradient = 2.0 * slope @ (left / size - phi * (far / size**2))
        return far / size, gradient

    ends = [minimize(outside, start, jac=True, method="L-BFGS-B") for start in starts]
    residuals = np.sqrt(np.maximum([end.fun for end in ends], 0.0))
    return Reconstruction(np.array([end.x for end in ends]), residuals, basis.shape[1])
