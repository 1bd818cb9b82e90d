"""OmniFC on exact distances beside pooled samples, by scikit-learn and by OmniFC's own clusterer.

OmniFC runs in a federation of 10 clients and a server, one process each, limited to 2 GB each; its
time is that of `fit`, the start of the processes not counted. scikit-learn gets all samples in a
process of its own, with the same parameters, and so does the clusterer that OmniFC's server runs:
what the federation costs. The server and both of them have as many threads of BLAS as are asked
for; each client has one. Beside the seconds of both: how far the labels agree,
and the inertia of k-means on the pooled samples, of both.

Samples are MNIST's, where a folder with mnist.npz is named, or generated ones like it. As an
ordinary test it runs on few samples. All of MNIST, in fifteen minutes:

    python -m tests.benchmarks.test_omnifc --data FOLDER --n 70000
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from daskfc import Federation, OmniFC
from daskfc.clustering import make_clusterer
from daskfc.federation.worker.memory import peak_memory_bytes
from daskfc.metrics import nmi
from tests.benchmarks.test_fedsc import (
    DATA,
    LARGE,
    N_CLIENTS,
    N_CLUSTERS,
    blas_in_use,
    dealt,
    in_own_process,
    pooled,
    source_of,
)

CLUSTERERS = ("spectral", "dbscan", "k-means")
EPS = 1500.0  # of DBSCAN


def run_omnifc(urls: dict[str, str], name: str, threads: int) -> tuple[dict, np.ndarray]:
    """Fit in a new federation; return what it took, and the labels."""
    cluster = {
        "cluster": "local",
        "worker": {"nthreads": 1, "blas_threads": 1, "memory_limit": "2GB"},
        "parties": {"server": {"blas_threads": threads}},
        "deadline": "600s",
    }
    with Federation.local(urls, cluster=cluster) as federation:
        model = OmniFC(None if name == "dbscan" else N_CLUSTERS, clusterer=_spec(name))
        start = time.perf_counter()
        model.fit(federation)
        seconds = time.perf_counter() - start
        peak = federation.peak_memory()
    found = {
        "seconds": seconds,
        "server": peak.pop("server"),
        "client": max(peak.values()),
        "wire": model.ledger_.wire_bytes,
        "stages": {key.removesuffix("_s"): value for key, value in model.timing_.items()},
        "choices": dict(model.choices),
    }
    return found, model.labels_.values


def run_sklearn(urls: dict[str, str], name: str, threads: int) -> tuple[dict, np.ndarray]:
    """Cluster the pooled samples in this process; return what it took, and the labels."""
    from sklearn.cluster import DBSCAN, KMeans, SpectralClustering

    X = pooled(urls)
    models = {
        "spectral": SpectralClustering(
            N_CLUSTERS, affinity="nearest_neighbors", n_neighbors=10, eigen_solver="lobpcg",
            random_state=0, n_jobs=threads,
        ),
        "dbscan": DBSCAN(eps=EPS, n_jobs=threads),
        "k-means": KMeans(N_CLUSTERS, n_init=10, random_state=0),
    }  # fmt: skip
    with threadpool_limits(threads), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        in_use = blas_in_use()
        start = time.perf_counter()
        labels = models[name].fit_predict(X)
        seconds = time.perf_counter() - start
    notes = sorted({str(each.message).splitlines()[0] for each in told})
    return {
        "seconds": seconds, "peak": peak_memory_bytes(), "blas": in_use, "notes": notes
    }, labels  # fmt: skip


def run_pooled(urls: dict[str, str], name: str, threads: int) -> float:
    """Cluster the pooled samples as OmniFC's server does; return its seconds."""
    X = pooled(urls)
    clusterer = make_clusterer(_spec(name))
    with threadpool_limits(threads):
        start = time.perf_counter()
        clusterer.pooled(X, None if name == "dbscan" else N_CLUSTERS, 0)
        return time.perf_counter() - start


def _spec(name: str) -> str | dict:
    return {"dbscan": {"eps": EPS}} if name == "dbscan" else name


def inertia(urls: dict[str, str], labels: np.ndarray) -> float:
    """Return the squared distances of the pooled samples to the means of their clusters."""
    X = pooled(urls).astype(np.float64)
    found = 0.0
    for cluster in np.unique(labels):
        own = X[labels == cluster]
        found += float(((own - own.mean(axis=0)) ** 2).sum())
    return found


