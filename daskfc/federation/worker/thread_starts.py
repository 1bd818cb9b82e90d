"""Starting threads in a process that gets no more memory.

`threading.Thread.start` waits until the thread says that it runs. One that has no memory for its
first frame ends before it can, and who started it waits for ever (seen with Python 3.11): a step,
which then seems to compute, or the loop that hears the scheduler.
"""

import threading

__all__ = ["limit_thread_starts"]

_SECONDS = 10  # of this process: one that is stopped for a while loses one of them

_start = threading.Thread.start


class _Begun(threading.Event):
    """Set when a thread has begun."""

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return super().wait(timeout)
        for _ in range(_SECONDS):
            if super().wait(1.0):
                return True
        raise RuntimeError("can't start new thread")  # in Python's words where the system says so


def _start_in_time(self: threading.Thread) -> None:
    if not self._started.is_set():  # type: ignore[attr-defined]
        self._started = _Begun()  # type: ignore[attr-defined]
    _start(self)


def limit_thread_starts() -> None:
    """Let every start of a thread in this process fail after ten seconds, as if the system had."""
    threading.Thread.start = _start_in_time  # type: ignore[method-assign]
