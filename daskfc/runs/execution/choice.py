"""Choose the number of clusters without labels: by a criterion of the server or by stability."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Ledger
from daskfc.metrics import ari
from daskfc.runs.outcome.communication import ledger_frame
from daskfc.runs.outcome.fits import Choice
from daskfc.runs.pipeline.methods import STABILITY
from daskfc.secure.prepare import Prepared
from daskfc.seeds import fresh_seed, integer_seed
from daskfc.stores.store.fitted_steps import FittedStep

_GAP = "gap"
SEEDS = 3
"""Fits (ours) that are compared with each other, for each number of clusters."""
_AS_STABLE = 0.02  # ours: adjusted Rand indices that are nearer than this count as equal
_SHARE = 0.1  # ours: shift in deviations of a column; 0.05 separates clear clusters less well

Fitting = Callable[[int, int], tuple[xr.DataArray, pd.DataFrame]]
"""From a number of clusters and a seed to a fit's labels and its messages."""


def choose_n_clusters(
    federation: Federation,
    estimator: BaseEstimator,
    candidates: Sequence[int],
    *,
    by: str | None = None,
    seeds: Sequence[int] = (),
    fitting: Fitting | None = None,
) -> Choice:
    """Choose one of several numbers of clusters, in ascending order, without labels.

    Of equally good numbers the least is taken, with "stability" the largest. "stability" shifts
    features a little, as otherwise a cluster cut in two may be cut alike each time.
    Privacy: the caller learns a score of each number, with "stability" also all fits' labels.
    """
    if by is None:
        by = getattr(estimator, "criterion", None) or STABILITY
    if by != STABILITY:
        scores = estimator.scores_of(federation, list(candidates), by=by)
        errors, parts = getattr(scores, "errors", {}), getattr(scores, "parts", {})
        k = _first_enough(scores, errors) if by == _GAP else _best(scores, by)
        return Choice(k, by, scores, ledger_frame(federation.ledger), errors, parts)
    first = fresh_seed() if estimator.random_state is None else int(estimator.random_state)
    seeds = list(seeds) or list(range(first, first + SEEDS))
    fit = fitting or _fitting_of(federation, estimator)
    # Noise moves each fit already, and is of one sample only where no other's spread moves it.
    shifts = getattr(estimator, "noise", None) is None
    agreement: dict[int, float] = {}
    ledgers: list[pd.DataFrame] = []
    for k in candidates:
        labels = []
        for seed in seeds:
            shifted = _shifted(federation, seed) if shifts else nullcontext()
            with shifted, warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of trial fits
                found, ledger = fit(k, seed)
            labels.append(found.to_numpy())
            ledgers.append(ledger)
        agreement[k] = float(np.mean([ari(a, b) for a, b in combinations(labels, 2)]))
    return Choice(_most_stable(agreement), by, agreement, pd.concat(ledgers, ignore_index=True))


@contextmanager
def _shifted(federation: Federation, seed: int) -> Iterator[None]:
    """Add a small random shift to the features that methods read, after their preparation."""
    before = federation.preparation
    steps = {} if before is None else before.steps
    step = {"step": "jitter", "share": _SHARE, "seed": integer_seed(seed, "jitter")}
    shifted = {name: _before_smoothing(steps.get(name, []), step) for name in federation.clients}
    federation.preparation = Prepared(shifted, Ledger([]))
    try:
        yield
    finally:
        federation.preparation = before


def _before_smoothing(steps: Sequence[FittedStep], step: FittedStep) -> list[FittedStep]:
    """Return steps with one more at their end, or before ``smooth``, which is the last one."""
    at = len(steps) - bool(steps and steps[-1]["step"] == "smooth")
    return [*steps[:at], step, *steps[at:]]


def _fitting_of(federation: Federation, estimator: BaseEstimator) -> Fitting:
    def fit(k: int, seed: int) -> tuple[xr.DataArray, pd.DataFrame]:
        model = clone(estimator).set_params(n_clusters=k, random_state=seed).fit(federation)
        return model.labels_, ledger_frame(model.ledger_)

    return fit


def _told(scores: Mapping[int, float | None], by: str) -> dict[int, float]:
    told = {k: score for k, score in scores.items() if score is not None}
    if not told:
        raise InvalidInput(
            f"no number of clusters from {min(scores)} to {max(scores)} has a score by {by!r}. "
            "Choose by another criterion, or give a number."
        )
    return told


def _best(scores: Mapping[int, float | None], by: str) -> int:
    told = _told(scores, by)
    return max(told, key=lambda k: (told[k], -k))


def _first_enough(scores: Mapping[int, float | None], errors: Mapping[int, float]) -> int:
    """Return the number of clusters by the rule of the gap statistic's authors."""
    told = _told(scores, _GAP)
    for k, after in pairwise(told):
        if told[k] >= told[after] - errors.get(after, 0.0):
            return k
    return list(told)[-1]


def _most_stable(scores: Mapping[int, float]) -> int:
    stable = [k for k, score in scores.items() if score >= max(scores.values()) - _AS_STABLE]
    if len(stable) == len(scores):
        raise InvalidInput(
            f"all numbers of clusters from {min(scores)} to {max(scores)} are as stable over seeds "
            "as each other, which tells none from the others. Widen the range, choose by another "
            "criterion, or give a number."
        )
    return max(stable)
