"""The inner loops of decoding; see `daskfc.coding.residues.compiled`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.residues import compiled
from daskfc.coding.residues.compiled import floor_modulo, jit, modulo_byte, modulo_long

_Array = NDArray[Any]

_I = np.int32
_F = np.float32


@jit
def _sum_eight(
    a: _Array, b: _Array, c: _Array, d: _Array, e: _Array, f: _Array, g: _Array, h: _Array,
    weights: _Array, start: int, totals: _Array, first: bool,
) -> None:  # fmt: skip
    r, n = totals.shape
    stop = start + n
    for prime in range(r):
        w = weights[prime]
        wa, wb, wc, wd, we, wf, wg, wh = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
        xa, xb = a[prime, start:stop], b[prime, start:stop]
        xc, xd = c[prime, start:stop], d[prime, start:stop]
        xe, xf = e[prime, start:stop], f[prime, start:stop]
        xg, xh = g[prime, start:stop], h[prime, start:stop]
        total = totals[prime]
        for i in range(n):
            s = wa * xa[i] + wb * xb[i] + wc * xc[i] + wd * xd[i]
            s += we * xe[i] + wf * xf[i] + wg * xg[i] + wh * xh[i]
            total[i] = s if first else total[i] + s


def weighted_sum(answers: Sequence[_Array], weights: _Array, start: int, totals: _Array) -> None:
    """Write sum_j weights[:, j] answers[j][:, start : start + n], unreduced, into `totals`.

    Answers are canonical residues (r, N) of K evaluators, weights (r, K) balanced:
    |totals| < 2**21 p for up to 2**14 answers of bytes, else 2**60.
    """
    K = len(answers)
    if compiled.NUMBA:  # eight answers a pass: `totals` is written once for K <= 8
        for j in range(0, K, 8):
            eight = list(answers[j : j + 8])
            w = np.zeros((len(totals), 8), dtype=totals.dtype)
            w[:, : len(eight)] = weights[:, j : j + 8]
            _sum_eight(*eight, *eight[:1] * (8 - len(eight)), w, start, totals, j == 0)
        return
    part = np.empty_like(totals)
    for j, answer in enumerate(answers):
        entries = answer[:, start : start + totals.shape[1]]
        out = part if j else totals
        np.multiply(entries, weights[:, j, None], out=out, dtype=totals.dtype)
        if j:
            totals += part


@jit
def _combine_byte(totals: _Array, primes: _Array, steps: _Array, M: int, out: _Array) -> int:
    n = out.size
    for a in range(len(primes)):
        P = _I(primes[a])
        inv = _F(_F(1.0) / _F(P))
        step = steps[a]
        for i in range(n):
            y = step * np.int64(modulo_byte(totals[a, i], P, inv))
            out[i] = y if a == 0 else out[i] + y
    largest = np.int64(0)
    inverse = 1.0 / np.float64(M)
    for i in range(n):
        y = out[i] - np.int64(np.float64(out[i]) * inverse) * M
        y += M if y < 0 else np.int64(0)
        y -= M if y >= M else np.int64(0)
        out[i] = y
        largest = max(largest, y)
    return int(largest)


@jit
def _combine_long(totals: _Array, primes: _Array, steps: _Array, M: int, out: _Array) -> int:
    n = out.size
    for a in range(len(primes)):
        P = primes[a]
        inv = 1.0 / np.float64(P)
        step = steps[a]
        for i in range(n):
            y = step * modulo_long(totals[a, i], P, inv)
            out[i] = y if a == 0 else out[i] + y
    largest = np.int64(0)
    for i in range(n):
        y = out[i]
        while y >= M:
            y -= M
        out[i] = y
        largest = max(largest, y)
    return int(largest)


def combine_primes(totals: _Array, primes: _Array, steps: _Array, M: int, out: _Array) -> int:
    """Write sum_a M/p_a (totals_a mod p_a) mod M, in [0, M), and return the largest.

    `totals` (r, n), of `weighted_sum`, include (M / p_a)**-1 mod p_a, and may be overwritten;
    `steps` are M / p_a; M is at most 2**48, so that r M fits an int64.
    """
    if compiled.NUMBA:
        kernel = _combine_byte if totals.dtype == np.int32 else _combine_long
        return int(kernel(totals, primes, steps, M, out))
    for a, p in enumerate(primes.tolist()):
        floor_modulo(totals[a], p)
        y = np.multiply(totals[a], steps[a], dtype=np.int64)
        if a == 0:
            out[...] = y
        else:
            out += y
    floor_modulo(out, M)
    return int(out.max(initial=0))
