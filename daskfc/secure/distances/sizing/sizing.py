"""The choice of a tile, and of columns or blocks, that the memory of all parties allows."""

import logging
from collections.abc import Sequence

import numpy as np

from daskfc.coding import LagrangeCode, ResidueSystem
from daskfc.errors import InvalidInput, ResourceRefused
from daskfc.federation import SERVER, Federation
from daskfc.federation.party.process_memory import PROCESS_BYTES, fits
from daskfc.secure.distances.parties import server
from daskfc.secure.distances.routes.columns import entry_bytes
from daskfc.secure.distances.routes.evaluation import WINDOW
from daskfc.secure.distances.sizing.landmark_memory import landmark_needs, view_bytes
from daskfc.secure.distances.sizing.memory import (
    NOBODY,
    Needs,
    Reader,
    Workload,
    check,
    choose_tile,
    needs,
)

log = logging.getLogger("daskfc.secure")

LANDMARKS_A_ROUND = 128  # exact-distance study: 6 to 7 rounds on MNIST; of few samples ...
_ROOM = 1 << 21  # ... as many more as have so many distances, whose bytes cost less than a round
_MARGIN = 1 << 15  # and of very few more than the rank, since some lie in the span of others
COLUMN_ROWS = 8192  # ours: samples of one panel of landmark columns

_MOST_BLOCKS = 20_000  # ours: of distances; a few milliseconds each, so minutes in all
_FEW_ROWS, _MOST_SMALL = 32, 1_000  # ours: with fewer rows a block is all messages and no work
_ROUNDED = 2**36  # ours: larger whole distances may need residues, which need ...
_SPARES = 8  # ... landmarks of full rank modulo primes: one more fails 1 time in p, 8 never


