"""Bits of shared numbers, comparisons, and exact shifts, on bit planes.

A number is a + b modulo 2^64, with a and b as in `summands`. Its bits are those of an adder on
planes: g = a and b, p = a xor b, and carries by a tree for one bit, or all of them by the prefix
network of Kogge and Stone (1973). Only the lowest `bits` planes are looked at: a number that is
known to be in [-2^(bits-1), 2^(bits-1)) has its sign in plane bits - 1 of the sum modulo 2^bits.
"""

import numpy as np

from daskfc.errors import InvalidInput
from daskfc.secure.shared.pairs import Bits, Numbers
from daskfc.secure.shared.party import N_PARTIES, Party, Program, together
from daskfc.secure.shared.planes import WORD, n_words, planes_of, unpacked
from daskfc.secure.shared.products import and_summand, shared_again, shared_bits_again
from daskfc.secure.shared.summands import cross_summand, dealt, known_summand


def _generated(party: Party, x: Numbers, bits: int, n_carries: int) -> Program[tuple[Bits, Bits]]:
    """Return g (n_carries, words) and p (bits, words) of numbers; words are a multiple of 3."""
    each = -(-n_words(x.own.size) // N_PARTIES)  # words
    planes = planes_of(known_summand(x, each * WORD).reshape(-1), bits)
    p = yield from dealt(party, Bits, planes.reshape(bits, N_PARTIES, each))
    g = yield from shared_bits_again(party, cross_summand(party, p[:n_carries]))
    return g, p


def carry(party: Party, g: Bits, p: Bits) -> Program[Bits]:
    """Return the carry (words,) out of planes g (n, words) and p (n - 1, words), without p_0.

    Neighbours are put together: g = g_high xor (p_high and g_low), p = p_high and p_low. ceil(log2
    n) rounds.
    """
    while len(g) > 1:
        half = len(g) // 2
        high = p[: 2 * half : 2]  # of the planes 1, 3, ...
        z = np.empty((2 * half - 1, g.shape[1]), dtype=np.uint64)
        and_summand(high, g[: 2 * half : 2], z[:half])
        and_summand(high[1:], p[1 : 2 * half - 1 : 2], z[half:])
        found = yield from shared_bits_again(party, z)
        single = slice(2 * half, None)  # the highest plane of an odd number
        if len(g) % 2:
            p = Bits.joined([found[half:], p[2 * half - 1 :]])
            g = Bits.joined([g[1 : 2 * half : 2] ^ found[:half], g[single]])
        else:
            p, g = found[half:], g[1::2] ^ found[:half]
    return g[0]


def _check_bits(bits: int) -> None:
    if not 2 <= bits <= WORD:
        raise InvalidInput(f"numbers are compared by 2 to {WORD} bits; got {bits}.")


def negative(party: Party, x: Numbers, bits: int = WORD) -> Program[Bits]:
    """Return which numbers are below 0, packed in the flat order of `x`.

    Parameters
    ----------
    party : Party
        This party.
    x : Numbers
        Numbers in [-2^(bits-1), 2^(bits-1)), of any shape.
    bits : int
        Bits of which numbers may be, in [2, 64]; fewer cost less.

    Returns
    -------
    Bits
        Words (ceil(n / 64),) for n numbers; bits beyond n are of no meaning.

    Raises
    ------
    InvalidInput
        For another number of bits.

    Notes
    -----
    Exact. Privacy: a party sees uniform words only. 2 + ceil(log2(bits - 1)) rounds.

    References
    ----------
    Mohassel and Rindal, "ABY3", CCS 2018, §5.3, with `summands` in place of a carry-save adder.
    """
    _check_bits(bits)
    g, p = yield from _generated(party, x, bits, bits - 1)
    into_top = yield from carry(party, g, p[1 : bits - 1])
    return (p[bits - 1] ^ into_top)[: n_words(x.own.size)]


def less(party: Party, x: Numbers, y: Numbers, bits: int = WORD) -> Program[Bits]:
    """Return x < y, packed; differences must be in [-2^(bits-1), 2^(bits-1))."""
    return negative(party, x - y, bits)


def at_most(party: Party, x: Numbers, bound: int, bits: int = WORD) -> Program[Bits]:
    """Return x <= bound, packed; bound - x must be in [-2^(bits-1), 2^(bits-1))."""
    return ~(yield from negative(party, bound - x, bits))


def bits_of(party: Party, x: Numbers, bits: int = WORD) -> Program[Bits]:
    """Return the lowest bits of numbers as planes (bits, words), packed in flat order.

    By Kogge and Stone: after the step of distance d, g_k is the carry out of the planes k - 2 d + 1
    to k. 2 + ceil(log2(bits - 1)) rounds.
    """
    _check_bits(bits)
    g, p = yield from _generated(party, x, bits, bits - 1)
    sums, n, distance = p, bits - 1, 1
    while distance < n:
        more = max(0, n - 2 * distance)  # planes whose p is asked for again
        z = np.empty((n - distance + more, g.shape[1]), dtype=np.uint64)
        and_summand(p[distance:n], g[: n - distance], z[: n - distance])
        and_summand(p[n - more : n], p[n - more - distance : n - distance], z[n - distance :])
        found = yield from shared_bits_again(party, z)
        g = Bits.joined([g[:distance], g[distance:] ^ found[: n - distance]])
        p = Bits.joined([p[: n - more], found[n - distance :]])
        distance *= 2
    carried = Bits.joined([sums[:1], sums[1:] ^ g])
    return carried.each(lambda words: words[:, : n_words(x.own.size)])


def to_numbers(party: Party, x: Bits, n: int) -> Program[Numbers]:
    """Return the first n bits along the last axis of packed words as numbers 0 and 1.

    A bit is a xor b = a + b - 2 a b, with a known to one party and b to two. Two rounds.
    """
    flat = x.each(lambda words: unpacked(words, n).astype(np.uint64))
    each = -(-flat.own.size // N_PARTIES)
    sums = yield from dealt(party, Numbers, known_summand(flat, each)[np.newaxis])
    products = yield from shared_again(party, cross_summand(party, sums))
    return (sums - products * 2)[0, : flat.own.size].reshape(*flat.shape)


def shifted(party: Party, x: Numbers, by: int) -> Program[Numbers]:
    """Return floor(x / 2^by) of numbers in [-2^63, 2^63), exactly.

    Parameters
    ----------
    party : Party
        This party.
    x : Numbers
        Numbers of any shape.
    by : int
        Bits that are cut off, in [1, 63].

    Returns
    -------
    Numbers
        In the shape of `x`.

    Raises
    ------
    InvalidInput
        For another number of bits.

    Notes
    -----
    Exact, always: no probability of failure. Of x + 2^63 = a + b - c_64 2^64 the quotient is
    (a >> by) + (b >> by) + c_by - c_64 2^(64 - by), with c_k the carry into bit k. Privacy: a party
    sees uniform words only. 10 rounds.
    """
    if not 1 <= by < WORD:
        raise InvalidInput(f"numbers are shifted by 1 to {WORD - 1} bits; got {by}.")
    x_plus = x + (1 << WORD - 1)
    n = x.own.size
    each = -(-n_words(n) // N_PARTIES) * WORD  # the thirds of the bits, or a and b were others
    known = known_summand(x_plus, each) >> np.uint64(by)
    (g, p), whole = yield from together(
        _generated(party, x_plus, WORD, WORD), dealt(party, Numbers, known[np.newaxis])
    )
    low, top = yield from together(carry(party, g[:by], p[1:by]), carry(party, g, p[1:]))
    carries = yield from to_numbers(party, Bits.joined([low, top]).reshape(2, -1), n)
    quotient: Numbers = whole[0, :n] + carries[0] - carries[1] * (1 << WORD - by)
    return (quotient - (1 << WORD - 1 - by)).reshape(*x.shape)
