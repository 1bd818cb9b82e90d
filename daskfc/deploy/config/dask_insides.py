"""All undocumented parts of Dask that daskfc relies on.

A guard that checks every message has to know how Dask sends them. Here are the names taken from
inside of dask and distributed, the methods overridden, the attributes read or replaced and the
requests answered, each with the reason. Other files take them from here.

The import refuses a release that lacks any of it, before any party listens: a guard of which a part
is not called lets out what it should hold. `make test-dask` runs the guard on releases between the
two of `KNOWN`.
"""

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

import dask.config
import psutil

from daskfc.deploy.config.settings import NEEDED
from daskfc.errors import ClusterError

KNOWN = ("2025.1.0", "2026.8.0")
"""The oldest and the newest release that `make test-dask` passed with."""

NAMES: dict[str, str] = {}
"""The names that are taken from inside of Dask, by path, and why; filled as they are."""

_ABSENT: Any = object()
_SPARED: set[str] = set()


def _at(path: str) -> Any:
    """Return what is at a path, or `_ABSENT`."""
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return _ABSENT


def _name(path: str, why: str, *otherwise: Any) -> Any:
    """Return what is at a path, else the given replacement; without one `_check` raises later."""
    NAMES[path] = why
    found = _at(path)
    if otherwise:
        _SPARED.add(path)
        return otherwise[0] if found is _ABSENT else found
    return found


for _word in ("format_time", "parse_bytes", "parse_timedelta"):
    _name(f"dask.utils.{_word}", "times and sizes as people write them; others take it themselves")


class _Never(Exception):  # in place of an error or warning that a release lacks
    pass


# -- graphs and what is in them ----------------------------------------------------------------

Task = _name("dask._task_spec.Task", "a step in a graph, which parties read back and check")
TaskRef = _name("dask._task_spec.TaskRef", "another's result among a task's arguments")
MaterializedLayer = _name(
    "dask.highlevelgraph.MaterializedLayer", "the tasks of one party, with its resource"
)
HLGExpr = _name("dask._expr.HLGExpr", "newer releases wrap a graph in it", None)

INPUT: Any
try:  # what a task holds in place of another's result: older releases have a class of their own
    INPUT = type(Task("task", len, TaskRef("input")).args[0])
except (AttributeError, TypeError):  # see `lacking`
    INPUT = None

# -- the wire ----------------------------------------------------------------------------------

dask_serialize = _name("distributed.protocol.serialize.dask_serialize", "how a message crosses")
dask_deserialize = _name("distributed.protocol.serialize.dask_deserialize", "and is made anew")
to_serialize = _name("distributed.protocol.to_serialize", "poison, and errors, in an answer")
dumps = _name("distributed.protocol.dumps", "how many bytes go over a connection with a message")
dask_loads = _name("distributed.protocol.pickle.loads", "replaced: opens pickles of a list alone")
dask_merge = _name(
    "distributed.protocol.core.merge_and_deserialize", "replaced: what is broken ends no connection"
)
CommClosedError = _name("distributed.comm.CommClosedError", "a connection that the guard ends")
BatchedSend = _name("distributed.batched.BatchedSend", "to a worker that joined by half")
get_address_host_port = _name(
    "distributed.comm.addressing.get_address_host_port", "where a scheduler is to be reached"
)
get_address_host = _name("distributed.comm.addressing.get_address_host", "the host of a scheduler")
get_ip = _name("distributed.utils.get_ip", "by which of its addresses this machine reaches another")

# -- processes ---------------------------------------------------------------------------------

Server = _name("distributed.core.Server", "a scheduler that fails to close is closed as this")
LoopRunner = _name("distributed.utils.LoopRunner", "the thread of a local federation's loop")
get_mp_context = _name("distributed.utils.get_mp_context", "how Dask starts worker processes")
get_versions = _name("distributed.versions.get_versions", "what a scheduler answers, for comparing")
SCHEDULER_EXTENSIONS = _name("distributed.scheduler.DEFAULT_EXTENSIONS", "less what keeps all")
WORKER_EXTENSIONS = _name("distributed.worker.DEFAULT_EXTENSIONS", "less what keeps all")
MEMORY_LIMIT = _name(
    "distributed.system.MEMORY_LIMIT", "what a scheduler may have", psutil.virtual_memory().total
)
CPU_COUNT = _name("dask.system.CPU_COUNT", "less what a container may not use", os.cpu_count() or 1)
current_worker = _name("distributed.worker._worker_cvar", "holds nobody while a step runs")
WORKER_ANY_RUNNING = _name("distributed.worker.WORKER_ANY_RUNNING", "when a party asks others")
VersionMismatchWarning = _name(
    "distributed.versions.VersionMismatchWarning", "daskfc compares versions itself", _Never
)
NoValidWorkerError = _name(
    "distributed.scheduler.NoValidWorkerError", "a scheduler's own limit of patience", _Never
)

