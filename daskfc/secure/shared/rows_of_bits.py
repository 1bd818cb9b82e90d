"""Computations down the columns of a matrix of bits, packed by rows: for all columns at once.

They take a few ands for each bit of the matrix, and a few times the logarithm of its rows in
rounds. Numbers of columns are planes, the lowest first.
"""

import numpy as np

from daskfc.secure.shared.comparison import carry
from daskfc.secure.shared.pairs import Bits
from daskfc.secure.shared.party import Party, Program, Words
from daskfc.secure.shared.planes import WORD, spread, unpacked
from daskfc.secure.shared.products import both, shared_bits_again

_ONES = np.uint64(2**64 - 1)


def all_set(party: Party, rows: Bits) -> Program[Bits]:
    """Return the and of all rows: a tree."""
    while len(rows) > 1:
        half = len(rows) // 2
        found = yield from both(party, rows[:half], rows[half : 2 * half])
        rows = Bits.joined([found, rows[2 * half :]])
    return rows[0]


def any_set(party: Party, words: Bits) -> Program[Bits]:
    """Return one word, whose lowest bit tells whether any bit is set, and whose others are 0."""
    rest = yield from all_set(party, ~words.reshape(-1, 1))
    for by in (32, 16, 8, 4, 2, 1):
        moved = Bits(rest.party, rest.own >> np.uint64(by), rest.following >> np.uint64(by))
        rest = yield from both(party, rest, moved)
    return ~rest & np.uint64(1)


def masked(party: Party, rows: Bits, bits: Bits) -> Program[Bits]:
    """Return the rows (n, words) whose own bit, of packed bits (words of n), is set, else zeros."""
    own = bits.each(lambda words: spread(words, len(rows))[:, np.newaxis])
    return (yield from both(party, rows, own))


def at_least(party: Party, rows: Bits, bound: int) -> Program[Bits]:
    """Return in which columns at least `bound` bits of n rows are set, 1 <= bound <= n.

    With 2^b > n it is whether the sum and 2^b - bound together reach 2^b. Three rows of one weight
    become one of it and one of twice the weight, in all weights at once (Wallace 1964), until two
    numbers are left: about an and for each bit, in log n to the base 3/2 rounds.
    """
    b = len(rows).bit_length()
    shape = rows.shape[1:]
    row = np.full((1, *shape), _ONES)
    weights = [rows] + [rows[:0]] * b
    for k in range(b):
        if ((1 << b) - bound) >> k & 1:
            weights[k] = Bits.joined([weights[k], Bits.known(party.index, row)])
    while any(len(weights[k]) > 2 for k in range(b)):
        thirds = [len(weights[k]) // 3 for k in range(b)]
        x, y, z = (
            Bits.joined([weights[k][i : 3 * thirds[k] : 3] for k in range(b)]) for i in range(3)
        )
        carries = (yield from both(party, x ^ z, y ^ z)) ^ z
        sums, ends = x ^ y ^ z, np.cumsum([0, *thirds])
        parts = [slice(ends[k], ends[k + 1]) for k in range(b)]
        rests = [weights[k][3 * thirds[k] :] for k in range(b)]
        weights = [
            Bits.joined([sums[parts[k]], rests[k]] + ([carries[parts[k - 1]]] if k else []))
            for k in range(b)
        ] + [Bits.joined([weights[b], carries[parts[b - 1]]])]
    none = Bits.known(party.index, np.zeros_like(row))
    one, two = (
        Bits.joined([weights[k][i : i + 1] if len(weights[k]) > i else none for k in range(b)])
        for i in range(2)
    )
    g = yield from both(party, one, two)
    reached = yield from carry(party, g, (one ^ two)[1:])
    # The sum is below 2^(b + 1), so at most one of its carries out of the highest bit is set.
    return reached ^ weights[b].each(lambda words: np.bitwise_xor.reduce(words, axis=0))


def first_set(party: Party, rows: Bits) -> Program[tuple[Bits, Bits]]:
    """Return the planes of the first row that is set, and in which columns one is.

    A tree whose nodes know whether a row is set, and the lowest bits of the first: two ands for
    each bit in all, one round a level. Without a row that is set the planes have no meaning.
    """
    found, index = rows, [rows[:0]][:0]
    while len(found) > 1:
        if len(found) % 2:
            none = Bits.known(party.index, np.zeros((1, found.shape[1]), dtype=np.uint64))
            found, index = (
                Bits.joined([found, none]),
                [Bits.joined([plane, none]) for plane in index],
            )
        left = found[::2]
        pairs = [(~left, ~found[1::2]), *((left, one[::2] ^ one[1::2]) for one in index)]
        x, y = (Bits.joined([pair[i] for pair in pairs]) for i in range(2))
        chosen = (yield from both(party, x, y)).reshape(len(pairs), len(left), -1)
        index = [one[1::2] ^ chosen[k + 1] for k, one in enumerate(index)] + [~left]
        found = ~chosen[0]
    planes = [plane for plane in index] or [Bits.known(party.index, np.zeros_like(found.own))]
    return Bits.joined(planes), found[0]


def looked_up(party: Party, table: Bits, rows: Bits) -> Program[Bits]:
    """Return the planes of table entries (b, words) whose row is set, of one-hot rows (n, words).

    Inner products modulo 2: one bit for each bit of a result, in one round.
    """
    n = min(len(rows), table.shape[1] * WORD)

    def entries(words: Words) -> Words:
        return unpacked(words, n).astype(bool)

    other, own = entries(table.own ^ table.following), entries(table.own)
    z = np.stack([
        np.bitwise_xor.reduce(rows.own[:n][other[k]], axis=0)
        ^ np.bitwise_xor.reduce(rows.following[:n][own[k]], axis=0)
        for k in range(len(table))
    ])  # fmt: skip
    return (yield from shared_bits_again(party, z))


def smaller(party: Party, x: Bits, y: Bits) -> Program[Bits]:
    """Return in which columns the number of planes x (b, words) is below that of planes y."""
    g = yield from both(party, ~x, y)
    return (yield from carry(party, g, ~(x ^ y)[1:]))


def smallest_of_rows(party: Party, rows: Bits, labels: Bits, at_once: int) -> Program[Bits]:
    """Return the smallest label of the rows that are set, for each column; all ones where none is.

    Labels are planes (b, words), packed by row. A tree of comparisons: 5 b ands for each bit, in 1
    + ceil(log2 n) (2 + ceil(log2 b)) rounds for each block of columns with `at_once` words.
    """
    n, width = rows.shape
    b = len(labels)
    each = max(1, at_once // (b * n))
    masks = labels.each(lambda words: spread(words, n)[:, :, np.newaxis])  # (b, n, 1)
    found = []
    for first in range(0, width, each):
        block = rows[:, first : first + each]
        x = ~(yield from both(party, ~masks, block.each(lambda words: words[np.newaxis])))
        while x.shape[1] > 1:
            half = x.shape[1] // 2
            left, right = (x[:, i : 2 * half : 2].reshape(b, -1) for i in range(2))
            wins = yield from smaller(party, right, left)
            step = yield from both(party, wins.reshape(1, -1), left ^ right)
            best = (left ^ step).reshape(b, half, -1)
            x = Bits.joined([best, x[:, 2 * half :]], axis=1)
        found.append(x[:, 0])
    return Bits.joined(found, axis=1)
