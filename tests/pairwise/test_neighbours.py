import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from daskfc.errors import InvalidInput, StoreError
from daskfc.pairwise import NeighbourTiles, SymmetricGrid
from daskfc.pairwise.nearest import limit_of_rows, merge
from tests.oracles import pairwise as oracle


def shuffled(grid, seed):
    order = np.random.default_rng(seed).permutation(list(grid.blocks()))
    return [(int(i), int(j)) for i, j in order]


def assert_equals_oracle(graph, D, k):
    indices, distances = oracle.nearest(D, k)
    assert graph.indices.dtype == np.int32
    assert graph.distances.dtype == np.float64
    assert np.array_equal(graph.indices, indices)
    assert np.array_equal(graph.distances, distances)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_equals_brute_force(tmp_path_factory, data):
    n = data.draw(st.integers(2, 40), "n")
    k = data.draw(st.integers(1, n - 1), "k")
    tile = data.draw(st.integers(-(-n // 6), 45), "tile")
    side = data.draw(st.sampled_from([1, 2, 5, 1000]), "side: 1 makes all distances equal")
    seed = data.draw(st.integers(0, 99), "seed")
    D = oracle.distances(np.random.default_rng(seed).integers(0, side, (n, 2)))
    grid = SymmetricGrid(n, tile)
    tiles = NeighbourTiles.create(str(tmp_path_factory.mktemp("knn") / "a"), grid, k)
    for i, j in shuffled(grid, seed):
        tiles.write(i, j, D[grid.panel(i), grid.panel(j)])
    assert_equals_oracle(tiles.graph(), D, k)


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize("side", [2, 4, 10**6])
@pytest.mark.parametrize("k", [1, 10, 70])
def test_blocks_of_many_strips(tmp_path, side, k, write_all):
    # blocks of 1200 x 1200 pass in several strips, and limits come from groups
    rng = np.random.default_rng(3)
    X = rng.integers(0, side, (2500, 4)).astype(float)
    D = (X**2).sum(1)[:, None] + (X**2).sum(1) - 2 * X @ X.T  # exact: integers below 2**53
    grid = SymmetricGrid(2500, 1200)
    graphs = [
        write_all(
            NeighbourTiles.create(str(tmp_path / str(seed)), grid, k), D, shuffled(grid, seed)
        ).graph()
        for seed in range(2)
    ]
    assert np.array_equal(graphs[0].indices, graphs[1].indices)
    assert np.array_equal(graphs[0].distances, graphs[1].distances)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    assert np.array_equal(graphs[0].indices, order)
    assert np.array_equal(graphs[0].distances, np.take_along_axis(D, order, 1))


def test_every_order_gives_the_same_bits(tmp_path, points, write_all):
    D = oracle.distances(points) / 7  # rounded, with ties
    grid = SymmetricGrid(53, 16)
    seen = set()
    for seed in range(6):
        tiles = NeighbourTiles.create(str(tmp_path / str(seed)), grid, 4)
        graph = write_all(tiles, D, shuffled(grid, seed)).graph()
        seen.add((graph.indices.tobytes(), graph.distances.tobytes()))
    assert len(seen) == 1


def test_restarts_between_all_blocks(tmp_path, points, write_all):
    D = oracle.distances(points)
    grid = SymmetricGrid(53, 16)
    path = str(tmp_path / "a")
    NeighbourTiles.create(path, grid, 6)
    for block in shuffled(grid, 1):
        write_all(NeighbourTiles.open(path), D, [block])
    assert_equals_oracle(NeighbourTiles.open(path).graph(), D, 6)


def test_two_writers_of_the_same_blocks(tmp_path, points, write_all):
    # both know nothing of each other's blocks after opening; each block is written twice
    D = oracle.distances(points)
    grid = SymmetricGrid(53, 16)
    one = NeighbourTiles.create(str(tmp_path / "a"), grid, 6)
    two = NeighbourTiles.open(one.path)
    order = shuffled(grid, 2)
    for block in order:
        write_all(one, D, [block])
        write_all(two, D, [block])
    assert_equals_oracle(two.graph(), D, 6)


def test_threads(tmp_path, points, write_all):
    D = oracle.distances(points)
    grid = SymmetricGrid(53, 8)
    tiles = NeighbourTiles.create(str(tmp_path / "a"), grid, 6)
    order = shuffled(grid, 3)
    threads = [threading.Thread(target=write_all, args=(tiles, D, order[t::3])) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_equals_oracle(tiles.graph(), D, 6)


_DIES = """
import os, signal, sys
import numpy as np
from daskfc.pairwise import NeighbourTiles
tiles = NeighbourTiles.open(sys.argv[1])
D = np.load(sys.argv[2])
mark = tiles._mark
def die(i, j, count=0):
    if (i, j) == (1, 2):
        os.kill(os.getpid(), signal.SIGKILL)  # the pieces are written, the marker is not
    mark(i, j, count)
tiles._mark = die
for i, j in tiles.grid.blocks():
    tiles.write(i, j, D[tiles.grid.panel(i), tiles.grid.panel(j)])
"""


@pytest.mark.slow
def test_a_killed_process(tmp_path, points, write_all):
    D = oracle.distances(points)
    np.save(tmp_path / "D.npy", D)
    path = str(tmp_path / "a")
    NeighbourTiles.create(path, SymmetricGrid(53, 16), 6)
    command = [sys.executable, "-c", _DIES, path, str(tmp_path / "D.npy")]
    assert subprocess.run(command, env=dict(os.environ)).returncode == -signal.SIGKILL
    tiles = NeighbourTiles.open(path)
    assert tiles.done() == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 1)}
    write_all(tiles, D, tiles.missing())
    assert_equals_oracle(tiles.graph(), D, 6)


def test_equals_scikit_learn_on_points_in_general_position(tmp_path, write_all):
    X = np.random.default_rng(0).standard_normal((300, 5))
    D = ((X[:, None] - X) ** 2).sum(2)
    tiles = NeighbourTiles.create(str(tmp_path / "a"), SymmetricGrid(300, 128), 7)
    graph = write_all(tiles, D).graph()
    distances, indices = NearestNeighbors(n_neighbors=7).fit(X).kneighbors()
    assert np.array_equal(graph.indices, indices)
    assert np.allclose(graph.distances, distances**2, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    a=st.integers(1, 5),
    b=st.integers(1, 700),
    k=st.integers(1, 30),
    side=st.sampled_from([2, 50, 10**9]),
    seed=st.integers(0, 99),
)
def test_limits_leave_room_for_k(a, b, k, side, seed):
    block = np.random.default_rng(seed).integers(0, side, (a, b)).astype(float)
    for limits, values in (
        (limit_of_rows(block, k), block),
        (limit_of_rows(np.asfortranarray(block), k), block),
    ):
        assert ((values <= limits[:, None]).sum(1) >= min(k, b)).all()
        assert np.isinf(limits).all() == (b < k)


@pytest.mark.parametrize("k", [53, 60])
def test_too_many_neighbours_are_refused(k, tmp_path):
    with pytest.raises(InvalidInput, match=rf"below the number of samples, 53; got {k}\. Lower it"):
        NeighbourTiles.create(str(tmp_path / "a"), SymmetricGrid(53, 16), k)
    assert not (tmp_path / "a").exists()


def test_one_panel_and_two_samples(tmp_path, write_all):
    D = np.array([[0.0, 5.0], [5.0, 0.0]])
    tiles = NeighbourTiles.create(str(tmp_path / "a"), SymmetricGrid(2, 2048), 1)
    graph = write_all(tiles, D).graph()
    assert graph.indices.tolist() == [[1], [0]]
    assert graph.distances.tolist() == [[5.0], [5.0]]


def test_all_neighbours_in_one_small_panel(tmp_path, points, write_all):
    D = oracle.distances(points)
    tiles = write_all(NeighbourTiles.create(str(tmp_path / "a"), SymmetricGrid(53, 5), 52), D)
    assert_equals_oracle(tiles.graph(), D, 52)


def test_a_lost_piece_is_named(tmp_path, points, write_all):
    grid = SymmetricGrid(53, 16)
    tiles = NeighbourTiles.create(str(tmp_path / "a"), grid, 6)
    write_all(tiles, oracle.distances(points))
    os.unlink(tmp_path / "a" / "candidates" / "c" / "1" / "3" / "0" / "0" / "0")
    with pytest.raises(StoreError, match=r"piece of panels 1 and 3 .* is lost"):
        tiles.graph()


def test_of_two_lists_the_nearest_are_kept_and_of_equal_ones_the_smaller_neighbours():
    random = np.random.default_rng(0)
    others = np.array([random.permutation(20)[:9] for _ in range(50)])
    distances = random.integers(0, 3, others.shape).astype(float)
    found, whose = merge(distances[:, :4], others[:, :4], distances[:, 4:], others[:, 4:])
    pairs = [sorted(zip(*row, strict=True))[:4] for row in zip(distances, others, strict=True)]
    assert np.array_equal(np.stack([found, whose], axis=2), pairs)


def test_axes_of_the_file_have_names(tmp_path):
    NeighbourTiles.create(str(tmp_path / "knn"), SymmetricGrid(4, 2), 1)
    array = zarr.open_array(str(tmp_path / "knn" / "candidates"), mode="r")
    axes = ("panel", "other panel", "row", "rank", "distance and index")
    assert array.metadata.dimension_names == axes
