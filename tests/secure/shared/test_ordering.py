"""Samples in an order of their values: the same whoever holds them, and nobody learns it."""

from hashlib import shake_256
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2

from daskfc.secure.shared import cut_bits, cut_numbers, put_together
from daskfc.secure.shared.ordering import ByValue
from daskfc.secure.shared.planes import n_words, planes_of, unpacked
from tests.secure.shared.lockstep import in_lockstep, told

ONE_IN = 1e-9  # runs of a test in which chance alone would fail it


def ordered(x, at_once=1 << 20):
    """Return the plan, the samples in order, what each party knows of the order, and the run."""
    plan = ByValue(*x.shape, at_once)
    run = in_lockstep(lambda party, shares: plan.ordered(party, shares), cut_numbers(x))
    rows, orders = zip(*run.results, strict=True)
    found = put_together(*rows[:2]).view(np.int64)
    assert np.array_equal(found, put_together(*rows[1:]).view(np.int64))
    return plan, found, orders, run


def put_back(plan, labels, orders):
    """Return labels of samples in order as those of the samples as they came, and the run."""
    planes = cut_bits(planes_of(np.pad(labels, (0, -len(labels) % 64)).astype(np.uint64), 7))
    run = in_lockstep(lambda party, one: plan.put_back(party, one, orders[party.index]), planes)
    bits = unpacked(told(run), len(labels)).astype(int)
    return (bits << np.arange(7)[:, np.newaxis]).sum(axis=0), run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "d", "bits", "at_once"),
    [(1, 1, 1, 1 << 20), (2, 3, 30, 1 << 20), (64, 1, 30, 1 << 20), (130, 5, 12, 200),
     (500, 2, 8, 1 << 20)],
)  # fmt: skip
def test_samples_have_one_order_however_they_are_dealt(n, d, bits, at_once):
    random = np.random.default_rng(n)
    x = random.integers(-(2**bits) + 1, 2**bits, (n, d))
    x[0], x[-1] = 2**bits - 1, 1 - 2**bits  # the ends of the range
    plan, found, orders, run = ordered(x, at_once)
    _, again, _, _ = ordered(random.permutation(x), at_once)
    assert np.array_equal(found, again)
    assert sorted(found.tolist()) == sorted(x.tolist())
    weights = np.frombuffer(shake_256(b"order of samples").digest(8 * d), dtype="<u8") | np.uint64(
        1
    )
    sums = (found.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64)
    assert (sums[1:] >= sums[:-1]).all()
    numbers = np.unique(x, axis=0, return_inverse=True)[1].reshape(-1) % 100
    in_order = np.array([numbers[(x == row).all(axis=1).argmax()] for row in found])
    labels, back = put_back(plan, in_order, orders)
    assert np.array_equal(labels, numbers)
    cost = plan.cost()
    assert (run.n_rounds + back.n_rounds, run.n_bytes + back.n_bytes) == (cost.rounds, cost.n_bytes)


def test_no_party_knows_the_whole_shuffle():
    x = np.arange(40).reshape(-1, 1)
    _, _, orders, _ = ordered(x)
    for at in range(3):
        who = [order.moves[at] is not None for order in orders]
        assert who == [party in (at, (at + 1) % 3) for party in range(3)]
        one, other = (order.moves[at] for order in orders if order.moves[at] is not None)
        assert np.array_equal(one, other)
    assert all(np.array_equal(order.places, orders[0].places) for order in orders)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [[3, 1, 2], [5, 5, 5]])
def test_the_opened_order_is_any_whatever_the_samples_are(rows):
    """Also to a party that takes its own moves away: what is left of the shuffle is uniform."""
    orders = list(permutations(range(3)))
    counts = np.zeros((4, len(orders)), dtype=int)
    for _ in range(120):
        _, _, found, _ = ordered(np.array(rows).reshape(-1, 1))
        counts[3, orders.index(tuple(found[0].places))] += 1
        for party in range(3):
            places = found[party].places
            for move in reversed([one for one in found[party].moves if one is not None]):
                places = move[places]
            counts[party, orders.index(tuple(places))] += 1
    distance = ((counts - 20) ** 2 / 20).sum(axis=1)
    assert (distance < chi2.isf(ONE_IN / 4, len(orders) - 1)).all()


@pytest.mark.slow
def test_what_a_party_sees_besides_is_uniform():
    """All words but those of comparisons that are opened, whose rounds are known."""
    x = np.zeros((60, 2), dtype=int)
    n_pairs = 60 * 21
    seen = [[], [], []]
    for _ in range(40):
        _, _, _, run = ordered(x)
        for party in range(3):
            words = [one for one in run.seen[party] if one.size > n_words(n_pairs) + 6]
            seen[party].append(np.concatenate([one.reshape(-1) for one in words]))
    for party in range(3):
        counts = np.bincount(np.concatenate(seen[party]).view(np.uint8), minlength=256)
        expected = counts.sum() / 256
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(ONE_IN / 3, 255)
