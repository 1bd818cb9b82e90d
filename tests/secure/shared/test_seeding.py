"""k-means++ on shares: the candidates that the same draws choose in the clear."""

import numpy as np
import pytest

from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.secure.shared import cut_numbers
from daskfc.secure.shared.seeding import FRACTION_BITS, Seeding
from tests.oracles.shared import seeded
from tests.secure.shared.lockstep import in_lockstep, told


def centres(plan, c):
    run = in_lockstep(plan.centres, cut_numbers(c))
    return told(run, signed=True), run


@pytest.mark.parametrize(("m", "d", "k", "bits"), [(1, 1, 1, 1), (70, 2, 5, 10), (200, 3, 8, 17)])
@pytest.mark.parametrize("seed", range(3))
def test_centres_are_those_of_the_same_draws(m, d, k, bits, seed):
    rng = np.random.default_rng(seed)
    c = rng.integers(-(2**bits) + 1, 2**bits, (m, d))
    draws = tuple(rng.integers(0, 1 << FRACTION_BITS, k - 1).tolist())
    first = int(rng.integers(0, m))
    found, _ = centres(Seeding(m, d, bits, first, draws), c)
    np.testing.assert_array_equal(found, c[seeded(c, first, draws, 1 << FRACTION_BITS)])


@pytest.mark.parametrize("draw", [0, 1, 2048, 4095])
def test_extremes_and_fewer_different_candidates_than_centres(draw):
    c = np.array([[5, 5], [5, 5], [-6, 7], [5, 5]])
    found, _ = centres(Seeding(4, 2, 3, 1, (draw,) * 3), c)
    np.testing.assert_array_equal(found, c[seeded(c, 1, (draw,) * 3, 1 << FRACTION_BITS)])
    assert [5, 5] in found.tolist()


def test_groups_that_lie_apart_have_a_centre_each():
    rng = np.random.default_rng(4)
    c = np.concatenate([1000 * j + rng.integers(-5, 5, (20, 2)) for j in range(6)])
    draws = tuple(rng.integers(200, 3900, 5).tolist())
    found, _ = centres(Seeding(len(c), 2, 13, 7, draws), c)
    assert sorted((found[:, 0] + 500) // 1000) == list(range(6))


def test_rounds_hang_on_nothing_but_sizes():
    found = set()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        draws = tuple(rng.integers(0, 4096, 3).tolist())
        _, run = centres(Seeding(40, 2, 9, 0, draws), rng.integers(-500, 500, (40, 2)))
        found.add((run.n_rounds, run.n_bytes))
    assert len(found) == 1
    plan, log2_up = Seeding(40, 2, 9, 0, ()), lambda n: int(np.ceil(np.log2(n)))
    compared = [2 + log2_up(bits - 1) for bits in (plan.sum_bits, plan.distance_bits)]
    assert {rounds for rounds, _ in found} == {2 + 3 * (sum(compared) + 2 + 1 + 2)}
    cost = Seeding(40, 2, 9, 0, (1, 2, 3)).cost()
    assert found == {(cost.rounds, cost.n_bytes)}


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"first": 5}, InvalidInput, "'first' parameter of Seeding"),
        ({"draws": (4096,)}, InvalidInput, r"must be in \[0, 4096\); got \(4096,\)"),
        ({"draws": (-1,)}, InvalidInput, r"must be in \[0, 4096\)"),
        ({"magnitude_bits": 26}, OverflowRefused, "starts of k-means on shares of 5 candidates"),
    ],
)
def test_wrong_numbers_are_refused(wrong, error, match):
    right = {"n_candidates": 5, "n_features": 9, "magnitude_bits": 8, "first": 0, "draws": (1,)}
    Seeding(**right)
    with pytest.raises(error, match=match):
        Seeding(**{**right, **wrong})
