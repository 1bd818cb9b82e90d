"""Inner loops over residues: numba when it is installed, numpy otherwise, same results.

All work on tiles that fit an L2 cache. Tests set `NUMBA` to False and compare the two. Numba
compiles at the first call (about 0.3 s each) and caches on disk.

Reduction modulo p rounds x / p to the nearest integer by adding and subtracting 1.5 * 2**23 (or
2**52), which vectorises where rint does not; x - q p then lies in (-p, p), and one
conditional addition makes it canonical.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]


def _numba() -> Any:
    try:
        return importlib.import_module("numba")
    except ImportError:  # the base install
        return None


numba: Any = _numba()
NUMBA: bool = numba is not None

_I = np.int32
_F = np.float32
_ROUND32 = np.float32(1.5 * 2**23)
_ROUND64 = 1.5 * 2.0**52


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function at its first call, to run without the interpreter lock."""
    if numba is None:
        return function
    compiled: Callable[..., Any]
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # nowhere to write a cache
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


@jit
def _rejected(words: _Array, limit: Any, found: _Array) -> int:
    count = 0
    for start in range(0, words.size, 128):
        part = words[start : min(start + 128, words.size)]
        some = np.uint16(0)
        for i in range(part.size):
            some = np.uint16(some | np.uint16(part[i] >= limit))
        if some:
            for i in range(part.size):
                if part[i] >= limit:
                    found[count] = start + i
                    count += 1
    return count


def rejected(words: _Array, limit: int, found: _Array) -> _Array:
    """Return ascending positions of words of at least `limit`; `found`, int64, is work memory."""
    if limit >> (8 * words.itemsize):
        return found[:0]
    bound = words.dtype.type(limit)
    if NUMBA and words.dtype == np.uint16:
        return found[: _rejected(words, bound, found)]
    return np.flatnonzero(words >= bound)


@jit
def modulo_byte(x: Any, P: Any, inv: Any) -> Any:
    """Return x mod P for |x| < 2**21 P: the float32 quotient is off by less than 0.38 + 0.5."""
    q = _F(_F(_F(_F(x) * inv) + _ROUND32) - _ROUND32)
    y = _I(x - _I(_I(q) * P))
    return _I(y + (P if y < 0 else _I(0)))


@jit
def modulo_long(x: Any, P: Any, inv: Any) -> Any:
    """Return x mod P for |x| < 2**60 and |x| / P < 2**50."""
    q = (np.float64(x) * inv + _ROUND64) - _ROUND64
    y = x - np.int64(q) * P
    return y + (P if y < 0 else np.int64(0))


def floor_modulo(x: _Array, p: int) -> None:
    """Reduce integers in place; numpy's floor_divide is vectorised, its remainder is not."""
    quotient = np.floor_divide(x, x.dtype.type(p))
    quotient *= x.dtype.type(p)
    x -= quotient


def is_cached() -> bool:
    """Run a small loop, and return whether it was compiled before; True without numba."""
    rejected(np.zeros(1, np.uint16), 1, np.zeros(1, np.int64))
    return not NUMBA or not _rejected.stats.cache_misses  # type: ignore[attr-defined]


# --- products ----------------------------------------------------------------------------------


@jit
def reduce_bytes(
    acc: _Array, words: _Array, row: int, column: int, factors: _Array, P: Any, inv: Any,
    out: _Array,
) -> None:  # fmt: skip
    """Do `reduce_tile` for words of `row` from `column` on; P is p (int32), inv 1 / p (float32)."""
    if words.shape[0] == 0:
        for j in range(out.size):
            out[j] = np.uint8(modulo_byte(_I(acc[j]), P, inv))
    elif words.shape[0] == 1:
        f = factors[0]
        hidden = words[0, row, column : column + out.size]
        for j in range(out.size):
            x = _I(_I(acc[j]) + _I(f * _I(hidden[j])))
            out[j] = np.uint8(modulo_byte(x, P, inv))
    else:
        line = np.empty(out.size, np.int32)
        for j in range(out.size):
            line[j] = _I(acc[j])
        for c in range(words.shape[0]):
            f = factors[c]
            hidden = words[c, row, column : column + out.size]
            for j in range(out.size):
                line[j] = _I(line[j] + _I(f * _I(hidden[j])))
        for j in range(out.size):
            out[j] = np.uint8(modulo_byte(line[j], P, inv))


