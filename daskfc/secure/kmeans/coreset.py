"""A coreset of the rows of all clients: clients sample rows, the server clusters the sample.

Paper       M.-F. Balcan, S. Ehrlich, Y. Liang, "Distributed k-means and k-median clustering on
            general topologies", NeurIPS 2013 (arXiv 1306.0604), Algorithm 1.
Notation    paper            here                 shape, range
            P_i              rows                 (n_i, s) float64, stay at client i
            B_i              LocalSolution.centers   (min(k, n_i), s)
            cost(P_i, B_i)   LocalSolution.cost   float ≥ 0
            t, t_i           coreset_size, n_samples   int ≥ 0, Σ t_i = t
            S_i ∪ B_i, w     CoresetPart          (t_i + min(k, n_i), s) and weights
Departures  (1) B_i is the best of a few k-means++ starts with Lloyd. (2) t_i is rounded to whole
            rows. A sampled row q weighs cost(P_i, B_i) / (t_i cost(q)), which is the paper's
            Σ_j cost(P_j, B_j) / (t cost(q)) where nothing was rounded, and unbiased where something
            was; a client that samples none is represented by its centres alone.
            (3) A centre's weight |P_b| - Σ w_q may fall below 0, as in the paper. Lloyd's algorithm
            has no meaning for negative weights (a mean may leave all rows, the inertia has no
            minimum), so the server replaces them by 0: sampled rows represent the rows well enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats, Ints
from daskfc.clustering.clusterers.clusterer import noting_convergence
from daskfc.clustering.views.order import order_of_rows
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import made_of, takes
from daskfc.secure.kmeans.clusters import KMeansPlan
from daskfc.secure.kmeans.lloyd import check_rows, nearest_labels
from daskfc.secure.kmeans.messages import CoresetPart, KMeansCenters, SampleSize
from daskfc.seeds import generator, integer_seed

_LOCAL_STARTS = 3  # ours: any constant factor of the least cost will do for B_i


@dataclass(frozen=True)
class LocalSolution:
    """A client's own k-means: centres B_i (min(k, n), s), labels and squared distances (n,)."""

    centers: Floats
    labels: Ints
    costs: Floats

    @property
    def cost(self) -> float:
        """Sum of all costs: cost(P_i, B_i)."""
        return float(self.costs.sum())


def k_means(
    points: Floats, weights: Floats | None, plan: KMeansPlan, seed: int, n_init: int
) -> tuple[Floats, float]:
    """Return centres and inertia of the best of `n_init` runs of Lloyd's algorithm.

    `points` are (p, s), at least as many as clusters; `weights` (p,) are at least 0, or None.
    """
    model = KMeans(plan.n_clusters, n_init=n_init, max_iter=plan.max_iter, random_state=seed)
    # One thread: clients work at the same time, and the order of sums is the same everywhere.
    with threadpool_limits(limits=1), noting_convergence():
        model.fit(points, sample_weight=weights)
    return np.asarray(model.cluster_centers_, dtype=np.float64), float(model.inertia_)


@takes(plan=made_of("n_clusters"))
def local_solution(rows: Floats, plan: KMeansPlan, party: str) -> LocalSolution:
    """Cluster a client's own rows (Algorithm 1, round 1); the result stays at the client."""
    rows = check_rows(rows)
    if len(rows) <= plan.n_clusters:
        return LocalSolution(rows, np.arange(len(rows)), np.zeros(len(rows)))
    seed = integer_seed(plan.seed, "k-means of a client", party)
    centers, _ = k_means(rows[order_of_rows(rows)], None, plan, seed, _LOCAL_STARTS)
    labels, costs = _nearest(rows, centers)
    return LocalSolution(centers, labels, costs)


def _nearest(rows: Floats, centers: Floats) -> tuple[Ints, Floats]:
    labels = nearest_labels(rows, centers)
    # Differences, not inner products: a row equal to a centre must cost exactly 0.
    costs = np.square(rows - centers[labels]).sum(axis=1)
    return labels, costs


def sample_sizes(costs: Mapping[str, float], coreset_size: int) -> dict[str, int]:
    """Return the number of rows t_i, of sum t, of each client, in proportion to cost(P_i, B_i).

    Largest remainders are rounded up first, then by name; all are 0 where no client has any cost.
    """
    names = sorted(costs)
    all_costs = np.array([costs[name] for name in names])
    if not all_costs.max() > 0:
        return dict.fromkeys(names, 0)
    shares = coreset_size * (all_costs / all_costs.sum())
    sizes = np.floor(shares).astype(int)
    rest = coreset_size - int(sizes.sum())
    # Rounding may leave one more than there are remainders; clients without cost get none.
    order = [i for i in np.argsort(-(shares - sizes), kind="stable") if all_costs[i] > 0]
    for number in range(rest):
        sizes[order[number % len(order)]] += 1
    return {name: int(size) for name, size in zip(names, sizes, strict=True)}


@takes(plan=made_of("n_clusters"))
def coreset_part(
    rows: Floats,
    solution: LocalSolution,
    size: SampleSize,
    plan: KMeansPlan,
    party: str,
    site: SiteRules = FREE,
) -> CoresetPart:
    """Send t_i rows, drawn by cost with replacement, then the centres (Algorithm 1, round 2).

    There is one sample in a start: many would be all rows.
    """
    site.hold_one("sample of rows for a coreset", "", repr((size.n_samples, plan)).encode())
    counts = np.bincount(solution.labels, minlength=len(solution.centers)).astype(np.float64)
    if size.n_samples == 0:
        return CoresetPart(solution.centers, counts)
    random = generator(plan.seed, "coreset", party)
    order = order_of_rows(rows)
    chance = solution.costs[order] / solution.cost
    chosen = order[random.choice(len(rows), size.n_samples, p=chance)]
    # With m_q = cost(q, B_i), the weight of q; see departure (2).
    weights = solution.cost / (size.n_samples * solution.costs[chosen])
    taken = np.bincount(solution.labels[chosen], weights, minlength=len(solution.centers))
    return CoresetPart(
        np.concatenate([rows[chosen], solution.centers]), np.concatenate([weights, counts - taken])
    )


@takes(plan=made_of("n_clusters"))
def solved(parts: Mapping[str, CoresetPart], plan: KMeansPlan) -> KMeansCenters:
    """Cluster the coreset of all clients; its inertia estimates that of all rows."""
    names = sorted(parts)
    points = np.concatenate([parts[name].points for name in names])
    weights = np.maximum(np.concatenate([parts[name].weights for name in names]), 0.0)
    seed = integer_seed(plan.seed, "k-means of a coreset")
    return KMeansCenters(*k_means(points, weights, plan, seed, plan.n_init))
