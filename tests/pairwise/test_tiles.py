import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.pairwise import DistanceTiles, SymmetricGrid
from tests.oracles import pairwise as oracle


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 30), panels=st.integers(1, 6), seed=st.integers(0, 99), integers=st.booleans()
)
def test_everything_that_is_read_equals_the_matrix(tmp_path_factory, n, panels, seed, integers):
    rng = np.random.default_rng(seed)
    tile = -(-n // panels)
    D = oracle.distances(rng.integers(0, 50, (n, 2)))
    if integers:
        D = D.astype(np.int64)
    grid = SymmetricGrid(n, tile)
    path = tmp_path_factory.mktemp("tiles") / "a"
    tiles = DistanceTiles.create(str(path), grid, "float64")
    for i, j in rng.permutation(list(grid.blocks())):
        tiles.write(int(i), int(j), D[grid.panel(i), grid.panel(j)])
    start, stop = sorted(rng.integers(0, n + 1, 2))
    assert np.array_equal(tiles.rows(start, stop), D[start:stop])
    assert np.array_equal(np.concatenate([rows for _, rows in tiles.panels()]), D)
    assert [first for first, _ in tiles.panels()] == list(range(0, n, tile))
    assert np.array_equal(tiles.full(), D)


def test_float32_rounds_once_and_keeps_zeros(tmp_path, write_all):
    X = np.random.default_rng(0).standard_normal((21, 3))
    D = ((X[:, None] - X) ** 2).sum(2)
    tiles = write_all(DistanceTiles.create(str(tmp_path / "a"), SymmetricGrid(21, 8)), D)
    assert np.array_equal(tiles.full(), D.astype(np.float32))
    assert not np.diag(tiles.full()).any()


def test_only_the_upper_triangle_is_on_disk(tmp_path, points, write_all):
    grid = SymmetricGrid(53, 16)
    write_all(DistanceTiles.create(str(tmp_path / "a"), grid), oracle.distances(points))
    chunks = [f for f in (tmp_path / "a" / "distances" / "c").rglob("*") if f.is_file()]
    assert len(chunks) == grid.n_blocks


def test_rows_outside_are_refused(tmp_path, points, write_all):
    tiles = DistanceTiles.create(str(tmp_path / "a"), SymmetricGrid(53, 60))
    write_all(tiles, oracle.distances(points))
    with pytest.raises(InvalidInput, match="0 <= start <= stop <= 53; got 3, 54"):
        tiles.rows(3, 54)
