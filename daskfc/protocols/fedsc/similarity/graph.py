"""FedSC's graph of similar samples at the server, with the search divided among its workers.

Products in float32, n² / 2 of them, select the pairs that can matter: every worker computes its
share of the tiles. The server computes the selected pairs in float64, so that the graph does not
depend on the number of workers, to the last bit.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from daskfc.arrays import Floats
from daskfc.clustering.kernels.low_rank_similarity import Graph, default_neighbors, similarity_graph
from daskfc.clustering.views.largest_products import RoundedRows, Screened
from daskfc.clustering.views.order import Order, order_of_points
from daskfc.clustering.views.screening import Share, is_worthwhile
from daskfc.federation import SERVER, Federation, Local, Message, PerClient, array
from daskfc.federation.party.process_memory import PROCESS_BYTES, fits

log = logging.getLogger("daskfc.protocols")

_EQUAL = 1e-24  # ours: squared rounding error of the distance of equal rows of norm up to 1
_SCREENING = 450 << 20  # bytes of `RoundedRows.screened` without the rows


class RoundedSimilarities(
    Message,
    route="server → server worker",
    reveals="to the server's own workers what it has: rows of all samples, rounded",
):
    """Rows rounded to float32, as `RoundedRows.table`, or none."""

    rows: np.ndarray = array("sample", "atom", dtype="float32")
    error: np.ndarray = array("sample", dtype="float32")
    unit: float
    lowest: float
    n_neighbors: int  # the sample itself among them


class SimilarPairs(
    Message,
    route="server worker → server",
    reveals="to the server which samples can be similar to one another, and which least",
):
    """Pairs of samples that can be neighbours in the graph, or have the smallest similarity."""

    samples: np.ndarray = array("pair", dtype="int32")
    others: np.ndarray = array("pair", dtype="int32")
    low_samples: np.ndarray = array("low_pair", dtype="int32")
    low_others: np.ndarray = array("low_pair", dtype="int32")
    lowest: float
    complete: int  # 0 if float32 is too coarse


@dataclass(frozen=True)
class OrderedGraph:
    """The sparse graph (n, n) of similar samples, and their order by similarities."""

    graph: Graph
    order: Order

    def moved(self) -> Graph:
        """Return the graph of samples in this order."""
        places = self.order.places
        return self.graph[places][:, places]


def graph_of_rows(
    federation: Federation, rows: Local, neighbors: int | None
) -> Local[OrderedGraph]:
    """Have the server compute the exact graph of its rows B (n, d), with the help of its workers.

    `neighbors` counts the sample itself. Privacy: nothing leaves the server except to its workers.
    """
    workers = federation.server_workers
    if not workers:
        return federation.on_server(settled_graph, rows, {}, neighbors)
    limits = federation.limits()
    room = min((limit for name in workers if (limit := limits.get(name)) is not None), default=None)
    of = len(workers) + 1
    rounded = federation.on_server(rounded_similarities, rows, neighbors, room)
    told = federation.hand_out(rounded)
    federation.wait(told)  # otherwise the server would compute its own share first
    parts = PerClient({worker: number for number, worker in enumerate(workers, start=1)})
    theirs = federation.hand_back(similar_pairs, told, part=parts, of=of)
    own = federation.on_server(similar_pairs, rounded, part=0, of=of)
    return federation.on_server(settled_graph, rows, {SERVER: own, **theirs}, neighbors)


def rounded_similarities(
    rows: Floats, neighbors: int | None, room: int | None
) -> RoundedSimilarities:
    """Return the rounded rows for the server's workers; none if useless or too large for them."""
    n, d = rows.shape
    k = neighbors or default_neighbors(n)
    needed = PROCESS_BYTES + _SCREENING + 2 * n * d * 4
    has_room = fits(needed, room)
    if not has_room:
        log.info("the server's workers have no room for a share of the graph, made by it alone")
    # `settled_graph` refuses rows that are not finite
    useful = has_room and is_worthwhile(n, k - 1) and bool(np.isfinite(rows).all())
    rounded = RoundedRows.of(rows) if useful else None
    if rounded is None:
        empty = np.empty(0, np.float32)
        return RoundedSimilarities(np.empty((0, 0), np.float32), empty, 1.0, 0.0, k)
    return RoundedSimilarities(rounded.table(), rounded.error, rounded.unit, rounded.lowest, k)


def similar_pairs(rounded: RoundedSimilarities, *, part: int, of: int) -> SimilarPairs:
    """Return the pairs of one worker's share of the tiles."""
    found = None
    if len(rounded.error):
        table = rounded.rows, rounded.error, rounded.unit, rounded.lowest
        found = RoundedRows.of_table(*table).screened(rounded.n_neighbors - 1, Share(part, of))
    if found is None:
        none = np.empty(0, np.int32)
        return SimilarPairs(none, none, none, none, 0.0, 0)
    return SimilarPairs(
        found.rows.astype(np.int32),
        found.others.astype(np.int32),
        found.low_rows.astype(np.int32),
        found.low_others.astype(np.int32),
        found.lowest,
        complete=1,
    )


def settled_graph(
    rows: Floats, found: Mapping[str, SimilarPairs], neighbors: int | None
) -> OrderedGraph:
    """Return the graph, from the pairs of all workers if they are complete."""
    if not all(part.complete for part in found.values()):
        found = {}
    screened = [
        Screened(
            part.samples.astype(np.int64),
            part.others.astype(np.int64),
            part.low_samples.astype(np.int64),
            part.low_others.astype(np.int64),
            part.lowest,
        )
        for part in found.values()
    ]
    return OrderedGraph(similarity_graph(rows, neighbors, screened), order_of_similar(rows))


def order_of_similar(rows: Floats) -> Order:
    """Return the order of samples by their rows."""
    return order_of_points(rows, _EQUAL)
