"""Fig. 1: how far the estimate of the kernel matrix is from its best approximation of rank s.

Notation    paper              here
            K̂, K̂_t             H* H*ᵀ of the exact kernel, H_t H_tᵀ; neither is ever formed
            H_t                Σ_τ≤t φ_τ(X) G_τ, from what a fit told its caller
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.clustering.clusterers.kernel_kmeans import exact_embedding
from daskfc.clustering.kernels.features import Kernel
from daskfc.clustering.kernels.products import KernelProducts, kernel_of_points
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.maths.dspgd import Iteration, feature_weights

__all__ = ["exact_coordinates", "prefix_coordinates", "prefix_weights", "recovery_errors"]

Floats = NDArray[np.float64]

_BLOCK = 2048  # rows at a time


def exact_coordinates(X: ArrayLike, width: float, s: int) -> tuple[Floats, bool]:
    """Return H* = U_s √Λ_s of the exact Gaussian kernel, and whether it has converged.

    Parameters
    ----------
    X : array_like of shape (n, d)
        All samples.
    width : float
        Of the kernel.
    s : int
        Eigenpairs.

    Returns
    -------
    H : ndarray of shape (n, s)
    converged : bool
        Whether residuals are at most 1e-6 of the largest eigenvalue.
    """
    points = np.asarray(X, dtype=np.float64)
    single = not KernelProducts.holds(len(points), np.float64)
    block = kernel_of_points(points, Kernel("gaussian", width), single=single)
    dtype = np.float32 if single else np.float64
    H, _, _, converged = exact_embedding(block, len(points), s, 0, dtype=dtype)
    return H, bool(converged)


def prefix_weights(
    past: Sequence[Iteration], prefixes: Sequence[int], n_features: int, s: int
) -> list[Floats]:
    """Return G_1, ..., G_t for several t: as fits of so many iterations would have ended with.

    Parameters
    ----------
    past : sequence of Iteration
        Of one fit.
    prefixes : sequence of int
        t, each at most the number of iterations.
    n_features, s : int
        D and s.

    Returns
    -------
    list of ndarray of shape (t, D, s)
    """
    return [feature_weights(past[:t], n_features, s) for t in prefixes]


def prefix_coordinates(
    rows: ArrayLike, weights: Sequence[Floats], settings: FeatureSettings, width: float
) -> Floats:
    """Return H_t of some samples for several t, each draw of random features computed once.

    Parameters
    ----------
    rows : array_like of shape (n, d)
        Samples.
    weights : sequence of ndarray of shape (t, D, s)
        As `prefix_weights` returns them.
    settings : FeatureSettings
        The draws.
    width : float
        Of the kernel.

    Returns
    -------
    ndarray of shape (number of prefixes, n, s)
    """
    X = np.asarray(rows, dtype=np.float64)
    s = weights[0].shape[2]
    H = np.zeros((len(weights), len(X), s))
    for number in range(1, max(map(len, weights)) + 1):
        phi = settings.drawn(width, number, X.shape[1]).of(X)
        longer = [i for i, G in enumerate(weights) if len(G) >= number]
        side_by_side = np.hstack([weights[i][number - 1] for i in longer])  # (D, s · prefixes)
        H[longer] += (phi @ side_by_side).reshape(len(X), len(longer), s).swapaxes(0, 1)
    return H


def recovery_errors(
    X: NDArray[np.generic],
    exact: Floats,
    past: Sequence[Iteration],
    settings: FeatureSettings,
    width: float,
) -> list[float]:
    """Return |K̂_t - K̂|² / N² of every iteration t of a fit.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        All samples.
    exact : ndarray of shape (n, s)
        H*, as `exact_coordinates` returns it.
    past : sequence of Iteration
        Of the fit.
    settings : FeatureSettings
        Its draws.
    width : float
        Its kernel's.

    Notes
    -----
    |H Hᵀ - H* H*ᵀ|² = |HᵀH|² - 2 |HᵀH*|² + |H*ᵀH*|², matrices of s rows and columns.
    """
    s = exact.shape[1]
    weights = prefix_weights(past, range(1, len(past) + 1), settings.n_features, s)
    own, cross = np.zeros((2, len(past), s, s))
    for rows, part in _blocks(X, exact):
        H = prefix_coordinates(rows, weights, settings, width)
        own += H.swapaxes(1, 2) @ H
        cross += H.swapaxes(1, 2) @ part
    whole = np.sum((exact.T @ exact) ** 2)
    errors = np.sum(own**2, axis=(1, 2)) - 2.0 * np.sum(cross**2, axis=(1, 2)) + whole
    return [float(max(error, 0.0)) / len(X) ** 2 for error in errors]


def _blocks(X: NDArray[np.generic], exact: Floats) -> Iterator[tuple[NDArray[np.generic], Floats]]:
    for start in range(0, len(X), _BLOCK):
        stop = start + _BLOCK
        yield X[start:stop], exact[start:stop]
