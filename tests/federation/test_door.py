"""The door of a party: what is read at it, written down and held back before it leaves."""

import asyncio
from types import SimpleNamespace

import pytest
from distributed.protocol import to_serialize

from daskfc.errors import ClusterError, EgressRefused, LedgerError
from daskfc.federation.party.slow_line import SlowLine
from daskfc.federation.worker import door as module
from daskfc.federation.worker.connections import Connection
from daskfc.federation.worker.door import Door, Refused


class Line:
    """A connection, whose other end says OK to whatever it gets."""

    def __init__(self):
        self.sent, self.asked = [], []

    no_memory = False

    async def write(self, msg, **options):
        if self.no_memory:
            self.no_memory = False
            raise MemoryError
        self.sent.append((msg, options))
        return 100

    async def read(self, **options):
        self.asked.append(options)
        return "OK"


@pytest.fixture
def answer(told):
    """Answers for data at the door of a party that gives out numbers; returns what was told."""
    told.noted = []
    ledger = SimpleNamespace(refuse=lambda *words: told.noted.append(words))
    told.party = SimpleNamespace(name="a", line=SlowLine(), ledger=ledger)
    told.line, told.released, told.recorded, told.refused = Line(), [], [], []
    told.written_down = None

    def release(key, value, receiver):
        told.released.append((key, value, receiver))
        if isinstance(value, Exception):
            raise value
        return value

    def record(leaving):
        told.recorded.append(leaving)
        if told.written_down is not None:
            raise told.written_down
        return told.recorded.append

    told.release, told.record, told.refuse = release, record, told.refused.append

    def answer(peer=True, receiver="b", **values):
        door = Door(Connection(told.line, None), told, receiver, peer=peer)
        data = {key: to_serialize(value) for key, value in values.items()}

        async def whole():
            assert await door.write({"status": "OK", "data": data}, serializers=["x"]) == 100
            assert await door.read(deserializers=["y"]) == "OK"

        asyncio.run(whole())
        ((msg, options),) = told.line.sent
        assert options == {"serializers": ["x"]}
        assert msg["status"] == "OK"
        return {key: wrapped.data for key, wrapped in msg["data"].items()}

    return answer


def test_what_may_leave_is_written_down_before_and_after(answer, told):
    assert answer(x=1, y=2) == {"x": 1, "y": 2}
    assert told.released == [("x", 1, "b"), ("y", 2, "b")]
    assert told.recorded == [{"x": 1, "y": 2}, 100]
    assert told.line.asked == [{"deserializers": ["y"]}]  # for the word of who got it
    assert told.refused == []


@pytest.mark.parametrize("peer", [True, False], ids=["a party", "the caller"])
def test_what_may_not_leave_is_poison_and_the_rest_leaves(answer, told, peer):
    refusal = EgressRefused("no.")
    found = answer(peer, x=1, y=refusal, z=3)
    assert (found["x"], found["z"]) == (1, 3)
    assert type(found["y"]) is Refused
    assert (found["y"].error, found["y"].raises) == (refusal, not peer)
    assert told.recorded == [{"x": 1, "z": 3}, 100]
    assert told.refused == [refusal]
    assert len(told.line.asked) == peer  # a caller that cannot read it says no word


def test_where_nothing_may_leave_only_the_refusal_is_written_down(answer, told):
    other = ClusterError("another run.")
    assert answer(x=other)["x"].error is other
    assert told.recorded == told.refused == []  # which ends no run
    assert told.noted == [("ClusterError", "another run.")]


def test_what_cannot_be_written_down_does_not_leave(answer, told):
    told.written_down = LedgerError("full.")
    found = answer(x=1, y=2)
    assert [found[key].error for key in "xy"] == [told.written_down] * 2
    assert told.recorded == [{"x": 1, "y": 2}]
    assert told.refused == [told.written_down]


def test_what_cannot_be_checked_does_not_leave_and_tells_no_value(answer, told):
    error = answer(x=ValueError("1.5"))["x"].error
    assert type(error) is EgressRefused
    assert str(error) == (
        "party 'a' could not check what it was asked for (ValueError). Nothing was sent; its "
        "party.log says more."
    )
    assert told.refused == [error]
    assert told.said == ["a message could not be checked"]


@pytest.mark.parametrize("before", [True, False], ids=["as it is checked", "as it is sent"])
def test_without_memory_nothing_leaves_and_no_run_ends(answer, told, before):
    told.line.no_memory = not before
    error = answer(x=MemoryError() if before else 1)["x"].error
    assert type(error) is ClusterError
    assert str(error).startswith("party 'a' had no memory to send what it was asked for.")
    assert told.recorded == ([] if before else [{"x": 1}])  # not as sent
    assert told.refused == []


def test_what_leaves_is_held_back_for_as_long_as_it_is_said(answer, told, monkeypatch):
    held = []

    async def sleep(seconds):
        assert told.line.sent == []
        held.append(seconds)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep))
    told.party.line = SlowLine(2.5)
    answer(x=1)
    assert held == [2.5]
    told.line.sent.clear()
    answer(x=EgressRefused("no."))
    assert held == [2.5]
