"""Distances as labelled arrays on Dask: tiles of half of them, and blocks."""

import dask
import numpy as np
import pytest
import xarray as xr

from daskfc.clustering import FullDistances
from daskfc.clustering.views.nearest import exact_blocks
from daskfc.errors import InvalidInput
from daskfc.pairwise import DistanceTiles, SymmetricGrid
from daskfc.pairwise.arrays import distance_array

N, TILE = 70, 16


@pytest.fixture
def view():
    return exact_blocks(np.random.default_rng(0).normal(size=(N, 4)))


@pytest.fixture
def tiles(view, tmp_path):
    grid = SymmetricGrid(N, TILE)
    found = DistanceTiles.create(str(tmp_path / "tiles"), grid)
    D = view.full()
    for i, j in grid.blocks():
        found.write(i, j, D[grid.panel(i), grid.panel(j)])
    return found


def test_tiles_of_the_upper_half_are_all_distances(view, tiles):
    D = distance_array(tiles)
    assert D.dims == ("sample", "other")
    assert D.data.chunks[0] == (16, 16, 16, 16, 6)
    np.testing.assert_array_equal(D.values, view.full())


def test_blocks_and_matrices_are_arrays_too(view):
    for source in (view, FullDistances(view.full())):
        np.testing.assert_array_equal(distance_array(source).values, view.full())


def test_only_what_is_looked_at_is_read(tiles, monkeypatch):
    read = []
    block = DistanceTiles.block
    monkeypatch.setattr(
        DistanceTiles, "block", lambda self, i, j: read.append((i, j)) or block(self, i, j)
    )
    D = distance_array(tiles)
    assert not read
    assert D[40, 3] == D[3, 40]
    assert set(read) == {(0, 2)}  # the same tile from both sides of the diagonal


def test_labels_of_samples_go_with_them(view, tiles):
    ids = [f"s{i}" for i in range(N)]
    D = distance_array(tiles, clients=["a"] * 30 + ["b"] * 40, sample_ids=ids)
    between = D[(D.client == "a").values, (D.other_client == "b").values]
    np.testing.assert_array_equal(between.values, view.full()[:30, 30:])
    indexed = D.set_index(sample="sample_id", other="other_sample_id")
    assert float(indexed.sel(sample="s7", other="s60")) == view.full()[7, 60]
    with pytest.raises(InvalidInput, match="one value for each of 70 samples; got 2"):
        distance_array(tiles, clients=["a", "b"])


def test_kernel_degrees_and_products_are_those_of_numpy(view, tiles):
    D, full = distance_array(tiles), view.full()
    K = np.exp(-0.3 * D)
    vectors = xr.DataArray(np.random.default_rng(1).normal(size=(N, 3)), dims=("other", "vector"))
    degrees = K.sum("other")
    normal = K / np.sqrt(degrees) / np.sqrt(degrees.rename(sample="other"))
    with dask.config.set(scheduler="synchronous"):
        product = normal.dot(vectors).values
    W = np.exp(-0.3 * full)
    root = np.sqrt(W.sum(axis=1))
    np.testing.assert_allclose(product, W / root / root[:, None] @ vectors.values, rtol=1e-12)


def test_tiles_in_the_order_of_their_distances(view, tiles, tmp_path):
    found = tiles.in_order(str(tmp_path))
    expected = FullDistances.in_order(view.full())
    assert np.array_equal(found.order.places, expected.order.places)
    np.testing.assert_array_equal(found.full(), expected.matrix)
    some, others = np.array([60, 2, 9]), slice(5, 50)
    np.testing.assert_array_equal(found.block(some, others), expected.matrix[some, others])
    assert [path.name for path in tmp_path.iterdir()] == ["tiles"]
