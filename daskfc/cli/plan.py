"""``daskfc plan``: what a run would send, hold and reveal."""

import json
import sys
from typing import Any

import click

from daskfc.cli.terminal.exits import BAD_INPUT, exits, signals_as_interrupt
from daskfc.cli.terminal.options import of_a_run
from daskfc.cli.terminal.output import stdout_console
from daskfc.cli.terminal.progress import shown_progress
from daskfc.errors import InvalidInput
from daskfc.federation.planning.traffic import Network
from daskfc.runs import plan as plan_of
from daskfc.runs import print_plan


def _assumed(assignments: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in assignments:
        what, equals, value = text.rpartition("=")
        try:
            found[what.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals or not what.strip():
            raise InvalidInput(
                f"--assume {text!r}: must be WHAT=NUMBER, with the words that a plan says. Write "
                "for example --assume 'rounds of Lloyd=12'."
            )
    return found


@click.command()
@of_a_run
@click.option("--bandwidth", default="100Mbit", show_default=True, help="Of each party, both ways.")
@click.option("--latency", default="50ms", show_default=True, help="Of one trip, one way.")
@click.option(
    "--assume",
    "assumed",
    multiple=True,
    metavar="WHAT=NUMBER",
    help="Say what the plan would assume, in its words, e.g. 'rounds of Lloyd=12'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON object.")
def plan(
    bandwidth: str, latency: str, assumed: tuple[str, ...], as_json: bool, **of_the_run: Any
) -> None:
    """Tell what 'daskfc run' of PIPELINE would do, and start nothing.

    It prints rounds, messages, bytes on every link, memory of every party, the time that messages
    take, and what each party would reveal to whom. Missing stores are built, as by a run. Exit code
    2 if a run would be refused.

    \b
    Example:
      daskfc plan pipelines/omnifc.yaml --storage storage/digits.yaml \\
                  --bandwidth 20Mbit --latency 80ms
    """  # noqa: D301 - click reads \b
    with exits(), signals_as_interrupt():
        with shown_progress() as progress:
            found = plan_of(
                **of_the_run,
                network=Network.parsed(bandwidth, latency),
                assumed=_assumed(assumed),
                progress=progress,
            )
        if as_json:
            click.echo(json.dumps(found.as_dict(), ensure_ascii=False))
        else:
            print_plan(found, stdout_console())
    if found.refused:
        sys.exit(BAD_INPUT)
