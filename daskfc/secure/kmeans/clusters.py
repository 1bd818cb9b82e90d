"""The interface of every distributed k-means: centres at the server, labels at the clients."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from daskfc.arrays import Floats, Ints
from daskfc.checks import check_params, integer, real
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.secure.kmeans.lloyd import nearest_labels
from daskfc.secure.kmeans.messages import KMeansCenters


@dataclass(frozen=True)
class KMeansPlan:
    """Parameters of a k-means, whatever protects the rows.

    Parameters
    ----------
    n_clusters : int
        Centres wanted, at least 1.
    seed : int
        Seed of all random draws, at least 0.
    n_init : int
        Starts, at least 1.
    max_iter : int
        Rounds of Lloyd's algorithm at most, at least 1.
    tolerance : float
        Rounds end when the inertia falls by a smaller share, at least 0.
    lloyd_rounds : int
        On sums: rounds of Lloyd's algorithm after the search, each on smaller groups, at most.

    Raises
    ------
    InvalidInput
        For a value outside its range.

    Examples
    --------
    >>> from daskfc.secure.kmeans.clusters import KMeansPlan
    >>> KMeansPlan(3, seed=0).n_init
    10
    """

    n_clusters: int
    seed: int
    n_init: int = 10
    max_iter: int = 100
    tolerance: float = 1e-4
    lloyd_rounds: int = 0

    def __post_init__(self) -> None:
        check_params(
            "a k-means",
            vars(self),
            {
                "n_clusters": integer(low=1),
                "seed": integer(low=0),
                "n_init": integer(low=1),
                "max_iter": integer(low=1),
                "tolerance": real(low=0),
                "lloyd_rounds": integer(low=0),
            },
        )


@dataclass(frozen=True)
class Clusters:
    """Clusters of rows that stayed at their clients.

    Parameters
    ----------
    centers : Local of KMeansCenters
        At the server; ``federation.publish(clusters.centers)`` sends them to the caller.
    told : Sent of KMeansCenters
        The same at all clients, to label other rows with `own_clusters`.
    labels : PerClient of Local
        The cluster of each row, (n,) int64, at its own client.
    """

    centers: Local[KMeansCenters]
    told: Sent[KMeansCenters]
    labels: PerClient[Local[Ints]]


class DistributedKMeans(ABC):
    """A way of clustering rows that stay at the clients.

    Parameters
    ----------
    federation : Federation
        In a run.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.n_rounds = 0  # of the last fit

    def fit(self, rows: PerClient[Local]) -> Clusters:
        """Cluster one array of each client.

        Parameters
        ----------
        rows : PerClient of Local
            (n, s), float64, finite, each at its client; s is the same at all clients, and n at
            least 1 at one of them.

        Returns
        -------
        Clusters
            With fewer distinct rows than clusters, some clusters are empty.
        """
        self.n_rounds = 0
        centers = self._centers(rows)
        told = self._federation.tell(centers, clients=tuple(rows))
        labels = self._federation.on_clients(own_clusters, rows, told, clients=tuple(rows))
        return Clusters(centers, told, labels)

    def _next_round(self) -> None:
        self._federation.next_round()
        self.n_rounds += 1

    @abstractmethod
    def _centers(self, rows: PerClient[Local]) -> Local[KMeansCenters]:
        """Return the centres, at the server."""


def own_clusters(rows: Floats, centers: KMeansCenters | Floats) -> Ints:
    """Return the clusters of a client's rows; also a step, for rows that were not clustered.

    Parameters
    ----------
    rows : ndarray of shape (n, s), float64
    centers : KMeansCenters, or ndarray of shape (k, s)

    Returns
    -------
    ndarray of shape (n,), int64
        The nearest centre, the first of equal ones.

    Examples
    --------
    >>> from daskfc.secure.kmeans import own_clusters
    >>> def labels_of_new(federation, clusters, new):     # new: PerClient of Local arrays
    ...     return federation.on_clients(own_clusters, new, clusters.told, clients=tuple(new))
    """
    found = centers.centers if isinstance(centers, KMeansCenters) else centers
    return nearest_labels(rows, found)


def check_enough(n_rows: float, n_clusters: int) -> None:
    """Refuse more clusters than rows; the error reports their number, which the server knows."""
    if n_rows < n_clusters:
        raise InvalidInput(
            "the 'n_clusters' parameter of a k-means must be at most the number of rows of all "
            f"clients, {n_rows:.0f}; got {n_clusters}. Lower it."
        )
