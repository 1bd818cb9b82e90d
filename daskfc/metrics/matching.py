"""The best one-to-one matching of predicted clusters with true classes."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from daskfc.arrays import Ints
from daskfc.errors import InvalidInput


def _codes(labels: ArrayLike, whose: str) -> Ints:
    values = np.asarray(labels)
    if values.ndim != 1 or values.size == 0:
        raise InvalidInput(
            f"the {whose} labels must be one-dimensional and not empty; got shape {values.shape}. "
            f"Flatten them or check what was clustered."
        )
    try:
        codes: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
        given = np.asarray(labels, dtype=object)  # of which NumPy would make words, and a class
        unlike = bool(pd.isna(given).any())
    except TypeError:
        unlike = True
    if unlike:
        raise InvalidInput(
            f"the {whose} labels must be all numbers or all words; they are not of one kind. Fill "
            "in those that are missing, or leave their samples out."
        )
    return codes


def contingency(true: ArrayLike, pred: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Count samples by true class and predicted cluster.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels of any sort; noise (-1) is a cluster of its own.

    Returns
    -------
    table : ndarray of shape (n_classes, n_clusters), int64
        Counts, in sorted order of the labels.
    true_codes, pred_codes : ndarray of shape (n,), int64
        Labels as numbers of rows and columns of the table.

    Raises
    ------
    InvalidInput
        For labels that are empty, not one-dimensional, of two kinds, or of two lengths.

    Examples
    --------
    >>> from daskfc.metrics import contingency
    >>> contingency([0, 0, 1], [5, 5, -1])[0].tolist()
    [[0, 2], [1, 0]]
    """
    rows, cols = _codes(true, "true"), _codes(pred, "predicted")
    if rows.size != cols.size:
        raise InvalidInput(
            f"true and predicted labels must be of one length; got {rows.size} and {cols.size}. "
            f"Give one label of each kind for every sample."
        )
    shape = (int(rows.max()) + 1, int(cols.max()) + 1)
    flat = np.bincount(rows * shape[1] + cols, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.int64), rows, cols


def match_labels(true: ArrayLike, pred: ArrayLike) -> tuple[Ints, Ints]:
    """Give predicted clusters the numbers of the true classes that they match best.

    The matching is one-to-one and maximises the number of samples that agree (the Hungarian
    method); among equal ones it has the smallest agreement by chance, so that kappa is unique.

    Parameters
    ----------
    true, pred : array_like of shape (n,)
        Labels; noise (-1) is a cluster of its own.

    Returns
    -------
    classes : ndarray of shape (n,), int64
        True classes as 0, 1, ... in sorted order.
    matched : ndarray of shape (n,), int64
        Matched classes; clusters beyond the number of classes have numbers from n_classes on, and
        match no class.

    Raises
    ------
    InvalidInput
        As `contingency`.

    Examples
    --------
    >>> from daskfc.metrics import match_labels
    >>> match_labels([0, 0, 1, 1], [7, 7, 3, 4])[1].tolist()
    [0, 0, 1, 2]
    """
    table, rows, cols = contingency(true, pred)
    n = rows.size
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)).astype(np.float64)  # sums to n²
    gain = table * (float(n) ** 2 + 1.0) - chance  # exact below n = 200,000
    classes, clusters = linear_sum_assignment(gain, maximize=True)
    number = np.full(table.shape[1], -1, dtype=np.int64)
    number[clusters] = classes
    unmatched = np.flatnonzero(number < 0)
    number[unmatched] = table.shape[0] + np.arange(unmatched.size)
    return rows, number[cols]
