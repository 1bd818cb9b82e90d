"""A relay of TCP connections that can be cut, as a network is: nothing arrives, nobody is told."""

import asyncio
import contextlib
import threading

_PIECE = 1 << 16


class Relay:
    """Relays connections from addresses to others, in a thread of its own.

    Parameters
    ----------
    routes : mapping of (str, int) to (str, int)
        Where it listens, and what it connects to.
    """

    def __init__(self, routes):
        self._whole = None
        self._routes = routes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self):
        self._whole = asyncio.Event()
        self._whole.set()
        self._tasks = set()
        self._servers = [
            await asyncio.start_server(self._serve(target), *place)
            for place, target in self._routes.items()
        ]

    def _serve(self, target):
        async def serve(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                await self._whole.wait()
                there, back = await asyncio.open_connection(*target)
                one, other = self._copy(reader, back), self._copy(there, writer)
                await asyncio.gather(one, other)
            except (OSError, asyncio.CancelledError):
                writer.close()
            finally:
                self._tasks.discard(task)

        return serve

    async def _copy(self, reader, writer):
        try:
            while piece := await reader.read(_PIECE):
                await self._whole.wait()
                writer.write(piece)
                await writer.drain()
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()

    def cut(self):
        """Let nothing through any more; connections stay open on both sides."""
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self):
        """Let everything through again, what was held back as well."""
        self._loop.call_soon_threadsafe(self._whole.set)

    def end(self):
        """Close all connections and stop."""

        async def close():
            for server in self._servers:
                server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
