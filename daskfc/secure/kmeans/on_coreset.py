"""k-means on a coreset: sampled rows with weights, which the server clusters for all.

Paper       M.-F. Balcan, S. Ehrlich, Y. Liang, "Distributed k-means and k-median clustering on
            general topologies", NeurIPS 2013 (arXiv 1306.0604), Algorithm 1; see `coreset.py`.
Messages    LocalCost      client → server    once
            SampleSize     server → client    once
            CoresetPart    client → server    once, t s + Σ_i min(k, n_i) s floats of rows in all
            KMeansCenters  server → client    once
"""

from collections.abc import Mapping

from daskfc.checks import check_params, integer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient
from daskfc.federation.steps.rules import as_announced, takes
from daskfc.secure.kmeans.clusters import DistributedKMeans, KMeansPlan, check_enough
from daskfc.secure.kmeans.coreset import (
    LocalSolution,
    coreset_part,
    local_solution,
    sample_sizes,
    solved,
)
from daskfc.secure.kmeans.messages import KMeansCenters, LocalCost, SampleSize


class KMeansOnCoreset(DistributedKMeans):
    """The server clusters a sample of all rows with weights, once; two messages of each client.

    Parameters
    ----------
    federation : Federation
        In a run.
    plan : KMeansPlan
        Parameters; `tolerance` is not used.
    coreset_size : int
        t, at least 0: rows that all clients together reveal besides their own centres.

    Notes
    -----
    Privacy: the server sees the sampled rows as they are, every client's own centres (one of a
    single row is that row), their sizes, and each client's number of rows and cost. All clients
    learn the centres.

    References
    ----------
    Balcan, Ehrlich and Liang, Algorithm 1.

    Examples
    --------
    >>> from daskfc.secure.kmeans import KMeansOnCoreset, KMeansPlan
    >>> def centers(federation, rows):             # rows: PerClient of Local arrays
    ...     found = KMeansOnCoreset(federation, KMeansPlan(3, seed=0), coreset_size=500).fit(rows)
    ...     return federation.publish(found.centers).centers
    """

    def __init__(self, federation: Federation, plan: KMeansPlan, coreset_size: int = 1000) -> None:
        check_params("a k-means", {"coreset_size": coreset_size}, {"coreset_size": integer(low=0)})
        super().__init__(federation)
        self._plan = plan
        self._size = coreset_size

    def _centers(self, rows: PerClient[Local]) -> Local[KMeansCenters]:
        federation, plan, names = self._federation, self._plan, tuple(rows)
        solutions = federation.on_clients(local_solution, rows, plan, clients=names)
        costs = federation.ask(local_cost, solutions, clients=names)
        sizes = federation.tell(told_sizes, costs, plan, self._size, clients=names)
        parts = federation.ask(coreset_part, rows, solutions, sizes, plan, clients=names)
        return federation.on_server(solved, parts, plan)


def local_cost(solution: LocalSolution) -> LocalCost:
    """Report to the server the cost of a client's own k-means."""
    return LocalCost(len(solution.labels), solution.centers.shape[1], solution.cost)


@takes(coreset_size=as_announced("coreset_size"))
def told_sizes(
    costs: Mapping[str, LocalCost], plan: KMeansPlan, coreset_size: int
) -> Mapping[str, SampleSize]:
    """Send each client the number of rows that it samples."""
    check_enough(sum(cost.n_rows for cost in costs.values()), plan.n_clusters)
    widths = {cost.n_features for cost in costs.values()}
    if len(widths) != 1:
        raise InvalidInput(
            "the rows of a k-means must have as many columns at all clients; got "
            f"{', '.join(map(str, sorted(widths)))}. Mend what computes them."
        )
    sizes = sample_sizes({name: cost.cost for name, cost in costs.items()}, coreset_size)
    return {name: SampleSize(size) for name, size in sizes.items()}
