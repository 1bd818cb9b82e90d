"""Messages that begin and do not end, by two ends of a connection in one process."""

import asyncio
import logging
import struct

import pytest
from distributed.comm import connect, listen, tcp
from distributed.comm.core import CommClosedError

from daskfc.deploy.config.peers import Peer
from daskfc.deploy.connections import pace as module
from daskfc.deploy.connections import seldom
from daskfc.deploy.connections.open_connections import OpenConnections
from daskfc.deploy.connections.pace import Pace
from daskfc.deploy.connections.seldom import Seldom

C = Peer("client", "c")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_TICK_S", 0.01)


class Ends:
    """The two ends of connections to a listener, each read in a task of its own."""

    def __init__(self, pace, watched=True):
        self.pace, self.watched, self.made = pace, watched, []

    async def __aenter__(self):
        self.listener = await listen("tcp://127.0.0.1:0", self.take)
        if self.watched:
            self.pace.watch(self.listener)
        return self

    async def take(self, comm):
        self.made[-1].set_result(comm)

    async def connected(self):
        self.made.append(asyncio.get_running_loop().create_future())
        comm = await connect(self.listener.contact_address)
        return comm, await self.made[-1]

    async def __aexit__(self, *_):
        self.listener.stop()


def of(pace, scenario, **options):
    async def whole():
        async with Ends(pace, **options) as ends:
            await asyncio.wait_for(scenario(ends), 30)

    asyncio.run(whole())


def test_a_byte_at_a_time_is_too_slow(monkeypatch, caplog):
    pace = Pace(10**9, rest=0.1, pace=1000)
    ticks = []

    async def scenario(ends):
        comm, other = await ends.connected()
        idle, quiet = await ends.connected()
        waits = asyncio.create_task(quiet.read())
        tick = pace._tick

        def trickle():
            ticks.append(1)
            comm.stream.write(b"x")
            tick()

        monkeypatch.setattr(pace, "_tick", trickle)
        await comm.stream.write(struct.pack("Q", 10**6))
        with pytest.raises(CommClosedError):
            await other.read()
        assert 10 <= len(ticks) < 20  # 0.1 s, and 1 kB has not come
        await idle.write({"op": "later"})  # nobody waits for those that say nothing
        assert await waits == {"op": "later"}
        idle.abort()

    of(pace, scenario)
    assert "somebody at 127.0.0.1:" in caplog.text
    assert "sends a message too slowly" in caplog.text


def test_a_length_of_which_a_part_came():
    async def scenario(ends):
        comm, other = await ends.connected()
        reading = asyncio.create_task(other.read())
        await comm.stream.write(b"\x00\x00\x00")
        with pytest.raises(CommClosedError):
            await reading
        comm.abort()

    of(Pace(10**9, rest=0.05), scenario)


def test_a_message_that_began_within_the_one_before():
    """Its length was read already, and nothing more comes."""

    async def scenario(ends):
        comm, other = await ends.connected()
        sent = []
        write, comm.stream.write = comm.stream.write, lambda _: sent.append(1)
        await comm.write({"op": "whole"})  # into the buffer
        comm.stream.write = write
        await comm.stream.write(struct.pack("Q", 1000))
        assert await other.read() == {"op": "whole"}
        with pytest.raises(CommClosedError):
            await other.read()
        comm.abort()

    of(Pace(10**9, rest=0.05), scenario)


def test_who_keeps_the_pace_may_take_long(monkeypatch):
    """A megabyte for each ten seconds that it takes beyond the rest."""
    pace = Pace(10**9, rest=0.03, pace=10**7)
    ticks, parts = [], 5

    async def scenario(ends):
        comm, other = await ends.connected()
        size = parts * (1 << 20)
        tick = pace._tick

        def dribble():
            ticks.append(1)
            if len(ticks) % 10 == 1 and len(ticks) <= 10 * parts:
                comm.stream.write(bytes(1 << 20) if len(ticks) > 1 else first)
            tick()

        monkeypatch.setattr(pace, "_tick", dribble)
        first = struct.pack("2Q", 1, size - 16) + bytes((1 << 20) - 16)
        await comm.stream.write(struct.pack("Q", size))
        reading = asyncio.create_task(tcp.read_bytes_rw(other.stream, size))
        head = await other.stream.read_bytes(8)
        assert struct.unpack("Q", head) == (size,)
        assert len(await reading) == size
        assert len(ticks) > 10 * (parts - 1)
        comm.abort()
        other.abort()

    of(pace, scenario)


