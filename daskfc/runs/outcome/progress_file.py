"""A file with the progress of a run in its folder, for processes that did not start it."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daskfc.federation.driver.stage import Notice, Stage

__all__ = ["KeptProgress", "read_progress"]

_NAME = "progress.json"
_EVERY_S = 1.0


class KeptProgress:
    """Pass progress on and write it at most once a second; a claim removes the file in the end."""

    def __init__(self, folder: Path, told: Callable[[str, int, int], None]) -> None:
        self._path = folder / _NAME
        self._told = told
        self._last = float("-inf")

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report how far a stage is; see `daskfc.runs.pipeline.parties.Progress`."""
        self._told(stage, done, total)
        if isinstance(stage, Notice) or time.monotonic() - self._last < _EVERY_S:
            return
        self._last = time.monotonic()
        words = stage.with_unit if isinstance(stage, Stage) else str(stage)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"stage": words, "done": done, "total": total, "at": now, "pid": os.getpid()}
        partial = self._path.with_name(f".{_NAME}-{os.getpid()}")
        with suppress(OSError):  # a disk that is full ends the run where results are written
            partial.write_text(json.dumps(content), encoding="utf-8")
            os.replace(partial, self._path)


def read_progress(folder: Path) -> dict[str, Any]:
    """Return the stage, its progress, the time and the process; empty where none is written."""
    try:
        found = json.loads((folder / _NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
