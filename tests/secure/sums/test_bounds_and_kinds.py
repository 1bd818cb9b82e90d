"""The bound that clients agree on, and the kinds of sums by name."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.coding import FixedPoint, SecretKey
from daskfc.errors import InvalidInput, OverflowRefused, PrivacyError
from daskfc.federation import PerClient
from daskfc.privacy import Noised
from daskfc.secure.sums import Aggregation, MaskedSum, PlainSum, RecoveringSum, SharedSum, open_sum
from daskfc.secure.sums.masked import PairKeys, add_up, masked_part
from daskfc.secure.sums.messages import Magnitude
from daskfc.secure.sums.plain import plain_part, plain_total
from daskfc.secure.sums.total import as_matrix, encoded, largest, magnitude
from tests.secure.sums.answering import NAMES, Answer, Answering


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-3, 3, (40, 3)) for name in NAMES}


# -- the bound that clients agree on --------------------------------------------------------------


class Recorded(Aggregation):
    """Gives back what it would sum, and the bound."""

    def _sum(self, parts, max_abs):
        return dict(parts), max_abs

    def arrived(self, sent):
        return PerClient({name: one for name, one in sent.items() if name != "client-5"})


class Told:
    """A federation that runs the steps of a bound here."""

    def __init__(self):
        self.steps = []

    def ask(self, step, parts, *, clients):
        self.steps.append(step)
        return PerClient({name: step(parts[name]) for name in clients})

    def publish(self, step, told):
        self.steps.append(step)
        return step(told)


@given(st.floats(-(2.0**1023), 2.0**1023), st.sampled_from([(), (3,), (2, 3)]))
def test_a_magnitude_is_the_least_power_of_two_that_no_entry_exceeds(value, shape):
    array = np.full(shape or (1,), value)
    bound = magnitude(array).bound
    assert bound >= abs(value)
    if value:
        assert math.frexp(bound)[0] == 0.5
        assert bound / 2 < abs(value) or bound == 5e-324
    else:
        assert bound == 0.0


@pytest.mark.parametrize("exponent", [-1074, -1022, -1, 0, 1, 52, 53, 100, 1000, 1022])
def test_beside_a_power_of_two_the_magnitude_is_exact_too(exponent):
    """Where a logarithm is rounded to a whole number."""
    power = 2.0**exponent
    assert magnitude(np.array([0.0, -power])).bound == power
    assert magnitude(np.array([np.nextafter(power, np.inf), 0.0])).bound == 2 * power


@pytest.mark.parametrize("max_abs", [2.0000001, 3.0, 3.99, 4.0])
def test_a_bound_tells_no_more_than_a_power_of_two(max_abs):
    """By a refusal at each bound of a bisection a caller found a client's largest entry."""
    ring = FixedPoint.for_bound(max_abs, n_terms=3)
    for entry in (4.0, -4.0, 2.5):
        found = encoded(np.array([entry, 1.0]), ring)
        assert ring.decode(3 * found).ravel().tolist() == [3 * entry, 3.0]
    for entry in (np.nextafter(4.0, 5.0), -4.5):
        with pytest.raises(OverflowRefused, match="exceed the agreed magnitude of 4"):
            encoded(np.array([entry, 1.0]), ring)
    with pytest.raises(OverflowRefused, match="some of 1 numbers"):
        encoded(np.array([1e-9]), FixedPoint.for_bound(0.0, n_terms=3))


def test_the_magnitude_is_that_of_the_largest_entry_whatever_its_sign():
    array = np.array([[0.1, -5.0], [3.0, 0.0]])
    assert magnitude(array).bound == magnitude(Noised(array, 2.5)).bound == 8.0
    assert magnitude(np.array([2.0**1023])).bound == 2.0**1023
    assert magnitude(np.zeros((2, 3))).bound == magnitude(np.zeros((2, 0))).bound == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.nextafter(2.0**1023, np.inf)])
def test_what_has_no_magnitude_is_refused_without_its_value(value):
    with pytest.raises(InvalidInput, match="must be finite, and at most") as error:
        magnitude(np.array([[123.456, value]]))
    assert "123" not in str(error.value)
    assert str(value) not in str(error.value).replace("finite", "")


def test_the_caller_learns_only_the_largest_magnitude():
    told = {"client-1": Magnitude(0.5), "client-2": Magnitude(8.0), "client-3": Magnitude(0.0)}
    assert largest(told) == Magnitude(8.0)
    assert Magnitude.protection == "plain"
    assert Magnitude.route == ("client → server", "server → caller")
    assert "power of two" in Magnitude.reveals


