"""Bit planes: bit b of many numbers side by side, 64 numbers to a word.

Bit j of word w in plane b is bit b of number 64 w + j. A gate on planes is one operation on words
for 64 numbers.
"""

import numpy as np
from numpy.typing import NDArray

from daskfc.secure.shared.party import Words

WORD = 64  # bits

_CHUNK = 1 << 8  # ours: blocks of 64 words; a chunk and its work memory stay in a 1 MiB L2 cache


def n_words(n: int) -> int:
    """Return how many words n bits take."""
    return -(-n // WORD)


def _swap(rows: Words, low_half: bool) -> Words:
    """Transpose blocks of 64 x 64 bits: rows (64, blocks), block by column, in place.

    Step j swaps the upper right and lower left quarter of every square of 2 j bits (Warren,
    "Hacker's Delight", §7-3). With `low_half` only the first 32 rows of the result are made.
    """
    j, mask = 32, 0xFFFFFFFF
    if low_half:
        rows = (rows[:32] & np.uint64(mask)) | (rows[32:] << np.uint64(j))
        j, mask = 16, mask ^ mask << 16
    while j:
        squares = rows.reshape(-1, 2, j, rows.shape[1])
        upper, lower = squares[:, 0], squares[:, 1]
        moved = upper >> np.uint64(j)
        moved ^= lower
        moved &= np.uint64(mask & 2**64 - 1)
        lower ^= moved
        moved <<= np.uint64(j)
        upper ^= moved
        j >>= 1
        mask ^= mask << j
    return rows


def planes_of(numbers: Words, n_planes: int = WORD) -> Words:
    """Return the lowest planes (n_planes, words) of numbers, a multiple of 64 in all."""
    blocks = numbers.reshape(-1, WORD)
    planes = np.empty((n_planes, len(blocks)), dtype=np.uint64)
    for start in range(0, len(blocks), _CHUNK):
        rows = blocks[start : start + _CHUNK].T.copy()
        planes[:, start : start + _CHUNK] = _swap(rows, n_planes <= WORD // 2)[:n_planes]
    return planes


def transposed(matrix: Words) -> Words:
    """Return the transpose of a matrix of bits (n, words), n a multiple of 64, packed by rows."""
    n, width = matrix.shape
    result = np.empty((width * WORD, n // WORD), dtype=np.uint64)
    for w in range(width):
        result[w * WORD : (w + 1) * WORD] = planes_of(np.ascontiguousarray(matrix[:, w]))
    return result


def unpacked(words: Words, n: int) -> NDArray[np.uint8]:
    """Return the first n bits along the last axis, as zeros and ones."""
    raw = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(raw, axis=-1, count=n, bitorder="little")


def spread(words: Words, n: int) -> Words:
    """Return n words, each of which has one of the first n bits in all its places."""
    return np.negative(unpacked(words, n).astype(np.uint64))
