"""A participant's part of weighted k-means: its columns of centres, its part of the distances.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocol 2,
            lines 12 to 29; the server's part and the notation are in `weighted_lloyd`.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from daskfc.linalg import squared_distances

__all__ = ["CentresAtMeans", "CentresAtNodes", "Request", "centres_of", "distances_to"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class CentresAtNodes:
    """Take these nodes as centres: ``nodes`` (R, c) int64."""

    nodes: Integers


@dataclass(frozen=True)
class CentresAtMeans:
    """Take the weighted means of these labels as centres.

    Parameters
    ----------
    labels : ndarray of shape (A, n), int64
        A node with -1 counts nowhere.
    wanted : ndarray of shape (A, k), bool, optional
        Which of the centres; by default all of them.
    """

    labels: Integers
    wanted: NDArray[np.bool_] | None = None


Request: TypeAlias = CentresAtNodes | CentresAtMeans


def centres_of(request: Request, rows: Floats, weights: Floats, n_clusters: int) -> Floats:
    """Return one participant's columns of the centres that the server asks for.

    Parameters
    ----------
    request : CentresAtNodes or CentresAtMeans
        From the server, the same for all participants.
    rows : ndarray of shape (n, w), float64
        The participant's columns of the nodes.
    weights : ndarray of shape (n,), float64
        Weights of the nodes.
    n_clusters : int
        k.

    Returns
    -------
    ndarray of shape (R, c, w), float64
        c candidates for `CentresAtNodes`, k centres for `CentresAtMeans`; (1, c, w) where only c
        centres are wanted, in order of restarts and clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.summed_distances import CentresAtMeans, centres_of
    >>> rows, weights = np.array([[0.0], [3.0], [8.0]]), np.array([2.0, 1.0, 5.0])
    >>> centres_of(CentresAtMeans(np.array([[0, 0, 1]])), rows, weights, 2).ravel().tolist()
    [1.0, 8.0]
    """
    if isinstance(request, CentresAtNodes):
        at_nodes: Floats = rows[request.nodes]
        return at_nodes
    labels = request.labels
    runs, n = labels.shape
    counted = labels >= 0
    columns = np.where(counted, labels, 0) + n_clusters * np.arange(runs)[:, None]  # (A, n)
    member = sparse.csr_array(
        ((counted * weights).T.ravel(), columns.T.ravel(), np.arange(0, runs * n + 1, runs)),
        shape=(n, runs * n_clusters),
    )
    mass = np.asarray(member.sum(axis=0)).reshape(runs, n_clusters)
    sums = (member.T @ rows).reshape(runs, n_clusters, rows.shape[1])
    empty = mass == 0
    centres: Floats = sums / np.where(empty, 1.0, mass)[:, :, None]  # Protocol 2, line 18 and 33
    first = (~empty).argmax(axis=1)
    run, cluster = np.nonzero(empty)
    centres[run, cluster] = centres[run, first[run]]
    return centres if request.wanted is None else centres[request.wanted][None]


def distances_to(rows: Floats, centres: Floats) -> Floats:
    """Return one participant's part d^l of all squared distances.

    Parameters
    ----------
    rows : ndarray of shape (n, w), float64
        The participant's columns of the nodes.
    centres : ndarray of shape (R, c, w), float64
        Its columns of the centres.

    Returns
    -------
    ndarray of shape (n, R, c), float64
        At least 0, with the rounding of an inner product.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.protocols.kcagc.maths.summed_distances import distances_to
    >>> distances_to(np.array([[0.0], [3.0]]), np.array([[[1.0], [3.0]]])).tolist()
    [[[1.0, 9.0]], [[4.0, 0.0]]]
    """
    runs, count, width = centres.shape
    flat = squared_distances(rows, centres.reshape(-1, width))
    return flat.reshape(len(rows), runs, count)
