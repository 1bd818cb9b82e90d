"""Products of bytes by the processor's AVX-512 VNNI instructions, compiled by numba.

Libraries pack the right operand again at every product and return int32. Here it is packed once
per panel, and 8 rows of products are reduced modulo p while they are in the L1 cache. The inner
loop is an outer product: 8 rows times 32 columns, four columns of the operands at a time, in 16
registers of 16 int32 (the scheme of Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication", 2008).
"""

import importlib
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Ints
from daskfc.coding.residues.compiled import NUMBA, jit, numba, reduce_bytes

_Array = NDArray[Any]

_ROWS = 8  # of a register block
PANEL = 32  # columns of a register block
_STRIP = 256  # columns whose panels stay in the L2 cache while rows pass
_BYTES = 4 * PANEL  # that one step of the inner loop reads from a panel


def _feature() -> bool:
    """Return whether numba compiles for a processor with AVX-512 VNNI."""
    config = numba.config
    if config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:
        return False  # the user compiles for another processor
    binding = importlib.import_module("llvmlite.binding")
    try:
        return bool(binding.get_host_cpu_features().get("avx512vnni", False))
    except RuntimeError:  # llvmlite does not know this operating system's way
        return False


_AVAILABLE = NUMBA and _feature()


def available() -> str | None:
    """Return None when this processor and numba can compute the products, else the reason."""
    if _AVAILABLE:
        return None
    return "the processor has no AVX-512 VNNI" if NUMBA else "numba is not installed"


def _register_block(rows: int) -> Any:
    """Return the numba intrinsic that multiplies `rows` rows with one panel.

    It takes addresses and row distances in bytes of uint8 rows, their int32 norms, a panel, its
    norms and int32 results; `steps` is columns / 4. Sums begin at the norms.
    """
    ir = importlib.import_module("llvmlite.ir")
    types = numba.types
    byte4, word = ir.IntType(32), ir.IntType(64)
    vector = ir.VectorType(byte4, 16)
    none = ir.Constant(vector, ir.Undefined)

    def number(value: int) -> Any:
        return ir.Constant(word, value)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, a_stride, a_norms, panel, panel_norms, steps, c, c_stride = arguments
        name = "llvm.x86.avx512.vpdpbusd.512"  # int32 += 4 products of a uint8 and an int8
        module = builder.module
        multiply = module.globals.get(name) or ir.Function(
            module, ir.FunctionType(vector, [vector] * 3), name
        )

        def load(address: Any, offset: int, kind: Any) -> Any:
            pointer = builder.inttoptr(builder.add(address, number(offset)), kind.as_pointer())
            return builder.load(pointer, align=1)

        def spread(value: Any) -> Any:
            first = builder.insert_element(none, value, ir.Constant(byte4, 0))
            return builder.shuffle_vector(first, none, ir.Constant(vector, None))

        columns = [load(panel_norms, 64 * h, vector) for h in range(2)]
        starts = [
            [builder.add(column, spread(load(a_norms, 4 * r, byte4))) for column in columns]
            for r in range(rows)
        ]
        lines = [builder.add(a, builder.mul(a_stride, number(r))) for r in range(rows)]
        before, loop = builder.block, builder.append_basic_block("loop")
        builder.branch(loop)
        builder.position_at_end(loop)
        step, source = builder.phi(word), builder.phi(word)
        sums = [[builder.phi(vector) for _ in range(2)] for _ in range(rows)]
        halves = [load(source, 64 * h, vector) for h in range(2)]
        updated = []
        for line, pair in zip(lines, sums, strict=True):
            four = spread(load(builder.add(line, builder.shl(step, number(2))), 0, byte4))
            updated.append(
                [
                    builder.call(multiply, [s, four, half])
                    for s, half in zip(pair, halves, strict=True)
                ]
            )
        next_step = builder.add(step, number(1))
        for phi, start, later in [
            (step, number(0), next_step),
            (source, panel, builder.add(source, number(_BYTES))),
            *(triple for three in zip(sums, starts, updated, strict=True)
              for triple in zip(*three, strict=True)),
        ]:  # fmt: skip
            phi.add_incoming(start, before)
            phi.add_incoming(later, loop)
        after = builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", next_step, steps), loop, after)
        builder.position_at_end(after)
        for r, new in enumerate(updated):
            line = builder.add(c, builder.mul(c_stride, number(r)))
            for h, value in enumerate(new):
                pointer = builder.inttoptr(builder.add(line, number(64 * h)), vector.as_pointer())
                builder.store(value, pointer, align=1)
        return context.get_dummy_value()

    def typed(
        context: Any, a: Any, a_stride: Any, a_norms: Any, panel: Any, panel_norms: Any,
        steps: Any, c: Any, c_stride: Any,
    ) -> Any:  # fmt: skip
        address, count = types.uintp, types.int64
        kinds = (address, count, address, address, address, count, address, count)
        return types.void(*kinds), generate

    return numba.extending.intrinsic(typed)


if _AVAILABLE:
    _eight_rows, _one_row = _register_block(_ROWS), _register_block(1)


