"""What verbs ask of which party, by the tasks that a driver's half by itself would send."""

import re

import pytest
from dask.utils import key_split

from daskfc.federation.messages.wire_format import Reader
from daskfc.federation.messages.wire_format import opened as content_of
from daskfc.federation.steps.calls import call_of
from daskfc.federation.steps.handles import Local, PerClient, Sent
from daskfc.federation.worker.guard import hand_over, run_step
from tests.federation import steps
from tests.federation.driver import CLIENTS, in_a_run


@pytest.fixture
def federation():
    return in_a_run()


def asked(federation):
    """Of the tasks so far: what runs where, with the step call's own words."""
    found = []
    for task in federation.dask_client.tasks:
        (party,) = task.at
        assert task.at == {party: 1}
        name, where = task.key.split("|")
        assert name
        assert re.fullmatch(f"{party}-[0-9a-f]{{8}}-\\d+", where)
        if task.function is run_step:
            content, _ = content_of([], task.args[0])
            call = call_of(content, Reader(trusted=True))
            assert (call.party, call.run_id, call.round) == (party, "r", federation.round)
            found.append((name, party, call.verb, call.receivers, call.axes))
        else:
            assert task.function is hand_over
            found.append((name, party, "hand over", *task.args))
    return found


def handle(sent):
    return type(sent), sent.party, sent.step, tuple(sent.futures)


@pytest.mark.parametrize(
    ("party", "prefix"),
    [
        ("hospital-a", "total|hospital-a"),
        ("server", "total|server"),
        ("client-1", "total|client"),  # all numbered clients are one line
        ("deadbeef", "total|deadbeef"),
    ],
)
def test_dasks_pages_group_tasks_by_step_and_party(federation, party, prefix):
    """Whatever the number of tasks: a scheduler never forgets a prefix."""
    tags = ["00000000", "abcdefab", "12345678", "1234abcd", federation._tag]
    for federation._tag in tags:
        task = federation._pinned(party, "total", steps.total, "x")
        assert key_split(task.key) == prefix


def test_a_step_at_the_server_stays_there(federation):
    local = federation.on_server(steps.scaled, 1.0)
    assert handle(local) == (Local, "server", "scaled", ("server",))
    assert local.made_by is steps.scaled
    assert asked(federation) == [("scaled", "server", "keep", (), {})]


def test_what_is_asked_is_sent_to_the_server(federation):
    federation.next_round()
    sent = federation.ask(steps.row_sum, axes={"n": 2})
    assert {name: handle(one) for name, one in sent.items()} == {
        name: (Sent, name, "row_sum", ("server",)) for name in CLIENTS
    }
    assert asked(federation) == [
        ("row_sum", name, "send", ("server",), {"n": 2}) for name in CLIENTS
    ]


def test_what_is_told_is_composed_once_and_handed_to_each(federation):
    sent = federation.tell(steps.as_message, [1.0], axes={"n": 1})
    assert handle(sent) == (Sent, "server", "as_message", CLIENTS)
    composed, *handed = federation.dask_client.tasks
    assert asked(federation) == [
        ("as_message", "server", "compose", CLIENTS, {"n": 1}),
        *(("as_message", "server", "hand over", name) for name in CLIENTS),
    ]
    assert [task.inputs for task in handed] == [[composed.key]] * 2
    ((whole, wanted),) = federation.dask_client.graphs
    assert sorted(whole) == sorted([composed.key, *wanted])
    assert [future.key for future in sent.futures.values()] == [task.key for task in handed]


def test_each_client_is_told_its_own(federation):
    sent = federation.tell(steps.length_of_name, ["b"], clients=["b"])
    assert {name: handle(one) for name, one in sent.items()} == {
        "b": (Sent, "server", "length_of_name", ("b",))
    }


def test_what_is_exchanged_is_by_receiver_and_then_by_sender(federation):
    sent = federation.exchange(
        steps.length_of_name,
        list(CLIENTS),
        receivers=PerClient({"a": ("b",), "b": ("a", "b")}),
        axes={"n": 1},
    )
    found = {to: {by: handle(one) for by, one in them.items()} for to, them in sent.items()}
    assert found == {
        "b": {
            "a": (Sent, "a", "length_of_name", ("b",)),
            "b": (Sent, "b", "length_of_name", ("b",)),
        },
        "a": {"b": (Sent, "b", "length_of_name", ("a",))},
    }
    assert asked(federation) == [
        ("length_of_name", "a", "send", ("b",), {"n": 1}),  # one receiver fetches the step's own
        ("length_of_name", "b", "compose", ("a", "b"), {"n": 1}),
        ("length_of_name", "b", "hand over", "a"),
        ("length_of_name", "b", "hand over", "b"),
    ]


def test_what_is_published_is_for_the_caller(federation):
    sent = federation.publish(steps.row_sum, party=["b"], wait=False, axes={"n": 2})
    assert handle(sent["b"]) == (Sent, "b", "row_sum", ("caller",))
    own = federation.publish(steps.where, wait=False)
    assert handle(own) == (Sent, "server", "where", ("caller",))
    of_b, of_server = asked(federation)
    assert of_b == ("row_sum", "b", "send", ("caller",), {"n": 2})
    assert of_server == ("where", "server", "send", ("caller",), {})
