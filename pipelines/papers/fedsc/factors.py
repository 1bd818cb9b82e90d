"""What FedSC's server can do with the factors it has: similarities, bounds beside them, samples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from daskfc.clustering.kernels.kernels import atom_kernel, gaussian_kernel
from daskfc.clustering.kernels.low_rank_similarity import default_neighbors
from daskfc.protocols.fedsc.maths.similarity_spectral import cluster_graph
from daskfc.protocols.fedsc.privacy.attacks import reconstruct_rows
from daskfc.protocols.fedsc.privacy.bounds import (
    feature_residual,
    perturbed_data_bound,
    perturbed_factors_bound,
)
from daskfc.seeds import generator
from pipelines.papers.journal import Record

__all__ = [
    "FactorsSeen",
    "bound_of_data",
    "bound_of_factors",
    "cluster_largest",
    "reconstruction",
    "similarity_error",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FactorsSeen:
    """Z and C as a server has them, and the samples that they belong to.

    Parameters
    ----------
    Z : ndarray of shape (d, m)
        Dictionary.
    C : ndarray of shape (d, n)
        Coefficients.
    true, given : ndarray of shape (n, m)
        Samples before and after the noise.
    width, ridge : float
        r and λ.
    """

    Z: Floats
    C: Floats
    true: Floats
    given: Floats
    width: float
    ridge: float

    @property
    def residual(self) -> float:
        """γ of the samples that were given."""
        zx = gaussian_kernel(self.given, self.Z, self.width).T
        return feature_residual(self.C, atom_kernel(self.Z, self.width), zx)

    @property
    def coefficient_norm(self) -> float:
        """τ_C."""
        return float(np.linalg.norm(self.C, axis=0).max())


def similarity_error(seen: FactorsSeen) -> Record:
    """Return the error of CᵀK(Z, Z)C against the kernel of the true samples (Eq. 5).

    Returns
    -------
    dict
        ``relative``, in Frobenius norms, and ``largest``, of an entry.
    """
    K = gaussian_kernel(seen.true, seen.true, seen.width)
    gap = seen.C.T @ atom_kernel(seen.Z, seen.width) @ seen.C - K
    relative = np.linalg.norm(gap) / np.linalg.norm(K)
    return {"relative": float(relative), "largest": float(np.abs(gap).max())}


def cluster_largest(
    seen: FactorsSeen, n_clusters: int, seed: int, n_init: int
) -> NDArray[np.int64]:
    """Cluster the server's similarities with the published code's graph.

    It keeps the k largest of each row, whether the sample itself is among them or not; FedSC's own
    graph always keeps the sample itself.
    """
    K = seen.C.T @ atom_kernel(seen.Z, seen.width) @ seen.C
    K = (K - K.min()) / (K.max() - K.min())
    rows = np.arange(len(K))[:, None]
    kept = np.argsort(-K, axis=1, kind="stable")[:, : default_neighbors(len(K))]
    S = np.zeros_like(K)
    S[rows, kept] = K[rows, kept]
    graph = sparse.csr_array(np.maximum(S, S.T))
    return cluster_graph(graph, n_clusters, seed=seed, n_init=n_init).labels


def bound_of_data(seen: FactorsSeen, sigma: float) -> Record:
    """Return the largest error and Theorem 3.1's bound for data with noise N(0, σ²)."""
    n, m = seen.true.shape
    spread = np.linalg.norm(seen.true - seen.true.mean(axis=0), axis=1)
    bound = perturbed_data_bound(
        sigma,
        width=seen.width,
        n_samples=n,
        n_features=m,
        n_atoms=len(seen.Z),
        data_norm=float(spread.max()),
        coefficient_norm=seen.coefficient_norm,
        residual=seen.residual,
    )
    return {"error": similarity_error(seen)["largest"], "bound": bound}


def bound_of_factors(seen: FactorsSeen, share: float, seed: int) -> Record:
    """Perturb both factors by a share of their spread; return the error and Theorem 3.8's bound."""
    random = generator(seed, "paper", "factors", f"{share:g}")
    sigma_z, sigma_c = share * float(seen.Z.std()), share * float(seen.C.std())
    noisy = FactorsSeen(
        seen.Z + sigma_z * random.normal(size=seen.Z.shape),
        seen.C + sigma_c * random.normal(size=seen.C.shape),
        seen.true,
        seen.given,
        seen.width,
        seen.ridge,
    )
    n, m = seen.true.shape
    bound = perturbed_factors_bound(
        sigma_z,
        sigma_c,
        width=seen.width,
        n_samples=n,
        n_features=m,
        n_atoms=len(seen.Z),
        coefficient_norm=seen.coefficient_norm,
        residual=seen.residual,
    )
    return {"error": similarity_error(noisy)["largest"], "bound": bound}


def reconstruction(seen: FactorsSeen, n_rows: int) -> Record:
    """Recover the first samples from the factors.

    Returns
    -------
    dict
        ``error``: the largest relative error of a row; ``projected``: the same against the rows'
        projections on the plane through the atoms; ``kept``: the share of the rows' squared
        distance from their mean atom that lies in the plane; with the sizes.
    """
    X = seen.given[:n_rows]
    found = reconstruct_rows(seen.Z, seen.C[:, :n_rows], width=seen.width, ridge=seen.ridge)
    origin = seen.Z.mean(axis=0)
    _, singular, axes = np.linalg.svd(seen.Z - origin, full_matrices=False)
    axes = axes[singular > 1e-10 * singular[0]]
    plane = (X - origin) @ axes.T @ axes + origin
    norms = np.linalg.norm(X, axis=1)
    kept = np.linalg.norm(plane - origin) ** 2 / np.linalg.norm(X - origin) ** 2
    return {
        "rows": len(X),
        "atoms": len(seen.Z),
        "features": X.shape[1],
        "error": float((np.linalg.norm(found - X, axis=1) / norms).max()),
        "projected": float((np.linalg.norm(found - plane, axis=1) / norms).max()),
        "kept": float(kept),
    }
