"""Tasks in the threads that a party has, with results that are the same for any number of them."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController, threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")

_here = threading.local()
_allowed: list[int] = []  # to this process, the last one holds


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """Look through all libraries of the process, again where modules were imported since."""
    return ThreadpoolController()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that stay, and with them their work memory."""
    return ThreadPoolExecutor(threads, "daskfc", initializer=setattr, initargs=(_here, "one", True))


os.register_at_fork(after_in_child=_pool.cache_clear)


def allow_threads(threads: int) -> None:
    """Let tasks of this process have some threads, and BLAS and OpenMP outside of them one.

    Their own threads sum in an order that depends on how many there are.
    """
    threadpool_limits(1)
    _allowed[:] = [threads]


def own_threads() -> int:
    """Return how many threads a step may use: what a party is allowed, elsewhere those of BLAS."""
    if hasattr(_here, "one"):
        return 1
    if _allowed:
        return _allowed[0]
    found = (
        one["num_threads"]
        for one in _libraries(len(sys.modules)).info()
        if one["user_api"] == "blas"
    )
    return max(found, default=1)


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield ``work(task)`` in the order of the tasks, which threads of one BLAS thread each do.

    At most one task more than there are threads is begun before its result is taken.
    """
    threads = own_threads()
    if threads == 1:
        yield from map(work, tasks)
        return
    begun = deque[Future[Result]]()
    with _libraries(len(sys.modules)).limit(limits=1):
        try:
            for task in tasks:
                begun.append(_pool(threads).submit(work, task))
                if len(begun) > threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:  # nobody asks for the others, which end before what they read may change
            for one in begun:
                if not one.cancel():
                    one.exception()


def do_all(work: Callable[[Task], object], tasks: Iterable[Task]) -> None:
    """Call ``work(task)`` for all tasks, by threads as `in_order`."""
    for _ in in_order(work, tasks):
        pass
