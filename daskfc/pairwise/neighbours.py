"""The exact k nearest neighbours of every sample, from blocks of distances in any order.

Each block leaves two pieces on disk, candidate neighbours for either of its panels, and its marker.
Neighbours known so far only exclude entries that cannot be among the nearest any more; so pieces
depend on the order of the blocks, but the graph of all pieces does not.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec

from daskfc.arrays import Floats, Ints
from daskfc.checks import check_params, integer
from daskfc.clustering.views.graphs import NeighbourGraph
from daskfc.errors import InvalidInput, StoreError
from daskfc.pairwise.blockgroup import BlockGroup
from daskfc.pairwise.grid import SymmetricGrid
from daskfc.pairwise.nearest import NOBODY, Nearest, limit_of_rows, merge, nearest_of_block


@dataclass
class _Known:
    """The nearest found so far for the rows of one panel, and the panels searched."""

    distances: Floats  # (rows, k), rising along a row; infinity where none is known
    others: Ints  # (rows, k)
    seen: set[int] = field(default_factory=set)

    @classmethod
    def nothing(cls, rows: int, k: int) -> "_Known":
        return cls(np.full((rows, k), np.inf), np.full((rows, k), NOBODY))

    def limits(self, first: int) -> Floats:
        """Return the limits for neighbours from ``first`` on; ties go to the smaller index."""
        kth = self.distances[:, -1]
        settled = self.others[:, -1] < first
        return np.where(settled, np.nextafter(kth, -np.inf), kth)

    def add(self, panel: int, found: Nearest) -> None:
        if panel in self.seen:
            return  # written twice at once; counting a neighbour twice makes limits too small
        self.seen.add(panel)
        rows = found.owners
        if len(rows):
            self.distances[rows], self.others[rows] = merge(
                self.distances[rows], self.others[rows], found.distances, found.others
            )


class NeighbourTiles(BlockGroup):
    """The exact nearest neighbours, the same for any order of blocks; n × n is never stored."""

    kind = "neighbour tiles"

    @classmethod
    def create(
        cls, path: str, grid: SymmetricGrid, n_neighbors: int, *, resume: bool = False
    ) -> "NeighbourTiles":
        """Create a new group, or `resume` one like it; `n_neighbors` is below ``grid.n``."""
        check_params(cls.__name__, {"n_neighbors": n_neighbors}, {"n_neighbors": integer(low=1)})
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

        settings = {"n_neighbors": int(n_neighbors)}
        return cls._create(path, grid, settings, fill, resume=resume)

    def __init__(self, path: str, group: zarr.Group, settings: Mapping[str, Any]) -> None:
        super().__init__(path, group, settings)
        self.n_neighbors = int(settings["n_neighbors"])
        self._candidates = self._array("candidates")
        self._panels: dict[int, _Known] = {}
        self._lock = threading.Lock()

    def write(self, i: int, j: int, block: NDArray[Any]) -> bool:
        """Store the neighbours of both panels from one block; return False if done before."""
        values = self._checked(i, j, block)
        if (i, j) in self._known:
            return False
        k = self.n_neighbors
        with self._lock:
            row_limits = self._panel(i).limits(self.grid.panel(j).start)
            column_limits = None if i == j else self._panel(j).limits(self.grid.panel(i).start)
        if np.isinf(row_limits).any():
            own = 1 if i == j else 0  # the sample itself is one of the k + 1 nearest
            row_limits = np.minimum(row_limits, limit_of_rows(values, k + own))
        if column_limits is not None and np.isinf(column_limits).any():
            column_limits = np.minimum(column_limits, limit_of_rows(values.T, k))
        found = nearest_of_block(values, k, row_limits, column_limits)
        if found is None:
            raise self._refuse_values(i, j)
        return self.write_nearest(i, j, *found)

    def write_nearest(self, i: int, j: int, rows: Nearest, columns: Nearest) -> bool:
        """Store results of `nearest_alone` or `nearest_of_block`; return False if done before."""
        if (i, j) in self._known:
            return False
        first_i, first_j = self.grid.panel(i).start, self.grid.panel(j).start
        pieces = {(i, j): self._counted_from(self._fitting(rows, i, j), first_j)}
        if i != j:
            pieces[j, i] = self._counted_from(self._fitting(columns, j, i), first_i)
        for where, piece in pieces.items():
            self._candidates[where] = self._cell(piece)
        self._mark(i, j)
        with self._lock:  # after the marker: limits must not rest on what a kill could undo
            for (p, q), piece in pieces.items():
                self._panel(p).add(q, piece)
        return True

    def _fitting(self, found: Nearest, p: int, q: int) -> Nearest:
        """Return neighbours of panel p in panel q, after a check of their numbers and indices."""
        there = found.others[found.others != NOBODY]
        inside = found.distances.shape == found.others.shape == (len(found.owners), found.width)
        inside = inside and found.width <= self.n_neighbors
        for places, size in ((found.owners, self.grid.size(p)), (there, self.grid.size(q))):
            inside = inside and (not places.size or 0 <= places.min() <= places.max() < size)
        if not inside:
            raise InvalidInput(
                f"neighbours of panel {p} in panel {q}, given to the {self.kind}, must be at most "
                f"{self.n_neighbors} of each of {self.grid.size(p)} rows, among "
                f"{self.grid.size(q)}; got others. Look at the step that found them."
            )
        return found

    @staticmethod
    def _counted_from(found: Nearest, first: int) -> Nearest:
        others = np.where(found.others == NOBODY, NOBODY, found.others + first)
        return Nearest(found.owners, found.distances, others)

    def _cell(self, piece: Nearest) -> Floats:
        # distance and index are in one chunk, so that a piece never mixes two writers
        cell = np.full(self._candidates.shape[2:], np.inf)
        width = piece.distances.shape[1]
        cell[piece.owners, :width, 0] = piece.distances
        cell[piece.owners, :width, 1] = np.where(piece.others == NOBODY, np.inf, piece.others)
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

    def _from_disk(self, p: int) -> _Known:
        known = _Known.nothing(self.grid.size(p), self.n_neighbors)
        for q in range(self.grid.n_panels):
            if (min(p, q), max(p, q)) in self._known:
                known.add(q, self._piece(p, q))
        return known

    def _panel(self, p: int) -> _Known:
        if p not in self._panels:
            self._panels[p] = self._from_disk(p)
        return self._panels[p]

    def graph(self) -> NeighbourGraph:
        """Return the graph of all samples; refuse while blocks are missing, lost or corrupt."""
        self.require_complete()
        n, k = self.grid.n, self.n_neighbors
        indices = np.empty((n, k), np.int32)
        distances = np.empty((n, k), np.float64)
        for p in range(self.grid.n_panels):
            known = self._from_disk(p)
            if np.isinf(known.distances[:, -1]).any():
                raise StoreError(
                    f"the {self.kind} at {self.path} gives fewer than {k} neighbours to samples "
                    f"of panel {p}. Remove the folder and compute it again."
                )
            indices[self.grid.panel(p)] = known.others
            distances[self.grid.panel(p)] = known.distances
        return NeighbourGraph(indices, distances)