def compare(
    n: int, names: tuple[str, ...], *, source: Path, threads: int = 1, skew: float = 0.75
) -> dict:
    """Run both on n samples, print a table, and return its numbers."""
    print(f"\nn = {n:,}: {N_CLIENTS} clients (label skew {skew}), threads of BLAS: {threads}")
    result: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        urls = dealt(source, n, skew, folder)
        for name in names:
            ours, labels = run_omnifc(urls, name, threads)
            theirs, expected = in_own_process(run_sklearn, urls, name, threads)
            alone = in_own_process(run_pooled, urls, name, threads)
            ratio = ours["seconds"] / theirs["seconds"]
            result[name] = {
                **ours, "sklearn": theirs, "pooled": alone, "ratio": ratio,
                "nmi": nmi(expected, labels),
            }  # fmt: skip
            stages = ", ".join(f"{stage} {value:.1f}" for stage, value in ours["stages"].items())
            print(
                f"{name}: {ours['seconds']:.1f} s, scikit-learn {theirs['seconds']:.1f} s, ratio "
                f"{ratio:.2f}, pooled {alone:.1f} s; {ours['wire'] / 1e9:.2f} GB on the wire; "
                f"peaks in MB: client {ours['client'] / 1e6:.0f}, server "
                f"{ours['server'] / 1e6:.0f}, scikit-learn "
                f"{theirs['peak'] / 1e6:.0f}; NMI of the labels {result[name]['nmi']:.4f}"
            )
            print(f"  {stages}; {ours['choices']}; {theirs['blas']}; load {os.getloadavg()[0]:.1f}")
            for note in theirs["notes"]:
                print(f"  scikit-learn: {note}")
            if name == "k-means":
                both = [inertia(urls, found) for found in (labels, expected)]
                result[name]["inertia"] = both
                print(f"  inertia {both[0]:.6g}, scikit-learn {both[1]:.6g}", flush=True)
    return result


def rows_of(sizes: tuple[int, ...], threads: int, place: Path) -> list[dict]:
    """Return a line a size and clusterer."""
    rows = []
    for n in sizes:
        source = source_of(DATA, n, place)
        for name, found in compare(n, CLUSTERERS, source=source, threads=threads).items():
            theirs = found["sklearn"]["seconds"]
            rows.append(
                {"samples": n, "threads": threads, "clusterer": name, "OmniFC, s": found["seconds"],
                 "scikit-learn, s": theirs, "ratio": found["ratio"],
                 "pooled, s": found["pooled"], "to pooled": found["seconds"] / found["pooled"],
                 "wire, GB": found["wire"] / 1e9, "server, MB": found["server"] / 1e6,
                 "NMI of both": found["nmi"]}
            )  # fmt: skip
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, os.cpu_count() or 1], ids=["one", "all"])
def test_report(benchmark, tmp_path, capsys, threads):
    if benchmark.enabled:
        benchmark.group = "OmniFC on exact distances beside scikit-learn"
        rows = benchmark.pedantic(rows_of, ((10_000, *LARGE), threads, tmp_path))
        benchmark.extra_info["rows"] = rows
        return
    source = source_of(None, 1600, tmp_path)
    result = benchmark.pedantic(
        compare, (1600, ("k-means",)), {"source": source, "threads": threads, "skew": 0.0}
    )
    found = result["k-means"]
    assert found["inertia"][0] == pytest.approx(found["inertia"][1], rel=1e-3)
    assert found["nmi"] > 0.9
    assert 50e6 < found["server"] < 2e9
    assert "scikit-learn" in capsys.readouterr().out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 70_000])
    parser.add_argument("--clusterers", nargs="+", default=list(CLUSTERERS))
    parser.add_argument("--threads", type=int, default=1, help="of the server and scikit-learn")
    parser.add_argument("--data", type=Path, default=os.environ.get("DASKFC_DATA"))
    asked = parser.parse_args()
    folder = None if asked.data is None else Path(asked.data)
    with tempfile.TemporaryDirectory() as place:
        source = source_of(folder, max(asked.n), Path(place))
        print(f"samples: {source.name}; {os.cpu_count()} cores; BLAS here: {blas_in_use()}")
        for n in asked.n:
            compare(n, tuple(asked.clusterers), source=source, threads=asked.threads)


if __name__ == "__main__":
    main()
