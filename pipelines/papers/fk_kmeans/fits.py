"""Fits of federated kernel k-means in its versions, and what is seen of them: Figs. 1 and 2, ε."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.kernels.width import interpoint_width
from daskfc.federation import Federation
from daskfc.federation.ledger.rows import LedgerRow
from daskfc.protocols import FederatedKernelKMeans
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from pipelines.papers.fk_kmeans.data import Dataset, Pool
from pipelines.papers.fk_kmeans.recovery import recovery_errors
from pipelines.papers.fk_kmeans.uploads import ranks, uploads_by_round
from pipelines.papers.fk_kmeans.values import CORESET
from pipelines.papers.journal import Record

__all__ = [
    "DELTA",
    "NOISY_ROUNDS",
    "VERSIONS",
    "communication",
    "convergence",
    "fitted",
    "noisy",
    "rounds_of",
    "settings_of",
]

DELTA = 1e-5
NOISY_ROUNDS = 5  # of k-means on noisy sums

VERSIONS: dict[str, dict[str, Any]] = {
    "CEM, one sum": {"solver": "gram"},
    "CEM, Lanczos": {"solver": "lanczos", "lanczos_block": 1},
    "without CEM": {"communication_efficient": False, "lanczos_block": 1},
}


def fitted(
    federation: Federation, data: Dataset, seed: int, iterations: int, **params: Any
) -> FederatedKernelKMeans:
    """Fit with the data set's k, D and s."""
    params = {**data.params, "coreset_size": CORESET, **params}
    model = FederatedKernelKMeans(**params, iterations=iterations, random_state=seed)
    return model.fit(federation)


def settings_of(model: FederatedKernelKMeans) -> FeatureSettings:
    """Return which random features a fit drew."""
    return FeatureSettings(model.kernel, model.degree, model.n_features, model.random_state)


def _seen(model: FederatedKernelKMeans) -> Record:
    """Return what every iteration needed, asked for and uploaded."""
    uploads = uploads_by_round(model.ledger_)
    own = [uploads[number] for number in range(1, model.n_iterations_ + 1)]
    return {
        "needed": [told.n_products for told in model.history_],
        "asked": [upload.products for upload in own],
        "floats": [upload.floats for upload in own],
        "counted": [told.n_floats for told in model.history_],  # by the fit itself
        "bytes": [upload.payload_bytes for upload in own],
        "messages": [upload.messages for upload in own],
        "ranks": ranks((told.values, told.threshold) for told in model.history_),
        "seconds": model.timing_["total_s"],
        "iterating": model.timing_["iterating_s"],
    }


def convergence(
    federation: Federation,
    pool: Pool,
    data: Dataset,
    version: str,
    seed: int,
    iterations: int,
    exact: NDArray[np.float64],
) -> Record:
    """Return the errors of all iterations of a fit, and the eigenvalues that it told.

    Without CEM the eigenvectors stay at the server, and the eigenvalues are all there is.
    """
    model = fitted(federation, data, seed, iterations, **VERSIONS[version])
    errors = []
    if model.communication_efficient:
        errors = recovery_errors(
            pool.X, exact, model.eigenpairs_, settings_of(model), model.kernel_width_
        )
    return {
        "kind": "convergence",
        "data": data.name,
        "version": version,
        "seed": seed,
        "n": len(pool.y),
        "errors": errors,
        "values": [told.values.tolist() for told in model.history_],
        "thresholds": [told.threshold for told in model.history_],
        "width": model.kernel_width_,
        "nmi": pool.nmi(model.labels_),
        **_seen(model),
    }


def communication(
    federation: Federation, pool: Pool, data: Dataset, version: str, seed: int, iterations: int
) -> Record:
    """Return what the iterations of a fit uploaded."""
    model = fitted(federation, data, seed, iterations, **VERSIONS[version])
    return {
        "kind": "communication",
        "data": data.name,
        "version": version,
        "seed": seed,
        "n": len(pool.y),
        "D": data.setting.n_features,
        "clients": len(federation.clients),
        **_seen(model),
    }


def noisy(
    federation: Federation, pool: Pool, data: Dataset, epsilon: float | None, seed: int, T: int
) -> Record:
    """Return the NMI of a fit with noise on all sums; without it where ε is None.

    The kernel's width is taken for public: it is that of the pooled samples.
    """
    noise = {"epsilon": epsilon, "delta": DELTA, "rounds": NOISY_ROUNDS} if epsilon else None
    how: dict[str, Any] = {"solver": "gram", "clustering": "sums", "noise": noise}
    width = interpoint_width(pool.X)
    model = fitted(federation, data, seed, T, kernel_width=width, **how)
    return {
        "kind": "noise",
        "data": data.name,
        "n": len(pool.y),
        "epsilon": epsilon,
        "seed": seed,
        "iterations": model.n_iterations_,
        "multiplier": model.privacy_["multiplier"] if epsilon else 0.0,
        "spent": model.privacy_["epsilon"] if epsilon else None,
        "nmi": pool.nmi(model.labels_),
        "seconds": model.timing_["total_s"],
    }


def rounds_of(
    federation: Federation, data: Dataset, n_features: int, block: int, iterations: int
) -> Record:
    """Return messages, bytes and times of the rounds of a fit; a block of 0 is the one sum."""
    how: dict[str, Any] = {"solver": "gram"}
    if block:
        how = {"solver": "lanczos", "lanczos_block": block}
    model = fitted(federation, data, 0, iterations, n_features=n_features, **how)
    rows = [row for row in model.ledger_ if 1 <= row.round <= model.n_iterations_]
    return {
        "kind": "rounds",
        "data": data.name,
        "D": n_features,
        "block": block,
        "clients": len(federation.clients),
        **_times_of_products(rows),
        **_seen(model),
    }


def _times_of_products(rows: Sequence[LedgerRow]) -> Record:
    """Return milliseconds from product to product, by the clocks of the clients, and messages.

    *median*: where the next product was asked for already; *mean*: the caller's questions whether
    it is enough included.
    """
    first = min(row.sender for row in rows if row.message == "MaskedPart")
    gaps, spans, products = [], 0.0, 0
    for number in sorted({row.round for row in rows}):
        times = sorted(
            row.time
            for row in rows
            if (row.round, row.sender, row.message) == (number, first, "MaskedPart")
        )
        gaps += [after - before for before, after in pairwise(times)]
        spans += times[-1] - times[0]
        products += len(times)
    of_products = [row for row in rows if row.message in ("LanczosVectors", "MaskedPart")]
    return {
        "median_ms": 1e3 * median(gaps) if gaps else None,
        "mean_ms": 1e3 * spans / len(gaps) if gaps else None,
        "rounds": products,
        "messages_a_round": len(of_products) / products,
        "wire_bytes": sum(row.wire_bytes for row in rows),
    }
