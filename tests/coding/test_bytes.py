"""The int8 engine on each of its kernels: this project's own, and onnxruntime's."""

import logging
import re
import sys

import numpy as np
import pytest

from daskfc.coding import (
    ENGINES,
    HidingPolynomial,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    coded_distances,
    prepare,
    select_engine,
)
from daskfc.coding.codes.hiding import _free_evaluators
from daskfc.coding.engines import engines, int8, int8_vnni
from tests.coding.conftest import hiding_values

SYSTEM = ResidueSystem((251, 227), scale=1.0, bound=1000)


@pytest.fixture(params=["_Int8Vnni", "_Int8Onnx"])
def engine(request):
    found = getattr(engines, request.param)()
    why = found.refusal(SYSTEM)
    if why:
        pytest.skip(why)
    return found


@pytest.mark.parametrize("d", [1, 3, 40, 784, 18_000])  # columns of padding, none, several chunks
@pytest.mark.parametrize("n", [5, 8, 71])  # less than a register block, one, more than two panels
def test_gives_the_residues_of_the_other_engines(engine, n, d):
    code = LagrangeCode(1, 1, 3)
    rows = np.random.default_rng(0).integers(0, 2, (n, d))
    share = code.encode(rows, SYSTEM, SecretKey.from_os())[2]
    left, right = (prepare(share, SYSTEM, engine, side) for side in ("left", "right"))
    np.testing.assert_array_equal(
        coded_distances(left, right, SYSTEM, engine),
        coded_distances(share, share, SYSTEM, ENGINES["f64"]),
    )


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("m", [7, 19])  # six words an entry in one group, and 18 in two groups
def test_adds_the_same_hiding_words(engine, m, symmetric):
    code = LagrangeCode(m // 4, (m + 1) // 2 - m // 4, m)
    z = np.random.default_rng(1).integers(0, 227, (2, 530, 6), dtype=np.uint8)
    key = SecretKey.from_os()
    free = [set(_free_evaluators(code, p, 2)) for p in SYSTEM.primes]
    own = min(set(range(m)).difference(*free))  # an evaluator who adds the words of all free ones
    hiding = HidingPolynomial(code, SYSTEM, own, key, (0, 2))
    assert [len(words) for _, words, _ in hiding.words(0).strips((0, 0, 1, 1))] == [m - 1]
    found = coded_distances(z, z, SYSTEM, engine, hiding=hiding, symmetric=symmetric)
    values = hiding_values(code, SYSTEM, own, key, (0, 2), (530, 530), symmetric)
    plain = coded_distances(z, z, SYSTEM, ENGINES["f64"]).astype(int) + values
    np.testing.assert_array_equal(found, plain % np.array(SYSTEM.primes)[:, None, None])


def test_passes_its_test_at_the_extremes(engine):
    for n_columns in (1, 392, 20_000):
        assert engines._self_test(engine, SYSTEM.primes, n_columns) is None


def test_saturation_is_found(monkeypatch, caplog):
    """As uint8 x int8 kernels without VNNI add pairs in 16 bits."""
    pytest.importorskip("onnxruntime", reason="needs daskfc[fast]")

    def saturating(a, b, out):
        pairs = [
            np.clip(
                a[:, i].astype(int)[:, None] * b[i] + a[:, i + 1].astype(int)[:, None] * b[i + 1],
                -(2**15), 2**15 - 1,
            )
            for i in range(0, a.shape[1], 2)
        ]  # fmt: skip
        out[...] = sum(pairs)
        return out

    monkeypatch.setitem(ENGINES, "int8", engines._Int8Onnx())
    monkeypatch.setattr(
        "daskfc.coding.engines.int8._saturates", lambda: False
    )  # of other sizes, say
    monkeypatch.setattr("daskfc.coding.engines.int8.multiply", saturating)
    with caplog.at_level(logging.WARNING, "daskfc.coding"):
        assert select_engine(SYSTEM, 40).name == "f32"
    assert "engine int8 is not used: its products are wrong" in caplog.text


def test_saturation_is_looked_for_before_any_size(monkeypatch):
    pytest.importorskip("onnxruntime", reason="needs daskfc[fast]")
    int8._saturates.cache_clear()
    monkeypatch.setattr(int8, "_product", lambda a, b, out: np.full_like(out, 2**15 - 1))
    assert "saturate on this processor" in int8.available()
    int8._saturates.cache_clear()


def test_without_a_kernel(monkeypatch, caplog):
    monkeypatch.setitem(ENGINES, "int8", engines._Int8Onnx())
    monkeypatch.setattr(
        "daskfc.coding.engines.int8.available", lambda: "onnxruntime is not installed"
    )
    with caplog.at_level(logging.WARNING, "daskfc.coding"):
        assert select_engine(SYSTEM, 40).name == "f32"
    assert "onnxruntime is not installed" in caplog.text


@pytest.fixture
def fresh_session():
    """A session of onnxruntime made now, and forgotten afterwards."""
    pytest.importorskip("onnxruntime", reason="needs daskfc[fast]")
    int8._session.cache_clear()
    yield
    int8._session.cache_clear()


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 4, 5), (40, 300, 17)])
def test_onnxruntime_multiplies_bytes(fresh_session, m, k, n):
    """With one model for all sizes; pairs stay below 2**15, where some kernels saturate."""
    assert int8.available() is None or int8._saturates()
    rng = np.random.default_rng(k)
    a = rng.integers(0, 256, (m, k), dtype=np.uint8)
    b = rng.integers(-60, 61, (k, n), dtype=np.int8)
    a[0], b[:, 0] = 255, -64
    out = np.full((m, n), 77, np.int32)
    assert int8.multiply(a, b, out) is out
    np.testing.assert_array_equal(out, a.astype(int) @ b.astype(int))


