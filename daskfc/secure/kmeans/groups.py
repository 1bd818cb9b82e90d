"""Groups of rows that are large enough for the server to learn their sums.

Other federated k-means reveal a sum over each cluster in each round of Lloyd's algorithm. Two such
sums that differ by one row reveal that row, and some hundred reveal all rows (docs/attacks.md).
Here all rows are one group at first. Each round splits groups by the nearest centres of their
rows; a part of fewer than `SMALLEST` rows, or of fewer clients than the run requires, stays with
the largest part of its group that has enough clients. Groups do not overlap, so every combination
of their sums depends on whole groups.

Notation    here      shape, range
            m, k      groups, clusters
            counts    (m, k) int64, rows of all clients by group and nearest centre
            held      (m, k) bool, whether enough clients have some of these rows
            home      (m,), the cluster of each group's largest part that is held
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from daskfc.arrays import Floats, Ints

Booleans = NDArray[np.bool_]

SMALLEST = 5  # ours, as profiles have it; no caller can lower it
_BLOCK = 16384  # ours: rows at a time, so that no step holds squares of all rows


def split_groups(counts: Ints, held: Booleans, least: int = SMALLEST) -> Ints:
    """Return the new group, from 0 on, of rows by their old group and nearest centre, (m, k)."""
    ids, alone, home = _parts(counts, held, least)
    return np.where(alone, ids, np.take_along_axis(ids, home[:, None], axis=1))


def fresh_groups(counts: Ints, held: Booleans, least: int = SMALLEST) -> Ints:
    """Return the numbers of new groups with unknown sums: the parts of groups that split."""
    ids, alone, _ = _parts(counts, held, least)
    fresh: Ints = ids[alone & (alone.sum(axis=1, keepdims=True) > 1)]
    return fresh


def clusters_of_groups(counts: Ints, held: Booleans, least: int = SMALLEST) -> Ints:
    """Return the cluster of each new group: where all its rows are but those that are too few."""
    found: Ints = np.nonzero(_parts(counts, held, least)[1])[1]
    return found


def _home(counts: Ints, held: Booleans) -> Ints:
    """Return the cluster of each group's largest part of enough clients, which small ones join."""
    home: Ints = (counts * (1 + held * (counts.sum(axis=1, keepdims=True) + 1))).argmax(axis=1)
    return home


def _parts(counts: Ints, held: Booleans, least: int) -> tuple[Ints, Booleans, Ints]:
    alone, home = held & (counts >= least), _home(counts, held)
    alone[np.arange(len(counts)), home] = True
    return (np.cumsum(alone) - 1).reshape(counts.shape), alone, home


def last_clusters(counts: Ints, held: Booleans, least: int = SMALLEST) -> Ints:
    """Return the cluster that rows count for in the last sums, by group and nearest centre, (m, k).

    The groups' sums are known, so the last sums reveal those of rows that leave home: edges of a
    graph of the clusters, kept only if at least `least` rows, of enough clients, cross every cut of
    a connected part. So no combination of sums is over fewer rows: with a factor c_j for each
    cluster, either the rows at home remain, or all edges between different c_j do.
    """
    home, k = _home(counts, held), counts.shape[1]
    enough = np.take_along_axis(held & (counts >= least), home[:, None], axis=1)
    leaves = enough & held
    moves = np.zeros((k, k), dtype=np.int64)
    np.add.at(moves, home, np.where(leaves, counts, 0))
    return np.where(_joined(moves + moves.T, least)[home] & leaves, np.arange(k), home[:, None])


def _joined(edges: Ints, least: int) -> Booleans:
    """Remove edges until at least `least` cross every cut of a connected part; return the rest."""
    left = np.triu(edges, 1)
    while True:
        graph = sparse.csr_array((left + left.T).astype(np.int32))
        pairs = np.argwhere(left > 0)
        flows = [csgraph.maximum_flow(graph, *pair).flow_value for pair in pairs.tolist()]
        few = pairs[np.array(flows, dtype=int) < least]
        if not len(few):
            joined: Booleans = left + left.T > 0
            return joined
        left[few[:, 0], few[:, 1]] = 0


def moments_about(rows: Floats, groups: Ints, n_groups: int, origin: Floats) -> Floats:
    """Return a client's count, Σ (x - origin), Σ (x - origin)² of groups, (n_groups, 1 + 2 s)."""
    total = np.zeros((n_groups, 1 + 2 * rows.shape[1]))
    for start in range(0, len(rows), _BLOCK):
        own = groups[start : start + _BLOCK]
        those = own >= 0
        apart = rows[start : start + _BLOCK][those] - origin  # saves digits far from 0
        place = (own[those], np.arange(len(apart)))
        member = sparse.csr_array((np.ones(len(apart)), place), shape=(n_groups, len(apart)))
        total[:, 0] += member.sum(axis=1)
        total[:, 1 : 1 + rows.shape[1]] += member @ apart
        total[:, 1 + rows.shape[1] :] += member @ np.square(apart)
    return total
