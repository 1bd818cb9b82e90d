"""What a server can make of sums of WᵀW: the samples themselves, where they are fewer than D.

Paper       Theorem 4 and Appendix F: a Gram matrix AᵀA leaves A open up to a rotation, so that
            "recovering the random feature matrix is an ill-posed problem".
Departures  That is true of any matrix A, but random features are no matrix of any kind: the server
            has drawn ω and b itself, and knows which vectors φ(x) there are. Where A has fewer rows
            than columns, AᵀA gives the span of its rows, and of all φ(x) those of the samples alone
            lie in it. `rows_in_span` looks for them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from daskfc.clustering.kernel_features import RandomFeatures
from daskfc.errors import InvalidInput

__all__ = ["Reconstruction", "rows_in_span", "span_of"]

Floats = NDArray[np.float64]

_RANK = 1e-10  # ours: eigenvalues below it, over the largest, are rounding


@dataclass(frozen=True)
class Reconstruction:
    """Where the search for samples ended.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        One for each start.
    residuals : ndarray of shape (m,)
        How far φ(x) is from the span, over |φ(x)|; 0 for a sample of the client.
    rank : int
        Dimension of the span; D says nothing about samples.
    """

    rows: Floats
    residuals: Floats
    rank: int


def span_of(gram: Floats) -> Floats:
    """Return an orthonormal basis of the span of A's rows, of AᵀA.

    Parameters
    ----------
    gram : ndarray of shape (D, D)

    Returns
    -------
    ndarray of shape (D, rank)

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.fk_kmeans.privacy import span_of
    >>> A = np.array([[1.0, 0.0, 1.0], [2.0, 0.0, 2.0]])
    >>> span_of(A.T @ A).shape
    (3, 1)
    """
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors[:, values > _RANK * values[-1]])


def rows_in_span(gram: Floats, features: RandomFeatures, starts: Floats) -> Reconstruction:
    """Look for samples whose random features lie in the span of AᵀA.

    Parameters
    ----------
    gram : ndarray of shape (D, D)
        Of the first iteration, where W = A / √D: of one client, or the sum over clients.
    features : RandomFeatures
        The draw, which the server knows, of a Gaussian or Laplacian kernel.
    starts : ndarray of shape (m, d)
        Where to begin, for example draws from what the features' ranges are known to be.

    Returns
    -------
    Reconstruction

    Raises
    ------
    InvalidInput
        For features of another size, or of a polynomial kernel.

    Notes
    -----
    Minimises |φ(x) - P φ(x)|² / |φ(x)|² from every start by L-BFGS. D - rank equations determine d
    unknowns: the search succeeds where rank + d is below D.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.clustering.kernel_features import Kernel
    >>> from daskfc.protocols.fk_kmeans.privacy import rows_in_span
    >>> secret = np.array([[0.3, -0.2]])
    >>> draw = Kernel("gaussian", 1.0).features(20, seed=0, n_columns=2)
    >>> phi = draw.of(secret)
    >>> starts = np.random.default_rng(0).normal(size=(10, 2))
    >>> found = rows_in_span(phi.T @ phi, draw, starts)
    >>> found.rows[found.residuals.argmin()].round(3).tolist()
    [0.3, -0.2]
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
