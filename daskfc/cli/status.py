"""``daskfc runs`` and ``daskfc status``: what became of runs, whoever started them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.output import stdout_console
from daskfc.runs import list_runs, status_of
from daskfc.runs.report.table import seconds_in_words

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.command()
@click.option(
    "--runs-dir", default="runs", show_default=True, type=click.Path(),
    help="Folder that holds the runs' folders.",
)  # fmt: skip
@_JSON
def runs(runs_dir: str, as_json: bool) -> None:
    """List the runs of a folder, the newest first: what became of them, scores and costs.

    A run is running, broke off (and can be resumed), failed (and cannot), is done, or did not
    start, which is told of runs with a key until they do.
    """
    with exits():
        found = list_runs(runs_dir)
        if as_json:
            click.echo(json.dumps(found.to_dict("records"), ensure_ascii=False))
            return
        rows, console = found.to_dict("records"), stdout_console()
        shown = [*_WORDS, *_FIGURES]
        free = console.options.update(max_width=1000)
        while True:  # a name that is cut names no run
            table = _table(rows, shown)
            needed = console.measure(table, options=free).maximum
            if needed <= console.width or len(shown) == 2:
                break
            shown.pop()
        console.width = max(needed, console.width)
        console.print(table)
        if left := [*_WORDS, *_FIGURES][len(shown) :]:
            click.echo(f"No room for {', '.join(left)}; --json has all.", err=True)
        for row in rows:
            if row["state"] == "not started":
                click.echo(f"{row['name']}: {row['why']}")


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path())
@_JSON
def status(run_folder: str, as_json: bool) -> None:
    """Tell what became of RUN, a run's folder, so far: while it runs, its stage and what is left.

    It reads the run's folder only, and may be called at any time.
    """
    with exits():
        told = status_of(run_folder)
        if as_json:
            click.echo(json.dumps(told, ensure_ascii=False))
            return
        click.echo(f"{told['name']}: {told['state']}")
        click.echo(f"started {_local(told['created'])}, {told['method']}")
        progress = told["progress"]
        if progress:
            done, total = progress["done"], progress["total"]
            share = f", {done:,} of {total:,}, {done / total:.0%}" if total else ""
            click.echo(f"now: {progress['stage']}{share} (at {_local(progress['at'])})")
            if (whole := progress.get("share")) is not None:
                click.echo(f"of the whole run: {whole:.0%}")
        if told["error"]:
            click.echo(f"why: {told['error']}")
        if told["state"] == "broke off":
            click.echo(f"go on with: daskfc resume {run_folder}")
        figures = dict(zip(_FIGURES, _cells(told)[4:], strict=True))
        if told["state"] == "done":
            click.echo(", ".join(f"{name} {cell}" for name, cell in figures.items() if cell))


_WORDS = ("run", "state", "started", "method")
_FIGURES = ("clusters", "score", "silhouette", "time", "payload", "epsilon")


def _table(rows: Sequence[Mapping[Any, Any]], shown: Sequence[str]) -> Table:
    """Return the first columns of all, as many as are shown."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, _cells(row)[: len(shown)]))
    return table


def _cells(row: Mapping[Any, Any]) -> list[str]:
    def told(name: str, words: Any) -> str:
        return "" if row[name] is None else words(row[name])

    return [
        str(row["name"]),
        row["state"],
        _local(row["created"]),
        str(row["method"] or ""),
        told("clusters", str),
        told("score", str),
        told("silhouette", "{:.3f}".format),
        told("seconds", seconds_in_words),
        told("bytes", decimal),
        told("epsilon", "{:.3g}".format),
    ]


def _local(moment: Any) -> str:
    """Return a recorded time as local time."""
    try:
        return f"{datetime.fromisoformat(str(moment)).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:  # changed by hand
        return "?"
