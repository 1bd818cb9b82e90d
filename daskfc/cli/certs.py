"""``daskfc certs init|issue|renew|revoke|show``."""

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
from daskfc.deploy.authority import Authority
from daskfc.deploy.issued import Issued
from daskfc.deploy.kit import write_kit
from daskfc.deploy.peers import ROLES
from daskfc.site.words import template

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
    click.echo(f"  daskfc certs issue --role client hospital-a --ca {shlex.quote(folder)}")


@certs.command()
@click.option("--role", required=True, type=click.Choice(ROLES), help="What NAME may do.")
@_NAME
@_FOLDER
@click.option("--host", "hosts", multiple=True, help="A host name or address to put in.")
@_days(365)
def issue(role: str, name: str, folder: str, hosts: tuple[str, ...], days: int) -> None:
    """Make a key and a certificate for NAME, in a role.

    What that side gets lies in the authority's folder, under parties/NAME, with a README: hand it
    over by a way that nobody else can read. Beside the certificate, the key and the authority's own
    certificate there is a script that starts it, for clients the site's policy, and for submitters
    a cluster file.

    \b
    Example:
      daskfc certs issue --role client hospital-a
      DASKFC_SCHEDULER=tls://10.0.0.1:8786 DASKFC_STORE=/srv/a.zarr \\
        ca/parties/hospital-a/start.sh
    """  # noqa: D301 - click reads \b
    with exits():
        authority = Authority(folder)
        issued = authority.issue(role, name, hosts=hosts, days=days)
        path = authority.folder_of(name)
        beside = write_kit(path, issued, policy=template())
    click.echo(f"Wrote {path}: {', '.join(('ca.pem', 'cert.pem', 'key.pem', *beside))}.")
    click.echo(f"Hand it to {name}, by a way that nobody else can read. README.md says the rest.")


@certs.command()
@_NAME
@_FOLDER
@_days(365)
def renew(name: str, folder: str, days: int) -> None:
    """Make a new certificate for NAME's key, and put it in place of the old one.

    The old one stays valid to its end. Start script, policy and cluster file stay as they are.

    \b
    Example:
      daskfc certs renew hospital-a
    """  # noqa: D301 - click reads \b
    with exits():
        authority = Authority(folder)
        issued = authority.renew(name, days=days)
        write_kit(authority.folder_of(name), issued, policy=template())
    click.echo(f"{name}: valid until {issued.ends:%Y-%m-%d}. Hand over the new certificate:")
    click.echo(f"  {authority.folder_of(name)}/cert.pem")


@certs.command()
@_NAME
@_FOLDER
def revoke(name: str, folder: str) -> None:
    """Take back all certificates of NAME: they prove nothing any more.

    It writes the list revoked.pem, here and into every side's folder. Hand it to all, to be put
    beside their ca.pem: the scheduler and the parties that run notice it within a second, end what
    NAME has open, and answer it nothing more.

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
    """List the certificates of all sides, and until when they are valid.

    Those that end within 30 days are named once more.

    \b
    Example:
      daskfc certs show --ca ca
    """  # noqa: D301 - click reads \b
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
    for issued in found:
        if (soon := issued.warning()) is not None:
            click.echo(f"daskfc: {soon}", err=True)


def _left(issued: Issued) -> str:
    days = (issued.ends - datetime.now(UTC)).days
    return "over" if days < 0 else f"{days} days left"
