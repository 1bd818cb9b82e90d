"""Fit every method of a run with every seed, without repeating fits that are done."""

import logging
import warnings
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from daskfc.errors import PolicyRefused
from daskfc.federation import Federation
from daskfc.federation.driver.stage import Stage
from daskfc.runs.execution.choice import choose_n_clusters
from daskfc.runs.execution.models import keep_model
from daskfc.runs.execution.whole import Whole, choice_of
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.fits import Choice, Fit, FitShelf, folder_name
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.pipeline.methods import CheckedPipeline
from daskfc.runs.pipeline.promises import privacy_of
from daskfc.runs.report.figures import thinned

log = logging.getLogger("daskfc.runs")


class Fits:
    """The fits of a run, one after the other; finished fits are kept."""

    def __init__(
        self, checked: CheckedPipeline, folder: RunFolder, shelf: FitShelf, progress: Whole
    ) -> None:
        self.checked = checked
        self.folder = folder
        self.progress = progress
        self._shelf = shelf
        self._under_way: BaseEstimator | None = None
        self._noted = True
        self._name = self.compared = ""  # a fit; a method of `compare` that is under way
        self._released: dict[str, list[float]] = {}  # noise multipliers, by name of the fit

    @property
    def can_go_on(self) -> bool:
        """Whether the fit under way, if there is one, could be started again."""
        return self._under_way is None or bool(self._under_way.can_start_again())

    def run(self, federation: Federation) -> list[Fit]:
        """Fit every method with every seed, the run's own method first.

        A method of `compare` that a site refuses is left out, and a notice says so.
        """
        fits: list[Fit] = []
        refused: list[str] = []
        for method, estimator in self.checked.estimators.items():
            # One folder a method: seeds share exact distances, methods share nothing.
            self.compared = "" if method == self.checked.pipeline.method else method
            work = self.folder.path / "work" / folder_name(method)
            federation.workspace = str(work.absolute())
            seeds = self.checked.pipeline.seeds
            try:
                fits += [self._kept_or_made(federation, method, estimator, s) for s in seeds]
            except PolicyRefused as error:
                if not self.compared:
                    raise
                self._under_way = None
                refused.append(f"{method}, of the pipeline's 'compare', is left out: {error}")
                log.warning("%s", refused[-1])
        self.compared = ""
        told = [*fits[0].facts.get("notices", ()), *refused]
        return [replace(fits[0], facts={**fits[0].facts, "notices": told}), *fits[1:]]

    def _kept_or_made(
        self, federation: Federation, method: str, model: BaseEstimator, seed: int, tried: str = ""
    ) -> Fit:
        """Return a stored or new fit; a trial, stored as `tried`, is not a start of the run."""
        fit = self._shelf.get(tried or method, seed)
        if fit is not None:
            log.info("%s, seed %d: done before, kept", tried or method, seed)
            self.progress.skip(method)
            return fit
        model = clone(model).set_params(random_state=seed)
        if not tried:
            self._begin(model, method, seed)
        with self.progress.part(method):
            made = self._fit(federation, model, method, seed, tried=bool(tried))
        fit = replace(made, method=tried or method)
        self._shelf.put(fit)
        if not tried:
            self._under_way = None
            self.note()
        return fit

    def choose(self, federation: Federation) -> Choice | None:
        """Choose the number of clusters if the pipeline asks for it; `run` then uses it."""
        choices, pipeline = self.checked.choices, self.checked.pipeline
        if not choices:
            return None
        method, seed = pipeline.method, pipeline.seeds[0]
        found, fits = self._shelf.get_choice(seed), choice_of(self.checked)
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
                fit = self._kept_or_made(federation, method, choices[k].own, seed, tried=name)
                return fit.labels, fit.ledger

            own = clone(self.checked.own)
            with self.progress.part("choice") if "choice" in fits else nullcontext():
                found = choose_n_clusters(
                    federation, own, candidates, fitting=fitted, **pipeline.choose
                )
            self._shelf.put_choice(found, seed)
        else:
            for part, n in fits.items():
                self.progress.skip(part, n)
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
        """Update ``run.json``, so that it is right even if this process is killed."""
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
        for warning in noticed:  # to the run's log, and to its summary or the caller
            log.warning("%s, seed %d: %s", method, seed, warning.message)
            if own and issubclass(warning.category, ConvergenceWarning):
                notices.append(str(warning.message))
                continue
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        log.info("%s, seed %d: done in %.1f s", method, seed, model.timing_.get("total_s", 0.0))
        drawn: dict[str, Any] = {}
        if not tried:  # trial fits measure stability and never predict
            drawn = self._map(federation, model, method, seed)
            keep_model(self.folder, model, method, seed)
        ledger = ledger_frame(federation.ledger if drawn else model.ledger_)
        facts = {
            "peak_memory_bytes": {k: int(v) for k, v in federation.peak_memory().items()},
            "notices": notices,
            "note": "sees raw data" if "raw" in set(ledger["protection"]) else "",
            "privacy": privacy_of(model),
            "noise": getattr(model, "privacy_", None),
            "released_before": list(model.released_before),
            "reconstruction": getattr(model, "reconstruction_", None),
            "choices": dict(getattr(model, "choices", {})),
            "silhouette": getattr(model, "silhouette_", None),
            "modularity": getattr(model, "modularity_", None),
            "silhouettes": getattr(model, "silhouettes_", {}),
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
        """Return the map of the fit that a report shows, if its server can draw one."""
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
            f"{which}, by {model.mapped_by}: their first two principal components (PCA), which "
            f"hold {told.share:.0%} of their variance. What lies far apart here is far apart; "
            "what lies close may differ in other directions."
        )
        positions, labels = told.positions.tolist(), told.labels.tolist()
        return {"positions": positions, "labels": labels, "told": sentence}
