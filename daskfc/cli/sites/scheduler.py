"""``daskfc scheduler``: start the scheduler of all sites, at the server."""

from typing import Any

import click

from daskfc.cli.terminal.exits import exits, serves_until_told
from daskfc.cli.terminal.security import certificates, security_options
from daskfc.federation import serve_scheduler
from daskfc.federation.ledger.narration import Narrates


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8786, show_default=True, type=click.IntRange(0, 65535),
    help="Where; 0 for any that is free.",
)  # fmt: skip
@click.option("--scheduler-file", type=click.Path(), help="File to write the address to.")
@click.option("--dashboard", help="Dask's pages, e.g. 127.0.0.1:8787; none by default.")
@click.option("--metrics", help="Page for Prometheus, e.g. 127.0.0.1:9100; none by default.")
@click.option("--log-json", is_flag=True, help="Lines on the terminal as JSON objects.")
@security_options
def scheduler(log_json: bool, **options: Any) -> None:
    """Start the scheduler of a federation, and serve until it is stopped.

    It takes only the task graphs of federations: no functions, no plug-ins, no classes that a
    submitter made. With TLS certificates decide: submitters begin runs, a party brings the worker
    of its own name, and a revoked certificate is refused at once. Without TLS it listens on this
    machine alone. The dashboard shows names, sizes and times to everybody who can open it.

    \b
    Example:
      daskfc scheduler --host 10.0.0.1 \\
        --tls-ca-file ca.pem --tls-cert cert.pem --tls-key key.pem
    """  # noqa: D301 - click reads \b
    with exits(), serves_until_told():
        told: Narrates = "json" if log_json else True
        serve_scheduler(security=certificates(options), narrates=told, **options)
