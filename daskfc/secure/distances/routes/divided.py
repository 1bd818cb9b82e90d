"""Blocks of distances that the server's further workers decode, and what they return of each.

A worker keeps nothing of a block: all results so far are on the server's disk, so a worker may end
at any moment and a run goes on with any number of workers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from daskfc.coding import LagrangeCode, ResidueSystem, SecretKey
from daskfc.federation import Message, array
from daskfc.pairwise import (
    NOBODY,
    DistanceTiles,
    Nearest,
    NeighbourTiles,
    RadiusTiles,
    nearest_of_block,
    within_of_block,
)
from daskfc.secure.distances.parties.messages import CodedDistances, DecodedBlock
from daskfc.secure.distances.parties.server import Tiles, decode_answers

_REVEALS = "to the server {} of a block, and which evaluators contradict the others"


class NearestOfBlock(
    Message,
    route="server worker → server",
    reveals=_REVEALS.format("the nearest samples and their distances"),
):
    """The nearest neighbours of each row and of each column of a block, inside the block."""

    rows: np.ndarray = array("row", dtype="int32")
    row_distances: np.ndarray = array("row", "row_rank", dtype="float64")
    row_others: np.ndarray = array("row", "row_rank", dtype="int32")  # -1 where there is none
    columns: np.ndarray = array("column", dtype="int32")
    column_distances: np.ndarray = array("column", "column_rank", dtype="float64")
    column_others: np.ndarray = array("column", "column_rank", dtype="int32")
    wrong: np.ndarray = array("evaluator", dtype="int64")


class PairsOfBlock(
    Message,
    route="server worker → server",
    reveals=_REVEALS.format("which samples are within the radius"),
):
    """One bit for each pair, as `daskfc.pairwise.within_of_block` returns them."""

    bits: np.ndarray = array("row", "eight_columns", dtype="uint8")
    wrong: np.ndarray = array("evaluator", dtype="int64")


class DistancesOfBlock(
    Message, route="server worker → server", reveals=_REVEALS.format("all squared distances")
):
    """Whole squared distances, times S², in the fewest bytes."""

    whole: np.ndarray = array("row", "column", dtype="uint32 | int64 | float64")
    wrong: np.ndarray = array("evaluator", dtype="int64")


Part: TypeAlias = NearestOfBlock | PairsOfBlock | DistancesOfBlock


def block_part(
    n_neighbors: int | None, radius2: float | None
) -> tuple[Callable[..., Part], dict[str, Any]]:
    """Return the worker's step for what the server keeps, and that step's parameter."""
    if n_neighbors is not None:
        return nearest_in_block, {"n_neighbors": n_neighbors}
    if radius2 is not None:
        return pairs_in_block, {"radius2": radius2}
    return distances_of_block, {}


def nearest_in_block(
    answers: Mapping[str, CodedDistances],
    secret: SecretKey,
    *,
    i: int,
    j: int,
    n_neighbors: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> NearestOfBlock:
    """Decode a block and return its nearest neighbours; see `decode_block` for errors."""
    whole, wrong = decode_answers(answers, secret, code, system, evaluators, _name(i, j))
    rows, columns = nearest_of_block(system.to_real(whole), n_neighbors, diagonal=i == j)
    return NearestOfBlock(*_in_words(rows), *_in_words(columns), wrong)


def pairs_in_block(
    answers: Mapping[str, CodedDistances],
    secret: SecretKey,
    *,
    i: int,
    j: int,
    radius2: float,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> PairsOfBlock:
    """Decode a block and return the pairs within the radius; see `decode_block` for errors."""
    whole, wrong = decode_answers(answers, secret, code, system, evaluators, _name(i, j))
    return PairsOfBlock(within_of_block(system.to_real(whole), radius2, diagonal=i == j), wrong)


def distances_of_block(
    answers: Mapping[str, CodedDistances],
    secret: SecretKey,
    *,
    i: int,
    j: int,
    code: LagrangeCode,
    system: ResidueSystem,
    evaluators: Sequence[str],
) -> DistancesOfBlock:
    """Decode a block and return it; see `decode_block` for errors."""
    whole, wrong = decode_answers(answers, secret, code, system, evaluators, _name(i, j))
    return DistancesOfBlock(np.asarray(whole, dtype=whole_dtype(system)), wrong)


def keep_part(tiles: Tiles, part: Part, *, i: int, j: int, system: ResidueSystem) -> DecodedBlock:
    """Store what a worker of the server found in a block."""
    if isinstance(part, NearestOfBlock):
        assert isinstance(tiles, NeighbourTiles)
        rows = _of_words(part.rows, part.row_distances, part.row_others)
        columns = _of_words(part.columns, part.column_distances, part.column_others)
        tiles.write_nearest(i, j, rows, columns)
    elif isinstance(part, PairsOfBlock):
        assert isinstance(tiles, RadiusTiles)
        tiles.write_within(i, j, part.bits)
    else:
        assert isinstance(tiles, DistanceTiles)
        tiles.write(i, j, system.to_real(part.whole))
    return DecodedBlock(part.wrong)


def whole_dtype(system: ResidueSystem) -> str:
    """Return the dtype in which whole squared distances travel."""
    if system.is_wide:
        return "float64"
    return "uint32" if system.bound < 2**32 else "int64"


def _name(i: int, j: int) -> str:
    return f"block ({i}, {j})"


def _in_words(found: Nearest) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    others = np.where(found.others == NOBODY, -1, found.others).astype(np.int32)
    return found.owners.astype(np.int32), found.distances, others


def _of_words(owners: NDArray[Any], distances: NDArray[Any], others: NDArray[Any]) -> Nearest:
    whose = others.astype(np.int64)
    whose[whose < 0] = NOBODY
    return Nearest(owners.astype(np.int64), distances, whose)