@pytest.mark.parametrize(
    "said",
    [
        struct.pack("Q", 10**12),
        struct.pack("5Q", 32, 3, 0, 10**12, 10**12),
        struct.pack("2Q", 8 * (2 << 20), 2 << 20) + bytes(8 * ((2 << 20) - 1)),
    ],
)
def test_what_is_announced_takes_no_memory(said, monkeypatch, caplog):
    taken = []
    make = tcp.host_array
    monkeypatch.setattr(tcp, "host_array", lambda n: (taken.append(n), make(n))[1])
    pace = Pace(10**9)

    async def scenario(ends):
        comm, other = await ends.connected()
        comm.stream.write(said)
        with pytest.raises(CommClosedError):
            await other.read()
        comm.abort()

    of(pace, scenario)
    assert max(taken, default=0) < 10**8
    assert "announces more than is read of one side at a time (250000000 bytes)" in caplog.text


@pytest.mark.parametrize("alike", [True, False])
def test_one_side_announces_so_much_on_all_of_its_connections(alike, monkeypatch):
    pace, peers = Pace(10**9), {}
    monkeypatch.setattr(module, "peer_of_stream", peers.get)

    async def scenario(ends):
        lines = [await ends.connected() for _ in range(3)]
        for number, (_, other) in enumerate(lines):
            peers[other.stream] = C if alike else Peer("client", f"c{number}")
        reads = [asyncio.create_task(other.read()) for _, other in lines]
        for comm, _ in lines:
            await comm.stream.write(struct.pack("Q", 10**8))
        if alike:
            done, waits = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
            assert (len(done), len(waits)) == (1, 2)
            with pytest.raises(CommClosedError):
                done.pop().result()
        else:
            await asyncio.wait_for(until(lambda: len(pace._large) == 3), 10)
            assert not any(read.done() for read in reads)
        for comm, _ in lines:
            comm.abort()
        await asyncio.gather(*reads, return_exceptions=True)
        # What was broken off counts no more, and neither does what has come.
        comm, other = await ends.connected()
        peers[other.stream] = C
        for _ in range(2):
            sent = asyncio.create_task(comm.write({"x": bytes(25 << 20)}))
            assert (await other.read())["x"] == bytes(25 << 20)
            await sent
        assert len(pace._large) == 0
        comm.abort()

    of(pace, scenario)


def test_a_message_is_whole_with_its_last_byte_and_not_before():
    pace = Pace(10**9)

    async def scenario(ends):
        comm, other = await ends.connected()
        await comm.stream.write(struct.pack("QQ", 1, 1))  # the length of one part
        await other.stream.read_into(bytearray(16))
        assert other.stream in pace._reading
        await comm.stream.write(b"x")
        await other.stream.read_into(bytearray(1))
        assert other.stream not in pace._reading
        comm.abort()
        other.abort()

    of(pace, scenario)


async def until(holds):
    while not holds():
        await asyncio.sleep(0)


def test_answers_may_be_as_large_as_memory_and_no_larger():
    pace = Pace(10**8)

    async def scenario(ends):
        ends.made.append(asyncio.get_running_loop().create_future())
        comm = await pace.follow(connect)(ends.listener.contact_address)
        other = await ends.made[-1]
        sent = asyncio.create_task(other.write({"x": bytes(3 * 10**7)}))
        assert len((await comm.read())["x"]) == 3 * 10**7
        await sent
        assert not pace.broke(comm.peer_address)
        await other.stream.write(struct.pack("Q", 2 * 10**8))
        with pytest.raises(CommClosedError):
            await comm.read()
        assert pace.broke(comm.peer_address)
        assert not pace.broke(comm.peer_address)  # since it was asked last
        other.abort()

    of(pace, scenario, watched=False)


def test_a_stream_is_looked_after_once():
    pace = Pace(10**9)

    async def scenario(ends):
        comm, other = await ends.connected()
        before = other.stream.read_into
        pace.hold(other.stream, "again", asks=True)
        assert other.stream.read_into is before
        for one in (comm, other):
            one.abort()

    of(pace, scenario)


def test_warnings_of_one_side_are_seldom(caplog):
    now = [0.0]
    said = Seldom(logging.getLogger("daskfc.example"), clock=lambda: now[0])
    for at, told in ((0, True), (59, False), (61, True)):
        now[0] = at
        assert said.warn(C, "%s is %d", at) is told
    assert said.warn(Peer("client", "d"), "%s is %d", 1)
    assert said.warn(C, "%s was %d", 1)
    assert len(said._said) == 3
    now[0] += seldom._AGAIN_S
    assert said.warn(C, "%s is %d", 2)
    assert len(said._said) == 1
    assert caplog.text.count("client 'c' is") == 3


class Stream:
    open = True

    def closed(self):
        return not self.open


def test_connections_are_counted_by_certificate_while_they_are_open(caplog):
    few, streams = OpenConnections(of_one=2), [Stream() for _ in range(4)]
    assert [few.admit(C, one) for one in streams[:3]] == [True, True, False]
    assert few.admit(Peer("client", "d"), streams[3])
    assert not few.admit(C, streams[2])
    streams[0].open = False
    assert few.admit(C, streams[2])
    assert caplog.text.count("client 'c' has 2 connections open; further ones are closed") == 1
