"""Engines: exact integer matrix products at the speed of the processor's own kernels.

A squared distance is one inner product of k + 2 columns, so the matrix product includes the norms:
|z_i - z_j|**2 = [z_i, g_i, 1] . [-2 z_j, 1, g_j] mod p, with g = |z|**2 mod p.

========  =================================  ============  ====================================
engine    kernel                             primes        columns in one exact product
========  =================================  ============  ====================================
``int8``  VNNI, or onnxruntime               below 2**8    2**20 p / (250 * 125) = 8422
``f32``   BLAS sgemm                         below 2**8    2**24 / 125**2 = 1073
``f64``   BLAS dgemm                         all           2**20 p / 125**2, or 2**53 / (p/2)**2
========  =================================  ============  ====================================

More columns are cut into chunks, each reduced modulo p before they are summed. All engines read
the same bytes and give the same residues.
"""

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.engines import int8, int8_vnni
from daskfc.coding.engines.tiling import TILE_COLUMNS
from daskfc.coding.residues.compiled import look_up, no_words, reduce_tile, squared_norms
from daskfc.coding.residues.modular import BYTE_PRIMES
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.scratch import scratch
from daskfc.errors import InvalidInput

logger = logging.getLogger("daskfc.coding")

_Array = NDArray[Any]


