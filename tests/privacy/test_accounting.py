import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput
from daskfc.privacy import (
    Accountant,
    GaussianEvent,
    classical_sigma,
    gaussian_epsilon,
    gaussian_sigma,
    noise_multiplier,
)
from tests.oracles.privacy import hockey_stick

MULTIPLIERS = st.floats(0.3, 100.0)
COUNTS = st.integers(1, 200)
DELTAS = st.floats(1e-10, 0.1)


@given(MULTIPLIERS, COUNTS, DELTAS)
def test_s_rounds_cost_what_one_with_a_root_s_less_noise_does(z, count, delta):
    spent = Accountant((GaussianEvent(z, count),))
    exact = gaussian_epsilon(z / np.sqrt(count), delta, 1.0)
    assert spent.epsilon(delta) == pytest.approx(exact, rel=1e-9, abs=1e-12)


# dp-accounting 0.6.0: PLDAccountant(value_discretization_interval=1e-4)
@pytest.mark.parametrize(
    ("z", "count", "delta", "loss_distribution"),
    [
        (1.0, 1, 1e-5, 4.37717810002493),
        (5.0, 10, 1e-5, 2.594383385595596),
        (20.0, 5, 1e-6, 0.4471528574075066),
        (0.7, 3, 1e-8, 16.426926045136273),
        (50.0, 100, 1e-5, 0.7255217677404247),
        (2.0, 20, 1e-3, 8.787283264117079),
    ],
)
def test_another_library_finds_the_same(z, count, delta, loss_distribution):
    spent = Accountant((GaussianEvent(z, count),))
    assert spent.epsilon(delta) == pytest.approx(loss_distribution, rel=1e-6)
    assert spent.epsilon(delta) <= loss_distribution  # theirs rounds up to its grid


# the same; of releases with unlike noise
@pytest.mark.parametrize(
    ("releases", "delta", "loss_distribution"),
    [
        ([(10.0, 4), (5.0, 1)], 1e-5, 1.0607897742588894),
        ([(0.9, 2), (3.0, 7), (20.0, 30)], 1e-6, 9.834825231230088),
        ([(1.5, 1), (2.5, 1), (4.0, 1), (8.0, 16)], 1e-9, 5.885686140158238),
    ],
)
def test_another_library_finds_the_same_of_unlike_noise(releases, delta, loss_distribution):
    spent = Accountant(tuple(GaussianEvent(z, count) for z, count in releases))
    assert spent.epsilon(delta) == pytest.approx(loss_distribution, rel=1e-7)
    assert spent.epsilon(delta) <= loss_distribution


EVENTS = st.lists(st.builds(GaussianEvent, MULTIPLIERS, COUNTS), min_size=1, max_size=5)


@given(EVENTS, MULTIPLIERS, DELTAS)
def test_the_cost_only_grows_and_forgets_the_order(events, z, delta):
    spent = Accountant(tuple(events))
    cost = spent.epsilon(delta)
    more = spent.compose(GaussianEvent(z))
    assert more.epsilon(delta) >= cost
    assert more.delta(1.0) >= spent.delta(1.0)
    assert spent.epsilon(delta) == cost
    assert Accountant(tuple(events[::-1])).epsilon(delta) == pytest.approx(cost, rel=1e-9)
    assert spent.epsilon(delta / 2) >= cost


@given(st.floats(0.01, 20.0), DELTAS, st.integers(1, 100))
def test_calibrated_noise_fits_the_budget_and_one_round_more_does_not(epsilon, delta, rounds):
    z = noise_multiplier(epsilon, delta, rounds)
    spent = Accountant((GaussianEvent(z, rounds),)).epsilon(delta)
    assert epsilon * (1 - 1e-9) <= spent <= epsilon
    one_by_one = Accountant()
    for _ in range(rounds):
        one_by_one = one_by_one.compose(GaussianEvent(z))
    assert one_by_one.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
    assert one_by_one.compose(GaussianEvent(z)).epsilon(delta) > epsilon


def test_noise_that_meets_the_budget_to_the_last_bit_is_not_raised():
    delta, met = 1e-5, 0
    for epsilon in np.linspace(0.05, 5.0, 40).tolist():
        for rounds in (1, 4):
            z = gaussian_sigma(epsilon, delta, 1.0) * np.sqrt(rounds)
            if Accountant((GaussianEvent(z, rounds),)).epsilon(delta) == epsilon:
                met += 1
                assert noise_multiplier(epsilon, delta, rounds) == z
    assert met > 10


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_delta_is_that_of_one_gaussian_release(epsilon):
    spent = Accountant((GaussianEvent(4.0, 12), GaussianEvent(2.0)))
    assert spent.mu == 1.0  # 12/16 + 1/4
    assert spent.delta(epsilon) == pytest.approx(hockey_stick(epsilon, 1.0, 1.0), rel=1e-8)


@pytest.mark.parametrize(
    "z", [np.float16(500), np.float32(0.1), np.int8(20), np.int16(300), np.int32(50_000)]
)
def test_small_types_of_numpy_count_as_floats(z):
    assert GaussianEvent(z, np.int8(3)) == GaussianEvent(float(z), 3)
    assert Accountant((GaussianEvent(z),)).mu == 1.0 / float(z)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_noise_of_small_types_is_not_rounded(kind):
    epsilon, delta = kind(0.1), kind(1e-5)
    assert noise_multiplier(epsilon, delta, np.int8(7)) == noise_multiplier(
        float(epsilon), float(delta), 7
    )
    wanted = gaussian_epsilon(float(kind(3.3)), float(delta), 1.0)
    assert gaussian_epsilon(kind(3.3), delta, kind(1)) == wanted
    assert classical_sigma(epsilon, delta, kind(3)) == classical_sigma(
        float(epsilon), float(delta), 3.0
    )


def test_nothing_released_costs_nothing():
    assert Accountant().epsilon(1e-5) == 0.0
    assert Accountant().delta(0.1) == Accountant().mu == 0.0


def test_an_accountant_cannot_be_reset():
    spent = Accountant((GaussianEvent(1.0),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.events = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.events[0].noise_multiplier = 9.0


@pytest.mark.parametrize("event", [(0.0, 1), (-1.0, 1), (float("inf"), 1), (1.0, 0), (1.0, 2.5)])
def test_impossible_events_are_refused(event):
    with pytest.raises(InvalidInput, match="parameter of GaussianEvent must be"):
        GaussianEvent(*event)


def test_ranges_are_checked():
    with pytest.raises(InvalidInput, match="strictly between 0 and 1; got 1"):
        Accountant().epsilon(1)
    with pytest.raises(InvalidInput, match="'n_rounds' parameter of noise_multiplier"):
        noise_multiplier(1.0, 1e-5, 0)
