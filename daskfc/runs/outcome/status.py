"""The state and progress of one run, whoever started it, and of all runs in a folder."""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd

from daskfc.errors import InvalidInput
from daskfc.federation.driver.stage import Notice, Stage
from daskfc.folders import write_whole
from daskfc.runs.outcome.folder import RunFolder

STATES = ("running", "broke off", "failed", "done", "not started")
"""Of a run: a process carries it out; it can be resumed; it cannot; it has its results; none."""

_PROGRESS = "progress.json"
_NOT_STARTED = ".not-started.jsonl"
_NOTES = 100  # ours: nights that are remembered
_EVERY_S = 1.0

_COLUMNS = (
    "name", "state", "created", "method", "clusters", "score", "silhouette", "seconds", "bytes",
    "epsilon", "why",
)  # fmt: skip


class KeptProgress:
    """Pass progress on and write it at most once a second; a claim removes the file in the end."""

    def __init__(self, folder: Path, told: Callable[[str, int, int], None] | None) -> None:
        self._path = folder / _PROGRESS
        self._told = told
        self._last = float("-inf")

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report how far a stage is; see `daskfc.runs.pipeline.parties.Progress`."""
        if self._told is not None:
            self._told(stage, done, total)
        if isinstance(stage, Notice) or time.monotonic() - self._last < _EVERY_S:
            return
        self._last = time.monotonic()
        words = stage.with_unit if isinstance(stage, Stage) else str(stage)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        content = {"stage": words, "done": done, "total": total, "at": now, "pid": os.getpid()}
        content["share"] = getattr(stage, "share", None)
        partial = self._path.with_name(f".{_PROGRESS}-{os.getpid()}")
        with suppress(OSError):  # a disk that is full ends the run where results are written
            partial.write_text(json.dumps(content), encoding="utf-8")
            os.replace(partial, self._path)


def read_progress(folder: Path) -> dict[str, Any]:
    """Return the stage, its progress, the time and the process; empty where none is written."""
    try:
        found = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def status_of(folder: str | PathLike[str]) -> dict[str, Any]:
    """Return the state of a run so far, whoever started it.

    Parameters
    ----------
    folder : path
        The run's folder.

    Returns
    -------
    dict
        ``name``, ``state`` (one of `STATES`), ``created``, ``method``, ``error``, the figures of
        `list_runs` and, while it runs, ``progress``: ``stage``, ``done``, ``total`` (0 where it is
        not known), ``share`` (of the whole run, None where not known), ``at`` (the time), ``pid``.

    Raises
    ------
    InvalidInput
        When no run is there.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.runs import status_of
    >>> from daskfc.runs.outcome.folder import RunFolder
    >>> folder = RunFolder.create(tempfile.mkdtemp(), "night", {"pipeline": {"method": "FedSC"}})
    >>> status_of(folder.path)["state"]
    'broke off'
    """
    found = RunFolder(folder)
    record = found.record
    state = _state(record, found)
    return {
        **_figures(found, record, state),
        "error": record.get("error") if state != "running" else None,
        "progress": read_progress(found.path) if state == "running" else {},
    }


def list_runs(runs_dir: str | PathLike[str] = "runs") -> pd.DataFrame:
    """Return the runs of a folder, the newest first.

    Parameters
    ----------
    runs_dir : path
        The folder of all runs.

    Returns
    -------
    pandas.DataFrame
        A row a run: ``name``, ``state``, ``created``, ``method``, ``clusters``, ``score`` (of the
        run's method by its first metric, as text with the metric's name), ``silhouette``,
        ``seconds`` (of the whole run), ``bytes`` (payload of one fit), ``epsilon`` (of all fits,
        where there was noise) and ``why`` it ended or did not start. None where a run has no such
        value. A run of a key that did not start has a row until it does.

    Raises
    ------
    InvalidInput
        When there is no such folder.

    Examples
    --------
    >>> import tempfile
    >>> from daskfc.runs import list_runs
    >>> len(list_runs(tempfile.mkdtemp()))
    0
    """
    root = Path(fspath(runs_dir))
    if not root.is_dir():
        raise InvalidInput(f"{root}: there is no such folder of runs. Give --runs-dir.")
    rows = []
    for file in root.glob("[!.]*/run.json"):  # a hidden folder is no run: it may be half removed
        with suppress(InvalidInput):  # removed meanwhile, or damaged
            folder = RunFolder(file.parent)
            record = folder.record
            rows.append(_figures(folder, record, _state(record, folder)))
    there = {row["name"] for row in rows}
    rows += [row for name, row in _not_started(root).items() if name not in there]
    rows.sort(key=lambda row: str(row["created"]), reverse=True)
    return pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object)


def note_not_started(runs_dir: str | PathLike[str], name: str, why: str) -> None:
    """Remember, beside runs that are there, that one did not start, if that can be written."""
    path = Path(fspath(runs_dir)) / _NOT_STARTED
    note = {"name": name, "created": datetime.now(UTC).isoformat(timespec="seconds"), "why": why}
    with suppress(OSError):
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [*lines[1 - _NOTES :], json.dumps(note, ensure_ascii=False)]
        write_whole(path, "".join(f"{line}\n" for line in kept).encode())


def _not_started(root: Path) -> dict[str, dict[str, Any]]:
    """Return a row for each run that did not start, by name, the last of its notes."""
    rows = {}
    with suppress(OSError):
        for line in (root / _NOT_STARTED).read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, KeyError, TypeError):  # changed by hand
                note = json.loads(line)
                told = {key: str(note[key]) for key in ("name", "created", "why")}
                rows[told["name"]] = dict.fromkeys(_COLUMNS) | told | {"state": "not started"}
    return rows


def _state(record: Mapping[str, Any], folder: RunFolder) -> str:
    if record["status"] == "done":
        return "done"
    if folder.is_held:
        return "running"
    # A run killed before its parties were there has no such key, and can be resumed.
    return "broke off" if record.get("resumable", True) else "failed"


def _figures(folder: RunFolder, record: Mapping[str, Any], state: str) -> dict[str, Any]:
    summary: Mapping[str, Any] = {}
    with suppress(InvalidInput):  # lost since
        summary = folder.summary if state == "done" else {}
    method = (record.get("pipeline") or {}).get("method")
    scores = (summary.get("metrics") or {}).get(method) or {}
    name, score = next(iter(scores.items()), (None, None))
    quality = summary.get("quality") or {}
    noise = (summary.get("privacy") or {}).get("noise") or {}
    return {
        "name": record["run_id"],
        "state": state,
        "created": record.get("created"),
        "method": method,
        "clusters": len(quality.get("sizes") or ()) or None,
        "score": None if score is None else f"{name} {score['mean']:.4f}",
        "silhouette": quality.get("silhouette"),
        "seconds": (summary.get("timing") or {}).get("total_s", record.get("elapsed_s")),
        "bytes": (summary.get("communication") or {}).get("payload_bytes"),
        "epsilon": noise.get("epsilon_of_all_fits"),
        "why": record.get("error") if state in ("broke off", "failed") else None,
    }
