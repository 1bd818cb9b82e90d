"""The number of clusters, chosen without labels: by what a server knows, or by stability."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from daskfc.checks import integer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Ledger
from daskfc.metrics import ari
from daskfc.runs.communication import ledger_frame
from daskfc.runs.fits import Fit, FitShelf
from daskfc.secure.prepare import Prepared
from daskfc.seeds import fresh_seed, integer_seed

__all__ = [
    "STABILITY",
    "Choice",
    "candidates_of",
    "check_choice",
    "check_seeds",
    "choose_n_clusters",
    "keep_choice",
    "kept_choice",
]

STABILITY = "stability"
_GAP = "gap"
_MOST = 12  # ours: clusters that "auto" goes up to
_SEEDS = 3  # ours: fits of a number of clusters that are compared with each other
_AS_STABLE = 0.02  # ours: adjusted Rand indices that are nearer than this count as equal
_SHARE = 0.1  # ours: of a column's deviation; 0.05 tells clear clusters less well
_KEPT = "choice of n_clusters"  # its name among a run's fits
_WHY = {
    "silhouette": "how much nearer samples are to their own cluster than to the next one, from "
    "the server's distances",
    "calinski-harabasz": "variance between clusters over variance within, from the server's "
    "distances",
    "eigengap": "the gap after as many eigenvalues of the Laplacian of the samples' graph or "
    "similarities, which the server has",
    _GAP: "how much tighter clusters are than those of uniform samples; the least number whose gap "
    "is that of the next one or more, but for the next one's error by chance, and else the largest",
    STABILITY: "how well fits agree (adjusted Rand index) with other seeds, and with features "
    "shifted by chance by a tenth of their deviation; of numbers that are as stable, the largest",
}

Fitting = Callable[[int, int], tuple[xr.DataArray, pd.DataFrame]]
"""From a number of clusters and a seed to a fit's labels and its messages."""


