"""Carry out a run: open the parties, fit, score, write; and say what is left when it breaks off."""

import logging
import shutil
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from daskfc.errors import ClusterError, InvalidInput, PolicyRefused
from daskfc.federation import Federation
from daskfc.federation.driver.agreement import agree_on_pseudonyms
from daskfc.federation.driver.stage import Notice, Stage
from daskfc.federation.identity.pseudonyms import pseudonyms_of
from daskfc.folders import write_private
from daskfc.runs.execution.choice import choose_n_clusters
from daskfc.runs.execution.models import keep_model
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.evaluate import Truth, true_labels
from daskfc.runs.outcome.failures import RunFailed, same_again, sentence_of
from daskfc.runs.outcome.fits import Choice, Fit, FitShelf, folder_name, labels_cube
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.labels import write_tables
from daskfc.runs.outcome.progress_file import KeptProgress
from daskfc.runs.outcome.quality import told_by_one_column
from daskfc.runs.outcome.summary import summary_of, unfinished_summary
from daskfc.runs.pipeline.config import load_pipeline
from daskfc.runs.pipeline.methods import CheckedPipeline, check_pipeline
from daskfc.runs.pipeline.parties import Progress, open_federation
from daskfc.runs.pipeline.promises import privacy_of
from daskfc.runs.report.changes import changes_since
from daskfc.runs.report.figures import thinned
from daskfc.runs.report.report import report_html, write_report
from daskfc.secure.prepare import PreparationWarning
from daskfc.secure.profiles import ClusterProfiles

__all__ = ["execute"]

log = logging.getLogger("daskfc.runs")

_LAST_RESULTS = ".last-results"  # beside the runs: what the next one may start from


def _silent(stage: str, done: int, total: int) -> None:
    """Report progress to nobody."""


