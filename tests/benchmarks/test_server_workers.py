"""A graph of neighbours by one worker of the server, by two, and what eight would take.

The server has coordinates of 40,000 samples, 256 columns; scikit-learn's brute force finds the same
neighbours of the samples in this process, on one thread. Two workers need two cores. The time of
eight is a model: what one worker takes for screening divided by eight, the rest as measured. With
benchmarks off: 600 samples.
"""

import time

import numpy as np
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from daskfc import Federation
from daskfc.clustering import ExactPoints
from daskfc.clustering.nearest import half_distances
from daskfc.linalg import IntegerPoints
from daskfc.secure.distances import graph_of_points
from daskfc.stores import write_store

MODELLED = 8


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