@dataclass(frozen=True)
class Choice:
    """A number of clusters, and what it was chosen by.

    Attributes
    ----------
    n_clusters : int
        The chosen one.
    by : str
        The criterion.
    scores : mapping of int to float or None
        Of every number that was tried, the larger the better; None where it has no score.
    ledger : pandas.DataFrame
        Every message that the choice took, one row each.
    errors : mapping of int to float
        How far chance moves scores, where it does and that is known.

    Examples
    --------
    >>> import pandas as pd
    >>> from daskfc.runs.choice import Choice
    >>> Choice(3, "silhouette", {2: 0.5, 3: 0.75}, pd.DataFrame()).as_dict()["scores"]
    {'2': 0.5, '3': 0.75}
    """

    n_clusters: int
    by: str
    scores: Mapping[int, float | None]
    ledger: pd.DataFrame
    errors: Mapping[int, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: ``n_clusters``, ``by``, ``why``, ``scores``, ``errors``."""
        return {
            "n_clusters": self.n_clusters,
            "by": self.by,
            "why": _WHY.get(self.by, ""),
            "scores": {str(k): score for k, score in self.scores.items()},
            "errors": {str(k): error for k, error in self.errors.items()},
        }


def candidates_of(asked: Any, n_samples: int | None = None) -> range | None:
    """Return the numbers of clusters to choose from, where a choice is asked for.

    Parameters
    ----------
    asked : object
        The parameter ``n_clusters``: "auto" for 2 to 12, or a list of the least and the most.
    n_samples : int, optional
        Where it is known.

    Returns
    -------
    range or None
        None for anything that is no question, as a number.

    Raises
    ------
    InvalidInput
        For a range that cannot be.

    Examples
    --------
    >>> from daskfc.runs.choice import candidates_of
    >>> candidates_of("auto", n_samples=5), candidates_of([2, 4]), candidates_of(3)
    (range(2, 5), range(2, 5), None)
    """
    if isinstance(asked, str):
        if asked != "auto":
            raise InvalidInput(
                "the 'n_clusters' parameter must be a number, 'auto', or a list of the least and "
                f"the most, as [2, 12]; got {asked!r}. Correct it."
            )
        low, high = 2, _MOST if n_samples is None else min(_MOST, n_samples - 1)
    elif isinstance(asked, Sequence):
        ends = list(asked)
        if len(ends) != 2 or not all(integer(2).holds(end) for end in ends) or ends[0] >= ends[1]:
            raise InvalidInput(
                "a range of 'n_clusters' must be a list of two ints, the least of at least 2 and "
                f"the most above it; got {asked!r}. Write for example [2, 12]."
            )
        low, high = ends
    else:
        return None
    if n_samples is not None and (high >= n_samples or high < low):
        raise InvalidInput(
            f"a range of 'n_clusters' must end below the number of samples, {n_samples}; got "
            f"[{low}, {high}]. Lower it, or add samples."
        )
    return range(low, high + 1)


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that stability cannot be told from.

    Raises
    ------
    InvalidInput
        For fewer than two, for one twice, and for anything but ints of at least 0.
    """
    good = isinstance(seeds, Sequence) and all(integer(0).holds(seed) for seed in seeds)
    if not good or len(set(seeds)) < max(2, len(seeds)):
        raise InvalidInput(
            "stability is told from fits with two different seeds or more, ints of at least 0; got "
            f"{seeds!r}. Give for example [0, 1, 2]."
        )


def check_choice(estimator: BaseEstimator, by: str | None) -> None:
    """Refuse a choice that an estimator's method cannot make.

    Parameters
    ----------
    estimator : BaseEstimator
        With any number of clusters.
    by : str, optional
        The criterion; by default the method's own, or "stability".

    Raises
    ------
    InvalidInput
        For a criterion that the method cannot know, and for methods that add noise.

    Examples
    --------
    >>> from daskfc import FedSC
    >>> from daskfc.runs.choice import check_choice
    >>> check_choice(FedSC(2), "silhouette")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: a number of clusters of FedSC cannot be chosen by 'silhouette'; it \
can be by 'eigengap', 'stability'. Choose by that, or leave the criterion out.
    """
    name = type(estimator).__name__
    known = (*getattr(estimator, "criteria", ()), STABILITY)
    if by is not None and by not in known:
        raise InvalidInput(
            f"a number of clusters of {name} cannot be chosen by {by!r}; it can be by "
            f"{', '.join(map(repr, known))}. Choose by that, or leave the criterion out."
        )
    if getattr(estimator, "noise", None):
        raise InvalidInput(
            f"a number of clusters of {name} with noise cannot be chosen by trying some: every "
            "fit is a release of its own. Give one number, or leave the noise out."
        )


def choose_n_clusters(
    federation: Federation,
    estimator: BaseEstimator,
    candidates: Sequence[int],
    *,
    by: str | None = None,
    seeds: Sequence[int] = (),
    fitting: Fitting | None = None,
) -> Choice:
    """Choose a number of clusters without looking at labels.

    Parameters
    ----------
    federation : Federation
        The parties, running.
    estimator : BaseEstimator
        The method with its parameters, and any number of clusters.
    candidates : sequence of int
        Two numbers or more, ascending, each of at least 2.
    by : str, optional
        "stability", or one of the estimator's `criteria`; by default its `criterion`. What these
        score is made once for all candidates; stability takes as many fits of each as there are
        seeds.
    seeds : sequence of int, optional
        Two or more, that fits are compared over; by default the estimator's and the next two. Each
        shifts all features by chance of a tenth of their deviation: without that, a cluster that is
        cut in two may be cut alike each time.
    fitting : callable, optional
        How to fit, where fits are kept; by default `fit` of a copy of the estimator.

    Returns
    -------
    Choice
        Of the best score, and of the least number among equal ones; with "stability" the largest of
        the numbers that are within 0.02 of the best; with "gap" the least number whose gap is at
        least that of the next one less its error, or the largest number where there is none.

    Raises
    ------
    InvalidInput
        For a criterion that the method cannot know, and where it tells none of the numbers from the
        others.

    Notes
    -----
    Privacy: the caller learns a score of each number; with "stability" the labels of every fit, of
    which each says of its samples what one fit says.

    Examples
    --------
    >>> from daskfc import Federation, OmniFC  # doctest: +SKIP
    >>> from daskfc.runs.choice import choose_n_clusters  # doctest: +SKIP
    >>> with Federation.local("storage/wine.yaml") as federation:  # doctest: +SKIP
    ...     choice = choose_n_clusters(federation, OmniFC(2, clusterer="k-means"), range(2, 7))
    ...     choice.n_clusters, choice.scores
    """
    check_choice(estimator, by)
    if by is None:
        by = getattr(estimator, "criterion", None) or STABILITY
    if by != STABILITY:
        scores = estimator.scores_of(federation, list(candidates), by=by)
        errors = getattr(scores, "errors", {})
        k = _first_enough(scores, errors) if by == _GAP else _best(scores, by)
        return Choice(k, by, scores, ledger_frame(federation.ledger), errors)
    first = fresh_seed() if estimator.random_state is None else int(estimator.random_state)
    seeds = list(seeds) or list(range(first, first + _SEEDS))
    check_seeds(seeds)
    fit = fitting or _fitting_of(federation, estimator)
    agreement: dict[int, float] = {}
    ledgers: list[pd.DataFrame] = []
    for k in candidates:
        labels = []
        for seed in seeds:
            with _shifted(federation, seed), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of what is only tried
                found, ledger = fit(k, seed)
            labels.append(found.to_numpy())
            ledgers.append(ledger)
        agreement[k] = float(np.mean([ari(a, b) for a, b in combinations(labels, 2)]))
    return Choice(_most_stable(agreement), by, agreement, pd.concat(ledgers, ignore_index=True))


@contextmanager
def _shifted(federation: Federation, seed: int) -> Iterator[None]:
    """Have methods read features that chance has shifted a little, after their preparation."""
    before = federation.preparation
    steps = {} if before is None else before.steps
    step = {"step": "jitter", "share": _SHARE, "seed": integer_seed(seed, "jitter")}
    federation.preparation = Prepared(
        {name: [*steps.get(name, []), step] for name in federation.clients}, Ledger([])
    )
    try:
        yield
    finally:
        federation.preparation = before


def keep_choice(shelf: FitShelf, choice: Choice, seed: int) -> None:
    """Keep a choice beside a run's fits, so that a resumed run goes on with it.

    Parameters
    ----------
    shelf : FitShelf
        Where.
    choice : Choice
        What was chosen.
    seed : int
        The run's first.
    """
    none = np.empty(0, dtype=str)
    coords = {"client": ("sample", none), "sample_id": ("sample", none)}
    labels = xr.DataArray(np.empty(0, dtype=np.int64), dims="sample", coords=coords)
    shelf.put(Fit(_KEPT, seed, labels, choice.ledger, {}, choice.as_dict()))


def kept_choice(shelf: FitShelf, seed: int) -> Choice | None:
    """Return the choice that was kept, or None.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from daskfc.runs.choice import Choice, keep_choice, kept_choice
    >>> from daskfc.runs.fits import FitShelf
    >>> shelf = FitShelf(tempfile.mkdtemp())
    >>> keep_choice(shelf, Choice(3, "silhouette", {2: None, 3: 0.75}, pd.DataFrame()), 0)
    >>> kept_choice(shelf, 0).scores
    {2: None, 3: 0.75}
    """
    fit = shelf.get(_KEPT, seed)
    if fit is None:
        return None
    scores, errors = (
        {int(k): value for k, value in fit.facts.get(name, {}).items()}
        for name in ("scores", "errors")
    )
    return Choice(fit.facts["n_clusters"], fit.facts["by"], scores, fit.ledger, errors)


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
    """Return the number of clusters that the gap statistic's authors take."""
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
