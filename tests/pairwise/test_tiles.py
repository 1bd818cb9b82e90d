import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.pairwise import DistanceTiles, SymmetricGrid
from tests.oracles import pairwise as oracle


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 30), panels=st.integers(1, 6), seed=st.integers(0, 99))
def test_everything_that_is_read_equals_the_matrix(tmp_path_factory, n, panels, seed):
    rng = np.random.default_rng(seed)
    tile = -(-n // panels)
    D = oracle.distances(rng.integers(0, 50, (n, 2)))
    grid = SymmetricGrid(n, tile)
    path = tmp_path_factory.mktemp("tiles") / "a"
    tiles = DistanceTiles.create(str(path), grid)
    for i, j in rng.permutation(list(grid.blocks())):
        tiles.write(int(i), int(j), D[grid.panel(i), grid.panel(j)])
    assert np.array_equal(np.concatenate([rows for _, rows in tiles.panels()]), D)
    assert [first for first, _ in tiles.panels()] == list(range(0, n, tile))
    assert np.array_equal(tiles.full(), D)


def test_only_the_upper_triangle_is_on_disk(tmp_path, points, write_all):
    grid = SymmetricGrid(53, 16)
    write_all(DistanceTiles.create(str(tmp_path / "a"), grid), oracle.distances(points))
    chunks = [f for f in (tmp_path / "a" / "distances" / "c").rglob("*") if f.is_file()]
    assert len(chunks) == grid.n_blocks


def test_both_axes_of_the_file_are_samples(tmp_path):
    DistanceTiles.create(str(tmp_path / "a"), SymmetricGrid(4, 2))
    array = zarr.open_array(str(tmp_path / "a" / "distances"), mode="r")
    assert array.metadata.dimension_names == ("sample", "sample")
