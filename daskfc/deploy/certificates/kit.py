"""Files that a side gets beside its certificate: start script, policy or cluster file, README."""

import shlex
from pathlib import Path

from daskfc.deploy.certificates.issued import Issued
from daskfc.folders import write_private

__all__ = ["KIT", "write_kit"]

_TLS = '--tls-ca-file "$here/ca.pem" --tls-cert "$here/cert.pem" --tls-key "$here/key.pem" "$@"'
_SCHEDULER = '--scheduler "${DASKFC_SCHEDULER:?such as tls://10.0.0.1:8786}" --wait 10m'
_WORKSPACE = '--workspace "${DASKFC_WORKSPACE:-$here/files}"'
_STORE = '--store "${DASKFC_STORE:?the path or URL of the store of this site}"'
_LISTENS = '--host "${DASKFC_HOST:?the address of this machine for the sites}"'

KIT = {
    "client": ("start.sh", "policy.yaml", "README.md"),
    "server": ("start.sh", "README.md"),
    "scheduler": ("start.sh", "README.md"),
    "submitter": ("cluster.yaml", "README.md"),
}
"""Files of each role, beside ca.pem, cert.pem and key.pem."""


def _script(role: str, name: str) -> str:
    commands = {
        "client": [f"party {shlex.quote(name)}", _SCHEDULER, _STORE],
        "server": [f"party {shlex.quote(name)}", _SCHEDULER],
        "scheduler": ["scheduler", _LISTENS, '--port "${DASKFC_PORT:-8786}"'],
    }
    own = [] if role == "scheduler" else [_WORKSPACE]
    policy = ['--policy "$here/policy.yaml"'] if role == "client" else []
    lines = " \\\n    ".join(
        [f"exec daskfc {commands[role][0]}", *commands[role][1:], *policy, *own]
    )
    return f"""#!/bin/sh
# Starts {role} {name} and serves until it is stopped. Yours to edit: renewing leaves it as it is.
set -eu
umask 077
here=$(cd -- "$(dirname -- "$0")" && pwd)
{lines} \\
    {_TLS}
"""


_CLUSTER = """\
# Where runs go:  daskfc run PIPELINE --cluster cluster.yaml
# Yours to edit: renewing leaves it as it is.
cluster: existing
scheduler: tls://SCHEDULER:8786           # the address that the scheduler tells when it starts
# expect: [hospital-a, hospital-b]        # the clients that take part
# server: {workers: 2}                    # where 'server-2' was started as well
deadline: 60s                             # how long a party may be away
security: {ca: ca.pem, cert: cert.pem, key: key.pem}   # beside this file
"""

_STARTS = {
    "client": """\
Set in the environment the address of the scheduler and your store, and start:

    export DASKFC_SCHEDULER=tls://10.0.0.1:8786 DASKFC_STORE=/srv/{name}.zarr
    ./start.sh

`policy.yaml` says what you take part in: read it first, with `daskfc policy show policy.yaml`.
The ledger, the log and what is remembered of earlier runs go to the folder `files`.
""",
    "server": """\
Set in the environment the address of the scheduler, and start:

    export DASKFC_SCHEDULER=tls://10.0.0.1:8786
    ./start.sh

The ledger, the log and what a run is resumed from go to the folder `files`.
""",
    "scheduler": """\
Set in the environment the address of this machine that the sites reach, and start:

    export DASKFC_HOST=10.0.0.1
    ./start.sh

It listens on port 8786, or on DASKFC_PORT. It may start before or after the parties.
""",
    "submitter": """\
Put the address of the scheduler into `cluster.yaml`, and begin a run from anywhere:

    daskfc run PIPELINE --cluster cluster.yaml
""",
}

_FILES = {
    "ca.pem": "the certificate of the authority: whom it signed is believed",
    "cert.pem": "your certificate: it says who you are, and is no secret",
    "key.pem": "your key, a secret: who has it is you to all others",
    "start.sh": "starts you; yours to edit",
    "policy.yaml": "what you take part in, which nobody else can loosen; yours to edit",
    "cluster.yaml": "where runs go; yours to edit",
}


def _readme(issued: Issued, *, own_key: bool) -> str:
    others = "The key was made here: nobody else has it, the authority neither."
    if not own_key:
        others = "Whoever made this folder can be you as well."
    own = [name for name in KIT[issued.role] if name != "README.md"]
    files = [f"- `{name}`: {_FILES[name]}." for name in ("ca.pem", "cert.pem", "key.pem", *own)]
    return "\n".join(
        [
            f"# {issued.name}, {issued.role}",
            "",
            *files,
            "",
            "Keep `key.pem` on this machine, readable by the account that starts it alone, in no",
            f"mail, share or repository. {others}",
            "",
            "## Start",
            "",
            _STARTS[issued.role].format(name=issued.name),
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


def write_kit(
    folder: Path, issued: Issued, *, policy: str, own_key: bool = False
) -> tuple[str, ...]:
    """Write the files of a role that are missing (others may be edited), and return their names."""
    written = []
    for name in KIT[issued.role]:
        path = folder / name
        if path.exists():
            continue
        if name == "start.sh":
            write_private(path, _script(issued.role, issued.name).encode())
            path.chmod(0o700)
        elif name == "policy.yaml":
            write_private(path, policy.encode())
        else:
            text = _CLUSTER if name == "cluster.yaml" else _readme(issued, own_key=own_key)
            write_private(path, text.encode())
        written.append(name)
    return tuple(written)
