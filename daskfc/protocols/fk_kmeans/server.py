"""Federated kernel k-means: the steps of the server."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput, StoreError
from daskfc.federation import Checkpoints
from daskfc.federation.methods.samples import StoreContent
from daskfc.linalg.symmetric import matrix_of
from daskfc.protocols.fk_kmeans.maths.dspgd import n_kept
from daskfc.protocols.fk_kmeans.maths.lanczos import Krylov, begin
from daskfc.protocols.fk_kmeans.messages import (
    Eigenpairs,
    FeaturePlan,
    IterationsDone,
    LanczosProgress,
    LanczosVectors,
)
from daskfc.secure.sums import Centre, Total
from daskfc.secure.sums.interpoint import KernelWidth


def plan_of(
    count: Total, width: KernelWidth | None, given: float | None, centre: Centre | None
) -> FeaturePlan:
    """Return the plan for all parties, with the agreed or given width."""
    n_samples = round(float(count.values[0, 0]))
    point = np.empty(0) if centre is None else centre.point
    if width is not None:
        return FeaturePlan(width.width, n_samples, point)
    assert given is not None
    return FeaturePlan(float(given), n_samples, point)


def told_eigenpairs(
    values: Floats,
    vectors: Floats,
    before: Eigenpairs | None,
    n_clusters: int,
    n_eigenvectors: int,
    n_products: int = 0,
) -> Eigenpairs:
    """Return the eigenpairs to send, from descending ones: all above η λ, and at least s.

    λ is the (k + 2)-th eigenvalue of the first iteration (Section 6.1). Refuse if none is positive.
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
    largest = np.abs(kept).argmax(axis=0)  # the same sign for both solvers
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
    """Return the vectors for all clients to multiply next (Section 4.2, step 1)."""
    return LanczosVectors(state.block)


def converged(
    state: Krylov, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> bool:
    """Whether the eigenpairs that the iteration needs have converged (Appendix B)."""
    if before is None:
        return state.has_converged(least=max(n_clusters + 2, n_eigenvectors))
    threshold = before.threshold / (before.number + 1)
    return state.has_converged(least=n_eigenvectors, threshold=threshold)


def advance(
    state: Krylov, total: Total, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> Krylov:
    """Advance by a sum of products, unless Lanczos has ended (Section 4.2, step 3)."""
    if converged(state, before, n_clusters, n_eigenvectors):
        return state  # a product requested too early must not change the result
    return state.advance(total.values)


def lanczos_progress(
    state: Krylov, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> LanczosProgress:
    """Return for the caller whether Lanczos has ended."""
    done = converged(state, before, n_clusters, n_eigenvectors)
    m, q = state.basis.shape
    return LanczosProgress(int(done), -(-q // state.width), -(-(m - q) // state.width))


def eigenpairs_of_lanczos(
    state: Krylov, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int
) -> Eigenpairs:
    """Return the eigenpairs that Lanczos found."""
    found = state.ritz()
    n = state.basis.shape[1]
    return told_eigenpairs(
        found.values, found.vectors, before, n_clusters, n_eigenvectors, n_products=n
    )


# -- checkpoints ----------------------------------------------------------------------------------


def folder_of(workspace: str, params: str, contents: Mapping[str, StoreContent]) -> str:
    """Return the folder with the iterations of this fit of these samples, at the server."""
    digest = hashlib.sha256(params.encode())
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {content.tag} ".encode())
    return str(Path(workspace) / f"fk-k-means-{digest.hexdigest()[:16]}")


def keep(found: Eigenpairs, folder: str | None) -> Eigenpairs:
    """Return an iteration's eigenpairs for the caller; save them in the folder, if there is one."""
    if folder is not None:
        numbers = np.array([found.threshold, float(found.n_products)])
        state = {"values": found.values, "vectors": found.vectors, "numbers": numbers}
        Checkpoints(folder, keep=None).save(found.number, state)
    return found


def iterations_done(folder: str) -> IterationsDone:
    """Return the number of iterations that an earlier start of the fit saved, for the caller."""
    number = 0
    with suppress(StoreError):
        while True:
            Checkpoints(folder).load(number + 1)
            number += 1
    return IterationsDone(number)


def remembered(folder: str, number: int) -> Eigenpairs:
    """Return the saved eigenpairs of an iteration."""
    state = Checkpoints(folder).load(number)
    threshold, n_products = state["numbers"].tolist()
    return Eigenpairs(state["values"], state["vectors"], threshold, number, int(n_products))