def _tables(p: int, dtype: np.dtype[Any]) -> tuple[_Array, _Array]:
    """Return tables of z and of -2z modulo p by byte z, balanced."""
    z = np.arange(256, dtype=np.int64) % p
    minus = -2 * z % p
    return (z - p * (z > p // 2)).astype(dtype), (minus - p * (minus > p // 2)).astype(dtype)


class Engine(ABC):
    """A way to compute exact products of residues; `name` is its key in `ENGINES`."""

    name: ClassVar[str]
    dtype: ClassVar[type]  # of the products
    whole_blocks: ClassVar[bool] = False  # products of a block need no work memory

    @abstractmethod
    def refusal(self, system: ResidueSystem) -> str | None:
        """Return why the engine cannot compute with the system's primes here, or None."""

    @abstractmethod
    def chunk(self, p: int) -> int:
        """Return the most columns of one exact product, those of the norms included."""

    @abstractmethod
    def left(self, z: _Array, p: int) -> list[Any]:
        """Return [z, g, 1] of rows z (n, k), in chunks of columns."""

    @abstractmethod
    def right(self, z: _Array, p: int) -> list[Any]:
        """Return [-2z, 1, g] of rows z (n, k), in chunks of columns."""

    @abstractmethod
    def product(self, left: Any, right: Any, tile: tuple[int, int, int, int], out: _Array) -> None:
        """Write the product of a tile's rows and columns, of one chunk, into `out`."""

    def residues(
        self, left: list[Any], right: list[Any], tile: tuple[int, int, int, int],
        p: int, words: _Array, factors: _Array, out: _Array,
    ) -> None:  # fmt: skip
        """Write a tile's (top, left, bottom, right) products and words mod p; see `reduce_tile`."""
        top, first, bottom, last = tile
        acc = scratch("products", (bottom - top, last - first), self.dtype)
        self.product(left[0], right[0], tile, acc)
        if len(left) == 1:
            reduce_tile(acc, words, factors, p, out, top, first)
            return
        part = np.empty(acc.shape, dtype=out.dtype)  # chunks are reduced, then summed as integers
        total = np.zeros(acc.shape, dtype=factors.dtype)
        for i, (A, B) in enumerate(zip(left, right, strict=True)):
            if i:
                self.product(A, B, tile, acc)
            reduce_tile(acc, words[:0], factors[:0], p, part)
            total += part
        reduce_tile(total, words, factors, p, out, top, first)

    def _cuts(self, width: int, p: int) -> list[slice]:
        parts = -(-width // self.chunk(p))
        size = -(-width // parts)
        return [slice(start, min(start + size, width)) for start in range(0, width, size)]

    def __repr__(self) -> str:
        return f"Engine({self.name!r})"


class _RowEngine(Engine):
    """An engine on balanced residues whose kernel transposes the right operand."""

    operand: ClassVar[type]  # of the operands

    def _balanced(self, z: _Array, p: int, side: int, out: _Array) -> None:
        if z.dtype == np.uint8:
            look_up(z, _tables(p, out.dtype)[side], out)
            return
        values = z.astype(np.int64)
        if side:
            values = -2 * values % p
        values -= p * (values > p // 2)
        out[:, : z.shape[1]] = values

    def _operand(self, z: _Array, p: int, side: int) -> list[_Array]:
        n, k = z.shape
        whole: _Array = np.empty((n, k + 2), dtype=self.operand)
        self._balanced(z, p, side, whole)
        g = squared_norms(z, p)
        whole[:, k + side] = g - p * (g > p // 2)
        whole[:, k + 1 - side] = 1
        cuts = self._cuts(k + 2, p)
        return [whole] if len(cuts) == 1 else [np.ascontiguousarray(whole[:, cut]) for cut in cuts]

    def left(self, z: _Array, p: int) -> list[_Array]:
        return self._operand(z, p, 0)

    def right(self, z: _Array, p: int) -> list[_Array]:
        return self._operand(z, p, 1)

    def product(
        self, left: _Array, right: _Array, tile: tuple[int, int, int, int], out: _Array
    ) -> None:
        top, first, bottom, last = tile
        np.matmul(left[top:bottom], right[first:last].T, out=out)


class _F32(_RowEngine):
    name = "f32"
    dtype = operand = np.float32

    def refusal(self, system: ResidueSystem) -> str | None:
        return None if max(system.primes) < 1 << 8 else "its primes must be below 2**8"

    def chunk(self, p: int) -> int:
        return int((1 << 24) // (p // 2) ** 2)


class _F64(_RowEngine):
    name = "f64"
    dtype = operand = np.float64

    def refusal(self, system: ResidueSystem) -> str | None:
        return None

    def chunk(self, p: int) -> int:
        return int((p << 20 if p < 1 << 8 else 1 << 53) // (p // 2) ** 2)


class _Int8Onnx(Engine):
    """Canonical uint8 on the left; balanced int8 on the right, transposed tile by tile."""

    name = "int8"
    dtype = np.int32

    def refusal(self, system: ResidueSystem) -> str | None:
        return int8.available() if max(system.primes) < 1 << 8 else "its primes must be below 2**8"

    def chunk(self, p: int) -> int:
        return int((p << 20) // ((p - 1) * (p // 2)))

    def _cuts(self, width: int, p: int) -> list[slice]:
        return super()._cuts(-(-width // 4) * 4, p)  # columns in fours, as the kernel reads them

    def left(self, z: _Array, p: int) -> list[_Array]:
        n, k = z.shape
        chunks = []
        for cut in self._cuts(k + 2, p):
            part = np.zeros((n, cut.stop - cut.start), dtype=np.uint8)
            columns = z[:, cut]
            part[:, : columns.shape[1]] = columns
            for column, values in ((k, squared_norms(z, p)), (k + 1, 1)):
                if cut.start <= column < cut.stop:
                    part[:, column - cut.start] = values
            chunks.append(part)
        return chunks

    def right(self, z: _Array, p: int) -> list[_Array]:
        n, k = z.shape
        cuts = self._cuts(k + 2, p)
        table = _tables(p, np.dtype(np.int8))[1]
        chunks = [np.empty(n * (cut.stop - cut.start), dtype=np.int8) for cut in cuts]
        # values beyond column k + 1 of a line are multiplied by zeros of the left operand
        lines = scratch("lines", (min(TILE_COLUMNS, n), cuts[-1].stop), np.int8)
        for start in range(0, n, TILE_COLUMNS):
            rows = z[start : start + TILE_COLUMNS]
            look_up(rows, table, lines)
            g = squared_norms(rows, p)
            lines[: len(rows), k] = 1
            lines[: len(rows), k + 1] = g - p * (g > p // 2)
            for cut, chunk in zip(cuts, chunks, strict=True):
                width = cut.stop - cut.start
                tile = chunk[start * width : (start + len(rows)) * width]
                tile.reshape(width, len(rows))[...] = lines[: len(rows), cut].T
        return chunks

    def product(
        self, left: _Array, right: _Array, tile: tuple[int, int, int, int], out: _Array
    ) -> None:
        top, first, bottom, last = tile
        width = left.shape[1]
        int8.multiply(
            left[top:bottom], right[first * width : last * width].reshape(width, last - first), out
        )


class _Int8Vnni(Engine):
    """Shares as they are on the left, balanced int8 panels on the right; norms added to sums."""

    name = "int8"
    dtype = np.int32
    whole_blocks = True

    def refusal(self, system: ResidueSystem) -> str | None:
        small = max(system.primes) < 1 << 8
        return int8_vnni.available() if small else "its primes must be below 2**8"

    def chunk(self, p: int) -> int:
        return int((p << 20) // ((p - 1) * (p // 2)))

    def _parts(self, z: _Array, p: int) -> list[tuple[_Array, _Array]]:
        """Return chunks of columns, each with norms, which are 0 but for the last chunk."""
        cuts = self._cuts(z.shape[1], p)
        norms = squared_norms(z, p)
        return [(z[:, cut], norms if cut is cuts[-1] else 0 * norms) for cut in cuts]

    def left(self, z: _Array, p: int) -> list[int8_vnni.Rows]:
        return [int8_vnni.Rows.of(*part) for part in self._parts(z, p)]

    def right(self, z: _Array, p: int) -> list[int8_vnni.Panels]:
        return [int8_vnni.Panels.of(*part, p) for part in self._parts(z, p)]

    def residues(
        self, left: list[Any], right: list[Any], tile: tuple[int, int, int, int],
        p: int, words: _Array, factors: _Array, out: _Array,
    ) -> None:  # fmt: skip
        if len(left) > 1:
            super().residues(left, right, tile, p, words, factors, out)
            return
        top, first, bottom, last = tile
        int8_vnni.residues(
            left[0].part(top, bottom), right[0], first // int8_vnni.PANEL,
            p, words, factors, out, top, first, last - first,
        )  # fmt: skip

    def product(self, left: Any, right: Any, tile: tuple[int, int, int, int], out: _Array) -> None:
        top, first, bottom, _ = tile
        int8_vnni.multiply(left.part(top, bottom), right, first // int8_vnni.PANEL, out)


def _int8() -> Engine:
    """Return the fastest engine for bytes; onnxruntime is imported when it is asked."""
    return _Int8Vnni() if int8_vnni.available() is None else _Int8Onnx()


ENGINES: dict[str, Engine] = {"int8": _int8(), "f32": _F32(), "f64": _F64()}
"""The engines by name, the fastest first."""


@dataclass(frozen=True)
class Operand:
    """Coded rows prepared for one side of an engine's products, for use in many blocks."""

    n: int  # rows
    chunks: list[list[Any]]  # by prime, in the engine's own layout


def prepare(shares: _Array, system: ResidueSystem, engine: Engine, side: str) -> Operand:
    """Return coded rows (r, n, k), canonical, as the "left" or "right" operand of an engine.

    It takes about as many bytes as the shares (int8), 4 times (f32) or 8 times (f64 on bytes).
    """
    if shares.ndim != 3 or len(shares) != len(system.primes) or shares.dtype != system.dtype:
        raise InvalidInput(
            f"shares must be {system.dtype} (primes={len(system.primes)}, rows, columns); got "
            f"{shares.dtype} {shares.shape}."
        )
    make = engine.left if side == "left" else engine.right
    chunks = [make(np.ascontiguousarray(z), p) for z, p in zip(shares, system.primes, strict=True)]
    return Operand(shares.shape[1], chunks)


@lru_cache(maxsize=64)
def _self_test(engine: Engine, primes: tuple[int, ...], n_columns: int) -> str | None:
    """Return None when the engine is exact on extreme residues, else the reason.

    Kernels may saturate (uint8 x int8 without VNNI) or sum in an order that rounds; extremes of the
    balanced and canonical residues, with equal signs, make the largest sums.
    """
    width = min(n_columns, 2 * engine.chunk(min(primes)) + 8)  # longer rows repeat the same chunks
    for p in primes:
        half = p // 2
        extremes = np.array([0, 1, half, half + 1, p - 1, p // 4, p - p // 4, 3])
        z = np.empty((24, width), dtype=np.uint8 if p < 1 << 8 else np.uint32)
        for i, value in enumerate(extremes):
            z[i] = value
            z[8 + i, ::2], z[8 + i, 1::2] = value, extremes[-1 - i]
        z[16:] = np.random.default_rng(p).integers(0, p, (8, width))
        wide = z.astype(np.int64)
        left, right = engine.left(z, p), engine.right(z, p)
        found = np.empty((24, 24), dtype=z.dtype)
        engine.residues(left, right, (0, 0, 24, 24), p, *no_words(z.dtype), found)
        for i in range(24):
            gap = (wide - wide[i]) % p
            expected = (gap * gap % p).sum(axis=1) % p
            if not np.array_equal(found[i], expected):
                return f"its products are wrong for p={p} and {n_columns} columns on this processor"
    return None


def select_engine(system: ResidueSystem, n_columns: int, prefer: str | None = None) -> Engine:
    """Return the fastest engine that is exact for k columns, tested at its first use."""
    names = list(ENGINES)
    if prefer is not None:
        if prefer not in ENGINES:
            raise InvalidInput(f"the engine must be one of {', '.join(names)}; got {prefer!r}.")
        names = names[names.index(prefer) :]
    if min(system.primes) > BYTE_PRIMES[0]:
        names = ["f64"]
    for name in names:
        engine = ENGINES[name]
        why = engine.refusal(system) or _self_test(engine, system.primes, n_columns)
        if why is None:
            return engine
        logger.warning("engine %s is not used: %s", name, why)
    raise InvalidInput(
        f"no engine computes exactly with the primes {system.primes} and {n_columns} columns on "
        "this processor."
    )
