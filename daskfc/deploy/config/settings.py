"""Dask's configuration for parties: quiet, no spilling, no helper that copies data."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

PIN = 1e9  # capacity of a party's resource: it pins steps and never limits how many run
# Threads of OpenMP that spin while they wait take the cores of others: k-means of 2,000 rows took
# 1.8 s so beside a busy program, 0.03 s where they sleep.
THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
}

# Each of these is needed for a promise of the federation; cluster files may override the rest.
NEEDED: dict[str, Any] = {
    # Raw data must not be written to disk by a memory manager, nor copied to other parties.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    # A paused worker that cannot spill would wait for ever.
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 1.0,  # a plan is compared with the whole limit
    # Stack samples and code excerpts are ways out.
    "distributed.worker.profile.enabled": False,
    "distributed.diagnostics.computations.nframes": 0,
    "distributed.diagnostics.nvml": False,
    # Residues and ciphertexts do not compress.
    "distributed.comm.compression": False,
}
_FAST: dict[str, Any] = {
    "distributed.worker.multiprocessing-method": "forkserver",
    # Dask gives every freed page back at once; faulting 16 MB in again for every message costs a
    # fifth of a transfer. Blocks under 32 MB are kept for reuse, at most 64 MB of them.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_MMAP_THRESHOLD_": 1 << 25,
        "MALLOC_TRIM_THRESHOLD_": 1 << 26,
        **THREADS,
    },
    # The driver judges who is away. The scheduler would end a process that computes for longer than
    # this in a library that lets no other thread run.
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.http.routes": [],
    "distributed.scheduler.http.routes": [],
    "distributed.admin.tick.limit": "1h",
    # By default every process measures 50 times a second how late its loop is: an eighth of two
    # cores in an idle federation of 11.
    "distributed.admin.tick.interval": "1s",
    # A nanny reads its party's memory from the system; ten times a second they take a fifth of a
    # core for 40 parties.
    "distributed.worker.memory.monitor-interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}


def dask_settings(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return Dask's settings as dotted keys; a cluster's file may override all but `NEEDED`."""
    return {**_FAST, **_flat(own), **NEEDED}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


class _NotOurs(logging.Filter):
    """Drops what Dask logs about connections and refusals that daskfc reports itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        # A handler may serve other loggers too.
        return record.name.split(".")[0] not in _SILENT or record.levelno > logging.CRITICAL


_SILENT = frozenset({"distributed", "tornado", "asyncio"})
_LOGGERS = ("distributed", "distributed.client", "distributed.gc", "tornado.application", "asyncio")


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep Dask's log records of this process off the terminal while the context lasts."""
    silent = _NotOurs()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    places = [*loggers, *{handler for one in loggers for handler in one.handlers}]
    for place in places:
        place.addFilter(silent)
    try:
        yield
    finally:
        for place in places:
            place.removeFilter(silent)
