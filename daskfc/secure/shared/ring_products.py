"""Matrix products modulo 2^64 at the speed of float64 BLAS."""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.residues.scratch import scratch
from daskfc.secure.shared.party import Words
from daskfc.threads import do_all

_BITS = 22  # of a limb: three of them hold a word
# Limbs are in [-2^21, 2^21], products of two at most 2^42, so a sum of up to 2^11 of them is at
# most 2^53: every sum on the way, in any order and with fused operations, is a whole number that
# float64 holds exactly. The longest sums are of 3 products for each term.
_TERMS = 2**11 // 3
_ROWS, _COLUMNS = 1 << 6, 1 << 10  # ours: a tile and its work memory stay in a 2 MiB L2 cache
_FEW, _SMALL = 8, 1 << 17  # ours: sums of so few products take numpy less time than limbs


def _limbs(words: Words, count: int) -> list[NDArray[np.float64]]:
    """Return l_0, l_1, l_2 with words = l_0 + 2^22 l_1 + 2^44 l_2 modulo 2^64, or l_0 and l_1.

    The first two are in [-2^21, 2^21); the last is what is left of 20 bits, in [-2^19, 2^19].
    """
    rest = words.view(np.int64)
    limbs = []
    for _ in range(2):
        low = ((rest + (1 << _BITS - 1)) & ((1 << _BITS) - 1)) - (1 << _BITS - 1)
        limbs.append(low.astype(np.float64))
        rest = (rest - low) >> _BITS  # may wrap around: the difference is a multiple of 2^64
    return [*limbs, rest.astype(np.float64)][:count]


def matrix_product(x: Words, y: Words, bits: int = 64) -> Words:
    """Return the product of x (n, d) and y (d, m) modulo 2^64, or of which the lowest bits are so.

    With limbs, x y = s_0 + 2^22 s_1 + 2^44 s_2, where s_k sums the products of limbs a and b of
    a + b = k; those of a + b > 2 are multiples of 2^66. Six products of float64 matrices in all,
    and three for up to 44 bits.
    """
    (n, d), m = x.shape, y.shape[1]
    if d <= _FEW or n * d * m <= _SMALL:
        return x @ y
    count = 2 if bits <= 2 * _BITS else 3
    result = np.zeros((n, m), dtype=np.uint64)

    def compute(corner: tuple[int, int]) -> None:
        top, start = corner
        columns = slice(start, start + _COLUMNS)
        for first in range(0, d, _TERMS):
            terms = slice(first, first + _TERMS)
            right = np.concatenate(_limbs(y[terms, columns], count)[::-1])  # [y_2; y_1; y_0]
            for above in range(top, min(n, top + _COLUMNS), _ROWS):
                rows = slice(above, min(above + _ROWS, top + _COLUMNS))
                left = np.concatenate(_limbs(x[rows, terms], count), axis=1)  # [x_0 x_1 x_2]
                _add_tile(left, right, count, result[rows, columns])

    do_all(compute, product(range(0, n, _COLUMNS), range(0, m, _COLUMNS)))
    return result


def _add_tile(
    left: NDArray[np.float64], right: NDArray[np.float64], count: int, tile: Words
) -> None:
    """Add the product of so many limbs to a tile of the result, in place."""
    width = len(right) // count
    s = scratch("sums of limbs", tile.shape, np.float64)
    whole = scratch("whole sums", tile.shape, np.int64)
    for k in range(count):
        np.matmul(left[:, : (k + 1) * width], right[(count - 1 - k) * width :], out=s)
        np.copyto(whole, s, casting="unsafe")
        np.left_shift(whole, _BITS * k, out=whole)
        tile += whole.view(np.uint64)
