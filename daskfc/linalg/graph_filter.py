"""Low-pass filters on a graph, which smooth the node features of kCAGC, AGC, GCC and the like.

Papers      Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Section 3.2;
            Fettal, Labiod, Nadif, "Efficient Graph Convolution for Joint Node Representation
            Learning and Clustering", WSDM 2022 (kind "gcc").
Notation    paper    here       shape, range
            A        adjacency  (n, n) sparse, symmetric, weights >= 0
            L_s      -          I - N, N = D^(-1/2) (A + I) D^(-1/2), D the row sums of A + I
            ψ        order      int >= 0, number of sparse products
            X        X          (n, d)
Departures  (1) The filter is `order` products with N; the paper decomposes L_s, which takes n x n
            numbers. (2) A loop is added to every node, in addition to existing ones: without it the
            paper's AGC row is not reproduced. Equation (2) has no loops: ``self_loops=False``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from daskfc.arrays import Floats
from daskfc.checks import Constraint, check_params, integer, one_of
from daskfc.errors import InvalidInput
from daskfc.seeds import generator

Array: TypeAlias = NDArray[Any]
FilterKind = Literal["agc", "laplacian", "gcc"]
RowBlocks: TypeAlias = "Callable[[], Iterable[tuple[int, sparse.csr_array[Any, Any]]]]"

_CONSTRAINTS: dict[str, Constraint] = {
    "order": integer(0),
    "kind": one_of("agc", "laplacian", "gcc"),
}
_DENSE = 200  # ours: up to this all eigenvalues are computed at once
_COLUMN_ENTRIES = 1 << 23  # ours: numbers in a block of columns that is filtered, 64 MiB
_BLOCK = 1 << 16  # ours: rows of a product; 25 float64 columns of a block are 13 MB


def row_blocks(adjacency: Any, rows: int = _BLOCK) -> RowBlocks:
    """Return a function that yields a sparse matrix as (first row, csr rows of a block).

    Examples
    --------
    >>> import scipy.sparse
    >>> from daskfc.linalg.graph_filter import row_blocks
    >>> [(start, part.shape) for start, part in row_blocks(scipy.sparse.eye_array(5), 2)()]
    [(0, (2, 5)), (2, (2, 5)), (4, (1, 5))]
    """
    matrix = sparse.csr_array(adjacency)

    def blocks() -> "Iterable[tuple[int, sparse.csr_array[Any, Any]]]":
        n = matrix.shape[0]
        if n <= rows:
            yield 0, matrix
            return
        for start in range(0, n, rows):
            yield start, matrix[start : start + rows]

    return blocks


@dataclass(frozen=True)
class GraphOperator:
    """N = D^(-1/2) (A + I) D^(-1/2) of a graph that is read in blocks of rows.

    Parameters
    ----------
    blocks : callable
        Each call yields (first row, csr rows of A) from the top to the bottom.
    degrees : ndarray of shape (n,), float64
        Row sums of A, with 1 more for the added loop.
    self_loops : bool, default True
        Whether a loop of weight 1 is added to every node.

    Notes
    -----
    One column block of X (n, c) takes 2 n c numbers beside X and a block of rows.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from daskfc.linalg.graph_filter import GraphOperator, row_blocks
    >>> path = scipy.sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> GraphOperator.of(row_blocks(path), 2).apply(np.array([[1.0], [0.0]])).ravel().tolist()
    [0.5, 0.5]
    """

    blocks: RowBlocks
    degrees: Floats
    self_loops: bool = True

    @classmethod
    def of(cls, blocks: RowBlocks, n_nodes: int, *, self_loops: bool = True) -> "GraphOperator":
        """Read a graph of `n_nodes` nodes once; refuse one that is not symmetric, or negative."""
        degrees = np.zeros(n_nodes)
        across = np.zeros(n_nodes)
        reached = 0
        for start, rows in blocks():
            if start != reached or rows.shape[1] != n_nodes:
                raise InvalidInput(
                    f"the blocks of a graph of {n_nodes} nodes must be its rows in order, "
                    f"{n_nodes} columns wide; got {rows.shape[0]} rows from {start} with "
                    f"{rows.shape[1]} columns where row {reached} was due. Pass whole row blocks."
                )
            if rows.data.size and not (rows.data.min() >= 0 and np.isfinite(rows.data.max())):
                raise InvalidInput(
                    "the weights of a graph must be finite and at least 0; some are not. "
                    "Remove or correct those edges."
                )
            reached += rows.shape[0]
            weights = rows.data.astype(np.float64)  # sums of bytes would overflow
            of_row = np.repeat(np.arange(start, reached), np.diff(rows.indptr))
            degrees += np.bincount(of_row, weights, minlength=n_nodes)
            across += np.bincount(rows.indices, weights, minlength=n_nodes)
        if reached != n_nodes:
            raise InvalidInput(
                f"the blocks of a graph of {n_nodes} nodes must hold all its rows; "
                f"got {reached}. Pass all row blocks."
            )
        if not np.allclose(degrees, across, rtol=1e-9):
            raise InvalidInput(
                "the adjacency matrix of a graph must be symmetric; some row sums differ from "
                "their column sums. Add the transpose, or take the larger of both."
            )
        return cls(blocks, degrees + 1.0 if self_loops else degrees, self_loops)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.degrees.size

    def apply(self, X: Array) -> Array:
        """Return N X for X of shape (n, c)."""
        return self._affine(X, 0.0, 1.0, 1)

    def laplacian_norm(self) -> float:
        """Return ‖L_s‖, the largest eigenvalue of I - N, by Lanczos."""
        n = self.n_nodes
        if n <= _DENSE:
            smallest = np.linalg.eigvalsh(self.apply(np.eye(n)))[0]
            return float(1.0 - smallest)
        operator = LinearOperator(
            (n, n), matvec=lambda x: self.apply(x.reshape(n, 1)).ravel(), dtype=np.float64
        )
        start = generator(0, "norm of the Laplacian").uniform(-1.0, 1.0, n)
        try:
            # The Ritz value's error is the residual squared: with 1e-6 only rounding is left.
            values = eigsh(
                operator, 1, which="SA", v0=start, tol=1e-6, return_eigenvectors=False, ncv=40
            )
        except ArpackNoConvergence as error:
            raise InvalidInput(
                f"the norm of the Laplacian of a graph with {n} nodes must converge by Lanczos; it "
                "did not. Take kind='agc', which needs no norm."
            ) from error
        return float(1.0 - values[0])

    def filtered(
        self,
        X: Array,
        *,
        order: int,
        kind: FilterKind = "agc",
        norm: float | None = None,
        dtype: DTypeLike = np.float64,
    ) -> Array:
        """Return a filtered block of columns of the features.

        Parameters
        ----------
        X : ndarray of shape (n, c)
            Any columns; each is filtered independently.
        order : int
            ψ, the number of passes over the graph.
        kind : {"agc", "laplacian", "gcc"}, default "agc"
            ``((I + N) / 2)^order``, ``(I - L_s / ‖L_s‖)^order``, or ``(R^-1 (I + N))^order`` with
            R the row sums of I + N.
        norm : float, optional
            ‖L_s‖ for kind "laplacian", by default from `laplacian_norm`. Give it when there are
            several blocks of columns.
        dtype : dtype, default float64
            Type of the products and the result; float32 halves memory.
        """
        check_params("filter_features", {"order": order, "kind": kind}, _CONSTRAINTS)
        if X.ndim != 2 or X.shape[0] != self.n_nodes:
            raise InvalidInput(
                f"the features of a graph of {self.n_nodes} nodes must have shape "
                f"({self.n_nodes}, d); got {X.shape}. Pass one row for each node."
            )
        if kind == "gcc":
            sums = 1.0 + self.apply(np.ones((self.n_nodes, 1)))
            found = np.array(X, dtype=dtype)
            for _ in range(order):
                found = ((self.apply(found) + found) / sums).astype(dtype, copy=False)
            return found
        if kind == "agc":
            scale = 2.0  # p(λ) = (1 - λ / 2)^ψ, Section 3.2
        else:
            scale = self.laplacian_norm() if norm is None else norm  # p(λ) = (1 - λ / ‖L_s‖)^ψ
            if not scale > 1e-12:  # every edge is a loop: L_s = 0 up to rounding, nothing to smooth
                return np.array(X, dtype=dtype)
        return self._affine(X, 1.0 - 1.0 / scale, 1.0 / scale, order, dtype)

    def filter_columns(self, X: Array, *, order: int, kind: FilterKind = "agc") -> None:
        """Filter all columns of X (n, d), float64, in place, some at a time; see `filtered`."""
        norm = self.laplacian_norm() if kind == "laplacian" else None
        step = max(1, _COLUMN_ENTRIES // max(self.n_nodes, 1))
        for start in range(0, X.shape[1], step):
            block = slice(start, start + step)
            columns = np.ascontiguousarray(X[:, block])
            X[:, block] = self.filtered(columns, order=order, kind=kind, norm=norm)

    def _affine(
        self, X: Array, keep: float, mix: float, order: int, dtype: DTypeLike = np.float64
    ) -> Array:
        """Return (keep I + mix N)^order X, by Y = D^(-1/2) X: two scalings in all."""
        joined = self.degrees > 0
        root = np.sqrt(np.where(joined, self.degrees, 1.0)).astype(dtype)[:, None]
        share = np.where(joined, mix / np.where(joined, self.degrees, 1.0), 0.0).astype(dtype)
        loops = 1.0 if self.self_loops else 0.0
        here = np.array(X, dtype=dtype)
        here /= root
        there = np.empty_like(here)
        for _ in range(order):
            for start, rows in self.blocks():
                span = slice(start, start + rows.shape[0])
                mixed = rows.astype(dtype, copy=False) @ here  # (rows, c)
                if loops:
                    mixed += here[span]
                mixed *= share[span, None]
                np.multiply(here[span], keep, out=there[span])
                there[span] += mixed
            here, there = there, here
        here *= root
        return here


def dense(features: Any) -> Array:
    """Return features as an ndarray, from an ndarray or any sparse format."""
    is_sparse: bool = sparse.issparse(features)
    return np.asarray(features.toarray() if is_sparse else features)


def filter_features(
    adjacency: Any,
    X: Any,
    *,
    order: int,
    kind: FilterKind = "agc",
    self_loops: bool = True,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Smooth the features of nodes over a graph that is in memory.

    Parameters
    ----------
    adjacency : sparse array or matrix of shape (n, n)
        Symmetric, weights at least 0; loops and weights are not changed.
    X : ndarray or sparse array of shape (n, d)
        Features of the nodes.
    order : int
        ψ, at least 0: 9 for Cora, 15 for Citeseer, 60 for Pubmed, 2 for Wiki (AGC).
    kind : {"agc", "laplacian", "gcc"}, default "agc"
        ``p(λ) = (1 - λ/2)^order``, ``p(λ) = (1 - λ/‖L_s‖)^order``, or the average over neighbours
        of GCC; see `GraphOperator.filtered`.
    self_loops : bool, default True
        Whether a loop of weight 1 is added to every node.
    dtype : dtype, default float64
        Type of the products and the result.

    Raises
    ------
    InvalidInput
        For a graph that is not square, symmetric and non-negative, features with another number
        of rows, or a parameter that breaks its rule.

    Notes
    -----
    `order` sparse products; nothing dense of size n x n.

    References
    ----------
    Zhang et al., "Attributed Graph Clustering in Collaborative Settings", Section 3.2.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from daskfc.clustering import filter_features
    >>> pair = scipy.sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> filter_features(pair, np.array([[1.0], [0.0]]), order=1).ravel().tolist()
    [0.75, 0.25]
    """
    matrix = sparse.csr_array(adjacency)
    n = matrix.shape[0]
    if matrix.shape != (n, n):
        raise InvalidInput(
            f"the adjacency matrix of a graph must be square; got {matrix.shape}. "
            "Pass one row and one column for each node."
        )
    if abs(matrix - matrix.T).max() > 0:
        raise InvalidInput(
            "the adjacency matrix of a graph must be symmetric; it differs from its transpose. "
            "Add the transpose, or take the larger of both."
        )
    features = dense(X)
    operator = GraphOperator.of(row_blocks(matrix), n, self_loops=self_loops)
    return operator.filtered(features, order=order, kind=kind, dtype=dtype)
