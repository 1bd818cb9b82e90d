"""All distances on disk: the upper triangle, one chunk per block."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from daskfc.arrays import Floats
from daskfc.clustering import DistanceBlocks
from daskfc.clustering.blocks.row_file import RowFile
from daskfc.clustering.views.order import order_of_symmetric
from daskfc.clustering.views.views import Places
from daskfc.errors import StoreError
from daskfc.pairwise.blockgroup import BlockGroup
from daskfc.pairwise.grid import SymmetricGrid


class DistanceTiles(BlockGroup):
    """A symmetric matrix of squared distances on disk, of which only i <= j is stored."""

    kind = "distance tiles"

    @classmethod
    def create(cls, path: str, grid: SymmetricGrid) -> "DistanceTiles":
        """Begin a group, or go on with one like it."""

        def fill(group: zarr.Group) -> None:
            side = min(grid.tile, grid.n)
            group.create_array(
                "distances",
                shape=(grid.n, grid.n),
                chunks=(side, side),
                dtype="float64",
                fill_value=float("nan"),  # a lost chunk reads as NaN, never as distance 0
                compressors=[
                    BloscCodec(cname="lz4", clevel=1, shuffle="shuffle", typesize=8),
                    Crc32cCodec(),
                ],
                dimension_names=("sample", "sample"),
            )

        return cls._create(path, grid, {}, fill)

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        super().__init__(path, group, settings)
        self._distances = self._array("distances")

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return self.grid.n

    def write(self, i: int, j: int, block: Floats) -> None:
        """Store one block, unless it is there."""
        if (i, j) not in self._known:
            self._distances[self.grid.panel(i), self.grid.panel(j)] = block
            self._mark(i, j)

    def block(self, i: int, j: int) -> Floats:
        """Return the stored block (i, j), i <= j; refuse a missing or corrupt one."""
        if (i, j) not in self._known and (i, j) not in self.done():
            raise StoreError(f"block ({i}, {j}) of {self.path} is not written. Write it first.")
        values = self._read(self._distances, (self.grid.panel(i), self.grid.panel(j)))
        if np.isnan(values[0, 0]):
            raise StoreError(
                f"block ({i}, {j}) of {self.path} is marked as done but its chunk is lost. "
                f"Resume the run, or remove the folder and compute it again."
            )
        return values

    def _look(self, i: int, j: int) -> None:
        self.block(i, j)

    def blocks(self) -> Iterator[tuple[int, int, Floats]]:
        """Iterate over (i, j, block) of the upper triangle, each read once."""
        self.require_complete()
        for i, j in self.grid.blocks():
            yield i, j, self.block(i, j)

    def panels(self) -> Iterator[tuple[int, Floats]]:
        """Iterate over (first row, rows of (tile, n)); reads blocks twice, unlike `blocks`."""
        self.require_complete()
        every = range(self.grid.n_panels)
        for i in every:
            parts = [self.block(i, j) if i <= j else self.block(j, i).T for j in every]
            yield self.grid.panel(i).start, np.concatenate(parts, axis=1)

    def full(self) -> Floats:
        """Return the whole (n, n) matrix."""
        out = np.empty((self.n, self.n), np.float64)
        for i, j, block in self.blocks():
            out[self.grid.panel(i), self.grid.panel(j)] = block
            out[self.grid.panel(j), self.grid.panel(i)] = block.T
        return out

    def in_order(self, folder: str | None = None) -> DistanceBlocks:
        """Return the distances with samples in an order that follows from them only, in a file."""
        n, file = self.grid.n, RowFile(self.grid.n, folder)
        for i, j, block in self.blocks():
            rows, columns = self.grid.panel(i), self.grid.panel(j)
            file.write_part(rows, columns, block)
            file.write_part(columns, rows, block.T)
        stored = DistanceBlocks(n, lambda rows, columns: file.rows(np.arange(n)[rows])[:, columns])

        def dot(weights: Floats) -> Floats:
            return np.concatenate([panel @ weights for _, panel in stored.panels()])

        order = order_of_symmetric(file.row, dot, n)

        def block_of(rows: Places, columns: Places) -> Floats:
            asked = order.places[columns]
            found = np.empty((np.arange(n)[rows].size, asked.size))
            for target, place in zip(found, order.places[rows].tolist(), strict=True):
                target[:] = file.row(place)[asked]
            return found

        return DistanceBlocks(n, block_of, order, folder)
