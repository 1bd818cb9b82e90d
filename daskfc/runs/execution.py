"""Carry out a run: open the parties, fit, score, write; and say what is left when it breaks off."""

import errno
import logging
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from daskfc.errors import ClusterError, DaskfcError, InvalidInput, PrivacyError
from daskfc.federation import Federation
from daskfc.folders import PrivateLog
from daskfc.runs.communication import ledger_frame
from daskfc.runs.config import Pipeline, load_pipeline
from daskfc.runs.evaluate import true_labels
from daskfc.runs.fits import Fit, FitShelf, folder_name, labels_cube
from daskfc.runs.folder import RunFolder
from daskfc.runs.methods import estimator_of
from daskfc.runs.parties import open_federation
from daskfc.runs.promises import privacy_of
from daskfc.runs.report import write_report
from daskfc.runs.summary import summary_of, unfinished_summary

__all__ = ["Progress", "RunFailed", "execute"]

Progress = Callable[[str, int, int], None]
"""``progress(stage, done, total)``; ``total`` is 0 where it is not known."""

log = logging.getLogger("daskfc.runs")


class RunFailed(DaskfcError):
    """A run that started and broke off.

    Parameters
    ----------
    folder : Path
        The run's folder.
    sentence : str
        Why.
    resumable : bool
        Whether ``daskfc resume`` can continue it.
    """

    def __init__(self, folder: Path, sentence: str, resumable: bool) -> None:
        super().__init__(folder, sentence, resumable)
        self.folder = folder
        self.sentence = sentence
        self.resumable = resumable

    def __str__(self) -> str:
        hint = f" Resume with: daskfc resume {self.folder}" if self.resumable else ""
        return f"{self.sentence}{hint}"


def _silent(stage: str, done: int, total: int) -> None:
    """Report progress to nobody."""


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    handler = PrivateLog(path)
    logger = logging.getLogger("daskfc")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()


def _fit(
    federation: Federation, model: BaseEstimator, method: str, seed: int, progress: Progress
) -> Fit:
    stages: list[str] = []

    def told(stage: str, done: int, total: int) -> None:
        if stage not in stages:
            stages.append(stage)
            log.info("%s, seed %d: %s", method, seed, stage)
        progress(f"{method}, seed {seed}: {stage}", done, total)

    federation.on_progress = told
    log.info("%s, seed %d: begins", method, seed)
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        model.fit(federation)
    for warning in noticed:  # for the run's folder, and again for who looks on
        log.warning("%s, seed %d: %s", method, seed, warning.message)
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    log.info("%s, seed %d: done in %.1f s", method, seed, model.timing_.get("total_s", 0.0))
    ledger = ledger_frame(model.ledger_)
    facts = {
        "peak_memory_bytes": {k: int(v) for k, v in federation.peak_memory().items()},
        "note": "sees raw data" if "raw" in set(ledger["protection"]) else "",
        "privacy": privacy_of(type(model)),
        "noise": getattr(model, "privacy_", None),
        "reconstruction": getattr(model, "reconstruction_", None),
    }
    return Fit(method, seed, model.labels_, ledger, model.timing_, facts)


def _fits(
    federation: Federation, pipeline: Pipeline, folder: RunFolder, progress: Progress
) -> list[Fit]:
    shelf = FitShelf(folder.path / "fits")
    fits: list[Fit] = []
    for method in (pipeline.method, *pipeline.compare):
        # One folder a method: seeds share exact distances, methods share nothing.
        federation.workspace = str((folder.path / "work" / folder_name(method)).absolute())
        for seed in pipeline.seeds:
            fit = shelf.get(method, seed)
            if fit is None:
                model = estimator_of(pipeline, method, seed)
                fit = _fit(federation, model, method, seed, progress)
                shelf.put(fit)
            else:
                log.info("%s, seed %d: done before, kept", method, seed)
            fits.append(fit)
    return fits