def fields(message):
    """Fields of a message of protocol buffers: number, then a varint or bytes."""
    found, rest = [], list(message)

    def varint():
        value = shift = 0
        while True:
            byte = rest.pop(0)
            value += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while rest:
        key = varint()
        value = varint()
        if key & 7 == 2:
            content, rest[:] = bytes(rest[:value]), rest[value:]
            found.append((key >> 3, content))
        else:
            assert key & 7 == 0
            found.append((key >> 3, value))
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**14, "808001")],
)
def test_numbers_of_protocol_buffers(value, expected):
    assert int8._varint(value).hex() == expected
    assert fields(int8._field(5, value)) == [(5, value)]
    assert fields(int8._field(300, "x" * value)) == [(300, b"x" * value)]


def test_the_model_is_one_product():
    """Numbers of fields and types are those of onnx.proto; both operands have axis k."""

    def tensor(message):
        (_, name), (_, kind) = fields(message)
        ((one, content),) = fields(kind)
        (_, element), (two, shape) = fields(content)
        axes = [fields(axis) for _, axis in fields(shape)]
        assert (one, two, {number for number, _ in fields(shape)}) == (1, 2, {1})
        return name, element, axes

    version, (seven, graph), (eight, opset) = fields(int8._model())
    assert (version, seven, eight, fields(opset)) == ((1, 7), 7, 8, [(2, 10)])
    (one, node), name, *tensors = fields(graph)
    assert (one, name) == (1, (2, b"product"))
    assert fields(node) == [(1, b"a"), (1, b"b"), (2, b"c"), (4, b"MatMulInteger")]
    assert [(number, *tensor(message)) for number, message in tensors] == [
        (11, b"a", 2, [[(2, b"m")], [(2, b"k")]]),  # uint8
        (11, b"b", 3, [[(2, b"k")], [(2, b"n")]]),  # int8
        (12, b"c", 6, [[(2, b"m")], [(2, b"n")]]),  # int32
    ]


def test_a_model_that_onnxruntime_refuses(fresh_session, monkeypatch):
    monkeypatch.setattr(int8, "_model", lambda: b"no model")
    why = int8.available()
    assert re.fullmatch(r"onnxruntime refuses its model \((?!NoneType)\w+\)", str(why))


def test_onnxruntime_is_optional(monkeypatch):
    int8._session.cache_clear()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    assert int8.available() == "onnxruntime is not installed (it comes with daskfc[fast])"


def test_other_processors_get_another_kernel(monkeypatch):
    monkeypatch.setattr(int8_vnni, "_AVAILABLE", False)
    assert not isinstance(engines._int8(), engines._Int8Vnni)
    assert "AVX-512 VNNI" in int8_vnni.available() or "numba" in int8_vnni.available()


@pytest.mark.parametrize("setting", [{"CPU_NAME": "generic"}, {"ENABLE_AVX": 0}])
def test_numba_told_to_compile_for_less(monkeypatch, setting):
    pytest.importorskip("numba", reason="needs daskfc[fast]")
    for name, value in setting.items():
        monkeypatch.setattr(int8_vnni.numba.config, name, value)
    assert not int8_vnni._feature()
