"""The share of a whole run that is done, by the steps that its plan has."""

import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from daskfc.deploy import load_cluster
from daskfc.federation import Federation
from daskfc.federation.driver.stage import Notice, Stage
from daskfc.runs.execution.choice import SEEDS
from daskfc.runs.pipeline.methods import STABILITY, CheckedPipeline
from daskfc.runs.pipeline.parties import Progress
from daskfc.runs.planning.plan import planned_steps
from daskfc.stores import ClientStore

log = logging.getLogger("daskfc.runs")

_LARGEST = 100_000_000  # ours: values in all stores; a plan reads them once
_NOT_OVER = 0.99  # ours: the most of a run that goes on, which no rounding shows as 100 %


class Whole:
    """Pass progress on with the share of the run that is done, which never falls.

    `steps` are those of one fit of each part. A part without some weighs as much as the mean of the
    others; its first fit counts once it is over, and shows how many steps the next one has.
    """

    def __init__(self, told: Progress, checked: CheckedPipeline, steps: Mapping[str, int]) -> None:
        self._told = told
        self._steps = {name: n for name, n in steps.items() if n}
        self._planned = dict(self._steps)
        self._all = sum(n * self._weight(name) for name, n in _fits_of(checked).items())
        self._over = self._share = 0.0
        self._part, self._before = "", 0
        self._federation: Federation | None = None
        self._last: tuple[Stage, int, int] | None = None

    def follow(self, federation: Federation) -> None:
        """Count the steps of a federation from now on."""
        self._federation = federation

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what is done meanwhile as one fit of a part."""
        self._part, self._before = name, self._n_done()
        yield
        self._steps.setdefault(name, max(self._n_done() - self._before, 1))
        self.skip(name)

    def skip(self, name: str, n: int = 1) -> None:
        """Count fits of a part as done."""
        self._over, self._part = self._over + n * self._weight(name), ""

    def end(self) -> None:
        """Tell that the run is over, in its last stage."""
        if self._last is not None:
            stage, done, total = self._last
            self._told(Stage(stage, stage.unit, 1.0), done, total)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Report how far a stage is, and the run."""
        if not isinstance(stage, Notice):
            stage = Stage(stage, getattr(stage, "unit", ""), self._now())
            self._last = stage, done, total
        self._told(stage, done, total)

    def _weight(self, name: str) -> float:
        known = self._planned
        return known.get(name, sum(known.values()) / len(known) if known else 1.0)

    def _n_done(self) -> int:
        return 0 if self._federation is None else self._federation.n_results

    def _now(self) -> float:
        share = self._over
        if self._part in self._steps:
            done = (self._n_done() - self._before) / self._steps[self._part]
            share += min(done, 1.0) * self._weight(self._part)
        self._share = max(self._share, min(share / self._all, _NOT_OVER))
        return self._share


def choice_of(checked: CheckedPipeline) -> Mapping[str, int]:
    """Return the part to which the choice of a number of clusters belongs, and its fits."""
    asked, own = checked.pipeline.choose, getattr(checked.own, "criterion", None)
    if (asked.get("by") or own or STABILITY) != STABILITY:
        return {"choice": 1}
    seeds = len(asked.get("seeds") or range(SEEDS))
    return {checked.pipeline.method: len(checked.choices) * seeds}


def _fits_of(checked: CheckedPipeline) -> Mapping[str, int]:
    """Return how many fits of each part a run has."""
    pipeline, fits = checked.pipeline, Counter[str]()
    if checked.choices:
        fits.update(choice_of(checked))
    fits.update(dict.fromkeys(checked.estimators, len(pipeline.seeds)))
    fits["preparation"] = int(bool(checked.prepare.steps))
    fits["evaluation"] = int(bool(pipeline.metrics))
    fits["profiles"] = int(checked.profile is not None)
    return fits


def steps_of(record: Mapping[str, Any], checked: CheckedPipeline) -> dict[str, int]:
    """Return the steps of one fit of each part, as far as they are known before a run starts."""
    cluster = load_cluster(record["cluster"])
    if cluster.cluster != "local":
        return {}
    try:
        named = record["storage"]["clients"]
        stores = {name: ClientStore.open(client["store"]) for name, client in named.items()}
        if sum(store.n_samples * store.n_features for store in stores.values()) > _LARGEST:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run says them
            return planned_steps(checked, stores, cluster)
    except Exception as error:  # whatever ends the plan, the run itself meets and tells
        log.info("the share of the whole is not known (%s)", type(error).__name__)
        return {}
