"""What numbers of clusters are worth to a server that knows enough to tell."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from daskfc.federation.messages import Message, array

__all__ = ["ClusterScores", "Scores", "joined", "scores_told", "without_errors"]


class ClusterScores(
    Message,
    route="server → caller",
    reveals="to the caller how well each of some numbers of clusters fits the samples",
):
    """What the number of clusters is chosen by."""

    scores: np.ndarray = array("candidate", dtype="float64")  # infinite where there is none
    errors: np.ndarray = array("candidate", dtype="float64")  # by chance; 0 where it has no part


class Scores(dict[int, float | None]):
    """Scores of numbers of clusters, the larger the better; None where there is no score.

    Parameters
    ----------
    scores : mapping of int to float or None
        By the number of clusters.
    errors : mapping of int to float, optional
        How far chance moves them, where it does.

    Examples
    --------
    >>> from daskfc.federation.cluster_scores import Scores
    >>> scores = Scores({2: 0.5, 3: None}, errors={2: 0.125})
    >>> scores[2], scores[3], scores.errors
    (0.5, None, {2: 0.125})
    """

    def __init__(
        self, scores: Mapping[int, float | None], errors: Mapping[int, float] | None = None
    ) -> None:
        super().__init__(scores)
        self.errors = dict(errors or {})


def joined(told: Sequence[ClusterScores]) -> ClusterScores:
    """Return what was told of several numbers of clusters, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation.cluster_scores import joined, without_errors
    >>> joined([without_errors(np.array([0.5])), without_errors(np.array([0.25]))]).scores.tolist()
    [0.5, 0.25]
    """
    return ClusterScores(
        np.concatenate([one.scores for one in told]), np.concatenate([one.errors for one in told])
    )


def scores_told(n_clusters: Sequence[int], told: ClusterScores) -> Scores:
    """Return what a server told of some numbers of clusters; what is not finite is no score.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation.cluster_scores import scores_told, without_errors
    >>> scores_told([2, 3], without_errors(np.array([0.5, np.inf])))
    {2: 0.5, 3: None}
    """
    scores = dict(zip(n_clusters, told.scores.tolist(), strict=True))
    errors = dict(zip(n_clusters, told.errors.tolist(), strict=True))
    return Scores(
        {k: one if math.isfinite(one) else None for k, one in scores.items()},
        {k: errors[k] for k, one in scores.items() if math.isfinite(one) and errors[k]},
    )


def without_errors(scores: np.ndarray) -> ClusterScores:
    """Return the message with scores that chance has no part in.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.federation.cluster_scores import without_errors
    >>> without_errors(np.array([0.5, 0.25])).errors.tolist()
    [0.0, 0.0]
    """
    return ClusterScores(scores, np.zeros(len(scores)))
