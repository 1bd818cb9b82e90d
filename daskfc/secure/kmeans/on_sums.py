"""k-means of which the server sees nothing but sums over all clients.

Paper       S. P. Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 1982; moves of
            centres as in P. Fränti, "Efficiency of random swap clustering", Journal of Big Data
            2018, but with all candidates of a round side by side.
Messages    KMeansStarts    server → client    a (k, s) floats a round, of a starts
            a sum of a k (1 + 2 s) floats      in every round, by `daskfc.secure.sums`
            KMeansProgress  server → caller    once a round
            KMeansCenters   server → client    once
Departures  First centres are no rows, which nobody may see, but drawn; see `starts.py`.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfc.federation import Federation, Local, PerClient
from daskfc.secure.kmeans.clusters import DistributedKMeans, KMeansPlan, check_enough
from daskfc.secure.kmeans.lloyd import (
    Moments,
    bound_of_sums,
    check_rows,
    moments_of,
    row_moments,
)
from daskfc.secure.kmeans.messages import KMeansCenters, KMeansProgress, KMeansStarts
from daskfc.secure.kmeans.starts import first_starts, refilled, swapped
from daskfc.secure.sums import Aggregation, Total
from daskfc.seeds import generator

__all__ = ["KMeansOnSums", "Search", "advanced", "begun"]

Floats = NDArray[np.float64]

_HEAT = 4  # ours: rounds of Lloyd after which starts are compared
_PATIENCE = 2  # ours: heats in a row without gain, after which the best start has won
_TIE = 1.0 + 1e-9  # ours: no start is better by less, so that rounding of sums decides nothing
_NOTHING = 1e-12  # ours: of the scatter of all rows; a smaller inertia is that of rounding


@dataclass(frozen=True)
class Search:
    """What the server holds between two rounds.

    Parameters
    ----------
    starts : ndarray of shape (a, k, s)
        The centres that clients are told next.
    mean, n_rows, scatter : ndarray of shape (s,), float, float
        A point, the number of all rows, and the sum of their squared distances to it.
    clients : tuple of str
        Whose rows these are. They take part in later rounds, whose sums these numbers bound; some
        may be missing in one.
    n_rounds : int
        Rounds of Lloyd so far; -1 before the scatter around the mean is known.
    best, inertia : ndarray of shape (k, s), float
        The best centres whose inertia was measured, and that: per row, since clients may leave.
    of_heat : float
        The least inertia when starts were last compared.
    idle : int
        Comparisons in a row without gain.
    settled : bool
        Whether this is the end.
    """

    starts: Floats
    mean: Floats
    n_rows: float
    scatter: float
    clients: tuple[str, ...]
    n_rounds: int = -1
    best: Floats | None = None
    inertia: float = np.inf
    of_heat: float = np.inf
    idle: int = 0
    settled: bool = False


class KMeansOnSums(DistributedKMeans):
    """The server sees sums over all clients: of each cluster's rows, of their squares, and counts.

    Parameters
    ----------
    federation : Federation
        In a run.
    plan : KMeansPlan
        What is asked.
    sums : Aggregation
        How arrays are summed; it decides who learns a client's own part.

    Notes
    -----
    Privacy: of every start and every round, the server learns each cluster's number of rows, mean
    and variances over all clients, and all clients learn the centres that it makes of them. A
    cluster of one row is that row. Which client a row belongs to stays hidden as far as `sums`
    hides the parts. The first sum's bound is agreed on by the clients (`Magnitude`), where the kind
    needs one; later bounds follow from the sums.

    Examples
    --------
    >>> from daskfc.secure.kmeans import KMeansOnSums, KMeansPlan
    >>> from daskfc.secure.sums import open_sum
    >>> def centers(federation, rows):             # rows: PerClient of Local arrays
    ...     sums = open_sum(federation, "masked")
    ...     found = KMeansOnSums(federation, KMeansPlan(3, seed=0), sums).fit(rows)
    ...     return federation.publish(found.centers).centers
    """

    def __init__(self, federation: Federation, plan: KMeansPlan, sums: Aggregation) -> None:
        super().__init__(federation)
        self._plan = plan
        self._sums = sums

    def _centers(self, rows: PerClient[Local]) -> Local[KMeansCenters]:
        federation, plan, sums = self._federation, self._plan, self._sums
        total = sums.sum(federation.on_clients(first_moments, rows, clients=tuple(rows)))
        search = federation.on_server(begun, total, plan)
        state = federation.publish(progress, search)
        while not state.settled:
            federation.next_round()
            those = tuple(state.clients.tolist())
            own = rows.only(those)
            starts = federation.tell(next_starts, search, clients=those)
            parts = federation.inline(moments_of_starts, own, starts, clients=those)
            total = sums.sum(parts, max_abs=state.bound)
            search = federation.on_server(advanced, search, total, plan)
            state = federation.publish(progress, search)
        return federation.on_server(best_centers, search)


def first_moments(rows: Floats) -> Floats:
    """Return a client's number of rows, and sums of rows and of squares, (1, 1 + 2 s)."""
    rows = check_rows(rows)
    return row_moments(rows, np.zeros((1, 1, rows.shape[1])))


