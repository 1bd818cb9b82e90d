"""Opening and products of shares: one round, and one word a result, however long its sum is.

Of z = x y each party knows a summand of its own (Araki et al. 2016, §2.2):

    z_i = x_i y_i + x_i y_{i+1} + x_{i+1} y_i = x_i (y_i + y_{i+1}) + x_{i+1} y_i,

for products of numbers, inner products and matrix products alike, and with xor and and for bits.
It hides z_i by its part of a sharing of zero and sends it to the party before.
"""

import numpy as np

from daskfc.secure.shared.pairs import Bits, Numbers, Pair
from daskfc.secure.shared.party import N_PARTIES, Party, Program, Words, passed
from daskfc.secure.shared.planes import WORD
from daskfc.secure.shared.ring_products import matrix_product

_CHUNK = 1 << 14  # ours: words; the operands of a chunk stay in a 1 MiB L2 cache


def shared_again(party: Party, summand: Words, bits: int = WORD) -> Program[Numbers]:
    """Make replicated shares of numbers of which each party knows one summand, which is changed.

    Of each number only the lowest `bits`, in whole bytes, are sent and mean anything.
    """
    summand = np.ascontiguousarray(summand)  # operands may be transposed
    party.hide(summand)
    following = yield from passed(summand, bits)
    return Numbers(party.index, summand, following)


def shared_bits_again(party: Party, summand: Words) -> Program[Bits]:
    """Make replicated shares of bits of which each party knows one summand, which is changed."""
    party.hide(summand, bits=True)
    following = yield summand
    return Bits(party.index, summand, following)


def multiply(party: Party, x: Numbers, y: Numbers, bits: int = WORD) -> Program[Numbers]:
    """Return the lowest bits of products x y, entry by entry with numpy's broadcasting."""
    z = x.own * (y.own + y.following)
    z += x.following * y.own
    return (yield from shared_again(party, z, bits))


def inner(party: Party, x: Numbers, y: Numbers) -> Program[Numbers]:
    """Return the inner products along the last axis of arrays of one shape."""
    z = x.own * (y.own + y.following)
    z += x.following * y.own
    total = np.atleast_1d(z.sum(axis=-1, dtype=np.uint64))
    return (yield from shared_again(party, total))


def matmul_summand(x: Numbers, y: Numbers, bits: int = WORD) -> Words:
    """Return this party's summand of the matrix product of x (n, d) and y (d, m)."""
    left = np.concatenate([x.own, x.following], axis=1)  # (n, 2 d)
    right = np.concatenate([y.own + y.following, y.own])
    return matrix_product(left, right, bits)


def matmul(party: Party, x: Numbers, y: Numbers, bits: int = WORD) -> Program[Numbers]:
    """Return the lowest bits of the matrix product of x (n, d) and y (d, m)."""
    return (yield from shared_again(party, matmul_summand(x, y, bits), bits))


def and_summand(x: Bits, y: Bits, out: Words) -> None:
    """Write this party's summand of x and y, of one shape (rows, words), into `out`."""
    for row in range(len(out)):
        for start in range(0, out.shape[1], _CHUNK):
            cut = (row, slice(start, start + _CHUNK))
            part = out[cut]
            np.bitwise_xor(y.own[cut], y.following[cut], out=part)
            part &= x.own[cut]
            part ^= x.following[cut] & y.own[cut]


def both(party: Party, x: Bits, y: Bits) -> Program[Bits]:
    """Return the bits x and y, with numpy's broadcasting."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = (one.each(lambda words: _rows(words, shape)) for one in (x, y))
    z = np.empty(x.shape, dtype=np.uint64)
    and_summand(x, y, z)
    return (yield from shared_bits_again(party, z)).reshape(*shape)


def _rows(words: Words, shape: tuple[int, ...]) -> Words:
    return np.broadcast_to(words, shape).reshape(-1, shape[-1])


def opened(party: Party, x: Pair) -> Program[Words]:
    """Tell all parties what is shared."""
    return x.with_third((yield x.following.copy()))


def open_to(party: Party, x: Pair, receiver: int) -> Program[Words | None]:
    """Tell one party what is shared; the others get None.

    It lacks one summand, which the party after it sends; what the two others send is zeros.
    """
    sends = party.index == (receiver + 1) % N_PARTIES
    received = yield x.following.copy() if sends else np.zeros(x.shape, dtype=np.uint64)
    return x.with_third(received) if party.index == receiver else None
