"""``daskfc suggest``: which methods fit a storage."""

import json
import shlex
import textwrap
from pathlib import Path
from typing import Any, get_args

import click
import yaml

from daskfc.cli.terminal.exits import exits, signals_as_interrupt
from daskfc.cli.terminal.output import print_table, stdout_console
from daskfc.cli.terminal.progress import shown_progress
from daskfc.errors import InvalidInput
from daskfc.runs import Suggestion, Tried, try_out
from daskfc.runs import suggest as suggest_for
from daskfc.runs.planning.suggestion import Learns

_FIGURES = ("modularity", "silhouette", "stability")


def _written(found: Suggestion, folder: Path) -> list[Path]:
    """Write every proposal as a pipeline file; InvalidInput before the first if one is there."""
    paths = [folder / f"{i}-{one.slug}.yaml" for i, one in enumerate(found.proposals, start=1)]
    there = [path for path in paths if path.exists()]
    if there:
        raise InvalidInput(f"{there[0]} is there already. Remove it, or name another folder.")
    if paths:
        folder.mkdir(parents=True, exist_ok=True)
    for path, one in zip(paths, found.proposals, strict=True):
        about = "\n".join(f"# {line}" for line in textwrap.wrap(one.why, 96))
        text = yaml.safe_dump(dict(one.pipeline), sort_keys=False, allow_unicode=True)
        path.write_text(f"{about}\n{text}", encoding="utf-8")
    return paths


def _print(found: Suggestion, paths: list[Path], storage: str) -> None:
    console = stdout_console()
    console.print(found.storage, markup=False)
    for number, one in enumerate(found.proposals, start=1):
        console.print(f"\n{number}. {one.name} ({one.pipeline['method']}). {one.why}", markup=False)
    for name, why in found.left_out.items():
        console.print(f"\nNot {name}: {why}", markup=False)
    if paths:
        console.print("\nNext")
        for path in paths:
            told = f"  daskfc run {shlex.quote(str(path))} --storage {shlex.quote(storage)}"
            console.print(told, markup=False, soft_wrap=True)


def _print_tried(found: Suggestion, tried: Tried) -> None:
    rows = []
    for one, done in zip(found.proposals, tried.runs, strict=True):
        if done is None:
            rows.append([one.name, *[""] * 5, "failed"])
            continue
        quality = done.summary["quality"]
        told = ["" if quality.get(key) is None else f"{quality[key]:.3f}" for key in _FIGURES]
        noise = f"{quality['noise']:.0%}" if quality["noise"] else ""
        rows.append([one.name, str(len(quality["sizes"])), noise, *told, str(done.folder)])
    print_table(["", "clusters", "in none", *_FIGURES, "folder"], rows)
    stdout_console().print(f"Take {tried.why}", markup=False)


@click.command()
@click.argument("storage", type=click.Path())
@click.option(
    "--server-learns",
    type=click.Choice(get_args(Learns)),
    default="distances",
    show_default=True,
    help="The most that the server may learn of samples.",
)
@click.option("--clusters", type=click.IntRange(min=2), metavar="K", help="How many to find.")
@click.option(
    "--write", "folder", type=click.Path(file_okay=False), help="Write pipeline files there."
)
@click.option("--try", "tries", is_flag=True, help="Run them all, and say which one to take.")
@click.option("--cluster", type=click.Path(), help="Where to run; by default on this machine.")
@click.option(
    "--runs-dir", default="runs", show_default=True, type=click.Path(),
    help="Folder that holds the runs' folders.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def suggest(
    storage: str,
    server_learns: Learns,
    clusters: int | None,
    folder: str | None,
    tries: bool,
    cluster: str | None,
    runs_dir: str,
    as_json: bool,
) -> None:
    """Tell which methods fit STORAGE, and why, without looking at labels.

    It reads numbers of samples and names and types of columns. With --try it runs what it suggests
    and takes the clusters that hold together best: by how often nearest neighbours are in one
    cluster where the server has distances, else by how well fits with three seeds agree.

    \b
    Examples:
      daskfc suggest storage/hospitals.yaml --write suggested
      daskfc suggest storage/hospitals.yaml --server-learns sums --clusters 3 --try
    """  # noqa: D301 - click reads \b
    with exits(), signals_as_interrupt():
        with shown_progress() as progress:
            found = suggest_for(
                storage, server_learns=server_learns, n_clusters=clusters, progress=progress
            )
            paths = _written(found, Path(folder)) if folder else []
            if not as_json:
                _print(found, paths, storage)
            tried = None
            if tries:
                where: dict[str, Any] = {"storage": storage, "cluster": cluster}
                tried = try_out(found, **where, runs_dir=runs_dir, progress=progress)
        if as_json:
            told = {**found.as_dict(), "files": [str(path) for path in paths]}
            if tried is not None:
                told["tried"] = {
                    "runs": [None if one is None else str(one.folder) for one in tried.runs],
                    "taken": None if tried.taken is None else found.proposals[tried.taken].name,
                    "why": tried.why,
                }
            click.echo(json.dumps(told, ensure_ascii=False))
        elif tried is not None:
            _print_tried(found, tried)
