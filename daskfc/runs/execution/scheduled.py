"""Runs that a timer starts: one run per key, and removal of old runs."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from daskfc.errors import InvalidInput, RunHeld
from daskfc.folders import check_folder_name, remove_at_once
from daskfc.runs.execution.run import Run, prepare
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.pipeline.config import load_pipeline
from daskfc.runs.pipeline.parties import Progress

_REMOVED = ".removed-"


def name_of_key(key: str, now: datetime) -> str:
    """Return the name of a key's run: ``{date}`` is the day, ``{hour}`` the hour, local time."""
    name = key.replace("{date}", f"{now:%Y-%m-%d}").replace("{hour}", f"{now:%H}")
    if "{" in name or "}" in name:
        raise InvalidInput(
            f"a run's key may hold {{date}} and {{hour}} in braces and nothing else; got {key!r}. "
            "Correct it."
        )
    check_folder_name("run", name)
    return name


def start_or_resume(
    pipeline: Any,
    *,
    run_key: str,
    keep: int | None = None,
    runs_dir: str | PathLike[str] = "runs",
    progress: Progress | None = None,
    **where: Any,
) -> Run:
    """Start or resume the run of a key, or return it if it is done; a timer calls this.

    A run that broke off is resumed with the settings that it began with. Two calls at once start
    one run.

    Parameters
    ----------
    pipeline, runs_dir, progress
        See `daskfc.run`.
    run_key : str
        The run's name, in which ``{date}`` is today and ``{hour}`` this hour: a new run every
        night, and one only.
    keep : int, optional
        How many runs of the key stay; see `remove_old_runs`. All by default.
    **where
        ``storage``, ``cluster``, ``params``, ``overrides``: see `daskfc.run`.

    Returns
    -------
    Run
        Done.

    Raises
    ------
    RunHeld
        When another process carries out the run; that process is not disturbed.
    InvalidInput, ClusterError
        For bad input, or a cluster that is away, before anything starts.
    RunFailed
        When it breaks off; the same call resumes it.

    Examples
    --------
    >>> from daskfc.runs import start_or_resume
    >>> start_or_resume({"method": "FedSC"}, run_key="nightly-{day}")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: a run's key may hold {date} and {hour} in braces and nothing else; \
got 'nightly-{day}'. Correct it.
    """
    if keep is not None:
        check_keep(run_key, keep)
    found = find_or_prepare(
        pipeline, run_key=run_key, runs_dir=runs_dir, progress=progress, **where
    )
    finish(found, progress)
    if keep is not None:
        remove_old_runs(runs_dir, run_key, keep)
    return found


def find_or_prepare(
    pipeline: Any, *, run_key: str, runs_dir: str | PathLike[str] = "runs", **given: Any
) -> Run:
    """Return the run of a key; make it, without starting it, if there is none."""
    name = name_of_key(run_key, datetime.now())
    found = _existing(runs_dir, name)
    if found is not None:
        return found
    try:
        return prepare(pipeline, runs_dir=runs_dir, name=name, run_key=run_key, **given)
    except InvalidInput:
        found = _existing(runs_dir, name)
        if found is None:
            raise
        return found  # another process was faster


def finish(run: Run, progress: Progress | None = None) -> None:
    """Resume a run, unless it is done or another process ends it meanwhile."""
    if run.status == "done":
        return
    try:
        run.resume(progress=progress)
    except InvalidInput:
        if run.status != "done":
            raise


def _existing(runs_dir: str | PathLike[str], name: str) -> Run | None:
    path = Path(fspath(runs_dir)) / name
    return Run(path) if (path / "run.json").is_file() else None


def changed_settings(run: Run, pipeline: Any, overrides: Sequence[str] = ()) -> str | None:
    """Return a sentence if a pipeline is not the one that a run began with, else None."""
    given = load_pipeline(pipeline, overrides=overrides).as_dict()
    if load_pipeline(run.config["pipeline"]).as_dict() == given:
        return None
    return (
        f"{run.folder} began with other settings than the pipeline has now, and keeps them. For "
        "the new ones remove it, or choose another key."
    )


def check_keep(run_key: str, keep: int) -> None:
    """Raise for fewer than one run to keep, and for a key without ``{date}`` or ``{hour}``."""
    if keep < 1:
        raise InvalidInput(f"of a key's runs at least 1 must be kept; got {keep}. Raise it.")
    if "{" not in run_key:
        raise InvalidInput(
            f"only a key with {{date}} has older runs that could be removed; got {run_key!r}. Add "
            "{date} to the key, or keep all."
        )


def remove_old_runs(runs_dir: str | PathLike[str], run_key: str, keep: int) -> list[str]:
    """Remove the oldest runs of a key, but none that could be resumed or is under way.

    Parameters
    ----------
    runs_dir : path
        The folder of all runs.
    run_key : str
        The key that they were started with, with ``{date}``.
    keep : int
        How many runs that ended to keep, at least 1.

    Returns
    -------
    list of str
        Names of the runs that were removed.

    Raises
    ------
    InvalidInput
        When `keep` is below 1, or the key names one run alone.

    Examples
    --------
    >>> from daskfc.runs.execution.scheduled import remove_old_runs
    >>> remove_old_runs("/no/such/folder", "nightly-{date}", keep=30)
    []
    """
    check_keep(run_key, keep)
    root = Path(fspath(runs_dir))
    for left in root.glob(f"{_REMOVED}*"):  # by a process that was ended meanwhile
        shutil.rmtree(left, ignore_errors=True)
    ended: list[tuple[str, RunFolder]] = []
    for file in root.glob("[!.]*/run.json"):
        folder = RunFolder(file.parent)
        with suppress(InvalidInput):  # of a damaged record
            record = folder.record
            if record.get("run_key") == run_key and _is_over(record):
                ended.append((str(record["created"]), folder))
    ended.sort(key=lambda one: one[0], reverse=True)
    removed = []
    for _, folder in ended[keep:]:
        with suppress(RunHeld), folder.claim():
            if _is_over(folder.record):
                remove_at_once(folder.path, _REMOVED)
                removed.append(folder.path.name)
    return removed


def _is_over(record: Mapping[str, Any]) -> bool:
    """Return whether a run ended and can never go on."""
    failed = record["status"] == "failed" and not record.get("resumable", True)
    return failed or record["status"] == "done"
