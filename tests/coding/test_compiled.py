"""The numba kernels and their numpy twins give the same results, also at the stated limits."""

import sys

import numpy as np
import pytest

from daskfc.coding import (
    BYTE_PRIMES,
    ENGINES,
    HidingPolynomial,
    LagrangeCode,
    SecretKey,
    coded_distances,
    reconstruct,
    warm_up,
)
from daskfc.coding.codes import decode_passes
from daskfc.coding.engines import int8_vnni
from daskfc.coding.residues import compiled
from tests.coding.conftest import byte_system


@pytest.fixture
def both(monkeypatch):
    if not compiled.NUMBA:
        pytest.skip("numba is not installed")

    def run(function):
        results = []
        for numba in (True, False):
            monkeypatch.setattr(compiled, "NUMBA", numba)
            results.append(function())
        np.testing.assert_array_equal(*results)
        assert results[0].dtype == results[1].dtype
        return results[0]

    return run


@pytest.mark.parametrize("p", [2, 3, *BYTE_PRIMES])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_reduce_bytes(both, p, dtype):
    rng = np.random.default_rng(p)
    top = min(2**20 * p, 2**24 if dtype is np.float32 else 2**31)
    acc = rng.integers(-top, top + 1, (40, 33))
    acc[0, :9] = [-top, top, 0, p, -p, p - 1, 1 - p, p // 2, -(p // 2) - 1]
    words = rng.integers(0, 2**16, (16, 40, 33), dtype=np.uint16)
    words[:, 0, :3] = 2**16 - 1
    for count in (0, 1, 2, 16):
        factors = rng.integers(-(p // 2), p // 2 + 1, count, dtype=np.int32)
        if p == max(BYTE_PRIMES):
            factors[:] = p // 2

        def run(count=count, factors=factors):
            out = np.full((50, 50), 255, np.uint8)
            compiled.reduce_tile(acc.astype(dtype), words[:count], factors, p, out, 7, 11)
            return out

        exact = acc + np.einsum("c,cab->ab", factors.astype(np.int64), words[:count].astype(int))
        out = both(run)
        assert (out[7:47, 11:44] == exact % p).all()
        assert (out[:7] == 255).all()
        assert (out[:, 44:] == 255).all()


@pytest.mark.parametrize("p", [257, 65537, 9562603, 16777213])
def test_reduce_long(both, p):
    rng = np.random.default_rng(p)
    acc = rng.integers(-(2**53), 2**53 + 1, (20, 31))
    acc[0, :4] = [-(2**53), 2**53, p, -p]
    words = rng.integers(0, 2**32, (16, 20, 31), dtype=np.uint32)
    factors = rng.integers(-(p // 2), p // 2 + 1, 16)
    factors[0] = p // 2

    def run():
        out = np.empty((20, 31), np.uint32)
        compiled.reduce_tile(acc.astype(np.float64), words, factors, p, out)
        return out

    exact = acc + np.einsum("c,cab->ab", factors, words.astype(np.int64))
    assert (both(run) == exact % p).all()


@pytest.mark.parametrize(("p", "dtype"), [(251, np.uint8), (227, np.uint8), (16777213, np.uint32)])
def test_norms(both, p, dtype):
    width = 70_000 if dtype is np.uint8 else 5000  # of three parts, and of two
    z = np.random.default_rng(0).integers(0, p, (6, width)).astype(dtype)
    z[0], z[1], z[2] = p - 1, p // 2, p // 2 + 1
    z[3] = p // 3 + 1 + np.arange(width) % 7 % 2  # odd and even sums
    expected = [sum(int(x) ** 2 for x in row) % p for row in z.tolist()]
    norms = both(lambda: compiled.squared_norms(z, p))
    assert norms.tolist() == expected
    assert norms.dtype == np.int64


@pytest.mark.parametrize(("p", "dtype"), [(251, np.uint8), (16777213, np.uint32)])
@pytest.mark.parametrize("parts", [9, 2**13])  # 2**13 is the most that fits
def test_encode(both, p, dtype, parts):
    rng = np.random.default_rng(0)
    segments = rng.integers(0, p, (parts, 4, 13)).astype(dtype)
    matrix = rng.integers(-(p // 2), p // 2 + 1, (5, parts))
    segments[:, 0, :3] = p - 1
    matrix[:2] = [[p // 2], [-(p // 2)]]  # with p - 1 the largest sums

    def run():
        out = np.zeros((5, 2, 7, 13), dtype)
        compiled.encode_tile(segments, matrix, p, out, 1, 2, 3)
        return out

    expected = np.einsum("eo,onk->enk", matrix, segments[:, :3].astype(np.int64)) % p
    out = both(run)
    assert (out[:, 1, 2:5] == expected).all()
    assert not out[:, 0].any()
    assert not out[:, 1, 5:].any()


@pytest.mark.parametrize(("p", "dtype"), [(251, np.uint8), (9562603, np.uint32)])
def test_cut_rows(both, p, dtype):
    rows = np.random.default_rng(0).integers(-(2**56), 2**56, (40, 33))
    rows[5, :4] = 0, -p, p, -1

    def run():
        segments = np.zeros((4, 20, 13), dtype)  # 3 segments of 13 columns, the last one of 7
        compiled.cut_rows(rows, 5, p, segments, 3, 19)
        return segments

    segments = both(run)
    found = np.hstack(list(segments[:3, :19]))
    np.testing.assert_array_equal(found[:, :33], rows[5:24] % p)
    assert not found[:, 33:].any()
    assert not segments[3].any()
    assert not segments[:, 19].any()


@pytest.mark.parametrize("K", [1, 3, 8, 9, 20])
@pytest.mark.parametrize(("p", "dtype", "wide"), [(251, np.uint8, np.int32),
                         (16777213, np.uint32, np.int64)])  # fmt: skip
def test_weighted_sum(both, K, p, dtype, wide):
    rng = np.random.default_rng(K)
    answers = list(rng.integers(0, p, (K, 3, 1001)).astype(dtype))
    weights = rng.integers(-(p // 2), p // 2 + 1, (3, K)).astype(wide)

    def run():
        totals = np.full((3, 401), 77, wide)
        decode_passes.weighted_sum(answers, weights, 500, totals)
        return totals

    stacked = np.array(answers).astype(np.int64)[:, :, 500:901]
    expected = np.einsum("rj,jrn->rn", weights.astype(np.int64), stacked)
    assert (both(run) == expected).all()


@pytest.mark.parametrize(
    ("primes", "wide"), [(BYTE_PRIMES, np.int32), ((16777213, 16777199), np.int64)]
)
def test_combine(both, primes, wide):
    rng = np.random.default_rng(0)
    for r in range(1, len(primes) + 1):
        M = int(np.prod([int(p) for p in primes[:r]], dtype=object))
        steps = np.array([M // p for p in primes[:r]])
        if wide is np.int64:
            limits = np.array([[2**60 - 1]] * r)
        else:
            limits = np.array([[min(2**21 * p, 2**31 - 1)] for p in primes[:r]])
        totals = rng.integers(-limits, limits, (r, 999)).astype(wide)
        totals[:, 0], totals[:, 1] = -1, 0
        values = []

        def run(r=r, M=M, steps=steps, totals=totals, values=values):
            out = np.empty(999, np.int64)
            largest = decode_passes.combine_primes(
                totals.copy(), np.array(primes[:r]), steps, M, out
            )
            values.append(largest)
            return out

        out = both(run)
        expected = [
            sum(int(s) * (int(x) % p) for s, x, p in zip(steps, column, primes, strict=False)) % M
            for column in totals.T
        ]
        assert out.tolist() == expected
        assert values == [max(expected)] * 2


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("wide", [np.int32, np.int64])
def test_the_largest_of_zeros_and_of_nothing_is_0(both, n, wide):
    values = []

    def run():
        out = np.empty(n, np.int64)
        totals = np.zeros((1, n), wide)
        primes, steps = np.array([251]), np.array([1])
        values.append(decode_passes.combine_primes(totals, primes, steps, 251, out))
        return out

    assert both(run).tolist() == [0] * n
    assert values == [0, 0]


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_words_of_at_least_the_limit_are_rejected(both, dtype):
    words = np.random.default_rng(0).integers(0, 60_000, 1000).astype(dtype)
    top = int(np.iinfo(dtype).max)
    words[[3, 4, 5, 127, 128, 999]] = 60_001, 60_000, 59_999, 60_000, top, 60_000

    def found(limit):
        return both(lambda: compiled.rejected(words, limit, np.empty(1000, np.int64))).tolist()

    assert found(60_000) == [3, 4, 127, 128, 999]
    assert found(top) == [128]
    assert found(top + 1) == []


@pytest.mark.parametrize(
    ("dtype", "types"), [(np.uint8, (np.uint16, np.int32)), (np.uint32, (np.uint32, np.int64))]
)
def test_no_words_have_the_types_of_words(dtype, types):
    words, factors = compiled.no_words(np.dtype(dtype))
    assert (words.dtype, factors.dtype) == types
    assert len(words) == len(factors) == 0


def test_look_up(both):
    z = np.arange(256, dtype=np.uint8).reshape(8, 32)
    table = np.random.default_rng(0).normal(size=256).astype(np.float32)

    def run():
        out = np.zeros((8, 40), np.float32)
        compiled.look_up(z, table, out)
        return out

    assert (both(run)[:, :32].ravel() == table).all()


def test_without_numba_there_is_nothing_to_compile(monkeypatch):
    monkeypatch.setattr(compiled, "NUMBA", False)
    assert warm_up() is False


def inverse_of(x):
    return 1 / x


def test_compiled_functions_divide_like_numpy_and_let_other_threads_run():
    pytest.importorskip("numba", reason="needs daskfc[fast]")
    function = compiled.jit(inverse_of)
    assert function(4) == 0.25
    assert function(0) == np.inf  # no check of every divisor
    assert function.targetoptions["nogil"]
    assert function.targetoptions["error_model"] == "numpy"
    assert function.stats.cache_path  # kept on disk for other processes


def test_nowhere_to_keep_what_is_compiled(monkeypatch):
    numba = pytest.importorskip("numba", reason="needs daskfc[fast]")
    njit = numba.njit

    def refuses(*functions, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*functions, **options)

    monkeypatch.setattr(numba, "njit", refuses)
    function = compiled.jit(inverse_of)
    assert (function(4), function(0)) == (0.25, np.inf)
    assert function.targetoptions["nogil"]
    assert function.targetoptions["error_model"] == "numpy"
    assert not function.stats.cache_path


def test_numba_is_optional(monkeypatch):
    assert compiled._numba() is compiled.numba
    monkeypatch.setitem(sys.modules, "numba", None)  # as if it were not installed
    assert compiled._numba() is None
    monkeypatch.setattr(compiled, "numba", None)
    assert compiled.jit(inverse_of) is inverse_of


@pytest.mark.parametrize("why", [None, "the processor has no AVX-512 VNNI"])
def test_warm_up_multiplies_without_another_library(monkeypatch, why):
    """A session of onnxruntime starts threads, which processes that are forked do not get."""
    if not compiled.NUMBA:
        pytest.skip("numba is not installed")
    if why is None and int8_vnni.available():
        pytest.skip(str(int8_vnni.available()))
    seen = []

    def multiply(left, right, system, engine, *, symmetric, hiding):
        seen.append((engine.name, symmetric, hiding.evaluator))
        return coded_distances(left, right, system, engine, symmetric=symmetric, hiding=hiding)

    monkeypatch.setattr(int8_vnni, "available", lambda: why)
    monkeypatch.setattr("daskfc.coding.codes.warm.coded_distances", multiply)
    assert warm_up()
    assert seen == [("f32" if why else "int8", True, j) for j in range(3)]


def test_warm_up_leaves_nothing_to_compile():
    """After it, no engine adds a variant of any pass."""
    if not compiled.NUMBA:
        assert not warm_up()
        return
    assert warm_up()
    passes = {
        (module.__name__, name): f
        for module in (compiled, decode_passes, int8_vnni)
        for name, f in vars(module).items()
        if hasattr(f, "nopython_signatures")
    }
    assert len(passes) > 15
    before = {name: len(f.nopython_signatures) for name, f in passes.items()}
    system, code = byte_system(2), LagrangeCode(2, 2, 7)
    shares = code.encode(np.arange(24).reshape(4, 6), system, SecretKey.from_os())
    for name, engine in ENGINES.items():
        if engine.refusal(system) is None:
            hiding = HidingPolynomial(code, system, 6, SecretKey.from_os(), (0, 0))
            coded_distances(shares[0], shares[0], system, ENGINES[name], hiding=hiding)
            answers = [coded_distances(z, z, system, engine, symmetric=True) for z in shares]
            assert (coded_distances(shares[1], shares[1], system, engine) == answers[1]).all()
            reconstruct(answers, range(7), code, system)
    assert {name: len(f.nopython_signatures) for name, f in passes.items()} == before
