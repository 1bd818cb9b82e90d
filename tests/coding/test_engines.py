"""Engines at their limits: how many columns a product may have, which primes, which tiles."""

import numpy as np
import pytest

from daskfc.coding import (
    BYTE_PRIMES,
    ENGINES,
    ResidueSystem,
    coded_distances,
    prepare,
    select_engine,
)
from daskfc.coding.codes.hiding import GROUP
from daskfc.coding.engines import engines, int8_vnni
from daskfc.coding.residues.compiled import no_words
from daskfc.errors import InvalidInput
from tests.oracles import coding as oracle

KINDS = ["_F32", "_F64", "_Int8Onnx", "_Int8Vnni"]
LARGE = (257, 509, 9562603, 16777213)  # all primes above a byte, among them the least


def engine_of(kind, system):
    engine = getattr(engines, kind)()
    if why := engine.refusal(system):
        pytest.skip(why)
    return engine


# -- primes -------------------------------------------------------------------------------------


KERNELS = {"_Int8Onnx": "int8", "_Int8Vnni": "int8_vnni"}


@pytest.mark.parametrize("kind", ["_F32", *KERNELS])
@pytest.mark.parametrize("p", [2, 251, *LARGE])
def test_engines_of_bytes_refuse_larger_primes(monkeypatch, kind, p):
    for kernel in KERNELS.values():
        monkeypatch.setattr(f"daskfc.coding.engines.{kernel}.available", lambda: None)
    why = getattr(engines, kind)().refusal(ResidueSystem((p,), 1.0, 1))
    assert why == (None if p < 256 else "its primes must be below 2**8")


@pytest.mark.parametrize(("kind", "kernel"), KERNELS.items())
def test_engines_of_bytes_say_why_their_kernel_is_missing(monkeypatch, kind, kernel):
    monkeypatch.setattr(f"daskfc.coding.engines.{kernel}.available", lambda: "it is not there")
    engine = getattr(engines, kind)()
    assert engine.refusal(ResidueSystem((251, 241), 1.0, 1)) == "it is not there"
    assert engine.refusal(ResidueSystem((257,), 1.0, 1)) == "its primes must be below 2**8"


def test_the_largest_prime_of_a_byte_is_one_of_bytes():
    system = ResidueSystem((251,), 1.0, 250)
    assert select_engine(system, 4, "f32").name == "f32"
    assert select_engine(ResidueSystem((257,), 1.0, 250), 4, "f32").name == "f64"


def test_without_its_own_kernel_a_library_multiplies_bytes(monkeypatch):
    monkeypatch.setattr(int8_vnni, "_AVAILABLE", False)
    assert type(engines._int8()) is engines._Int8Onnx


# -- columns of one product ---------------------------------------------------------------------


