"""How large it goes: generated samples in parties of 2 GB, and MNIST beside scikit-learn."""

import time
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from threadpoolctl import threadpool_info

from daskfc.federation import Federation
from daskfc.metrics import nmi
from pipelines.papers.fk_kmeans.data import Dataset, Pool
from pipelines.papers.fk_kmeans.fits import fitted
from pipelines.papers.fk_kmeans.uploads import uploads_by_round
from pipelines.papers.journal import Record

__all__ = ["LANDMARKS", "SCALE_ITERATIONS", "TIMED_ITERATIONS", "scale", "speed"]

SCALE_ITERATIONS = 5
TIMED_ITERATIONS = 10
LANDMARKS = 200  # of scikit-learn's Nystroem


def scale(federation: Federation, pool: Pool, data: Dataset, iterations: int) -> Record:
    """Return speed, memory and uploads of a fit in fresh processes."""
    model = fitted(federation, data, 0, iterations)
    peaks = federation.peak_memory()
    uploads = uploads_by_round(model.ledger_)
    own = [uploads[number] for number in range(1, model.n_iterations_ + 1)]
    return {
        "kind": "scale",
        "n": len(pool.y),
        "iterations": model.n_iterations_,
        "iterating": model.timing_["iterating_s"],
        "seconds": model.timing_["total_s"],
        "client": max(size for name, size in peaks.items() if name != federation.server),
        "server": peaks[federation.server],
        "bytes": [upload.payload_bytes for upload in own],
        "all_bytes": sum(upload.payload_bytes for upload in uploads.values()),
        "nmi": pool.nmi(model.labels_),
    }


def _threads() -> str:
    """Return the libraries of linear algebra and of threads in this process, and how many."""
    known = {
        f"{one['internal_api']} {one['version'] or ''}".strip() + f" ({one['num_threads']} threads)"
        for one in threadpool_info()
    }
    return ", ".join(sorted(known))


def speed(federation: Federation, pool: Pool, data: Dataset, seed: int, iterations: int) -> Record:
    """Return the times of a fit and of scikit-learn on the same samples, one after the other."""
    model = fitted(federation, data, seed, iterations)
    X: np.ndarray[Any, Any] = pool.X.astype(np.float64)
    started = time.perf_counter()
    gamma = 1.0 / (2.0 * model.kernel_width_**2)
    rank = min(LANDMARKS, len(X))
    map_ = Nystroem(kernel="rbf", gamma=gamma, n_components=rank, random_state=seed)
    rows = map_.fit_transform(X)
    mapped = time.perf_counter()
    kmeans = KMeans(data.setting.n_clusters, n_init=10, random_state=seed)
    labels = kmeans.fit_predict(rows)
    done = time.perf_counter()
    return {
        "kind": "speed",
        "data": data.name,
        "n": len(X),
        "seed": seed,
        "iterations": model.n_iterations_,
        "clients": len(federation.clients),
        "threads": _threads(),
        "ours": model.timing_["total_s"],
        "iterating": model.timing_["iterating_s"],
        "clustering": model.timing_["clustering_s"],
        "nystroem": mapped - started,
        "kmeans": done - mapped,
        "nmi": pool.nmi(model.labels_),
        "pooled_nmi": nmi(pool.y, labels),
    }
