"""A participant's part of weighted k-means: centres and distances in its own columns.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocol 2,
            lines 12 to 29; the server's part and the notation are in `weighted_lloyd`.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from daskfc.arrays import Floats, Ints
from daskfc.linalg import squared_distances


@dataclass(frozen=True)
class CentresAtNodes:
    """Take these nodes as centres: ``nodes`` (R, c) int64."""

    nodes: Ints


@dataclass(frozen=True)
class CentresAtMeans:
    """Take weighted means of labels (A, n), -1 left out, as centres: all, or `wanted` (A, k)."""

    labels: Ints
    wanted: NDArray[np.bool_] | None = None


Request: TypeAlias = CentresAtNodes | CentresAtMeans


def centres_of(request: Request, rows: Floats, weights: Floats, n_clusters: int) -> Floats:
    """Return the participant's columns (R, c, w) of the centres; (1, c, w) of those `wanted`."""
    if isinstance(request, CentresAtNodes):
        return rows[request.nodes]
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
    """Return one participant's part d^l (n, R, c) of all squared distances, each at least 0."""
    runs, count, width = centres.shape
    flat = squared_distances(rows, centres.reshape(-1, width))
    return flat.reshape(len(rows), runs, count)
