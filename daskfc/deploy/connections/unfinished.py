"""Limits, in number and time, of connections on which no request has come yet.

Dask waits for ever for a TLS handshake and for the first request, so that silent connections would
take all descriptors of a scheduler or a party, and with them everybody's way in.
"""

import asyncio
import logging
from collections import defaultdict
from typing import Any

from daskfc.deploy.config.dask_insides import stream_server
from daskfc.deploy.connections.descriptors import allow_many_descriptors

logger = logging.getLogger("daskfc.connections")

_SECONDS = 15.0  # for TLS, Dask's own greeting and the first request
_FROM_ONE = 512  # parties behind one address that all start at once have a few each


class Unfinished:
    """The connections to a server without a request so far, each ended after 15 seconds.

    An address may have 512 (one more ends its oldest), all together half of the descriptors.
    """

    def __init__(self) -> None:
        self._most = allow_many_descriptors() // 2
        # In the order in which they came: all, with what will end each, and those of an address.
        self._open: dict[Any, tuple[str, asyncio.TimerHandle]] = {}
        self._of: defaultdict[str, dict[Any, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._open)

    def watch(self, listener: Any) -> None:
        """Track from now on the connections that come in at a started listener of Dask's."""
        server = stream_server(listener)
        serve = server.handle_stream

        async def handle_stream(stream: Any, address: tuple[Any, ...]) -> None:
            self._begin(stream, str(address[0]))
            await serve(stream, address)
            if stream.closed():
                self._forget(stream)

        server.handle_stream = handle_stream

    def _begin(self, stream: Any, host: str) -> None:
        if len(self._of[host]) >= _FROM_ONE:
            logger.warning("%s has %d connections that ask nothing", host, _FROM_ONE)
            self._end(next(iter(self._of[host])))
        elif len(self._open) >= self._most:
            self._end(next(iter(self._open)))
        timer = asyncio.get_running_loop().call_later(_SECONDS, self._end, stream)
        self._open[stream] = (host, timer)
        self._of[host][stream] = None

    def _end(self, stream: Any) -> None:
        self._forget(stream)
        stream.close()

    def _forget(self, stream: Any) -> None:
        if stream not in self._open:
            return
        host, timer = self._open.pop(stream)
        timer.cancel()
        del self._of[host][stream]
        if not self._of[host]:
            del self._of[host]

    def finish(self, comm: Any) -> None:
        """Stop tracking a connection: a request came on it."""
        self._forget(getattr(comm, "stream", None))
