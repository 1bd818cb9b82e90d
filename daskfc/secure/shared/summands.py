"""A shared number as a sum of two: one is known to one party, the other to the two others.

P_t knows a = x_t + x_{t+1}; P_{t-1} and P_{t+1} know b = x_{t+2}. So a function of each, such as
its bits, costs one word that P_t deals: a - r to P_{t-1}, where r is drawn with P_{t+1}. ABY3 (§5)
adds three summands by a carry-save adder in place of this, a word from each party. Here the parties
take turns: of any batch, each deals a third, and all send as much.
"""

from typing import TypeVar

import numpy as np

from daskfc.secure.shared.pairs import Pair
from daskfc.secure.shared.party import N_PARTIES, Party, Program, Words, passed
from daskfc.secure.shared.planes import WORD

Kind = TypeVar("Kind", bound=Pair)


def known_summand(x: Pair, n_each: int) -> Words:
    """Return what this party knows of flat shares (3, n_each): a where it deals, b elsewhere.

    Shares are filled up with zeros to 3 n_each entries; the third number t is dealt by P_t.
    """
    held = np.zeros((2, N_PARTIES * n_each), dtype=np.uint64)
    held[0, : x.own.size], held[1, : x.own.size] = x.own.reshape(-1), x.following.reshape(-1)
    own, following = held.reshape(2, N_PARTIES, n_each)
    deals, before, _ = _turns(x.party)
    known = following  # of the party after the dealer: x_{t+2} is the summand after its own
    known[before] = own[before]
    known[deals] = type(x).add(own[deals], following[deals])
    return known


def _turns(party: int) -> tuple[int, int, int]:
    """Return the thirds that this party deals, that the party after it, and before it, deals."""
    return party, (party + 1) % N_PARTIES, (party - 1) % N_PARTIES


def dealt(party: Party, kind: type[Kind], known: Words, bits: int = WORD) -> Program[Kind]:
    """Make shares of a + b (rows, 3 n) from the summand that each party knows, (rows, 3, n).

    The summand t is a - r, t + 1 is r, and t + 2 is b. One round; each party sends rows n words, or
    the lowest bits of them.
    """
    deals, before, after = _turns(party.index)
    size = (len(known), known.shape[2])
    own, following = known.copy(), known
    following[:, deals] = party.with_after(size)
    own[:, deals] = kind.subtract(own[:, deals], following[:, deals])
    own[:, after] = party.with_before(size)
    following[:, before] = yield from passed(own[:, deals].copy(), bits)
    shape = (len(known), -1)
    return kind(party.index, own.reshape(shape), following.reshape(shape))


def cross_summand(party: Party, x: Pair) -> Words:
    """Return this party's summand of a b, of shares that `dealt` made: (a - r) b or r b, or 0."""
    multiply = np.bitwise_and if type(x).add is np.bitwise_xor else np.multiply
    z: Words = multiply(x.own, x.following)
    z.reshape(len(z), N_PARTIES, -1)[:, party.index] = 0
    return z
