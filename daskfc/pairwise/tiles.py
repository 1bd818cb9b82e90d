"""All distances on disk: the upper triangle, one chunk per block."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

from daskfc.arrays import Floats
from daskfc.checks import check_params, one_of
from daskfc.clustering import DistanceBlocks
from daskfc.clustering.blocks.row_file import RowFile
from daskfc.clustering.views.order import order_of_symmetric
from daskfc.clustering.views.views import Places
from daskfc.errors import InvalidInput, StoreError
from daskfc.pairwise.blockgroup import BlockGroup
from daskfc.pairwise.grid import SymmetricGrid


class DistanceTiles(BlockGroup):
    """A symmetric matrix of squared distances on disk, of which only i <= j is stored."""

    kind = "distance tiles"

    @classmethod
    def create(
        cls, path: str, grid: SymmetricGrid, dtype: str = "float32", *, resume: bool = False
    ) -> "DistanceTiles":
        """Create a new group, or `resume` one of the same settings; "float32" rounds to 24 bits."""
        check_params(cls.__name__, {"dtype": dtype}, {"dtype": one_of("float32", "float64")})

        def fill(group: zarr.Group) -> None:
            side = min(grid.tile, grid.n)
            size = np.dtype(dtype).itemsize
            group.create_array(
                "distances",
                shape=(grid.n, grid.n),
                chunks=(side, side),
                dtype=dtype,
                fill_value=float("nan"),  # a lost chunk reads as NaN, never as distance 0
                compressors=[
                    BloscCodec(cname="lz4", clevel=1, shuffle="shuffle", typesize=size),
                    Crc32cCodec(),
                ],
                dimension_names=("sample", "sample"),
            )

        return cls._create(path, grid, {"dtype": dtype}, fill, resume=resume)

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        super().__init__(path, group, settings)
        self._distances = self._array("distances")
        self.dtype = np.dtype(str(settings["dtype"]))

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return self.grid.n

    def write(self, i: int, j: int, block: NDArray[Any]) -> bool:
        """Store one block; return False if done before; refuse NaN and negative numbers."""
        values = self._checked(i, j, block)
        if (i, j) in self._known:
            return False
        if not values.min() >= 0:
            raise self._refuse_values(i, j)
        self._distances[self.grid.panel(i), self.grid.panel(j)] = values.astype(self.dtype)
        self._mark(i, j)
        return True

    def block(self, i: int, j: int) -> NDArray[Any]:
        """Return the stored block (i, j), i <= j; refuse a missing or corrupt one."""
        shape = self.grid.shape(i, j)
        if (i, j) not in self._known and (i, j) not in self.done():
            raise StoreError(f"block ({i}, {j}) of {self.path} is not written. Write it first.")
        values = self._read(self._distances, (self.grid.panel(i), self.grid.panel(j)))
        if np.isnan(values[0, 0]):
            raise StoreError(
                f"block ({i}, {j}) of {self.path} is marked as done but its chunk is lost. "
                f"Resume the run, or remove the folder and compute it again."
            )
        assert values.shape == shape, (values.shape, shape)
        return values

    def _look(self, i: int, j: int) -> None:
        self.block(i, j)

    def blocks(self) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Iterate over (i, j, block) of the upper triangle, each read once."""
        self.require_complete()
        for i, j in self.grid.blocks():
            yield i, j, self.block(i, j)

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows start to stop of the whole matrix."""
        self.require_complete()
        n, tile = self.grid.n, self.grid.tile
        if not 0 <= start <= stop <= n:
            raise InvalidInput(f"rows must satisfy 0 <= start <= stop <= {n}; got {start}, {stop}.")
        out = np.empty((stop - start, n), np.float64)
        for p in range(start // tile, -(-stop // tile)):
            panel = self.grid.panel(p)
            low, high = max(start, panel.start), min(stop, panel.stop)
            target = out[low - start : high - start]
            inside = slice(low - panel.start, high - panel.start)
            for q in range(self.grid.n_panels):
                block = self.block(p, q) if p <= q else self.block(q, p).T
                target[:, self.grid.panel(q)] = block[inside]
        return out

    def panels(self) -> Iterator[tuple[int, Floats]]:
        """Iterate over (first row, rows of (tile, n)); reads blocks twice, unlike `blocks`."""
        for i in range(self.grid.n_panels):
            panel = self.grid.panel(i)
            yield panel.start, self.rows(panel.start, panel.stop)

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
