"""The process that workers are forked from, and what there is where processes are not forked."""

import multiprocessing
import sys

import dask.config
import pytest

from daskfc.deploy.config.settings import dask_settings
from daskfc.deploy.processes import spawn

WARM = "daskfc.deploy.processes.warm_processes"


def tell_whether_warm(queue):
    queue.put(WARM in sys.modules)


@pytest.mark.slow
def test_all_is_loaded_and_compiled_before_the_first_worker():
    with dask.config.set(dask_settings({})):
        spawn.prepare_forkserver()
    context = multiprocessing.get_context("forkserver")
    queue = context.Queue()
    first = context.Process(target=tell_whether_warm, args=(queue,))
    first.start()
    assert queue.get(timeout=60)
    first.join()


def test_where_processes_are_not_forked_this_one_compiles_for_all(monkeypatch):
    class Spawning:
        def get_start_method(self):
            return "spawn"

    imported = []
    monkeypatch.setattr(spawn, "get_mp_context", Spawning)
    monkeypatch.setattr(spawn.importlib, "import_module", imported.append)
    spawn.prepare_forkserver()
    assert imported == [WARM]
