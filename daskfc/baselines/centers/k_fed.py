"""k-FED: every client clusters once, the server groups the clients' centres.

Paper       D. K. Dennis, T. Li, V. Smith, "Heterogeneity for the win: one-shot federated
            clustering", ICML 2021 (arXiv 2103.00697), Algorithms 1 and 2. Algorithm 1 is from
            P. Awasthi, O. Sheffet, "Improved spectral-norm bounds for clustering" (2012).
Notation    paper          here               shape, range
            k              n_clusters         int ≥ 1
            k^(z), k'      n_local_clusters   int in [1, k]; k' is the largest k^(z)
            A^(z)          data               (n_z, d) float64, stays at client z
            Â              projected          (n_z, min(k^(z), d, n_z)) coordinates of A on its top
                                              singular vectors
            ν_r, S_r, θ_r  nu, core, centers  (k^(z), ·), labels (-1 in no S_r), (k^(z), d)
            M              start              (k, d)
            τ_r            groups             which of k groups each θ belongs to
Messages    LocalCenters   client → server    once, Σ_z k^(z) d floats in all
            GlobalGroups   server → client    once
            GlobalCenters  server → caller    once, the k means of the groups
Departures  (1) The 10-approximation of Algorithm 1 is the best of ten k-means++ starts with Lloyd
            on the projected rows. (2) θ_r is the mean of the rows A_i of S_r, as printed; the
            authors' code takes the mean of their projections. For an empty S_r it is the mean of
            the rows nearest to ν_r. (3) "Pick any z" is the client with the most local clusters,
            the first by name in a tie. (4) k^(z) is one number for all clients, less for a client
            with fewer different rows; the default n_clusters is for clients that may have every
            cluster. The theory needs k' ≤ √k: set it if each client has few clusters. (5) Between
            sites a local cluster of fewer samples than the smallest group is given up, and Lloyd's
            rounds go on without its centre.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from daskfc.baselines.centers.centers import CenterClusterer, GlobalCenters
from daskfc.baselines.centers.lloyd import lloyd_of_many, means_of
from daskfc.checks import integer, optional
from daskfc.clustering.views.order import order_of_rows
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Message, PerClient, Sent, array
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.samples import LabelledSamples, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_announced, takes
from daskfc.linalg import accurate_squared_distances
from daskfc.secure.kmeans import nearest_labels
from daskfc.seeds import generator
from daskfc.stores import ClientStore


class LocalCenters(
    Message,
    route="client → server",
    reveals="the means of the client's own clusters and how many there are",
):
    """The means of one client's local clusters: Θ^(z) of Algorithm 2, line 1."""

    centers: np.ndarray = array("n_local_clusters", "n_features", dtype="float64")


class GlobalGroups(
    Message,
    route="server → client",
    reveals="to each client the global clusters of its own local clusters",
):
    """The group τ of each of one client's local clusters."""

    groups: np.ndarray = array("n_local_clusters", dtype="int64")


@dataclass(frozen=True)
class LocalClustering:
    """The result of Algorithm 1 at a client: centres ``(k, d)`` and labels ``(n,)`` of its rows."""

    centers: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Grouping:
    """The result of Algorithm 2: means ``(k, d)``, and groups ``(k^(z),)`` per client."""

    centers: np.ndarray
    groups: Mapping[str, np.ndarray]


def project(data: ClientStore, rank: int) -> np.ndarray:
    """Return the rows' coordinates ``(n, min(rank, n, d))`` on their top right singular vectors."""
    n, d = data.n_samples, data.n_features
    rank = min(rank, n, d)
    if n <= d:
        # All rows fit in memory if a d × d matrix does.
        rows = data.rows(0, n)
        values, vectors = np.linalg.eigh(rows @ rows.T)
        return np.asarray(vectors[:, ::-1][:, :rank] * np.sqrt(np.maximum(values[::-1][:rank], 0)))
    gram = np.zeros((d, d))
    for _, rows in data.blocks():
        gram += rows.T @ rows
    basis = np.linalg.eigh(gram)[1][:, ::-1][:, :rank]  # (d, rank)
    return np.concatenate([rows @ basis for _, rows in data.blocks()])


