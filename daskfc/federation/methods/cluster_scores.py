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
    parts: np.ndarray = array("criterion", "candidate", dtype="float64")  # of which it is made


PARTS: Mapping[str, tuple[str, ...]] = {"silhouette-modularity": ("silhouette", "modularity")}
"""Of criteria that are made of others."""


class Scores(dict[int, float | None]):
    """Scores by number of clusters (larger is better, or None); chance moves them by `errors`.

    `parts` has the scores of the criteria of which this one is made, by name.
    """

    def __init__(
        self,
        scores: Mapping[int, float | None],
        errors: Mapping[int, float] | None = None,
        parts: Mapping[str, Mapping[int, float | None]] | None = None,
    ) -> None:
        super().__init__(scores)
        self.errors = dict(errors or {})
        self.parts = {name: dict(part) for name, part in (parts or {}).items()}


def joined(told: Sequence[ClusterScores]) -> ClusterScores:
    """Return the scores of several messages as one, concatenated in their order."""
    return ClusterScores(
        np.concatenate([one.scores for one in told]),
        np.concatenate([one.errors for one in told]),
        np.concatenate([one.parts for one in told], axis=1),
    )


def scores_told(n_clusters: Sequence[int], told: ClusterScores, by: str) -> Scores:
    """Return a server's scores by number of clusters; one that is not finite becomes None."""

    def finite(scores: np.ndarray) -> dict[int, float | None]:
        pairs = zip(n_clusters, scores.tolist(), strict=True)
        return {k: one if math.isfinite(one) else None for k, one in pairs}

    scores, errors = finite(told.scores), dict(zip(n_clusters, told.errors.tolist(), strict=True))
    return Scores(
        scores,
        {k: errors[k] for k, one in scores.items() if one is not None and errors[k]},
        {name: finite(part) for name, part in zip(PARTS.get(by, ()), told.parts, strict=True)},
    )


def without_errors(scores: np.ndarray, parts: np.ndarray | None = None) -> ClusterScores:
    """Return the message for scores without random error: all errors are 0."""
    none = np.zeros((0, len(scores)))
    return ClusterScores(scores, np.zeros(len(scores)), none if parts is None else parts)
