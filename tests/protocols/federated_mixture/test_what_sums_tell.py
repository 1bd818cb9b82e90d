"""What the sums of a federated Gaussian mixture tell of single samples, and the steps' rules."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax
from sklearn.cluster import KMeans

from daskfc.errors import PrivacyError
from daskfc.protocols.federated_mixture import party, server
from daskfc.protocols.federated_mixture.messages import MixtureHeld
from daskfc.protocols.federated_mixture.server import MixturePlan, State
from daskfc.secure.kmeans.groups import SMALLEST
from daskfc.secure.prepare.messages import CommonMagnitudes, FittedMeans
from daskfc.secure.sums import Total
from daskfc.site import ANY_PART
from tests.secure.announced import Announced

PLAN = MixturePlan("full", reg_covar=1e-6, tol=0.0, max_iter=60)


def clouds(seed, between=5.0, n=300):
    """Two clouds that overlap, and one apart, between which and these single samples lie."""
    random = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0, 0.0], [1.8, 1.0, 0.0], [0.0, 0.0, between]])
    X = random.normal(size=(n, 3)) + centres[np.arange(n) % 3]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def begun(X, k, left=10**9):
    """Return a start from k-means of all rows."""
    labels = KMeans(k, n_init=3, random_state=0).fit(X).labels_
    means = np.array([X[labels == j].mean(axis=0) for j in range(k)])
    spread = np.array([np.diag(X[labels == j].var(axis=0)) for j in range(k)])
    return State(len(X), left, np.bincount(labels) / len(X), means, spread)


def total(*parts):
    return Total(np.sum(parts, axis=0)[:, None], 1e-15, ("a", "b"))


def opened(X, state, plan=PLAN, hold=True):
    """Yield all rows' responsibilities in each sum of moments that the server opens, and after
    it the state; the steps of two clients, one after the other."""
    rows = (X[:20], X[20:])
    before = [party.uniform(own, server.parameters(state)) for own in rows]
    while True:
        told = server.parameters(state)
        joint = [party.own_log_joint(own, told) for own in rows]
        masses = [party.own_masses(*one, told) for one in zip(joint, before, strict=True)]
        state = server.weighed(state, total(*masses), plan, Announced(ANY_PART))
        if state.ended:
            return
        if not state.opens:
            continue
        held = (
            server.held(state)
            if hold
            else MixtureHeld(np.zeros(len(told.weights), bool), told.mark)
        )
        before = [party.responsibilities(*one, held) for one in zip(joint, before, strict=True)]
        parts = [
            party.own_moments(own, r, told, plan.covariance)
            for own, r in zip(rows, before, strict=True)
        ]
        state = server.moved(state, total(*parts), plan)
        yield np.concatenate([one.values for one in before]), state


def found_by_differences(X, rounds, close=0.01):
    """Return the share of rows within `close` of what two sums in a row differ by, for one unit."""
    seen = [np.full((1, X.shape[1]), np.inf)]
    for before, after in pairwise(rounds):
        changes = after - before
        some = np.abs(changes.sum(axis=0)) > 1e-9  # else it is rounding
        seen.append(changes.T[some] @ X / changes.sum(axis=0)[some, None])
    return float((cdist(X, np.concatenate(seen)[1:]).min(axis=1, initial=np.inf) < close).mean())


@pytest.mark.parametrize("seed", range(4))
def test_a_component_stays_as_it_is_where_few_samples_would_change_it(seed):
    X = clouds(seed)
    rounds = [r for r, _ in opened(X, begun(X, 3))]
    assert len(rounds) > 2
    some = 0
    for before, after in pairwise(rounds):
        changes = np.abs(after - before)
        stays = changes.max(axis=0) < 1e-12
        counted = changes.sum(axis=0) ** 2 / np.maximum((changes**2).sum(axis=0), 1e-300)
        assert (counted[~stays] >= SMALLEST - 1).all()
        some += stays.sum()
        np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-12)
    assert some


def free_energy(X, r, state):
    """Return what expectation maximisation raises, Neal and Hinton's F."""
    joint = party.own_log_joint(X, server.parameters(state)).values
    entropy = -np.sum(r * np.log(np.maximum(r, 1e-300)))
    return float((r * joint).sum() + entropy)


@pytest.mark.parametrize("seed", range(3))
def test_iterations_raise_the_free_energy_also_where_components_stay(seed):
    X = clouds(seed)
    steps = list(opened(X, begun(X, 3)))
    values = [free_energy(X, r, state) for r, state in steps]
    assert (np.diff(values) > -1e-3).all()  # less what `reg_covar` costs
    assert values[-1] > values[0]