# -- how tasks end, in a worker's words --------------------------------------------------------

_EVENTS = "distributed.worker_state_machine"
ExecuteFailureEvent = _name(f"{_EVENTS}.ExecuteFailureEvent", "a step failed; no values in it")
GatherDepSuccessEvent = _name(f"{_EVENTS}.GatherDepSuccessEvent", "messages came")
GatherDepBusyEvent = _name(f"{_EVENTS}.GatherDepBusyEvent", "a peer is busy")
GatherDepFailureEvent = _name(f"{_EVENTS}.GatherDepFailureEvent", "an answer made no sense")
GatherDepNetworkFailureEvent = _name(f"{_EVENTS}.GatherDepNetworkFailureEvent", "a peer hung up")

OVERRIDDEN: dict[str, dict[str, tuple[str, str]]] = {
    "distributed.core.Server": {
        "listen": ("", "connections are looked after from their beginning"),
        "handle_comm": ("comm", "each connection is read with care, and counted"),
    },
    "distributed.Worker": {
        "get_data": ("comm keys who serializers", "the guard: every answer passes a door"),
        "gather_dep": ("worker to_gather total_nbytes stimulus_id", "asking ends some time"),
        "execute": ("key stimulus_id", "steps alone; no values in errors, poison goes no further"),
        "log_event": ("topic msg", "nothing is told to the scheduler"),
        "plugin_add": ("", "parties take no plugins"),
        "digest_metric": ("name value", "measurements do not grow with rounds"),
        "close": ("reason nanny", "ends the ledger; a party that was away is started again"),
        "start_unsafe": ("", "the thread of steps has its memory"),
        "_handle_remove_worker": ("worker stimulus_id", "an address may be another party's next"),
        "_register_with_scheduler": ("", "who answers must be a scheduler by its certificate"),
    },
    "distributed.Nanny": {
        "instantiate": ("", "one start at a time, with the run under way"),
        "plugin_add": ("", "parties take no plugins"),
    },
    "distributed.Scheduler": {
        "identity": ("", "tells of pages where there are any"),
        "handle_worker": ("comm worker", "who comes and goes"),
        "add_client": ("comm client versions", "submitters alone"),
        "add_worker": ("comm address name resources", "parties of their own name alone"),
    },
}
"""By class and method the parameters that daskfc's own names, and why it is there."""

CALLED: dict[str, tuple[str, str]] = {
    f"{_EVENTS}.ExecuteFailureEvent": (
        "key run_id start stop exception traceback exception_text traceback_text stimulus_id",
        "made by the guard",
    ),
    f"{_EVENTS}.GatherDepSuccessEvent": ("worker total_nbytes data stimulus_id", "with poison"),
    f"{_EVENTS}.GatherDepNetworkFailureEvent": ("worker total_nbytes stimulus_id", "asks again"),
    "distributed.Scheduler.broadcast": ("msg workers nanny on_error", "questions to parties"),
    "distributed.Scheduler.report": ("msg client", "a refusal goes to its driver alone"),
    "distributed.Scheduler.remove_worker": ("address stimulus_id close", "who joined by half"),
    "distributed.Scheduler.restart_workers": (
        "workers timeout wait_for_workers on_error stimulus_id",
        "parties that give no sign of life",
    ),
}
"""What is called with parameters of its own inside of Dask."""

LOOKED_UP: dict[str, tuple[str, str]] = {
    "distributed.protocol.serialize.pickle_loads": ("loads", "replaced, see `read_by`"),
    "distributed.protocol.core.loads": ("loads merge_and_deserialize", "replaced, see `read_by`"),
    "distributed.comm.tcp.TCP.read": ("read_bytes read_bytes_rw", "replaced: a message's head"),
    "distributed.comm.tcp.read_bytes_rw": ("read_into", "replaced: its parts, at a pace"),
    "distributed.core.Server._handle_comm": ("blocked_handlers handlers", "what is shut is shut"),
    "distributed.Worker.get_data": ("write", "all that leaves passes the door's"),
    "distributed.worker.get_data_from_worker": ("connect", "replaced: what peers answer"),
    "distributed.get_worker": ("_worker_cvar", "and so does whatever asks for a client in a step"),
}
"""By function the names that it must look up when it is called, since other things have them."""

