"""FedSC's similarities by coded computing: the server gets inner products, and never C.

Steps, messages and notation are in `coded_rows`.
"""

from dataclasses import dataclass

from daskfc.coding import LagrangeCode
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.methods.samples import ClientLabels
from daskfc.protocols.fedsc.similarity.coded_rows import (
    graph_of_distances,
    joined_votes,
    squared_norms,
    votes_of_panel,
)
from daskfc.secure.distances import Reader, SecureDistances, choose_code

TOLERANCE = 2e-7
"""Ours: RMS error of a squared distance over the squared radius. With radius 1 that is S = 4.1e6,
and similarities with an RMS error near 1e-7, and never above √d / S + d / (4 S²), 2.5e-6 for
100 atoms. Six primes of one byte; 48 bits for all would allow a grid twice as fine and no finer."""

_PANELS = 100_000_000  # bytes for panels of similarities and the kept neighbours


def choose_coded(n_clients: int, n_segments: int | None, n_colluding: int) -> LagrangeCode:
    """Return the code of coded similarities; refuse fewer clients than it needs."""
    t = max(1, n_colluding)  # a single client sees shares too
    least = n_segments or 1
    needed = 2 * least + 2 * t - 1
    if n_clients < needed:
        raise InvalidInput(
            f"FedSC with similarity='coded' needs 2l + 2t - 1 = {needed} clients for l = {least} "
            f"segments and t = {t} colluding clients; the federation has {n_clients}. Lower "
            "n_colluding, add clients, or use similarity='rows'."
        )
    return choose_code(n_clients, n_segments, t, None)


@dataclass(frozen=True)
class CodedSimilarity:
    """Handles of the server's `OrderedGraph`, the rows' distances and their `SquaredNorms`."""

    graph: Local
    distances: SecureDistances
    norms: PerClient[Sent]


def coded_similarity(
    federation: Federation,
    rows: PerClient[Local],
    positions: Local,
    *,
    n_neighbors: int | None = None,
    n_segments: int | None = None,
    n_colluding: int = 0,
    radius: float | None = 1.0,
    hide_segments: bool = True,
    engine: str = "auto",
    tile: int | None = None,
) -> CodedSimilarity:
    """Have the server compute the graph of similarities without any client's rows (N_p, d).

    It equals `similarity_graph` of the quantised rows; `radius` is a public bound on their norms
    (None reveals the largest, rounded up). Privacy: any `n_colluding` clients see uniform numbers;
    the server learns all similarities, so B up to a rotation and roughly distances, but not C. A
    client that gives it the hiding key also gives it segments' inner products.
    """
    code = choose_coded(len(federation.clients), n_segments, n_colluding)
    distances = SecureDistances.of_rows(
        federation,
        code,
        rows,
        positions,
        tolerance=TOLERANCE,
        radius=radius,
        hide_segments=hide_segments,
        engine=engine,
        tile=tile,
    )
    norms = federation.ask(squared_norms, distances.own)
    reader = Reader("the graph", memory=min(_PANELS, 40 * distances.n_samples**2))
    graph = federation.on_server(
        graph_of_distances,
        distances.all_pairs("full", reader=reader),
        norms,
        distances.plan,
        system=distances.system,
        n_neighbors=n_neighbors,
    )
    return CodedSimilarity(graph, distances, norms)


def coded_predict(
    similarity: CodedSimilarity,
    new: PerClient[Local],
    labels: Local,
    *,
    n_clusters: int,
    n_neighbors: int | None = None,
) -> PerClient[Sent[ClientLabels]]:
    """Label new samples without clients' rows; the server learns similarities to old ones."""
    distances = similarity.distances
    federation = distances.federation
    quantised = distances.quantised(new)
    norms = federation.ask(squared_norms, quantised, clients=tuple(new))
    votes: dict[str, list[Local]] = {name: [] for name in new}
    for panel in distances.to_new_rows(quantised):
        votes[panel.owner].append(
            federation.on_server(
                votes_of_panel,
                panel.columns,
                norms[panel.owner],
                similarity.norms,
                distances.plan,
                labels,
                start=panel.start,
                stop=panel.stop,
                system=distances.system,
                n_clusters=n_clusters,
                n_neighbors=n_neighbors,
            )
        )
    sent: PerClient[Sent[ClientLabels]] = federation.tell(joined_votes, votes, clients=tuple(new))
    return sent
