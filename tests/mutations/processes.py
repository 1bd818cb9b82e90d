"""Mutants in worker processes: a plugin of pytest for the copies of the tree that mutants run in.

mutmut asks its own process only which tests call which functions. While it does, every process
adds what it calls to a file of its own in the folder ``DASKFC_HITS``, once for each test, and after
a test the plugin gives these to mutmut.

Then a process of mutmut collects the tests once, and every mutant is tested in a fork of it. That
process also starts the one that workers are forked from, so that no mutant waits for its imports;
Dask tells each worker by its environment which mutant it is to be.
"""

import os
from multiprocessing import forkserver
from pathlib import Path

import dask
import pytest

_PROCESSES = {"federation", "processes"}  # fixtures that start some
_seen: set[str] = set()
_of: list[int] = [0]  # when the test began that they were seen in


def tell() -> None:
    """Write down what this process calls from now on, if mutmut asks."""
    if os.environ.get("MUTANT_UNDER_TEST") == "stats":
        from mutmut.mutation import trampoline

        trampoline.record_trampoline_hit = _record


def _record(name: str, caller: str | None = None) -> None:
    folder = os.environ["DASKFC_HITS"]
    began = os.stat(folder + "/test").st_mtime_ns
    if _of != [began]:
        _of[:] = [began]
        _seen.clear()
    if name not in _seen:
        _seen.add(name)
        with open(f"{folder}/{os.getpid()}.txt", "a", encoding="utf-8") as file:
            file.write(name + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Make worker processes what this one is."""
    (Path(os.environ["DASKFC_HITS"]) / "test").touch()
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    dask.config.set({"distributed.nanny.environ.MUTANT_UNDER_TEST": mutant})
    if config.option.collectonly:
        from daskfc.deploy.spawn import prepare_forkserver

        with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
            prepare_forkserver()
        forkserver.ensure_running()
        # A fork would take its own process for gone: it is no child of it.
        forkserver._forkserver.ensure_running = lambda: None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start no processes: the first one that fails ends a mutant."""
    items.sort(key=lambda item: not _PROCESSES.isdisjoint(getattr(item, "fixturenames", ())))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Give mutmut what was called since the last test; it asks after this."""
    if os.environ.get("MUTANT_UNDER_TEST") != "stats":
        return
    from mutmut.state import state

    folder = Path(os.environ["DASKFC_HITS"])
    for file in folder.glob("*.txt"):
        state()._stats.update(file.read_text(encoding="utf-8").split())
        file.write_text("", encoding="utf-8")
    (folder / "test").touch()
