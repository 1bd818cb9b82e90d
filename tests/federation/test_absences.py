"""Who has been away for how long, by a clock and by heartbeats of the test's."""

import re
from types import SimpleNamespace

import pytest

from daskfc.errors import DeadlineError
from daskfc.federation.driver import waiting
from daskfc.federation.driver.waiting import Absences

PARTIES = ("a", "b", "server")


class RollCall:
    """Tells what the test puts into it."""

    def __init__(self):
        self.seen = dict.fromkeys(PARTIES, 0.0)
        self.processor = {}
        self.asked = []
        self.signed_off = []
        self.at_rest = False

    def last_seen(self):
        return dict(self.seen)

    def processor_seconds(self, parties):
        self.asked.append(list(parties))
        return {name: self.processor[name] for name in parties if name in self.processor}

    def sign_off(self, parties):
        self.signed_off.append(list(parties))
        for party in parties:
            del self.seen[party]  # the scheduler knows it no more

    def idle(self):
        return self.at_rest


class Looks:
    """Absences that a test looks at by steps of time."""

    def __init__(self, monkeypatch, deadline):
        self.clock = SimpleNamespace(now=50.0, monotonic=lambda: self.clock.now)
        monkeypatch.setattr(waiting, "time", self.clock)
        self.roll_call = RollCall()
        self.absences = Absences(self.roll_call, PARTIES, deadline)
        self.beats = {}

    def look(self, seconds, *beating):
        """Let time pass, in which some parties give a heartbeat, and look."""
        self.clock.now += seconds
        for party in beating:
            self.roll_call.seen[party] = self.roll_call.seen.get(party, 0.0) + 1.0
        self.absences._look()
        return dict(self.absences._silent)

    def check(self, pending, needed):
        handles = [SimpleNamespace(party=party, step=f"step of {party}") for party in pending]
        self.absences.check(handles, needed)


@pytest.fixture
def looks(monkeypatch):
    """Of parties that have been seen once."""
    looks = Looks(monkeypatch, deadline=12.0)
    assert looks.look(1.0) == dict.fromkeys(PARTIES, 0.0)
    return looks


def test_who_gives_no_heartbeat_is_silent_for_as_long_as_passed(looks):
    assert looks.look(1.0, "a") == {"a": 0.0, "b": 1.0, "server": 1.0}
    assert looks.look(2.0, "a", "server") == {"a": 0.0, "b": 3.0, "server": 0.0}
    assert looks.look(0.5, "b") == {"a": 0.5, "b": 0.0, "server": 0.5}
    assert looks.roll_call.asked == []


def test_who_has_no_worker_is_silent_from_when_it_is_missed(looks):
    del looks.roll_call.seen["b"]
    assert looks.look(1.0, "a")["b"] == 0.0  # it was there, and is gone
    assert looks.look(1.0, "a")["b"] == 1.0
    assert looks.look(1.0, "a", "b")["b"] == 0.0


def test_who_was_never_there_is_silent_from_the_start(monkeypatch):
    looks = Looks(monkeypatch, deadline=12.0)
    del looks.roll_call.seen["b"]
    assert looks.look(1.5) == {"a": 0.0, "b": 1.5, "server": 0.0}


@pytest.mark.parametrize(("deadline", "most"), [(12.0, 4.0), (3.0, 2.0), (60.0, 20.0)])
def test_a_driver_that_was_stopped_counts_little_of_it(monkeypatch, deadline, most):
    looks = Looks(monkeypatch, deadline)
    looks.look(1.0)
    assert looks.look(1000.0, "a") == {"a": 0.0, "b": most, "server": most}


def test_who_computes_is_not_away(looks):
    looks.roll_call.processor = {"b": 5.0}
    looks.look(3.0, "a", "server")
    assert looks.look(2.9, "a", "server")["b"] == pytest.approx(5.9)
    assert looks.roll_call.asked == []  # not before half of the deadline
    assert looks.look(0.1, "a", "server")["b"] == pytest.approx(6.0)  # nothing to compare with
    assert looks.roll_call.asked == [["b"]]
    looks.roll_call.processor = {"b": 5.25}
    assert looks.look(1.0, "a", "server")["b"] == 0.0
    assert looks.look(1.0, "a", "server")["b"] == 1.0  # asked on, for as long as it is silent
    looks.roll_call.processor = {"b": 5.5}
    assert looks.look(1.0, "a", "server")["b"] == 0.0
    assert looks.roll_call.asked == [["b"]] * 4


