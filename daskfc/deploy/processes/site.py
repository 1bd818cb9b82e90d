"""One party at its own site: runs a nanny and its worker until they are stopped."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.config
from distributed import Security, rpc

from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SecurityFiles, WorkerLimits
from daskfc.deploy.config.settings import PIN, dask_settings
from daskfc.deploy.connections.reaching import reach
from daskfc.deploy.connections.stopping import StopSignals
from daskfc.deploy.processes.spawn import prepare_forkserver
from daskfc.errors import ClusterError, InvalidInput, NotAdmitted, PrivacyError

_CONNECT_S = 15.0  # for one connection
_REASON_S = 5.0  # in which a scheduler that ended a party's connection says why
_START_S = 15.0  # for a worker to start, so that it can be ended


@dataclass(frozen=True)
class Doors:
    """Where a party listens (0 is any free port), and the host by which others reach it."""

    host: str | None = None
    port: int = 0
    nanny_port: int = 0
    contact: str | None = None

    def __post_init__(self) -> None:
        ports = (self.port, self.nanny_port)
        if not all(0 <= port <= 65535 for port in ports) or (ports[0] == ports[1] != 0):
            raise InvalidInput(
                f"a party's two ports must be different numbers up to 65535; got {ports[0]} and "
                f"{ports[1]}. Correct --port or --nanny-port."
            )
        if self.contact is not None and 0 in ports:
            raise InvalidInput(
                "a contact address needs fixed ports. Give --port and --nanny-port with it."
            )

    def contacts(self, protocol: str) -> dict[str, str]:
        """Return the addresses by which others reach the party, as options of a worker."""
        if self.contact is None:
            return {}
        host = f"[{self.contact}]" if ":" in self.contact else self.contact
        return {
            "contact_address": f"{protocol}://{host}:{self.port}",
            "nanny": f"{protocol}://{host}:{self.nanny_port}",
        }


def raise_reason(error: BaseException) -> None:
    """Raise the cause of an error if it is a nanny's refusal to start its party."""
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
    doors: Doors | None = None,
    wait: float = 15.0,
    joined: Callable[[], None] = lambda: None,
    stopped: Callable[[str], None] = lambda by: None,
) -> None:
    """Run one party until the scheduler goes, or SIGTERM or SIGINT.

    `joined` is called once, `stopped` at the end with the name of a signal, or none.
    """
    what = f"party {party.name!r} could not join the scheduler at {scheduler}"
    reach(scheduler, wait=wait, what=what, security=security)
    settings = dask_settings({})
    with dask.config.set({**settings, "distributed.comm.timeouts.connect": _CONNECT_S}):
        prepare_forkserver()
        options = {
            "party": party,
            "nthreads": limits.nthreads,
            "memory_limit": limits.memory_limit,
            "config": settings,
            "security": security_of(security),
            **_listening(doors or Doors(), scheduler),
        }
        asyncio.run(_serve(nanny_class, scheduler, options, what, joined, stopped))


def _listening(doors: Doors, scheduler: str) -> dict[str, Any]:
    return {
        "host": doors.host,
        "port": doors.nanny_port,
        "worker_port": doors.port,
        **doors.contacts(scheduler.partition("://")[0]),
    }


async def _serve(
    nanny_class: type[Any],
    scheduler: str,
    options: dict[str, Any],
    what: str,
    joined: Callable[[], None],
    stopped: Callable[[str], None],
) -> None:
    party, security = options["party"], options["security"]
    signals = StopSignals()
    asking = asyncio.ensure_future(_ask_who_is_there(party.name, scheduler, security, what))
    if await signals.come_before(asking):
        return
    asking.result()
    failure = None
    try:
        nanny = nanny_class(
            scheduler,
            resources={party.name: PIN},
            local_directory=party.scratch,
            dashboard=False,
            dashboard_address="127.0.0.1:0",
            quiet=True,
            **options,
        )
        starting = asyncio.ensure_future(nanny.start())
        if await signals.come_before(starting):
            await _close(nanny, starting)
            return
        starting.result()
    except (TimeoutError, OSError, RuntimeError, ValueError) as error:
        raise_reason(error)
        failure = type(error).__name__
    if failure is not None:
        raise ClusterError(
            f"{what} ({failure}). See the scheduler's own output, and start the party again."
        )
    joined()
    told = await signals.come_before(nanny.finished())
    await _close(nanny)
    stopped(signals.name)
    if not told:
        await _ask_why_it_ended(party.name, scheduler, security)


async def _close(nanny: Any, *starting: "asyncio.Future[object]") -> None:
    """End a party, also while its worker starts or restarts; the process ends what is left."""
    closing = nanny.close(timeout=2, reason="party-stopped")
    with contextlib.suppress(TimeoutError, OSError, RuntimeError):
        await asyncio.wait_for(asyncio.gather(*starting, closing, return_exceptions=True), _START_S)


async def _identity(scheduler: str, security: Security | None, limit: float) -> dict[str, Any]:
    connection = None if security is None else security.get_connection_args("client")
    async with rpc(scheduler, connection_args=connection) as asked:
        told: dict[str, Any] = await asyncio.wait_for(asked.identity(), limit)
    return told


async def _ask_why_it_ended(name: str, scheduler: str, security: Security | None) -> None:
    """Raise NotAdmitted if the scheduler ended the connection, as for a revoked certificate."""
    reason = None
    with contextlib.suppress(TimeoutError, OSError, RuntimeError, ValueError):
        try:
            await _identity(scheduler, security, _REASON_S)
        except PrivacyError as error:
            reason = str(error)
    if reason is not None:
        raise NotAdmitted(f"party {name!r} was sent away by the scheduler: {reason}")


async def _ask_who_is_there(
    name: str, scheduler: str, security: Security | None, what: str
) -> None:
    """Refuse a scheduler that does not answer, and one at which a party has this name already."""
    workers, refusal = None, ClusterError
    why = "nobody answers there. Start one with 'daskfc scheduler', or correct the address."
    with contextlib.suppress(TimeoutError, OSError, RuntimeError, ValueError):
        try:
            told = await _identity(scheduler, security, _CONNECT_S)
            workers = [str(worker["name"]) for worker in told["workers"].values()]
        except PrivacyError as error:
            why, refusal = str(error), NotAdmitted
    if workers is None:
        raise refusal(f"{what}: {why}")
    if name in workers:
        raise ClusterError(
            f"{what}: a party of that name is there already. Stop it, or choose another name."
        )
