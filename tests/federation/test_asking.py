"""How often a peer is asked in vain: by message and peer, and by what came in its place."""

import pytest
from distributed.worker_state_machine import (
    GatherDepBusyEvent,
    GatherDepFailureEvent,
    GatherDepNetworkFailureEvent,
    GatherDepSuccessEvent,
)

from daskfc.federation.worker.asking import Asking

ABOUT = {"worker": "a", "total_nbytes": 0, "stimulus_id": "s"}
NOTHING = GatherDepSuccessEvent(**ABOUT, data={})
BUSY = GatherDepBusyEvent(**ABOUT)
BROKEN = GatherDepNetworkFailureEvent(**ABOUT)
ERROR = GatherDepFailureEvent.from_exception(ValueError(), **ABOUT)


@pytest.mark.parametrize(
    ("event", "times"), [(NOTHING, 10), (ERROR, 10), (BROKEN, 30), (BUSY, 4_000)]
)
def test_so_many_in_vain_and_no_more(event, times):
    asking = Asking()
    ends = [asking.given_up("a", ["k"], event) for _ in range(2 * times)]
    assert [number for number, keys in enumerate(ends, 1) if keys] == [times, 2 * times]


def test_who_was_broken_off_for_being_slow_is_asked_three_times():
    asking = Asking()
    ends = [asking.given_up("a", ["k"], BROKEN, slow=True) for _ in range(3)]
    assert ends == [[], [], ["k"]]


def test_what_came_is_forgotten_and_the_rest_is_counted():
    asking = Asking()
    part = GatherDepSuccessEvent(**ABOUT, data={"k": 1})
    for _ in range(9):
        assert asking.given_up("a", ["k", "l"], NOTHING) == []
    assert asking.given_up("b", ["k", "l"], NOTHING) == []  # another peer
    assert asking.given_up("a", ["k", "l"], part) == ["l"]
    assert asking.given_up("a", ["k"], NOTHING) == []


def test_different_ways_add_up():
    asking = Asking()
    ends = [asking.given_up("a", ["k"], event) for _ in range(10) for event in (ERROR, BROKEN)]
    assert [number for number, keys in enumerate(ends, 1) if keys] == [15]
