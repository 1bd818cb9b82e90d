"""Selection, the smallest of k, and one-hot rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.secure.shared import chosen, cut_bits, cut_numbers, one_hot, put_together, smallest
from daskfc.secure.shared.planes import planes_of, unpacked
from tests.secure.shared.lockstep import in_lockstep, told
from tests.secure.shared.test_comparison import log2_up, numbers_of, tree_gates
from tests.secure.shared.test_products import packed


@pytest.mark.parametrize("shape", [(1,), (65,), (3, 130)])
@pytest.mark.parametrize("bits", [64, 40, 7])
def test_what_is_chosen(shape, bits):
    n = int(np.prod(shape))
    x, y = (numbers_of(64, 2 * n)[part].reshape(shape) for part in (slice(n), slice(n, None)))
    words = numbers_of(64, 30)[: n + 2].view(np.uint64)
    words = np.resize(words, (*shape[:-1], -(-shape[-1] // 64)))
    run = in_lockstep(chosen, cut_bits(words), cut_numbers(x), cut_numbers(y), bits=bits)
    expected = np.where(unpacked(words, shape[-1]), x, y).view(np.uint64)
    low = np.uint64(2**bits - 1)
    assert np.array_equal(put_together(*run.results[1:]) & low, expected & low)
    each = -(-n // 3)
    assert (run.n_rounds, run.n_bytes) == (2, packed(each, bits) + 2 * packed(3 * each, bits))


def smallest_rows(x):
    return np.arange(len(x))[:, np.newaxis] == x.argmin(axis=0)


def cost_of_smallest(k, n, bits, flat=False):
    """Return rounds and bytes of the tree over k rows of n numbers, or of all with all."""
    if flat and k > 1:
        pairs = k * (k - 1) // 2
        words = 3 * -(-pairs * n // 64 // 3)
        sent = 8 * words * (bits / 3 + bits - 1 + tree_gates(bits - 1)) + (k - 2) * k * n // 8
        return 2 + log2_up(bits - 1) + log2_up(k - 1), sent
    rounds, sent, rows, first = 0, 0, k, True
    while k > 1:
        half = k // 2
        words = 3 * -(-half * n // 64 // 3)
        rounds += 2 + log2_up(bits - 1)
        sent += 8 * words * (bits / 3 + bits - 1 + tree_gates(bits - 1))
        if k > 2:
            each = -(-half * n // 3)
            rounds += 2
            sent += packed(each, bits) + 2 * packed(3 * each, bits)
        if not first:
            # rows of a single node at the end take no part
            taking = sum(1 for row in range(rows) if _node(row, rows, k) < 2 * half)
            rounds += k == 2
            sent += 8 * taking * n // 64
        k, first = k - half, False
    return rounds, sent


def _node(row, rows, k):
    while rows > k:
        row, rows = row // 2, rows - rows // 2
    return row


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 8, 10, 13])
@pytest.mark.parametrize("bits", [8, 32, 64])
@pytest.mark.parametrize("flat", [False, True])
def test_the_smallest_is_the_first_of_equal_ones(k, bits, flat):
    n = 128
    x = np.random.default_rng(k).integers(-3, 3, (k, n))
    run = in_lockstep(smallest, cut_numbers(x), bits=bits, flat=flat)
    assert np.array_equal(unpacked(told(run), n), smallest_rows(x))
    rounds, sent = cost_of_smallest(k, n, bits, flat)
    assert run.n_rounds == rounds
    if k > 1:
        assert run.n_bytes == pytest.approx(sent)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 9), st.integers(2, 64), st.booleans(), st.integers(0, 2**32))
def test_the_smallest_over_the_whole_range(k, bits, flat, seed):
    rng = np.random.default_rng(seed)
    half = 2 ** (bits - 2)
    x = rng.integers(-half, half, (k, 64))
    x[:, 0], x[-1, 1], x[0, 2] = half - 1, -half, -half
    run = in_lockstep(smallest, cut_numbers(x), bits=bits, flat=flat)
    assert np.array_equal(unpacked(told(run), 64), smallest_rows(x))


def test_columns_must_fill_words():
    with pytest.raises(InvalidInput, match="a multiple of 64; got 63"):
        in_lockstep(smallest, cut_numbers(np.zeros((2, 63), dtype=int)))


@pytest.mark.parametrize("b", [1, 2, 3, 5, 8])
def test_rows_of_a_table(b):
    x = numbers_of(b, 128).view(np.uint64) & np.uint64(2**b - 1)
    run = in_lockstep(one_hot, cut_bits(planes_of(x, b)))
    assert np.array_equal(unpacked(told(run), 128), np.arange(2**b)[:, np.newaxis] == x)
    assert run.n_rounds == log2_up(b)
