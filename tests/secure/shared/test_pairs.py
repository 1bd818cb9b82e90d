"""Shares: cutting, putting together, opening, and what is linear."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.secure.shared import (
    Bits,
    Numbers,
    cut_bits,
    cut_numbers,
    open_to,
    opened,
    put_together,
)
from tests.secure.shared.lockstep import in_lockstep

EXTREMES = np.array([0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1], dtype=np.uint64)
words = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=70)


def all_pairs(of_three):
    found = [put_together(of_three[i], of_three[j]) for i in range(3) for j in range(3) if i != j]
    assert all(np.array_equal(found[0], other) for other in found)
    return found[0]


@settings(max_examples=30, deadline=None)
@given(words)
def test_any_two_parties_put_together_what_was_cut(values):
    values = np.array(values, dtype=np.uint64)
    for cut in (cut_numbers, cut_bits):
        assert np.array_equal(all_pairs(cut(values)), values)


def test_negative_numbers_count_modulo_2_to_the_64():
    assert np.array_equal(
        all_pairs(cut_numbers([-1, -(2**63), 5])), EXTREMES[[6, 3, 0]] + [0, 0, 5]
    )
    assert all_pairs(cut_numbers(2**64 - 1)).tolist() == [2**64 - 1]


@pytest.mark.parametrize("values", [[0.5], [1.0], ["1"], [2**64 - 1, "a"], [None]])
def test_numbers_that_are_not_whole_are_refused(values):
    with pytest.raises(InvalidInput, match="must be whole"):
        cut_numbers(values)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_numbers_that_no_word_has_room_for_are_refused(value):
    with pytest.raises(InvalidInput, match="must be whole, of 64 bits"):
        cut_numbers([value])


def test_neighbours_hold_the_same_summand():
    for cut in (cut_numbers, cut_bits):
        of_three = cut(EXTREMES)
        for i in range(3):
            assert np.array_equal(of_three[i].following, of_three[(i + 1) % 3].own)


def test_two_cuts_of_the_same_numbers_have_nothing_in_common():
    one, other = cut_numbers(np.zeros(1000, dtype=int)), cut_numbers(np.zeros(1000, dtype=int))
    for i in range(3):
        assert not np.isin(one[i].own, other[i].own).any()


def test_what_is_put_together_must_fit():
    numbers, bits = cut_numbers([1]), cut_bits([1])
    with pytest.raises(InvalidInput, match="two different parties"):
        put_together(numbers[0], numbers[0])
    with pytest.raises(InvalidInput, match="of one kind; got Numbers of 0 and Bits of 1"):
        put_together(numbers[0], bits[1])


@settings(max_examples=30, deadline=None)
@given(words, st.integers(-(2**63), 2**64 - 1), st.integers(0, 2**64 - 1))
def test_linear_changes_of_numbers(values, factor, offset):
    x = np.array(values, dtype=np.uint64)
    y = x[::-1].copy()
    f, c = (np.array([value % 2**64], dtype=np.uint64) for value in (factor, offset))
    shares = [*zip(cut_numbers(x), cut_numbers(y), strict=True)]
    for change, expected in (
        (lambda a, b: a + b, x + y),
        (lambda a, b: a - b, x - y),
        (lambda a, b: -a, -x),
        (lambda a, b: a + offset, x + c),
        (lambda a, b: offset + a, x + c),
        (lambda a, b: a - offset, x - c),
        (lambda a, b: offset - a, c - x),
        (lambda a, b: a * factor, x * f),
        (lambda a, b: factor * a + b, x * f + y),
        (lambda a, b: a.sum(axis=0), np.atleast_1d(x.sum(dtype=np.uint64))),
        (lambda a, b: a * y, x * y),
        (lambda a, b: y - a, y - x),
    ):
        assert np.array_equal(all_pairs([change(a, b) for a, b in shares]), expected)


@settings(max_examples=30, deadline=None)
@given(words, st.integers(0, 2**64 - 1))
def test_linear_changes_of_bits(values, public):
    x = np.array(values, dtype=np.uint64)
    y = x[::-1].copy()
    p = np.uint64(public)
    shares = [*zip(cut_bits(x), cut_bits(y), strict=True)]
    for change, expected in (
        (lambda a, b: a ^ b, x ^ y),
        (lambda a, b: a ^ p, x ^ p),
        (lambda a, b: p ^ a, x ^ p),
        (lambda a, b: a & p, x & p),
        (lambda a, b: ~a, ~x),
    ):
        assert np.array_equal(all_pairs([change(a, b) for a, b in shares]), expected)


def test_moves_of_entries():
    x = np.arange(24, dtype=np.uint64).reshape(4, 6)
    of_three = cut_numbers(x)
    for change, expected in (
        (lambda a: a[1], x[1]),
        (lambda a: a[1, 2], x[1, 2:3]),
        (lambda a: a[:, ::2], x[:, ::2]),
        (lambda a: a.reshape(-1, 3), x.reshape(-1, 3)),
        (lambda a: Numbers.joined([a, a[:1]]), np.concatenate([x, x[:1]])),
        (lambda a: Numbers.joined([a, a], axis=1), np.concatenate([x, x], axis=1)),
        (lambda a: a.each(np.transpose), x.T),
    ):
        assert np.array_equal(all_pairs([change(one) for one in of_three]), expected)
    assert of_three[0].shape == (4, 6)
    assert len(of_three[0]) == 4
    assert repr(of_three[0]) == "Numbers(party=0, shape=(4, 6), hidden)"


def test_what_all_know_can_be_shared_without_a_word():
    for kind in (Numbers, Bits):
        assert np.array_equal(all_pairs([kind.known(i, EXTREMES) for i in range(3)]), EXTREMES)


@pytest.mark.parametrize("cut", [cut_numbers, cut_bits])
def test_opening_to_all_takes_one_round_and_tells_no_more(cut):
    of_three = cut(EXTREMES.reshape(7, 1))
    run = in_lockstep(opened, of_three)
    assert (run.n_rounds, run.n_bytes) == (1, 8 * 7)
    for i in range(3):
        assert np.array_equal(run.results[i], EXTREMES.reshape(7, 1))
        # what a party sees is its own summands and the result, and can be computed from them
        assert np.array_equal(of_three[i].with_third(run.seen[i][0]), run.results[i])


@pytest.mark.parametrize("cut", [cut_numbers, cut_bits])
@pytest.mark.parametrize("receiver", [0, 1, 2])
def test_opening_to_one_tells_the_others_nothing(cut, receiver):
    run = in_lockstep(open_to, cut(EXTREMES), receiver=receiver)
    assert (run.n_rounds, run.n_bytes) == (1, 8 * 7)
    for i in range(3):
        if i == receiver:
            assert np.array_equal(run.results[i], EXTREMES)
        else:
            assert run.results[i] is None
            assert not run.seen[i][0].any()
