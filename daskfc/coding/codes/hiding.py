"""The segment-hiding polynomial, which hides the distances of single segments from the server.

R plain answers determine the whole polynomial f of a pair (Eq. 5), hence the distance f(α_o) of
every segment, not only their sum. The evaluators therefore add, for every entry and prime, the
values of a random polynomial ϕ of the same degree R - 1 with sum_{o <= l} ϕ(α_o) = 0. The clients
share its seed, which the server does not know. Distances, and the redundancy of spare answers, do
not change.

ϕ is uniform over that space when its values at R - 1 "free" evaluators are independent and uniform
and the other evaluators compute theirs: ϕ(β_j) = -w_j^-1 sum_f w_f ϕ(β_f), with w of the R
evaluators {f} + {j}. So a free evaluator expands one stream, any other R - 1 of them; the free
ones rotate with the block.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.coding.codes.lagrange import LagrangeCode
from daskfc.coding.residues.compiled import reduce_tile
from daskfc.coding.residues.modular import balanced, inverse
from daskfc.coding.residues.scale import ResidueSystem
from daskfc.coding.residues.scratch import scratch
from daskfc.coding.residues.streams import KeyStream, SecretKey, word_dtype

_STRIP_WORDS = 6 << 17  # ours: six streams of a whole tile; with fewer, calls dominate
GROUP = 16  # streams added between two reductions: 16 (p / 2) 2**16 = 2**19 p, 16 * 2**55 = 2**59

_Strip = tuple[tuple[int, int, int, int], NDArray[Any], NDArray[Any]]


@lru_cache(maxsize=4096)
def _free_evaluators(code: LagrangeCode, p: int, turn: int) -> tuple[int, ...]:
    """Return R - 1 evaluators whose values of ϕ may be chosen freely, modulo p.

    They determine ϕ unless prod_f (x - β_f), which vanishes at all of them, satisfies the
    constraint itself; some choice always works, because m >= R evaluators determine the sum.
    """
    m, count = code.n_evaluators, code.threshold - 1
    windows = (tuple(sorted((turn + s + i) % m for i in range(count))) for s in range(m))
    for free in chain(windows, combinations(range(m), count)):
        total = 0
        for alpha in code.alphas[: code.n_segments]:
            product = 1
            for f in free:
                product = product * (alpha - code.betas[f]) % p
            total += product
        if total % p:
            return free
    raise AssertionError((code, p))


@lru_cache(maxsize=4096)
def _factors(code: LagrangeCode, p: int, turn: int, evaluator: int) -> dict[int, int]:
    """Return {free evaluator: factor} with ϕ(β_evaluator) = sum of factor * ϕ(β_free)."""
    free = _free_evaluators(code, p, turn)
    if evaluator in free:
        return {evaluator: 1}
    *w, own = code.weights([*free, evaluator], p).tolist()
    scale = -inverse(own, p)
    return {f: balanced(scale * w_f, p) for f, w_f in zip(free, w, strict=True)}


@dataclass(frozen=True)
class HidingPolynomial:
    """The values of one evaluator, in [0, m), for one block, expanded tile by tile.

    The clients share `key`, which the server does not know. It serves one encoding only: two
    results hidden by the same values would reveal their difference.
    """

    code: LagrangeCode
    system: ResidueSystem
    evaluator: int
    key: SecretKey
    block: tuple[int, int]

    def words(self, prime: int) -> "HidingWords":
        """Return the words for the prime at a position in the system, from the first tile on."""
        return HidingWords(self, prime)


class HidingWords:
    """The words whose weighted sum is congruent to ϕ(β_j), in the order of the tiles' rows."""

    def __init__(self, hiding: HidingPolynomial, prime: int) -> None:
        self._p = hiding.system.primes[prime]
        factors = _factors(hiding.code, self._p, sum(hiding.block), hiding.evaluator)
        self._streams: list[KeyStream] = [
            hiding.key.derive("hiding", *hiding.block, self._p, f).stream() for f in factors
        ]
        wide = self._p > 1 << 8
        self._factors = np.array(list(factors.values()), dtype=np.int64 if wide else np.int32)

    def strips(self, tile: tuple[int, int, int, int]) -> Iterator[_Strip]:
        """Yield parts of the next tile with words (c, rows, columns), valid until the next."""
        top, left, bottom, right = tile
        streams, columns = self._streams, right - left
        height = max(1, _STRIP_WORDS // (len(streams) * columns))
        for start in range(top, bottom, height):
            stop = min(start + height, bottom)
            shape = (len(streams), stop - start, columns)
            words = scratch("hiding words", shape, word_dtype(self._p))
            for stream, part in zip(streams, words, strict=True):
                stream.words(self._p, part)
            yield (start, left, stop, right), words, self._factors


def add_words(
    words: NDArray[Any],
    factors: NDArray[Any],
    p: int,
    out: NDArray[Any],
    tile: tuple[int, int, int, int],
) -> None:
    """Add the words and factors of `HidingWords.strips` to a tile of the block `out`, modulo p."""
    top, left, bottom, right = tile
    for c in range(0, len(factors), GROUP):
        group = slice(c, c + GROUP)
        part = out[top:bottom, left:right].astype(factors.dtype)
        reduce_tile(part, words[group], factors[group], p, out, top, left)
