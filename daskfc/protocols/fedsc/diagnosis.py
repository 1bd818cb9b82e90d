"""Errors of FedSC's similarities and their bounds, Theorems 3.1 and 3.8, measured by the clients.

Each client measures on its own samples; the numbers are facts about private data.
"""

import math

import numpy as np

from daskfc.arrays import Floats
from daskfc.clustering.kernels.kernels import atom_kernel, gaussian_kernel
from daskfc.federation import Federation, Inline, Local, PerClient, Sent
from daskfc.federation.steps.rules import as_announced, takes
from daskfc.privacy import Noised, Part
from daskfc.protocols.fedsc.averaging import Planned
from daskfc.protocols.fedsc.maths.kernel_dictionary import coefficients
from daskfc.protocols.fedsc.messages import Dictionary, FinalDictionary, KernelPlan, Reconstruction
from daskfc.protocols.fedsc.privacy.bounds import (
    feature_residual,
    perturbed_data_bound,
    perturbed_factors_bound,
)
from daskfc.protocols.fedsc.privacy.noise import ANNOUNCED, DataNoise, FactorNoise, Noise
from daskfc.stores import ClientStore

_BLOCK_ENTRIES = 1 << 22  # ours: similarities at once, 32 MiB


@takes(noise=ANNOUNCED, ridge=as_announced("ridge"))
def reconstruction_of(
    data: ClientStore,
    samples: Floats,
    rows: Part,
    final: FinalDictionary,
    before: Dictionary | None,
    plan: KernelPlan,
    *,
    ridge: float,
    noise: Noise | None,
) -> Reconstruction:
    """Compare K̂, the inner products of rows, with the kernel of the client's true samples.

    `samples` may be perturbed. The bound is Theorem 3.8's with noise on the factors, else 3.1's;
    NaN with coefficients of an older dictionary or noise relative to the factors' spread.
    """
    X = data.rows(0, data.n_samples)
    B = rows.values if isinstance(rows, Noised) else rows
    error, squares = 0.0, []
    step = max(1, _BLOCK_ENTRIES // len(X))
    for start in range(0, len(X), step):
        block = B[start : start + step] @ B.T
        block -= gaussian_kernel(X[start : start + step], X, plan.width)
        error = max(error, float(np.abs(block).max()))
        squares.append(float(np.einsum("ij,ij->", block, block)))
    rms = math.sqrt(math.fsum(squares)) / len(X)
    bound = math.nan if before is not None else _bound(X, samples, final.atoms, plan, ridge, noise)
    return Reconstruction(error, rms, bound)


def _bound(
    X: Floats, samples: Floats, Z: Floats, plan: KernelPlan, ridge: float, noise: Noise | None
) -> float:
    C = coefficients(samples, Z, plan.width, ridge)
    residual = feature_residual(
        C, atom_kernel(Z, plan.width), gaussian_kernel(Z, samples, plan.width)
    )
    norm = float(np.linalg.norm(C, axis=0).max())
    n, m = X.shape
    if noise is None or isinstance(noise, DataNoise):
        clip = None if noise is None else noise.clip
        if clip is not None and float(np.linalg.norm(X, axis=1).max()) > clip:
            return math.nan  # the theorem does not cover clipped rows
        return perturbed_data_bound(
            0.0 if noise is None else noise.sigma,
            width=plan.width,
            n_samples=n,
            n_features=m,
            n_atoms=len(Z),
            data_norm=float(np.linalg.norm(X - X.mean(axis=0), axis=1).max()),
            coefficient_norm=norm,
            residual=residual,
        )
    if isinstance(noise, FactorNoise):
        return perturbed_factors_bound(
            0.0,  # the residual of the last dictionary includes its noise already
            noise.sigma_coefficients,
            width=plan.width,
            n_samples=n,
            n_features=m,
            n_atoms=len(Z),
            coefficient_norm=norm,
            residual=residual,
        )
    return math.nan


def diagnose(
    federation: Federation,
    planned: Planned,
    rows: PerClient[Local] | PerClient[Inline],
    final: Sent,
    older: Sent | None,
    ridge: float,
) -> dict[str, dict[str, float]]:
    """Have every client measure its errors; return errors and bounds by client."""
    measured = federation.publish(
        reconstruction_of,
        planned.samples,
        rows,
        final,
        older,
        planned.plan_sent,
        ridge=ridge,
        noise=planned.noise,
        party="clients",
    )
    found = {}
    for name, message in measured.items():
        found[name] = {"error": message.error, "rms": message.rms, "bound": message.bound}
    return found