ATTRIBUTES: dict[str, dict[str, str]] = {
    "distributed.core.Server": {
        "handlers blocked_handlers stream_handlers": "which requests are answered",
        "rpc": "its `connect` is wrapped: what others answer is looked at",
        "listeners": "the last one is looked after",
        "_comms": "see `connections_of`",
        "periodic_callbacks loop status": "looks at revoked certificates; what it does at present",
    },
    "distributed.core.ConnectionPool": {"connect": "replaced, see rpc"},
    "distributed.comm.tcp.BaseTCPListener": {"tcp_server": "see `stream_server`"},
    "distributed.comm.tcp.TCP": {"stream peer_address extra_info": "whose connection it is"},
    "distributed.batched.BatchedSend": {"comm interval": "who is there; a round is several"},
    "distributed.Worker": {
        "state data executors": "what a task is given, and the thread of steps",
        "scheduler batched_stream": "who is at which address; who is the scheduler",
        "memory_manager get_current_task": "the limit of memory; whose error it is",
    },
    "distributed.worker_memory.WorkerMemoryManager": {"memory_limit": "of a party"},
    f"{_EVENTS}.WorkerState": {"tasks in_flight_workers": "the task; who is waited for"},
    f"{_EVENTS}.TaskState": {"key dependencies run_id run_spec": "what the guard checks"},
    "dask._task_spec.Task": {"func args kwargs": "what the guard checks"},
    "distributed.Nanny": {
        "process pid worker_address": "the process under way",
        "worker_kwargs memory_manager": "what the next one is started with",
        "scheduler": "whether the last driver is still connected",
    },
    "distributed.nanny.WorkerProcess": {"worker_kwargs": "what it is started again with"},
    "distributed.worker_memory.NannyMemoryManager": {
        "memory_limit memory_terminate_fraction": "a party that is too large for its first step"
    },
    "distributed.Scheduler": {
        "workers aliases coerce_address": "whose worker it is",
        "clients client_comms": "submitters that are connected",
        "stream_comms worker_send": "what a worker said of another's task is taken back",
        "tasks": "of whom a worker may tell",
    },
    "distributed.scheduler.TaskState": {
        "state processing_on who_has": "where it ran",
        "dependents resource_restrictions": "for whom its result is",
        "who_wants": "whose it is",
    },
    "distributed.scheduler.WorkerState": {"name address processing last_seen": "how it fares"},
    "distributed.scheduler.ClientState": {"client_key": "whose tasks may be cancelled"},
    "distributed.Client": {
        "scheduler scheduler_comm loop status id": "its connection, and what its end is",
        "_loop_runner": "see `stop_loop`",
    },
}
"""By class the attributes that are read or replaced, and why."""

REQUESTS: dict[str, tuple[str, str, str]] = {
    "worker": (
        "distributed.Worker",
        "echo free_keys get_data identity ping terminate versions",
        "all that a party's worker answers beside daskfc's own; the guard looks at get_data",
    ),
    "nanny": (
        "distributed.Nanny",
        "close_gracefully echo identity instantiate kill restart terminate",
        "all that a party's nanny answers beside daskfc's own",
    ),
    "anybody": ("distributed.Scheduler", "identity unregister", "at a scheduler, whoever asks"),
    "party": (
        "distributed.Scheduler",
        "register-worker register_nanny heartbeat_worker events",
        "at a scheduler, of parties",
    ),
    "submitter": (
        "distributed.Scheduler",
        "register-client versions processing who_has gather broadcast restart_workers",
        "at a scheduler, of submitters",
    ),
    "told by workers": (
        "distributed.Scheduler",
        "task-finished task-erred release-worker-data add-keys keep-alive log-event "
        "worker-status-change request-refresh-who-has close-stream",
        "within a worker's connection to its scheduler",
    ),
    "told by clients": (
        "distributed.Scheduler",
        "update-graph client-desires-keys client-releases-keys heartbeat-client close-client "
        "subscribe-topic unsubscribe-topic cancel-keys report-key close-stream",
        "within a client's connection to its scheduler",
    ),
    "copies": ("distributed.Worker", "acquire-replicas", "replaced: none at third parties"),
}
"""Requests of Dask's by who answers or tells them, the class that has them, and why."""


