"""``daskfc init``: the files that a new user starts from."""

import shlex
from pathlib import Path

import click

from daskfc.cli.terminal.exits import exits
from daskfc.examples import EXAMPLES, write_example


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option(
    "--example",
    "name",
    type=click.Choice(list(EXAMPLES)),
    default="digits",
    show_default=True,
    help="; ".join(f"{name}: {example.about}" for name, example in EXAMPLES.items()) + ".",
)
def init(folder: str, name: str) -> None:
    """Write the YAML files of an example into FOLDER, this one by default.

    A pipeline (what to run), a storage (whose data) and a cluster (where), to run as they are and
    to change into your own. The hospitals' csv files are made up. Nothing is overwritten.

    \b
    Example:
      daskfc init --example hospitals trial
    """  # noqa: D301 - click reads \b
    with exits():
        paths = write_example(name, folder)
    click.echo("\n".join(["Wrote", *(f"  {path}" for path in paths), "", "Next"]))
    if Path(folder) != Path("."):
        click.echo(f"  cd {shlex.quote(folder)}")
    example = EXAMPLES[name]
    click.echo(f"  daskfc run {example.pipeline} --storage {example.storage}")
