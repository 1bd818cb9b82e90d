"""The leading left singular vectors of one participant's features, in the scales kCAGC knows.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocol 1,
            line 5: project the filtered features on their top singular vectors.
"""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from daskfc.checks import Constraint, check_params, integer, one_of
from daskfc.errors import InvalidInput
from daskfc.seeds import generator

__all__ = [
    "Basis",
    "divide_rows",
    "projected_coordinates",
    "singular_coordinates",
    "squared_row_norms",
]

Floats: TypeAlias = NDArray[np.float64]
Basis = Literal["U", "scaled", "row-normalised"]

_CONSTRAINTS: dict[str, Constraint] = {
    "k": integer(1),
    "basis": one_of("U", "scaled", "row-normalised"),
}
_BLOCK = 1 << 16  # rows of a product
_GRAM = 2000  # ours: eigenpairs of so large a Gram matrix take about a second
_DENSE = 4_000_000  # ours: numbers in a matrix whose full decomposition takes about a second


def singular_coordinates(X: NDArray[Any], k: int, basis: Basis = "U", *, seed: int = 0) -> Floats:
    """Return the coordinates of the rows of X in its top right singular vectors.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Filtered features, float64 or float32.
    k : int
        Number of dimensions wanted.
    basis : {"U", "scaled", "row-normalised"}, default "U"
        "U", orthonormal columns; "scaled", U Σ; or U Σ with every row divided by its norm.
    seed : int, default 0
        Of the start vector where X is too large both ways for a full decomposition.

    Returns
    -------
    ndarray of shape (n, min(k, n, d)), float64
        Columns in descending order of their singular values; the entry of largest size in each
        column of U is positive. Columns of a singular value that is 0 up to rounding are 0; and so
        are rows of no more than rounding, which have no direction.

    Raises
    ------
    InvalidInput
        For a parameter that breaks its rule, and for features without a column or not finite.

    Notes
    -----
    With few columns the right singular vectors V come from the d x d Gram matrix, summed over
    blocks of rows; the decomposition of X V (n, k) then gives U and Σ. A singular value below
    1e-7 of the first is lost in the Gram matrix's rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import singular_coordinates
    >>> singular_coordinates(np.array([[3.0], [0.0], [4.0]]), 2).round(6).tolist()
    [[0.6], [0.0], [0.8]]
    """
    check_params("singular_coordinates", {"k": k, "basis": basis}, _CONSTRAINTS)
    if X.ndim != 2 or min(X.shape) < 1 or not np.isfinite(X).all():
        raise InvalidInput(
            f"the features of a participant must be finite and of shape (n, d) with n, d >= 1; got "
            f"shape {X.shape}{'' if X.ndim != 2 or min(X.shape) < 1 else ', not all finite'}. "
            "Leave out participants without features, and fill or drop what is not a number."
        )
    n, d = X.shape
    width = min(k, n, d)
    if d <= _GRAM and 2 * d <= n:
        left, values = _by_gram(X, width)
    elif n * d <= _DENSE or width >= min(n, d) - 1:
        left, values, _ = np.linalg.svd(X.astype(np.float64, copy=False), full_matrices=False)
    else:
        start = generator(seed, "local basis").uniform(-1.0, 1.0, min(n, d))
        found: Any = svds(X.astype(np.float64, copy=False), width, v0=start)  # ascending
        left, values = found[:2]
        order = np.argsort(-values, kind="stable")
        left, values = left[:, order], values[order]
    # What lies below the rounding of X itself has no direction.
    eps = float(np.finfo(X.dtype if X.dtype.kind == "f" else np.float64).eps)
    return _in_basis(left[:, :width], values[:width], max(n, d) * eps, basis)


def projected_coordinates(projected: Floats, n_features: int, basis: Basis = "U") -> Floats:
    """Return what `singular_coordinates` would, from X V for the top right singular vectors V.

    For features that are too large to be held: X V is linear in X, and so is a filter before it.

    Parameters
    ----------
    projected : ndarray of shape (n, k), float64
        X V.
    n_features : int
        d, columns of X.
    basis : {"U", "scaled", "row-normalised"}, default "U"
        See `singular_coordinates`.

    Returns
    -------
    ndarray of shape (n, k), float64
        As there.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import projected_coordinates
    >>> projected_coordinates(np.array([[3.0], [0.0], [4.0]]), 1).round(6).tolist()
    [[0.6], [0.0], [0.8]]
    """
    check_params("projected_coordinates", {"basis": basis}, {"basis": _CONSTRAINTS["basis"]})
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
    """Return the squared norm of every row: what participants sum for the global row norm.

    Parameters
    ----------
    rows : ndarray of shape (n, w), float64
        One participant's U Σ.

    Returns
    -------
    ndarray of shape (n,), float64
        Squared norms.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import squared_row_norms
    >>> squared_row_norms(np.array([[3.0, 4.0]])).tolist()
    [25.0]
    """
    result: Floats = np.einsum("ij,ij->i", rows, rows)
    return result


def divide_rows(rows: Floats, squared_norms: Floats) -> Floats:
    """Return rows divided by given norms; a row whose norm is 0 becomes 0.

    Parameters
    ----------
    rows : ndarray of shape (n, w), float64
        One participant's U Σ.
    squared_norms : ndarray of shape (n,), float64
        Squared norms of the same rows, summed over participants for the global row norm.

    Returns
    -------
    ndarray of shape (n, w), float64
        Rows over roots; those of all participants side by side then have norm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.linalg import divide_rows
    >>> divide_rows(np.array([[3.0], [0.0]]), np.array([25.0, 0.0])).tolist()
    [[0.6], [0.0]]
    """
    live = squared_norms > 0  # a secure sum may be a little below 0
    roots = np.sqrt(np.where(live, squared_norms, 1.0))
    result: Floats = np.where(live[:, None], rows / roots[:, None], 0.0)
    return result
