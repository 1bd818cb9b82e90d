"""The exact k nearest neighbours of every sample, from blocks of distances in any order.

Each block leaves two pieces on disk, candidate neighbours for either of its panels, and its marker.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from daskfc.arrays import Floats
from daskfc.clustering.views.graphs import NeighbourGraph
from daskfc.errors import InvalidInput, StoreError
from daskfc.pairwise.blockgroup import BlockGroup
from daskfc.pairwise.grid import SymmetricGrid
from daskfc.pairwise.nearest import NOBODY, Nearest, merge, nearest_of_block


class NeighbourTiles(BlockGroup):
    """The exact nearest neighbours, the same for any order of blocks; n × n is never stored."""

    kind = "neighbour tiles"

    @classmethod
    def create(cls, path: str, grid: SymmetricGrid, n_neighbors: int) -> "NeighbourTiles":
        """Begin a group, or go on with one like it; `n_neighbors` is below ``grid.n``."""
        if n_neighbors >= grid.n:
            raise InvalidInput(
                f"the 'n_neighbors' parameter of {cls.__name__} must be below the number of "
                f"samples, {grid.n}; got {n_neighbors}. Lower it to {grid.n - 1} or less."
            )
        side = min(grid.tile, grid.n)
        cell = (side, min(n_neighbors, side), 2)

        def fill(group: zarr.Group) -> None:
            group.create_array(
                "candidates",  # [p, q]: neighbours of the rows of panel p in panel q
                shape=(grid.n_panels, grid.n_panels, *cell),
                chunks=(1, 1, *cell),
                dtype="float64",
                fill_value=float("nan"),  # a lost chunk reads as NaN; unused places hold infinity
                compressors=[ZstdCodec(level=1), Crc32cCodec()],
                dimension_names=("panel", "other panel", "row", "rank", "distance and index"),
            )

        return cls._create(path, grid, {"n_neighbors": int(n_neighbors)}, fill)

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        super().__init__(path, group, settings)
        self.n_neighbors = int(settings["n_neighbors"])
        self._candidates = self._array("candidates")

    def write(self, i: int, j: int, block: Floats) -> None:
        """Store the neighbours of both panels from one block, unless they are there."""
        self.write_nearest(i, j, *nearest_of_block(block, self.n_neighbors, diagonal=i == j))

    def write_nearest(self, i: int, j: int, rows: Nearest, columns: Nearest) -> None:
        """Store the results of `nearest_of_block`, unless they are there."""
        if (i, j) in self._known:
            return
        self._candidates[i, j] = self._cell(rows, self.grid.panel(j).start)
        if i != j:
            self._candidates[j, i] = self._cell(columns, self.grid.panel(i).start)
        self._mark(i, j)

    def _cell(self, found: Nearest, first: int) -> Floats:
        # distance and index are in one chunk, so that a piece never mixes two writers
        cell = np.full(self._candidates.shape[2:], np.inf)
        numbers = np.where(found.others == NOBODY, np.inf, found.others + np.float64(first))
        cell[found.owners, : found.width, 0] = found.distances
        cell[found.owners, : found.width, 1] = numbers
        return cell

    def _piece(self, p: int, q: int) -> Nearest:
        cell = self._read(self._candidates, (p, q))
        if np.isnan(cell[0, 0, 0]):
            raise StoreError(
                f"the piece of panels {p} and {q} of the {self.kind} at {self.path} is lost. "
                f"Resume the run, or remove the folder and compute it again."
            )
        owners = np.flatnonzero(np.isfinite(cell[:, 0, 0]))
        distances, others = cell[owners, :, 0], np.full((len(owners), cell.shape[1]), NOBODY)
        there = np.isfinite(distances)
        others[there] = cell[owners, :, 1][there].astype(np.int64)
        return Nearest(owners, distances, others)

    def _look(self, i: int, j: int) -> None:
        self._piece(i, j)
        self._piece(j, i)

    def graph(self) -> NeighbourGraph:
        """Return the graph of all samples; refuse while blocks are missing, lost or corrupt."""
        self.require_complete()
        n, k = self.grid.n, self.n_neighbors
        distances, others = np.full((n, k), np.inf), np.full((n, k), NOBODY)
        for p in range(self.grid.n_panels):
            for q in range(self.grid.n_panels):
                found = self._piece(p, q)
                rows = self.grid.panel(p).start + found.owners
                distances[rows], others[rows] = merge(
                    distances[rows], others[rows], found.distances, found.others
                )
        return NeighbourGraph(others.astype(np.int32), distances)
