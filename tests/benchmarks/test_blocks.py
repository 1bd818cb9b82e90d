"""Clusterers on blocks of distances beside themselves in memory, and Dask's arrays beside loops.

Small when benchmarks are off. `pytest tests/benchmarks/test_blocks.py --benchmark-enable` takes
10,000 samples in memory and by blocks, and 20,000 by blocks; MNIST's 70,000 where they are, for
k-medoids and the Gaussian kernel. The clusterer is timed with one thread of BLAS, by blocks in a
process of its own, whose peak memory counts Python and the samples.
"""

import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import dask
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from daskfc.clustering import DistanceBlocks, FullDistances, make_clusterer
from daskfc.clustering.views.nearest import exact_blocks
from daskfc.pairwise import DistanceTiles, SymmetricGrid
from daskfc.pairwise.arrays import distance_array

MNIST = Path(__file__).parents[3] / "shared" / "data" / "mnist.npz"
CLUSTERERS = {
    "k-medoids": {"k-medoids": {"n_init": 3}},
    "hierarchical, average": {"hierarchical": {"linkage": "average"}},
    "hierarchical, complete": {"hierarchical": {"linkage": "complete"}},
    "spectral, Gaussian": {"spectral": {"affinity": "gaussian"}},
    "affinity propagation": {"affinity-propagation": {"max_iter": 30}},
}
ON_MNIST = {
    "k-medoids": {"k-medoids": {"n_init": 1}},
    "spectral, Gaussian": {"spectral": {"affinity": "gaussian"}},
}


def samples(n):
    random = np.random.default_rng(0)
    centres = 6.0 * random.normal(size=(8, 16))
    return centres[random.integers(0, 8, n)] + random.normal(size=(n, 16))


def alone(benchmark):
    """Return `by_blocks`, in a process of its own where that is measured."""

    def apart(*what):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(by_blocks, *what).result()

    return apart if benchmark.enabled else by_blocks


def by_blocks(spec, points, n, folder):
    """Fit by blocks; return labels, score, seconds, and the process's peak memory in MB."""
    clusterer = make_clusterer(spec)
    if points is None:
        source = exact_blocks(samples(n))
        view = DistanceBlocks(n, source.block, None, folder)
    else:
        X = np.load(points)["X"].reshape(-1, 784)[:n].astype(np.float64)
        view = DistanceBlocks.of_points(X, whole=True, folder=folder, copy=False)
    found, seconds = timed(clusterer, view)
    return found.labels, found.score, seconds, peak_memory()


def peak_memory():
    """Return this program's peak in MB; `getrusage` would tell that of who started it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


def timed(clusterer, view):
    k = None if clusterer.finds_n_clusters else 8
    start = time.perf_counter()
    with threadpool_limits(1):
        found = clusterer.fit(view, k, 0)
    return found, time.perf_counter() - start


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.benchmark(group="Distances by blocks")
@pytest.mark.parametrize("name", CLUSTERERS)
def test_by_blocks(benchmark, name, tmp_path):
    clusterer = make_clusterer(CLUSTERERS[name])
    small, large = (10_000, 20_000) if benchmark.enabled else (300, 400)
    row = {"clusterer": name}

    def both():
        source = exact_blocks(samples(small))
        whole, in_memory = timed(clusterer, FullDistances(source.full()))
        del source
        labels, score, seconds, _ = alone(benchmark)(CLUSTERERS[name], None, small, str(tmp_path))
        assert np.array_equal(whole.labels, labels)
        _, _, beyond, peak = alone(benchmark)(CLUSTERERS[name], None, large, str(tmp_path))
        row.update(
            {
                "10,000 in memory, s": in_memory,
                "by blocks, s": seconds,
                "ratio": seconds / in_memory,
                "score to that in memory": "" if score is None else score / whole.score,
                "20,000 by blocks, s": beyond,
                "peak, MB": peak,
            }
        )

    benchmark.pedantic(both, rounds=1)
    benchmark.extra_info["rows"] = [row]


@pytest.mark.benchmark(group="70,000 samples by blocks")
@pytest.mark.parametrize("name", ON_MNIST)
def test_mnist_by_blocks(benchmark, name, tmp_path):
    if not MNIST.exists():
        pytest.skip("needs MNIST among the project's data sets")
    n = 70_000 if benchmark.enabled else 300
    labels, _, seconds, peak = benchmark.pedantic(
        alone(benchmark), (ON_MNIST[name], str(MNIST), n, str(tmp_path)), rounds=1
    )
    assert len(set(labels)) == 8
    row = {"clusterer": name, "samples": n, "s": seconds, "peak, MB": peak}
    benchmark.extra_info["rows"] = [row]


def _loops(view, vectors):
    """Return what a clusterer does by hand, by what it is."""

    def panels(ask):
        return np.concatenate([ask(panel) for _, panel in view.panels()])

    def kernel(panel):
        panel *= -0.01
        return np.exp(panel, out=panel)

    return {
        "kernel and sums of rows": lambda: panels(lambda D: kernel(D).sum(axis=1)),
        "products with 8 vectors": lambda: view.dot(vectors),
        "ten nearest": lambda: panels(lambda D: np.partition(D, 9, axis=1)[:, :10]).sum(),
    }


def _arrays(D, vectors):
    """Return the same by Dask's arrays."""
    K = np.exp(-0.01 * D)
    return {
        "kernel and sums of rows": lambda: K.sum("other").values,
        "products with 8 vectors": lambda: D.data.dot(vectors).compute(),
        "ten nearest": lambda: -(-D.data).topk(10, axis=1).compute().sum(),
    }


@pytest.mark.benchmark(group="Dask's arrays beside loops over tiles")
def test_arrays_of_dask(benchmark, tmp_path):
    n, side = (8192, 1024) if benchmark.enabled else (300, 100)
    grid = SymmetricGrid(n, side)
    tiles = DistanceTiles.create(str(tmp_path / "tiles"), grid)
    source = exact_blocks(samples(n))
    for i, j in grid.blocks():
        tiles.write(i, j, source.block(grid.panel(i), grid.panel(j)))
    start = time.perf_counter()
    view = tiles.in_order(str(tmp_path))  # a file of rows, as clusterers read tiles
    rows = [{"what": "a file of rows, once", "loop, s": time.perf_counter() - start}]
    vectors = np.random.default_rng(1).normal(size=(n, 8))
    places = view.order.places
    loops, arrays = _loops(view, vectors[places]), _arrays(distance_array(tiles), vectors)

    def all_of_them():
        with threadpool_limits(1), dask.config.set(scheduler="synchronous"):
            for name, loop in loops.items():
                seconds = {"loop": [], "dask": []}
                for _ in range(3 if benchmark.enabled else 1):
                    for way, call in (("loop", loop), ("dask", arrays[name])):
                        start = time.perf_counter()
                        found = call()
                        seconds[way].append(time.perf_counter() - start)
                    found = found[places] if np.ndim(found) else found
                    np.testing.assert_allclose(loop(), found, rtol=1e-9)
                loop_s, dask_s = (statistics.median(seconds[way]) for way in ("loop", "dask"))
                rows.append(
                    {"what": name, "loop, s": loop_s, "Dask, s": dask_s, "ratio": dask_s / loop_s}
                )

    benchmark.pedantic(all_of_them, rounds=1)
    benchmark.extra_info["rows"] = rows
