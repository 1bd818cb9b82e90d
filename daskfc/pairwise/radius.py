"""The radius graph, all pairs within a radius, from blocks of distances: one bit per pair."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec

from daskfc.arrays import Floats
from daskfc.clustering.views.graphs import RadiusGraph
from daskfc.errors import StoreError
from daskfc.pairwise.blockgroup import BlockGroup
from daskfc.pairwise.grid import SymmetricGrid

_TOGETHER = 1 << 18  # ours: pairs of one part, 8 MiB while they are unpacked

Edges = tuple[NDArray[np.int32], NDArray[np.int32]]


def within_of_block(block: Floats, radius2: float, *, diagonal: bool) -> NDArray[np.uint8]:
    """Return which entries lie within a squared radius, inclusive, as bits (a, ceil(b / 8))."""
    within = block <= radius2
    return np.packbits(np.triu(within, 1) if diagonal else within, axis=1)


class RadiusTiles(BlockGroup):
    """The pairs within squared distance ``radius2``, as bits in about n (n + tile) / 16 bytes."""

    kind = "radius tiles"

    @classmethod
    def create(cls, path: str, grid: SymmetricGrid, radius2: float) -> "RadiusTiles":
        """Begin a group, or go on with one like it."""
        side = min(grid.tile, grid.n)
        cell = (side, -(-side // 8))

        def fill(group: zarr.Group) -> None:
            group.create_array(
                "within",  # [i, j]: block (i, j), eight columns a byte, the first in the high bit
                shape=(grid.n_panels, grid.n_panels, *cell),
                chunks=(1, 1, *cell),
                dtype="uint8",
                fill_value=0,
                compressors=[ZstdCodec(level=1), Crc32cCodec()],
                dimension_names=("panel", "other panel", "row", "eight columns"),
            )

        return cls._create(path, grid, {"radius2": float(radius2)}, fill)

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        super().__init__(path, group, settings)
        self.radius2 = float(settings["radius2"])
        self._within = self._array("within")

    def write(self, i: int, j: int, block: Floats) -> None:
        """Store which squared distances of a block lie within the radius, unless they are there."""
        self.write_within(i, j, within_of_block(block, self.radius2, diagonal=i == j))

    def write_within(self, i: int, j: int, bits: NDArray[np.uint8]) -> None:
        """Store the bits of `within_of_block`, unless they are there."""
        if (i, j) in self._known:
            return
        b = self.grid.size(j)
        count = int(np.unpackbits(bits, axis=1, count=b).sum(dtype=np.int64))
        cell = np.zeros(self._within.shape[2:], np.uint8)
        cell[: bits.shape[0], : bits.shape[1]] = bits
        self._within[i, j] = cell
        self._mark(i, j, count)

    def _look(self, i: int, j: int) -> None:
        cell = self._read(self._within, (i, j))
        if int(np.unpackbits(cell).sum(dtype=np.int64)) != self._known[i, j]:
            raise self._lost(i, j)

    def _lost(self, i: int, j: int) -> StoreError:
        return StoreError(
            f"block ({i}, {j}) of the {self.kind} at {self.path} does not hold the "
            f"{self._known[i, j]} pairs that were written. Resume the run, or remove the folder "
            f"and compute it again."
        )

    def edges(self) -> Iterator[Edges]:
        """Iterate over blocks' int32 (rows, cols) of pairs, ``rows < cols``, every pair once."""
        self.require_complete()
        for i, j in self.grid.blocks():
            count = self._known[i, j]
            if not count:
                continue
            a, b = self.grid.shape(i, j)
            cell = self._read(self._within, (i, j))[:a]
            first = self.grid.panel(i).start, self.grid.panel(j).start
            step = a if count <= _TOGETHER else max(1, _TOGETHER // b)
            for top in range(0, a, step):
                rows, cols = np.nonzero(np.unpackbits(cell[top : top + step], axis=1, count=b))
                count -= len(rows)
                if len(rows):
                    rows += first[0] + top
                    cols += first[1]
                    yield rows.astype(np.int32), cols.astype(np.int32)
            if count:
                raise self._lost(i, j)

    def graph(self) -> RadiusGraph:
        """Return the graph, which reads the pairs from disk at every pass."""
        self.require_complete()
        return RadiusGraph(self.edges, self.grid.n, self.radius2)
