"""FedSC, Stage II: from the clients' rows to labels, with rows at the server or coded shares."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from daskfc.federation import Federation, Inline, Local, PerClient, Sent
from daskfc.federation.methods.cluster_scores import ClusterScores
from daskfc.federation.methods.samples import Labelled, NewStores, labelled_new
from daskfc.protocols.fedsc import party, server
from daskfc.protocols.fedsc.averaging import Planned
from daskfc.protocols.fedsc.messages import KernelPlan
from daskfc.protocols.fedsc.privacy.noise import DataNoise, Noise
from daskfc.protocols.fedsc.similarity.coded import CodedSimilarity, coded_predict, coded_similarity
from daskfc.protocols.fedsc.similarity.graph import graph_of_rows


@dataclass(frozen=True)
class SimilarityClustering:
    """The parameters of FedSC that Stage II uses."""

    n_clusters: int
    ridge: float
    neighbors: int | None
    sparsify: bool
    similarity: str
    n_init: int
    n_colluding: int
    seed: int

    def learned(
        self,
        federation: Federation,
        rows: PerClient[Local] | PerClient[Inline],
        positions: Local,
        plan: KernelPlan,
        noise: Noise | None,
    ) -> Local | CodedSimilarity:
        """Have the server learn the similarities; return all rows, or a `CodedSimilarity`."""
        if self.similarity == "coded":
            return coded_similarity(
                federation,
                cast("PerClient[Local]", rows),
                positions,
                n_neighbors=self.neighbors,
                n_colluding=self.n_colluding,
                # without noise on the factors rows have norms of at most 1
                radius=1.0 if noise is None or isinstance(noise, DataNoise) else None,
            )
        all_rows = federation.on_server(server.empty_rows, positions, plan)
        for name, sent in federation.ask(party.tell_rows, rows).items():
            all_rows = federation.on_server(server.place_rows, all_rows, sent, positions, name)
        return all_rows

    def labels(self, federation: Federation, similar: Local | CodedSimilarity) -> Local:
        """Have the server cluster all samples, in canonical order, on the result of `learned`."""
        how = self.n_clusters, self.n_init, self.seed
        if (graph := self._graph(federation, similar)) is not None:
            return federation.on_server(server.cluster_similarity, graph, *how)
        return federation.on_server(server.cluster, similar, *how)

    def eigengaps(
        self, federation: Federation, similar: Local | CodedSimilarity, n_clusters: Sequence[int]
    ) -> ClusterScores:
        """Have the server report the gap after each of some numbers of eigenvalues."""
        asked = list(n_clusters)
        if (graph := self._graph(federation, similar)) is not None:
            return federation.publish(server.eigengaps_of_graph, graph, asked, self.seed)
        return federation.publish(server.eigengaps, similar, asked)

    def _graph(self, federation: Federation, similar: Local | CodedSimilarity) -> Local | None:
        """Return the graph of the most similar samples, None without `sparsify`."""
        if isinstance(similar, CodedSimilarity):
            return similar.graph
        return graph_of_rows(federation, similar, self.neighbors) if self.sparsify else None


@dataclass(frozen=True)
class Fitted:
    """What `predict_new` needs of a fit: handles, and multipliers `before` this start."""

    planned: Planned
    how: SimilarityClustering
    final: Sent
    dictionary: Local
    reference: Local | CodedSimilarity
    positions: Local
    labels: Local
    before: tuple[float, ...]


def predict_new(federation: Federation, fitted: Fitted, new: NewStores) -> Labelled:
    """Label new samples by the most similar clustered ones; return the clients' messages."""
    how, planned, clients = fitted.how, fitted.planned, tuple(new)
    samples = federation.on_clients(party.new_samples, new, planned.noise, clients=clients)
    rows = federation.on_clients(
        party.rows_of,
        samples,
        fitted.final,
        None,
        planned.plan_sent,
        ridge=how.ridge,
        noise=planned.noise,
        clients=clients,
    )
    if isinstance(fitted.reference, CodedSimilarity):
        labels = coded_predict(
            fitted.reference,
            rows,
            fitted.labels,
            n_clusters=how.n_clusters,
            n_neighbors=how.neighbors,
        )
    else:
        labels = federation.tell(
            server.predict,
            federation.ask(party.tell_rows, rows, clients=clients),
            fitted.reference,
            fitted.labels,
            how.n_clusters,
            how.neighbors,
            clients=clients,
        )
    return federation.publish(labelled_new, new, labels, party=clients, wait=False)
