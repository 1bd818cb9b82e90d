"""Scores of numbers of clusters, from a server that knows enough to compute them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from daskfc.federation.messages.declaration import Message, array


class ClusterScores(
    Message,
    route="server → caller",
    reveals="to the caller how well each of some numbers of clusters fits the samples",
):
    """The scores by which the number of clusters is chosen."""

    scores: np.ndarray = array("candidate", dtype="float64")  # infinite where there is none
    errors: np.ndarray = array("candidate", dtype="float64")  # by chance; 0 where there is none


class Scores(dict[int, float | None]):
    """Scores by number of clusters (larger is better, or None); chance moves them by `errors`."""

    def __init__(
        self, scores: Mapping[int, float | None], errors: Mapping[int, float] | None = None
    ) -> None:
        super().__init__(scores)
        self.errors = dict(errors or {})


def joined(told: Sequence[ClusterScores]) -> ClusterScores:
    """Return the scores of several messages as one, concatenated in their order."""
    return ClusterScores(
        np.concatenate([one.scores for one in told]), np.concatenate([one.errors for one in told])
    )


def scores_told(n_clusters: Sequence[int], told: ClusterScores) -> Scores:
    """Return a server's scores by number of clusters; one that is not finite becomes None."""
    scores = dict(zip(n_clusters, told.scores.tolist(), strict=True))
    errors = dict(zip(n_clusters, told.errors.tolist(), strict=True))
    return Scores(
        {k: one if math.isfinite(one) else None for k, one in scores.items()},
        {k: errors[k] for k, one in scores.items() if math.isfinite(one) and errors[k]},
    )


def without_errors(scores: np.ndarray) -> ClusterScores:
    """Return the message for scores without random error: all errors are 0."""
    return ClusterScores(scores, np.zeros(len(scores)))
