"""``daskfc demo``: from nothing to a report."""

import webbrowser
from contextlib import chdir
from pathlib import Path

import click

from daskfc.cli.runs import run
from daskfc.cli.terminal.exits import exits
from daskfc.examples import EXAMPLES, write_example


@click.command()
@click.argument("folder", default="daskfc-demo", type=click.Path(file_okay=False))
@click.option("--open/--no-open", "opens", default=True, help="Whether a browser shows the report.")
@click.pass_context
def demo(context: click.Context, folder: str, opens: bool) -> None:
    """Cluster the patients of three hospitals, which are made up, and show the report.

    Their files and the run go into FOLDER, daskfc-demo by default, to be looked at and changed.
    Each hospital is a process of its own on this machine; nothing is fetched from a network.

    \b
    Example:
      uvx daskfc demo
    """  # noqa: D301 - click reads \b
    example = EXAMPLES["hospitals"]
    with exits():
        write_example("hospitals", folder)
    with chdir(folder):
        context.invoke(
            run,
            pipeline=example.pipeline,
            storage=example.storage,
            cluster=example.cluster,
            name="demo",
        )
        page = Path("runs", "demo", "report.html").resolve()
    click.echo(f"\nOpen {page}")
    if opens:
        webbrowser.open(page.as_uri())