def test_a_sum_without_a_bound_agrees_on_one_among_those_that_told(parts):
    parts = PerClient(parts | {"client-2": np.array([9.0]), "client-5": np.array([99.0])})
    federation = Told()
    found, bound = Recorded(federation).sum(parts)
    assert list(found) == list(NAMES[:4])
    assert all(found[name] is parts[name] for name in found)
    assert bound == 16.0
    assert federation.steps == [magnitude, largest]


@pytest.mark.parametrize("bound", [3.0, 0.0])
def test_a_stated_bound_is_taken_and_nothing_told(parts, bound):
    federation = Told()
    assert Recorded(federation).sum(PerClient(parts), max_abs=bound) == (parts, bound)
    assert federation.steps == []


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_arrays_are_summed_in_double_precision(dtype):
    column = as_matrix(np.ones(3, dtype=dtype))
    assert (column.shape, column.dtype) == ((3, 1), np.float64)
    assert as_matrix(Noised(np.ones((2, 3), dtype=dtype), 1.0)).dtype == np.float64


@pytest.mark.parametrize(("shape", "columns"), [((0,), 1), ((0, 3), 3), ((2, 0), 0), ((0, 0), 0)])
def test_an_array_may_be_empty(shape, columns):
    array, expected = np.zeros(shape), (shape[0], columns)
    assert as_matrix(array).shape == as_matrix(Noised(array, 1.0)).shape == expected
    assert magnitude(array).bound == 0.0
    ring = FixedPoint.for_bound(0.0, n_terms=2)
    keys = {name: PairKeys(name, {other: SecretKey(bytes(32))}, 2) for name, other in ("ab", "ba")}
    plain = plain_total({name: plain_part(array) for name in keys})
    parts = {name: masked_part(array, own, ring, "t") for name, own in keys.items()}
    masked = add_up(parts, "t", tuple(keys))
    assert plain.values.shape == ring.decode(masked).shape == expected


@pytest.mark.parametrize("n_axes", [0, 3])
def test_an_array_has_one_or_two_axes(n_axes):
    with pytest.raises(InvalidInput, match=f"must have one or two axes; got {n_axes}"):
        as_matrix(np.ones((2,) * n_axes))


# -- kinds by name --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("masked", MaskedSum),
        ("recovering", RecoveringSum),
        ("shared", SharedSum),
        ("plain", PlainSum),
    ],
)
def test_a_kind_is_opened_by_its_name_with_its_options(kind, cls):
    found = open_sum(Answering(), kind)
    assert type(found) is cls
    few = NAMES[:2]
    if kind == "plain":
        federation = Answering()
        found = open_sum(federation, kind, clients=few, n_colluding=1)
        assert (type(found), found._federation) == (cls, federation)
        return
    with pytest.raises(PrivacyError, match="2 clients, 1 of which may collude"):
        cls(Answering(), clients=few, n_colluding=1)
    assert found.clients == NAMES
    assert open_sum(Answering(), kind, clients=few).clients == few
    with pytest.raises(PrivacyError, match="2 clients, 1 of which may collude"):
        open_sum(Answering(), kind, clients=few, n_colluding=1)
    assert type(open_sum(Answering(), kind, clients=few, n_colluding=1, allow_few=True)) is cls


def test_shares_of_noise_are_of_clients_that_are_in_the_sum_and_do_not_collude():
    def shares(kind, **options):
        return open_sum(Answering(), kind, **options).n_noise_shares

    assert shares("masked") == 5
    assert shares("masked", n_colluding=3) == 2
    assert shares("masked", clients=NAMES[:2], n_colluding=2, allow_few=True) == 1
    for kind in ("recovering", "shared"):
        assert shares(kind) == 4  # of five clients one may leave
        assert shares(kind, n_colluding=2) == 2
    assert shares("plain") == shares("plain", n_colluding=3) == 1


@pytest.mark.parametrize("kind", ["recovering", "shared"])
@pytest.mark.parametrize(("options", "patience"), [({}, 10.0), ({"patience_s": 0.5}, 0.5)])
def test_a_sum_that_clients_may_leave_is_as_patient_as_it_was_told(kind, options, patience):
    federation = Answering()
    parts = PerClient(dict.fromkeys(NAMES, Answer()))
    open_sum(federation, kind, **options).sum(parts, max_abs=1.0)
    assert {timeout for _, count, timeout, _ in federation.waited if count is None} == {patience}


def test_masked_is_the_kind_by_default_and_another_is_refused():
    assert type(open_sum(Answering())) is MaskedSum
    with pytest.raises(
        InvalidInput, match=r"must be one of masked, recovering, shared, plain; got 'open'\."
    ):
        open_sum(Answering(), "open")