@jit
def _rows(
    a: _Array, norms: _Array, i: int, rows: int,
    panels: _Array, panel_norms: _Array, first: int, count: int, c: _Array,
) -> None:  # fmt: skip
    """Write rows i to i + rows of the sums for `count` panels into `c`, 32 columns a panel."""
    k = a.shape[1]
    stride = 4 * c.shape[1]
    for j in range(count):
        panel = panels.ctypes.data + (first + j) * PANEL * k
        beside = panel_norms.ctypes.data + (first + j) * _BYTES
        column = c.ctypes.data + j * _BYTES
        line, norm = a.ctypes.data + i * k, norms.ctypes.data + 4 * i
        if rows == _ROWS:
            _eight_rows(line, k, norm, panel, beside, k // 4, column, stride)
        else:
            for _ in range(rows):
                _one_row(line, k, norm, panel, beside, k // 4, column, stride)
                line, norm, column = line + k, norm + 4, column + stride


@jit
def _residues(
    a: _Array, norms: _Array, panels: _Array, panel_norms: _Array, first: int, p: int,
    words: _Array, factors: _Array, out: _Array, top: int, left: int, columns: int,
) -> None:  # fmt: skip
    sums = np.empty((_ROWS, _STRIP), np.int32)
    P = np.int32(p)
    inv = np.float32(np.float32(1.0) / np.float32(p))
    for begin in range(0, columns, _STRIP):
        width = min(_STRIP, columns - begin)
        begin_panel, count = first + begin // PANEL, (width + PANEL - 1) // PANEL
        for i in range(0, len(a), _ROWS):
            rows = min(_ROWS, len(a) - i)
            _rows(a, norms, i, rows, panels, panel_norms, begin_panel, count, sums)
            for r in range(rows):
                line = out[top + i + r, left + begin : left + begin + width]
                reduce_bytes(sums[r], words, i + r, begin, factors, P, inv, line)


@jit
def _multiply(
    a: _Array, norms: _Array, panels: _Array, panel_norms: _Array, first: int, out: _Array
) -> None:
    columns = out.shape[1]
    count = (columns + PANEL - 1) // PANEL
    sums = np.empty((_ROWS, count * PANEL), np.int32)
    for i in range(0, len(a), _ROWS):
        rows = min(_ROWS, len(a) - i)
        _rows(a, norms, i, rows, panels, panel_norms, first, count, sums)
        out[i : i + rows] = sums[:rows, :columns]


@jit
def _pack(z: _Array, p: int, fours: _Array) -> None:
    n, k = z.shape
    P, half = np.int32(p), np.int32(p // 2)
    line = np.zeros(4 * fours.shape[1], np.int8)
    packed = line.view(np.uint32)
    for i in range(n):
        source, front = z[i], line[:k]
        for c in range(k):
            x = np.int32(np.int32(-2) * np.int32(source[c]))  # in (-2 p, 0]
            x = np.int32(x + (P if x < -half else np.int32(0)))
            front[c] = np.int8(x + (P if x < -half else np.int32(0)))
        panel = fours[i // PANEL, :, i % PANEL]
        for c in range(packed.size):
            panel[c] = packed[c]


class Rows(NamedTuple):
    """A left operand: canonical residues (n, k) with k a multiple of 4, and int32 norms (n,)."""

    values: NDArray[np.uint8]
    norms: NDArray[np.int32]

    @classmethod
    def of(cls, z: NDArray[np.uint8], norms: Ints) -> "Rows":
        """Wrap rows; they are copied only when columns must be added."""
        spare = -z.shape[1] % 4
        values = np.pad(z, ((0, 0), (0, spare))) if spare else np.ascontiguousarray(z)
        return cls(values, norms.astype(np.int32))

    def part(self, start: int, stop: int) -> "Rows":
        """Return some rows."""
        return Rows(self.values[start:stop], self.norms[start:stop])


class Panels(NamedTuple):
    """A right operand: balanced residues of -2 z and int32 norms, in panels of 32 rows."""

    values: NDArray[np.int8]  # (panel, four columns, row, column), (panels, k / 4, 32, 4); 0 beyond
    norms: NDArray[np.int32]  # (panels, 32)

    @classmethod
    def of(cls, z: NDArray[np.uint8], norms: Ints, p: int) -> "Panels":
        """Pack canonical residues z (n, k); `values` begins at a cache line."""
        n, k = z.shape
        shape = (-(-n // PANEL), -(-k // 4), PANEL, 4)
        raw: NDArray[np.int8] = np.zeros(math.prod(shape) + 64, dtype=np.int8)
        begin = -raw.ctypes.data % 64
        values = raw[begin : begin + raw.size - 64].reshape(shape)
        _pack(z, p, values.view(np.uint32)[..., 0])
        beside = np.zeros((shape[0], PANEL), dtype=np.int32)
        beside.reshape(-1)[:n] = norms
        return cls(values, beside)


def multiply(a: Rows, b: Panels, first: int, out: NDArray[np.int32]) -> None:
    """Write -2 a . b + norms, congruent to squared distances, into `out` from panel `first` on."""
    _multiply(*a, *b, first, out)


def residues(
    a: Rows, b: Panels, first: int, p: int, words: _Array, factors: _Array,
    out: NDArray[np.uint8], top: int, left: int, columns: int,
) -> None:  # fmt: skip
    """Write (-2 a . b + norms + sum_c factors[c] words[c]) mod p into a part of `out`.

    The sums are below 2**20 p; ``out[top : top + rows, left : left + columns]`` gets canonical
    residues; see `multiply` and `daskfc.coding.residues.compiled.reduce_tile`.
    """
    _residues(*a, *b, first, p, words, factors, out, top, left, columns)
