"""FedSC's similarities by coded computing: the steps and messages of clients and server.

Paper       Qiao, Ding, Fan, "Federated Spectral Clustering via Secure Similarity Reconstruction",
            NeurIPS 2023, Appendix C; OmniFC's Protocol 1 for the distances (Eqs. 1 to 6 there).
Notation    paper      here           shape, range
            C_p        -              (d, N_p), stays at client p
            -          B_p            (N_p, d) float64, C_pᵀ root, see `low_rank_similarity`
            -          rows           (N_p, d) int64, round(S B_p)
            -          norms          (N_p,) int64, |row|² = S² K̂_ii
            K̂_xx       K              (n, n), (norms_i + norms_j - S² D_ij) / (2 S²), in panels
            l, t       n_segments, n_colluding
Messages    RowSummary, SquaredNorms, ClientLabels; those of `daskfc.secure.distances`
Departures  (1) The paper asks for secure inner products without a method: here squared distances of
            the rows are computed on Lagrange shares; with the norms they give inner products.
            (2) Rows are rounded to a grid of step 1 / S, see `coded.TOLERANCE`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.clustering import ExactPoints
from daskfc.clustering.kernels.low_rank_similarity import (
    MostSimilar,
    default_neighbors,
    join_similar,
    most_similar,
)
from daskfc.clustering.views.order import Order
from daskfc.coding import ResidueSystem
from daskfc.federation import Message, NoiseMultiplier, array
from daskfc.federation.methods.samples import ClientLabels
from daskfc.pairwise import DistanceTiles
from daskfc.protocols.fedsc.server import vote
from daskfc.protocols.fedsc.similarity.graph import OrderedGraph
from daskfc.secure.distances import Columns, RowPlan
from daskfc.secure.distances.routes.rows import QuantisedRows

_BLOCK_ENTRIES = 1 << 22  # ours: similarities in a block, a few copies of 32 MiB


# -- messages ---------------------------------------------------------------------------------


class SquaredNorms(
    Message, route="client → server", reveals="the similarity of every sample to itself"
):
    """Squared norms of a client's quantised rows, in units of 1 / S²."""

    norms: np.ndarray = array("sample", dtype="int64")
    noise_multiplier: NoiseMultiplier = math.inf


# -- at a client ------------------------------------------------------------------------------


def squared_norms(quantised: QuantisedRows) -> SquaredNorms:
    """Return the squared norms of the rows, for the server."""
    norms = np.einsum("ij,ij->i", quantised.rows, quantised.rows)  # <= bound / 4 < 2**46
    if quantised.noise_multiplier is None:
        return SquaredNorms(norms)
    return SquaredNorms(norms, quantised.noise_multiplier)


# -- at the server ----------------------------------------------------------------------------


def _in_order(norms: Mapping[str, SquaredNorms], plan: RowPlan) -> Floats:
    """Return the squared norms of all samples; whole numbers below 2**46, exact in float64."""
    ordered = np.empty(plan.n_samples)
    for name, part in norms.items():
        ordered[plan.positions[name]] = part.norms
    return ordered


def _similarities(D: Floats, left: Floats, right: Floats, system: ResidueSystem) -> Floats:
    """Turn squared distances into inner products, in place; exact up to the last division."""
    square = system.scale * system.scale
    D *= -square
    np.rint(D, out=D)  # the server's distances are integers over S², rounded to float64
    D += left[:, None]
    D += right
    D /= 2 * square
    return D


def graph_of_distances(
    found: DistanceTiles | ExactPoints,
    norms: Mapping[str, SquaredNorms],
    plan: RowPlan,
    *,
    system: ResidueSystem,
    n_neighbors: int | None,
) -> OrderedGraph:
    """Return the sparse graph (n, n) of Eq. (25), as `similarity_graph`, from all distances."""
    n, ordered = found.n, _in_order(norms, plan)
    k = default_neighbors(n) if n_neighbors is None else n_neighbors
    step = max(1, _BLOCK_ENTRIES // n)
    sums, equal = np.empty(n), np.empty(n, dtype=np.int64)

    def parts() -> Iterator[MostSimilar]:
        for first, D in found.panels():
            for start in range(0, len(D), step):
                begin = first + start
                rows = D[start : start + step]
                sums[begin : begin + len(rows)] = rows.sum(axis=1)
                same = rows == 0.0
                np.fill_diagonal(same[:, begin:], True)
                equal[begin : begin + len(rows)] = same.argmax(axis=1)  # the first one
                K = _similarities(rows, ordered[begin : begin + len(rows)], ordered, system)
                yield most_similar(K, begin, k)

    graph = join_similar(parts())
    return OrderedGraph(graph, Order.by_sums(sums, equal))


def votes_of_panel(
    columns: Sequence[Columns],
    new: SquaredNorms,
    norms: Mapping[str, SquaredNorms],
    plan: RowPlan,
    labels: Ints,
    *,
    start: int,
    stop: int,
    system: ResidueSystem,
    n_clusters: int,
    n_neighbors: int | None,
) -> Ints:
    """Label new samples `start` to `stop` by the summed similarity of the most similar ones."""
    ordered = _in_order(norms, plan)
    k = min(n_neighbors or default_neighbors(len(ordered)), len(ordered))
    D = np.concatenate([part.distances for part in columns]).T
    of_panel = new.norms[start:stop].astype(np.float64)
    K = _similarities(np.ascontiguousarray(D), of_panel, ordered, system)
    return vote(K, labels, n_clusters, k)


def joined_votes(panels: Mapping[str, Sequence[Ints]]) -> Mapping[str, ClientLabels]:
    """Return each client's labels of its new samples, one panel after the other."""
    return {name: ClientLabels(np.concatenate(list(parts))) for name, parts in panels.items()}
