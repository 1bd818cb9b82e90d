"""The state of one run, which may be under way, and of all runs in a folder."""

from collections.abc import Mapping
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pandas as pd

from daskfc.errors import InvalidInput
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.progress_file import read_progress

__all__ = ["STATES", "list_runs", "status_of"]

STATES = ("running", "broke off", "failed", "done")
"""Of a run: a process carries it out; it can be resumed; it cannot; it has its results."""

_COLUMNS = (
    "name", "state", "created", "method", "clusters", "score", "silhouette", "seconds", "bytes",
    "epsilon",
)  # fmt: skip


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
        not known), ``at`` (the time) and ``pid``.

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
        ``seconds`` (of the whole run), ``bytes`` (payload of one fit) and ``epsilon`` (of all fits,
        where there was noise). None where a run has no such value.

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
    rows.sort(key=lambda row: str(row["created"]), reverse=True)
    return pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object)


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
    }
