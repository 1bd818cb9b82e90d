"""k-means in which the server sees only noisy sums, for differential privacy; see `noise.py`.

Messages    a sum of s numbers               once, how many rows there are
            KMeansCenters  server → client   k s floats, in every round and at the end
            a sum of k (1 + s) floats        in every round, by `daskfc.secure.sums`
            KMeansProgress server → caller   once
"""

import math

import numpy as np

from daskfc.arrays import Floats
from daskfc.federation import Federation, Local, PerClient
from daskfc.privacy import REACH_OF_NOISE
from daskfc.secure.kmeans.clusters import DistributedKMeans, KMeansPlan, check_enough
from daskfc.secure.kmeans.lloyd import check_rows
from daskfc.secure.kmeans.messages import KMeansCenters, KMeansProgress
from daskfc.secure.kmeans.noise import LloydNoise, centers_in_ball, noisy_sums, updated
from daskfc.secure.sums import Aggregation, Total


class KMeansOnNoisySums(DistributedKMeans):
    """The server sees noisy sums over all clients, of a fixed number of rounds.

    Parameters
    ----------
    federation : Federation
        In a run.
    n_clusters, seed : int
        As in `KMeansPlan`; there is one start.
    sums : Aggregation
        How arrays are summed.
    noise : LloydNoise
        The noise in the sums.

    Notes
    -----
    Privacy: in every round the sums contain Gaussian noise of `LloydNoise.sigma`, of which each
    client adds a share, so that centres are differentially private for the replacement of one row;
    the ledger has a release of every round. Numbers of rows are not private: the server learns that
    of all clients together, and of each what `sums` reveals when it agrees on a bound. The inertia
    is not released: it is NaN.

    Examples
    --------
    >>> from daskfc.secure.kmeans import KMeansOnNoisySums, LloydNoise
    >>> from daskfc.secure.sums import open_sum
    >>> def centers(federation, rows):             # rows: PerClient of Local arrays
    ...     noise = LloydNoise(multiplier=10.0, largest_norm=1.0, rounds=5)
    ...     sums = open_sum(federation, "masked")
    ...     return KMeansOnNoisySums(federation, 3, 0, sums, noise).fit(rows).centers
    """

    def __init__(
        self,
        federation: Federation,
        n_clusters: int,
        seed: int,
        sums: Aggregation,
        noise: LloydNoise,
    ) -> None:
        super().__init__(federation)
        self._plan = KMeansPlan(n_clusters, seed)
        self._sums = sums
        self._noise = noise

    def _centers(self, rows: PerClient[Local]) -> Local[KMeansCenters]:
        federation, noise, seed = self._federation, self._noise, self._plan.seed
        shares = self._sums.n_noise_shares
        counts = self._sums.sum(federation.on_clients(row_counts, rows, clients=tuple(rows)))
        state = federation.publish(public_bound, counts, noise, shares)
        those = tuple(state.clients.tolist())
        own = rows.only(those)
        centers = federation.on_server(first_centers, counts, self._plan, noise)
        for number in range(noise.rounds):
            self._next_round()
            told = federation.tell(centers, clients=those)
            parts = federation.inline(noisy_sums, own, told, noise, shares, number, clients=those)
            total = self._sums.sum(parts, max_abs=state.bound)
            centers = federation.on_server(updated, centers, total, noise, seed, number)
        return centers


def row_counts(rows: Floats) -> Floats:
    """Return a client's number of rows once for each feature, so the sum gives both numbers."""
    rows = check_rows(rows)
    return np.full(rows.shape[1], float(len(rows)))


def public_bound(counts: Total, noise: LloydNoise, n_shares: int) -> KMeansProgress:
    """Report to the caller a bound on every entry of a client's noisy part, whatever its rows."""
    largest = noise.largest_norm * float(np.rint(counts.values[0, 0]))
    bound = largest + (REACH_OF_NOISE + 1.0) * noise.sigma / math.sqrt(n_shares)
    return KMeansProgress(0, 0, bound, np.array(counts.terms, dtype=str))


def first_centers(counts: Total, plan: KMeansPlan, noise: LloydNoise) -> KMeansCenters:
    """Return first centres, which depend on the largest norm but not on the rows."""
    check_enough(float(np.rint(counts.values[0, 0])), plan.n_clusters)
    n_features = len(counts.values)
    found = centers_in_ball(plan.n_clusters, n_features, noise.largest_norm, plan.seed)
    return KMeansCenters(found, math.nan)
