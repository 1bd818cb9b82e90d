"""How a program that reproduces a paper runs: its command line, its pieces, what it found so far.

A second start goes on from what a record file holds.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["Journal", "Record", "carry_out", "command_line"]

Record: TypeAlias = dict[str, Any]


class Journal:
    """What was found so far, part by part; in a file too if one is given.

    Parameters
    ----------
    path : Path, optional
        JSON lines, appended to when a part is whole.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text("utf-8").splitlines() if path and path.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def __contains__(self, part: str) -> bool:
        return {"kind": "done", "part": part} in self.records

    def keep(self, part: str, found: list[Record]) -> None:
        """Add a part that is whole."""
        fresh = [*found, {"kind": "done", "part": part}]
        self.records += fresh
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(record) + "\n" for record in fresh)


def command_line(
    description: str,
    page: str,
    parts: Sequence[str],
    pipeline: Path | None = None,
    limits: Mapping[str, str] | None = None,
    *,
    needs_data: bool = True,
) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line.

    Parameters
    ----------
    description : str
        The program's documentation, of which the first paragraph is shown.
    page : str
        The name of the page in docs/results, without its ending.
    parts : sequence of str
        What `--only` may name.
    pipeline : Path, optional
        The run definition that gives the seeds, unless another is named first.
    limits : mapping of str to str, optional
        Further options, each a number, and what it limits: for a first look.
    needs_data : bool
        Whether there is an option for the folder of data.

    Returns
    -------
    args : argparse.Namespace
        ``data`` and ``pipeline`` where they are there, ``out``, ``records``, and the limits.
    chosen : list of str
        The parts to run.
    """
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    if pipeline:
        told = "the run definition with the seeds"
        parser.add_argument("pipeline", type=Path, nargs="?", default=pipeline, help=told)
    if needs_data:
        parser.add_argument("--data", type=Path, required=True, help="folder with the npz files")
    parser.add_argument("--only", default=",".join(parts), help=f"of {','.join(parts)}")
    parser.add_argument("--out", type=Path, default=Path("docs/results", f"{page}.md"))
    parser.add_argument("--records", type=Path, help="JSON lines that a second start goes on from")
    for name, told in (limits or {}).items():
        parser.add_argument(f"--{name}", type=int, metavar="N", help=told)
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := sorted(set(chosen) - set(parts)):
        parser.error(f"--only must name some of {', '.join(parts)}; got {', '.join(unknown)}")
    return args, chosen


def carry_out(
    pieces: Iterable[tuple[str, Iterable[Record]]],
    journal: Journal,
    write: Callable[[], None],
    shown: Sequence[str],
) -> None:
    """Run the pieces that are missing, and write the page after each of them and in the end.

    Parameters
    ----------
    pieces : iterable of (str, iterable of Record)
        Names, and records, of which none is computed before it is asked for.
    journal : Journal
        Has every piece in the end.
    write : callable
        Writes the page.
    shown : sequence of str
        The keys of a record that whoever watches is shown, where it has them.
    """
    warnings.simplefilter("ignore")  # few different rows, the last iteration: the tables show it
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=len(pieces) if isinstance(pieces, Sized) else None)
        for name, records in pieces:
            progress.update(task, description=name)
            if name not in journal:
                found = []
                for record in records:
                    found.append(record)
                    progress.console.print(_line_of(record, shown), soft_wrap=True)
                journal.keep(name, found)
                write()
            progress.advance(task)
    write()


def _line_of(record: Record, shown: Sequence[str]) -> str:
    known = [(key, record[key]) for key in ("kind", *shown) if key in record]
    words = [f"{key} {v:.4g}" if isinstance(v, float) else f"{key} {v}" for key, v in known]
    return ", ".join([time.strftime("%H:%M:%S"), *words])
