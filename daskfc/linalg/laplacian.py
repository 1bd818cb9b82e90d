"""The symmetrically normalised adjacency of a graph, and its components."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator

from daskfc.arrays import Floats, Ints

Adjacency: TypeAlias = "Floats | sparse.csr_array[Any, Any]"


def components_of(weights: Adjacency) -> Ints:
    """Return each node's component, numbered by first nodes; weights above 0 are edges."""
    if isinstance(weights, np.ndarray):
        return components_of_rows(lambda node: weights[node], len(weights))
    labels = connected_components(weights, directed=False)[1].astype(np.int64)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(first.size, dtype=np.int64)
    number[np.argsort(first)] = np.arange(first.size)
    return number[inverse]


def components_of_rows(row: Callable[[int], Floats], n: int) -> Ints:
    """Return `components_of` from the rows (n,) of dense weights, which csgraph would copy."""
    component = np.full(n, -1, dtype=np.int64)
    open_nodes, number = n, 0
    while open_nodes:
        frontier = [int((component < 0).argmax())]
        component[frontier] = number
        open_nodes -= 1
        while frontier and open_nodes:
            reached = np.flatnonzero((row(frontier.pop()) > 0) & (component < 0))
            component[reached] = number
            open_nodes -= reached.size
            frontier.extend(reached.tolist())
        number += 1
    return component


@dataclass(frozen=True)
class NormalisedAdjacency:
    """N = Δ^(-1/2) W Δ^(-1/2) of a graph, Δ the degrees; loops are ignored.

    Eigenvalues of N lie in [-1, 1], 1 once for each component with an edge; `root_degrees` is 1
    for a node without edges. `near` (n, b) are vectors near the leading eigenvectors, given where
    products with many vectors cost as much as with one.
    """

    matrix: "Adjacency | LinearOperator"
    root_degrees: Floats
    components: Ints
    near: Floats | None = None

    @classmethod
    def of(cls, weights: Adjacency) -> "NormalisedAdjacency":
        """Normalise symmetric weights of shape (n, n); a dense array is overwritten."""
        if isinstance(weights, np.ndarray):
            np.fill_diagonal(weights, 0.0)
            degrees = weights.sum(axis=0)
        else:
            pairs = weights.tocoo()
            kept = (pairs.row != pairs.col) & (pairs.data > 0)
            edges = pairs.data[kept].astype(np.float64), (pairs.row[kept], pairs.col[kept])
            weights = sparse.csr_array(edges, shape=weights.shape)
            degrees = np.asarray(weights.sum(axis=0), dtype=np.float64)
        components = components_of(weights)
        root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
        if isinstance(weights, np.ndarray):
            weights /= root
            weights /= root[:, None]
            return cls(weights, root, components)
        rows = np.repeat(np.arange(root.size), np.diff(weights.indptr))
        weights.data /= root[rows] * root[weights.indices]
        return cls(weights, root, components)

    @property
    def n_components(self) -> int:
        """Number of connected components."""
        return int(self.components.max()) + 1
