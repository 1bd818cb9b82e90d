"""Memory of a process: what is counted, and what is given back."""

import pickle
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from dask._task_spec import TaskRef

from daskfc.errors import ClusterError, PartyError
from daskfc.federation.messages.envelopes import Unread
from daskfc.federation.worker import ingress
from daskfc.federation.worker import memory as module
from daskfc.federation.worker.memory import give_back, peak_memory_bytes
from daskfc.testing.federation import federation_of
from tests.federation import steps


def test_the_most_memory_is_what_the_system_counts(tmp_path, monkeypatch):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWMx:\t1 kB\nVmHWM:\t   2048 kB\nVmRSS:\t1024 kB\n")
    there = {"/proc/self/status": status}
    monkeypatch.setattr(module, "Path", lambda name: there.get(name, Path(name)))
    assert peak_memory_bytes() == 2048 * 1024
    del there["/proc/self/status"]
    there["/proc/self/status"] = tmp_path / "none"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert most <= peak_memory_bytes() <= 2 * most
    assert peak_memory_bytes() % 1024 == 0


@pytest.mark.parametrize(
    ("limit", "rss", "asked"),
    [(None, 10**12, False), (0, 10**12, False), (1000, 399, False), (1000, 400, True)],
)
def test_freed_memory_is_given_back_where_a_party_holds_much(monkeypatch, limit, rss, asked):
    trimmed = []
    process = SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=rss))
    monkeypatch.setattr(module.psutil, "Process", lambda: process)
    monkeypatch.setattr(module, "_malloc_trim", lambda: trimmed.append)
    assert give_back(limit) == asked
    assert trimmed == [0] * asked
    monkeypatch.setattr(module, "_malloc_trim", lambda: None)
    assert not give_back(limit)


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_a_system_without_glibc_gives_nothing_back(monkeypatch, error):
    def library(name):
        raise error

    monkeypatch.setattr(module.ctypes, "CDLL", library)
    assert module._malloc_trim() is None


def test_gaps_between_arrays_are_given_back():
    """Blocks below the size that malloc maps by itself, every other one freed."""
    if module._malloc_trim() is None:
        pytest.skip("no glibc here")
    blocks = [bytearray(64_000) for _ in range(2000)]  # 128 MB, on the heap
    del blocks[::2]
    before = module.psutil.Process().memory_info().rss
    assert give_back(1)
    assert module.psutil.Process().memory_info().rss < before - 40e6
    assert len(blocks) == 1000


LIMITED = """
import resource
import numpy as np
import psutil
import scipy.linalg
from daskfc.federation.worker.memory import take_buffers

matrix = np.eye(50)
take_buffers()
half = psutil.Process().memory_info().vms // 2
resource.setrlimit(resource.RLIMIT_AS, (half, half))
print(scipy.linalg.eigvalsh(matrix).sum(), np.linalg.eigvalsh(matrix).sum())
"""


def test_who_has_its_buffers_needs_no_more_memory_for_a_small_matrix():
    """Without them scipy's OpenBLAS never ends, and numpy's ends the process."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "50.0 50.0\n"), done.stderr


@pytest.mark.slow
def test_a_party_that_gets_no_more_memory_computes_what_is_small(tmp_path):
    """Its first step needs no new thread, and its first matrices no new buffer."""
    rows = {"a": np.eye(3), "b": np.eye(3)}
    with federation_of(tmp_path / "stores", rows) as federation:
        federation.start_run("r", random_state=0, workspace=str(tmp_path), deadline_s=30)
        party = psutil.Process(federation.processes.pid("a"))
        party.rlimit(psutil.RLIMIT_AS, (party.memory_info().vms // 2,) * 2)
        told = federation.publish(steps.eigenvalues, party="a", wait=False)
        assert federation.fetch(told, timeout=60).values.tolist() == [1.0] * 50
        told = federation.publish(steps.starts_a_thread, party="a", wait=False)
        with pytest.raises(PartyError, match="'starts_a_thread' of party 'a' failed: RuntimeError"):
            federation.fetch(told, timeout=60)
        assert federation.processes.pid("a") == party.pid


# -- what is sent when there is none --------------------------------------------------------------


def test_who_has_no_memory_to_send_says_so(federation):
    match = "party 'client-1' had no memory to send what it was asked for"
    with pytest.raises(ClusterError, match=match):
        federation.publish(steps.no_memory_to_send, party="client-1")
    sent = federation.ask(steps.no_memory_to_send, clients=["client-1"])
    with pytest.raises(ClusterError, match="no memory to send what party 'server' waits for"):
        federation.publish(steps.total_message, sent)
    sent = federation.ask(steps.row_sum, clients=["client-1"])  # no run has ended
    assert federation.publish(steps.total_message, sent).values.size == 2


def test_what_there_is_no_memory_to_read_is_not_taken_for_forbidden(monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError

    with ingress.restricted():
        assert ingress._loads(pickle.dumps(TaskRef)) is TaskRef
        monkeypatch.setattr(ingress._Unpickler, "find_class", no_memory)
        assert ingress._loads(pickle.dumps(TaskRef)) is Unread
        monkeypatch.setattr(ingress, "dask_merge", no_memory)
        assert ingress._deserialize({}, []) is Unread
