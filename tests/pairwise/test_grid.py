import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daskfc.pairwise import SymmetricGrid


@given(n=st.integers(1, 60), tile=st.integers(1, 70))
def test_blocks_cover_the_upper_triangle_once(n, tile):
    grid = SymmetricGrid(n, tile)
    covered = np.zeros((n, n), int)
    for i, j in grid.blocks():
        covered[grid.panel(i), grid.panel(j)] += 1
        if i != j:
            covered[grid.panel(j), grid.panel(i)] += 1
        rows, columns = grid.panel(i), grid.panel(j)
        assert grid.shape(i, j) == (rows.stop - rows.start, columns.stop - columns.start)
    assert (covered == 1).all()
    assert grid.n_blocks == len(list(grid.blocks()))
    assert grid.n_entries == sum(a * b for a, b in (grid.shape(*block) for block in grid.blocks()))
