"""Waiting for steps, and what went wrong as a sentence: with futures of the test's."""

import re
from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker, NoValidWorkerError

from daskfc.errors import (
    ClusterError,
    DeadlineError,
    EgressRefused,
    InvalidInput,
    LedgerError,
    PartyError,
)
from daskfc.federation.driver import waiting
from daskfc.federation.driver.waiting import error_of, translated, wait_for
from daskfc.federation.steps.handles import Local

WHERE = "step 'sums' of party 'a'"


def exactly(sentence):
    return f"^{re.escape(sentence)}$"


class Future:
    """A future that ends when the test says so."""

    def __init__(self, status="finished", error=None):
        self.status, self.error, self.callbacks = status, error, []

    def done(self):
        return self.status != "pending"

    def cancelled(self):
        return self.status == "cancelled"

    def exception(self, timeout):
        assert timeout == 5
        if isinstance(self.error, LookupError):
            raise self.error
        return self.error

    def add_done_callback(self, callback):
        self.callbacks.append(callback)

    def end(self, status="finished", error=None):
        self.status, self.error = status, error
        for callback in self.callbacks:
            callback(self)


def handle_of(*futures, step="sums", party="a"):
    return Local(party, step, {f"receiver-{i}": future for i, future in enumerate(futures)})


def failed(error, **options):
    return handle_of(Future("error", error), **options)


# -- errors as sentences --------------------------------------------------------------------------


def killed():
    return KilledWorker("task", None, 3)


def lost(reason):
    try:
        return FutureCancelledError("key", reason)
    except TypeError:
        error = CancelledError("key")
        error.reason = reason
        return error


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            killed(),
            ClusterError,
            f"the worker process of party 'a' died each time while {WHERE} ran. Look into its "
            "party.log, and raise its memory_limit if memory ran out.",
        ),
        (
            NoValidWorkerError("task", set(), set(), {}, {}),
            DeadlineError,
            f"{WHERE} could not run: a party was away longer than the scheduler waits. Start the "
            "party again and resume the run.",
        ),
        (
            lost("scheduler-connection-lost"),
            ClusterError,
            f"{WHERE} was lost with the connection to the scheduler. Start the cluster again and "
            "resume the run.",
        ),
        (
            lost("unknown"),
            ClusterError,
            f"{WHERE} was cancelled, or lost with the scheduler. Start the cluster again and "
            "resume the run, where it is gone.",
        ),
        (
            CancelledError(),
            ClusterError,
            f"{WHERE} was cancelled, or lost with the scheduler. Start the cluster again and "
            "resume the run, where it is gone.",
        ),
        (
            KeyError("a value"),
            ClusterError,
            f"{WHERE} has no result: KeyError. Look whether the scheduler still runs.",
        ),
    ],
)
def test_what_dask_says_is_a_sentence_of_daskfc(error, kind, sentence):
    found = translated(error, handle_of())
    assert (type(found), str(found)) == (kind, sentence)


def test_what_a_party_says_stays_and_has_its_cause():
    own = EgressRefused("no.")
    assert translated(own, handle_of()) is own
    error = PartyError("b", "means", "too large")
    error.error_type = "InvalidInput"
    assert translated(error, handle_of()) is error
    assert type(error.__cause__) is InvalidInput
    assert str(error.__cause__) == "too large"
    other = PartyError("b", "means", "ArithmeticError")
    other.error_type = "ArithmeticError"
    assert translated(other, handle_of()).__cause__ is None


def test_a_step_that_has_not_failed_has_no_error():
    assert error_of(handle_of(Future("finished"), Future("pending"))) is None


@pytest.mark.parametrize("status", ["error", "cancelled", "lost"])
def test_the_first_failure_of_a_step_is_its_error(status):
    own = EgressRefused("no.")
    assert error_of(handle_of(Future("finished"), Future(status, own))) is own


def test_a_failure_that_cannot_be_read_is_one_all_the_same():
    found = error_of(failed(LookupError("gone")))
    assert str(found) == f"{WHERE} has no result: LookupError. Look whether the scheduler still " \
        "runs."  # fmt: skip


def test_what_was_cancelled_has_no_exception_of_its_own():
    assert "was cancelled, or lost" in str(error_of(handle_of(Future("cancelled"))))
    assert error_of(handle_of(Future("lost"))) is None  # and may come back


# -- waiting --------------------------------------------------------------------------------------


class Absences:
    def __init__(self):
        self.checks = []
        self.error = None

    def check(self, pending, needed):
        self.checks.append((list(pending), needed))
        if self.error is not None:
            raise self.error


@pytest.fixture
def absences():
    return Absences()


@pytest.fixture
def clock(monkeypatch):
    """Time that passes where somebody waits; ``then`` is what happens meanwhile."""
    clock = SimpleNamespace(now=100.0, pauses=[], then=[])

    def pause(watch, seconds):
        clock.pauses.append(seconds)
        assert len(clock.pauses) < 100, "it waits without end"
        clock.now += seconds
        if clock.then:
            clock.then.pop(0)()

    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(waiting, "time", clock)
    monkeypatch.setattr(waiting._Watch, "pause", pause)
    return clock


def waited(handles, absences, count=None, timeout=None, refusal=lambda: None, needed=True):
    count = len(handles) if count is None else count
    rest = {"absences": absences, "refusal": refusal, "needed": needed}
    return list(wait_for(handles, count=count, timeout=timeout, **rest))


