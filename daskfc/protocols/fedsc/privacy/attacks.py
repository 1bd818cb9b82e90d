"""Attacks on FedSC's factors: clusters from C, and the rows themselves from Z and C.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023: "Malicious attack on C" and Table 6 (Appendix D.4), for the first. The
            second is ours; the paper calls recovering X from Z and C "very difficult".
Notation    paper  here   meaning
            X      X      (n, m), private rows
            Z      Z      (d, m), atoms
            C      C      (d, n), one column for each row of X
            λ, r   ridge, width
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans

from daskfc.arrays import Floats, Ints
from daskfc.errors import InvalidInput
from daskfc.privacy.ranges import check

_BLOCK = 1 << 21  # ours: numbers in a block's matrices of derivatives (16 MiB)
_TINY = 1e-12  # ours: smaller kernel values, beyond 7.4 widths, are too inexact for distances
_STILL = 1e-10  # ours: the search ends at a step shorter than this many widths


def _matrix(values: ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInput(
            f"{name} of an attack must be a finite matrix, not empty; got shape {array.shape}."
        )
    return array


def cluster_coefficients(C: ArrayLike, n_clusters: int, seed: int, *, n_init: int = 10) -> Ints:
    """Run Table 6's attack: k-means labels (n,) from the columns of C (d, n), noisy or not.

    It needs neither Z nor the kernel. A better attack may learn more.
    """
    check("the attack on C", n_clusters=n_clusters, seed=seed, n_init=n_init)
    columns = _matrix(C, "C")
    if n_clusters > columns.shape[1]:
        raise InvalidInput(
            f"the attack on C can find at most {columns.shape[1]} clusters, one for each column; "
            f"got n_clusters={n_clusters}. Lower it."
        )
    model = KMeans(n_clusters, n_init=n_init, random_state=seed)
    return np.asarray(model.fit_predict(columns.T), dtype=np.int64)


def _kernel(X: Floats, Z: Floats, width: float) -> Floats:
    squared = (X**2).sum(1)[:, None] + (Z**2).sum(1) - 2 * X @ Z.T
    return np.asarray(np.exp(-np.maximum(squared, 0.0) / (2 * width**2)))


def _step(jacobian: Floats, residual: Floats, damping: Floats) -> Floats:
    """Solve (JᵀJ + damping) s = -Jᵀ residual for every row, in the smaller of its two forms."""
    _, d, m = jacobian.shape
    turned = jacobian.transpose(0, 2, 1)
    size = min(d, m)
    gram = jacobian @ turned if d <= m else turned @ jacobian  # (n, size, size)
    gram[:, np.arange(size), np.arange(size)] += damping[:, None]
    if d <= m:  # s = -Jᵀ (JJᵀ + damping)⁻¹ residual
        return np.asarray(-(turned @ np.linalg.solve(gram, residual[..., None]))[..., 0])
    return np.asarray(-np.linalg.solve(gram, turned @ residual[..., None])[..., 0])


def _plane(Z: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the atoms in coordinates of their own plane, its origin (m,) and its axes (q, m).

    Where the plane is not all of R^m, atoms have a last coordinate of 0, their distance from it.
    """
    origin = Z.mean(0)
    _, singular, axes = np.linalg.svd(Z - origin, full_matrices=False)
    axes = axes[singular > 1e-10 * max(singular[0], np.finfo(float).tiny)]
    atoms = (Z - origin) @ axes.T  # (d, q)
    off_plane = np.zeros((len(Z), int(len(axes) < Z.shape[1])))
    return np.hstack([atoms, off_plane]), origin, axes


