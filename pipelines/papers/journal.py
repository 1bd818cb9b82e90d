"""What the programs that reproduce a paper share: their command line, and what they found so far.

A second start goes on from what a record file holds.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Journal", "Record", "command_line"]

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
    description: str, parts: Sequence[str], pipeline: Path | None = None
) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line.

    Parameters
    ----------
    description : str
        The program's documentation, of which the first paragraph is shown.
    parts : sequence of str
        What `--only` may name.
    pipeline : Path, optional
        The run definition that gives the seeds, unless another is named first.

    Returns
    -------
    args : argparse.Namespace
        ``data``, ``out``, ``records``, and ``pipeline`` if there is one.
    chosen : list of str
        The parts to run.
    """
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    if pipeline:
        told = "the run definition with the seeds"
        parser.add_argument("pipeline", type=Path, nargs="?", default=pipeline, help=told)
    parser.add_argument("--data", type=Path, required=True, help="folder with the npz files")
    parser.add_argument("--only", default=",".join(parts), help=f"of {','.join(parts)}")
    parser.add_argument("--out", type=Path, default=Path("docs/results.md"))
    parser.add_argument("--records", type=Path, help="JSON lines that a second start goes on from")
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := sorted(set(chosen) - set(parts)):
        parser.error(f"--only must name some of {', '.join(parts)}; got {', '.join(unknown)}")
    return args, chosen
