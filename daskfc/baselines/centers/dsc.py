"""DSC: spectral clustering at clients, with signs matched by one shared sample, merged centres.

Paper       E. Hernández-Pereira, O. Fontenla-Romero, B. Guijarro-Berdiñas, B. Pérez-Sánchez,
            "Federated learning approach for spectral clustering", ESANN 2021; as in the comparison
            of D. Qiao, C. Ding, J. Fan, "Federated spectral clustering via secure similarity
            reconstruction", NeurIPS 2023.
Notation    paper    here                  shape, range
            K        n_clusters            int ≥ 1
            P        clients               number of clients
            node 1   coordinator_          the client that starts, drawn at random
            X_p      data                  (n_p, d) float64, stays at client p except for one row
            d        SharedSample.row      (d,), a random row of the coordinator
            S_p      graph                 (n_p, n_p) sparse, local similarities
            V_p      rows                  (n_p, K), local eigenvectors, stays at client p
            v_d      SharedSample.place    (K,), the coordinator's row of V for the shared sample
            C_p      EmbeddedCenters       (K, K), k-means centres of the rows of V_p
            C        CommonCenters         (K, K), k-means centres of all C_p
Messages    SharedSample     client → client   once, coordinator to each other client; RAW DATA
            EmbeddedCenters  client → client   once, each other client to the coordinator
            CommonCenters    client → client   once, coordinator to each other client
Departures  (1) THE ESANN PAPER WAS NOT AVAILABLE. The steps follow the published code of the
            NeurIPS paper: embed, share a sample and its eigenvector row, embed with that sample
            added, flip each eigenvector with another sign there, cluster locally, cluster the
            centres, label by the nearest. (2) The NeurIPS paper calls the method linear; its code
            uses no linear kernel but the defaults of MATLAB's spectralcluster, as here: a graph of
            log n nearest neighbours, weights exp(-(distance / 1)²), max(S, Sᵀ), random-walk
            Laplacian. The original may have another kernel. (3) Two details of these defaults are
            ours: log n is rounded up and does not count the sample itself, and columns of V have
            norm 1. For an eigenvalue repeated by a disconnected graph, each large component has a
            vector here, where a general solver returns any basis. (4) That code takes |V_p| for the
            centres and V_p for the labels; here both are V_p. On iris (8 clients, 20 seeds) the
            accuracy is .70 ± .11; .62 with the basis that LAPACK returns in (3), .62 with |V_p| in
            (4), .56 with both, and .55 as the NeurIPS paper reports it. (5) A client with fewer
            than K different rows of V_p sends fewer centres.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from daskfc.baselines.centers.lloyd import weighted_k_means
from daskfc.baselines.maths.walk_embedding import match_signs, neighbour_similarity, walk_embedding
from daskfc.checks import integer, optional, real
from daskfc.clustering.kernels.low_rank_similarity import default_neighbors
from daskfc.clustering.views.order import order_of_rows
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.samples import LabelledSamples, own_labels
from daskfc.linalg import squared_distances
from daskfc.seeds import generator, integer_seed
from daskfc.stores import ClientStore


class SharedSample(
    Message,
    protection="raw",
    route="client → client",
    reveals="all features of one sample of the coordinator, to every other client",
):
    """One raw sample of the coordinator, and its row of the coordinator's eigenvectors."""

    row: np.ndarray = array("n_features", dtype="float64")
    place: np.ndarray = array("n_clusters", dtype="float64")


class EmbeddedCenters(
    Message,
    route="client → client",
    reveals=(
        "to the coordinator the centres of the client's clusters among its eigenvectors, not their "
        "features"
    ),
):
    """The centres of one client's clusters, in the coordinates of its eigenvectors: C_p."""

    centers: np.ndarray = array("n_local_clusters", "n_clusters", dtype="float64")


class CommonCenters(
    Message, route="client → client", reveals="the centres of the centres of all clients"
):
    """The centres of the clusters over all clients: C."""

    centers: np.ndarray = array("n_clusters", "n_clusters", dtype="float64")


