"""k-means of OmniFC as samples and clients grow: seconds, memory and traffic.

Samples are a generated mixture of ten groups, bytes of 64 features, dealt to clients with skewed
labels; every party is limited to 2 GB. scikit-learn's KMeans has all samples in a process of its
own, with the same n_init. With benchmarks off: few samples.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskfc import Federation, FedSC, OmniFC
from daskfc.metrics import nmi
from tests.benchmarks.test_fedsc import N_CLUSTERS, classes, dealt, in_own_process
from tests.benchmarks.test_omnifc import inertia, run_sklearn

D = 64
SAMPLES = (10_000, 100_000, 1_000_000)  # with ten clients
CLIENTS = (3, 8, 32)  # with 100,000 samples; fewer than three cannot hide anything


def mixture(n: int, file: Path, d: int = D) -> Path:
    """Write ten overlapping groups of n samples in all, with d features."""
    random = np.random.default_rng(0)
    y = random.integers(0, N_CLUSTERS, n)
    centres = random.uniform(0, 255, (N_CLUSTERS, d))
    X = np.empty((n, d), np.uint8)
    for start in range(0, n, 65_536):
        part = slice(start, start + 65_536)
        noise = random.normal(scale=80.0, size=(len(y[part]), d))
        X[part] = np.clip(np.rint(centres[y[part]] + noise), 0, 255)
    np.savez(file, X=X, y=y)
    return file


def fitted(
    model: Any, urls: dict[str, str], worker: dict | None = None
) -> tuple[float, float, dict[str, int]]:
    """Fit in a new federation; return seconds of opening it and of the fit, and peaks of memory."""
    worker = worker or {"nthreads": 1, "blas_threads": 1, "memory_limit": "2GB"}
    cluster = {"cluster": "local", "worker": worker, "deadline": "600s"}
    start = time.perf_counter()
    with Federation.local(urls, cluster=cluster) as federation:
        opened = time.perf_counter()
        model.fit(federation)
        return opened - start, time.perf_counter() - opened, federation.peak_memory()


def one_row(n: int, n_clients: int, place: Path) -> dict:
    """Fit in a new federation, and scikit-learn on the same samples."""
    folder = place / f"{n}-{n_clients}"
    folder.mkdir()
    urls = dealt(mixture(n, folder / "samples.npz"), n, 0.75, str(folder), n_clients)
    model = OmniFC(N_CLUSTERS, clusterer="k-means")
    opening, seconds, peak = fitted(model, urls)
    theirs, labels = in_own_process(run_sklearn, urls, "k-means", 1)
    own = model.labels_.values
    return {
        "samples": n,
        "clients": n_clients,
        "open, s": opening,
        "fit, s": seconds,
        "scikit-learn, s": theirs["seconds"],
        "ratio": seconds / theirs["seconds"],
        "server, MB": peak.pop("server") / 1e6,
        "client, MB": max(peak.values()) / 1e6,
        "wire, GB": model.ledger_.wire_bytes / 1e9,
        "inertia, ratio": inertia(urls, own) / inertia(urls, labels),
        "NMI of both": nmi(labels, own),
    }


def rows_of(cells: list[tuple[int, int]], place: Path) -> list[dict]:
    return [one_row(n, n_clients, place) for n, n_clients in cells]


@pytest.mark.slow
def test_scale(benchmark, tmp_path):
    cells = [(2000, 3)]
    if benchmark.enabled:
        cells = [(n, 10) for n in SAMPLES] + [(100_000, n) for n in CLIENTS]
    benchmark.group = "k-means of OmniFC as samples and clients grow"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(rows_of, (cells, tmp_path))
    for row in rows:
        assert row["inertia, ratio"] == pytest.approx(1.0, rel=1e-3)
        assert row["NMI of both"] > 0.99
        assert row["server, MB"] < 2000


def embedded(n: int, place: Path) -> list[dict]:
    """Fit spectral methods whose work grows with n, not with n²."""
    urls = dealt(mixture(n, place / "samples.npz"), n, 0.75, str(place), 10)
    y, rows = classes(urls), []
    for name, model in {
        "OmniFC, kernel k-means by 200 landmarks": OmniFC(
            N_CLUSTERS, clusterer={"nystroem-k-means": {"n_landmarks": 200}}
        ),
        "FedSC, 64 atoms, embedding of all similarities": FedSC(
            N_CLUSTERS, n_atoms=64, sparsify=False, n_init=5
        ),
    }.items():
        _, seconds, peak = fitted(model, urls)
        rows.append(
            {
                "method": name,
                "samples": n,
                "fit, s": seconds,
                "server, MB": peak.pop("server") / 1e6,
                "client, MB": max(peak.values()) / 1e6,
                "wire, GB": model.ledger_.wire_bytes / 1e9,
                "NMI with the groups": nmi(y, model.labels_.values),
            }
        )
    return rows


@pytest.mark.slow
def test_embeddings(benchmark, tmp_path):
    n = 1_000_000 if benchmark.enabled else 2000
    benchmark.group = "Spectral methods of a million samples"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(embedded, (n, tmp_path))
    for row in rows:
        assert row["NMI with the groups"] > 0.95
        assert row["server, MB"] < 2000


def by_landmarks(n: int, place: Path) -> dict:
    """Fit spectral clustering by landmarks with the threads that parties have by default."""
    folder = place / str(n)
    folder.mkdir()
    urls = dealt(mixture(n, folder / "samples.npz", 32), n, 0.75, str(folder), 10)
    model = OmniFC(N_CLUSTERS, clusterer="landmark-spectral")
    _, seconds, peak = fitted(model, urls, {"memory_limit": "2GB"})
    return {
        "samples": n,
        "fit, s": seconds,
        "server, MB": peak.pop("server") / 1e6,
        "client, MB": max(peak.values()) / 1e6,
        "wire, GB": model.ledger_.wire_bytes / 1e9,
        "NMI with the groups": nmi(classes(urls), model.labels_.values),
    }


@pytest.mark.slow
def test_landmarks(benchmark, tmp_path):
    sizes = SAMPLES if benchmark.enabled else (2000,)
    benchmark.group = "Landmark spectral clustering as samples grow"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(
        lambda: [by_landmarks(n, tmp_path) for n in sizes]
    )
    for row in rows:
        assert row["NMI with the groups"] > 0.95
        assert row["server, MB"] < 2000
