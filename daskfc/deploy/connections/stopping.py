"""Waiting until a process is told to stop, and closing the scheduler that it serves."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable

from distributed import Scheduler

from daskfc.deploy.config.dask_insides import Server

__all__ = ["StopSignals", "close_scheduler"]

_MOMENT_S = 0.1  # in which an attempt to connect that was given up has ended


class StopSignals:
    """SIGTERM, SIGINT and SIGHUP as an event of the loop that runs, from now until it is closed.

    A signal counts whenever it comes: any later wait ends at once.
    """

    def __init__(self) -> None:
        loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        signals = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
            signals.append(signal.SIGHUP)
        for number in signals:
            with contextlib.suppress(NotImplementedError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self._told.set)

    async def come_before(self, ended: Awaitable[object]) -> bool:
        """Return whether a stop signal came before something ended by itself.

        A task goes on when a signal comes, and keeps its result or its error.
        """
        told, end = asyncio.ensure_future(self._told.wait()), asyncio.ensure_future(ended)
        await asyncio.wait([told, end], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if end is not ended:  # made here, so that nobody else could
            end.cancel()
        return self._told.is_set()


async def close_scheduler(scheduler: Scheduler, reason: str) -> None:
    """Close a scheduler, whatever its workers do in that moment.

    When a worker leaves, Dask gives up its attempts to connect to it. If the scheduler closes just
    then it gives them up again, which is an error (2026.8), and leaves connections open.
    """
    try:
        await scheduler.close(reason=reason)
    except RuntimeError:
        await asyncio.sleep(_MOMENT_S)
        await Server.close(scheduler)
