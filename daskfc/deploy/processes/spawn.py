"""Starting worker processes fast, and without running the user's script again in each."""

import contextlib
import importlib
import importlib.util
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import dask.config

from daskfc.deploy.config.config import LocalCluster, load_cluster
from daskfc.deploy.config.dask_insides import get_mp_context
from daskfc.deploy.config.settings import THREADS, dask_settings
from daskfc.deploy.processes.scratch import own_folder
from daskfc.errors import DaskfcError

# What steps import. Loaded once in the process that all worker processes are forked from.
_PRELOAD = (
    "daskfc.deploy.processes.last_out",
    "numpy",
    "scipy.sparse",
    "scipy.sparse.linalg",
    "scipy.sparse.csgraph",
    "scipy.spatial.distance",
    "scipy.cluster.hierarchy",
    "pandas",
    "sklearn.cluster",
    "sklearn.neighbors",
    "sklearn.metrics",
    "xarray",
    "zarr",
    "cryptography.hazmat.backends.openssl",  # it loads it at the first key
    "onnxruntime",
    "numba",
    "distributed",
    "distributed.nanny",
    "fsspec.implementations.chained",
    "multiprocessing.popen_forkserver",
    "tornado.platform.asyncio",
    "daskfc.baselines",
    "daskfc.protocols",
    "daskfc.secure.prepare",
    "daskfc.secure.profiles",
    "daskfc.federation.worker.guard",
    "daskfc.deploy.processes.warm_processes",
)

_LONGEST = 70  # characters; with what multiprocessing appends a socket's path may have 107
_lock = threading.Lock()
_depth = 0
_hidden: dict[str, Any] = {}


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Hide the user's script from multiprocessing while processes start; contexts may overlap.

    multiprocessing would run it in every worker: without a ``__main__`` guard it would start
    federations without end.
    """
    global _depth
    main = sys.modules["__main__"]
    with _lock:
        if _depth == 0:
            _hidden.update(file=main.__dict__.pop("__file__", None), spec=main.__spec__)
            main.__spec__ = None
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                main.__spec__ = _hidden["spec"]
                if _hidden["file"] is not None:
                    main.__file__ = _hidden["file"]


def load_early(cluster: str | None) -> None:
    """Start the fork server before this process imports what it needs: they do so side by side.

    Nothing is started, or said, where the cluster's file is not that of a local one.
    """
    if cluster is not None and not os.path.isfile(cluster):  # a pipe can be read once
        return
    try:
        config = load_cluster(cluster)
    except DaskfcError:  # which is the command's to say
        return
    if not isinstance(config, LocalCluster):
        return
    before = {*os.environ}
    with dask.config.set(dask_settings(config.dask)):
        _start_loading()
    for name in os.environ.keys() - before:  # libraries of this process are not loaded yet
        del os.environ[name]


def prepare_forkserver() -> None:
    """Start the process that workers are forked from: it loads what steps import, on one thread."""
    if _start_loading():
        with without_main():  # until all is loaded, and what nobody has compiled yet is compiled
            first = get_mp_context().Process(target=_nothing)
            first.start()
            first.join()
    else:
        importlib.import_module("daskfc.coding").warm_up()  # once, not by every worker at once


def _start_loading() -> bool:
    """Return whether workers are forked from a process, which is there then and loads."""
    before = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    for name, value in {**THREADS, **before}.items():  # Dask sets these too late for the process
        os.environ.setdefault(name, str(value))
    context = get_mp_context()  # sets Dask's own list of modules, once
    if context.get_start_method() != "forkserver":
        return False
    there = [name for name in _PRELOAD if importlib.util.find_spec(name.split(".")[0])]
    multiprocessing.set_forkserver_preload(there)
    _keep_sockets_in(own_folder())
    _start_forkserver()
    return True


def _nothing() -> None:
    """Run in the first process that is forked."""


def _start_forkserver() -> None:
    """Start the fork server with Ctrl-C blocked: this process ends it and its children."""
    resource_tracker.ensure_running()  # it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _keep_sockets_in(folder: Path) -> None:
    """Have multiprocessing keep its files in a folder that is swept; its first place is final."""
    if len(str(folder)) > _LONGEST:
        return
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        multiprocessing.util.get_temp_dir()
    finally:
        tempfile.tempdir = before
