"""Files that a side gets beside its certificate: start script, policy or cluster file, README."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from daskfc.deploy.certificates.issued import Issued
from daskfc.deploy.certificates.party_list import FederationList
from daskfc.folders import write_private
from daskfc.yaml_files import read_yaml

__all__ = ["KIT", "kit_of", "template", "write_kit"]

_TLS = '--tls-ca-file "$here/ca.pem" --tls-cert "$here/cert.pem" --tls-key "$here/key.pem" "$@"'
_WORKSPACE = '--workspace "${DASKFC_WORKSPACE:-$here/files}"'
_STORE = '--store "${DASKFC_STORE:-$here/store.zarr}" --policy "$here/policy.yaml"'

KIT = {
    "client": ("start.sh", "policy.yaml", "README.md"),
    "server": ("start.sh", "README.md"),
    "scheduler": ("start.sh", "README.md"),
    "submitter": ("cluster.yaml", "README.md"),
}
"""Files of each role, beside ca.pem, cert.pem and key.pem."""


def template(name: str) -> str:
    """Return the text of a file in `templates`."""
    return files("daskfc.deploy.certificates").joinpath("templates", name).read_text("utf-8")


def _side(issued: Issued) -> str:
    role, name = issued.role, issued.name
    return name if name.startswith(role) else f"{role} {name}"


def _option(name: str, variable: str, otherwise: object, example: str) -> str:
    """Return an option with a variable of the shell: what the list says if unset, or a refusal."""
    unset = f"?{example}" if otherwise is None else f"-{otherwise}"
    return f'--{name} "${{{variable}:{unset}}}"'


def _script(issued: Issued, of: FederationList | None) -> str:
    role, name = issued.role, issued.name
    host = None if of is None else of.host_of(name)
    words = [_option("host", "DASKFC_HOST", host, "the address of this machine for the sites")]
    if role == "scheduler":
        port = 8786 if of is None else of.scheduler.port
        words = ["scheduler", *words, _option("port", "DASKFC_PORT", port, "")]
    else:
        where = None if of is None else of.address
        scheduler = _option("scheduler", "DASKFC_SCHEDULER", where, "such as tls://10.0.0.1:8786")
        words = [f"party {shlex.quote(name)}", f"{scheduler} --wait 10m", *(words if host else [])]
        words += [_STORE] * (role == "client") + [_WORKSPACE]
    lines = " \\\n    ".join([*words, _TLS])
    return f"""#!/bin/sh
# Starts {_side(issued)}, and serves until it is stopped.
# Yours to edit: renewing leaves it as it is.
set -eu
umask 077
here=$(cd -- "$(dirname -- "$0")" && pwd)
exec daskfc {lines}
"""


_CLUSTER = """\
# Where runs go:  daskfc run PIPELINE --cluster cluster.yaml
# Yours to edit: renewing leaves it as it is.
cluster: existing
scheduler: tls://SCHEDULER:8786           # the address that the scheduler tells when it starts
# expect: [hospital-a, hospital-b]        # the clients that take part
# server: {workers: 2}                    # where 'server-2' was started as well
deadline: 60s                             # how long a party may be away
startup: 5 minutes                        # how long a run waits for who takes part
security: {ca: ca.pem, cert: cert.pem, key: key.pem}   # beside this file
"""


def _cluster(of: FederationList | None) -> str:
    if of is None:
        return _CLUSTER
    said = {"scheduler": of.address, "expect": _names(of.clients)}
    if of.server.workers > 1:
        said["server"] = f"{{workers: {of.server.workers}}}"
    return _with(_CLUSTER, said)


def _with(text: str, said: Mapping[str, str]) -> str:
    """Return YAML with other values of keys that it has, or shows behind a #."""
    for key, value in said.items():
        line = re.search(rf"(?m)^(?:# )?{key}: [^#\n]*", text)
        assert line is not None, key
        new = f"{key}: {value}  ".ljust(len(line[0]))
        text = text[: line.start()] + new + text[line.end() :]
    return re.sub(r"(?m) +$", "", text)


def _names(names: Iterable[str]) -> str:
    told = [one if read_yaml(f"[{one}]", one) == [one] else json.dumps(one) for one in names]
    return f"[{', '.join(told)}]"  # in quotes where it would be a number, as 1e4


def _filled(file: str, issued: Issued, of: FederationList) -> str:
    """Return the unit for systemd, or the file for compose, that starts a side's script."""
    hosts = [host for host in map(of.host_of, of.roles) if host is not None]
    said = {
        "SIDE": _side(issued),
        "NAME": issued.name,
        "HOSTS": " ".join(dict.fromkeys(hosts)),
        "VERSION": version("daskfc"),
    }
    text = re.sub("@([A-Z]+)@", lambda found: said[found[1]], template(file))
    if issued.role != "client":
        text = re.sub(r"(?m)^ +- .*:/store:ro\n|,? DASKFC_STORE[=:] ?[\w./-]+", "", text)
    return text


