"""Threads of a step: results in order, one thread of BLAS each, nothing left behind."""

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from daskfc import threads as threads_module
from daskfc.threads import allow_threads, do_all, in_order, own_threads


def blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    with threadpool_limits(request.param, "blas"):
        yield request.param


def test_results_come_in_the_order_of_the_tasks(threads):
    waits, done = threading.Event(), []

    def work(task):
        if task == 0 and threads > 1:
            waits.wait()  # the first is done after the second
        done.append(task)
        waits.set()
        return 2 * task

    assert list(in_order(work, range(20))) == list(range(0, 40, 2))
    assert sorted(done) == list(range(20))
    assert (done[0] == 0) == (threads == 1)


def test_tasks_have_one_thread_of_blas_and_no_further_ones(threads):
    found = list(in_order(lambda _: (own_threads(), set(blas_threads())), range(4)))
    assert found == [(1, {1})] * 4
    assert own_threads() == threads
    assert set(blas_threads()) == {threads}


def test_a_task_may_have_tasks(threads):
    def work(task):
        return sum(in_order(lambda part: task * part, range(10)))

    assert list(in_order(work, range(10))) == [45 * task for task in range(10)]


def test_few_tasks_are_begun_before_their_results_are_taken(threads):
    begun = []

    def work(task):
        begun.append(task)
        return task

    results = in_order(work, iter(range(1000)))
    for taken in range(50):
        assert next(results) == taken
        assert len(begun) <= taken + 1 + threads
    results.close()
    assert len(begun) <= 50 + threads
    assert set(blas_threads()) == {threads}


def test_what_a_party_is_allowed_is_for_tasks_alone(monkeypatch, threads):
    monkeypatch.setattr(threads_module, "_allowed", [])
    with threadpool_limits(4):
        allow_threads(threads)
        assert own_threads() == threads
        assert {one["num_threads"] for one in threadpool_info()} == {1}
        assert list(in_order(lambda _: own_threads(), range(3))) == [1, 1, 1]
        assert {one["num_threads"] for one in threadpool_info()} == {1}


def test_an_error_ends_them(threads):
    done = []

    def work(task):
        if task == 7:
            raise KeyError(task)
        done.append(task)

    with pytest.raises(KeyError, match="7"):
        do_all(work, range(1000))
    ended = list(done)
    assert len(ended) < 20
    assert own_threads() == threads
    assert done == ended  # none goes on


_FORKS = """
import multiprocessing
import numpy as np
from threadpoolctl import threadpool_limits
from daskfc.threads import in_order

def of_child(pipe):
    with threadpool_limits(2, "blas"):
        pipe.send(list(in_order(np.sqrt, [1.0, 4.0])))

with threadpool_limits(2, "blas"):
    assert list(in_order(np.sqrt, [1.0, 4.0])) == [1.0, 2.0]
mine, theirs = multiprocessing.Pipe()
child = multiprocessing.get_context("fork").Process(target=of_child, args=(theirs,))
child.start()
assert mine.poll(60)
assert mine.recv() == [1.0, 2.0]
child.join()
assert child.exitcode == 0
"""


def test_a_process_that_was_forked_has_threads_of_its_own():
    # in a process without what other tests import, such as JAX, which forbids it
    subprocess.run([sys.executable, "-c", _FORKS], check=True, timeout=120)


def test_after_an_error_what_was_begun_is_over():
    begun, gate, ended = threading.Event(), threading.Event(), []

    def work(task):
        if task == 0:
            begun.wait()
            raise KeyError(task)
        begun.set()
        gate.wait()
        ended.append(task)

    opens = threading.Timer(0.5, gate.set)  # long after the error
    opens.start()
    with threadpool_limits(2, "blas"), pytest.raises(KeyError):
        do_all(work, range(2))
    assert ended == [1]
    opens.join()


def test_a_task_waits_until_a_thread_is_free():
    both, gate, begun, seen = threading.Barrier(2), threading.Event(), [], []

    def work(task):
        begun.append(task)
        if task < 2 and both.wait() == 0:  # two are begun, and go on after a third would be
            gate.wait(0.5)
            seen.extend(begun)
            gate.set()
        gate.wait()

    with threadpool_limits(2, "blas"):
        do_all(work, range(3))
    assert sorted(seen) == [0, 1]
    assert sorted(begun) == [0, 1, 2]


def test_without_a_library_of_blas_there_is_one_thread(monkeypatch):
    monkeypatch.setattr(threads_module, "_allowed", [])
    monkeypatch.setattr(threads_module, "_libraries", lambda _: SimpleNamespace(info=list))
    assert own_threads() == 1
    assert list(in_order(abs, [-1, 2])) == [1, 2]
