"""Files that a side gets beside its certificate: start script, policy or cluster file, README."""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from daskfc.deploy.certificates.authority import Authority
from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.certificates.own_key import CA, CERT, KEY
from daskfc.deploy.certificates.party_list import FederationList
from daskfc.folders import write_private
from daskfc.yaml_files import read_yaml

KIT = {
    "client": ("start.sh", "policy.yaml", "README.md"),
    "server": ("start.sh", "README.md"),
    "scheduler": ("start.sh", "README.md"),
    "submitter": ("cluster.yaml", "README.md"),
}
"""Files of each role, beside ca.pem, cert.pem and key.pem."""

_TEMPLATES = Environment(
    loader=PackageLoader("daskfc.deploy.certificates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def example_list() -> str:
    """Return a commented list of a federation, with all keys."""
    return _TEMPLATES.get_template("federation.yaml").render()


def _names(names: Iterable[str]) -> str:
    told = [one if read_yaml(f"[{one}]", one) == [one] else json.dumps(one) for one in names]
    return f"[{', '.join(told)}]"  # in quotes where it would be a number, as 1e4


def _policy(text: str, of: FederationList) -> str:
    for key, names in (("submitters", of.submitters), ("methods", of.methods)):
        if names != "any":
            text = text.replace(f"\n{key}: any", f"\n{key}: {_names(names)}", 1)
    return text


def kit_of(
    issued: Issued, *, policy: str, own_key: bool = False, of: FederationList | None = None
) -> dict[str, str]:
    """Return the text of each file of a side, by name, with what a federation's list says."""
    files, nightly = [*KIT[issued.role][:-1]], issued.role == "submitter"
    base = f"{'nightly-' * nightly}daskfc-{issued.name}"  # the name of no party's unit
    units = [f"{base}.service", f"{base}.timer"][: 1 + nightly]
    if of is not None:
        compose = [] if nightly else ["compose.yaml"]
        files += {"systemd": units, "compose": compose}.get(of.start, [])
    said = {
        "issued": issued,
        "side": " ".join(dict.fromkeys((issued.role, issued.name))),
        "own_key": own_key,
        "of": of,
        "start": "scripts" if of is None else of.start,
        "host": None if of is None else of.host_of(issued.name),
        "files": files,
        "base": base,
        "names": _names,
        "version": version("daskfc"),
    }
    kit = {}
    for name in (*files, "README.md"):
        file = name.replace(base, "nightly" if nightly else "party") if name in units else name
        if name != "policy.yaml":
            kit[name] = _TEMPLATES.get_template(f"{file}.jinja").render(said)
        else:
            kit[name] = policy if of is None else _policy(policy, of)
    return kit


def write_kit(folder: Path, kit: Mapping[str, str]) -> tuple[str, ...]:
    """Write the files of a kit that are missing (others may be edited), and return their names."""
    written = tuple(name for name in kit if not (folder / name).exists())
    for name in written:
        mode = 0o700 if name == "start.sh" else 0o600
        write_private(folder / name, kit[name].encode(), mode=mode)
    return written


def make_side(
    authority: Authority,
    role: str,
    name: str,
    *,
    policy: str,
    of: FederationList | None = None,
    hosts: Sequence[str] = (),
    days: int = 365,
) -> tuple[str, ...]:
    """Make what a side's folder lacks of key, certificate and kit; return the names of the files.

    Without a list there must be no certificate yet.
    """
    made: tuple[str, ...] = ()
    if of is None or not authority.knew(name):
        where = None if of is None else of.host_of(name)
        authority.issue(role, name, hosts=[where] if where else hosts, days=days)
        made = (CA, CERT, KEY)
    kit = kit_of(authority.issued_to(role, name), policy=policy, of=of)
    return (*made, *write_kit(authority.folder_of(name), kit))