def _embedded(
    data: ClientStore,
    added: np.ndarray,
    n_clusters: int,
    n_neighbors: int | None,
    kernel_scale: float,
    random_state: int,
    party: str,
) -> np.ndarray:
    """Return V of a client's samples and `added` ones; refuse too few or dissimilar samples."""
    n = data.n_samples
    if n < n_clusters:
        raise InvalidInput(
            f"every client of DSC needs a sample for each of {n_clusters} clusters; client "
            f"{party!r} has {n}. Lower 'n_clusters' or leave the client out."
        )
    if n_neighbors is not None and n_neighbors >= n:
        raise InvalidInput(
            f"the 'n_neighbors' parameter of DSC must be less than the samples of every client; "
            f"client {party!r} has {n}, got {n_neighbors}. Lower it or leave it out."
        )
    X = np.concatenate([data.rows(0, n), added])
    n, order = len(X), order_of_rows(X)
    k = min(default_neighbors(n), n - 1) if n_neighbors is None else n_neighbors
    graph = neighbour_similarity(X[order], k, kernel_scale)
    if n > 1 and graph.nnz == 0:
        raise InvalidInput(
            f"the 'kernel_scale' parameter of DSC must leave some samples of every client similar; "
            f"at {kernel_scale:g} all weights of client {party!r} are 0. Raise it or scale the "
            "features down."
        )
    V = np.empty((n, n_clusters))
    V[order] = walk_embedding(graph, n_clusters, integer_seed(random_state, "DSC", party))
    return V


def first_rows(
    data: ClientStore,
    *,
    n_clusters: int,
    n_neighbors: int | None,
    kernel_scale: float,
    random_state: int,
    party: str,
) -> np.ndarray:
    """Return V of the coordinator's samples, ``(n, K)``."""
    how = n_clusters, n_neighbors, kernel_scale, random_state, party
    return _embedded(data, np.empty((0, data.n_features)), *how)


def share_sample(
    data: ClientStore, rows: np.ndarray, *, random_state: int, party: str, others: Sequence[str]
) -> dict[str, SharedSample]:
    """Return a random sample of the coordinator and its eigenvector row, for all other clients."""
    drawn = int(generator(random_state, "DSC", party, "sample").integers(data.n_samples))
    i = int(order_of_rows(data.rows(0, data.n_samples))[drawn])
    sample = data.rows(i, i + 1)[0]
    return {name: SharedSample(sample.copy(), rows[i].copy()) for name in others}


def aligned_rows(
    data: ClientStore,
    shared: SharedSample,
    *,
    n_clusters: int,
    n_neighbors: int | None,
    kernel_scale: float,
    random_state: int,
    party: str,
) -> np.ndarray:
    """Return V of a client's samples, ``(n, K)``, with signs matched at the shared sample."""
    how = n_clusters, n_neighbors, kernel_scale, random_state, party
    V = _embedded(data, shared.row[None], *how)
    return match_signs(V[:-1], V[-1], shared.place)


def _local_centers(
    rows: np.ndarray, n_clusters: int, n_init: int, random_state: int, party: str
) -> np.ndarray:
    k = min(n_clusters, len(np.unique(rows, axis=0)))
    seed = integer_seed(random_state, "DSC", party, "centers")
    rows = rows[order_of_rows(rows)]
    return weighted_k_means(rows, np.ones(len(rows)), k, seed, n_init=n_init)[0]


def embedded_centers(
    rows: np.ndarray,
    *,
    n_clusters: int,
    n_init: int,
    random_state: int,
    party: str,
    coordinator: str,
) -> dict[str, EmbeddedCenters]:
    """Return the k-means centres of a client's rows ``(n, K)``, for the coordinator."""
    centers = _local_centers(rows, n_clusters, n_init, random_state, party)
    return {coordinator: EmbeddedCenters(centers)}


def merge_centers(
    rows: np.ndarray,
    parts: Mapping[str, EmbeddedCenters],
    *,
    n_clusters: int,
    n_init: int,
    random_state: int,
    party: str,
) -> CommonCenters:
    """Cluster the centres of all clients at the coordinator, which has rows ``(n, K)``."""
    of_coordinator = _local_centers(rows, n_clusters, n_init, random_state, party)
    points = np.concatenate([of_coordinator, *(parts[name].centers for name in sorted(parts))])
    seed = integer_seed(random_state, "DSC", "common")
    found, _ = weighted_k_means(points, np.ones(len(points)), n_clusters, seed, n_init=n_init)
    return CommonCenters(found)


def tell_centers(centers: CommonCenters, *, others: Sequence[str]) -> dict[str, CommonCenters]:
    """Return the common centres, from the coordinator for every other client."""
    return dict.fromkeys(others, centers)