def requests(kind: str) -> frozenset[str]:
    """Return the names of Dask's requests of one row of `REQUESTS`."""
    return frozenset(REQUESTS[kind][1].split())


# -- what is done with it ----------------------------------------------------------------------


def read_by(loads: Callable[..., Any], merge: Callable[..., Any]) -> None:
    """Deserialize incoming messages by these in place of `dask_loads` and `dask_merge`."""
    importlib.import_module("distributed.protocol.pickle").loads = loads  # type: ignore[attr-defined]
    importlib.import_module("distributed.protocol.core").merge_and_deserialize = merge  # type: ignore[attr-defined]


def stream_server(listener: Any) -> Any:
    """Return Tornado's server behind a listener of Dask's that has started."""
    return listener.tcp_server


def connections_of(server: Any) -> list[Any]:
    """Return the open connections to a server of Dask's."""
    return list(server._comms)


def stop_loop(client: Any) -> None:
    """Stop the thread of a client without a word to its scheduler."""
    client._loop_runner.stop()


# -- whether the installed release has it ------------------------------------------------------

_TABLES = frozenset({"__init__", "handle_comm", "handle_stream"})  # where requests are named


def _functions(kind: type) -> Iterator[FunctionType]:
    for one in kind.__mro__[:-1]:  # without object
        yield from (f for f in vars(one).values() if isinstance(f, FunctionType))


def _has(kind: type, name: str) -> bool:
    """Return whether objects of a class have an attribute, or a method that names it."""
    if hasattr(kind, name) or any(name in inspect.get_annotations(one) for one in kind.__mro__):
        return True
    return any(name in one.__code__.co_names for one in _functions(kind))


def _texts(constants: Iterable[Any]) -> Iterator[str]:
    for one in constants:
        if isinstance(one, str):
            yield one
        elif isinstance(one, tuple):  # the keys of a dictionary
            yield from _texts(one)


def _answered(kind: type) -> frozenset[str]:
    """Return the strings by which a class of servers makes and reads its tables of requests."""
    made = [one.__code__ for one in _functions(kind) if one.__name__ in _TABLES]
    return frozenset(text for code in made for text in _texts(code.co_consts))


def _looked_up(code: CodeType) -> frozenset[str]:
    """Return the names that a function, and those within it, look up when they are called."""
    within = (_looked_up(one) for one in code.co_consts if isinstance(one, CodeType))
    return frozenset(code.co_names).union(*within)


def lacking() -> list[str]:
    """Return which of the names listed in this file the installed Dask release lacks."""
    lacks = [path for path in NAMES if path not in _SPARED and _at(path) is _ABSENT]
    called = {path: parameters for path, (parameters, _) in CALLED.items()}
    for kind, methods in OVERRIDDEN.items():
        called |= {f"{kind}.{name}": parameters for name, (parameters, _) in methods.items()}
    for path, parameters in called.items():
        if (found := _at(path)) is _ABSENT:
            lacks.append(path)
        else:
            taken = inspect.signature(found).parameters
            lacks += [f"{path}({name}=)" for name in parameters.split() if name not in taken]
    for path, rows in ATTRIBUTES.items():
        found = _at(path)
        named = [name for row in rows for name in row.split()]
        lacks += [f"{path}.{name}" for name in named if found is _ABSENT or not _has(found, name)]
    for path, names, _ in REQUESTS.values():
        found = _at(path)
        answered = frozenset() if found is _ABSENT else _answered(found)
        lacks += [f"{path}'s request {name}" for name in names.split() if name not in answered]
    lacks += [f"the setting {key}" for key in NEEDED if dask.config.get(key, _ABSENT) is _ABSENT]
    for path, (names, _) in LOOKED_UP.items():
        found = _at(path)
        known = frozenset() if found is _ABSENT else _looked_up(inspect.unwrap(found).__code__)
        lacks += [f"{name} in {path}" for name in names.split() if name not in known]
    return lacks


def _check() -> None:
    if lacks := lacking():
        installed = " and ".join(f"{name} {_at(f'{name}.__version__')}" for name in _PACKAGES)
        raise ClusterError(
            f"daskfc relies on the inside of Dask, of which {installed} lack {', '.join(lacks)}. "
            f"Install one release of both from {KNOWN[0]} to {KNOWN[1]}, which were tried."
        )


_PACKAGES = ("dask", "distributed")
_check()
