"""``daskfc party``: a site starts its own worker."""

import click

from daskfc.cli.exits import exits
from daskfc.deploy.config import SecurityFiles, needs_certificates
from daskfc.errors import InvalidInput
from daskfc.federation import serve_party

__all__ = ["party"]


def _security(
    scheduler: str, ca: str | None, cert: str | None, key: str | None
) -> SecurityFiles | None:
    if ca is None and cert is None and key is None:
        if needs_certificates(scheduler):
            raise InvalidInput(
                f"the scheduler {scheduler} asks for certificates, and none are given. Add "
                "--tls-ca-file, --tls-cert and --tls-key."
            )
        return None
    if ca is None or cert is None or key is None:
        raise InvalidInput(
            "TLS needs --tls-ca-file, --tls-cert and --tls-key together; got some of them only. "
            "Give the others."
        )
    return SecurityFiles(ca=ca, cert=cert, key=key)


@click.command()
@click.argument("name")
@click.option("--store", help="URL or path of this client's store; none for the server.")
@click.option("--scheduler", required=True, help="Address, e.g. tls://10.0.0.1:8786")
@click.option("--workspace", type=click.Path(), help="Folder for this party's ledger and log.")
@click.option("--policy", type=click.Path(), help="What this site takes part in; 'policy init'.")
@click.option("--state", type=click.Path(), help="What it remembers. Default: in --workspace.")
@click.option("--memory-limit", default="2GB", show_default=True, help="Of the worker process.")
@click.option("--nthreads", default=1, show_default=True, help="Steps performed at once.")
@click.option("--blas-threads", default=1, show_default=True, help="Threads within a step.")
@click.option("--host", help="Address to listen on. Default: the one that reaches the scheduler.")
@click.option("--tls-ca-file", type=click.Path(), help="The authority that all parties trust.")
@click.option("--tls-cert", type=click.Path(), help="This party's certificate.")
@click.option("--tls-key", type=click.Path(), help="Its key.")
def party(
    name: str,
    store: str | None,
    scheduler: str,
    workspace: str | None,
    policy: str | None,
    state: str | None,
    memory_limit: str,
    nthreads: int,
    blas_threads: int,
    host: str | None,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Start the worker of the party NAME and serve runs until it is stopped.

    A site that holds data runs this beside its store; whoever runs the server runs it with the name
    "server" and no store. The data stays in this process: it answers with declared messages only,
    and tells here which of them it sends to whom.

    \b
    Example:
      daskfc party hospital-a --store /srv/a.zarr --scheduler tls://10.0.0.1:8786 \\
        --tls-ca-file ca.pem --tls-cert cert.pem --tls-key key.pem --policy site.yaml
    """  # noqa: D301 - click reads \b
    with exits():
        serve_party(
            name,
            scheduler=scheduler,
            store=store,
            memory_limit=memory_limit,
            nthreads=nthreads,
            blas_threads=blas_threads,
            workspace=workspace,
            security=_security(scheduler, tls_ca_file, tls_cert, tls_key),
            host=host,
            narrates=True,
            policy=policy,
            state=state,
        )
