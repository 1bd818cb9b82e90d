"""``daskfc certs``: make keys, sign, check and revoke certificates."""

import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from daskfc.cli.terminal.exits import BAD_INPUT, FAILED, exits
from daskfc.cli.terminal.output import print_table
from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.certificates.kit import kit_of, make_side, write_kit
from daskfc.deploy.certificates.own_key import (
    CA,
    CERT,
    KEY,
    check_side,
    fingerprint_of,
    install,
    make_request,
)
from daskfc.deploy.certificates.party_list import (
    LIST,
    FederationList,
    read_federation,
    read_parties,
)
from daskfc.deploy.certificates.requests import CertificateRequest, fingerprint
from daskfc.deploy.config.peers import ROLES
from daskfc.errors import InvalidInput
from daskfc.folders import write_private
from daskfc.site.words import template

FC = TypeVar("FC", bound=Callable[..., Any])

_FOLDER = click.option(
    "--ca", "folder", default="ca", show_default=True, type=click.Path(),
    help="The authority's folder.",
)  # fmt: skip
_NAME = click.argument("name")
_OUT = click.option(
    "--out", type=click.Path(), help="The folder of this side's key. Default: called as NAME."
)
_PARTIES = click.option(
    "--parties", type=click.Path(), help="A list of all: as for 'daskfc new', or of roles by name."
)


def _days(default: int) -> Callable[[FC], FC]:
    return click.option(
        "--days", default=default, show_default=True, type=click.IntRange(min=1),
        help="How long the certificate is valid.",
    )  # fmt: skip


