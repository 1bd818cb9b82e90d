"""How blocks are cut and joined: tiles, strips of the decoder, results written in place."""

import numpy as np
import pytest

from daskfc.coding import (
    ENGINES,
    HidingPolynomial,
    LagrangeCode,
    SecretKey,
    coded_distances,
    prepare,
    reconstruct,
)
from daskfc.coding.codes import decode
from daskfc.coding.engines import engines, int8_vnni
from daskfc.coding.engines.tiling import TILE_COLUMNS, TILE_ROWS, block_tiles
from daskfc.errors import DecodingError
from tests.coding.conftest import byte_system

CODE = LagrangeCode(1, 1, 5)  # R = 3


# -- tiles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (512, 256), (513, 257), (100, 1000), (1500, 10)])
def test_tiles_cover_a_block_once(shape):
    seen = np.zeros(shape, int)
    for top, left, bottom, right in block_tiles(shape):
        assert 0 < bottom - top <= TILE_ROWS
        assert 0 < right - left <= TILE_COLUMNS
        seen[top:bottom, left:right] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("n", [1, 256, 257, 512, 513, 1024, 1300])
def test_tiles_of_a_symmetric_block_cover_what_is_not_mirrored(n):
    seen = np.zeros((n, n), int)
    for top, left, bottom, right in block_tiles((n, n), symmetric=True):
        assert top < bottom <= right
        seen[top:bottom, left:right] += 1
    assert (seen <= 1).all()
    assert seen[np.triu_indices(n)].all()
    below = np.subtract.outer(np.arange(n), np.arange(n)) >= TILE_ROWS
    assert not seen[below].any()


# -- an evaluator's block -----------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("chunks", [1, 2])
def test_only_a_kernel_without_work_memory_gets_whole_rows(monkeypatch, hidden, symmetric, chunks):
    """Several chunks, words and mirrored blocks need memory for products: a tile of them."""
    engine, system, n = engines._Int8Vnni(), byte_system(2), 600
    if why := int8_vnni.available():
        pytest.skip(why)
    monkeypatch.setattr(type(engine), "chunk", lambda self, p: 8 // chunks)
    seen, types = [], set()

    def residues(left, right, tile, p, words, factors, out):
        seen.append((p, tile))
        types.add((words.dtype.type, factors.dtype.type))

    monkeypatch.setattr(engine, "residues", residues, raising=False)
    z = np.zeros((2, n, 8), np.uint8)
    hiding = HidingPolynomial(CODE, system, 0, SecretKey.from_os(), (0, 0)) if hidden else None
    coded_distances(z, z, system, engine, hiding=hiding, symmetric=symmetric)
    plain = chunks == 1 and not hidden and not symmetric
    whole = [(top, 0, min(top + TILE_ROWS, n), n) for top in range(0, n, TILE_ROWS)]  # a thread's
    tiles = whole if plain else list(block_tiles((n, n), symmetric))
    assert seen == [(p, tile) for p in system.primes for tile in tiles]
    assert types == {(np.uint16, np.int32)}


# -- the server's block -------------------------------------------------------------------------


def answers_of(rows, system, engine="f64"):
    shares = CODE.encode(rows, system, SecretKey.from_os())
    return [coded_distances(z, z, system, ENGINES[engine]) for z in shares]


def squared(rows):
    return ((rows[:, None] - rows) ** 2).sum(axis=2)


@pytest.fixture(params=[7, 300])
def strips(request, monkeypatch):
    """Strips of the decoder that begin and end within rows."""
    monkeypatch.setattr(decode, "_STRIP", request.param)


def test_strips_are_joined(strips, passes, integer_rows):
    system = byte_system(4)
    answers = answers_of(integer_rows, system)
    D = squared(integer_rows)
    found = reconstruct(answers, range(5), CODE, system)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, D)


def test_the_first_answers_decide(integer_rows):
    """R of them; what more say is not read here (`find_wrong` does)."""
    system = byte_system(4)
    answers = answers_of(integer_rows, system)
    answers[1] = answers[1] ^ 1
    order = [4, 0, 2, 1, 3]
    found = reconstruct([answers[j] for j in order], order, CODE, system)
    np.testing.assert_array_equal(found, squared(integer_rows))


def test_a_bound_is_held_in_every_strip(strips, integer_rows):
    rows = np.zeros_like(integer_rows)
    rows[-1, 0] = 900  # far from the others: the last row and the last column
    system = byte_system(4, bound=900**2 - 1)
    with pytest.raises(DecodingError, match="exceeds the bound"):
        reconstruct(answers_of(rows, system), range(5), CODE, system)


def test_the_first_answer_says_which_shape():
    system = byte_system(2)
    answers = [np.zeros((2, 3, n), np.uint8) for n in (4, 5, 4)]
    with pytest.raises(DecodingError, match=r"of evaluator 1 is uint8 \(2, 3, 5\).*\(2, 3, 4\)"):
        reconstruct(answers, [3, 1, 2], CODE, system)


@pytest.mark.parametrize("name", ["left", "right"])
def test_operands_are_canonical_rows_of_the_shares(name):
    system = byte_system(2)
    operand = prepare(np.zeros((2, 6, 3), np.uint8), system, ENGINES["f64"], name)
    assert operand.n == 6
    assert len(operand.chunks) == 2