def _sentence(error: BaseException, folder: RunFolder) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted."
    if isinstance(error, DaskfcError):
        return " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"no space left on the disk of {folder.path}; free some."
    return (
        f"unexpected {type(error).__name__}; the traceback is in {folder.path / 'log.txt'}. "
        "Please report it."
    )


def _resumable(error: BaseException) -> bool:
    # The same input would be refused again; anything else may have been the moment's fault.
    return not isinstance(error, InvalidInput | PrivacyError)


def _record_failure(folder: RunFolder, error: BaseException, elapsed_s: float) -> RunFailed:
    failure = RunFailed(folder.path, _sentence(error, folder), _resumable(error))
    log.error("failed: %s", failure.sentence)
    if not isinstance(error, KeyboardInterrupt):
        log.error("%s", "".join(traceback.format_exception(error)))
    try:
        folder.update(
            status="failed",
            error=failure.sentence,
            resumable=failure.resumable,
            elapsed_s=elapsed_s,
        )
        folder.write_summary(unfinished_summary(folder.record))
        write_report(folder)
    except OSError as full:  # the disk that ended the run may not hold the note about it either
        log.error("the failure could not be recorded: %s", full.strerror)
    return failure


def _write_results(
    folder: RunFolder,
    pipeline: Pipeline,
    fits: list[Fit],
    truth: np.ndarray | None,
    total_s: float,
    evaluation: pd.DataFrame,
) -> None:
    folder.write_labels(labels_cube(fits))
    rows = [fit.ledger.assign(method=fit.method, seed=fit.seed) for fit in fits]
    rows.append(evaluation.assign(method="evaluation", seed=-1))
    folder.write_ledger(pd.concat(rows, ignore_index=True))
    summary = summary_of(folder.record, pipeline, fits, truth, total_s=total_s)
    folder.write_summary(summary)
    folder.update(status="done", error=None, resumable=False)  # last: "done" promises the rest
    write_report(folder)
    # What only a resumed run would need; the server's distances are the data up to a rigid motion.
    for name in ("fits", "work"):
        shutil.rmtree(folder.path / name, ignore_errors=True)


def execute(folder: RunFolder, progress: Progress | None = None) -> None:
    """Run what a folder's ``run.json`` says; fits that are done are kept.

    Parameters
    ----------
    folder : RunFolder
        A run that is not done.
    progress : callable, optional
        ``progress(stage, done, total)``.

    Raises
    ------
    InvalidInput, ClusterError
        When the parties could not be opened: nothing was started, and the folder of a run that
        never started is gone.
    RunFailed
        When anything broke off after that; the folder says whether it can be resumed.
    KeyboardInterrupt
        When it was interrupted; the run can be resumed.
    """
    tell = progress or _silent
    with folder.claim(), _logging_to(folder.path / "log.txt"):
        record = folder.record
        # As if the interruptions had not been: the seconds of all attempts count.
        started = time.monotonic() - float(record.get("elapsed_s", 0.0))
        opened = False
        log.info("run %s begins", record["run_id"])
        try:
            pipeline = load_pipeline(record["pipeline"])
            tell("starting the workers", 0, 0)
            with open_federation(record, pipeline) as federation:
                opened = True
                folder.update(status="running", started=True, error=None, resumable=True)
                folder.write_summary(unfinished_summary(folder.record))
                fits = _fits(federation, pipeline, folder, tell)
                tell("scoring", 0, 0)
                truth = true_labels(federation, fits[0].labels)
                evaluation = ledger_frame(federation.ledger)
            _write_results(folder, pipeline, fits, truth, time.monotonic() - started, evaluation)
        except BaseException as error:
            if isinstance(error, InvalidInput | ClusterError) and not opened:
                if not record.get("started"):
                    shutil.rmtree(folder.path, ignore_errors=True)
                raise
            failure = _record_failure(folder, error, time.monotonic() - started)
            if isinstance(error, Exception):
                raise failure from error
            raise