class _Fits:
    """The fits of a run, one after the other; those that are done are kept."""

    def __init__(
        self, checked: CheckedPipeline, folder: RunFolder, shelf: FitShelf, progress: Progress
    ) -> None:
        self.checked = checked
        self.folder = folder
        self.progress = progress
        self._shelf = shelf
        self._under_way: BaseEstimator | None = None
        self._noted = True
        self._name = ""
        self._released: dict[str, list[float]] = {}  # by name of the fit, beside the server's list

    @property
    def can_go_on(self) -> bool:
        """Whether the fit under way, if there is one, could be started again."""
        return self._under_way is None or bool(self._under_way.can_start_again())

    def run(self, federation: Federation) -> list[Fit]:
        """Fit every method with every seed, the run's own method first."""
        fits: list[Fit] = []
        for method, estimator in self.checked.estimators.items():
            # One folder a method: seeds share exact distances, methods share nothing.
            work = self.folder.path / "work" / folder_name(method)
            federation.workspace = str(work.absolute())
            for seed in self.checked.pipeline.seeds:
                fits.append(self._kept_or_made(federation, method, method, estimator, seed))
        return fits

    def _kept_or_made(
        self,
        federation: Federation,
        name: str,
        method: str,
        estimator: BaseEstimator,
        seed: int,
        *,
        tried: bool = False,
    ) -> Fit:
        """Return the fit of a name and seed; what is only `tried` is no start of the run's own."""
        fit = self._shelf.get(name, seed)
        if fit is not None:
            if not tried:
                log.info("%s, seed %d: done before, kept", method, seed)
            return fit
        model = clone(estimator).set_params(random_state=seed)
        if not tried:
            self._begin(model, method, seed)
        fit = replace(self._fit(federation, model, method, seed, tried=tried), method=name)
        self._shelf.put(fit)
        if not tried:
            self._under_way = None
            self.note()
        return fit

    def choose(self, federation: Federation) -> Choice | None:
        """Choose the number of clusters where that is asked for; `run` goes on with it."""
        choices, pipeline = self.checked.choices, self.checked.pipeline
        if not choices:
            return None
        method, seed = pipeline.method, pipeline.seeds[0]
        found = self._shelf.get_choice(seed)
        if found is None:
            candidates = list(choices)
            told = f"choosing the number of clusters from {candidates[0]} to {candidates[-1]}"
            log.info("%s", told)
            federation.on_progress = partial(self._tell, told)
            federation.workspace = str((self.folder.path / "work" / "choice").absolute())

            def fitted(k: int, seed: int) -> tuple[xr.DataArray, pd.DataFrame]:
                name = f"{method} of {k}"
                place = self.folder.path / "work" / f"{folder_name(name)}-{seed}"
                federation.workspace = str(place.absolute())
                own = choices[k].own
                fit = self._kept_or_made(federation, name, method, own, seed, tried=True)
                return fit.labels, fit.ledger

            found = choose_n_clusters(
                federation, clone(self.checked.own), candidates, fitting=fitted, **pipeline.choose
            )
            self._shelf.put_choice(found, seed)
        log.info("%d clusters, by %s", found.n_clusters, found.by)
        self.checked = choices[found.n_clusters]
        return found

    def _tell(self, what: str, stage: str, done: int, total: int) -> None:
        self.progress(f"{what}: {stage}", done, total)

    def _begin(self, model: BaseEstimator, method: str, seed: int) -> None:
        self._name = f"{method}, seed {seed}"
        self._released = dict(self.folder.record.get("released", {}))
        model.remember(self._released.get(self._name, ()))
        self._under_way = model

    def note(self) -> None:
        """Keep ``run.json`` true for whoever reads it after this process was killed."""
        changes: dict[str, Any] = {}
        if self.can_go_on != self._noted:
            changes["resumable"] = self._noted = self.can_go_on
        told = list(self._under_way.released) if self._under_way is not None else []
        if told and told != self._released.get(self._name):
            changes["released"] = self._released = {**self._released, self._name: told}
        if changes:
            self.folder.update(**changes)

    def _fit(
        self,
        federation: Federation,
        model: BaseEstimator,
        method: str,
        seed: int,
        *,
        tried: bool = False,
    ) -> Fit:
        stages: list[str] = []

        def told(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages.append(stage)
                log.info("%s, seed %d: %s", method, seed, stage)
            self.note()
            unit = getattr(stage, "unit", "")
            self.progress(Stage(f"{method}, seed {seed}: {stage}", unit), done, total)

        federation.on_progress = told
        log.info("%s, seed %d: begins", method, seed)
        with warnings.catch_warnings(record=True) as noticed:
            warnings.simplefilter("always")
            model.fit(federation)
        notices: list[str] = []
        own = method == self.checked.pipeline.method
        for warning in noticed:  # for the run's folder, and in its summary or again at once
            log.warning("%s, seed %d: %s", method, seed, warning.message)
            if own and issubclass(warning.category, ConvergenceWarning):
                notices.append(str(warning.message))
                continue
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        log.info("%s, seed %d: done in %.1f s", method, seed, model.timing_.get("total_s", 0.0))
        drawn: dict[str, Any] = {}
        if not tried:  # nobody predicts by a fit that only tells how stable its number is
            drawn = self._map(federation, model, method, seed)
            keep_model(self.folder, model, method, seed)
        ledger = ledger_frame(federation.ledger if drawn else model.ledger_)
        facts = {
            "peak_memory_bytes": {k: int(v) for k, v in federation.peak_memory().items()},
            "notices": notices,
            "note": "sees raw data" if "raw" in set(ledger["protection"]) else "",
            "privacy": privacy_of(type(model)),
            "noise": getattr(model, "privacy_", None),
            "released_before": list(model.released_before),
            "reconstruction": getattr(model, "reconstruction_", None),
            "choices": dict(getattr(model, "choices", {})),
            "silhouette": getattr(model, "silhouette_", None),
            "map": drawn,
            "stages": [list(stage) for stage in getattr(model, "stages_", ())],
            "histories": {
                title: {name: thinned(line) for name, line in lines.items()}
                for title, lines in getattr(model, "histories", {}).items()
            },
        }
        return Fit(method, seed, model.labels_, ledger, model.timing_, facts)

    def _map(
        self, federation: Federation, model: BaseEstimator, method: str, seed: int
    ) -> dict[str, Any]:
        """Return the map of the fit that a report shows, where its server can draw one."""
        pipeline = self.checked.pipeline
        shown = (method, seed) == (pipeline.method, pipeline.seeds[0])
        if not (shown and pipeline.map and hasattr(model, "sample_map")):
            return {}
        told = model.sample_map(federation)
        if told is None:
            return {}
        n, count = len(model.labels_), len(told.labels)
        which = f"All {n:,} samples" if n == count else f"{count:,} of {n:,} samples"
        sentence = (
            f"{which}, by {model.mapped_by}: along the two directions in which they differ most, "
            f"which hold {told.share:.0%} of their variance. What lies far apart here is far "
            "apart; what lies close may differ in other directions."
        )
        positions, labels = told.positions.tolist(), told.labels.tolist()
        return {"positions": positions, "labels": labels, "told": sentence}


def _end(federation: Federation) -> None:
    """Tell parties that nothing of the run is needed again; who is away keeps it."""
    try:
        if federation.run_id is not None:
            federation.end_run()
    except ClusterError as error:
        log.info("not all parties heard of the end of the run: %s", error)


def _record_failure(
    folder: RunFolder, error: BaseException, fits: _Fits | None, elapsed_s: float
) -> RunFailed:
    can_go_on = fits is None or fits.can_go_on
    resumable = can_go_on and not same_again(error) and (folder.path / "run.json").exists()
    failure = RunFailed(folder.path, sentence_of(error, folder.path), resumable)
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
    except (OSError, InvalidInput) as other:  # the disk that ended the run may not hold its end
        log.error("the failure could not be recorded: %s", other)
    return failure


def _write_results(
    folder: RunFolder,
    checked: CheckedPipeline,
    fits: list[Fit],
    truth: Truth,
    total_s: float,
    others: Mapping[str, pd.DataFrame],
    made: Mapping[str, Any],
) -> None:
    cube = labels_cube(fits)
    rows = [fit.ledger.assign(method=fit.method, seed=fit.seed) for fit in fits]
    rows += [ledger.assign(method=name, seed=-1) for name, ledger in others.items() if len(ledger)]
    every = pd.concat(rows, ignore_index=True)
    prepared = others.get("preparation")
    found = summary_of(folder.record, checked, fits, truth, total_s=total_s, preparation=prepared)
    changes = changes_since(
        folder.record,
        fits[0].labels,
        made["profiles"],
        by_rows=checked.own.split == "samples",
    )
    found["quality"]["warnings"] += told_by_one_column(made["profiles"])
    summary = {**found, **made, "changes": changes}
    done = {"status": "done", "error": None, "resumable": False}
    page = report_html({**folder.record, **done}, summary, every)
    write_tables(folder, cube["labels"])
    folder.write_labels(cube)
    folder.write_ledger(every)
    folder.write_summary(summary)
    folder.write_text("report.html", page)
    folder.update(**done)  # last: "done" promises the rest


def execute(folder: RunFolder, progress: Progress | None = None) -> None:
    """Run what a folder's ``run.json`` says; fits that are done are kept.

    InvalidInput or ClusterError: nothing was started, and the folder of a run that never started is
    deleted. RunHeld: another process runs it. RunFailed or KeyboardInterrupt: it broke off later,
    and the folder says whether it can be resumed.
    """
    tell = KeptProgress(folder.path, progress or _silent)
    with folder.claim():
        record = folder.record
        if record["status"] == "done":
            folder.drop_work()  # if it was killed just after it was done
            raise InvalidInput(
                f"{folder.path}: the run is done; there is nothing to resume. See: daskfc report "
                f"{folder.path}"
            )
        folder.check_unedited()
        try:
            with folder.logging():
                _carry_out(folder, record, tell)
        finally:
            # What only a resumed run would need; the server's distances are the data up to a
            # rigid motion.
            if folder.is_done:
                try:
                    folder.drop_work()
                finally:
                    folder.drop_work()  # in case an interrupt cut the first short


def _name_samples(
    folder: RunFolder, federation: Federation, checked: CheckedPipeline
) -> pd.DataFrame:
    """Settle by what names the run's folder knows samples; return all messages so far.

    A run that is resumed has the names of its first start, and the messages by which clients that
    share samples agreed on them.
    """
    names = pseudonyms_of(folder.record.get("pseudonyms"))
    federation.pseudonyms = names
    agreed = folder.path / "fits" / "agreement.parquet"
    if names is None or all(one.split == "samples" for one in checked.estimators.values()):
        return ledger_frame(federation.opening_ledger)
    if not names.keys:
        agree_on_pseudonyms(federation)
        assert federation.pseudonyms is not None
        agreed.parent.mkdir(exist_ok=True)
        opening = ledger_frame(federation.opening_ledger)
        write_private(agreed, opening.to_parquet(index=False), overwrite=True)
        folder.update(pseudonyms=federation.pseudonyms.as_dict())
        return opening
    again = ledger_frame(federation.opening_ledger)
    try:
        kept = pd.read_parquet(agreed)
        # pandas is about to change what an empty table does to the types of the others
        return pd.concat([kept, again], ignore_index=True) if len(again) else kept
    except (OSError, ValueError):  # pyarrow's own errors are either
        log.warning("the messages by which clients agreed on pseudonyms are lost")
        return again


def _profiles_of(
    federation: Federation, checked: CheckedPipeline, labels: xr.DataArray
) -> tuple[ClusterProfiles | None, str]:
    """Describe the clusters of a first fit where the pipeline asks for it, or say who refuses."""
    if checked.profile is None:
        return None, ""
    federation.report_progress("describing the clusters", 0, 0)
    try:
        return checked.profile.fit(federation, labels), ""
    except PolicyRefused as error:  # a site's; the labels stay usable then
        return None, f"clusters are not described: {error}"


def _carry_out(folder: RunFolder, record: Mapping[str, Any], tell: Progress) -> None:
    # As if the interruptions had not been: the seconds of all attempts count.
    started = time.monotonic() - float(record.get("elapsed_s", 0.0))
    opened = False
    fits: _Fits | None = None
    log.info("run %s begins", record["run_id"])
    try:
        pipeline = load_pipeline(record["pipeline"])
        checked = check_pipeline(pipeline, n_samples=record.get("n_samples"))
        tell("starting the workers", 0, 0)
        with open_federation(record, checked) as federation:
            opened = True
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
            others = {"opening": _name_samples(folder, federation, checked)}
            prepare = checked.prepare
            if prepare.steps:
                tell("preparing the features", 0, 0)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PreparationWarning)  # said in the summary
                    prepared = prepare.fit(federation)
                for sentence in prepared.warnings:
                    tell(Notice(f"Note: {sentence}"), 0, 0)
                said = dict.fromkeys([*record.get("warnings", ()), *prepared.warnings])
                folder.update(prepared=prepared.steps, warnings=list(said))
                others["preparation"] = ledger_frame(prepared.ledger)
                federation.preparation = prepared
            federation.results = str((folder.path.parent / _LAST_RESULTS).absolute())
            shelf = FitShelf(folder.path / "fits", folder.settings)
            fits = _Fits(checked, folder, shelf, tell)
            choice = fits.choose(federation)
            if choice is not None:
                others["choice"] = choice.ledger
            found = fits.run(federation)
            truth = Truth(None, missing="the pipeline asks for no metrics.")
            if pipeline.metrics:
                tell("scoring", 0, 0)
                federation.workspace = str((work / "evaluation").absolute())
                truth = true_labels(federation, found[0].labels)
                others["evaluation"] = ledger_frame(federation.ledger)
            profiles, missing = _profiles_of(federation, checked, found[0].labels)
            if missing:
                tell(Notice(f"Note: {missing}"), 0, 0)
                folder.update(warnings=[*folder.record.get("warnings", ()), missing])
            if profiles is not None:
                others["profiles"] = ledger_frame(profiles.ledger)
            _end(federation)
        total_s = time.monotonic() - started
        made = {
            "profiles": {} if profiles is None else profiles.as_dict(),
            "n_clusters_choice": {} if choice is None else choice.as_dict(),
        }
        _write_results(folder, fits.checked, found, truth, total_s, others, made)
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
