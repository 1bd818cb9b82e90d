"""Local clusters of participants, their intersections, and the virtual nodes of these.

Paper       Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Protocol 3.
Notation    paper            here        shape, range
            Û^l              labels      (n,) int, one participant's local clusters
            k̂                n_clusters  int >= 1
            C (lines 6-11)   ids, sizes  (n,) int64 and (v,) int64, non-empty intersections
            Y^l (line 15)    -           (v, w) float64, one participant's virtual nodes
Departures  (1) Empty intersections are dropped. (2) A virtual node is the mean of its intersection,
            as in the paper's Section 3.4; line 15's centre of the local cluster is an option.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from daskfc.arrays import Floats, Ints
from daskfc.checks import check_params, integer, one_of
from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.views.order import rows_in_order
from daskfc.errors import InvalidInput

VirtualNode = Literal["intersection", "local-centre"]


def local_clusters(
    rows: Floats, n_clusters: int, *, seed: int, n_init: int = 10, max_iter: int = 300
) -> Ints:
    """Return a participant's local clusters, at most min(k̂, n), numbered by first rows by value."""
    params = {"n_clusters": n_clusters, "n_init": n_init, "max_iter": max_iter}
    check_params("local_clusters", params, dict.fromkeys(params, integer(1)))
    k = min(n_clusters, len(rows))
    order, ordered = rows_in_order(rows)
    labels = best_partition(
        ordered, k, seed, n_init=n_init, max_iter=max_iter, owner="local clusters", threads=1
    ).labels
    return order.back(order.alike(labels))


def intersect(*labels: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return each node's intersection of partitions (n,), and the sizes (v,) of non-empty ones."""
    if not labels:
        raise InvalidInput(
            "intersections need the local clusters of at least 1 participant; got 0. Pass some."
        )
    n = len(labels[0])
    ids = np.zeros(n, dtype=np.int64)
    for number, own in enumerate(labels):
        if own.shape != (n,) or own.dtype.kind not in "iu" or (n and int(own.min()) < 0):
            raise InvalidInput(
                f"the local clusters of participant {number} must be {n} integers of at least 0, "
                f"one for each node; got {own.dtype} {own.shape}. "
                "Link the records first, and number the clusters from 0."
            )
        compact = _without_gaps(own.astype(np.int64))
        # Both factors are below n <= 2**31, so each code is below 2**62 and fits int64.
        width = int(compact.max()) + 1 if n else 1
        ids = _without_gaps(ids * width + compact)
    return ids, np.bincount(ids)


def _without_gaps(codes: Ints) -> Ints:
    """Renumber codes from 0, in their own order."""
    n = codes.size
    top = int(codes.max()) + 1 if n else 0
    if top > max(4 * n, 1 << 16):  # sparse codes: sort them
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    found = np.zeros(top, dtype=np.int64)
    found[codes] = 1
    result = (np.cumsum(found) - 1)[codes]
    return result


def virtual_nodes(
    rows: Floats,
    ids: Ints,
    *,
    kind: VirtualNode = "intersection",
    labels: NDArray[np.integer] | None = None,
) -> Floats:
    """Return columns (v, w) of virtual nodes: means of intersections, as in Section 3.4.

    "local-centre" takes centres of local clusters (Protocol 3, line 15), which needs `labels`.
    """
    constraint = one_of("intersection", "local-centre")
    check_params("virtual_nodes", {"kind": kind}, {"kind": constraint})
    if (labels is None) == (kind == "local-centre"):
        raise InvalidInput(
            f"virtual_nodes takes 'labels' for kind 'local-centre' and for no other; got kind "
            f"{kind!r} {'without' if labels is None else 'with'} labels. Correct one of them."
        )
    if labels is None:
        return _means(rows, ids)
    own = _without_gaps(labels.astype(np.int64))
    return _means(rows, own)[own[np.unique(ids, return_index=True)[1]]]


def _means(rows: Floats, ids: Ints) -> Floats:
    sizes = np.bincount(ids)  # (v,)
    member = sparse.csr_array(
        (np.ones(ids.size), ids, np.arange(ids.size + 1)), shape=(ids.size, sizes.size)
    )
    return np.asarray(member.T @ rows) / sizes[:, None]
