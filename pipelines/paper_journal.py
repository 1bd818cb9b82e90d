"""What a program that reproduces a paper found so far; a second start goes on from there."""

import json
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Journal", "Record"]

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