@jit
def _reduce_byte(
    acc: _Array, words: _Array, factors: _Array, p: int, out: _Array, top: int, left: int
) -> None:
    rows, columns = acc.shape
    inv = _F(_F(1.0) / _F(p))
    for i in range(rows):
        line = out[top + i, left : left + columns]  # plain indices: the loops vectorise
        reduce_bytes(acc[i], words, i, 0, factors, _I(p), inv, line)


@jit
def _reduce_long(
    acc: _Array, words: _Array, factors: _Array, p: int, out: _Array, top: int, left: int
) -> None:
    rows, columns = acc.shape
    line = np.empty(columns, np.int64)
    P = np.int64(p)
    inv = 1.0 / np.float64(p)
    for i in range(rows):
        line_out = out[top + i, left : left + columns]  # plain indices: the loops vectorise
        for j in range(columns):
            line[j] = np.int64(acc[i, j])
        for c in range(words.shape[0]):
            f = factors[c]
            for j in range(columns):
                line[j] += f * np.int64(words[c, i, j])
        for j in range(columns):
            line_out[j] = np.uint32(modulo_long(line[j], P, inv))


def reduce_tile(
    acc: _Array, words: _Array, factors: _Array, p: int, out: _Array, top: int = 0, left: int = 0
) -> None:
    """Write (acc + sum_c factors[c] words[c]) mod p, canonical, at (top, left) of `out`.

    |acc| <= 2**20 p for uint8 results, 2**53 for uint32; at most 16 balanced factors (int32 or
    int64): their part is below 2**19 p, or 2**59. A strided view as `out` would not vectorise.
    """
    if NUMBA:
        kernel = _reduce_byte if out.dtype == np.uint8 else _reduce_long
        kernel(acc, words, factors, p, out, top, left)
        return
    x = acc.astype(factors.dtype)
    for f, w in zip(factors, words, strict=True):
        x += f * w.astype(factors.dtype)
    floor_modulo(x, p)
    out[top : top + acc.shape[0], left : left + acc.shape[1]] = x


@jit
def _squared_norms_byte(z: _Array, p: int) -> _Array:
    n, k = z.shape
    norms = np.empty(n, np.int64)
    for i in range(n):
        total = np.int64(0)
        for start in range(0, k, 1 << 15):
            part = z[i, start : start + (1 << 15)]
            some = np.uint32(0)  # 2**15 * 255**2 < 2**31
            for c in range(part.size):
                x = np.uint32(part[c])
                some = np.uint32(some + np.uint32(x * x))
            total += np.int64(some)
        norms[i] = total % np.int64(p)
    return norms


