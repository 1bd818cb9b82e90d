"""Federated kernel k-means: the steps of the server."""

from pathlib import Path

import numpy as np
from daskfc.secure.sums.interpoint import KernelWidth
from numpy.typing import NDArray

from daskfc.errors import InvalidInput
from daskfc.federation import Checkpoints
from daskfc.protocols.fk_kmeans.maths.dspgd import n_kept
from daskfc.protocols.fk_kmeans.maths.lanczos import Krylov, begin
from daskfc.protocols.fk_kmeans.maths.symmetric import matrix_of
from daskfc.protocols.fk_kmeans.messages import (
    Eigenpairs,
    FeaturePlan,
    LanczosProgress,
    LanczosVectors,
    Resumed,
)
from daskfc.secure.sums import Total

__all__ = [
    "advance",
    "begin_lanczos",
    "eigenpairs_of_gram",
    "eigenpairs_of_lanczos",
    "keep",
    "lanczos_progress",
    "next_vectors",
    "plan_of",
    "remembered",
    "resumed",
    "told_eigenpairs",
]

Floats = NDArray[np.float64]


def plan_of(count: Total, width: KernelWidth | None, given: float | None) -> FeaturePlan:
    """Return what all parties go by, the width as agreed on or as given."""
    n_samples = round(float(count.values[0, 0]))
    if width is not None:
        return FeaturePlan(width.width, n_samples)
    assert given is not None
    return FeaturePlan(float(given), n_samples)


def told_eigenpairs(
    values: Floats,
    vectors: Floats,
    before: Eigenpairs | None,
    n_clusters: int,
    n_eigenvectors: int,
    n_products: int = 0,
) -> Eigenpairs:
    """Return the eigenpairs that go on: all above η λ, and s at least.

    Parameters
    ----------
    values : ndarray of shape (q,)
        Eigenvalues of W_tᵀW_t, descending.
    vectors : ndarray of shape (m, q)
        Their eigenvectors.
    before : Eigenpairs or None
        Those of iteration t - 1.
    n_clusters : int
        k; λ is the (k + 2)-th eigenvalue of the first iteration (Section 6.1).
    n_eigenvectors : int
        s.
    n_products : int
        That it took.

    Raises
    ------
    InvalidInput
        When no eigenvalue is positive.
    """
    number = 1 if before is None else before.number + 1
    threshold = max(float(values[n_clusters + 1]), 0.0) if before is None else before.threshold
    n = n_kept(values, threshold, number, n_eigenvectors)
    if not n:
        raise InvalidInput(
            "the random features must vary over the samples, and noise must leave something of "
            "them; no eigenvalue is positive. Take a larger epsilon, or look at the kernel width."
        )
    kept = vectors[:, :n]
    largest = np.abs(kept).argmax(axis=0)  # one sign, whichever solver found them
    kept = kept * np.sign(kept[largest, np.arange(n)])
    return Eigenpairs(values[:n].copy(), kept, threshold, number, n_products)


def eigenpairs_of_gram(
    total: Total, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> Eigenpairs:
    """Return the eigenpairs of Σ W[m]ᵀW[m] from the sum itself."""
    values, vectors = np.linalg.eigh(matrix_of(total.values[:, 0]))
    descending = (values[::-1], vectors[:, ::-1])
    return told_eigenpairs(*descending, before, n_clusters, n_eigenvectors)


# -- Lanczos --------------------------------------------------------------------------------------


def begin_lanczos(before: Eigenpairs | None, n_features: int, width: int, seed: int) -> Krylov:
    """Begin with random vectors of D + r numbers."""
    r = 0 if before is None else before.iteration.to_basis().shape[1]
    return begin(n_features + r, width, seed)


def next_vectors(state: Krylov) -> LanczosVectors:
    """Tell all clients what to multiply next (Section 4.2, step 1)."""
    return LanczosVectors(state.block)


def _converged(
    state: Krylov, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> bool:
    if before is None:
        return state.has_converged(least=max(n_clusters + 2, n_eigenvectors))
    threshold = before.threshold / (before.number + 1)
    return state.has_converged(least=n_eigenvectors, threshold=threshold)


def advance(
    state: Krylov, total: Total, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> Krylov:
    """Take in a sum of products, unless Lanczos has ended (Section 4.2, step 3)."""
    if _converged(state, before, n_clusters, n_eigenvectors):
        return state  # asked for before anybody knew: the result must not depend on it
    return state.advance(total.values)


def lanczos_progress(
    state: Krylov, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> LanczosProgress:
    """Tell the caller whether Lanczos has ended."""
    done = _converged(state, before, n_clusters, n_eigenvectors)
    return LanczosProgress(done, state.basis.shape[1])


def eigenpairs_of_lanczos(
    state: Krylov, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> Eigenpairs:
    """Return the eigenpairs that Lanczos found."""
    found = state.ritz()
    n = state.basis.shape[1]
    return told_eigenpairs(
        found.values, found.vectors, before, n_clusters, n_eigenvectors, n_products=n
    )


# -- where an earlier start of a fit broke off ----------------------------------------------------


def keep(folder: str, past: list[Eigenpairs]) -> int:
    """Write the eigenpairs of all iterations so far; return their number."""
    state: dict[str, np.ndarray] = {"threshold": np.array(past[-1].threshold)}
    for found in past:
        state[f"values-{found.number}"] = found.values
        state[f"vectors-{found.number}"] = found.vectors
        state[f"products-{found.number}"] = np.array(found.n_products)
    Checkpoints(folder).save(past[-1].number, state)
    return past[-1].number


def resumed(folder: str) -> Resumed:
    """Tell the caller after which iteration an earlier start of the fit broke off, 0 for none."""
    if not Path(folder).exists():
        return Resumed(0)
    latest = Checkpoints(folder).latest()
    return Resumed(0 if latest is None else latest[0])


def remembered(folder: str, last: int, number: int) -> Eigenpairs:
    """Return the eigenpairs of an iteration of an earlier start that went on to `last`."""
    state = Checkpoints(folder).load(last)
    return Eigenpairs(
        state[f"values-{number}"],
        state[f"vectors-{number}"],
        float(state["threshold"]),
        number,
        int(state[f"products-{number}"]),
    )
