"""Sharings of zero, streams that never repeat, and programs in common rounds."""

import copy
import pickle

import numpy as np
import pytest

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.secure.shared import (
    Numbers,
    Party,
    cut_numbers,
    inner,
    multiply,
    put_together,
    together,
)
from tests.secure.shared.lockstep import MEMBERS, in_lockstep, three_parties


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("n", [1, 7, 1 << 15, (1 << 15) + 3])
def test_parts_of_a_sharing_of_zero_cancel(n, bits):
    masks = [np.zeros(n, dtype=np.uint64) for _ in range(3)]
    for party, mask in zip(three_parties(), masks, strict=True):
        party.hide(mask, bits=bits)
    add = np.bitwise_xor if bits else np.add
    assert not add(add(masks[0], masks[1]), masks[2]).any()
    assert all(len(np.unique(mask)) == n for mask in masks)


def test_words_that_would_be_copied_are_not_hidden():
    for words in (np.zeros((3, 4), dtype=np.uint64).T, np.zeros(9, dtype=np.uint64)[::2]):
        with pytest.raises(PrivacyError, match="must be contiguous"):
            three_parties()[0].hide(words)


def test_products_of_transposed_numbers_are_hidden():
    zeros = np.zeros((3, 5), dtype=np.uint64)
    shares = [Numbers(i, zeros, zeros).each(np.transpose) for i in range(3)]
    for program in (multiply, inner):
        run = in_lockstep(program, shares, shares)
        assert all(run.view(i).all() for i in range(3))


def test_neighbours_draw_the_same_words_and_nobody_else():
    first, second, third = three_parties()
    after, before, other = (
        one.with_after((40,)) if i == 0 else one.with_before((40,))
        for i, one in enumerate((first, second, third))
    )
    assert np.array_equal(after, before)
    assert not np.isin(other, after).any()


def test_no_word_of_a_stream_comes_twice():
    party = three_parties()[0]
    drawn = [party.with_after((1000,)) for _ in range(50)]
    assert len(np.unique(np.concatenate(drawn))) == 50_000  # two alike: once in 10^10 tries


def test_another_start_run_or_member_draws_other_words():
    keys = [SecretKey.from_os() for _ in range(3)]
    contexts = [
        {"run": run, "start": start, "members": members}
        for run, start in (("a", "1"), ("a", "2"), ("b", "1"), ("a1", ""), ("", "a1"))
        for members in (MEMBERS, MEMBERS[::-1])
    ]
    drawn = [Party(0, keys[0], keys[1], **context).with_after((8,)) for context in contexts]
    assert len(np.unique(np.concatenate(drawn))) == 8 * len(contexts)
    again = Party(0, keys[0], keys[1], **contexts[0]).with_after((8,))
    assert np.array_equal(again, drawn[0])  # the derivation is a function of its context alone


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_party_cannot_be_copied(copied):
    with pytest.raises(PrivacyError, match="cannot be copied or stored"):
        copied(three_parties()[0])


def test_a_party_that_cannot_be_is_refused():
    key = SecretKey.from_os()
    with pytest.raises(InvalidInput, match="must be 0, 1 or 2; got 3"):
        Party(3, key, key, run="r", start="s", members=MEMBERS)
    for members in (("a", "b"), ("a", "b", "a"), ("a", "b", "c", "d")):
        with pytest.raises(InvalidInput, match="three members of different names"):
            Party(0, key, key, run="r", start="s", members=members)
    assert repr(three_parties()[1]) == "Party(1)"


def test_programs_together_take_the_rounds_of_the_longest():
    x, y = np.arange(6).reshape(2, 3), np.arange(5)

    def nothing(party):
        return party.index
        yield

    def cube(party, x):
        square = yield from multiply(party, x, x)
        return (yield from multiply(party, square, x))

    def program(party, x, y):
        return (yield from together(cube(party, x), nothing(party), multiply(party, y, y)))

    run = in_lockstep(program, cut_numbers(x), cut_numbers(y))
    assert run.n_rounds == 2
    assert run.n_bytes == 8 * (6 + 5 + 6)
    assert [result[1] for result in run.results] == [0, 1, 2]
    for place, expected in ((0, x**3), (2, y**2)):
        assert np.array_equal(put_together(*(run.results[i][place] for i in (0, 2))), expected)