class Sizing:
    """Needs of the distances of some rows, compared with the parties' limits, and the tile."""

    def __init__(
        self,
        federation: Federation,
        code: LagrangeCode,
        system: ResidueSystem,
        n_samples: int,
        n_features: int,
        names: Sequence[str],
        tile: int | None,  # None for the largest that every party's memory allows
        *,
        keeps: bool = False,  # whether columns are kept for the next fit, beside those of the last
        in_parts: bool = False,  # whether samples lack columns
    ) -> None:
        self._kept_bytes = 2 * entry_bytes(system) if keeps else 0
        self._federation, self._names, self._tile = federation, names, tile
        self._system, self._n_samples, self._n_features = system, n_samples, n_features
        self._sizes = {
            "n_samples": n_samples,
            "n_features": n_features,
            "n_segments": code.n_segments,
            "n_primes": len(system.primes),
            "n_answers": code.n_evaluators,
            "n_keys": code.n_colluding,
            "residue_bytes": np.dtype(system.dtype).itemsize,
            "window": WINDOW,
        }
        self._in_parts = in_parts

    def tile(self, keep: str, n_neighbors: int | None, reader: Reader) -> int:
        """Return the rows of a block; refuse too small tiles, and what a party cannot hold."""
        workload = self._workload(keep, n_neighbors, reader)
        limits = self._limits()
        known = [limits[name] for name in self._names]
        tile = self._tile or choose_tile(
            workload,
            evaluator_limit=min((limit for limit in known if limit is not None), default=None),
            server_limit=limits[SERVER],
        )
        rows = -(-self._n_samples // tile)
        most = _MOST_BLOCKS if tile >= _FEW_ROWS else _MOST_SMALL
        if rows * (rows + 1) // 2 > most:
            least = -(-self._n_samples // int((2 * most) ** 0.5 - 1))
            raise InvalidInput(
                f"tiles of {tile} rows make {rows * (rows + 1) // 2:,} blocks of {self._n_samples} "
                f"samples, each of which costs messages of every evaluator. Raise 'tile' to at "
                f"least {least}, or leave it out."
            )
        disk = self._federation.publish(server.server_disk)
        self._check(needs(workload, tile), disk.free)
        return tile

    def decoders(
        self, tile: int, keep: str, n_neighbors: int | None, reader: Reader
    ) -> tuple[str, ...]:
        """Return the decoders: the server, and as many of its workers as memory allows."""
        workload = self._workload(keep, n_neighbors, reader)
        limits = self._federation.limits()
        workers = () if self._in_parts else self._federation.server_workers
        for count in range(len(workers), 0, -1):
            need = needs(workload, tile, count + 1)
            needed = dict.fromkeys(self._names, need.evaluator_bytes)
            needed |= {SERVER: need.server_bytes}
            needed |= dict.fromkeys(workers[:count], need.worker_bytes)
            if all(fits(of, limits.get(name)) for name, of in needed.items()):
                self._federation.foresee(needed, need.operation.rstrip(","))
                return (SERVER, *workers[:count])
        if workers:
            log.info("no room for blocks at the server's workers, which it decodes alone")
        return (SERVER,)

    def _workload(self, keep: str, n_neighbors: int | None, reader: Reader) -> Workload:
        return Workload(
            **self._sizes,
            mode=keep,
            n_neighbors=n_neighbors,
            reader=NOBODY if keep == "radius" else reader,
            in_parts=self._in_parts,
        )

    def landmarks(self, rank: int) -> int:
        """Return how many landmarks a round asks for, where `rank` dimensions are known."""
        spares = _SPARES if self._system.bound > _ROUNDED else min(_MARGIN // self._n_samples, 16)
        most = max(LANDMARKS_A_ROUND, _ROOM // self._n_samples)
        return max(1, min(most, self._n_features + 1 + spares - rank))

    def holds(self, reader: Reader) -> bool:
        """Return whether the server's memory has room for a reader of all distances."""
        points = self._n_samples * min(self._n_samples, self._n_features) * 8
        return fits(PROCESS_BYTES + points + reader.memory, self._limits()[SERVER])

    def check_columns(self, keep: str, n_neighbors: int | None, reader: Reader) -> None:
        """Refuse columns of landmarks, or their use, if some party cannot hold them."""
        need = self._columns(keep, n_neighbors, reader, self._kept_bytes)
        self._check(need, self._disk_for(reader))

    def cheaper(self, keep: str, n_neighbors: int | None, reader: Reader) -> tuple[str, str]:
        """Return "columns" or "blocks" for all distances, and the reason if blocks."""
        if self._in_parts:
            return "blocks", "samples lack columns, and no points have such distances"
        if self._n_samples <= 2 * (self._n_features + 2):
            return "blocks", f"{self._n_samples} samples are no more than 2 (d + 2)"
        try:
            kept_bytes = max(entry_bytes(self._system), self._kept_bytes)
            need = self._columns(keep, n_neighbors, reader, kept_bytes)
            self._check(need, self._disk_for(reader))
        except ResourceRefused as refused:
            return "blocks", str(refused)
        return "columns", ""

    def _disk_for(self, reader: Reader) -> int | None:
        return self._federation.publish(server.server_disk).free if reader.disk else None

    def _columns(
        self, keep: str, n_neighbors: int | None, reader: Reader, kept_bytes: int = 0
    ) -> Needs:
        view = view_bytes(keep, self._n_samples, n_neighbors, reader)
        if view is not None and self._system.bound > _ROUNDED:  # residues of both factors
            rank = min(self._n_samples, self._n_features)
            view += (
                2 * self._n_samples * rank * self._sizes["residue_bytes"] * self._sizes["n_primes"]
            )
        return landmark_needs(
            **self._sizes,
            panel=COLUMN_ROWS,
            batch=self.landmarks(0),
            kept_bytes=kept_bytes,
            view_bytes=view,
            reader=reader,
        )

    def _check(self, need: Needs, free_disk: int | None = None) -> None:
        limits = self._limits()
        check(need, limits, free_disk=free_disk)
        parties = {n: need.server_bytes if n == SERVER else need.evaluator_bytes for n in limits}
        self._federation.foresee(parties, need.operation.rstrip(","))

    def _limits(self) -> dict[str, int | None]:
        limits = self._federation.limits()
        return {name: limits.get(name) for name in (*self._names, SERVER)}
