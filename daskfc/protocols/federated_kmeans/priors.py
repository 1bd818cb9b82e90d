"""Labels that count how often each cluster occurs at the client: label shift between clients.

Paper       J. E. Mosimann, "On the compound multinomial distribution", Biometrika 1962: clients'
            counts of clusters are draws of a Dirichlet-multinomial distribution, whose
            overdispersion ρ follows from one chi-squared statistic (method of moments).
Departures  Ours is what is made of it. A sample goes to the cluster with the least
                |x - c_j|² - T log(π_mj / g_j),   π_mj = (ρ n_mj + (1 - ρ) g_j) / (ρ n_m + 1 - ρ),
            with g the shares over all clients, n_m those of client m, and T a fifth of the mean
            squared distance to the centres. The fifth was chosen on MNIST by its labels, and held
            on the other sets of docs/results/k-means.md. Where clients are alike, ρ is 0 and labels
            are those of the nearest centres.
"""

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.federation import LabelledSamples, Message, array, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_many_as_announced, takes
from daskfc.linalg import accurate_squared_distances
from daskfc.protocols.federated_kmeans.party import own_rows
from daskfc.secure.kmeans.messages import KMeansCenters
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore

_TEMPERATURE = 0.2  # ours: of the mean squared distance to the centres
_ROUNDS = 50  # ours: of labels and counts in turns, at most


class ClusterShares(
    Message,
    route=("server → client", "server → caller"),
    reveals="how many samples of all clients are nearest to each centre",
):
    """Numbers of samples over all clients by nearest centre."""

    counts: np.ndarray = array("cluster", dtype="int64")

    @property
    def shares(self) -> Floats:
        """Return g, (k,)."""
        return np.asarray(self.counts / max(1, self.counts.sum()))

    @property
    def largest(self) -> float:
        """Return a bound on a client's `unlikeness`: that of one whose samples are of one cluster.

        It holds for as many samples as all have, of the rarest cluster.
        """
        n = int(self.counts.sum())
        least = int(self.counts.min(initial=n, where=self.counts > 0))
        return max(1.0, n * n / max(1, least))  # and of nobody, in a plan


class ClientPriors(
    Message,
    route=("server → client", "server → caller"),
    reveals="one number of how unlike the clients' shares of clusters are, and a mean distance",
):
    """ρ, in [0, 1], and T, in the features' unit squared."""

    overdispersion: float
    temperature: float


# -- clients --------------------------------------------------------------------------------------


def own_cluster_counts(labels: Ints, centers: KMeansCenters) -> Floats:
    """Return a client's numbers of samples by nearest centre, (k,)."""
    return np.bincount(labels, minlength=len(centers.centers)).astype(np.float64)


def unlikeness(labels: Ints, told: ClusterShares, site: SiteRules = FREE) -> Floats:
    """Return Σ_j (n_mj - n_m g_j)² / (n_m g_j) of a client, and 1 if it has samples, (2,)."""
    # Of many shares, chosen one by one, the numbers would tell each cluster's counts.
    site.once().hold("shares of clusters", "0", told.counts.tobytes())
    if not len(labels):
        return np.zeros(2)
    there = told.counts > 0
    expected = len(labels) * told.shares[there]
    counts = np.bincount(labels, minlength=len(there))[there]
    return np.array([((counts - expected) ** 2 / expected).sum(), 1.0])


def labels_by_priors(
    rows: Floats, centers: KMeansCenters, told: ClusterShares, priors: ClientPriors
) -> Ints:
    """Return the clusters of a client's samples, (n,) int64, by distances and own shares."""
    how = (priors.overdispersion, priors.temperature)
    return tempered(rows, centers.centers, told.shares, *how)


@takes(centers=as_many_as_announced)
def labelled_new_by_priors(
    new: ClientStore,
    centers: Floats,
    shares: Floats,
    overdispersion: float,
    temperature: float,
    site: SiteRules = FREE,
) -> LabelledSamples:
    """Label new samples by distances to centres (k, d) and their own shares of the clusters."""
    site.check_model(centers, shares, np.array([overdispersion, temperature]))
    rows = own_rows(new)
    return own_labels(new, tempered(rows, centers, shares, overdispersion, temperature))


def tempered(
    rows: Floats, centers: Floats, shares: Floats, overdispersion: float, temperature: float
) -> Ints:
    """Return labels (n,) that agree with their own counts: each sample's least cost, see above.

    Rows (n, d) in any order; centres (k, d) and shares g (k,) of all clients. The first of equal
    costs; labels and counts take turns until both rest.
    """
    costs = accurate_squared_distances(rows, centers)
    labels: Ints = costs.argmin(axis=1)
    rho = overdispersion
    if not (rho > 0 and temperature > 0):
        return labels
    for _ in range(_ROUNDS):
        counts = np.bincount(labels, minlength=len(shares))
        prior = (rho * counts + (1 - rho) * shares) / (rho * len(rows) + 1 - rho)
        gain = np.full(len(shares), -np.inf)  # of a cluster that nobody has, or not this client
        own = (prior > 0) & (shares > 0)
        gain[own] = temperature * np.log(prior[own] / shares[own])
        before, labels = labels, (costs - gain).argmin(axis=1)
        if np.array_equal(before, labels):
            break
    return labels


# -- server ---------------------------------------------------------------------------------------


def cluster_shares(total: Total) -> ClusterShares:
    """Send all clients and the caller the sum of `own_cluster_counts`."""
    return ClusterShares(np.rint(total.values.ravel()).astype(np.int64))


def client_priors(total: Total, told: ClusterShares, centers: KMeansCenters) -> ClientPriors:
    """Estimate ρ from the sum of `unlikeness`: its mean is (k - 1) (C + ρ (n - C)), for C clients.

    Notes
    -----
    Each client's statistic has the mean (k - 1) (1 + ρ (n_m - 1)), Mosimann 1962.
    """
    n, k = float(told.counts.sum()), int((told.counts > 0).sum())
    statistic, clients = total.values.ravel().tolist()
    clients = round(clients)
    rho = 0.0
    if k > 1 and n > clients:
        rho = float(np.clip((statistic / (k - 1) - clients) / (n - clients), 0.0, 1.0))
    return ClientPriors(rho, _TEMPERATURE * centers.inertia / n)
