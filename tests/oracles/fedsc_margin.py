"""How far FedSC's similarity may be off before samples are clustered wrongly.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023: Definitions 3.2-3.5, Theorem 3.6 with Eq. (29); Appendix G.
Notation    paper          here              meaning
            K_xx, K̂        kernel, similarity  (n, n), of the true data, and what FedSC makes of it
            k              n_neighbors       nearest others by the true kernel; all by default
            ϵ              tolerance         by how much a wrong neighbour may be the nearer one
            u_i, v_i       -                 largest kernel of sample i with a neighbour of another
                                             class, smallest with one of its own
            B_1            the result        what every similarity may be off by
Departures  Both halves of Definition 3.5 ask that 2B ≤ ϵ + v_i - u_i, Eqs. (94) and (98).
            Eq. (100), which is (29), has ϵ/2 - max(u_i - v_i)/4 for half the smallest of them and
            calls that looser. Where every v_i is at least u_i, as (91) takes for granted, it is
            stricter, and so right; elsewhere it promises too much (a test shows a case):
            `printed_clustering_margin` refuses.

What is said here is about neighbours by the true kernel: with few `n_neighbors` nothing is said of
samples that only the noise makes neighbours. A margin is made of private data and classes: it is
for experiments, and a σ chosen by it is itself a release.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfc.errors import InvalidInput
from daskfc.privacy.ranges import check

__all__ = ["clustering_margin", "correctly_clustered", "printed_clustering_margin"]

Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]


def _square(values: ArrayLike, name: str) -> Floats:
    matrix = np.asarray(values, dtype=np.float64)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] and matrix.size > 0
    if not square or not np.isfinite(matrix).all():
        raise InvalidInput(
            f"the {name} of samples with themselves must be a square matrix of finite numbers; got "
            f"an array of shape {matrix.shape}, or nan or inf in it."
        )
    return matrix


def _neighbours(kernel: Floats, labels: ArrayLike, n_neighbors: int | None) -> tuple[Masks, Masks]:
    """Return the neighbours of the same class (Eq. 26) and of others (Eq. 28), (n, n) each."""
    classes, n = np.asarray(labels), len(kernel)
    if classes.shape != (n,):
        raise InvalidInput(
            f"the labels must be one for each of the {n} samples of the kernel; got shape "
            f"{classes.shape}."
        )
    near = ~np.eye(n, dtype=bool)
    if n_neighbors is not None:
        check("Definition 3.5", n_neighbors=n_neighbors)
        others = np.where(near, -kernel, np.inf)
        nearest = np.argsort(others, axis=1, kind="stable")[:, : min(n_neighbors, n - 1)]
        near = np.zeros((n, n), dtype=bool)
        np.put_along_axis(near, nearest, True, axis=1)
    same = classes[:, None] == classes
    return near & same, near & ~same


def _lead(similarity: Floats, own: Masks, others: Masks) -> Floats:
    """Return v_i - u_i, (n,); infinite for a sample with neighbours of one kind only."""
    smallest = np.where(own, similarity, np.inf).min(axis=1)  # v_i
    largest = np.where(others, similarity, -np.inf).max(axis=1)  # u_i
    return np.asarray(smallest - largest)


def correctly_clustered(
    similarity: ArrayLike,
    kernel: ArrayLike,
    labels: ArrayLike,
    *,
    n_neighbors: int | None = None,
    tolerance: float = 0.0,
) -> Masks:
    """Return for each sample whether Definition 3.5 holds.

    Parameters
    ----------
    similarity : array_like of shape (n, n)
        K̂, what FedSC made of the samples.
    kernel : array_like of shape (n, n)
        Gaussian kernel of the true samples; says who is whose neighbour.
    labels : array_like of shape (n,)
        Classes.
    n_neighbors : int, optional
        k, at least 1; all others are neighbours by default.
    tolerance : float, default 0
        ϵ, at least 0.

    Returns
    -------
    ndarray of shape (n,), bool
        True where no neighbour of another class is more similar than one of the own class by more
        than the tolerance; also where a sample has neighbours of one kind only.

    Raises
    ------
    InvalidInput
        For shapes that do not fit and parameters outside their range.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.oracles.fedsc_margin import correctly_clustered
    >>> K = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
    >>> correctly_clustered(K - 0.75 * (K == 0.9), K, [0, 0, 1]).tolist()
    [True, False, True]
    """
    check("Definition 3.5", tolerance=tolerance)
    K_hat, K = _square(similarity, "similarity"), _square(kernel, "kernel")
    if K_hat.shape != K.shape:
        raise InvalidInput(
            f"similarity and kernel must be of the same samples; got shapes {K_hat.shape} and "
            f"{K.shape}."
        )
    correct: Masks = _lead(K_hat, *_neighbours(K, labels, n_neighbors)) >= -tolerance
    return correct


def _least_lead(
    kernel: ArrayLike, labels: ArrayLike, n_neighbors: int | None, tolerance: float
) -> float:
    check("the margin of Theorem 3.6", tolerance=tolerance)
    K = _square(kernel, "kernel")
    least = float(_lead(K, *_neighbours(K, labels, n_neighbors)).min())
    if not np.isfinite(least):
        raise InvalidInput(
            "the margin of Theorem 3.6 needs a sample with neighbours both of its own class and of "
            "another; got none. Raise 'n_neighbors', or give samples of more classes."
        )
    return least


def clustering_margin(
    kernel: ArrayLike,
    labels: ArrayLike,
    *,
    n_neighbors: int | None = None,
    tolerance: float = 0.0,
) -> float:
    """Return the error up to which any similarity clusters all samples correctly.

    Parameters
    ----------
    kernel : array_like of shape (n, n)
        Gaussian kernel of the true samples.
    labels : array_like of shape (n,)
        Classes.
    n_neighbors : int, optional
        k, at least 1; all others are neighbours by default.
    tolerance : float, default 0
        ϵ of Definition 3.5, at least 0.

    Returns
    -------
    float
        B_1 = min_i (ϵ + v_i - u_i) / 2: with max_ij |K̂_ij - K_ij| ≤ B_1, every sample passes
        `correctly_clustered`. Not above 0 where the classes overlap by the tolerance or more; then
        no noise is allowed at all.

    Raises
    ------
    InvalidInput
        For shapes that do not fit, parameters outside their range, and samples of which none has
        neighbours of both kinds.

    References
    ----------
    Theorem 3.6 from Eqs. (94) and (98); see Departures.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.oracles.fedsc_margin import clustering_margin
    >>> K = np.array([[1.0, 0.75, 0.0], [0.75, 1.0, 0.25], [0.0, 0.25, 1.0]])
    >>> clustering_margin(K, [0, 0, 1])
    0.25
    """
    return (tolerance + _least_lead(kernel, labels, n_neighbors, tolerance)) / 2


def printed_clustering_margin(
    kernel: ArrayLike,
    labels: ArrayLike,
    *,
    n_neighbors: int | None = None,
    tolerance: float = 0.0,
) -> float:
    """Return the margin of Eq. (29) as printed, ϵ/2 - max_i (u_i - v_i)/4.

    Parameters
    ----------
    kernel, labels, n_neighbors, tolerance
        As for `clustering_margin`.

    Returns
    -------
    float
        At most `clustering_margin`, and at least half of it.

    Raises
    ------
    InvalidInput
        As for `clustering_margin`, and where a sample is nearer to a neighbour of another class
        than to one of its own, for which the formula promises too much.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.oracles.fedsc_margin import printed_clustering_margin
    >>> K = np.array([[1.0, 0.75, 0.0], [0.75, 1.0, 0.25], [0.0, 0.25, 1.0]])
    >>> printed_clustering_margin(K, [0, 0, 1])
    0.125
    """
    least = _least_lead(kernel, labels, n_neighbors, tolerance)
    if least < 0:
        raise InvalidInput(
            "Eq. (29) holds only where each sample's neighbours of its own class are at least as "
            "similar as those of other classes; got samples for which they are not. Take "
            "clustering_margin."
        )
    return tolerance / 2 + least / 4
