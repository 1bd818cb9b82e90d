"""Theorem 4.2 against the optimal composition, which sums over all outcomes."""

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from daskfc.errors import InvalidInput
from daskfc.privacy import Accountant, GaussianEvent
from daskfc.protocols.esfmc.privacy import composed, printed_client_epsilon


def optimal_delta(total, epsilon, M):
    """δ of M-fold randomised response at a total ε: each answer is true with e^ε / (1 + e^ε).

    It is the worst of all ε-private mechanisms (Kairouz, Oh and Viswanath 2015, Theorem 3.3).
    """
    p = 1.0 / (1.0 + math.exp(-epsilon))
    one, other = binom(M, p), binom(M, 1.0 - p)
    return sum(max(one.pmf(j) - math.exp(total) * other.pmf(j), 0.0) for j in range(M + 1))


@pytest.mark.parametrize("M", [1, 2, 6, 40])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("slack", [1e-6, 1e-2])
def test_it_is_above_the_optimum_and_not_far(M, epsilon, slack):
    bound, delta = composed(epsilon, 0.0, n_clients=M, slack=slack)
    assert delta == pytest.approx(slack)
    assert optimal_delta(bound, epsilon, M) <= slack * (1 + 1e-9)
    if optimal_delta(0.0, epsilon, M) > slack:
        best = brentq(lambda x: optimal_delta(x, epsilon, M) - slack, 0.0, M * epsilon)
        assert best <= bound <= 2.5 * best


def test_it_is_above_what_gaussian_mechanisms_cost_exactly():
    event, M, delta, slack = GaussianEvent(3.0), 10, 1e-7, 1e-5
    one = Accountant((event,)).epsilon(delta)
    bound, total = composed(one, delta, n_clients=M, slack=slack)
    assert Accountant((event,) * M).epsilon(total) < bound


def test_deltas_add_up():
    _, delta = composed(1.0, 1e-3, n_clients=5, slack=1e-2)
    assert delta == pytest.approx(1 - (1 - 1e-3) ** 5 * (1 - 1e-2), rel=1e-12)
    assert composed(1.0, 1e-18, n_clients=3, slack=1e-17)[1] == pytest.approx(1.3e-17)


def test_one_client_costs_what_it_costs():
    assert composed(0.7, 1e-6, n_clients=1, slack=1e-9)[0] == 0.7


def test_the_printed_epsilon_is_the_formula():
    found = printed_client_epsilon(1e-5, sigma=2.0, scale=0.5, sigma_c=4.0, n_uses=9)
    by_hand = math.sqrt(2 * math.log(125000)) / 2 + 0.5 * 3 * math.sqrt(math.log(1e5)) / 4
    assert found == pytest.approx(by_hand)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"delta": 1.0}, {"n_clients": 0}, {"slack": 0.0}, {"slack": 1.0}],
)
def test_numbers_out_of_range_are_refused(wrong):
    given = {"epsilon": 1.0, "delta": 0.0, "n_clients": 2, "slack": 1e-5, **wrong}
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        composed(given.pop("epsilon"), given.pop("delta"), **given)
