"""k-means in which the server sees only noisy sums, from the start on; see `noise.py`.

Messages    a sum of s numbers                  once, how many rows there are
            a sum of s + s (s + 1) / 2 floats   once, by `daskfc.secure.sums`
            KMeansReach    server → client      4 k s floats in three rounds, then k s
            a sum of as many and counts         in every round
            KMeansProgress server → caller      once
            KMeansCenters  server → client      once
"""

import math

import numpy as np

from daskfc.federation import Federation, Local, PerClient
from daskfc.privacy import REACH_OF_NOISE
from daskfc.secure.kmeans.clusters import DistributedKMeans, KMeansPlan
from daskfc.secure.kmeans.messages import KMeansCenters, KMeansProgress
from daskfc.secure.kmeans.noise import sensitivity_of
from daskfc.secure.kmeans.on_noisy_sums import row_counts
from daskfc.secure.kmeans.private.approach import approached, ended, reach_of, started
from daskfc.secure.kmeans.private.noise import SEEDING, StartedNoise, noisy_moments, noisy_offsets
from daskfc.secure.sums import Aggregation, Total


class KMeansOnNoisyOffsets(DistributedKMeans):
    """The server sees noisy sums over all clients, of moments once and of rows about centres.

    Parameters
    ----------
    federation : Federation
        In a run.
    plan : KMeansPlan
        Of its numbers `n_clusters`, `seed` and `n_init` count; starts join centres at the server.
    sums : Aggregation
        How arrays are summed.
    noise : StartedNoise
        The noise in the sums.

    Notes
    -----
    Privacy: all sums but that of the numbers of rows contain Gaussian noise, of which each client
    adds a share, so that centres are differentially private for the replacement of one row; the
    ledger has all `StartedNoise.releases`. Numbers of rows are not private: the server learns that
    of all clients together, and of each what `sums` reveals when it agrees on a bound. The inertia
    is not released: it is NaN.

    Examples
    --------
    >>> from daskfc.secure.kmeans import KMeansOnNoisyOffsets, KMeansPlan, StartedNoise
    >>> from daskfc.secure.sums import open_sum
    >>> def centers(federation, rows):             # rows: PerClient of Local arrays
    ...     noise, sums = StartedNoise(10.0, largest_norm=1.0), open_sum(federation, "masked")
    ...     kmeans = KMeansOnNoisyOffsets(federation, KMeansPlan(3, seed=0), sums, noise)
    ...     return kmeans.fit(rows).centers
    """

    def __init__(
        self, federation: Federation, plan: KMeansPlan, sums: Aggregation, noise: StartedNoise
    ) -> None:
        super().__init__(federation)
        self._plan = plan
        self._sums = sums
        self._noise = noise

    def _centers(self, rows: PerClient[Local]) -> Local[KMeansCenters]:
        federation, plan, noise, sums = self._federation, self._plan, self._noise, self._sums
        shares = sums.n_noise_shares
        counts = sums.sum(federation.on_clients(row_counts, rows, clients=tuple(rows)))
        told = federation.publish(bound_of_noise, counts, noise, shares)
        those = tuple(told.clients.tolist())
        own = rows.only(those)
        parts = federation.inline(noisy_moments, own, noise, shares, clients=those)
        total = sums.sum(parts, max_abs=told.bound)
        state = federation.on_server(started, counts, total, plan, noise)
        for number in range(SEEDING + noise.rounds):
            self._next_round()
            reach = federation.tell(reach_of, state, clients=those)
            how = (noise, shares, number)
            parts = federation.inline(noisy_offsets, own, reach, *how, clients=those)
            total = sums.sum(parts, max_abs=told.bound)
            state = federation.on_server(approached, state, total, plan, noise, number)
        return federation.on_server(ended, state)


def bound_of_noise(counts: Total, noise: StartedNoise, n_shares: int) -> KMeansProgress:
    """Report to the caller a bound on every entry of a client's noisy part, whatever its rows."""
    R, n = noise.largest_norm, float(np.rint(counts.values[0, 0]))
    widest = max(sensitivity_of(2.0 * R), noise.moments_sensitivity)
    largest = 2.0 * max(2.0 * R, R**2) * n  # √2 R² of packed entries, or a radius of 2 R at most
    bound = largest + (REACH_OF_NOISE + 1.0) * noise.multiplier * widest / math.sqrt(n_shares)
    return KMeansProgress(0, 0, bound, np.array(counts.terms, dtype=str))
