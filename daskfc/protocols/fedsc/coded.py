"""FedSC's similarities by coded computing: the server gets inner products, and never C.

The steps and messages, with the paper's notation, are in `coded_rows`.
"""

from dataclasses import dataclass

from daskfc.coding import LagrangeCode
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.samples import ClientLabels
from daskfc.protocols.fedsc.coded_rows import (
    graph_of_distances,
    joined_votes,
    squared_norms,
    votes_of_panel,
)
from daskfc.secure.distances import Reader, SecureDistances, choose_code

__all__ = ["TOLERANCE", "CodedSimilarity", "choose_coded", "coded_predict", "coded_similarity"]

TOLERANCE = 2e-7
"""Ours: RMS error of a squared distance over the squared radius. With radius 1 that is S = 4.1e6,
and similarities with an RMS error near 1e-7, and never above √d / S + d / (4 S²), 2.5e-6 for
100 atoms. Six primes of one byte; 48 bits for all would allow a grid twice as fine and no finer."""

_PANELS = 100_000_000  # similarities of some samples with all, and what of them is kept


def choose_coded(n_clients: int, n_segments: int | None, n_colluding: int) -> LagrangeCode:
    """Return the code of coded similarities; at least one client's view is always hidden.

    Parameters
    ----------
    n_clients : int
        Number of clients.
    n_segments : int, optional
        l; by default 1.
    n_colluding : int
        Clients that may pool what they see; 0 counts as 1, for a single client sees shares too.

    Raises
    ------
    InvalidInput
        When there are too few clients.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.coded import choose_coded
    >>> choose_coded(5, None, 0)
    LagrangeCode(n_segments=1, n_colluding=1, n_evaluators=4)
    """
    t = max(1, n_colluding)
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
    """The graph at the server, and what new samples are compared with; handles only.

    Parameters
    ----------
    graph : Local
        The server's `OrderedGraph` of `graph_of_distances`.
    distances : SecureDistances
        Of the rows.
    norms : PerClient of Sent
        `SquaredNorms` of the clustered samples.
    """

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
    """Have the server make the graph of similarities without any client's rows.

    Parameters
    ----------
    federation : Federation
        The parties, in a run.
    rows : PerClient of Local
        B_p at each client, (N_p, d) float64 or `Noised`; one length d at all clients.
    positions : Local
        The server's `canonical_positions`.
    n_neighbors : int, optional
        As for `similarity_graph`.
    n_segments, n_colluding : int
        As for `choose_coded`.
    radius : float or None
        Public bound on the norm of a row: 1, which holds for rows without noise on the factors.
        With None the largest norm is told, rounded up.
    hide_segments : bool
        Hide the inner products of single segments from the server.
    engine, tile
        As for `OmniFC`.

    Returns
    -------
    CodedSimilarity
        Its ``graph`` equals that of `similarity_graph` for the quantised rows.

    Raises
    ------
    InvalidInput
        When there are too few clients, before anything starts.
    ResourceRefused
        When a party's memory or the server's disk cannot hold it; before anything is encoded.

    Notes
    -----
    Privacy: any `n_colluding` clients see uniform numbers of the others' rows, and neither C nor B
    leaves a client. The server gets all similarities, from which B follows up to one rotation of
    all rows, and C does not; but similarities are close to the Gaussian kernel, and with its width
    tell about how far apart samples are. A client that gives the server the hiding key also gives
    it the inner products of single segments of rows.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.coded import coded_similarity
    >>> similarity = coded_similarity(federation, rows, positions)  # doctest: +SKIP
    >>> labels = federation.on_server(cluster, similarity.graph)  # doctest: +SKIP
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
    """Label new samples at the server without any client's rows, and tell their clients.

    Parameters
    ----------
    similarity : CodedSimilarity
        Of the fit.
    new : PerClient of Local
        Rows of new samples at some clients, as at the fit.
    labels : Local
        The server's labels of the clustered samples, in canonical order.
    n_clusters, n_neighbors : int
        As at the fit.

    Returns
    -------
    PerClient of Sent
        The labels of its new samples for each of these clients.

    Notes
    -----
    Privacy: as for `coded_similarity`; the server gets similarities of new to clustered samples.

    Examples
    --------
    >>> from daskfc.protocols.fedsc.coded import coded_predict
    >>> new_labels = coded_predict(similarity, new, labels, n_clusters=3)  # doctest: +SKIP
    """
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
