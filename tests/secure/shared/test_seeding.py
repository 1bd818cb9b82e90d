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
@pytest.mark.parametrize("n_starts", [1, 2, 5])
def test_centres_are_those_of_the_same_draws(m, d, k, bits, n_starts):
    rng = np.random.default_rng(n_starts)
    c = rng.integers(-(2**bits) + 1, 2**bits, (m, d))
    starts = tuple(
        (int(rng.integers(0, m)), *rng.integers(0, 1 << FRACTION_BITS, k - 1).tolist())
        for _ in range(n_starts)
    )
    found, _ = centres(Seeding(m, d, bits, starts), c)
    np.testing.assert_array_equal(found, c[seeded(c, starts, 1 << FRACTION_BITS)])


@pytest.mark.parametrize("draw", [0, 1, 2048, 4095])
def test_extremes_and_fewer_different_candidates_than_centres(draw):
    c = np.array([[5, 5], [5, 5], [-6, 7], [5, 5]])
    starts = ((1, draw, draw, draw), (2, draw, draw, draw))
    found, _ = centres(Seeding(4, 2, 3, starts), c)
    np.testing.assert_array_equal(found, c[seeded(c, starts, 1 << FRACTION_BITS)])
    assert [5, 5] in found.tolist()


def test_groups_that_lie_apart_have_a_centre_each():
    rng = np.random.default_rng(4)
    c = np.concatenate([1000 * j + rng.integers(-5, 5, (20, 2)) for j in range(6)])
    starts = ((7, 0, 0, 0, 0, 0), (7, *rng.integers(200, 3900, 5).tolist()))
    found, _ = centres(Seeding(len(c), 2, 13, starts), c)
    assert sorted((found[:, 0] + 500) // 1000) == list(range(6))


@pytest.mark.parametrize("n_starts", [1, 4])
def test_rounds_and_bytes_are_known_before(n_starts):
    found = set()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        starts = tuple((0, *rng.integers(0, 4096, 3).tolist()) for _ in range(n_starts))
        plan = Seeding(40, 2, 9, starts)
        _, run = centres(plan, rng.integers(-500, 500, (40, 2)))
        found.add((run.n_rounds, run.n_bytes))
    assert found == {(plan.cost().rounds, plan.cost().n_bytes)}


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        (
            {"starts": ((5, 1),)},
            InvalidInput,
            r"'starts' of Seeding must be a candidate in \[0, 5\)",
        ),
        ({"starts": ((0, 4096),)}, InvalidInput, r"draws in \[0, 4096\) as the others; got"),
        ({"starts": ((0, -1),)}, InvalidInput, r"draws in \[0, 4096\)"),
        ({"starts": ((0, 1), (0,))}, InvalidInput, "as many draws"),
        ({"starts": ()}, InvalidInput, "each of the 'starts'"),
        ({"magnitude_bits": 26}, OverflowRefused, "starts of k-means on shares of 5 candidates"),
    ],
)
def test_wrong_numbers_are_refused(wrong, error, match):
    right = {"n_candidates": 5, "n_features": 9, "magnitude_bits": 8, "starts": ((0, 1),)}
    Seeding(**right)
    with pytest.raises(error, match=match):
        Seeding(**{**right, **wrong})
