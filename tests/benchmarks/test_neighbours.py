"""Exact neighbours of samples, beside scikit-learn's brute force on the same samples in turn.

Small when benchmarks are off. `pytest tests/benchmarks/test_neighbours.py --benchmark-enable` takes
20,000 samples with 784 features in 20 clusters, and reports the median of three ratios in the
column of extra information, with what BLAS runs on.
"""

import statistics
import time

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_info

from daskfc.clustering import exact_points
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points

K = 10


@pytest.fixture
def X(benchmark):
    n, d = (20_000, 784) if benchmark.enabled else (600, 20)
    random = np.random.default_rng(0)
    return random.normal(size=(20, d))[random.integers(0, 20, n)] + random.normal(size=(n, d))


def beside(benchmark, ours, theirs):
    """Time both in turn, and return what both found."""
    rounds = 3 if benchmark.enabled else 1
    ratios = []

    def once():
        start = time.perf_counter()
        found = ours()
        between = time.perf_counter()
        expected = theirs()
        ratios.append((between - start) / (time.perf_counter() - between))
        return found, expected

    both = benchmark.pedantic(once, rounds=rounds)
    benchmark.extra_info["x scikit-learn"] = round(statistics.median(ratios), 2)
    benchmark.extra_info["BLAS"] = [
        f"{pool['internal_api']} {pool.get('architecture')} {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return both


def test_nearest_neighbours(benchmark, X):
    brute = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(X)
    found, (distances, _) = beside(benchmark, lambda: nearest_of_points(X, K), brute.kneighbors)
    np.testing.assert_allclose(np.sqrt(found.distances), distances, rtol=1e-6)


def test_pairs_within_a_radius(benchmark, X):
    near = nearest_of_points(X[:500], K)
    radius = float(np.sqrt(np.median(near.distances[:, -1])))
    brute = NearestNeighbors(radius=radius, algorithm="brute").fit(X)

    def ours():
        return sum(rows.size for rows, _ in within_radius_of_points(X, radius**2).edges())

    def theirs():
        return brute.radius_neighbors(return_distance=False)

    found, expected = beside(benchmark, ours, theirs)
    assert 2 * found == pytest.approx(sum(map(len, expected)), rel=1e-3)


def test_neighbours_from_columns(benchmark, X):
    """What the server does: coordinates from d + 1 columns, their bound, and the neighbours."""
    X = np.rint(50 * X)
    n, d = X.shape
    squares = np.einsum("ij,ij->i", X, X)
    landmarks = np.arange(0, n, n // (d + 1))[: d + 1]
    D = squares[:, None] + squares[landmarks] - 2 * X @ X[landmarks].T
    brute = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(X)

    def ours():
        points = exact_points(lambda rows: D[rows], landmarks, n=n, n_features=d)
        assert points.certified
        assert points.residues is None
        return nearest_of_points(points, K)

    found, (distances, _) = beside(benchmark, ours, brute.kneighbors)
    np.testing.assert_allclose(np.sqrt(found.distances), distances, rtol=1e-6)
