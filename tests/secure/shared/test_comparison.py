"""Bit planes, comparisons, bits as numbers and exact shifts, over the whole range."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.secure.shared import (
    at_most,
    bits_of,
    cut_bits,
    cut_numbers,
    less,
    negative,
    shifted,
    to_numbers,
)
from daskfc.secure.shared.planes import planes_of, spread, transposed, unpacked
from tests.secure.shared.lockstep import in_lockstep, told
from tests.secure.shared.test_pairs import EXTREMES

WIDTHS = (2, 3, 4, 5, 16, 17, 31, 32, 33, 47, 63, 64)
VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text(encoding="utf-8"))


def numbers_of(bits, n):
    """Return n numbers of so many bits, the extremes among them, as int64."""
    values = np.random.default_rng(bits).integers(0, 2**64, n, dtype=np.uint64)
    values[: len(EXTREMES)] = EXTREMES[:n]
    return values.view(np.int64) >> (64 - bits)


def thirds(n):
    """Return the words that n packed bits take, as a multiple of 3."""
    return 3 * -(-n // (3 * 64))


def log2_up(n):
    return (n - 1).bit_length()


def tree_gates(n):
    """Return the ands a number of the tree over n planes."""
    return 0 if n == 1 else 2 * (n // 2) - 1 + tree_gates(n - n // 2)


def prefix_gates(n):
    """Return the ands a number of the network of Kogge and Stone over n planes."""
    distances = [2**i for i in range(log2_up(n))]
    return sum(n - d + max(0, n - 2 * d) for d in distances)


# Planes


@pytest.mark.parametrize("n_planes", [1, 2, 31, 32, 33, 64])
@pytest.mark.parametrize("blocks", [1, 2, 255, 256, 300])
def test_planes_are_the_bits(n_planes, blocks):
    numbers = numbers_of(64, 64 * blocks).view(np.uint64)
    planes = planes_of(numbers, n_planes)
    assert planes.shape == (n_planes, blocks)
    for b in range(n_planes):
        bits = (numbers >> np.uint64(b)) & np.uint64(1)
        assert np.array_equal(unpacked(planes[b], numbers.size), bits)


def test_planes_of_planes_are_the_numbers():
    numbers = numbers_of(64, 64).view(np.uint64)
    assert np.array_equal(planes_of(planes_of(numbers).reshape(-1)).reshape(-1), numbers)


def test_a_matrix_of_bits_is_transposed():
    matrix = numbers_of(64, 192 * 2).view(np.uint64).reshape(192, 2)
    assert np.array_equal(unpacked(transposed(matrix), 192), unpacked(matrix, 128).T)


def test_spread_bits_are_words_of_them():
    words = numbers_of(64, 3).view(np.uint64)
    expected = np.where(unpacked(words, 150), np.uint64(2**64 - 1), np.uint64(0))
    assert np.array_equal(spread(words, 150), expected)


# Comparisons


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("n", [1, 64, 65, 500])
def test_signs_of_numbers_of_so_many_bits(bits, n):
    x = numbers_of(bits, n)
    run = in_lockstep(negative, cut_numbers(x), bits=bits)
    assert np.array_equal(unpacked(told(run), n), x < 0)
    assert run.n_rounds == 2 + log2_up(bits - 1)
    gates = bits / 3 + bits - 1 + tree_gates(bits - 1)
    assert run.n_bytes == pytest.approx(8 * thirds(n) * gates)


def test_what_a_comparison_costs():
    """The figures of docs/shares.md, in bytes a number and party."""
    for bits, expected in ((64, 25.3), (48, 18.6), (32, 12.0)):
        gates = bits / 3 + bits - 1 + tree_gates(bits - 1)
        assert gates / 8 == pytest.approx(expected, abs=0.1)


def test_all_pairs_of_extremes_that_do_not_overflow():
    x, y = (one.ravel() for one in np.meshgrid(EXTREMES.view(np.int64), EXTREMES.view(np.int64)))
    fits = np.array([-(2**63) <= int(a) - int(b) < 2**63 for a, b in zip(x, y, strict=True)])
    run = in_lockstep(less, cut_numbers(x), cut_numbers(y))
    assert np.array_equal(unpacked(told(run), x.size)[fits], (x < y)[fits])
    assert fits.sum() > 30


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_comparisons_with_each_other_and_with_a_public_number(data):
    bits = data.draw(st.sampled_from(WIDTHS))
    half = 2 ** (bits - 2)
    numbers = st.lists(st.integers(-half, half - 1), min_size=10, max_size=10)
    x, y = (np.array(data.draw(numbers), dtype=np.int64) for _ in range(2))
    y[0] = x[0]
    bound = data.draw(st.sampled_from([int(x[1]), int(y[2]), -half, half - 1]))
    run = in_lockstep(less, cut_numbers(x), cut_numbers(y), bits=bits)
    assert np.array_equal(unpacked(told(run), 10), x < y)
    run = in_lockstep(at_most, cut_numbers(x), bound=bound, bits=bits)
    assert np.array_equal(unpacked(told(run), 10), x <= bound)


def test_comparisons_of_known_numbers():
    cases = VECTORS["less"]
    x, y = (np.array([int(case[name]) for case in cases]) for name in ("x", "y"))
    run = in_lockstep(less, cut_numbers(x), cut_numbers(y))
    assert unpacked(told(run), len(x)).tolist() == [case["less"] for case in cases]


@pytest.mark.parametrize("bits", WIDTHS)
def test_all_bits_of_numbers(bits):
    n = 200
    x = numbers_of(bits, n).view(np.uint64) & np.uint64(2**bits - 1)
    run = in_lockstep(bits_of, cut_numbers(x), bits=bits)
    planes = unpacked(told(run), n).astype(np.uint64)
    weights = np.uint64(1) << np.arange(bits, dtype=np.uint64)
    assert np.array_equal((planes * weights[:, np.newaxis]).sum(axis=0, dtype=np.uint64), x)
    assert run.n_rounds == 2 + log2_up(bits - 1)
    gates = bits / 3 + bits - 1 + prefix_gates(bits - 1)
    assert run.n_bytes == pytest.approx(8 * thirds(n) * gates)


@pytest.mark.parametrize("program", [negative, bits_of])
@pytest.mark.parametrize("bits", [1, 65])
def test_other_widths_are_refused(program, bits):
    with pytest.raises(InvalidInput, match=f"by 2 to 64 bits; got {bits}"):
        in_lockstep(program, cut_numbers([1]), bits=bits)


# Numbers


@pytest.mark.parametrize("n", [1, 2, 3, 63, 64, 65, 200])
def test_bits_are_the_numbers_0_and_1(n):
    words = numbers_of(64, 2 * 4).view(np.uint64).reshape(2, 4)
    run = in_lockstep(to_numbers, cut_bits(words), n=n)
    assert np.array_equal(told(run), unpacked(words, n))
    each = -(-2 * n // 3)
    assert (run.n_rounds, run.n_bytes) == (2, 8 * (each + 3 * each))


@pytest.mark.parametrize("by", [1, 2, 20, 41, 62, 63])
@pytest.mark.parametrize("n", [1, 200])
def test_shifts_are_exact(by, n):
    x = numbers_of(64, n)
    run = in_lockstep(shifted, cut_numbers(x.reshape(n, 1)), by=by)
    assert np.array_equal(told(run, signed=True), (x >> by).reshape(n, 1))
    assert run.n_rounds == 10
    words, each = thirds(n), -(-2 * n // 3)
    gates = 64 / 3 + 64 + tree_gates(64) + tree_gates(by)
    shares = 64 * words / 3 + 4 * each  # of a >> by, and the two carries as numbers
    assert run.n_bytes == pytest.approx(8 * words * gates + 8 * shares)


def test_shifts_of_known_numbers():
    cases = VECTORS["shifted"]
    for by in {case["by"] for case in cases}:
        some = [case for case in cases if case["by"] == by]
        run = in_lockstep(shifted, cut_numbers([int(case["x"]) for case in some]), by=by)
        assert told(run, signed=True).tolist() == [int(case["shifted"]) for case in some]


@pytest.mark.parametrize("by", [0, 64, -1])
def test_other_shifts_are_refused(by):
    with pytest.raises(InvalidInput, match=f"by 1 to 63 bits; got {by}"):
        in_lockstep(shifted, cut_numbers([1]), by=by)
