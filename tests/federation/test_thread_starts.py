"""Threads that could not begin."""

import threading

import pytest

from daskfc.federation.worker import thread_starts as module


class _NoMemory(threading.Thread):
    def _bootstrap(self):  # as one ends that has no memory for its first frame
        pass


@pytest.fixture
def limited(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    module.limit_thread_starts()


def test_who_starts_a_thread_that_cannot_begin_is_told(limited, monkeypatch):
    monkeypatch.setattr(module, "_SECONDS", 1)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        _NoMemory().start()


def test_a_thread_is_started_as_ever(limited):
    began, ends = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: began.set() or ends.wait(60))
    thread.start()
    assert began.wait(60)
    assert thread.is_alive()
    with pytest.raises(RuntimeError, match="only be started once"):
        thread.start()
    ends.set()
    thread.join(60)
    assert not thread.is_alive()
