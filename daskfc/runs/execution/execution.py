"""Carry out a run: open the parties, fit, score and write, or record why it broke off."""

import logging
import shutil
import time
import traceback
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from daskfc.errors import ClusterError, InvalidInput
from daskfc.federation import Federation
from daskfc.federation.driver.stage import Notice, Stage
from daskfc.runs.execution.fitting import Fits
from daskfc.runs.execution.opening import settle
from daskfc.runs.execution.results import profiles_of, write_results
from daskfc.runs.execution.whole import Whole, steps_of
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.evaluate import NO_METRICS, true_labels
from daskfc.runs.outcome.failures import RunFailed, same_again, sentence_of
from daskfc.runs.outcome.fits import FitShelf
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.summary import unfinished_summary
from daskfc.runs.pipeline.methods import CheckedPipeline
from daskfc.runs.pipeline.parties import Progress, open_federation
from daskfc.runs.report.report import write_report

log = logging.getLogger("daskfc.runs")

_LAST_RESULTS = ".last-results"  # beside the runs: results that the next one may start from


def _end(federation: Federation) -> None:
    """Tell the parties to discard what they keep of the run; a party that is away keeps it."""
    try:
        if federation.run_id is not None:
            federation.end_run()
    except ClusterError as error:
        log.info("not all parties heard of the end of the run: %s", error)


def _record_failure(
    folder: RunFolder, error: BaseException, fits: Fits | None, elapsed_s: float
) -> RunFailed:
    can_go_on = fits is None or fits.can_go_on
    resumable = can_go_on and not same_again(error) and (folder.path / "run.json").exists()
    sentence = sentence_of(error, folder.path)
    if fits is not None and fits.compared:
        sentence = f"{fits.compared}, of the pipeline's 'compare': {sentence}"
    failure = RunFailed(folder.path, sentence, resumable)
    log.error("failed: %s", failure.sentence)
    if not isinstance(error, KeyboardInterrupt):
        log.error("%s", "".join(traceback.format_exception(error)))
    try:
        if fits is not None:
            fits.note()
        folder.update(
            status="failed",
            error=failure.sentence,
            resumable=failure.resumable,
            elapsed_s=elapsed_s,
        )
        folder.write_summary(unfinished_summary(folder.record))
        write_report(folder)
    except (OSError, InvalidInput) as other:  # as of a full disk, which may have ended the run
        log.error("the failure could not be recorded: %s", other)
    return failure


def execute(
    folder: RunFolder,
    record: Mapping[str, Any],
    checked: CheckedPipeline,
    told: Progress,
    *,
    watched: bool = False,
) -> None:
    """Carry out the run of a claimed folder, without repeating fits that are done.

    Where somebody is told of its progress, a plan says how many steps it has.

    Raises InvalidInput or ClusterError if nothing was started; the folder of a run that never
    started is then deleted. Raises RunFailed or KeyboardInterrupt if the run broke off later; its
    folder says whether it can be resumed.
    """
    # The seconds of all attempts count.
    started = time.monotonic() - float(record.get("elapsed_s", 0.0))
    opened = False
    fits: Fits | None = None
    log.info("run %s begins", record["run_id"])
    try:
        pipeline = checked.pipeline
        where = record["cluster"]
        starts = where["cluster"] == "local" or where.get("ssh") or where.get("trusted")
        begins = "starting the workers" if starts else "waiting for the parties"
        told(Stage(begins, share=0.0), 0, 0)
        tell = Whole(told, checked, steps_of(record, checked) if watched else {})
        tell(begins, 0, 0)
        with open_federation(record, checked) as federation:
            opened = True
            tell.follow(federation)
            if pipeline.smallest is not None:
                federation.smallest = pipeline.smallest
            if federation.dashboard_link:
                tell(Notice(f"Dask's dashboard: {federation.dashboard_link}"), 0, 0)
            folder.update(
                status="running",
                started=True,
                error=None,
                resumable=True,
                builds=dict(federation.contract.builds),
            )
            folder.write_summary(unfinished_summary(folder.record))
            work = folder.path / "work"
            federation.workspace = str((work / "opening").absolute())
            others = settle(folder, federation, checked, tell)
            federation.results = str((folder.path.parent / _LAST_RESULTS).absolute())
            shelf = FitShelf(folder.path / "fits", folder.settings)
            fits = Fits(checked, folder, shelf, tell)
            choice = fits.choose(federation)
            if choice is not None:
                others["choice"] = choice.ledger
            found = fits.run(federation)
            federation.on_progress = tell
            truth = NO_METRICS
            if pipeline.metrics:
                tell("scoring", 0, 0)
                federation.workspace = str((work / "evaluation").absolute())
                asked = "metrics" in pipeline.model_fields_set
                with tell.part("evaluation"):
                    truth = true_labels(federation, found[0].labels, asked=asked)
                others["evaluation"] = ledger_frame(federation.ledger)
            with tell.part("profiles") if checked.profile is not None else nullcontext():
                profiles, missing = profiles_of(federation, checked.profile, found[0].labels)
            if missing:
                tell(Notice(f"Note: {missing}"), 0, 0)
            if profiles is not None:
                others["profiles"] = ledger_frame(profiles.ledger)
            _end(federation)
        total_s = time.monotonic() - started
        made = {
            "profiles": {} if profiles is None else profiles.as_dict(),
            "n_clusters_choice": {} if choice is None else choice.as_dict(),
        }
        write_results(folder, fits.checked, found, truth, total_s, others, made, missing)
        tell.end()
    except BaseException as error:
        if isinstance(error, InvalidInput | ClusterError) and not opened:
            if not record.get("started"):
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        if folder.is_done:  # and only then interrupted
            raise
        failure = _record_failure(folder, error, fits, time.monotonic() - started)
        if isinstance(error, Exception):
            raise failure from error
        raise
