"""``daskfc compare``: runs side by side."""

import json
from typing import Any

import click
import numpy as np
from rich import box
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.output import stdout_console
from daskfc.runs import Run
from daskfc.runs.report.table import seconds_in_words


def _in_words(what: str, value: Any) -> str:
    if value is None:
        return ""
    if "bytes" in what:
        return decimal(int(value))
    if what.startswith("seconds"):
        return seconds_in_words(float(value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@click.command()
@click.argument("run_folders", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print one JSON object on standard output: by run, by part, what and its value.",
)  # fmt: skip
def compare(run_folders: tuple[str, ...], as_json: bool) -> None:
    """Print runs side by side: what differs, scores, clusters, bytes and seconds.

    Each RUN is a run's folder. Settings are listed where they differ. The agreement of two runs is
    the adjusted Rand index of their labels, where both have the same sample ids.

    \b
    Example:
      daskfc compare runs/omnifc-digits runs/fedsc-digits
    """  # noqa: D301 - click reads \b
    with exits():
        runs = [Run(folder) for folder in run_folders]
        frame = runs[0].compare(*runs[1:])
        if as_json:
            told: dict[str, dict[str, dict[str, Any]]] = {}
            for name in frame.columns:
                for (part, what), value in zip(frame.index.tolist(), frame[name], strict=True):
                    told.setdefault(str(name), {}).setdefault(part, {})[what] = _plain(value)
            click.echo(json.dumps(told, ensure_ascii=False))
            return
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("")
        for name in frame.columns:
            table.add_column(Text(str(name)), overflow="fold")
        before = None
        for (part, what), values in zip(frame.index.tolist(), frame.to_numpy(), strict=True):
            if part != before and before is not None:
                table.add_section()
            before = part
            cells = [Text(_in_words(what, _plain(value))) for value in values]
            table.add_row(Text(what), *cells)
        stdout_console().print(table)
