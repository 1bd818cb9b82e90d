"""``daskfc runs`` and ``daskfc status``: what became of runs, whoever started them."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click
from rich.filesize import decimal
from rich.table import Column

from daskfc.cli.terminal.exits import exits
from daskfc.cli.terminal.output import print_table
from daskfc.runs import list_runs, status_of
from daskfc.runs.report.table import seconds_in_words

__all__ = ["runs", "status"]

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.command()
@click.option(
    "--runs-dir", default="runs", show_default=True, type=click.Path(),
    help="Folder that holds the runs' folders.",
)  # fmt: skip
@_JSON
def runs(runs_dir: str, as_json: bool) -> None:
    """List the runs of a folder, the newest first: what became of them, scores and costs.

    A run is running, broke off (and can be resumed), failed (and cannot), or is done.
    """
    with exits():
        found = list_runs(runs_dir)
        if as_json:
            click.echo(json.dumps(found.to_dict("records"), ensure_ascii=False))
            return
        figures = [Column(name, justify="right") for name in _FIGURES]
        rows = map(_cells, found.to_dict("records"))
        look: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold"}
        print_table(("run", "state", "started", "method", *figures), rows, **look)


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


_FIGURES = ("clusters", "score", "silhouette", "time", "payload", "epsilon")


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
