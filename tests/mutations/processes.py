"""Mutants in worker processes: a plugin of pytest for the copies of the tree that mutants run in.

mutmut asks its own process only which tests call which functions. While it does, every process
adds what it calls to a file of its own in the folder ``DASKFC_HITS``, once for each test, and after
a test the plugin gives these to mutmut.

Then a process of mutmut collects the tests once, and every mutant is tested in a fork of it. That
process also starts the one that workers are forked from, so that no mutant waits for its imports;
Dask tells each worker by its environment which mutant it is to be.
"""

import gc
import json
import os
import sys
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


def _forget() -> None:
    """Empty caches: what the source computed while tests were collected is not a mutant's."""
    for name, module in list(sys.modules.items()):
        if name.startswith("daskfc."):
            for thing in vars(module).values():
                if hasattr(thing, "cache_clear"):
                    thing.cache_clear()


def pytest_configure(config: pytest.Config) -> None:
    """Make worker processes what this one is."""
    (Path(os.environ["DASKFC_HITS"]) / "test").touch()
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    dask.config.set({"distributed.nanny.environ.MUTANT_UNDER_TEST": mutant})
    _forget()
    if config.option.collectonly:
        from daskfc.deploy.processes.spawn import prepare_forkserver

        with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
            prepare_forkserver()
        forkserver.ensure_running()
        # A fork would take its own process for gone: it is no child of it.
        forkserver.ensure_running = forkserver._forkserver.ensure_running = lambda: None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with quick tests that start no process: the first that fails ends a mutant."""
    stats = Path("mutmut-stats.json")  # in the folder that mutants are run in
    seconds = json.loads(stats.read_text())["duration_by_test"] if stats.exists() else {}

    def cost(item: pytest.Item) -> tuple[bool, float]:
        starts = not _PROCESSES.isdisjoint(getattr(item, "fixturenames", ()))
        return starts, seconds.get(item.nodeid, 0.0)

    items.sort(key=cost)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Keep what was collected once out of the collections of garbage that every fork makes."""
    if config.option.collectonly:
        gc.collect()
        gc.freeze()


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
