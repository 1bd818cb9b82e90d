"""One party at its own site: a nanny and its worker, until they are told to stop."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import dask.config
from distributed.core import rpc

from daskfc.deploy.config import SecurityFiles, WorkerLimits
from daskfc.deploy.connection import security_of
from daskfc.deploy.settings import PIN, dask_settings
from daskfc.deploy.spawn import prepare_forkserver
from daskfc.deploy.stopping import until_stopped
from daskfc.errors import ClusterError

__all__ = ["raise_reason", "run_party"]


def raise_reason(error: BaseException) -> None:
    """Raise what a nanny said when it refused to start its party, if that is why it failed."""
    reason = error.__cause__
    if isinstance(reason, ClusterError):
        raise reason from None


def run_party(
    nanny_class: type[Any],
    party: Any,
    *,
    scheduler: str,
    limits: WorkerLimits,
    security: SecurityFiles | None = None,
    host: str | None = None,
    connect: float = 15.0,
    joined: Callable[[], None] = lambda: None,
) -> None:
    """Run one party until the scheduler goes, or until SIGTERM or SIGINT.

    Parameters
    ----------
    nanny_class : type
        Starts and restarts the party's worker.
    party : object
        What it is given as ``party``; has a name and a scratch folder.
    scheduler : str
        Address of the scheduler.
    limits : WorkerLimits
        Threads and memory.
    security : SecurityFiles, optional
        For ``tls://``.
    host : str, optional
        Address to listen on; by default the one from which this machine reaches the scheduler.
    connect : float
        Seconds until the scheduler must have answered.
    joined : callable
        Called once the party is there.

    Raises
    ------
    ClusterError
        When the scheduler cannot be reached, or the worker cannot be started.
    """
    settings = dask_settings({})
    with dask.config.set({**settings, "distributed.comm.timeouts.connect": connect}):
        prepare_forkserver()
        serving = _serve(nanny_class, party, scheduler, limits, security, host, settings, joined)
        asyncio.run(serving)


async def _serve(
    nanny_class: type[Any],
    party: Any,
    scheduler: str,
    limits: WorkerLimits,
    security: SecurityFiles | None,
    host: str | None,
    settings: dict[str, Any],
    joined: Callable[[], None],
) -> None:
    await _ask_who_is_there(party.name, scheduler, security)
    failure = None
    try:
        nanny = nanny_class(
            scheduler,
            party=party,
            host=host,
            nthreads=limits.nthreads,
            memory_limit=limits.memory_limit,
            resources={party.name: PIN},
            local_directory=party.scratch,
            security=security_of(security),
            dashboard=False,
            dashboard_address="127.0.0.1:0",
            config=settings,
            quiet=True,
        )
        await nanny
    except (TimeoutError, OSError, RuntimeError, ValueError) as error:
        raise_reason(error)
        failure = type(error).__name__
    if failure is not None:
        raise ClusterError(
            f"party {party.name!r} could not join the scheduler at {scheduler} ({failure}). See "
            "the scheduler's own output, and start the party again."
        )
    joined()
    await until_stopped(nanny.finished())
    await nanny.close(timeout=2, reason="party-stopped")


async def _ask_who_is_there(name: str, scheduler: str, security: SecurityFiles | None) -> None:
    """Refuse a scheduler that does not answer, and one at which a party has this name already.

    Raises
    ------
    ClusterError
        Says which of the two.
    """
    settings = security_of(security)
    connection = None if settings is None else settings.get_connection_args("client")
    limit = dask.config.get("distributed.comm.timeouts.connect")
    workers: list[str] | None = None
    with contextlib.suppress(TimeoutError, OSError, RuntimeError, ValueError):
        async with rpc(scheduler, connection_args=connection) as asked:
            told = await asyncio.wait_for(asked.identity(), limit)
            workers = [str(worker["name"]) for worker in told["workers"].values()]
    if workers is None:
        raise ClusterError(
            f"party {name!r} could not join the scheduler at {scheduler}: nobody answers there. "
            "Start one with 'dask scheduler', or correct the address."
        )
    if name in workers:
        raise ClusterError(
            f"party {name!r} could not join the scheduler at {scheduler}: a party of that name is "
            "there already. Stop it, or choose another name."
        )
