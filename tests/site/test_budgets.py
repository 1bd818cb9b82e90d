"""Any sequence of charges, repeats and grants, against a plain list and plain arithmetic."""

import math
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from daskfc.errors import PolicyRefused
from daskfc.site import Budget, SiteState

BUDGET = Budget(epsilon=2, delta=1e-5)


def plain_epsilon(multipliers):
    """Return the epsilon of Gaussian releases by the definition of the divergence."""
    mu = math.sqrt(sum(1 / z**2 for z in multipliers))
    if mu == 0:
        return 0.0

    def excess(epsilon):
        a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return norm.cdf(a) - math.exp(epsilon) * norm.cdf(b) - BUDGET.delta

    return 0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, 100.0, xtol=1e-12)


CHARGE = st.tuples(
    st.sampled_from("de"),  # data set
    st.sampled_from([3.0, 5.0, 8.0, 20.0]),
    st.integers(1, 3),  # count
    st.sampled_from(["one", "two"]),  # start
    st.sampled_from("xyz"),  # label
)
GRANT = st.tuples(st.sampled_from(["d", "e", None]), st.sampled_from([0.1, 0.7]))


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(CHARGE, CHARGE, CHARGE, GRANT), max_size=12), st.data())
def test_what_is_allowed_and_spent(tmp_path_factory, operations, data):
    path = tmp_path_factory.mktemp("site") / "state.sqlite"
    state, released, limits = SiteState(path), defaultdict(dict), defaultdict(lambda: 2.0)
    for operation in operations:
        if len(operation) == 2:
            dataset, epsilon = operation
            state.grant(dataset, epsilon, "why")
            for one in "de" if dataset is None else dataset:
                limits[one] += epsilon
            continue
        dataset, multiplier, count, start, label = operation
        before = released[dataset].get((start, label))
        releases = [z for zs in released[dataset].values() for z in zs]
        asked = [multiplier] * count
        fits = plain_epsilon([*releases, *asked]) <= limits[dataset]
        allowed = fits if before is None else before == asked
        if data.draw(st.booleans()):
            state = SiteState(path)  # a restart
        try:
            state.charge(
                dataset, multiplier, BUDGET, run_id="r", start=start, label=label, count=count
            )
        except PolicyRefused:
            assert not allowed
        else:
            assert allowed
            released[dataset][start, label] = asked
    for dataset in "de":
        releases = [z for zs in released[dataset].values() for z in zs]
        spent = state.spent(dataset)
        assert sum(event.count for event in spent.events) == len(releases)
        assert spent.epsilon(BUDGET.delta) == pytest.approx(plain_epsilon(releases), abs=1e-7)
