"""Waiting until a process is told to stop."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable

__all__ = ["until_stopped"]


async def until_stopped(ended: Awaitable[object]) -> bool:
    """Wait for SIGTERM, SIGINT or SIGHUP, or for something to end by itself.

    Parameters
    ----------
    ended : awaitable
        What may end.

    Returns
    -------
    bool
        Whether it was told to stop.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
        signals.append(signal.SIGHUP)
    for number in signals:
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not in the main thread
            loop.add_signal_handler(number, stop.set)
    waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(ended)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
    return stop.is_set()
