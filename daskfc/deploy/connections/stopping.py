"""Waiting for a signal to stop, and closing the scheduler of a process."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable

from distributed import Scheduler

from daskfc.deploy.config.dask_insides import Server

_MOMENT_S = 0.1  # in which an attempt to connect that was given up has ended


class StopSignals:
    """SIGTERM, SIGINT and SIGHUP as an event of the running loop; a wait after one ends at once."""

    def __init__(self) -> None:
        loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        self.name = ""
        """Of the signal that came."""
        signals = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
            signals.append(signal.SIGHUP)
        for number in signals:
            with contextlib.suppress(RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self._tell, number)

    def _tell(self, number: signal.Signals) -> None:
        self.name = signal.Signals(number).name
        self._told.set()

    async def come_before(self, ended: Awaitable[object]) -> bool:
        """Return whether a stop signal came before `ended`, which goes on if it is a task."""
        told, end = asyncio.ensure_future(self._told.wait()), asyncio.ensure_future(ended)
        await asyncio.wait([told, end], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if end is not ended:  # made here, so that nobody else can cancel it
            end.cancel()
        return self._told.is_set()


async def close_scheduler(scheduler: Scheduler, reason: str) -> None:
    """Close a scheduler, whatever its workers do in that moment."""
    try:
        await scheduler.close(reason=reason)
    except RuntimeError:  # Dask 2026.8, if a worker leaves just then: connections stay open
        await asyncio.sleep(_MOMENT_S)
        await Server.close(scheduler)