@takes(n_local_clusters=as_announced("n_local_clusters", "n_clusters"))
def local_clustering(
    data: ClientStore,
    *,
    n_local_clusters: int,
    max_iterations: int,
    random_state: int,
    party: str,
    site: SiteRules = FREE,
) -> LocalClustering:
    """Cluster one client's rows (Algorithm 1), in clusters that are large enough to be told of."""
    k = min(n_local_clusters, data.n_samples)
    projected = project(data, k)  # line 1: Â
    order = order_of_rows(projected)
    seed = int(generator(random_state, "k-FED", party).integers(2**31))
    model = KMeans(k, n_init=10, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than k
        in_order = model.fit_predict(projected[order])
    present = np.unique(in_order)
    nearest = np.empty(len(order), dtype=np.int64)
    nearest[order] = np.searchsorted(present, in_order)
    nu = model.cluster_centers_[present]
    fallback = means_of(data, nearest, otherwise=np.zeros((len(nu), data.n_features)))
    start = means_of(data, core_of(projected, nu), otherwise=fallback)  # θ_r
    found = lloyd_of_many(  # line 3
        data, start, max_iterations=max_iterations, least=site.smallest.samples
    )
    return LocalClustering(*found)


def core_of(projected: np.ndarray, nu: np.ndarray) -> np.ndarray:
    """Return for each row (n,) the r of S_r that has it, or -1 (Algorithm 1, line 2)."""
    distances = accurate_squared_distances(projected, nu)
    nearest = distances.argmin(axis=1)
    to_own = distances.min(axis=1)
    np.put_along_axis(distances, nearest[:, None], np.inf, axis=1)
    # |Â_i - ν_r| <= |Â_i - ν_s| / 3 for every s other than r; 9 because distances are squared
    return np.where(9 * to_own <= distances.min(axis=1), nearest, -1)


def local_centers(local: LocalClustering) -> LocalCenters:
    """Return the centres of the local clusters, without labels, for the server."""
    return LocalCenters(local.centers)


def group_centers(parts: Mapping[str, LocalCenters], *, n_clusters: int) -> Grouping:
    """Group the clients' centres around k far-apart ones (Algorithm 2, lines 2 to 4)."""
    names = sorted(parts)
    points = np.concatenate([parts[name].centers for name in names])  # (Σ k^(z), d)
    if len(points) < n_clusters:
        raise InvalidInput(
            f"the clients sent {len(points)} local centres and KFED needs at least one for each of "
            f"{n_clusters} clusters. Raise 'n_local_clusters' or lower 'n_clusters'."
        )
    first = max(names, key=lambda name: len(parts[name].centers))  # the first in a tie
    start = parts[first].centers[:n_clusters]  # line 2: M
    nearest = accurate_squared_distances(points, start).min(axis=1)
    while len(start) < n_clusters:  # line 3: add the centre farthest from M
        farthest = points[nearest.argmax()][None]
        start = np.concatenate([start, farthest])
        nearest = np.minimum(nearest, accurate_squared_distances(points, farthest)[:, 0])
    groups = nearest_labels(points, start)  # line 4: τ_r
    centers = start.copy()
    for r in np.unique(groups):
        centers[r] = points[groups == r].mean(axis=0)
    ends = np.cumsum([len(parts[name].centers) for name in names])[:-1]
    return Grouping(centers, dict(zip(names, np.split(groups, ends), strict=True)))


def global_groups(grouping: Grouping) -> Mapping[str, GlobalGroups]:
    """Return for each client the groups of its own centres only."""
    return {name: GlobalGroups(np.array(groups)) for name, groups in grouping.groups.items()}


def group_means(grouping: Grouping) -> GlobalCenters:
    """Return the mean of each group."""
    return GlobalCenters(grouping.centers)


def group_labels(
    data: ClientStore, local: LocalClustering, groups: GlobalGroups
) -> LabelledSamples:
    """Label a client's samples with the groups of their local clusters (Definition 3.3)."""
    return own_labels(data, groups.groups[local.labels])


class KFED(CenterClusterer):
    """One-shot federated k-means of Dennis, Li and Smith.

    Parameters
    ----------
    n_clusters : int
        Clusters over all clients.
    n_local_clusters : int, optional
        Clusters that each client looks for, at most `n_clusters`; by default `n_clusters`.
    max_iterations : int
        Rounds of Lloyd at a client, at most.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    cluster_centers_ : numpy.ndarray
        ``(n_clusters, n_features)`` float64, means of the clients' centres.

    Notes
    -----
    Privacy: the server sees every client's local means in the clear, between sites of as many
    samples as ``Federation.smallest`` says; the mean of one sample is that sample.
    Samples get the label of their local cluster; ``predict`` takes the nearest of
    ``cluster_centers_``.

    Examples
    --------
    >>> from daskfc.baselines import KFED
    >>> KFED(10, n_local_clusters=3).get_params()["n_local_clusters"]
    3
    """

    method_name: ClassVar[str] = "k-FED"
    n_local_clusters: int | None = param(optional(integer(low=1)), default=None)
    max_iterations: int = param(integer(low=1), default=300)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints and each other."""
        super().check(n_clients)
        self._check_local_clusters(self.n_local_clusters, n_clients)

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        with self._stage(federation, "local"):
            local = federation.on_clients(
                local_clustering,
                n_local_clusters=self.n_local_clusters or self.n_clusters,
                max_iterations=self.max_iterations,
                random_state=self.seed_,
            )
            parts = federation.ask(local_centers, local)
            federation.wait(parts)
        with self._stage(federation, "grouping"):
            grouping = federation.on_server(group_centers, parts, n_clusters=self.n_clusters)
            self._publish_centers(federation, federation.on_server(group_means, grouping))
        groups = federation.tell(global_groups, grouping)
        return federation.publish(group_labels, local, groups, party="clients", wait=False)
