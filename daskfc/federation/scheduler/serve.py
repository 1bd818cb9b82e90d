"""``daskfc scheduler``: runs the scheduler of a federation until it is stopped."""

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dask.config

from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.certificates.tls import security_of
from daskfc.deploy.config.config import SecurityFiles
from daskfc.deploy.config.dashboard import check_dashboard, dashboard_options, dashboard_settings
from daskfc.deploy.config.peers import is_loopback
from daskfc.deploy.config.settings import dask_settings, quiet_logs
from daskfc.deploy.connections.descriptors import allow_many_descriptors
from daskfc.deploy.connections.metrics_page import check_metrics, serve_metrics
from daskfc.deploy.connections.stopping import StopSignals, close_scheduler
from daskfc.deploy.processes.scratch import scratch_folder
from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation.ledger.counts import families_of_scheduler
from daskfc.federation.ledger.narration import Narrates, Narration
from daskfc.federation.scheduler.graphs_sent import GRAPH_NAMES
from daskfc.federation.scheduler.scheduler import GuardedScheduler
from daskfc.federation.worker.ingress import restrict_process
from daskfc.folders import write_whole


def serve_scheduler(
    *,
    host: str = "127.0.0.1",
    port: int = 8786,
    scheduler_file: str | None = None,
    security: SecurityFiles | None = None,
    dashboard: str | None = None,
    metrics: str | None = None,
    narrates: Narrates = False,
) -> None:
    """Run a scheduler until SIGTERM, SIGINT or SIGHUP, and restrict what this process unpickles.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        Port to listen on, 1 to 65535; 0 for any that is free.
    scheduler_file : str, optional
        File to write the address to, removed at the end.
    security : SecurityFiles, optional
        Certificates for TLS, without which it listens on this machine alone.
    dashboard : str, optional
        Address of Dask's pages on this machine, such as "127.0.0.1:8787"; none by default.
    metrics : str, optional
        Host and port of a page with counts for Prometheus, such as "127.0.0.1:9100"; none by
        default. It has no access control, and shows names of parties and whom others wait for.
    narrates : bool or "json"
        Print on standard error where it listens, and who comes and goes, as text or JSON.

    Raises
    ------
    InvalidInput
        For an address off this machine without TLS, a dashboard off this machine, and a
        certificate of another role.
    ClusterError
        When it cannot listen there.
    """
    protocol = "tcp" if security is None else "tls"
    soon = _check(host, f"{protocol}://{_bracketed(host)}:{port}", security, dashboard)
    if metrics is not None:
        check_metrics(metrics)
    settings = {**dask_settings({}), **dashboard_settings(dashboard)}
    narration = Narration("scheduler", told=narrates)
    if soon is not None:
        narration.say(soon)
    allow_many_descriptors()
    restrict_process(GRAPH_NAMES)
    with ExitStack() as stack:
        stack.enter_context(quiet_logs())
        stack.enter_context(dask.config.set(settings))
        options = {
            "host": host,
            "port": port,
            "protocol": protocol,
            **dashboard_options(dashboard),
            "security": security_of(security),
            "ca": None if security is None else security.ca,
            # Dask's default is shared by all users, and Python would look for modules in it.
            "local_directory": str(stack.enter_context(scratch_folder())),
        }
        asyncio.run(_serve(options, scheduler_file, metrics, narration))


async def _serve(
    options: dict[str, Any], file: str | None, metrics: str | None, narration: Narration
) -> None:
    signals, failure = StopSignals(), None
    try:
        scheduler = await GuardedScheduler(told=narration.say, **options)
    except (OSError, RuntimeError, ValueError) as error:
        failure = error.__cause__ or error
    if failure is not None:
        raise ClusterError(
            f"the scheduler cannot listen on {options['host']}, port {options['port']} "
            f"({type(failure).__name__}). Choose an address of this machine and a port that is "
            "free."
        )
    if metrics is not None:
        serve_metrics(metrics, lambda: families_of_scheduler(scheduler))
    narration.say(f"listens at {scheduler.address}; Ctrl-C ends it")
    try:
        if file is not None:
            _write_address(Path(file), scheduler.address)
        await signals.come_before(scheduler.finished())
    finally:
        if file is not None:
            Path(file).unlink(missing_ok=True)
        await close_scheduler(scheduler, "scheduler-stopped")
        if signals.name:
            narration.say(f"stopped by {signals.name}")


def _write_address(path: Path, address: str) -> None:
    """Write the address file whole, in the form of Dask's own."""
    try:
        told = json.dumps({"type": "Scheduler", "address": address})
        write_whole(path, told.encode(), mode=0o644)
    except OSError as error:
        raise ClusterError(
            f"{path}: the scheduler's address cannot be written there ({error.strerror}). Choose "
            "another --scheduler-file."
        ) from None


def _check(
    host: str, address: str, security: SecurityFiles | None, dashboard: str | None
) -> str | None:
    """Check the addresses and the certificate; return a warning, or None."""
    if security is None and not is_loopback(address):
        raise InvalidInput(
            f"a scheduler without TLS may listen on the loopback address alone; got {host!r}. Make "
            "a key by 'daskfc certs request NAME', and have it signed for the role scheduler."
        )
    if dashboard is not None:
        check_dashboard(dashboard)
    if security is None:
        return None
    issued = Issued.of_file(security.cert)
    if issued.role != "scheduler":
        raise InvalidInput(
            f"the scheduler's certificate must be of the role scheduler; it is of {issued.role} "
            f"{issued.name!r}. Make a key by 'daskfc certs request NAME', and have it signed for "
            "that role."
        )
    issued.check_valid()
    return issued.warning()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
