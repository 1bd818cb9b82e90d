"""The radius graph, all pairs within a radius, from blocks of distances: one bit per pair."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec

from daskfc.arrays import Floats, Ints
from daskfc.checks import check_params, real
from daskfc.clustering.views.graphs import RadiusGraph
from daskfc.errors import InvalidInput, StoreError
from daskfc.pairwise.blockgroup import BlockGroup
from daskfc.pairwise.grid import SymmetricGrid

_TOGETHER = 1 << 18  # ours: pairs of one part, 8 MiB while they are unpacked

Edges = tuple[NDArray[np.int32], NDArray[np.int32]]


def within_of_block(block: Floats | Ints, radius2: float, *, diagonal: bool) -> NDArray[np.uint8]:
    """Return which entries lie within a squared radius, inclusive, as bits (a, ceil(b / 8))."""
    within = block <= radius2
    return np.packbits(np.triu(within, 1) if diagonal else within, axis=1)


class RadiusTiles(BlockGroup):
    """The pairs within squared distance ``radius2``, as bits in about n (n + tile) / 16 bytes."""

    kind = "radius tiles"

    @classmethod
    def create(
        cls, path: str, grid: SymmetricGrid, radius2: float, *, resume: bool = False
    ) -> "RadiusTiles":
        """Create a new group, or `resume` one like it."""
        check_params(cls.__name__, {"radius2": radius2}, {"radius2": real(low=0)})
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

        return cls._create(path, grid, {"radius2": float(radius2)}, fill, resume=resume)

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        super().__init__(path, group, settings)
        self.radius2 = float(settings["radius2"])
        self._within = self._array("within")

    @property
    def n_edges(self) -> int:
        """Pairs found in the blocks done so far, each counted once."""
        self._refresh()
        return sum(self._known.values())

    def write(self, i: int, j: int, block: NDArray[Any]) -> bool:
        """Store which squared distances of a block lie within the radius; return False if done."""
        values = self._checked(i, j, block)
        if (i, j) in self._known:
            return False
        if not values.min() >= 0:
            raise self._refuse_values(i, j)
        return self.write_within(i, j, within_of_block(values, self.radius2, diagonal=i == j))

    def write_within(self, i: int, j: int, bits: NDArray[np.uint8]) -> bool:
        """Store the bits of `within_of_block`; return False if done before."""
        a, b = self.grid.shape(i, j)
        if bits.shape != (a, -(-b // 8)) or bits.dtype != np.uint8:
            raise InvalidInput(
                f"the bits of block ({i}, {j}) of the {self.kind} must be uint8 of the shape "
                f"{(a, -(-b // 8))}; got {bits.dtype} {bits.shape}."
            )
        if (i, j) in self._known:
            return False
        count = int(np.unpackbits(bits, axis=1, count=b).sum(dtype=np.int64))
        cell = np.zeros(self._within.shape[2:], np.uint8)
        cell[: bits.shape[0], : bits.shape[1]] = bits
        self._within[i, j] = cell
        self._mark(i, j, count)
        return True

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

    def pairs(self) -> Edges:
        """Return all pairs (rows, cols) at once."""
        none = np.empty(0, np.int32)
        rows, cols = zip((none, none), *self.edges(), strict=True)
        return np.concatenate(rows), np.concatenate(cols)
