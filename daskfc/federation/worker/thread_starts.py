"""Starting threads in a process that gets no more memory.

`threading.Thread.start` waits until the thread reports that it runs. A thread without memory for
its first frame ends before that, and its starter waits for ever (seen with Python 3.11): a step,
which then seems to compute, or the loop that serves the scheduler.
"""

import threading

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
        raise RuntimeError("can't start new thread")  # Python's words for a refusal by the system


def _start_in_time(self: threading.Thread) -> None:
    if not self._started.is_set():  # type: ignore[attr-defined]
        self._started = _Begun()  # type: ignore[attr-defined]
    _start(self)


def limit_thread_starts() -> None:
    """Have starts of threads in this process fail after ten seconds, as if out of memory."""
    threading.Thread.start = _start_in_time  # type: ignore[method-assign]
