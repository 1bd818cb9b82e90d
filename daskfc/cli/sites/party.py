"""``daskfc party``: a site starts its own worker."""

from typing import Any

import click
from dask.utils import parse_timedelta

from daskfc.cli.terminal.exits import exits, serves_until_told
from daskfc.cli.terminal.security import certificates, security_options
from daskfc.deploy.config.config import needs_certificates
from daskfc.errors import InvalidInput
from daskfc.federation import serve_party
from daskfc.federation.ledger.narration import Narrates

_PORT = click.IntRange(0, 65535)


def _seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    try:
        seconds = float(parse_timedelta(value))
    except (KeyError, ValueError):
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise click.BadParameter("it must be a time such as 30s or 10m.")
    return seconds


@click.command()
@click.argument("name")
@click.option("--store", help="URL or path of this client's store; none for the server.")
@click.option("--scheduler", help="Address, e.g. tls://10.0.0.1:8786")
@click.option("--scheduler-file", type=click.Path(), help="File that has it, in place of it.")
@click.option(
    "--wait",
    default="15s",
    show_default=True,
    callback=_seconds,
    help="How long the scheduler may be away at the start, e.g. 10m.",
)
@click.option("--workspace", type=click.Path(), help="Folder for its ledger, log and checkpoints.")
@click.option("--keep", type=int, metavar="N", help="Folders of N runs there.  [default: all]")
@click.option("--policy", type=click.Path(), help="What this site takes part in; 'policy init'.")
@click.option("--state", type=click.Path(), help="What it remembers. Default: in --workspace.")
@click.option("--memory-limit", default="2GB", show_default=True, help="Of the worker process.")
@click.option("--nthreads", default=1, show_default=True, help="Steps performed at once.")
@click.option("--blas-threads", type=int, help="Threads of a step.  [default: one a core]")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu"]),
    default="auto",
    show_default=True,
    help="A graphics card where torch finds one, or none.",
)
@click.option("--host", help="Address to listen on. Default: the one that reaches the scheduler.")
@click.option("--port", default=0, type=_PORT, help="Of the worker. Default: any.")
@click.option("--nanny-port", default=0, type=_PORT, help="Of its starter. Default: any.")
@click.option("--contact-address", help="Host by which others reach the two ports, if another.")
@click.option(
    "--trusted", is_flag=True, help="Beside a Dask worker of others; 'trusted' of a policy."
)
@click.option("--metrics", help="Page for Prometheus, e.g. 127.0.0.1:9100; none by default.")
@click.option("--log-json", is_flag=True, help="Lines on the terminal as JSON objects.")
@security_options
def party(name: str, scheduler: str | None, log_json: bool, **options: Any) -> None:
    """Start the worker of the party NAME and serve runs until it is stopped.

    A site that holds data runs this beside its store; whoever runs the server runs it with the name
    "server" and no store. The data stays in this process, which sends declared messages only and
    prints which of them it sends to whom. SIGTERM or Ctrl-C ends it with exit code 0, also while it
    waits for the scheduler.

    \b
    Example:
      daskfc party hospital-a --store /srv/a.zarr --scheduler tls://10.0.0.1:8786 \\
        --tls-ca-file ca.pem --tls-cert cert.pem --tls-key key.pem --policy site.yaml
    """  # noqa: D301 - click reads \b
    with exits(), serves_until_told():
        security = certificates(options)
        if security is None and scheduler is not None and needs_certificates(scheduler):
            raise InvalidInput(
                f"the scheduler {scheduler} asks for certificates, and none are given. Add "
                "--tls-ca-file, --tls-cert and --tls-key."
            )
        told: Narrates = "json" if log_json else True
        serve_party(name, scheduler=scheduler, security=security, narrates=told, **options)
