"""The projection of a participant's filtered columns that are too large for memory.

With F the filter, a symmetric matrix, and X the columns: the right singular vectors V of F X are
the eigenvectors of Xᵀ F² X, and F X V = F (X V). Columns are read in narrow blocks, rows in chunks.
"""

import numpy as np

from daskfc.arrays import Floats
from daskfc.clustering import GraphOperator
from daskfc.linalg import projected_coordinates
from daskfc.linalg.graph_filter import FilterKind
from daskfc.linalg.local_basis import Basis
from daskfc.stores import ClientStore


def streamed_coordinates(
    data: ClientStore,
    k: int,
    basis: Basis,
    *,
    order: int,
    kind: FilterKind = "agc",
    block_entries: int = 1 << 23,
) -> Floats:
    """Return `singular_coordinates` of filtered columns in a few blocks; `order` is ψ."""
    n, d = data.n_samples, data.n_features
    operator = GraphOperator.of(data.graph_blocks, n) if order else None
    norm = operator.laplacian_norm() if operator and kind == "laplacian" else None

    def smooth(block: Floats, passes: int) -> Floats:
        if operator is None:
            return block
        return operator.filtered(block, order=passes, kind=kind, norm=norm)

    gram = np.empty((d, d))
    width = max(1, block_entries // n)
    for first in range(0, d, width):
        block = np.empty((n, min(width, d - first)))
        for start, rows in data.blocks():
            block[start : start + len(rows)] = rows[:, first : first + width]
        twice = smooth(block, 2 * order)
        part = np.zeros((d, block.shape[1]))
        for start, rows in data.blocks():
            part += rows.T @ twice[start : start + len(rows)]
        gram[:, first : first + width] = part
    gram = 0.5 * (gram + gram.T)  # F² X is symmetric up to rounding only
    V = np.linalg.eigh(gram)[1][:, ::-1][:, : min(k, n, d)]
    projected = np.empty((n, V.shape[1]))
    for start, rows in data.blocks():
        projected[start : start + len(rows)] = rows @ V
    return projected_coordinates(smooth(projected, order), d, basis)