@pytest.mark.parametrize("p", BYTE_PRIMES)
@pytest.mark.parametrize(
    ("kind", "largest", "limit"),
    [
        ("_F32", lambda p: (p // 2) ** 2, lambda p: 2**24),
        ("_F64", lambda p: (p // 2) ** 2, lambda p: 2**20 * p),
        ("_Int8Onnx", lambda p: (p - 1) * (p // 2), lambda p: 2**20 * p),
        ("_Int8Vnni", lambda p: (p - 1) * (p // 2), lambda p: 2**20 * p),
    ],
)
def test_a_product_has_as_many_columns_as_fit(kind, largest, limit, p):
    """Of the largest products of an engine's operands; `limit` is what is exact or reducible."""
    columns = getattr(engines, kind)().chunk(p)
    assert type(columns) is int
    assert columns * largest(p) <= limit(p) < (columns + 1) * largest(p)


@pytest.mark.parametrize("p", LARGE)
def test_a_long_product_has_as_many_columns_as_float64_holds(p):
    columns = engines._F64().chunk(p)
    assert columns * (p // 2) ** 2 <= 2**53 < (columns + 1) * (p // 2) ** 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [251, 227])
@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_products_are_exact(kind, p, more):
    """A whole chunk of columns that are the extremes of both operands, or one column more.

    The left operand is p - 1 or p // 2; -2 z is -(p // 2) modulo p for z = (p + 1) / 4 or so.
    """
    system = ResidueSystem((p,), 1.0, 1)
    engine = engine_of(kind, system)
    k = engine.chunk(p) - 2 + more  # the norms are two columns of all but one engine
    left = np.array([[p - 1], [p // 2], [p // 2 + 1], [1]], np.uint8).repeat(k, axis=1)
    half = p // 2 * pow(-2, -1, p) % p
    right = np.array([[half], [p - half], [p - 1], [0]], np.uint8).repeat(k, axis=1)
    left[:, 0] -= 1  # odd and even sums
    found = coded_distances(left[None], right[None], system, engine)[0]
    expected = [
        [oracle.distance(x, y, p) for y in right.astype(int).tolist()]
        for x in left.astype(int).tolist()
    ]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [4, 5, 8])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 7, 8, 11, 14, 15, 16])
def test_chunks_of_columns_may_end_anywhere(monkeypatch, kind, columns, k):
    """Between the entries and the norms, between the norms, or behind them."""
    system = ResidueSystem((251, 227), 1.0, 1)
    engine = engine_of(kind, system)
    monkeypatch.setattr(type(engine), "chunk", lambda self, p: columns)
    z = np.random.default_rng(k).integers(0, 227, (2, 9, k), dtype=np.uint8)
    found = coded_distances(z, z[:, ::-1], system, engine)
    for a, p in enumerate(system.primes):
        rows = z[a].tolist()
        assert found[a].tolist() == [[oracle.distance(x, y, p) for y in rows[::-1]] for x in rows]


@pytest.mark.parametrize("kind", ["_F32", "_F64", "_Int8Onnx"])
def test_operands_are_balanced(kind):
    """All residues and all norms: none above p // 2, on which the chunks rely."""
    p = 251
    engine = engine_of(kind, ResidueSystem((p,), 1.0, 1))
    z = np.array([[x, y] for x in range(p) for y in (0, 1, 11, 17)], np.uint8)
    norms = set(((z.astype(int) ** 2).sum(axis=1) % p).tolist())
    assert {0, p // 2, p // 2 + 1, p - 1} <= norms
    for chunk in engine.right(z, p):
        assert np.abs(chunk.astype(int)).max() == p // 2
    for chunk in engine.left(z, p):
        top = p - 1 if kind == "_Int8Onnx" else p // 2
        assert np.abs(chunk.astype(int)).max() == top


def test_operands_of_long_primes_are_balanced():
    p = 16777213
    half = p // 2 * pow(-2, -1, p) % p  # -2 z is p // 2 there
    z = np.array([p // 2, p // 2 + 1, p - 1, p // 3 + 1, half, p - half], np.uint32)[:, None]
    for side in (engines._F64().left, engines._F64().right):
        (operand,) = side(z, p)
        assert np.abs(operand).max() == p // 2
        assert operand.shape == (6, 3)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("_F32", np.float32), ("_F64", np.float64), ("_Int8Onnx", np.int8)]
)
def test_operands_have_the_type_of_their_kernel(kind, dtype):
    engine = engine_of(kind, ResidueSystem((251,), 1.0, 1))
    z = np.zeros((5, 3), np.uint8)
    assert {chunk.dtype.type for chunk in engine.right(z, 251)} == {dtype}
    left = np.uint8 if kind == "_Int8Onnx" else dtype
    assert {chunk.dtype.type for chunk in engine.left(z, 251)} == {left}


@pytest.mark.parametrize(
    "shares",
    [
        np.zeros((2, 5), np.uint8),
        np.zeros((1, 5, 3), np.uint8),
        np.zeros((2, 5, 3, 1), np.uint8),
        np.zeros((2, 5, 3), np.uint32),
    ],
)
def test_shares_of_another_shape_or_type_are_refused(shares):
    system = ResidueSystem((251, 241), 1.0, 1)
    with pytest.raises(
        InvalidInput, match=r"shares must be uint8 \(primes=2, rows, columns\); got"
    ):
        prepare(shares, system, ENGINES["f64"], "left")


# -- tiles --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("tile", [(0, 0, 5, 256), (3, 256, 19, 512), (8, 512, 24, 600)])
def test_a_tile_is_written_and_nothing_beside_it(monkeypatch, passes, kind, chunks, hidden, tile):
    p, k = 251, 10
    system = ResidueSystem((p,), 1.0, 1)
    engine = engine_of(kind, system)
    if chunks == 2:
        monkeypatch.setattr(type(engine), "chunk", lambda self, p: 8)
    rng = np.random.default_rng(0)
    left, right = (rng.integers(0, p, (n, k), dtype=np.uint8) for n in (24, 600))
    A, B = (prepare(z[None], system, engine, s) for z, s in ((left, "left"), (right, "right")))
    assert len(A.chunks[0]) == len(B.chunks[0]) == chunks
    top, first, bottom, last = tile
    words, factors = no_words(system.dtype)
    if hidden:
        words = rng.integers(0, 2**16, (GROUP, bottom - top, last - first), dtype=np.uint16)
        factors = rng.integers(-(p // 2), p // 2 + 1, GROUP, dtype=np.int32)
    out = np.full((24, 600), 255, np.uint8)  # no residue
    engine.residues(A.chunks[0], B.chunks[0], tile, p, words, factors, out)
    gaps = left[top:bottom, None].astype(int) - right[None, first:last]
    total = (gaps**2).sum(axis=2)
    if hidden:
        total += np.einsum("c,cab->ab", factors.astype(int), words.astype(int))
    np.testing.assert_array_equal(out[top:bottom, first:last], total % p)
    out[top:bottom, first:last] = 255
    assert (out == 255).all()


@pytest.mark.parametrize("chunks", [1, 2])
def test_panels_are_counted_in_whole_numbers(monkeypatch, chunks):
    """The kernel adds them to addresses, which a float would round or compile anew."""
    seen = []
    engine = engine_of("_Int8Vnni", ResidueSystem((251,), 1.0, 1))
    monkeypatch.setattr(int8_vnni, "multiply", lambda a, b, first, out: seen.append(first))
    monkeypatch.setattr(int8_vnni, "residues", lambda a, b, first, *rest: seen.append(first))
    monkeypatch.setattr(type(engine), "chunk", lambda self, p: 8 // chunks)
    z, out = np.zeros((300, 8), np.uint8), np.empty((300, 300), np.uint8)
    left, right = engine.left(z, 251), engine.right(z, 251)
    engine.residues(left, right, (0, 256, 10, 300), 251, *no_words(out.dtype), out)
    assert seen == [8] * chunks
    assert {type(first) for first in seen} == {int}


def test_the_engines_are_of_their_names():
    assert {name: engine.name for name, engine in ENGINES.items()} == {
        name: name for name in ("int8", "f32", "f64")
    }