def test_what_has_ended_is_not_waited_for(clock, absences):
    handles = [handle_of(Future()), handle_of(Future())]
    assert waited(handles, absences) == handles
    assert waited(handles, absences, count=1) == handles[:1]
    assert clock.pauses == absences.checks == []


def test_handles_come_in_the_order_in_which_they_end(clock, absences):
    one, two, three = (handle_of(Future("pending")) for _ in range(3))
    clock.then = [lambda: end(two), lambda: end(three), lambda: end(one)]
    assert waited([one, two, three], absences) == [two, three, one]
    assert clock.pauses == [1.0] * 3


def end(handle, *args):
    for future in handle.futures.values():
        future.end(*args)


def test_a_failure_counts_when_too_few_are_left(clock, absences):
    first, second = InvalidInput("first."), InvalidInput("second.")
    pending, good = handle_of(Future("pending")), handle_of(Future())
    handles = [failed(first), good, pending]
    clock.then = [lambda: end(pending)]
    assert waited(handles, absences, count=2) == [good, pending]
    with pytest.raises(InvalidInput, match="first"):
        waited(handles, absences, count=3)
    pending = handle_of(Future("pending"))
    clock.then = [lambda: end(pending, "error", second)]
    with pytest.raises(InvalidInput, match="first"):
        waited([failed(first), good, pending], absences, count=2)


def test_what_ends_a_run_is_raised_whatever_is_left(clock, absences):
    for error in (EgressRefused("no."), LedgerError("full.")):
        with pytest.raises(type(error), match=str(error)):
            waited([failed(error), handle_of(Future())], absences, count=1)


def test_a_refusal_elsewhere_ends_the_wait(clock, absences):
    told = []
    clock.then = [lambda: told.append(EgressRefused("elsewhere."))]
    with pytest.raises(EgressRefused, match="elsewhere"):
        waited([handle_of(Future("pending"))], absences, refusal=lambda: (told and told[0]) or None)
    assert clock.pauses == [1.0]


def test_more_than_there_are_cannot_end(clock, absences):
    with pytest.raises(
        InvalidInput, match=exactly("3 steps were to end and 2 were given. Lower the count.")
    ):
        waited([handle_of(Future()), handle_of(Future("pending"))], absences, count=3)


def test_the_time_may_be_up(clock, absences):
    done, late = handle_of(Future()), handle_of(Future("pending"))
    assert waited([done, late], absences, timeout=2.5) == [done]
    assert clock.pauses == [1.0, 1.0, 0.5]
    assert clock.now == 102.5
    assert waited([done, late], absences, timeout=0.0) == [done]
    assert clock.pauses == [1.0, 1.0, 0.5]


def test_once_a_second_somebody_looks_who_is_away(clock, absences):
    done, late = handle_of(Future()), handle_of(Future("pending"))
    pauses = iter([lambda: None] * 3)
    clock.then = [lambda: setattr(clock, "now", clock.now - 0.5), *pauses]
    waited([done, late], absences, timeout=3.0)
    # after 0.5 s not yet, after 1.5 s and after 2.5 s
    assert absences.checks == [([late], 1)] * 2


def test_who_is_away_for_too_long_ends_the_wait(clock, absences):
    absences.error = DeadlineError("away.")
    with pytest.raises(DeadlineError, match="away"):
        waited([handle_of(Future("pending"))], absences)
    assert clock.pauses == [1.0]


def test_where_none_is_needed_who_dies_is_only_late(clock, absences):
    """The others have their time all the same."""
    slow, gone = handle_of(Future("pending")), handle_of(Future("pending"))
    clock.then = [
        lambda: end(gone, "error", ClusterError("gone.")),
        lambda: None,
        lambda: end(slow),
    ]
    assert waited([gone, slow], absences, timeout=9.0, needed=False) == [slow]
    assert clock.pauses == [1.0] * 3
    every = [failed(ClusterError("gone.")), failed(DeadlineError("away."))]
    assert waited(every, absences, needed=False) == []
    assert len(clock.pauses) == 3


def test_where_none_is_needed_nobody_waits_when_none_can_end_any_more(clock, absences):
    away, slow = handle_of(Future("pending")), handle_of(Future("pending"))
    clock.then = [lambda: None, lambda: end(slow)]
    clock.then += [lambda: setattr(absences, "error", DeadlineError("away."))]
    assert waited([away, slow], absences, timeout=60.0, needed=False) == [slow]
    assert absences.checks == [([away, slow], 1), ([away], 1), ([away], 1)]
    assert clock.pauses == [1.0] * 3


def test_what_a_party_refuses_is_an_error_where_none_is_needed(clock, absences):
    refusal = PartyError("client-1", "step", "InvalidInput")
    handles = [failed(ClusterError("gone.")), failed(refusal), handle_of(Future())]
    with pytest.raises(PartyError) as caught:
        waited(handles, absences, needed=False)
    assert caught.value is refusal
    with pytest.raises(EgressRefused):
        waited([failed(EgressRefused("no."))], absences, needed=False)


def test_a_watch_is_told_by_every_future_that_has_not_ended():
    one, two = Future("pending"), Future()
    both, ended = handle_of(one, Future("pending")), handle_of(two)
    watch = waiting._Watch([both, ended])
    assert two.callbacks == []
    assert len(one.callbacks) == 1
    assert watch.ended() == [ended]
    assert watch.ended() == []
    assert watch.pending == [both]
    end(both)  # two futures tell it, and are handled together
    watch.pause(1e9)
    assert watch.ended() == [both]
    watch.pause(0.001)  # nothing was told since
    assert watch.pending == []
