"""The command line: ``daskfc init``, ``run``, ``resume``, ``labels``, ``party`` and others."""

import click

from daskfc.cli.audit import audit
from daskfc.cli.budget import budget
from daskfc.cli.certs import certs
from daskfc.cli.compare import compare
from daskfc.cli.init import init
from daskfc.cli.labels import labels, predict
from daskfc.cli.methods import methods
from daskfc.cli.party import party
from daskfc.cli.plan import plan
from daskfc.cli.policy import policy
from daskfc.cli.runs import report, resume, run
from daskfc.cli.scheduler import scheduler
from daskfc.cli.status import runs, status
from daskfc.cli.stores import stores

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="daskfc", prog_name="daskfc")
def main() -> None:
    """Cluster data that may not be pooled.

    Each client's data stays in its own store, handled by its own worker; only declared messages
    leave a client, and every one of them is counted.

    Exit codes: 0 done; 1 failed after it started (resumable when the last line says so); 2 bad
    input, nothing was started; 75 nothing was started, and the same may succeed later: a scheduler
    or a party is away or busy, or another process carries out the run.
    """


for command in (
    init, run, plan, resume, runs, status, report, compare, audit, labels, predict, stores, party,
    scheduler, certs, policy, budget, methods,
):  # fmt: skip
    main.add_command(command)
