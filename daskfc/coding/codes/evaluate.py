"""Squared distances of coded rows modulo every prime, at an evaluator (Eq. 4)."""

from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.codes.hiding import GROUP, HidingPolynomial, add_words
from daskfc.coding.engines.engines import Engine, Operand, prepare
from daskfc.coding.engines.tiling import TILE_ROWS, block_tiles
from daskfc.coding.residues.compiled import mirror, no_words
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.threads import do_all

_Array = NDArray[Any]
Tile: TypeAlias = tuple[int, int, int, int]  # top, left, bottom, right


def _operand(rows: "_Array | Operand", system: ResidueSystem, engine: Engine, side: str) -> Operand:
    return rows if isinstance(rows, Operand) else prepare(rows, system, engine, side)


def coded_distances(
    left: "_Array | Operand",
    right: "_Array | Operand",
    system: ResidueSystem,
    engine: Engine,
    *,
    hiding: HidingPolynomial | None = None,
    symmetric: bool = False,
) -> NDArray[np.unsignedinteger]:
    """Return |z_i - z_j|**2 mod p, canonical (r, a, b), of coded rows (r, a, k) and (r, b, k).

    `hiding` is added before the only reduction; with `symmetric`, the panels are the same and half
    the tiles mirrored. Threads may call it for different blocks.
    """
    A = _operand(left, system, engine, "left")
    B = _operand(right, system, engine, "right")
    shape = (A.n, B.n)
    out = np.empty((len(system.primes), *shape), dtype=system.dtype)
    none = no_words(system.dtype)

    def plain(strip: tuple[int, list[Tile]]) -> None:
        a, tiles = strip
        for tile in tiles:
            engine.residues(A.chunks[a], B.chunks[a], tile, system.primes[a], *none, out[a])

    def hidden(a: int) -> None:  # words of a prime are drawn in the order of its tiles
        assert hiding is not None
        p, words = system.primes[a], hiding.words(a)
        for tile in block_tiles(shape, symmetric):
            for strip, drawn, factors in words.strips(tile):
                engine.residues(
                    A.chunks[a], B.chunks[a], strip, p, drawn[:GROUP], factors[:GROUP], out[a]
                )
                add_words(drawn[GROUP:], factors[GROUP:], p, out[a], strip)

    primes = range(len(system.primes))
    if hiding is None:
        strips = _strips(A, engine, shape, symmetric)
        do_all(plain, ((a, tiles) for a in primes for tiles in strips))
    else:
        do_all(hidden, primes)
    if symmetric:
        do_all(lambda a: mirror(out[a]), primes)
    return out


def _strips(
    left: Operand, engine: Engine, shape: tuple[int, int], symmetric: bool
) -> list[list[Tile]]:
    """Return the tiles of a block whose entries nothing hides, those of the same rows together."""
    if symmetric or not engine.whole_blocks or len(left.chunks[0]) > 1:
        by_top = groupby(block_tiles(shape, symmetric), itemgetter(0))
        return [list(tiles) for _, tiles in by_top]
    tops = range(0, shape[0], TILE_ROWS)
    return [[(top, 0, min(top + TILE_ROWS, shape[0]), shape[1])] for top in tops]
