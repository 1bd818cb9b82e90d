"""Federated k-means as samples grow: seconds, memory and traffic, beside scikit-learn's KMeans.

The samples of `test_scale`: ten overlapping groups, bytes of 64 features, dealt to ten clients with
skewed labels. scikit-learn has all of them in a process of its own. With benchmarks off: few.
"""

from pathlib import Path

import pytest

from daskfc import FederatedKMeans
from tests.benchmarks.test_fedsc import N_CLUSTERS, dealt, in_own_process
from tests.benchmarks.test_omnifc import inertia, run_sklearn
from tests.benchmarks.test_scale import fitted, mixture

SAMPLES = (10_000, 100_000, 1_000_000)
CLIENTS = 10


def one_row(n: int, n_clients: int, place: Path) -> dict:
    """Fit in a new federation, and scikit-learn on the same samples."""
    folder = place / f"{n}"
    folder.mkdir()
    urls = dealt(mixture(n, folder / "samples.npz"), n, 0.75, str(folder), n_clients)
    model = FederatedKMeans(N_CLUSTERS)
    opening, seconds, peak = fitted(model, urls)
    theirs, labels = in_own_process(run_sklearn, urls, "k-means", 1)
    return {
        "samples": n,
        "open, s": opening,
        "fit, s": seconds,
        "scikit-learn, s": theirs["seconds"],
        "ratio": seconds / theirs["seconds"],
        "rounds": model.n_rounds_,
        "server, MB": peak.pop("server") / 1e6,
        "client, MB": max(peak.values()) / 1e6,
        "wire, MB": model.ledger_.wire_bytes / 1e6,
        "inertia, ratio": inertia(urls, model.labels_.values) / inertia(urls, labels),
    }


@pytest.mark.slow
def test_scale_of_sums(benchmark, tmp_path):
    sizes, n_clients = (SAMPLES, CLIENTS) if benchmark.enabled else ((2000,), 3)
    benchmark.group = "Federated k-means as samples grow"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(
        lambda: [one_row(n, n_clients, tmp_path) for n in sizes]
    )
    for row in rows:
        assert row["inertia, ratio"] < (1.001 if row["samples"] >= 10_000 else 1.02)
        assert row["wire, MB"] < 500
