"""The register blocks of this project's int8 kernel and the operands they read."""

import re

import numpy as np
import pytest

from daskfc.coding.engines import int8_vnni
from daskfc.coding.engines.int8_vnni import PANEL, Panels, Rows
from daskfc.coding.residues import compiled

computes = pytest.mark.skipif(
    int8_vnni.available() is not None, reason=str(int8_vnni.available() or "computes")
)


def compiled_block(rows):
    """A register block compiled now; those of the module come from a cache on disk."""
    block = int8_vnni._register_block(rows)

    @compiled.numba.njit
    def run(a, a_stride, a_norms, panel, panel_norms, steps, c, c_stride):
        for _ in range(2):  # two calls in one module, as `_rows` makes them
            block(a, a_stride, a_norms, panel, panel_norms, steps, c, c_stride)
        block(a, a_stride, a_norms, panel, panel_norms, steps, c, c_stride)

    run.compile((compiled.numba.int64,) * 8)
    return run


def placed(values, offset):
    """A copy that begins `offset` bytes after a cache line, with room around it; its address."""
    raw = np.full(values.nbytes + 4096, 85, np.uint8)
    begin = -raw.ctypes.data % 64 + 1024 + offset
    copy = raw[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy, raw.ctypes.data + begin


@computes
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_register_block_equals_plain_sums(rows):
    """int32 sums of all rows with 32 columns, for any strides, lengths and addresses."""
    run, rng = compiled_block(rows), np.random.default_rng(rows)
    found = re.findall(
        r"(?:load|store) <16 x i32>.*align (\d+)", run.inspect_llvm(run.signatures[0])
    )
    assert set(found) == {"1"}  # vectors lie anywhere, and a processor may fault where told more
    for k, spare, offset in [(4, 0, 0), (8, 4, 1), (12, 3, 7), (40, 1, 33)]:
        a, at_a = placed(rng.integers(0, 256, (rows, k + spare), dtype=np.uint8), offset)
        z = rng.integers(-128, 128, (PANEL, k), dtype=np.int8)
        z[0], z[1], a[0] = -128, 127, 255  # the extremes: nothing saturates
        fours = np.ascontiguousarray(z.reshape(PANEL, k // 4, 4).transpose(1, 0, 2))
        _panel, at_panel = placed(fours, offset)
        a_norms, at_a_norms = placed(rng.integers(0, 2**20, rows, dtype=np.int32), offset)
        norms, at_norms = placed(rng.integers(0, 2**20, PANEL, dtype=np.int32), offset)
        c, at_c = placed(np.full((rows, PANEL + spare), 77, np.int32), offset)
        run(at_a, k + spare, at_a_norms, at_panel, at_norms, k // 4, at_c, c.strides[0])
        products = a[:, :k].astype(np.int64) @ z.T.astype(np.int64)
        np.testing.assert_array_equal(c[:, :PANEL], products + a_norms[:, None] + norms)
        assert (c[:, PANEL:] == 77).all()


@pytest.mark.parametrize("k", [4, 8, 5, 6, 7])
def test_rows_are_padded_to_fours_and_copied_only_then(k):
    z = np.random.default_rng(k).integers(0, 251, (5, k), dtype=np.uint8)
    values, norms = Rows.of(z, np.arange(5))
    assert values.shape == (5, -(-k // 4) * 4)
    np.testing.assert_array_equal(values[:, :k], z)
    assert not values[:, k:].any()
    assert np.shares_memory(values, z) == (k % 4 == 0)
    assert (norms.dtype, norms.tolist()) == (np.int32, list(range(5)))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (31, 4), (32, 7), (33, 8), (70, 100)])
def test_panels_hold_minus_two_z_from_a_cache_line_on(n, k):
    p = 251
    z = np.random.default_rng(n).integers(0, p, (n, k), dtype=np.uint8)
    z[0, 0] = p - 1
    kept = [Panels.of(z, np.arange(n), p) for _ in range(5)]  # each at an address of its own
    for values, norms in kept:
        assert values.ctypes.data % 64 == 0
        assert values.shape == (-(-n // PANEL), -(-k // 4), PANEL, 4)
        lines = values.transpose(0, 2, 1, 3).reshape(len(values) * PANEL, -1)
        assert not lines[n:].any()
        assert not lines[:, k:].any()
        front = lines[:n, :k].astype(int)
        assert np.abs(front).max() <= p // 2
        assert not ((front + 2 * z.astype(int)) % p).any()
        assert norms.shape == (len(values), PANEL)
        assert norms.ravel()[:n].tolist() == list(range(n))
        assert not norms.ravel()[n:].any()


def test_every_strip_of_columns_reads_panels_of_its_own(monkeypatch):
    """The kernel's loops as Python runs them, with register blocks in plain arithmetic."""

    def plain_rows(a, norms, i, rows, panels, panel_norms, first, count, c):
        lines = panels[first : first + count].transpose(0, 2, 1, 3).reshape(count * PANEL, -1)
        products = a[i : i + rows].astype(int) @ lines.T.astype(int)
        added = norms[i : i + rows, None] + panel_norms[first : first + count].ravel()
        c[:rows, : count * PANEL] = products + added

    def plain_reduced(sums, words, row, begin, factors, p, inv, line):
        line[...] = sums[: line.size] % p

    monkeypatch.setattr(int8_vnni, "_rows", plain_rows)
    monkeypatch.setattr(int8_vnni, "reduce_bytes", plain_reduced)
    loops = getattr(int8_vnni._residues, "py_func", int8_vnni._residues)
    p, rng = 251, np.random.default_rng(0)
    a, b = (rng.integers(0, p, (n, 7), dtype=np.uint8) for n in (11, 700))
    norms = [np.square(z.astype(int)).sum(axis=1) % p for z in (a, b)]
    out = np.zeros((len(a), len(b)), np.uint8)
    left, start = Rows.of(a, norms[0]), 2 * PANEL
    right = Panels.of(b, norms[1], p)
    loops(*left, *right, 2, p, *compiled.no_words(out.dtype), out, 0, start, len(b) - start)
    distances = (a[:, None].astype(int) - b).astype(int)
    np.testing.assert_array_equal(out[:, start:], np.square(distances).sum(axis=2)[:, start:] % p)
    assert not out[:, :start].any()


@pytest.fixture
def host(monkeypatch):
    """What llvmlite says of the processor; numba compiles for it."""
    binding = pytest.importorskip("llvmlite.binding", reason="needs daskfc[fast]")
    for name, value in {"CPU_NAME": None, "CPU_FEATURES": None, "ENABLE_AVX": True}.items():
        monkeypatch.setattr(int8_vnni.numba.config, name, value)
    return lambda features: monkeypatch.setattr(binding, "get_host_cpu_features", features)


@pytest.mark.parametrize(
    ("features", "expected"),
    [({"avx512vnni": True}, True), ({"avx512vnni": False, "avx512f": True}, False), ({}, False)],
)
def test_the_processor_decides(host, features, expected):
    host(lambda: features)
    assert int8_vnni._feature() is expected


def test_an_unknown_processor_has_no_kernel(host):
    def features():
        raise RuntimeError("no host features here")

    host(features)
    assert int8_vnni._feature() is False


@pytest.mark.parametrize(
    ("numba", "why"),
    [(True, "the processor has no AVX-512 VNNI"), (False, "numba is not installed")],
)
def test_why_it_does_not_compute(monkeypatch, numba, why):
    monkeypatch.setattr(int8_vnni, "_AVAILABLE", False)
    monkeypatch.setattr(int8_vnni, "NUMBA", numba)
    assert int8_vnni.available() == why