@jit
def _squared_norms_long(z: _Array, p: int) -> _Array:
    n, k = z.shape
    norms = np.empty(n, np.int64)
    half = np.int64(p // 2)
    P = np.int64(p)
    for i in range(n):
        total = np.int64(0)
        for start in range(0, k, 4096):  # 4096 * 2**46 = 2**58
            part = np.int64(0)
            for c in range(start, min(start + 4096, k)):
                x = np.int64(z[i, c])
                x -= P if x > half else np.int64(0)
                part += x * x
            total += part % P
        norms[i] = total % P
    return norms


def squared_norms(z: _Array, p: int) -> _Array:
    """Return |z_i|**2 mod p of canonical residues z, shape (n, k), as int64 (n,)."""
    norms: _Array
    if NUMBA:
        norms = (_squared_norms_byte if z.dtype == np.uint8 else _squared_norms_long)(z, p)
        return norms
    norms = np.zeros(len(z), dtype=np.int64)
    for start in range(0, z.shape[1], 128):  # 128 * 2**46 = 2**53: exact in float64
        part = z[:, start : start + 128].astype(np.float64)
        part -= p * (part > p // 2)
        norms += np.einsum("ij,ij->i", part, part).astype(np.int64) % p
    norms %= p
    return norms


@jit
def _look_up(z: _Array, table: _Array, out: _Array) -> None:
    n, k = z.shape
    for i in range(n):
        for c in range(k):
            out[i, c] = table[z[i, c]]


def look_up(z: _Array, table: _Array, out: _Array) -> None:
    """Write table[z], for z uint8 (n, k) and a table of 256, into the first columns of `out`."""
    if NUMBA:
        _look_up(z, table, out)
    else:
        out[: len(z), : z.shape[1]] = table.take(z, mode="clip")


def no_words(dtype: np.dtype[Any]) -> tuple[_Array, _Array]:
    """Return empty words and factors, for results of a dtype that are not hidden."""
    byte = dtype == np.uint8
    words = np.empty((0, 1, 1), dtype=np.uint16 if byte else np.uint32)
    return words, np.empty(0, dtype=np.int32 if byte else np.int64)


@jit
def _mirror(block: _Array) -> None:
    n = len(block)
    for top in range(0, n, 32):
        for left in range(0, top + 1, 32):
            for i in range(top, min(top + 32, n)):
                for j in range(left, min(left + 32, i)):
                    block[i, j] = block[j, i]


def mirror(block: _Array) -> None:
    """Copy the upper triangle of a square block onto the lower one, in place."""
    if NUMBA:
        _mirror(block)
        return
    block[...] = np.triu(block) + np.triu(block, 1).T


# --- encoding ----------------------------------------------------------------------------------


@jit
def _cut_rows(rows: _Array, start: int, p: int, segments: _Array, l: int, n: int) -> None:  # noqa: E741
    d, k = rows.shape[1], segments.shape[2]
    P = np.int64(p)
    inv = 1.0 / np.float64(p)
    for o in range(l):
        width = max(0, min(k, d - o * k))
        for i in range(n):
            line = rows[start + i, o * k : o * k + width]
            line_out = segments[o, i, :width]
            for c in range(width):
                line_out[c] = modulo_long(np.int64(line[c]), P, inv)


def cut_rows(rows: _Array, start: int, p: int, segments: _Array, l: int, n: int) -> None:  # noqa: E741
    """Write rows (N, d) from `start`, |x| < 2**57, modulo p, canonical, split into segments.

    ``segments[:l, :n]`` is overwritten except beyond column d; `segments` is contiguous, of shape
    (at least l, at least n, k).
    """
    if NUMBA:
        _cut_rows(rows, start, p, segments, l, n)
        return
    k = segments.shape[2]
    for o in range(l):
        values = rows[start : start + n, o * k : (o + 1) * k].copy()
        floor_modulo(values, p)
        segments[o, :n, : values.shape[1]] = values


@jit
def _encode_byte(
    segments: _Array, matrix: _Array, p: int, out: _Array, prime: int, start: int, n: int
) -> None:
    parts, _, k = segments.shape
    line = np.empty(k, np.int32)
    P = _I(p)
    inv = _F(_F(1.0) / _F(p))
    for i in range(n):
        for e in range(matrix.shape[0]):
            line_out = out[e, prime, start + i]
            f = _I(matrix[e, 0])
            for c in range(k):
                line[c] = _I(f * _I(segments[0, i, c]))
            for o in range(1, parts):
                f = _I(matrix[e, o])
                for c in range(k):
                    line[c] = _I(line[c] + _I(f * _I(segments[o, i, c])))
            for c in range(k):
                line_out[c] = np.uint8(modulo_byte(line[c], P, inv))


@jit
def _encode_long(
    segments: _Array, matrix: _Array, p: int, out: _Array, prime: int, start: int, n: int
) -> None:
    parts, _, k = segments.shape
    line = np.empty(k, np.int64)
    P = np.int64(p)
    inv = 1.0 / np.float64(p)
    for i in range(n):
        for e in range(matrix.shape[0]):
            line_out = out[e, prime, start + i]
            for c in range(k):
                line[c] = 0
            for o in range(parts):
                f = np.int64(matrix[e, o])
                for c in range(k):
                    line[c] += f * np.int64(segments[o, i, c])
            for c in range(k):
                line_out[c] = np.uint32(modulo_long(line[c], P, inv))


def encode_tile(
    segments: _Array, matrix: _Array, p: int, out: _Array, prime: int, start: int, n: int
) -> None:
    """Write matrix @ segments mod p, coded rows, into ``out[:, prime, start : start + n]``.

    `segments` (l + t, >= n, k) are canonical, of the data, then the noise; `matrix` (m, l + t) is
    balanced, l + t <= 2**13 so that |sums| < 2**20 p or 2**60; `out` is (m, r, N, k).
    """
    if NUMBA:
        kernel = _encode_byte if out.dtype == np.uint8 else _encode_long
        kernel(segments, matrix, p, out, prime, start, n)
        return
    dtype = np.int32 if out.dtype == np.uint8 else np.int64
    parts = segments[:, :n].astype(dtype)
    for e in range(len(matrix)):
        total = dtype(matrix[e, 0]) * parts[0]
        for o in range(1, len(parts)):
            total += dtype(matrix[e, o]) * parts[o]
        floor_modulo(total, p)
        out[e, prime, start : start + n] = total
