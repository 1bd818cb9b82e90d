"""Numbers of clusters that a pipeline asks to be chosen from, and by what."""

from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator

from daskfc.checks import integer
from daskfc.errors import InvalidInput

__all__ = ["STABILITY", "candidates_of", "check_choice", "check_seeds"]

STABILITY = "stability"
_MOST = 12  # ours: clusters that "auto" goes up to


def candidates_of(asked: Any, n_samples: int | None = None) -> range | None:
    """Return the numbers of clusters to choose from, or None where ``n_clusters`` is a number.

    "auto" is 2 to 12, at most the number of samples less 1; a list, the least and the most, is
    refused if it ends higher.
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
    """Refuse seeds that cannot show stability: fewer than two, repeated, or not ints >= 0."""
    good = isinstance(seeds, Sequence) and all(integer(0).holds(seed) for seed in seeds)
    if not good or len(set(seeds)) < max(2, len(seeds)):
        raise InvalidInput(
            "stability is told from fits with two different seeds or more, ints of at least 0; got "
            f"{seeds!r}. Give for example [0, 1, 2]."
        )


def check_choice(estimator: BaseEstimator, by: str | None) -> None:
    """Refuse a criterion that an estimator's method lacks, and methods that add noise.

    None is the method's own criterion, or "stability".
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
