"""``daskfc budget show|grant``."""

from datetime import UTC, datetime

import click
from rich.table import Column
from rich.text import Text

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.output import print_table, stdout_console
from daskfc.errors import InvalidInput
from daskfc.site import Budget, Policy, SiteState

_STATE = click.argument("state", type=click.Path())


@click.group()
def budget() -> None:
    """Show what noisy releases of a site's data cost in all runs, and grant more.

    STATE is the party's SQLite file, which lies at its site. Only a site can grant more.
    """


@budget.command()
@_STATE
@click.option("--policy", "file", type=click.Path(), help="The site's policy, for what is left.")
@click.option(
    "--delta", type=float, help="At which epsilon is told.  [default: the policy's, else 1e-05]"
)
def show(state: str, file: str | None, delta: float | None) -> None:
    """List each data set's releases, what they cost together, and what was granted.

    \b
    Example:
      daskfc budget show state.sqlite --policy site.yaml
    """  # noqa: D301 - click reads \b
    with exits():
        kept = SiteState(state, new=False)
        limit = None if file is None else Policy.load(file).budget
        if file is not None and limit is None:
            raise InvalidInput(f"{file}: has no budget. Leave --policy out, or add one.")
        if limit is not None and delta is not None and delta != limit.delta:
            raise InvalidInput(
                f"--delta {delta:g}: the policy's budget has a delta of its own, {limit.delta:g}. "
                "Leave one of both out."
            )
        if delta is None:
            delta = 1e-5 if limit is None else limit.delta
        rows = [_row(kept, dataset, delta, limit) for dataset in kept.datasets()]
        grants = kept.grants()
    titles = ("releases", f"epsilon at {delta:g}", "granted", "left")
    if rows:
        print_table(("data set", *(Column(title, justify="right") for title in titles)), rows)
    else:
        click.echo("Nothing was released with noise.")
    for grant in grants:
        whom = "all data sets" if grant.dataset is None else grant.dataset
        day = datetime.fromtimestamp(grant.time, UTC)
        stdout_console().print(
            Text(f"{day:%Y-%m-%d}  epsilon {grant.epsilon:g} to {whom}: {grant.why}")
        )


def _row(kept: SiteState, dataset: str, delta: float, limit: Budget | None) -> tuple[str, ...]:
    spent, granted = kept.spent(dataset), kept.granted(dataset)
    epsilon = spent.epsilon(delta)
    left = "" if limit is None else f"{max(limit.epsilon + granted - epsilon, 0):.4g}"
    releases = sum(event.count for event in spent.events)
    return dataset, f"{releases:,}", f"{epsilon:.4g}", f"{granted:.4g}", left


@budget.command()
@_STATE
@click.option("--epsilon", type=float, required=True, help="Nats to add, at the budget's delta.")
@click.option("--why", required=True, metavar="TEXT", help="The reason, for the audit log.")
@click.option("--dataset", help="Digest of one data set.  [default: all, future ones too]")
def grant(state: str, epsilon: float, why: str, dataset: str | None) -> None:
    """Add epsilon to the budget of one data set, or of each of them.

    \b
    Example:
      daskfc budget grant state.sqlite --epsilon 0.5 --why "second study, board of May 4"
    """  # noqa: D301 - click reads \b
    with exits():
        SiteState(state, new=False).grant(dataset, epsilon, why)
    whom = "each data set" if dataset is None else dataset
    click.echo(f"Granted epsilon {epsilon:g} to {whom}.")
