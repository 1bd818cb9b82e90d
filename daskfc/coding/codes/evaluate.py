"""Squared distances of coded rows modulo every prime, at an evaluator (Eq. 4)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.codes.hiding import GROUP, HidingPolynomial, add_words
from daskfc.coding.engines.engines import Engine, Operand, prepare
from daskfc.coding.engines.tiling import block_tiles
from daskfc.coding.residues.compiled import mirror, no_words
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.errors import InvalidInput

__all__ = ["coded_distances"]

_Array = NDArray[Any]


def _operand(rows: "_Array | Operand", system: ResidueSystem, engine: Engine, side: str) -> Operand:
    if not isinstance(rows, Operand):
        return prepare(rows, system, engine, side)
    if (rows.engine, rows.side) != (engine.name, side):
        raise InvalidInput(
            f"the {side} operand was prepared as {rows.side} of engine {rows.engine!r}; the "
            f"engine is {engine.name!r}. Prepare it again."
        )
    return rows


def coded_distances(
    left: "_Array | Operand",
    right: "_Array | Operand",
    system: ResidueSystem,
    engine: Engine,
    *,
    hiding: HidingPolynomial | None = None,
    symmetric: bool = False,
    out: _Array | None = None,
) -> NDArray[np.unsignedinteger]:
    """Return |z_i - z_j|**2 mod p, canonical (r, a, b), of coded rows (r, a, k) and (r, b, k).

    `hiding` is added before the only reduction; with `symmetric`, the panels are the same and half
    the tiles mirrored. Threads may call it for different blocks.
    """
    A = _operand(left, system, engine, "left")
    B = _operand(right, system, engine, "right")
    shape = (A.n, B.n)
    if symmetric and A.n != B.n:
        raise InvalidInput(f"a symmetric block has as many rows as columns; got {shape}.")
    if out is None:
        out = np.empty((len(system.primes), *shape), dtype=system.dtype)
    elif out.shape != (len(system.primes), *shape) or not out.flags.c_contiguous:
        raise InvalidInput(
            f"'out' must be contiguous {(len(system.primes), *shape)}; got shape {out.shape}."
        )
    none = no_words(system.dtype)
    for a, p in enumerate(system.primes):
        words = hiding.words(a) if hiding else None
        whole = words is None and engine.whole_blocks and len(A.chunks[a]) == 1 and not symmetric
        for tile in [(0, 0, *shape)] if whole else block_tiles(shape, symmetric):
            if words is None:
                engine.residues(A.chunks[a], B.chunks[a], tile, p, *none, out[a])
                continue
            for strip, drawn, factors in words.strips(tile):
                engine.residues(
                    A.chunks[a], B.chunks[a], strip, p, drawn[:GROUP], factors[:GROUP], out[a]
                )
                add_words(drawn[GROUP:], factors[GROUP:], p, out[a], strip)
        if symmetric:
            mirror(out[a])
    return out