def test_a_heartbeat_ends_the_doubt(looks):
    looks.roll_call.processor = {"b": 5.0}
    for _ in range(2):
        looks.look(3.0, "a", "server")
    assert looks.look(1.0, "a", "server", "b")["b"] == 0.0
    assert looks.look(1.0, "a", "server")["b"] == 1.0
    assert looks.roll_call.asked == [["b"]]


def test_processor_time_of_a_process_before_does_not_count(looks):
    looks.roll_call.processor = {"b": 5.0}
    for _ in range(2):
        looks.look(3.0, "a", "server")
    looks.look(1.0, "a", "server", "b")  # another process, whose time begins again
    looks.roll_call.processor = {"b": 9.0}
    for _ in range(2):
        silent = looks.look(3.0, "a", "server")
    assert silent["b"] == 6.0


def test_who_has_no_worker_is_not_asked_what_it_computes(looks):
    del looks.roll_call.seen["b"]
    for _ in range(4):
        looks.look(4.0, "a", "server")
    assert looks.roll_call.asked == []


def test_nobody_overdue_is_nothing_to_say(looks):
    looks.clock.now += 4.0
    looks.check(["b"], 1)
    assert looks.roll_call.signed_off == []
    assert looks.absences._overdue() == []


def let_pass(looks, *beating):
    """Let the deadline pass for all but some; return with 1 s of it left."""
    for _ in range(2):
        looks.look(4.0, *beating)
    looks.look(3.0, *beating)


def refused(party, step="b"):
    sentence = (
        f"party {party} has been away for 12 s while step 'step of {step}' waits for it. Start it "
        "again and resume the run, or raise 'deadline' in the cluster's file."
    )
    return pytest.raises(DeadlineError, match=f"^{re.escape(sentence)}$")


def test_a_step_of_who_is_away_ends_at_the_deadline(looks):
    let_pass(looks, "a", "server")
    looks.clock.now += 0.9
    looks.roll_call.seen.update(a=99.0, server=99.0)
    looks.check(["a", "b"], 2)
    assert looks.roll_call.signed_off == []
    looks.clock.now += 0.1
    looks.roll_call.seen.update(a=100.0, server=100.0)
    with refused("'b'"):
        looks.check(["a", "b"], 2)
    assert looks.roll_call.signed_off == [["b"]]


def test_who_is_away_is_signed_off_once(looks):
    let_pass(looks, "a", "server")
    looks.look(1.0, "a", "server")
    assert looks.absences._overdue() == ["b"]
    assert looks.absences._overdue() == ["b"]
    assert looks.roll_call.signed_off == [["b"]]


def test_who_has_no_worker_needs_no_sign_off(looks):
    del looks.roll_call.seen["b"]
    looks.look(1.0, "a", "server")
    let_pass(looks, "a", "server")
    looks.clock.now += 1.0
    looks.roll_call.seen.update(a=100.0, server=100.0)
    with refused("'b'"):
        looks.check(["b"], 1)
    assert looks.roll_call.signed_off == []


def overdue(looks, *parties):
    looks.absences._silent.update(dict.fromkeys(parties, 12.0))


def test_as_long_as_enough_steps_run_elsewhere_nobody_is_missed(looks):
    overdue(looks, "b")
    looks.check(["a", "b", "server"], 2)
    with refused("'b'"):
        looks.check(["a", "b", "server"], 3)


def test_where_nothing_is_computed_the_steps_wait_for_who_is_away(looks):
    looks.roll_call.at_rest = True
    overdue(looks, "b")
    with refused("'b'", step="server"):
        looks.check(["server", "a"], 1)
    looks.roll_call.at_rest = False
    looks.check(["server", "a"], 2)


def test_all_that_are_away_are_named(looks):
    overdue(looks, "b", "a")
    with refused("'a', 'b'"):
        looks.check(["server", "b"], 2)
    assert looks.roll_call.signed_off == [["a", "b"]]
