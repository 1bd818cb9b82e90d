"""Scores of a clustering against known classes: kappa, NMI, ARI, accuracy and macro F1."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import adjusted_rand_score, f1_score, normalized_mutual_info_score

from daskfc.errors import InvalidInput
from daskfc.metrics.matching import contingency, match_labels
from daskfc.naming import correction


def accuracy(true: ArrayLike, pred: ArrayLike) -> float:
    """Return the share of samples, in [0, 1], whose cluster matches their class.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.

    Examples
    --------
    >>> from daskfc.metrics import accuracy
    >>> accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    classes, matched = match_labels(true, pred)
    return float(np.mean(classes == matched))


def kappa(true: ArrayLike, pred: ArrayLike) -> float:
    """Return Cohen's kappa after the best matching of clusters with classes.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.

    Returns
    -------
    float
        ``(p_o - p_e) / (1 - p_e)``, with p_o the accuracy and p_e the agreement by chance;
        1 where both are 1 (a single class and a single cluster).

    Examples
    --------
    >>> from daskfc.metrics import kappa
    >>> kappa([0, 0, 1, 1], [1, 1, 0, 1])
    0.5
    """
    classes, matched = match_labels(true, pred)
    size = int(max(classes.max(), matched.max())) + 1
    n = classes.size
    observed = np.mean(classes == matched)
    shares = np.bincount(classes, minlength=size) / n, np.bincount(matched, minlength=size) / n
    chance = float(shares[0] @ shares[1])
    return 1.0 if chance >= 1.0 else float((observed - chance) / (1.0 - chance))


def nmi(true: ArrayLike, pred: ArrayLike) -> float:
    """Return the mutual information over the arithmetic mean of both entropies, in [0, 1].

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.

    Examples
    --------
    >>> from daskfc.metrics import nmi
    >>> round(nmi([0, 0, 1, 1], [1, 1, 0, 1]), 4)
    0.3437
    """
    _, rows, cols = contingency(true, pred)
    return float(normalized_mutual_info_score(rows, cols, average_method="arithmetic"))


def ari(true: ArrayLike, pred: ArrayLike) -> float:
    """Return the adjusted Rand index, at most 1; 0 is the average of random labels.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.

    Examples
    --------
    >>> from daskfc.metrics import ari
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    _, rows, cols = contingency(true, pred)
    return float(adjusted_rand_score(rows, cols))


def macro_f1(true: ArrayLike, pred: ArrayLike) -> float:
    """Return the mean F1 score over the classes; one without a cluster counts 0.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.

    Examples
    --------
    >>> from daskfc.metrics import macro_f1
    >>> round(macro_f1([0, 0, 1, 1], [1, 1, 0, 1]), 4)
    0.7333
    """
    classes, matched = match_labels(true, pred)
    own = np.arange(int(classes.max()) + 1)  # clusters without a class have numbers beyond
    return float(f1_score(classes, matched, labels=own, average="macro", zero_division=0))


METRICS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "kappa": kappa,
    "nmi": nmi,
    "ari": ari,
    "acc": accuracy,
    "f1": macro_f1,
}


def all_metrics(
    true: ArrayLike, pred: ArrayLike, names: Iterable[str] | None = None
) -> dict[str, float]:
    """Return several scores by name.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.
    names : iterable of str or None, default None
        Of "kappa", "nmi", "ari", "acc", "f1"; None for all.

    Raises
    ------
    InvalidInput
        For an unknown name, and for labels as `contingency`.

    Examples
    --------
    >>> from daskfc.metrics import all_metrics
    >>> all_metrics([0, 0, 1], [1, 1, 0], ["kappa", "acc"])
    {'kappa': 1.0, 'acc': 1.0}
    """
    chosen = list(METRICS) if names is None else list(names)
    unknown = [name for name in chosen if name not in METRICS]
    if unknown:
        raise InvalidInput(
            f"no metric is named {unknown[0]!r}; there are {', '.join(METRICS)}. "
            f"{correction(unknown[0], METRICS)}"
        )
    return {name: METRICS[name](true, pred) for name in chosen}