def common_labels(data: ClientStore, rows: np.ndarray, centers: CommonCenters) -> LabelledSamples:
    """Label a client's samples with the common centre nearest to their rows of V."""
    return own_labels(data, squared_distances(rows, centers.centers).argmin(axis=1))


class DSC(FederatedClusterer):
    """Distributed spectral clustering of Hernández-Pereira et al., as in FedSC's comparison.

    Parameters
    ----------
    n_clusters : int
        Clusters over all clients, at most the number of samples of each.
    n_neighbors : int, optional
        Neighbours of a sample in its client's graph, without itself; by default ⌈log n⌉ for a
        client of n samples.
    kernel_scale : float
        s of the weights exp(-(distance / s)²), in units of the data. The published default suits
        features of size 1; raise it if distances of neighbours are far above 1.
    n_init : int
        Starts of k-means, at a client and for the merge.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    coordinator_ : str
        The client that shared a sample and merged the centres.

    Notes
    -----
    Privacy: one sample of the coordinator reaches every other client in the clear, and the
    federation refuses that unless it was started with ``allow_raw=True``; in addition the
    coordinator sees the centres of each client's clusters among its eigenvectors. The server takes
    no part. There is no ``predict``: an eigenvector has no value for a new sample.

    Only signs are matched. Clients with eigenvectors in another order, or in another basis for a
    repeated eigenvalue, are merged wrongly, which is frequent where K is large or a client's graph
    is disconnected.

    Examples
    --------
    >>> from daskfc.baselines import DSC
    >>> DSC(3, n_neighbors=5).get_params()["kernel_scale"]
    1.0
    """

    split: ClassVar = "samples"
    needs_raw: ClassVar[bool] = True
    n_clusters: int = param(integer(low=1), kw_only=False)
    n_neighbors: int | None = param(optional(integer(low=1)), default=None)
    kernel_scale: float = param(real(above=0), default=1.0)
    n_init: int = param(integer(low=1), default=5)

    coordinator_: str

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        self._check_raw(federation, "one raw sample of a client to all others")
        clients = federation.clients
        drawn = generator(self.seed_, "DSC", "coordinator").integers(len(clients))
        leader = self.coordinator_ = clients[int(drawn)]
        others = [name for name in clients if name != leader]
        with self._stage(federation, "local"):
            rows = self._rows(federation, leader, others)
            federation.wait(rows)
        with self._stage(federation, "merge"):
            centers = self._merged(federation, rows, leader, others)
            federation.wait(centers)
        sent: PerClient[Sent] = federation.publish(
            common_labels, rows, centers, party="clients", wait=False
        )
        return sent

    def _rows(self, federation: Federation, leader: str, others: list[str]) -> PerClient[Local]:
        """Embed every client's samples, the coordinator's first."""
        how: dict[str, Any] = {
            "n_clusters": self.n_clusters,
            "n_neighbors": self.n_neighbors,
            "kernel_scale": self.kernel_scale,
            "random_state": self.seed_,
        }
        first = federation.on_client(leader, first_rows, **how)
        if not others:
            return PerClient({leader: first})
        sent = federation.exchange(
            share_sample,
            first,
            clients=[leader],
            receivers=others,
            others=others,
            random_state=self.seed_,
        )
        shared = PerClient({name: sent[name][leader] for name in others})
        aligned = federation.on_clients(aligned_rows, shared, clients=others, **how)
        return PerClient({leader: first, **aligned})

    def _merged(
        self, federation: Federation, rows: PerClient[Local], leader: str, others: list[str]
    ) -> PerClient[Local[CommonCenters] | Sent[CommonCenters]]:
        """Cluster the centres of all clients at the coordinator; return them at every client."""
        how: dict[str, Any] = {
            "n_clusters": self.n_clusters,
            "n_init": self.n_init,
            "random_state": self.seed_,
        }
        parts: Mapping[str, Sent] = {}
        if others:
            parts = federation.exchange(
                embedded_centers,
                rows,
                clients=others,
                receivers=[leader],
                coordinator=leader,
                **how,
            )[leader]
        # in a plain mapping: a PerClient by sender would be split by receiver
        arrived = PerClient({leader: dict(parts)})
        merged = federation.on_clients(merge_centers, rows, arrived, clients=[leader], **how)
        if not others:
            return PerClient({leader: merged[leader]})
        sent = federation.exchange(
            tell_centers, merged, clients=[leader], receivers=others, others=others
        )
        return PerClient({**merged, **{name: sent[name][leader] for name in others}})
