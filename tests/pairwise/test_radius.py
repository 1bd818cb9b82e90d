import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.pairwise import RadiusTiles, SymmetricGrid
from tests.oracles import pairwise as oracle


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 30),
    panels=st.integers(1, 6),
    radius2=st.sampled_from([0, 0.5, 1.0, 2.0, 10.0, 1e6]),
    seed=st.integers(0, 99),
)
def test_equals_brute_force(tmp_path_factory, n, panels, radius2, seed):
    rng = np.random.default_rng(seed)
    tile = -(-n // panels)
    D = oracle.distances(rng.integers(0, 5, (n, 2)))
    grid = SymmetricGrid(n, tile)
    tiles = RadiusTiles.create(str(tmp_path_factory.mktemp("radius") / "a"), grid, radius2)
    for i, j in rng.permutation(list(grid.blocks())):
        tiles.write(int(i), int(j), D[grid.panel(i), grid.panel(j)])
    found = [pair for rows, cols in tiles.edges() for pair in zip(rows, cols, strict=True)]
    expected = oracle.edges(D, radius2)
    assert len(found) == len(expected)
    assert {(int(i), int(j)) for i, j in found} == expected
    assert all(rows.dtype == cols.dtype == np.int32 for rows, cols in tiles.edges())


def test_the_graph_can_be_read_many_times(tmp_path, points, write_all):
    D = oracle.distances(points)
    tiles = write_all(RadiusTiles.create(str(tmp_path / "a"), SymmetricGrid(53, 16), 2.0), D)
    graph = tiles.graph()
    assert (graph.n, graph.radius2) == (53, 2.0)
    for _ in range(2):
        found = {(int(i), int(j)) for rows, cols in graph for i, j in zip(rows, cols, strict=True)}
        assert found == oracle.edges(D, 2.0)