def _from_distances(values: Floats, Z: Floats, q: int, start: Floats, width: float) -> Floats:
    """Return the rows whose squared distances to the atoms fit -2r² log(values), weighted.

    Differences of these equations to their weighted mean are linear in a row's q coordinates; the
    mean gives its distance from the plane. Weights are k, as an error e of a value k is e/k in its
    logarithm.
    """
    seen = values > _TINY
    k = np.where(seen, values, 1.0)
    weights = np.where(seen, values, 0.0)
    squared = -2 * width**2 * np.log(k)  # ‖x - z‖²
    share = weights**2 / np.maximum((weights**2).sum(1, keepdims=True), _TINY**2)
    atoms, x = Z[:, :q], start[:, :q]
    offset = atoms[None] - (share @ atoms)[:, None]  # (n, d, q)
    moved = (atoms**2).sum(1) - squared  # = 2 z·x + the same for all atoms
    right = moved - (share * moved).sum(1, keepdims=True)  # = 2 offset·x
    jacobian = 2 * weights[..., None] * offset
    error = weights * (2 * np.einsum("iaq,iq->ia", offset, x) - right)
    scale = np.einsum("iaq,iaq->i", jacobian, jacobian) + np.finfo(float).tiny
    found = start.copy()
    found[:, :q] += _step(jacobian, error, 1e-13 * scale)
    if Z.shape[1] > q:
        within = ((found[:, None, :q] - atoms[None]) ** 2).sum(2)
        height = np.sqrt(np.maximum((share * (squared - within)).sum(1), 0.0))
        found[:, q] = np.maximum(height, 0.01 * width)  # ours: the derivative is 0 at height 0
    return found


def _fit_block(values: Floats, Z: Floats, q: int, width: float, max_iter: int) -> Floats:
    """Fit k(Z, x) to `values` (n, d) row by row, by Levenberg-Marquardt least squares."""

    def cost(X: Floats, of: NDArray[Any]) -> Floats:
        k = _kernel(X, Z, width)
        squared = ((k - values[of]) ** 2).sum(1)
        # far from all atoms the cost is flat, and a minimum at infinity is no row
        return np.where(k.max(1) > _TINY, squared, np.inf)

    open_rows = np.arange(len(values))
    weights = np.maximum(values, 0.0)
    total = weights.sum(1, keepdims=True)
    X = np.where(total > 0, weights @ Z / np.where(total > 0, total, 1.0), Z.mean(0))
    X[:, q:] = width / 10  # ours: as above
    now = cost(X, open_rows)
    with np.errstate(all="ignore"):  # a NaN start is not taken
        closed = _from_distances(values, Z, q, X, width)
        better = cost(closed, open_rows) < now
    X[better] = closed[better]
    now = cost(X, open_rows)
    damping = np.full(len(X), 1e-3)
    for _ in range(max_iter):
        x = X[open_rows]
        k = _kernel(x, Z, width)
        jacobian = k[..., None] * (Z[None] - x[:, None]) / width**2  # (n, d, m)
        scale = np.einsum("iam,iam->i", jacobian, jacobian) + np.finfo(float).tiny
        step = _step(jacobian, k - values[open_rows], damping[open_rows] * scale)
        then = cost(x + step, open_rows)
        good = then < now[open_rows]
        X[open_rows[good]] += step[good]
        now[open_rows[good]] = then[good]
        factor = np.where(good, 0.1, 10.0)
        damping[open_rows] = np.clip(damping[open_rows] * factor, 1e-12, None)
        # rejected steps get shorter with the damping, so that every row ends here
        open_rows = open_rows[np.linalg.norm(step, axis=1) > _STILL * width]
        if not open_rows.size:
            break
    return X


def reconstruct_rows(
    Z: ArrayLike, C: ArrayLike, *, width: float, ridge: float, max_iter: int = 50
) -> Floats:
    """Recover private rows (n, m) from FedSC's factors Z (d, m) and C (d, n), noisy or not.

    Each minimises ‖k(Z, x) - (K(Z,Z) + λI) c‖² locally: C gives kernel values, so distances to all
    atoms, so trilateration. Privacy: Z and C without noise give X where d ≥ m + 1 atoms in general
    position are near enough, else its projection on their plane; under noise a failed attack is no
    guarantee.
    """
    check("the reconstruction attack", width=width, ridge=ridge, max_iter=max_iter)
    atoms, columns = _matrix(Z, "Z"), _matrix(C, "C")
    d = len(atoms)
    if len(columns) != d:
        raise InvalidInput(
            f"C of an attack must have one row for each of the {d} atoms; got {columns.shape}."
        )
    flat, origin, axes = _plane(atoms)
    q = len(axes)
    # undo the C-step: the rows' kernel values  # (n, d)
    values = (_kernel(flat, flat, width) @ columns + ridge * columns).T
    size = max(1, _BLOCK // flat.size)
    blocks = [
        _fit_block(values[i : i + size], flat, q, width, max_iter)[:, :q]
        for i in range(0, len(values), size)
    ]
    return np.asarray(np.concatenate(blocks) @ axes + origin)
