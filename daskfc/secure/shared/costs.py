"""What programs cost, before they run: rounds, and words that each party sends."""

from dataclasses import dataclass

from daskfc.secure.shared.party import N_PARTIES
from daskfc.secure.shared.planes import WORD


@dataclass(frozen=True)
class Cost:
    """Rounds, and words of 8 bytes that each party sends; ``+`` is one after the other."""

    rounds: int = 0
    words: int = 0

    @property
    def n_bytes(self) -> int:
        """Bytes that each party sends."""
        return 8 * self.words

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.rounds + other.rounds, self.words + other.words)

    def __mul__(self, times: int) -> "Cost":
        return Cost(self.rounds * times, self.words * times)

    def beside(self, other: "Cost") -> "Cost":
        """Return the cost of both in common rounds, as by `together`."""
        return Cost(max(self.rounds, other.rounds), self.words + other.words)


def log2_up(n: int) -> int:
    """Return the levels of a binary tree over n leaves."""
    return (n - 1).bit_length()


def sending(n: int, bits: int = WORD) -> Cost:
    """Return the cost of n results of a product, of so many bits each."""
    return Cost(1, -(-n * -(-bits // 8) // 8))


def _tree(n: int) -> int:
    return 0 if n == 1 else 2 * (n // 2) - 1 + _tree(n - n // 2)


def _prefix(n: int) -> int:
    return sum(n - d + max(0, n - 2 * d) for d in (1 << i for i in range(log2_up(n))))


def moving(n_planes: int, words: int) -> Cost:
    """Return the cost of a carry out of planes of so many words."""
    return Cost(log2_up(n_planes), _tree(n_planes) * words)


def _dealing(n: int, n_planes: int, n_carries: int) -> Cost:
    third = -(-n // (N_PARTIES * WORD))
    return Cost(2, n_planes * third + n_carries * N_PARTIES * third)


def _filled(n: int) -> int:
    return -(-n // (N_PARTIES * WORD)) * N_PARTIES


def comparing(n: int, bits: int) -> Cost:
    """Return the cost of `negative` for n numbers of so many bits."""
    return _dealing(n, bits, bits - 1) + moving(bits - 1, _filled(n))


def making_bits(n: int, bits: int) -> Cost:
    """Return the cost of `bits_of` for n numbers."""
    return _dealing(n, bits, bits - 1) + Cost(log2_up(bits - 1), _prefix(bits - 1) * _filled(n))


def making_numbers(n: int) -> Cost:
    """Return the cost of `to_numbers` for n bits."""
    return Cost(2, -(-n // N_PARTIES) * (1 + N_PARTIES))


def choosing(n: int, bits: int) -> Cost:
    """Return the cost of `chosen` for n numbers of so many bits."""
    each = -(-n // N_PARTIES)
    products = sending(N_PARTIES * each, bits)
    return sending(each, bits).beside(products) + products


def shifting(n: int, by: int) -> Cost:
    """Return the cost of `shifted` for n numbers."""
    words = _filled(n)
    whole = Cost(1, words * WORD // N_PARTIES)
    carries = moving(by, words).beside(moving(WORD, words))
    return _dealing(n, WORD, WORD).beside(whole) + carries + making_numbers(2 * n)


def making_one_hot(b: int, words: int) -> Cost:
    """Return the cost of `one_hot` for b planes of so many words."""
    if b == 1:
        return Cost()
    halves = making_one_hot(b // 2, words).beside(making_one_hot(b - b // 2, words))
    return halves + Cost(1, words << b)


def finding_smallest(k: int, n: int, bits: int, flat: bool = False) -> Cost:
    """Return the cost of `smallest` for n columns of k numbers."""
    width = n // WORD
    if flat and k > 1:
        rows = Cost(log2_up(k - 1), (k - 2) * k * width)
        return comparing(k * (k - 1) // 2 * n, bits) + rows
    total, nodes = Cost(), [1] * k  # rows of each node
    while len(nodes) > 1:
        pairs = len(nodes) // 2
        total += comparing(pairs * n, bits)
        known = len(nodes) == k
        rows = Cost() if known else Cost(1, sum(nodes[: 2 * pairs]) * width)
        total += rows if len(nodes) == 2 else choosing(pairs * n, bits).beside(rows)
        joined = [nodes[i] + nodes[i + 1] for i in range(0, 2 * pairs, 2)]
        nodes = joined + nodes[2 * pairs :]
    return total


def counting(n: int, words: int, bound: int) -> Cost:
    """Return the cost of `at_least` for n rows of so many words."""
    b, total = n.bit_length(), Cost()
    weights = [n] + [0] * b
    weights = [one + (((1 << b) - bound) >> k & 1) for k, one in enumerate(weights)]
    while any(one > 2 for one in weights[:b]):
        thirds = [one // 3 for one in weights[:b]] + [0]
        total += Cost(1, sum(thirds) * words)
        weights = [
            one - 2 * thirds[k] + (thirds[k - 1] if k else 0) for k, one in enumerate(weights)
        ]
    return total + Cost(1, b * words) + moving(b, words)


def finding_first(n: int, words: int) -> Cost:
    """Return the cost of `first_set` for n rows of so many words."""
    total, level = Cost(), 1
    while n > 1:
        n = -(-n // 2)
        total += Cost(1, n * level * words)
        level += 1
    return total


def looking_at_rows(n: int, b: int, width: int, at_once: int) -> Cost:
    """Return the cost of `smallest_of_rows` for n rows of labels of b bits."""
    each = max(1, at_once // (b * n))
    words = (n * b + (n - 1) * (2 * b + _tree(b))) * width
    return Cost(-(-width // each) * (1 + log2_up(n) * (2 + log2_up(b))), words)
