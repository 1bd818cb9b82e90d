"""The process that workers are forked from, and what there is where processes are not forked."""

import gc
import importlib.util
import multiprocessing
import os
import subprocess
import sys

import dask.config
import pytest

from daskfc.deploy.config.settings import dask_settings
from daskfc.deploy.processes import spawn

WARM = "daskfc.deploy.processes.warm_processes"


def tell_how_it_starts(queue):
    queue.put((WARM in sys.modules, gc.isenabled(), gc.get_freeze_count() > 100_000))


@pytest.mark.slow
def test_all_is_loaded_and_compiled_before_the_first_worker():
    """It looks for garbage in what it makes itself alone."""
    with dask.config.set(dask_settings({})):
        spawn.prepare_forkserver()
    context = multiprocessing.get_context("forkserver")
    queue = context.Queue()
    first = context.Process(target=tell_how_it_starts, args=(queue,))
    first.start()
    assert queue.get(timeout=60) == (True, True, True)
    first.join()


@pytest.mark.long
@pytest.mark.slow
def test_what_nobody_has_compiled_is_compiled_elsewhere(tmp_path):
    pytest.importorskip("numba", reason="needs daskfc[fast]")
    misses = (
        f"import {WARM}; from daskfc.coding.residues import compiled; "
        "stats = [one.stats for one in vars(compiled).values() if hasattr(one, 'stats')]; "
        "print(*(sum(sum(kind.values()) for kind in kinds) for kinds in "
        "([one.cache_misses for one in stats], [one.cache_hits for one in stats])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", misses],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    missed, found = map(int, done.stdout.split())
    assert (missed, found > 5) == (1, True)  # one, by which it sees that the others are missing


EARLY = """
import os, sys, dask.config, psutil
before = dict(os.environ)
from multiprocessing.forkserver import _forkserver
from daskfc.deploy.config.config import load_cluster
from daskfc.deploy.config.settings import dask_settings
from daskfc.deploy.processes import spawn
spawn.load_early(sys.argv[1])
assert dict(os.environ) == before
early, settings = _forkserver._forkserver_pid, dask_settings(load_cluster(sys.argv[1]).dask)
with dask.config.set(settings):
    spawn.prepare_forkserver()
assert _forkserver._forkserver_pid == early
theirs = psutil.Process(early).environ()
print(*(theirs[name] for name in ("OMP_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")))
"""


@pytest.mark.slow
def test_it_may_load_before_its_owner_does_and_limits_no_library_of_that(tmp_path):
    """With the settings of the cluster's file, however these are written."""
    own = "{'MALLOC_TRIM_THRESHOLD_': 65536}"
    file = tmp_path / "cluster.yaml"
    file.write_text(f"'cluster' : local\n'dask' : {{distributed.nanny.pre-spawn-environ: {own}}}\n")
    names = {*dask_settings({})["distributed.nanny.pre-spawn-environ"]}
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(file)],
        env={name: value for name, value in os.environ.items() if name not in names},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1 65536\n"


@pytest.mark.parametrize(
    "text",
    [
        "cluster: existing\nscheduler: tcp://127.0.0.1:8786\n",
        "cluster: locale\n",
        "cluster: [local\n",
        "",
    ],
)
def test_nothing_loads_for_a_cluster_that_starts_no_workers_here(monkeypatch, tmp_path, text):
    monkeypatch.setattr(spawn, "_start_loading", lambda: pytest.fail("it has begun"))
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    spawn.load_early(str(file))


def test_nothing_loads_for_what_is_no_file_and_a_pipe_is_left_to_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(spawn, "_start_loading", lambda: pytest.fail("it has begun"))
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a writer
    for name in (tmp_path / "pipe", tmp_path, "", "absent.yaml", "x" * 300, "a\0b"):
        spawn.load_early(str(name))


def test_where_processes_are_not_forked_this_one_compiles_for_all(monkeypatch):
    class Spawning:
        def get_start_method(self):
            return "spawn"

    compiled = []
    monkeypatch.setattr(spawn, "get_mp_context", Spawning)
    monkeypatch.setattr("daskfc.coding.warm_up", lambda: compiled.append(True))
    spawn.prepare_forkserver()
    assert compiled == [True]


def test_what_is_loaded_early_is_there():
    """The process passes over names of modules that it does not find."""
    optional = {"numba", "onnxruntime"}
    needed = [name for name in spawn._PRELOAD if name not in optional]
    assert len(needed) == len(spawn._PRELOAD) - 2
    assert all(importlib.util.find_spec(name) for name in needed)
