"""``daskfc certs init|issue|renew|show``."""

import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from rich import box
from rich.table import Table
from rich.text import Text

from daskfc.cli.exits import exits
from daskfc.cli.output import stdout_console
from daskfc.deploy.authority import ROLES, Authority, Issued

__all__ = ["certs"]

FC = TypeVar("FC", bound=Callable[..., Any])

_FOLDER = click.option(
    "--ca", "folder", default="ca", show_default=True, type=click.Path(),
    help="The authority's folder.",
)  # fmt: skip
_NAME = click.argument("name")


def _days(default: int) -> Callable[[FC], FC]:
    return click.option(
        "--days", default=default, show_default=True, type=click.IntRange(min=1),
        help="How long the certificate is valid.",
    )  # fmt: skip


@click.group()
def certs() -> None:
    """Certificates for TLS between sites, where there is no authority that issues them.

    For trials and small consortia: whoever can read the key in the authority's folder can be
    anybody.
    """


@certs.command("init")
@_FOLDER
@click.option("--name", default="daskfc", show_default=True, help="What the authority is called.")
@_days(3650)
def make(folder: str, name: str, days: int) -> None:
    """Make an authority: a folder with a key that signs.

    \b
    Example:
      daskfc certs init --ca ca
    """  # noqa: D301 - click reads \b
    with exits():
        Authority.create(folder, name, days=days)
    click.echo(f"Wrote {folder}. Keep it on a machine of its own. Next:")
    click.echo(f"  daskfc certs issue client hospital-a --ca {shlex.quote(folder)}")


@certs.command()
@click.argument("role", type=click.Choice(ROLES))
@_NAME
@_FOLDER
@click.option("--host", "hosts", multiple=True, help="A host name or address to put in.")
@_days(365)
def issue(role: str, name: str, folder: str, hosts: tuple[str, ...], days: int) -> None:
    """Make a key and a certificate for NAME, with a ROLE.

    What the party gets lies in the authority's folder, under parties/NAME: hand it over by a way
    that nobody else can read.

    \b
    Example:
      daskfc certs issue server server
    """  # noqa: D301 - click reads \b
    with exits():
        authority = Authority(folder)
        authority.issue(role, name, hosts=hosts, days=days)
    path = authority.folder_of(name)
    click.echo(f"Wrote {path}: ca.pem, cert.pem, key.pem. At {name}:")
    click.echo("  --tls-ca-file ca.pem --tls-cert cert.pem --tls-key key.pem")


@certs.command()
@_NAME
@_FOLDER
@_days(365)
def renew(name: str, folder: str, days: int) -> None:
    """Make a new certificate for NAME's key, and put it in place of the old one.

    The old one stays valid to its end.
    """
    with exits():
        issued = Authority(folder).renew(name, days=days)
    click.echo(f"{name}: valid until {issued.ends:%Y-%m-%d}")


@certs.command()
@_NAME
@_FOLDER
def revoke(name: str, folder: str) -> None:
    """Take back all certificates of NAME: they prove nothing any more.

    It writes the list revoked.pem, here and into every party's folder. Hand it to all parties, to
    be put beside their ca.pem: those that run notice it at the next request. A run that began
    before goes on to its end.

    \b
    Example:
      daskfc certs revoke hospital-a
    """  # noqa: D301 - click reads \b
    with exits():
        count = Authority(folder).revoke(name)
    click.echo(f"{name}: {count} certificate{'s' * (count > 1)} revoked. Put this list beside")
    click.echo(f"every party's ca.pem: {folder}/revoked.pem")


@certs.command()
@_FOLDER
def show(folder: str) -> None:
    """List the parties' certificates, and until when they are valid."""
    with exits():
        found = list(Authority(folder).issued())
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("name", "role", "until", "", "hosts"):
        table.add_column(title)
    for issued in found:
        table.add_row(
            Text(issued.name),
            issued.role,
            f"{issued.ends:%Y-%m-%d}",
            _left(issued),
            Text(", ".join(issued.hosts)),
        )
    stdout_console().print(table)


def _left(issued: Issued) -> str:
    days = (issued.ends - datetime.now(UTC)).days
    return "over" if days < 0 else f"{days} days left"
