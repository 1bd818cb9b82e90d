"""The leading left singular vectors of one participant's features, in the three scales of kCAGC.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocol 1,
            line 5: project the filtered features on their top singular vectors.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput
from daskfc.seeds import generator

Basis = Literal["U", "scaled", "row-normalised"]

_BLOCK = 1 << 16  # rows of a product
_GRAM = 2000  # ours: side of a Gram matrix whose eigenpairs take about a second
_TOLD = 1e-6  # ours: of the first singular value; the Gram matrix tells directions above it
_LARGE = 1 << 24  # ours: size of a matrix that is decomposed for the others, of 128 MiB
_DENSE = 4_000_000  # ours: size of a matrix whose full decomposition takes about a second


def singular_coordinates(X: NDArray[Any], k: int, basis: Basis = "U") -> Floats:
    """Return U, U Σ or U Σ with unit rows of X (n, d), float64 (n, min(k, n, d)).

    Singular values descend, and each column's largest entry in size is positive; columns and rows
    of rounding errors are 0. With few columns V comes from the (d, d) Gram matrix, which loses
    singular values below 1e-7 of the first; X V then gives U and Σ. Where the wanted ones are as
    small, X itself is decomposed, up to 2^24 numbers.
    """
    if not np.isfinite(X).all():
        raise InvalidInput(
            "the features of a participant must be finite; some are too large for float64, or no "
            "numbers. Scale them down, or fill or drop what is not a number."
        )
    n, d = X.shape
    width = min(k, n, d)
    quick = _by_gram(X, width) if d <= _GRAM and 2 * d <= n else None
    if quick is not None and (n * d > _LARGE or quick[1][-1] > _TOLD * quick[1][0]):
        left, values = quick
    elif quick is not None or n * d <= _DENSE or width >= min(n, d) - 1:
        left, values, _ = np.linalg.svd(X.astype(np.float64, copy=False), full_matrices=False)
    else:
        start = generator(0, "local basis").uniform(-1.0, 1.0, min(n, d))
        found: Any = svds(X.astype(np.float64, copy=False), width, v0=start)  # ascending
        left, values = found[:2]
        order = np.argsort(-values, kind="stable")
        left, values = left[:, order], values[order]
    # Vectors of singular values below the rounding of X are arbitrary.
    eps = float(np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps)
    return _in_basis(left[:, :width], values[:width], max(n, d) * eps, basis)


def projected_coordinates(projected: Floats, n_features: int, basis: Basis = "U") -> Floats:
    """Return `singular_coordinates` from X V (n, k), V being X's top right vectors."""
    left, values, _ = np.linalg.svd(projected, full_matrices=False)
    floor = max(len(projected), n_features) * float(np.finfo(np.float64).eps)
    return _in_basis(left, values, floor, basis)


def _in_basis(left: Floats, values: Floats, floor: float, basis: Basis) -> Floats:
    U: Floats = np.array(left, dtype=np.float64)
    peaks = U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]
    U *= np.where(peaks < 0, -1.0, 1.0)
    U[:, values <= floor * values[0]] = 0.0
    scaled: Floats = U * values
    nothing = squared_row_norms(scaled) <= (floor * values[0]) ** 2
    U[nothing] = scaled[nothing] = 0.0
    if basis == "U":
        return U
    return scaled if basis == "scaled" else divide_rows(scaled, squared_row_norms(scaled))


def _by_gram(X: NDArray[Any], width: int) -> tuple[Floats, Floats]:
    n, d = X.shape
    gram = np.zeros((d, d))
    for start in range(0, n, _BLOCK):
        rows = X[start : start + _BLOCK].astype(np.float64, copy=False)
        gram += rows.T @ rows
    V = np.linalg.eigh(gram)[1][:, ::-1][:, :width]  # (d, width)
    projected = np.empty((n, width))
    for start in range(0, n, _BLOCK):
        projected[start : start + _BLOCK] = X[start : start + _BLOCK] @ V
    U, values, _ = np.linalg.svd(projected, full_matrices=False)
    return U, values


def squared_row_norms(rows: Floats) -> Floats:
    """Return the squared norm (n,) of every row, which participants sum for the global norm."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def divide_rows(rows: Floats, squared_norms: Floats) -> Floats:
    """Return a participant's rows U Σ over the roots of squared norms; 0 where these are 0."""
    live = squared_norms > 0  # a secure sum may be a little below 0
    roots = np.sqrt(np.where(live, squared_norms, 1.0))
    return np.where(live[:, None], rows / roots[:, None], 0.0)
