"""Selection by shared bits, the smallest of k numbers as a one-hot row, and the rows of a table."""

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.secure.shared.comparison import less
from daskfc.secure.shared.pairs import Bits, Numbers
from daskfc.secure.shared.party import N_PARTIES, Party, Program, Words, together
from daskfc.secure.shared.planes import WORD, unpacked
from daskfc.secure.shared.products import both, multiply, shared_again
from daskfc.secure.shared.rows_of_bits import all_set
from daskfc.secure.shared.summands import dealt, known_summand

_ONES = np.uint64(2**64 - 1)


def chosen(party: Party, bit: Bits, x: Numbers, y: Numbers, bits: int = WORD) -> Program[Numbers]:
    """Return x where a bit is set, y elsewhere, of which the lowest `bits` mean anything.

    Bits that choose are packed along the last axis of x and y.

    With bit = a xor b as in `summands` and D = x - y, it is y + b D + a (D - 2 b D). The first
    round deals a and shares b D, to which the parties that know b have a summand each. Two rounds.
    """
    gap = x - y
    flat = bit.each(lambda words: unpacked(words, gap.shape[-1]).astype(np.uint64))
    n = flat.own.size
    each = -(-n // N_PARTIES)
    known = known_summand(flat, each)
    a = np.zeros_like(known)
    a[party.index] = known[party.index]
    wide = gap.each(lambda words: _filled(words, each))  # (3, each)
    after = (party.index - 1) % N_PARTIES  # the third of which this party is after the dealer
    b_gap = known * wide.following
    b_gap[after] += known[after] * wide.own[after]
    b_gap[party.index] = 0
    dealt_a, shared = yield from together(
        dealt(party, Numbers, a[np.newaxis], bits), shared_again(party, b_gap, bits)
    )
    rest = yield from multiply(party, dealt_a.reshape(N_PARTIES, each), wide - shared * 2, bits)
    found: Numbers = shared + rest
    return y + found.reshape(-1)[:n].reshape(*gap.shape)


def _filled(words: Words, each: int) -> Words:
    wide = np.zeros((N_PARTIES, each), dtype=np.uint64)
    wide.reshape(-1)[: words.size] = words.reshape(-1)
    return wide


def smallest(party: Party, x: Numbers, bits: int = WORD, *, flat: bool = False) -> Program[Bits]:
    """Return which of k numbers is the smallest, for each of n columns, as a one-hot row.

    Parameters
    ----------
    party : Party
        This party.
    x : Numbers
        Numbers (k, n), n a multiple of 64, whose differences are in [-2^(bits-1), 2^(bits-1)).
    bits : int
        Bits of the differences, in [2, 64].
    flat : bool
        Compare all with all, k (k - 1) / 2 times in place of k - 1, in fewer rounds.

    Returns
    -------
    Bits
        Words (k, n / 64): in each column one bit is set, of equal numbers that of the first.

    Raises
    ------
    InvalidInput
        For another number of columns.

    Notes
    -----
    Exact. Privacy: a party sees uniform words only. A tree of ceil(log2 k) levels, in which the
    right one of two neighbours wins where it is smaller, and a row keeps its bit where it won.
    Flat, a row has its bit where it wins against all others: one comparison's rounds and
    ceil(log2(k - 1)).
    """
    k, n = x.shape
    if n % WORD:
        raise InvalidInput(f"columns of numbers must be a multiple of {WORD}; got {n}. Add some.")
    if flat and k > 1:
        return (yield from _beats_all(party, x, bits))
    node = np.arange(k)  # of each row
    rows = Bits.known(party.index, np.full((k, n // WORD), _ONES))
    first = True
    while len(x) > 1:
        half = len(x) // 2
        left, right = x[: 2 * half : 2], x[1 : 2 * half : 2]
        wins = (yield from less(party, right, left, bits)).reshape(half, -1)
        taking = node < 2 * half  # a single node at the end stays as it is
        flips = np.where(node[taking] % 2, np.uint64(0), _ONES)[:, np.newaxis]
        kept = wins[node[taking] // 2] ^ flips
        if first and len(x) == 2:
            return kept
        single = x[2 * half :]
        if first:  # all rows are ones
            best = yield from chosen(party, wins, right, left, bits)
        elif len(x) == 2:
            return (yield from both(party, rows, kept))
        else:
            best, kept = yield from together(
                chosen(party, wins, right, left, bits), both(party, rows[taking], kept)
            )
        rows = Bits.joined([kept, rows[~taking]])
        x, node, first = Numbers.joined([best, single]), node // 2, False
    return rows


def _beats_all(party: Party, x: Numbers, bits: int) -> Program[Bits]:
    k = len(x)
    first, second = np.triu_indices(k, 1)
    wins = (yield from less(party, x[second], x[first], bits)).reshape(len(first), -1)
    pair = np.zeros((k, k), dtype=np.intp)
    pair[first, second] = pair[second, first] = np.arange(len(first))
    others = np.array([[other for other in range(k) if other != row] for row in range(k)]).T
    rows = np.arange(k)  # a row wins against a later one unless that is smaller
    flips = np.where(others > rows, _ONES, np.uint64(0))[:, :, np.newaxis]
    return (yield from all_set(party, wins[pair[rows, others]] ^ flips))


def one_hot(party: Party, planes: Bits) -> Program[Bits]:
    """Return rows (2^b, words), in which a number's row is set, of planes (b, words) of numbers.

    The rows of the high and the low half of the planes, each with each: ceil(log2 b) rounds.
    """
    if len(planes) == 1:
        return Bits.joined([~planes, planes])
    half = len(planes) // 2
    low, high = yield from together(one_hot(party, planes[:half]), one_hot(party, planes[half:]))
    rows = yield from both(party, high.each(lambda words: words[:, np.newaxis]), low)
    return rows.reshape(len(high) * len(low), -1)
