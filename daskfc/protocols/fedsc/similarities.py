"""FedSC, Stage II: from rows at the clients to labels, by way of the server or of coded shares."""

from dataclasses import dataclass

from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.samples import LabelledSamples, labelled_new
from daskfc.protocols.fedsc import party, server
from daskfc.protocols.fedsc.coded import CodedSimilarity, coded_predict, coded_similarity
from daskfc.protocols.fedsc.noise import DataNoise, Noise
from daskfc.stores import ClientStore

__all__ = ["Clustered", "Clustering", "predict_new"]


@dataclass(frozen=True)
class Clustering:
    """The parameters of FedSC that Stage II depends on."""

    n_clusters: int
    ridge: float
    neighbors: int | None
    sparsify: bool
    coded: bool
    n_init: int
    n_colluding: int
    seed: int

    def run(
        self,
        federation: Federation,
        own: PerClient[Local],
        positions: Local,
        chosen: Local,
        noise: Noise | None,
    ) -> tuple[Local, Local | CodedSimilarity]:
        """Cluster the samples whose rows are at the clients.

        Returns
        -------
        labels : Local
            At the server, in canonical order.
        held : Local or CodedSimilarity
            What new samples are compared with: all rows, or what the clients hold.
        """
        if self.coded:
            similarity = coded_similarity(
                federation,
                own,
                positions,
                n_neighbors=self.neighbors,
                n_colluding=self.n_colluding,
                # without noise on the factors no row is longer than 1
                radius=1.0 if noise is None or isinstance(noise, DataNoise) else None,
            )
            labels = federation.on_server(
                server.cluster_similarity,
                similarity.graph,
                self.n_clusters,
                self.n_init,
                self.seed,
            )
            return labels, similarity
        rows = federation.on_server(server.empty_rows, positions, chosen)
        for name, sent in federation.ask(party.tell_rows, own).items():
            rows = federation.on_server(server.place_rows, rows, sent, positions, name)
        labels = federation.on_server(
            server.cluster,
            rows,
            self.n_clusters,
            self.neighbors,
            self.n_init,
            self.seed,
            self.sparsify,
        )
        return labels, rows


@dataclass(frozen=True)
class Clustered:
    """What `predict_new` needs of a fit, as handles of what stays at the parties.

    `before` has the noise multipliers of what earlier starts of the fit released.
    """

    clustering: Clustering
    final: Sent
    dictionary: Local
    told: Sent
    chosen: Local
    noise: Noise | None
    held: Local | CodedSimilarity
    positions: Local
    labels: Local
    journal: Local
    before: tuple[float, ...]


def predict_new(
    federation: Federation, clustered: Clustered, new: PerClient[Local[ClientStore]]
) -> PerClient[Sent[LabelledSamples]]:
    """Label new samples by the clustered ones that are most similar; return what clients tell."""
    how, clients = clustered.clustering, tuple(new)
    samples = federation.on_clients(party.new_samples, new, clustered.noise, clients=clients)
    own = federation.on_clients(
        party.rows_of,
        samples,
        clustered.final,
        None,
        clustered.told,
        ridge=how.ridge,
        noise=clustered.noise,
        new=True,
        clients=clients,
    )
    if isinstance(clustered.held, CodedSimilarity):
        labels = coded_predict(
            clustered.held,
            own,
            clustered.labels,
            n_clusters=how.n_clusters,
            n_neighbors=how.neighbors,
        )
    else:
        labels = federation.on_server(
            server.predict,
            federation.ask(party.tell_rows, own, clients=clients),
            clustered.held,
            clustered.labels,
            how.n_clusters,
            how.neighbors,
        )
    told = federation.tell(server.tell_new_labels, labels, clients=clients)
    return federation.publish(labelled_new, new, told, party=clients, wait=False)
