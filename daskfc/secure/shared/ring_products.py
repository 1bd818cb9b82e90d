"""Matrix products modulo 2^64 at the speed of float64 BLAS."""

import numpy as np
from numpy.typing import NDArray

from daskfc.secure.shared.party import Words

__all__ = ["matrix_product"]

_BITS = 22  # of a limb: three of them hold a word
# Limbs are in [-2^21, 2^21], products of two at most 2^42, so a sum of up to 2^11 of them is at
# most 2^53: every sum on the way, in any order and with fused operations, is a whole number that
# float64 holds exactly. The longest sums are of 3 limbs for each of the columns.
_COLUMNS = 2**11 // 3
_FEW = (
    16  # ours: with so few rows or columns numpy's own product takes less than cutting into limbs
)
_BLOCK = 1 << 20  # ours: numbers of a block of rows; its limbs and products take some 30 MiB


def _limbs(words: Words) -> list[NDArray[np.float64]]:
    """Return l_0, l_1, l_2 with words = l_0 + 2^22 l_1 + 2^44 l_2 modulo 2^64.

    The first two are in [-2^21, 2^21); the last is what is left of 20 bits, in [-2^19, 2^19].
    """
    rest = words.view(np.int64)
    limbs = []
    for _ in range(2):
        low = ((rest + (1 << _BITS - 1)) & ((1 << _BITS) - 1)) - (1 << _BITS - 1)
        limbs.append(low.astype(np.float64))
        rest = (rest - low) >> _BITS  # may wrap around: the difference is a multiple of 2^64
    return [*limbs, rest.astype(np.float64)]


def matrix_product(x: Words, y: Words) -> Words:
    """Return the product of x (n, d) and y (d, m) modulo 2^64.

    With limbs, x y = s_0 + 2^22 s_1 + 2^44 s_2, where s_k sums the products of limbs a and b of
    a + b = k; those of a + b > 2 are multiples of 2^66. Six products of float64 matrices in all.
    """
    n, d = x.shape
    if min(n, y.shape[1]) <= _FEW:
        return x @ y
    result = np.zeros((n, y.shape[1]), dtype=np.uint64)
    for first in range(0, d, _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        right = np.concatenate(_limbs(y[columns])[::-1])  # [y_2; y_1; y_0]
        width = len(right) // 3
        rows = max(1, _BLOCK // max(3 * width, y.shape[1]))
        for top in range(0, n, rows):
            left = np.concatenate(_limbs(x[top : top + rows, columns]), axis=1)  # [x_0 x_1 x_2]
            block = result[top : top + rows]
            for k in range(3):
                s = left[:, : (k + 1) * width] @ right[(2 - k) * width :]
                block += s.astype(np.int64).view(np.uint64) << np.uint64(_BITS * k)
    return result