_STARTED = {
    "scripts": "    ./start.sh\n",
    "systemd": """\
    # as root, with daskfc in /opt/daskfc and an account daskfc
    cp -R . /etc/daskfc/{name}
    chown -R root:daskfc /etc/daskfc/{name}
    chmod -R g+rX,o= /etc/daskfc/{name}
    cp daskfc-{name}.service /etc/systemd/system/
    systemctl enable --now daskfc-{name}.service
""",
    "compose": """\
    mkdir -p files
    export DASKFC_USER=$(id -u):$(id -g)
    docker compose up --detach
""",
}
_STORES = {"scripts": "store.zarr", "systemd": "/srv/daskfc/{name}.zarr", "compose": "store.zarr"}
_MORE = {
    "client": """\
`policy.yaml` says what you take part in: read it first, with `daskfc policy show policy.yaml`.
DASKFC_STORE in the environment names a store that lies elsewhere. The ledger, the log and what is
remembered of earlier runs go to the folder `files`, or to DASKFC_WORKSPACE.
""",
    "server": """\
The ledger, the log and what a run is resumed from go to the folder `files`, or to DASKFC_WORKSPACE.
""",
    "scheduler": """\
It may start before or after the parties. DASKFC_HOST and DASKFC_PORT in the environment say where
else it listens.
""",
    "submitter": "",
}


def _starts(issued: Issued, of: FederationList | None) -> str:
    name, role, how = issued.name, issued.role, "scripts" if of is None else of.start
    if role == "submitter":
        told = "" if of is not None else "Put the address of the scheduler into `cluster.yaml`. "
        told += "Begin a run from anywhere:\n\n    daskfc run PIPELINE --cluster cluster.yaml\n"
        return told
    told = ""
    if role == "client":
        told = f"    daskfc stores add {name} FILE --store {_STORES[how].format(name=name)}\n"
    if of is None and role == "scheduler":
        told += "    export DASKFC_HOST=10.0.0.1            # this machine, as the sites reach it\n"
    elif of is None:
        told += "    export DASKFC_SCHEDULER=tls://10.0.0.1:8786\n"
    return f"{told}{_STARTED[how].format(name=name)}\n{_MORE[role]}"


_FILES = {
    "ca.pem": "the certificate of the authority: whom it signed is believed",
    "cert.pem": "your certificate: it says who you are, and is no secret",
    "key.pem": "your key, a secret: who has it is you to all others",
    "start.sh": "starts you; yours to edit",
    "policy.yaml": "what you take part in, which nobody else can loosen; yours to edit",
    "cluster.yaml": "where runs go; yours to edit",
    "compose.yaml": "starts you in a container; yours to edit",
}


def _readme(issued: Issued, own: Iterable[str], own_key: bool, of: FederationList | None) -> str:
    others = "The key was made here: nobody else has it, the authority neither."
    if not own_key:
        others = "Whoever made this folder can be you as well."
    named = ("ca.pem", "cert.pem", "key.pem", *own)
    told = [f"- `{one}`: {_FILES.get(one, 'the unit of systemd; yours to edit')}." for one in named]
    return "\n".join(
        [
            f"# {issued.name}, {issued.role}",
            "",
            *told,
            "",
            "Keep `key.pem` on this machine, readable by the account that starts it alone, in no",
            f"mail, share or repository. {others}",
            "",
            "## Start",
            "",
            _starts(issued, of),
            "## Renew",
            "",
            f"The first certificate ends on {issued.ends:%Y-%m-%d}; from 30 days before, you are",
            f"told so at every start. Whoever runs the authority calls `daskfc certs renew "
            f"{issued.name}`,",
            "and hands you the new `cert.pem`: put it in place of the old one, and start again.",
            "",
            "## When the key is lost or stolen, or somebody leaves",
            "",
            f"Whoever runs the authority calls `daskfc certs revoke {issued.name}`, and hands the",
            "list `revoked.pem` to all sides. Put such a list beside your `ca.pem` whenever you",
            "get one: it is heeded at once, without a restart. You make another key with",
            f"`daskfc certs request {issued.name}`, and have it signed.",
            "",
        ]
    )


def kit_of(
    issued: Issued, *, policy: str, own_key: bool = False, of: FederationList | None = None
) -> dict[str, str]:
    """Return the text of each file of a side, by name, with what a federation's list says."""
    if of is not None:
        said = {"submitters": _names(of.submitters)}
        said |= {} if of.methods == "any" else {"methods": _names(of.methods)}
        policy = _with(policy, said)
    texts = {"policy.yaml": policy, "cluster.yaml": _cluster(of), "start.sh": _script(issued, of)}
    kit = {name: texts[name] for name in KIT[issued.role][:-1]}
    if of is not None and issued.role != "submitter":
        if of.start == "systemd":
            kit[f"daskfc-{issued.name}.service"] = _filled("party.service", issued, of)
        elif of.start == "compose":
            kit["compose.yaml"] = _filled("compose.yaml", issued, of)
    return {**kit, "README.md": _readme(issued, tuple(kit), own_key, of)}


def write_kit(folder: Path, kit: Mapping[str, str]) -> tuple[str, ...]:
    """Write the files of a kit that are missing (others may be edited), and return their names."""
    written = tuple(name for name in kit if not (folder / name).exists())
    for name in written:
        write_private(folder / name, kit[name].encode())
        if name == "start.sh":
            (folder / name).chmod(0o700)
    return written
