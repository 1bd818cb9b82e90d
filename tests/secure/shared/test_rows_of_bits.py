"""Computations down the columns of matrices of bits."""

import numpy as np
import pytest

from daskfc.secure.shared import cut_bits, put_together
from daskfc.secure.shared.planes import planes_of, unpacked
from daskfc.secure.shared.rows_of_bits import (
    all_set,
    any_set,
    at_least,
    first_set,
    looked_up,
    masked,
    smallest_of_rows,
)
from tests.secure.shared.lockstep import in_lockstep, told
from tests.secure.shared.test_comparison import log2_up, tree_gates

SIZES = (1, 2, 3, 64, 65, 100, 129)
N_COLUMNS = 192


def matrix_of(n, share, seed=0):
    """Return bits (n, columns) of which a share is set, and the words."""
    bits = np.random.default_rng(seed + n).random((n, N_COLUMNS)) < share
    bits[:, 0], bits[:, 1] = False, True
    return bits, np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def numbers_in(planes, n=N_COLUMNS):
    weights = 1 << np.arange(len(planes))
    return (unpacked(planes, n).astype(int) * weights[:, np.newaxis]).sum(axis=0)


@pytest.mark.parametrize("n", SIZES)
def test_all_and_any(n):
    bits, words = matrix_of(n, 0.9)
    run = in_lockstep(all_set, cut_bits(words))
    assert np.array_equal(unpacked(told(run), N_COLUMNS), bits.all(axis=0))
    assert (run.n_rounds, run.n_bytes) == (log2_up(n), words[1:].nbytes)
    for one in (np.zeros_like(words), words & ~words | np.uint64(1 << 17), words):
        run = in_lockstep(any_set, cut_bits(one))
        assert told(run).tolist() == [int(one.any())]
        assert run.n_rounds == log2_up(one.size) + 6


@pytest.mark.parametrize("place", range(0, 192, 13))
def test_a_single_bit_is_found(place):
    words = np.zeros(3, dtype=np.uint64)
    words[place // 64] = 1 << place % 64
    assert told(in_lockstep(any_set, cut_bits(words))).tolist() == [1]


@pytest.mark.parametrize("n", SIZES)
def test_rows_are_masked_by_their_own_bit(n):
    bits, words = matrix_of(n, 0.5)
    own, packed = matrix_of(200, 0.5, seed=1)
    run = in_lockstep(masked, cut_bits(words), cut_bits(packed.T[0]))
    own = unpacked(packed.T[0].copy(), n)
    assert np.array_equal(unpacked(told(run), N_COLUMNS), bits & (own[:, np.newaxis] == 1))
    assert (run.n_rounds, run.n_bytes) == (1, words.nbytes)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_how_many_rows_are_set(n, share):
    bits, words = matrix_of(n, share)
    rounds = set()
    for bound in {1, 2, n // 2, n - 1, n, int(n * share)} & {*range(1, n + 1)}:
        run = in_lockstep(at_least, cut_bits(words), bound=bound)
        assert np.array_equal(unpacked(told(run), N_COLUMNS), bits.sum(axis=0) >= bound)
        rounds.add(run.n_rounds)
        assert run.n_bytes <= 1.2 * words.nbytes + 40 * words[:1].nbytes
        assert run.n_rounds <= np.ceil(np.log(n + 1) / np.log(1.5)) + 2 * log2_up(n + 1) + 2


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("share", [0.01, 0.2])
def test_the_first_row_that_is_set(n, share):
    bits, words = matrix_of(n, share)
    run = in_lockstep(first_set, cut_bits(words))
    index, some = (put_together(*(run.results[i][part] for i in (0, 2))) for part in range(2))
    some = unpacked(some, N_COLUMNS).astype(bool)
    assert np.array_equal(some, bits.any(axis=0))
    assert np.array_equal(numbers_in(index)[some], bits.argmax(axis=0)[some])
    assert run.n_rounds == log2_up(n)
    nodes, gates = n, 0
    for level in range(log2_up(n)):
        nodes = -(-nodes // 2)
        gates += nodes * (1 + level)
    assert run.n_bytes == gates * words[:1].nbytes


@pytest.mark.parametrize("n", [1, 64, 100, 128])
def test_entries_are_looked_up(n):
    rng = np.random.default_rng(n)
    table = rng.integers(0, 2**64, (5, 2), dtype=np.uint64)
    which = rng.integers(0, n, N_COLUMNS)
    rows = np.arange(n)[:, np.newaxis] == which
    packed = np.packbits(rows, axis=1, bitorder="little").view(np.uint64)
    run = in_lockstep(looked_up, cut_bits(table), cut_bits(packed))
    assert np.array_equal(unpacked(told(run), N_COLUMNS), unpacked(table, n)[:, which])
    assert (run.n_rounds, run.n_bytes) == (1, 8 * 5 * 3)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("b", [6, 9])
@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_the_smallest_label_of_rows(n, b, at_once):
    bits, words = matrix_of(n, 0.1)
    labels = np.random.default_rng(b).integers(0, 2**b, 192)[:n].astype(np.uint64)
    planes = planes_of(np.pad(labels, (0, -n % 64)), b)
    run = in_lockstep(smallest_of_rows, cut_bits(words), cut_bits(planes), at_once=at_once)
    expected = np.where(bits, labels[:, np.newaxis], 2**b - 1).min(axis=0)
    assert np.array_equal(numbers_in(told(run)), expected)
    blocks = 1 if at_once > 1 else 3
    assert run.n_rounds == blocks * (1 + log2_up(n) * (2 + log2_up(b)))
    assert run.n_bytes == (n * b + (n - 1) * (2 * b + tree_gates(b))) * words[:1].nbytes