def moments_of_starts(rows: Floats, starts: KMeansStarts) -> Floats:
    """Return a client's part of the sums of one round, (a * k, 1 + 2 s)."""
    return row_moments(rows, starts.centers)


def next_starts(search: Search) -> KMeansStarts:
    """Tell all clients the centres of the next round."""
    return KMeansStarts(search.starts)


def progress(search: Search) -> KMeansProgress:
    """Tell the caller what the next round needs."""
    bound = bound_of_sums(search.n_rows, search.scatter, search.mean, search.starts)
    return KMeansProgress(int(search.settled), bound, np.array(search.clients, dtype=str))


def best_centers(search: Search) -> KMeansCenters:
    """Return the best centres, and the inertia of all rows around them."""
    assert search.best is not None
    return KMeansCenters(search.best, search.inertia * search.n_rows)


def begun(total: Total, plan: KMeansPlan) -> Search:
    """Return the search whose first centre is the mean of all rows.

    Parameters
    ----------
    total : Total
        Of `first_moments`.
    plan : KMeansPlan

    Raises
    ------
    InvalidInput
        For fewer rows than clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.clusters import KMeansPlan
    >>> from daskfc.secure.kmeans.on_sums import begun
    >>> from daskfc.secure.sums import Total
    >>> begun(Total(np.array([[4.0, 8.0, 20.0]]), 0.0, ("a", "b")), KMeansPlan(2, seed=0)).starts
    array([[[2.]]])
    """
    zero = np.zeros((1, 1, (total.values.shape[1] - 1) // 2))
    found = moments_of(total.values, zero)
    n = float(found.counts.sum())
    check_enough(n, plan.n_clusters)
    return Search(found.means, zero[0, 0], n, float(found.inertia[0]), tuple(total.terms))


def advanced(search: Search, total: Total, plan: KMeansPlan) -> Search:
    """Return the search after the sums of a round.

    Parameters
    ----------
    search : Search
        As it was when its starts were told.
    total : Total
        Of `row_moments`.
    plan : KMeansPlan

    Returns
    -------
    Search

    Examples
    --------
    >>> import numpy as np
    >>> from daskfc.secure.kmeans.clusters import KMeansPlan
    >>> from daskfc.secure.kmeans.on_sums import Search, advanced
    >>> from daskfc.secure.sums import Total
    >>> mean = np.array([2.0])
    >>> search = Search(mean.reshape(1, 1, 1), mean * 0, 4.0, 20.0, ("a", "b"))
    >>> after = advanced(search, Total(np.array([[4.0, 0.0, 4.0]]), 0.0, ("a", "b")),
    ...                  KMeansPlan(1, seed=0))
    >>> after.settled, after.best, after.inertia
    (True, array([[2.]]), 1.0)
    """
    found = moments_of(total.values, search.starts)
    number = search.n_rounds + 1
    random = generator(plan.seed, "k-means on sums", number)
    n = float(found.counts[0].sum())
    per_row = found.inertia / max(n, 1.0)
    # An inertia that rounding may have made.
    least = _NOTHING * search.scatter + total.values.size * total.error_bound
    least /= max(search.n_rows, 1.0)
    winner = int(np.argmax(per_row <= per_row.min() * _TIE + least))
    search = replace(search, n_rounds=number)
    if number == 0:
        # The mean of all rows was told: now their scatter is known without loss of digits.
        scatter = float(found.inertia[0])
        search = replace(search, mean=search.starts[0, 0], n_rows=n, scatter=scatter)
        search = replace(search, clients=tuple(total.terms))
        if plan.n_clusters == 1:
            inertia = float(per_row[0])
            return replace(search, best=search.starts[0], inertia=inertia, settled=True)
        how = (plan.n_clusters, plan.n_init, random)
        return replace(search, starts=first_starts(search.mean, found.variances[0, 0], *how))
    if per_row[winner] < search.inertia:
        best = search.starts[winner]
        search = replace(search, best=best, inertia=float(per_row[winner]))
    done = search.n_rounds >= plan.max_iter or search.inertia <= least
    return _next_heat(replace(search, settled=done), found, winner, plan, random)


def _next_heat(
    search: Search, found: Moments, winner: int, plan: KMeansPlan, random: np.random.Generator
) -> Search:
    """Choose the starts of the next round, and see whether there has to be one."""
    if search.n_rounds % _HEAT:
        return replace(search, starts=refilled(found, random))
    fall = search.of_heat - search.inertia
    idle = search.idle + 1 if fall <= plan.tolerance * search.inertia else 0
    return replace(
        search,
        starts=swapped(found.start(winner), plan.n_init, random),
        of_heat=search.inertia,
        idle=idle,
        settled=search.settled or idle >= (_PATIENCE if plan.n_init > 1 else 1),
    )