@click.group()
def certs() -> None:
    """Certificates for TLS between sites, where there is no authority that issues them.

    A side makes its own key (request), the authority signs its certificate (sign), and the side
    puts it beside the key (install): no private key leaves a side. For a trial the authority makes
    the keys as well (issue). Whoever reads the key in the authority's folder can pose as anybody.
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
    own = shlex.quote(folder)
    click.echo(f"Wrote {folder}. Keep it on a machine of its own. Next:")
    click.echo(f"  daskfc certs sign hospital-a.request.pem --parties parties.yaml --ca {own}")
    click.echo("or, for a trial, where the authority makes the keys as well:")
    click.echo(f"  daskfc certs issue --role client hospital-a --ca {own}")


@certs.command()
@_NAME
@_OUT
def request(name: str, out: str | None) -> None:
    """Make the key of this side, NAME, and a request to sign its certificate.

    The key stays here. Send the request to whoever runs the authority, by any channel; compare the
    fingerprint of the key with them by another one, such as a telephone call.

    \b
    Example:
      daskfc certs request hospital-a
    """  # noqa: D301 - click reads \b
    with exits():
        path = make_request(name, out or name)
        public = CertificateRequest.of_file(path).public
    click.echo(f"Wrote {path.with_name(KEY)}, which stays here, and {path}.")
    click.echo(f"Send the request to the authority. The key of {name} has the fingerprint")
    click.echo(f"  {fingerprint(public)}")


@certs.command()
@click.argument("requests", nargs=-1, required=True, metavar="REQUEST...", type=click.Path())
@_FOLDER
@_PARTIES
@click.option("--role", type=click.Choice(ROLES), help="Without a list: what it may do.")
@click.option("--name", help="Without a list: whom the one request is of.")
@click.option("--renew", is_flag=True, help="Sign for a name that has a valid certificate, too.")
@click.option("--yes", is_flag=True, help="Do not ask: the fingerprints were compared.")
@_days(365)
def sign(
    requests: tuple[str, ...],
    folder: str,
    parties: str | None,
    role: str | None,
    name: str | None,
    renew: bool,
    yes: bool,
    days: int,
) -> None:
    """Sign the certificates that sides request, each for a key that stays there.

    Name and role come from --parties, or from --role and --name; of a request only its name and key
    count. After all checks it asks once for confirmation: have each side tell you its fingerprint,
    by a channel that nobody else controls. The files for a side lie under parties/NAME, and have no
    secrets.

    \b
    Example:
      daskfc certs sign hospital-a.request.pem --role client --name hospital-a
      daskfc certs sign *.request.pem --parties parties.yaml
    """  # noqa: D301 - click reads \b
    with exits():
        authority = Authority(folder)
        asked = [CertificateRequest.of_file(path) for path in requests]
        roles, federation = _roles(role, name, parties)
        if parties is None and len(asked) > 1:
            raise InvalidInput("--name is of one request; got several. Give a list, --parties.")
        names = [name or _on_the_list(one.name, roles) for one in asked]
        if len(set(names)) < len(names):
            raise InvalidInput("two of the requests are of one name. Ask whose each is.")
        for one, whose in zip(asked, names, strict=True):
            authority.check_request(roles[whose], whose, one, renew=renew)
    for one, whose in zip(asked, names, strict=True):
        click.echo(f"{whose}, {roles[whose]}, has a key with the fingerprint")
        click.echo(f"  {fingerprint(one.public)}")
    if not (yes or click.confirm("Did each of them tell you the same fingerprint?")):
        click.echo("Nothing was signed.")
        sys.exit(BAD_INPUT)
    with exits():
        for one, whose in zip(asked, names, strict=True):
            authority.sign(roles[whose], whose, one, days=days, renew=renew)
            if federation is not None:  # for 'install', which writes the scripts there
                told = authority.folder_of(whose) / LIST
                write_private(told, federation.as_text().encode(), overwrite=True)
            click.echo(f"Wrote {authority.folder_of(whose)}. It has no secrets: send it back.")
        ours = fingerprint_of(authority.folder / CA)
    click.echo(f"Tell them the authority's own fingerprint:\n  {ours}")


@certs.command("install")
@_NAME
@click.argument("received", type=click.Path())
@_OUT
def put(name: str, received: str, out: str | None) -> None:
    """Put the folder RECEIVED, which the authority sent, beside the key of NAME.

    It first checks that certificate, key and authority belong together, and that the certificate is
    of NAME, valid and not revoked. It adds a script that starts NAME, for a client a policy, for a
    submitter a cluster file, and a README; existing ones stay. A federation.yaml in RECEIVED says
    what they have in place of variables.

    \b
    Example:
      daskfc certs install hospital-a received
    """  # noqa: D301 - click reads \b
    with exits():
        place, told = Path(out or name), Path(received) / LIST
        of = read_federation(told) if told.exists() else None
        issued = install(name, received, place)
        write_kit(place, kit_of(issued, policy=template(), own_key=True, of=of))
        ours = fingerprint_of(place / CA)
    click.echo(f"{place}: {name}, {issued.role}, valid until {issued.ends:%Y-%m-%d}.")
    click.echo(f"Ask the authority, by telephone, whether its own fingerprint is\n  {ours}")


@certs.command()
@click.argument("place", type=click.Path())
@_FOLDER
def check(place: str, folder: str) -> None:
    """Check one side's folder, or all parties of a list; exit code 1 means that one is not right.

    PLACE is a side's folder, where key, certificate and authority must belong together and be valid
    today. Or it is the list of all parties, at the authority: it names parties without certificate,
    with one that ends within 30 days, was revoked, is of another role or does not fit its key, and
    names that are not listed.

    \b
    Example:
      daskfc certs check hospital-a
      daskfc certs check parties.yaml --ca ca
    """  # noqa: D301 - click reads \b
    if Path(place).is_dir():
        with exits():
            issued = check_side(place)
            told = [fingerprint_of(Path(place) / one) for one in (CERT, CA)]
        click.echo(f"{issued.name}, {issued.role}, valid until {issued.ends:%Y-%m-%d}.")
        click.echo(f"Its key has the fingerprint\n  {told[0]}\nand the authority\n  {told[1]}")
        if (soon := issued.warning()) is not None:
            click.echo(f"daskfc: {soon}", err=True)
        return
    with exits():
        parties, _ = read_parties(place)
        faults = Authority(folder).faults(parties)
    for name in {**parties, **faults}:
        click.echo(f"{name}: {faults.get(name, 'valid')}")
    if faults:
        sys.exit(FAILED)


@certs.command()
@click.option("--role", type=click.Choice(ROLES), help="What NAME may do.")
@click.argument("name", required=False)
@_FOLDER
@_PARTIES
@click.option("--host", "hosts", multiple=True, help="A host name or address to put in.")
@_days(365)
def issue(
    role: str | None,
    name: str | None,
    folder: str,
    parties: str | None,
    hosts: tuple[str, ...],
    days: int,
) -> None:
    """For trials: make a key and a certificate for NAME, in a role, or for all on a list.

    With a list, parties that have or ever had a certificate are left alone. The files for a side
    lie under parties/NAME in the authority's folder: its key and certificate, the authority's
    certificate, a start script, a README, for clients a policy, and for submitters a cluster file.
    Hand them over by a channel that nobody else can read. For real data, sides make their own keys:
    'daskfc certs request'.

    \b
    Example:
      daskfc certs issue --role client hospital-a
      DASKFC_SCHEDULER=tls://10.0.0.1:8786 DASKFC_STORE=/srv/a.zarr \\
        ca/parties/hospital-a/start.sh
      daskfc certs issue --parties parties.yaml
    """  # noqa: D301 - click reads \b
    with exits():
        authority = Authority(folder)
        roles, of = _roles(role, name, parties)
        if parties is not None:
            roles = {one: as_ for one, as_ in roles.items() if not authority.knew(one)}
        for one, as_ in roles.items():
            files = make_side(authority, as_, one, policy=template(), of=of, hosts=hosts, days=days)
            click.echo(f"Wrote {authority.folder_of(one)}: {', '.join(files)}.")
    whom = "each to its side" if name is None else f"it to {name}"
    click.echo(f"Hand {whom}, by a way that nobody else can read. README.md says the rest.")


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
        if (authority.folder_of(name) / KEY).exists():  # made here, for a trial
            write_kit(authority.folder_of(name), kit_of(issued, policy=template()))
    click.echo(f"{name}: valid until {issued.ends:%Y-%m-%d}. Hand over the new certificate:")
    click.echo(f"  {authority.folder_of(name)}/cert.pem")


@certs.command()
@_NAME
@_FOLDER
def revoke(name: str, folder: str) -> None:
    """Revoke all certificates of NAME.

    It writes the list revoked.pem, here and into every side's folder. Hand it to all sides, to be
    put beside their ca.pem: running schedulers and parties notice it within a second, end what NAME
    has open, and answer it no more.

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

    Those that end within 30 days are listed again below.

    \b
    Example:
      daskfc certs show --ca ca
    """  # noqa: D301 - click reads \b
    with exits():
        found = list(Authority(folder).issued())
    rows = [
        (one.name, one.role, f"{one.ends:%Y-%m-%d}", _left(one), ", ".join(one.hosts))
        for one in found
    ]
    print_table(("name", "role", "until", "", "hosts"), rows)
    for issued in found:
        if (soon := issued.warning()) is not None:
            click.echo(f"daskfc: {soon}", err=True)


def _roles(
    role: str | None, name: str | None, parties: str | None
) -> tuple[dict[str, str], FederationList | None]:
    """Return the role of each name: all of a list, or the one that was named."""
    if parties is not None and role is None and name is None:
        return read_parties(parties)
    if parties is None and role is not None and name is not None:
        return {name: role}, None
    raise InvalidInput(
        "who and in which role is said by a role with a name, or by --parties with a list; got "
        "both, or one half. Give one of the two."
    )


def _on_the_list(name: str, roles: Mapping[str, str]) -> str:
    if name not in roles:
        raise InvalidInput(
            f"{name!a} is not on the list of parties. Ask who sent the request, or add the name."
        )
    return name


def _left(issued: Issued) -> str:
    days = (issued.ends - datetime.now(UTC)).days
    return "over" if days < 0 else f"{days} days left"
