"""Measures of what a shared value reveals about private features: privacy level and leakage.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Appendix C and
            Table VII, after Agrawal and Aggarwal (PODS 2001).
Notation    paper     here             meaning
            Y         Y                (n, q), the shared sum, one row for each node
            X         X                (n, d), the original features that an adversary wants
            Π(Y|X)    privacy_level    2^h(Y|X), h the differential entropy in bits
            P(Y|X)    privacy_leakage  1 - 2^(h(Y|X) - h(Y)) = 1 - 2^(-I(X; Y))
Departures  The paper names no estimator of h. Its Table VII has 2^h(Y) = level / (1 - leakage)
            between 2534 and 2689, a little under the 2708 nodes of Cora: the maximum of a plug-in
            entropy of n observed values (2684 for Cora's rows, a few of which repeat), not of a
            density. The table is therefore not reproduced. Here both quantities come from one of
            two documented estimators; compare only values of the same estimator.

The level has the unit of Y to the power q: twice the values give 2^q times the level. Only the
leakage has no unit. Both are averages over the nodes and no guarantee for any one of them.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from scipy.special import digamma

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, check_params, integer, one_of
from daskfc.errors import InvalidInput

Estimator = Literal["nearest", "histogram"]

_CONSTRAINTS: dict[str, Constraint] = {
    "estimator": one_of("nearest", "histogram"),
    "n_neighbours": integer(1),
    "n_bins": integer(1),
}


def _rows(values: ArrayLike, name: str, n: int | None) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.size == 0 or n not in (None, len(rows)):
        expected = "(n,) or (n, d)" if n is None else f"({n},) or ({n}, d)"
        raise InvalidInput(
            f"{name} of a leakage measure must have shape {expected}; got {np.shape(values)}. "
            "Pass one row for each sample, the same samples in X and Y."
        )
    if not np.isfinite(rows).all():
        raise InvalidInput(
            f"{name} of a leakage measure must be finite; some values are not. "
            "Leave out those samples."
        )
    return rows


def _reach(rows: Floats, n_neighbours: int) -> Floats:
    """Return distances (n,) to the n-th nearest other sample, as largest coordinate differences."""
    if len(rows) <= n_neighbours:
        raise InvalidInput(
            f"a leakage measure with {n_neighbours} neighbours needs more than {n_neighbours} "
            f"samples; got {len(rows)}. Lower 'n_neighbours'."
        )
    return np.asarray(cKDTree(rows).query(rows, k=[n_neighbours + 1], p=np.inf)[0])[:, 0]


def _cells(rows: Floats, n_bins: int) -> tuple[Ints, Floats]:
    """Return the cell of each sample in a grid of equal bins, and the bins' widths (d,)."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    widths = np.where(high > low, (high - low) / n_bins, 1.0)
    index = np.clip((rows - low) // widths, 0, n_bins - 1).astype(np.int64)
    _, cells = np.unique(index, axis=0, return_inverse=True)
    return cells.ravel(), widths


def _bits(cells: Ints) -> float:
    shares = np.bincount(cells) / cells.size  # none is 0: cells are numbered as they occur
    return float(-(shares * np.log2(shares)).sum())


def entropy(
    Y: ArrayLike, *, estimator: Estimator = "nearest", n_neighbours: int = 3, n_bins: int = 16
) -> float:
    """Return an estimate of the differential entropy h(Y).

    Parameters
    ----------
    Y : array_like of shape (n,) or (n, q)
        One row for each sample, taken as independent draws.
    estimator : {"nearest", "histogram"}, default "nearest"
        Kozachenko and Leonenko's, from distances to nearest neighbours; or the plug-in entropy of
        a grid with the logarithm of a cell's volume added.
    n_neighbours : int, default 3
        Of "nearest".
    n_bins : int, default 16
        Of "histogram": equal bins between the extremes of each coordinate.

    Returns
    -------
    float
        Bits.

    Raises
    ------
    InvalidInput
        For arrays or parameters that break their rule, and for "nearest" with repeated samples.

    Notes
    -----
    "nearest": consistent; within 0.1 bits of a Gaussian in 1 to 3 dimensions with 4,000 samples
    (tested); the bias grows with the dimension. "histogram" never exceeds log2(n) plus the
    volume term, so it is far too small unless n_bins^q is well below n.

    References
    ----------
    Kraskov, Stögbauer, Grassberger, "Estimating mutual information", Phys. Rev. E 69 (2004),
    equation (20).

    Examples
    --------
    >>> from daskfc.privacy import entropy
    >>> abs(round(entropy(np.arange(4096) / 4096, estimator="histogram"), 3))
    0.0
    """
    _check(estimator, n_neighbours, n_bins)
    rows = _rows(Y, "Y", None)
    if estimator == "histogram":
        cells, widths = _cells(rows, n_bins)
        return _bits(cells) + float(np.log2(widths).sum())
    n, q = rows.shape
    reach = _reach(rows, n_neighbours)
    if not reach.all():
        raise InvalidInput(
            f"the nearest-neighbour entropy needs Y without {n_neighbours + 1} equal samples; "
            "there are some, where a density is infinite. Raise 'n_neighbours', or take "
            "estimator='histogram'."
        )
    nats = digamma(n) - digamma(n_neighbours) + q * np.log(2.0 * reach).mean()  # Eq. (20)
    return float(nats / np.log(2.0))


def mutual_information(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    estimator: Estimator = "nearest",
    n_neighbours: int = 3,
    n_bins: int = 16,
) -> float:
    """Return an estimate of the mutual information I(X; Y) = h(Y) - h(Y|X).

    Parameters
    ----------
    X, Y : array_like of shape (n,) or (n, d)
        Features and shared values of the same samples.
    estimator, n_neighbours, n_bins
        As in `entropy`; "nearest" is the first estimator of Kraskov et al., in which the biases of
        the joint and the single entropies cancel, with Gao's rule for samples that repeat.

    Returns
    -------
    float
        Bits, at least 0.

    Raises
    ------
    InvalidInput
        For arrays or parameters that break their rule.

    Notes
    -----
    "nearest" grows at most with the logarithm of n: where Y is a function of X, as a sum without
    noise is of all its terms, the true value is infinite and the estimate is only large.
    Scale all coordinates of X and of Y alike; one wide coordinate hides the others.
    "histogram" is biased upwards, by about (cells of the pair) / 2n.

    References
    ----------
    Kraskov, Stögbauer, Grassberger, "Estimating mutual information", Phys. Rev. E 69 (2004),
    equation (8). Gao, Kannan, Oh, Viswanath, "Estimating mutual information for
    discrete-continuous mixtures", NeurIPS 2017.

    Examples
    --------
    >>> from daskfc.privacy import mutual_information
    >>> bits = np.arange(64) % 2
    >>> mutual_information(bits, bits, estimator="histogram", n_bins=2)
    1.0
    """
    _check(estimator, n_neighbours, n_bins)
    features = _rows(X, "X", None)
    shared = _rows(Y, "Y", len(features))
    if estimator == "histogram":
        of_x, of_y = _cells(features, n_bins)[0], _cells(shared, n_bins)[0]
        _, pair = np.unique(np.stack([of_x, of_y]), axis=1, return_inverse=True)
        return max(0.0, _bits(of_x) + _bits(of_y) - _bits(pair.ravel()))
    joint = np.hstack([features, shared])
    reach = _reach(joint, n_neighbours)
    inside = np.nextafter(reach, 0.0)  # strictly nearer than the neighbour, or equal where it is 0
    counts = [
        # the sample itself is counted too: that is the + 1 of Eq. (8)
        np.asarray(cKDTree(rows).query_ball_point(rows, inside, p=np.inf, return_length=True))
        for rows in (features, shared, joint)
    ]
    near = np.where(reach > 0, n_neighbours, counts[2])  # repeated samples: Gao et al.
    nats = float(np.mean(digamma(near) - digamma(counts[0]) - digamma(counts[1])))
    return max(0.0, (nats + float(digamma(len(joint)))) / float(np.log(2.0)))  # Eq. (8)


def privacy_level(
    Y: ArrayLike,
    X: ArrayLike,
    *,
    estimator: Estimator = "nearest",
    n_neighbours: int = 3,
    n_bins: int = 16,
) -> float:
    """Return Π(Y|X) = 2^h(Y|X), with h(Y|X) = h(Y) - I(X; Y).

    Parameters
    ----------
    Y : array_like of shape (n,) or (n, q)
        The shared values.
    X : array_like of shape (n,) or (n, d)
        The private features of the same samples.
    estimator, n_neighbours, n_bins
        As in `entropy` and `mutual_information`.

    Returns
    -------
    float
        Length of an interval (volume of a box, for q > 1) on which a uniform variable is as
        uncertain as Y is to somebody who knows X; in the unit of Y to the power q. More is better.

    References
    ----------
    Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Appendix C.

    Examples
    --------
    >>> from daskfc.privacy import privacy_level
    >>> X, Y = np.repeat([0.0, 1.0], 32), np.tile(np.arange(32.0), 2)
    >>> round(privacy_level(Y, X, estimator="histogram", n_bins=32), 3)
    31.0
    """
    options: dict[str, Any] = {"n_neighbours": n_neighbours, "n_bins": n_bins}
    h = entropy(Y, estimator=estimator, **options)
    return float(2.0 ** (h - mutual_information(X, Y, estimator=estimator, **options)))


def privacy_leakage(
    Y: ArrayLike,
    X: ArrayLike,
    *,
    estimator: Estimator = "nearest",
    n_neighbours: int = 3,
    n_bins: int = 16,
) -> float:
    """Return P(Y|X) = 1 - 2^(h(Y|X) - h(Y)) = 1 - 2^(-I(X; Y)).

    Parameters
    ----------
    Y : array_like of shape (n,) or (n, q)
        The shared values.
    X : array_like of shape (n,) or (n, d)
        The private features of the same samples.
    estimator, n_neighbours, n_bins
        As in `mutual_information`.

    Returns
    -------
    float
        In [0, 1]: 0 when Y reveals nothing about X, near 1 when it reveals all. Symmetric in X
        and Y.

    References
    ----------
    Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Appendix C.

    Examples
    --------
    >>> from daskfc.privacy import privacy_leakage
    >>> bits = np.arange(64) % 2
    >>> privacy_leakage(bits, bits, estimator="histogram", n_bins=2)
    0.5
    """
    bits = mutual_information(X, Y, estimator=estimator, n_neighbours=n_neighbours, n_bins=n_bins)
    return float(1.0 - 2.0**-bits)


def _check(estimator: str, n_neighbours: int, n_bins: int) -> None:
    params = {"estimator": estimator, "n_neighbours": n_neighbours, "n_bins": n_bins}
    check_params("a leakage measure", params, _CONSTRAINTS)
