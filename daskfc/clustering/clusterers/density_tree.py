"""Clusters out of a tree of densities: those of the largest modularity in a graph of neighbours.

Papers      R. Campello, D. Moulavi, J. Sander, "Density-Based Clustering Based on Hierarchical
            Density Estimates", PAKDD 2013: the tree, as in HDBSCAN.
            R. Campello, D. Moulavi, A. Zimek, J. Sander, "A framework for semi-supervised and
            unsupervised optimal extraction of clusters from hierarchies", Data Mining and Knowledge
            Discovery 27, 2013: the best choice of clusters in a tree, Sec. 3.
            M. Newman, M. Girvan, "Finding and evaluating community structure in networks", Physical
            Review E 69, 2004: modularity, Eq. (5).
Departures  The tree is that of some nearest neighbours of each sample; parts without an edge
            between them join by their means, after all others. What joins at one distance does so
            at once, so that no order of the samples matters.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from sklearn.neighbors import NearestNeighbors

from daskfc.arrays import Floats, Ints

_EQUAL = 1e-12  # of the largest distance: that of equal samples, as 0 would be no edge


def clusters_by_modularity(
    points: Floats,
    graph: "sparse.csr_matrix[Any]",
    *,
    min_cluster_size: int,
    min_samples: int,
    n_neighbors: int,
) -> Ints:
    """Return labels (n,) of the clusters of points whose modularity in a graph is largest.

    HDBSCAN's tree of `points` (n, d) has the clusters; `graph` (n, n) is symmetric; -1 is noise.
    """
    n = len(points)
    if n < max(min_cluster_size, min_samples):
        return np.full(n, -1)
    tree = _tree(_reachable(points, min(n, max(n_neighbors, min_samples)), min_samples))
    parts, inner = [2 * n - 2], dict[int, list[int]]()
    for node in parts:  # grows
        inner[node] = tree.split(node, min_cluster_size)
        parts += inner[node]
    ordered = sparse.csr_array(graph)[tree.order][:, tree.order]
    degrees = np.concatenate([[0.0], np.cumsum(ordered.sum(axis=1))])  # of all before a place
    best = dict[int, tuple[float, list[int]]]()
    for node in reversed(parts):
        here = slice(tree.first[node], tree.first[node] + tree.sizes[node])
        share = (degrees[here.stop] - degrees[here.start]) / degrees[-1]
        own = float(ordered[here, here].sum() / degrees[-1] - share**2)
        apart = sum(best[part][0] for part in inner[node])
        chosen = [one for part in inner[node] for one in best[part][1]]
        best[node] = (own, [node]) if own >= apart else (apart, chosen)
    labels = np.full(n, -1)
    for number, node in enumerate(best[2 * n - 2][1]):
        labels[tree.order[tree.first[node] :][: tree.sizes[node]]] = number
    return labels


@dataclass(frozen=True)
class _Tree:
    """Merges of n samples: node n + i joins two nodes at the i-th smallest distance."""

    children: Ints
    sizes: Ints
    heights: Floats
    order: Ints
    """The samples, those of every node in a row."""
    first: Ints
    """The place in `order` of each node's first sample."""

    def split(self, node: int, least: int) -> list[int]:
        """Return the clusters of at least so many samples into which one falls, or none."""
        n, large = len(self.order), [node]
        while len(large) == 1 and large[0] >= n:  # with 1, it is the same that lost samples
            joined, height, large = [large[0]], self.heights[large[0]], []
            for one in joined:  # grows: all that join at this distance
                for child in self.children[one].tolist():
                    if child >= n and self.heights[child] == height:
                        joined.append(child)
                    elif self.sizes[child] >= least:
                        large.append(child)
        return large if len(large) > 1 else []


def _tree(edges: "sparse.csr_array[Any, Any]") -> _Tree:
    """Return the merges of single linkage along the edges (n, n) of one component."""
    n = edges.shape[0]
    spanning = minimum_spanning_tree(edges).tocoo()
    by_length = np.argsort(spanning.data, kind="stable")
    top = list(range(2 * n - 1))
    children, sizes = np.zeros((2 * n - 1, 2), np.int64), np.ones(2 * n - 1, np.int64)

    def highest(node: int) -> int:
        while top[node] != node:
            top[node] = top[top[node]]
            node = top[node]
        return node

    ends = zip(spanning.row[by_length].tolist(), spanning.col[by_length].tolist(), strict=True)
    for node, (one, other) in enumerate(ends, n):
        pair = highest(one), highest(other)
        children[node], sizes[node] = pair, sizes[list(pair)].sum()
        top[pair[0]] = top[pair[1]] = node
    first, order = np.zeros(2 * n - 1, np.int64), np.empty(n, np.int64)
    for node in range(2 * n - 2, n - 1, -1):
        left, right = children[node]
        first[left], first[right] = first[node], first[node] + sizes[left]
    order[first[:n]] = np.arange(n)
    heights = np.concatenate([np.zeros(n), spanning.data[by_length]])
    return _Tree(children, sizes, heights, order, first)


def _reachable(points: Floats, k: int, core: int) -> "sparse.csr_array[Any, Any]":
    """Return mutual reachability distances (n, n) along edges of neighbours, in one component."""
    n = len(points)
    trees = NearestNeighbors(n_neighbors=k, algorithm="kd_tree")  # brute force rounds by products
    apart, near = trees.fit(points).kneighbors(points)
    dense = apart[:, core - 1]
    apart = np.maximum(np.maximum(apart, dense[:, None]), dense[near])
    largest = float(apart.max()) or 1.0
    np.maximum(apart, _EQUAL * largest, out=apart)
    edges = sparse.csr_array((apart.ravel(), near.ravel(), np.arange(0, n * k + 1, k)), (n, n))
    n_parts, part = connected_components(edges, directed=False)
    if n_parts > 1:
        one_of = sparse.csr_array((np.ones(n), (part, np.arange(n))), (n_parts, n))
        means = np.asarray(one_of @ points) / np.bincount(part)[:, None]
        joins = minimum_spanning_tree(_reachable(means, min(n_parts, k), 1)).tocoo()
        rank = np.argsort(np.argsort(joins.data, kind="stable"))
        some = np.unique(part, return_index=True)[1]
        far = largest * (1 + (1 + rank) / n_parts)
        edges = edges + sparse.csr_array((far, (some[joins.row], some[joins.col])), (n, n))
    return sparse.csr_array(edges.maximum(edges.T))
