"""Tasks in the threads that a party has, with results that are the same for any number of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

__all__ = ["in_order", "own_threads"]

Task = TypeVar("Task")
Result = TypeVar("Result")


def own_threads() -> int:
    """Return how many threads a step may use: those of BLAS, which a party's limit sets."""
    found = (one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
    return max(found, default=1)


def in_order(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield ``work(task)`` in the order of the tasks, which threads of one BLAS thread each do.

    One task more than there are threads is begun or done before its result is taken.
    """
    threads = own_threads()
    if threads == 1:
        yield from map(work, tasks)
        return
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        begun = deque[Future[Result]]()
        try:
            for task in tasks:
                begun.append(pool.submit(work, task))
                if len(begun) > threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:  # nobody asks for the others
            for one in begun:
                one.cancel()
