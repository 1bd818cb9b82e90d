"""Streaming a neighbour graph: pairs per second of `NeighbourTiles.write`, and of its reading.

Small when benchmarks are off. `pytest tests/benchmarks/test_neighbour_stream.py --benchmark-enable`
streams 12 panels of 2048 rows and reports Mpairs/s in the column of extra information; the time of
computing the distances is not in it.
"""

import itertools

import numpy as np
import pytest
from sklearn.metrics import euclidean_distances

from daskfc.pairwise import NeighbourTiles, SymmetricGrid


@pytest.fixture
def grid(benchmark):
    return SymmetricGrid(12 * 2048, 2048) if benchmark.enabled else SymmetricGrid(700, 256)


def distance_block(X, grid, i, j):
    block = euclidean_distances(X[grid.panel(i)], X[grid.panel(j)], squared=True)
    if i == j:
        block = np.maximum(block, block.T)
        np.fill_diagonal(block, 0)
    return block


@pytest.mark.parametrize("k", [10, 50])
def test_neighbour_stream(benchmark, grid, tmp_path, k):
    X = np.random.default_rng(0).standard_normal((grid.n, 50))
    tiles = NeighbourTiles.create(str(tmp_path / "a"), grid, k)
    blocks = grid.blocks()

    def next_block():
        i, j = next(blocks)
        return (i, j, distance_block(X, grid, i, j)), {}

    benchmark.pedantic(tiles.write, setup=next_block, rounds=grid.n_blocks)
    if benchmark.enabled:
        rate = grid.n_entries / benchmark.stats.stats.total / 1e6
        benchmark.extra_info["Mpairs/s"] = round(rate)
    else:
        for i, j in itertools.chain(blocks):
            tiles.write(i, j, distance_block(X, grid, i, j))
    assert not tiles.missing()
    graph = tiles.graph()
    some = np.arange(0, grid.n, 97)
    D = euclidean_distances(X[some], X, squared=True)
    D[np.arange(len(some)), some] = np.inf
    expected = np.sort(D, axis=1)[:, :k]
    assert np.allclose(graph.distances[some], expected, rtol=0, atol=1e-9)


def test_graph_from_pieces(benchmark, grid, tmp_path):
    X = np.random.default_rng(0).standard_normal((grid.n, 50))
    tiles = NeighbourTiles.create(str(tmp_path / "a"), grid, 10)
    for i, j in grid.blocks():
        tiles.write(i, j, distance_block(X, grid, i, j))
    graph = benchmark.pedantic(tiles.graph, rounds=1)
    assert graph.n_neighbors == 10