def test_densities_are_those_of_the_definition():
    random = np.random.default_rng(3)
    rows = random.normal(size=(50, 3))
    shape = random.normal(size=(2, 3, 3))
    spread = shape @ shape.transpose(0, 2, 1) + 0.1 * np.eye(3)
    state = State(50, 0, np.array([0.3, 0.7]), random.normal(size=(2, 3)), spread)
    joint = party.own_log_joint(rows, server.parameters(state))
    found = joint.values
    for j in range(2):
        apart = rows - state.means[j]
        squares = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(spread[j]), apart)
        whole = np.log(np.linalg.det(2 * np.pi * spread[j]))
        expected = np.log(state.weights[j]) - 0.5 * (squares + whole)
        np.testing.assert_allclose(found[:, j], expected, rtol=1e-10)
    unit = server.parameters(state).unit
    same = party.Marked(softmax(found, axis=1))
    masses = party.own_masses(joint, same, server.parameters(state))
    assert masses[-2] == pytest.approx(unit * logsumexp(found, axis=1).sum())
    assert abs(masses[-2]) <= 50
    np.testing.assert_allclose(masses[:-2].reshape(2, 4)[:, 2:], 0.0, atol=1e-12)


def state_of(weights):
    k = len(weights)
    return State(60, 10**6, np.array(weights), np.zeros((k, 2)), np.ones((k, 1, 2)))


def weighed(state, site, *rows):
    """Return the state after sums of a table, one row a component."""
    masses = total(np.array([*np.ravel(rows), -1.0, 2.0 * state.mark]))  # of two clients
    return server.weighed(state, masses, ASKED, site)


ASKED = MixturePlan("diag", 1e-6, 1e-3, 9)


def test_a_component_of_few_samples_or_clients_goes_and_the_others_share_its_weight():
    counts = (30, 2, 30, 30), (4.9, 2, 5, 5), (25.1, 1, 30, 30)
    after = weighed(state_of([0.5, 0.1, 0.4]), Announced(ANY_PART), *counts)
    assert not after.opens
    np.testing.assert_allclose(after.weights, [5 / 9, 0.0, 4 / 9])
    of_two = Announced(ANY_PART._replace(clients=2))
    after = weighed(state_of([0.5, 0.1, 0.4]), of_two, *counts)
    np.testing.assert_allclose(after.weights, [1.0, 0.0, 0.0])
    # of equal ones none goes on for ever
    after = weighed(state_of([0.5, 0.5]), of_two, (30, 1, 30, 30), (30, 1, 30, 30))
    np.testing.assert_array_equal(after.weights, [1.0, 0.0])
    alone = weighed(state_of([1.0]), Announced(ANY_PART), (3, 1, 0, 0))
    assert alone.opens


def test_no_moments_are_asked_for_that_are_not_to_be_opened():
    counts = (55.5, 2, 30, 30), (4.5, 2, 5, 5)
    after = weighed(state_of([0.9, 0.1]), Announced(ANY_PART), *counts)
    with pytest.raises(PrivacyError, match="are not opened"):
        server.held(after)


def test_differences_of_sums_tell_fewer_samples_than_without_the_rule():
    """As docs/methods/gaussian-mixture.md tells."""
    shares = {True: [], False: []}
    for between in (5.0, 6.0):
        for seed in range(10):
            X = clouds(seed, between)
            for hold, found in shares.items():
                rounds = [r for r, _ in opened(X, begun(X, 3), hold=hold)]
                found.append(found_by_differences(X, rounds))
    assert np.sum(shares[True]) == 0
    assert round(300 * np.sum(shares[False])) == 2  # of 6,000


@pytest.mark.parametrize(
    ("one_scale", "scales"), [(True, [4.0, 4.0, 4.0]), (False, [4.0, 1.0, 2.0])]
)
def test_a_constant_feature_sets_no_unit_for_others(one_scale, scales):
    """Its own deviation counts as 1, which here outweighs all that others have."""
    powers = np.array([-80, 0, -80], dtype=np.int16)
    sums = np.array([[16.0, 0.0, 4.0], [1.0, 1.0, 1.0]]) * 10.0  # squares in these, and samples
    units = server.units_of(
        Total(sums, 1e-15, ("a", "b")),
        FittedMeans(np.array([0.0, 7.0, 0.0])),
        CommonMagnitudes(powers),
        one_scale,
    )
    wanted = np.array(scales) * 2.0**-80
    if not one_scale:
        wanted[1] = 1.0
    np.testing.assert_array_equal(units.scales, wanted)
    assert units.n_rows == 10
