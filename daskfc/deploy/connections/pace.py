"""Limits of messages that come in: they keep a least pace, and none is larger than memory allows.

Dask waits for ever for the rest of a message, and allocates as many bytes as its head announces
before one of them has come. It reads a message from Tornado's stream by `read_bytes` (eight bytes,
the length of the first part) and `read_into` (its parts; the first begins with the lengths of all),
and Tornado reads from the system by `read_from_fd`. These three are replaced here. A connection may
be silent between two messages.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

from tornado.iostream import StreamClosedError

from daskfc.deploy.config.dask_insides import stream_server
from daskfc.deploy.config.peers import Peer, peer_of_stream
from daskfc.deploy.connections.seldom import Seldom

# All ours. A sender whose library lets no other thread run, or a cut line, may pause for `_REST_S`;
# a site's 1 Mbit/s that goes to a dozen receivers at once gives each `_BYTES_A_SECOND`.
_REST_S = 60.0
_BYTES_A_SECOND = 10_000
_TICK_S = 1.0  # a tick counts as a second of a sender's, however long this process was busy
_SMALL = 1 << 20  # bytes of messages that are not added up
_PARTS = 1 << 20  # of a message; Dask makes 40 bytes of the eight that hold the length of each
# Requests are small beside answers: those of one certificate at a time get this share of memory.
_ASKED = 1 / 4

_HEAD = struct.Struct("Q")


@dataclass
class _Message:
    """The message that a stream is reading."""

    seconds: int = 0  # in which it was waited for
    received: int = 0
    filled: int = 0  # of what was received, in the parts
    announced: int | None = None  # bytes of all parts


class Pace:
    """Closes connections whose messages come too slowly, or are larger than memory allows.

    `memory` is in bytes; a message has `rest` seconds, and one more for every `pace` bytes.
    """

    def __init__(self, memory: int, rest: float | None = None, pace: float | None = None) -> None:
        self._memory = memory
        self._rest = _REST_S if rest is None else rest
        self._pace = _BYTES_A_SECOND if pace is None else pace
        self._reading: dict[Any, _Message] = {}
        self._large: WeakKeyDictionary[Any, tuple[Peer, int]] = WeakKeyDictionary()
        self._held: WeakKeyDictionary[Any, tuple[str, bool]] = WeakKeyDictionary()
        self._broke: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._seldom = Seldom(logging.getLogger("daskfc.connections"))

    def watch(self, listener: Any) -> None:
        """Check from now on what comes in at a started listener of Dask's."""
        server = stream_server(listener)
        serve = server.handle_stream

        async def handle_stream(stream: Any, address: tuple[Any, ...]) -> None:
            self.hold(stream, f"{address[0]}:{address[1]}", asks=True)
            await serve(stream, address)

        server.handle_stream = handle_stream

    def follow(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        """Return the `connect` of Dask's `ConnectionPool` with the answers checked."""

        async def followed(*args: Any, **kwargs: Any) -> Any:
            comm = await connect(*args, **kwargs)
            self.hold(getattr(comm, "stream", None), comm.peer_address, asks=False)
            return comm

        return followed

    def broke(self, address: str) -> bool:
        """Return whether an answer from an address was broken off since the last such call."""
        broke = address in self._broke
        self._broke.discard(address)
        return broke

    def hold(self, stream: Any, address: str, *, asks: bool) -> None:
        """Check a stream from now on; if the other end `asks`, its requests get less memory."""
        if stream is None or stream in self._held:
            return
        self._held[stream] = address, asks
        # A stream that held itself would keep what it was reading when it was closed.
        there, cls = ref(stream), type(stream)
        most = int(self._memory * (_ASKED if asks else 1))
        message: _Message | None = None

        def read_from_fd(buffer: Any) -> int | None:
            stream = there()
            n: int | None = cls.read_from_fd(stream, buffer)
            if n and message is not None:
                message.received += n
                self._begin(stream, message)
            return n

        async def read_bytes(n: int) -> bytes:
            nonlocal message
            message = _Message()
            head: bytes = await cls.read_bytes(there(), n)
            self._check(there(), _HEAD.unpack(head)[0], most)
            return head

        async def read_into(buffer: Any) -> int:
            nonlocal message
            stream, of = there(), message or _Message()
            self._begin(stream, of)  # nothing more may come
            n: int = await cls.read_into(stream, buffer)
            of.filled += n
            if of.announced is None:
                of.announced = _announced(buffer)
                self._check(stream, of.announced, most)
            if of.filled >= of.announced:
                message = None
                self._reading.pop(stream, None)
                self._large.pop(stream, None)
            return n

        stream.read_from_fd, stream.read_bytes = read_from_fd, read_bytes
        stream.read_into = read_into

    def _begin(self, stream: Any, message: _Message) -> None:
        self._reading[stream] = message
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for stream, message in list(self._reading.items()):
            message.seconds += 1
            if stream.closed():
                del self._reading[stream]
            elif message.seconds * _TICK_S > self._rest + message.received / self._pace:
                self._end(stream, "%s at %s sends a message too slowly; its connection was closed")
        if self._reading:
            self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _check(self, stream: Any, announced: int, most: int) -> None:
        """End a stream whose message exceeds the memory for all messages of its sender."""
        if announced <= min(most, _SMALL):
            return
        peer, others = peer_of_stream(stream), 0
        if peer is not None and self._held[stream][1]:
            for one in [one for one in self._large if one is stream or one.closed()]:
                del self._large[one]
            others = sum(n for of, n in self._large.values() if of == peer)
            self._large[stream] = (peer, announced)
        if announced + others > most:
            self._end(
                stream,
                "%s at %s announces more than is read of one side at a time (%d bytes); its "
                "connection was closed",
                most,
            )
            raise StreamClosedError()

    def _end(self, stream: Any, words: str, *about: object) -> None:
        address, asks = self._held[stream]
        if not asks:
            self._broke.add(address)
        self._seldom.warn(peer_of_stream(stream) or "somebody", words, address, *about)
        stream.close()


def _announced(first: memoryview) -> int:
    """Return how many bytes a message has, by its first part; 0 if that is no head of Dask's."""
    if len(first) < _HEAD.size:
        return 0
    n: int = _HEAD.unpack_from(first)[0]
    if n > _PARTS:
        return 1 << 64
    head = _HEAD.size * (1 + n)
    if len(first) < head:
        return 0
    lengths: tuple[int, ...] = struct.unpack_from(f"{n}Q", first, _HEAD.size)
    return head + sum(lengths)
