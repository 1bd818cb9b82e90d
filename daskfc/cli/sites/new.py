"""``daskfc new``: all that the parties of a federation start from, out of one list."""

import shlex
from pathlib import Path

import click

from daskfc.cli.terminal.exits import exits
from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.kit import example_list, kit_of, make_side
from daskfc.deploy.certificates.own_key import KEY
from daskfc.deploy.certificates.party_list import LIST, FederationList, read_federation
from daskfc.errors import InvalidInput
from daskfc.folders import write_private
from daskfc.runs.pipeline.methods import method_of
from daskfc.site.words import template


@click.command()
@click.argument("file", default=LIST, type=click.Path(dir_okay=False))
def new(file: str) -> None:
    """Make a federation out of the list FILE: an authority, and a folder for each party.

    FILE is federation.yaml by default; where it is missing, an example is written there, with all
    keys. A party's folder, to be copied to its machine, has its certificate, a start script, a
    README, for clients a policy, for submitters a cluster file, and as the list says a unit for
    systemd or a compose.yaml. Call it again when the list has more parties: it makes what is
    missing, and touches no file that is there.

    Whoever reads the authority's folder knows the keys that are made here. With 'keys: sites' each
    party makes its own, by 'daskfc certs request', and 'daskfc certs sign --parties FILE' signs it.

    \b
    Example:
      daskfc new federation.yaml
    """  # noqa: D301 - click reads \b
    path = Path(file)
    with exits():
        if not path.exists():
            write_private(path, example_list().encode())
            click.echo(f"Wrote {file}. Put your parties and addresses in, and call this again.")
            return
        found = read_federation(path)
        _check_methods(found, file)
        place = path.parent / found.out
        authority = Authority(place) if place.exists() else Authority.create(place)
        for name, role in found.roles.items():
            if authority.folder_of(name).exists():
                authority.issued_to(role, name)
        _make(authority, found, file)


def _check_methods(found: FederationList, file: str) -> None:
    for name in () if found.methods == "any" else found.methods:
        try:
            known, _ = method_of(name)
        except InvalidInput as error:
            raise InvalidInput(f"{file}: key 'methods': {error}") from None
        if known != name:  # as a policy must have it
            raise InvalidInput(f"{file}: key 'methods': {name!r} is called {known!r}. Correct it.")


def _make(authority: Authority, found: FederationList, file: str) -> None:
    waiting, differing, made = [], [], 0
    for name, role in found.roles.items():
        folder = authority.folder_of(name)
        if not authority.knew(name) and found.keys == "sites":
            waiting.append(name)
        elif authority.knew(name) and not folder.exists():
            click.echo(f"{name} was revoked, and gets no key here: 'daskfc certs request {name}'.")
        elif not authority.knew(name) or (folder / KEY).exists():  # else it has its own key
            if written := make_side(authority, role, name, policy=template(), of=found):
                click.echo(f"Wrote {folder}: {', '.join(written)}.")
            made += bool(written)
            kit = kit_of(authority.issued_to(role, name), policy=template(), of=found)
            kit.pop("README.md")  # its date is that of the first certificate
            edited = [one for one in kit if (folder / one).read_bytes() != kit[one].encode()]
            differing += [f"  {folder / one}" for one in edited]
    if differing:
        click.echo("Left as they are, though edited, or written for another list:")
        click.echo("\n".join(differing))
    if waiting:
        own = shlex.quote(str(authority.folder))
        click.echo(f"Requests are awaited of {', '.join(waiting)}. There, such as")
        click.echo(f"  daskfc certs request {waiting[0]}\nand here, when they have sent them,")
        click.echo(f"  daskfc certs sign *.request.pem --parties {shlex.quote(file)} --ca {own}")
    if made:
        click.echo("Copy each folder to its machine, by a way that nobody else can read, and start")
        click.echo("it as its README.md says. Keep ca-key.pem here: who has it can be anybody.")
    elif not waiting:
        click.echo("Nothing is missing.")
