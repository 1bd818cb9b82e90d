"""What the server's work takes by one worker of it, by two, and what eight would take.

*A graph.* The server has coordinates of 40,000 samples, 256 columns; scikit-learn's brute force
finds the same neighbours of the samples in this process, on one thread. Two workers need two cores.
The time of eight is a model: what one worker takes for screening divided by eight, the rest as
measured. With benchmarks off: 600 samples.

*Blocks* of all distances, of 8,000 samples of 784 features at six clients, five of which are
needed, from shares that the clients hold; scikit-learn has the samples in this process, on one
thread. Medians of turns of one worker and two in one federation. All parties share this machine's
cores, so that beside the seconds of the clock there are those of the processor, of the server's
busiest process and of the busiest client: where each party has a core of its own, the larger of the
two is the time. Eight workers are a model. With one worker the server takes S to decode everything;
with two, it takes S / 2 and half of P, to keep what the other one hands back, and that one takes
half of W. With eight, the server takes S / 8 and 7 P / 8, and each of the others W / 8. With
benchmarks off: 90 samples.
"""

import os
import statistics
import tempfile
import time
from typing import Any

import numpy as np
import psutil
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from daskfc import Federation
from daskfc.clustering import ExactPoints
from daskfc.clustering.views.nearest import half_distances
from daskfc.linalg import IntegerPoints
from daskfc.secure.distances import SecureDistances, choose_code, graph_of_points
from daskfc.stores import write_store

MODELLED = 8
N_CLIENTS = 6
N_NEIGHBORS = 9
KEPT = {"all distances": ("full", {}), "a graph": ("neighbours", {"n_neighbors": N_NEIGHBORS})}


class Sizes:
    """What `graph_of_points` asks of distances."""

    def __init__(self, federation: Federation, n: int, d: int) -> None:
        self.federation, self.n_samples, self.n_features = federation, n, d


def samples(n: int, d: int) -> np.ndarray:
    """Return ten groups of whole numbers."""
    random = np.random.default_rng(0)
    centres = random.integers(0, 256, (10, d))
    return (centres[random.integers(0, 10, n)] + random.integers(-40, 41, (n, d))).astype(float)


def points_of(n: int, d: int) -> ExactPoints:
    return ExactPoints(IntegerPoints(samples(n, d), 1e-6))


def screened(points: ExactPoints, k: int) -> int:
    """Do the part that is divided, and no more."""
    scores, _ = half_distances(points)
    assert scores is not None
    found = scores.nearest(k)
    return 0 if found is None else found[0].size


def seconds_of(federation: Federation, start_step) -> float:
    start = time.perf_counter()
    federation.wait(start_step())
    return time.perf_counter() - start


def ours(workers: int, n: int, d: int, k: int, folder) -> tuple[float, float]:
    """Return the seconds of a graph by so many workers, and of the screening by one."""
    url = str(folder / f"{workers}.zarr")
    write_store(url, "client-1", np.zeros((2, 1)), ["a", "b"])
    cluster = {
        "cluster": "local",
        "server": {"workers": workers},
        "worker": {"memory_limit": "4GB"},
    }
    with Federation.local({"client-1": url}, cluster=cluster) as federation:
        federation.start_run("graphs", random_state=0)
        points = federation.on_server(points_of, n, d)
        federation.wait(points)
        divided = seconds_of(federation, lambda: federation.on_server(screened, points, k))
        sizes = Sizes(federation, n, d)
        whole = seconds_of(federation, lambda: graph_of_points(sizes, points, n_neighbors=k))
        return whole, divided


def plain(n: int, d: int, k: int) -> float:
    X = samples(n, d)
    start = time.perf_counter()
    with threadpool_limits(1):
        NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X).kneighbors()
    return time.perf_counter() - start


def test_report_of_server_workers(benchmark, tmp_path):
    measuring = benchmark.enabled
    n, d, k = (40_000, 256, 9) if measuring else (600, 4, 2)

    def report() -> list[dict[str, object]]:
        library = plain(n, d, k)
        alone, divided = ours(1, n, d, k, tmp_path)
        two, _ = ours(2, n, d, k, tmp_path)
        model = alone - divided + divided / MODELLED
        return [
            {"workers": words, "graph, s": seconds, "x scikit-learn": seconds / library}
            for words, seconds in (("1", alone), ("2", two), (f"{MODELLED}, a model", model))
        ]

    benchmark.group = "Workers of the server"
    benchmark.extra_info["rows"] = rows = benchmark.pedantic(report)
    assert len(rows) == 3


