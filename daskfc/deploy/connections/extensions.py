"""Extensions of Dask's schedulers and workers, less those that keep something of every task."""

from typing import Any

from daskfc.deploy.config.dask_insides import SCHEDULER_EXTENSIONS, WORKER_EXTENSIONS

# "Spans" are measurements of groups of tasks. Every round of a protocol is a group of its own, and
# neither side ever forgets one: 5 kB a round of a masked sum of two clients.
_KEEP_ALL = frozenset({"spans"})


def scheduler_extensions() -> dict[str, Any]:
    """Return the extensions of a scheduler, by name."""
    # With extensions given, Dask does not look whether its configuration has stealing.
    left_out = _KEEP_ALL | {"stealing"}
    return {name: one for name, one in SCHEDULER_EXTENSIONS.items() if name not in left_out}


def worker_extensions() -> dict[str, Any]:
    """Return the extensions of a party's worker; each needs its counterpart at the scheduler."""
    return {name: one for name, one in WORKER_EXTENSIONS.items() if name not in _KEEP_ALL}