def processor(federation: Federation) -> dict[str, float]:
    """Return what each party's process has taken so far."""
    told = {}
    for name in federation.parties:
        times = psutil.Process(federation.processes.pid(name)).cpu_times()
        told[name] = times.user + times.system
    return told


def blocks_once(
    federation: Federation, workers: int, keep: str, asked: dict, tile: int | None
) -> dict[str, float]:
    """Return the seconds of all blocks from shares: of the clock, and of each party's processor."""
    federation.server_workers = ("server-2",)[: workers - 1]
    with tempfile.TemporaryDirectory() as folder:
        federation.start_run("blocks", random_state=0, workspace=folder)
        code = choose_code(N_CLIENTS, None, None, None)
        distances = SecureDistances.of_samples(federation, code, tolerance=1e-4, tile=tile)
        distances._encode()
        before, start = processor(federation), time.perf_counter()
        federation.wait(distances.blocks(keep, **asked))
        clock = time.perf_counter() - start
        taken = {name: used - before[name] for name, used in processor(federation).items()}
        answers = [row for row in federation.ledger if row.message == "CodedDistances"]
    assert len({row.receiver for row in answers}) == workers
    clients = [taken[name] for name in federation.clients]
    return {"clock": clock, "client": max(clients), **taken}


def plain_call(X: np.ndarray, keep: str) -> float:
    start = time.perf_counter()
    with threadpool_limits(1):
        if keep == "full":
            euclidean_distances(X, squared=True)
        else:
            NearestNeighbors(n_neighbors=N_NEIGHBORS, algorithm="brute").fit(X).kneighbors()
    return time.perf_counter() - start


def rows_of_blocks(n: int, d: int, tile: int | None, rounds: int, folder) -> list[dict[str, Any]]:
    X = np.random.default_rng(0).integers(0, 256, (n, d)).astype(float)
    urls = {}
    for number in range(N_CLIENTS):
        name = f"client-{number + 1}"
        urls[name] = str(folder / f"{name}.zarr")
        own = X[number::N_CLIENTS]
        write_store(urls[name], name, own, [f"{number}-{row}" for row in range(len(own))])
    cluster = {
        "cluster": "local",
        "server": {"workers": 2},
        "worker": {"nthreads": 1, "blas_threads": 1, "memory_limit": "2GB"},
        "deadline": "600s",
    }
    rows = []
    with Federation.local(urls, cluster=cluster) as federation:
        for what, (keep, asked) in KEPT.items():
            turns: dict[int, list[dict[str, float]]] = {1: [], 2: []}
            library = []
            for _ in range(rounds):
                library.append(plain_call(X, keep))
                for workers, found in turns.items():
                    found.append(blocks_once(federation, workers, keep, asked, tile))
            print(f"{what}: load {os.getloadavg()[0]:.1f}; {turns}")
            one, two = (
                {name: statistics.median(turn[name] for turn in found) for name in found[0]}
                for found in turns.values()
            )
            beside = statistics.median(library)
            kept_of_parts = max(2 * two["server"] - one["server"], 0.0)
            of_server = one["server"] / MODELLED + kept_of_parts * (MODELLED - 1) / MODELLED
            modelled = max(of_server, 2 * two["server-2"] / MODELLED)
            for workers, found, busiest in (
                ("1", one, one["server"]),
                ("2", two, max(two["server"], two["server-2"])),
                (f"{MODELLED}, a model", None, modelled),
            ):
                row: dict[str, Any] = {"kept": what, "workers": workers}
                row["clock, s"] = "–" if found is None else found["clock"]
                row["x scikit-learn"] = "–" if found is None else found["clock"] / beside
                row["server's busiest, s"] = busiest
                row["client, s"] = (found or one)["client"]
                rows.append(row)
    return rows


def test_report_of_blocks(benchmark, tmp_path):
    n, d, tile, rounds = (8000, 784, None, 3) if benchmark.enabled else (90, 4, 32, 1)
    benchmark.group = "Blocks of distances by workers of the server"
    rows = benchmark.pedantic(rows_of_blocks, (n, d, tile, rounds, tmp_path))
    benchmark.extra_info["rows"] = rows
    assert [row["workers"] for row in rows] == ["1", "2", "8, a model"] * 2
    assert all(row["server's busiest, s"] > 0 for row in rows)
