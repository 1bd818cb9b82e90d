"""What stands for the steps of a distributed k-means in a rehearsal."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import StandIns, as_they_are, of_shape, sized
from daskfc.privacy import Noised
from daskfc.secure.kmeans import clusters, coreset, noise, on_coreset, on_noisy_sums, on_sums
from daskfc.secure.kmeans.clusters import KMeansPlan
from daskfc.secure.kmeans.coreset import LocalSolution, sample_sizes
from daskfc.secure.kmeans.messages import (
    CoresetPart,
    KMeansCenters,
    KMeansCounts,
    KMeansProgress,
    KMeansProposal,
    LocalCost,
    SampleSize,
)
from daskfc.secure.kmeans.noise import LloydNoise
from daskfc.secure.sums import Total

__all__ = ["STAND_INS"]

_SAMPLED = "rows of the sample, of which each client has a share by its number of rows"
_ROUNDS = 10  # ours: of k-means on sums, where that is below ``max_iter``; iris takes 8
_GROUPS = 4  # ours: of each cluster, in all rounds


# -- on sums --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    """How far a search for centres would be."""

    n_features: int
    n_clusters: int
    clients: tuple[str, ...]
    n_rounds: int = 0
    settled: bool = False


def _begun(total: Total, plan: KMeansPlan) -> _Search:
    return _Search((total.values.shape[1] - 1) // 2, plan.n_clusters, total.terms)


def _advanced(search: _Search, plan: KMeansPlan, rehearsal: Rehearsal) -> _Search:
    number = search.n_rounds + 1
    most = rehearsal.assume("rounds of k-means", min(_ROUNDS, plan.max_iter))
    return replace(search, n_rounds=number, settled=number >= most)


def _progress(search: _Search) -> KMeansProgress:
    return KMeansProgress(int(search.settled), 0, 1.0, np.array(search.clients, dtype=str))


def _proposal(search: _Search, rehearsal: Rehearsal) -> KMeansProposal:
    k, s = search.n_clusters, search.n_features
    per_cluster = int(rehearsal.assume("groups of rows of each cluster, in k-means", _GROUPS))
    return KMeansProposal(of_shape(k, s), of_shape(s), k * per_cluster)


def _fresh(proposal: KMeansProposal) -> np.ndarray:
    return of_shape(proposal.n_groups, 1 + 2 * len(proposal.origin))


def _last(search: _Search) -> KMeansCenters:
    return sized(KMeansCenters, cluster=search.n_clusters, feature=search.n_features)


# -- on noisy sums --------------------------------------------------------------------------------


def _public_bound(counts: Total) -> KMeansProgress:
    return KMeansProgress(0, 0, 1.0, np.array(counts.terms, dtype=str))


def _first_centers(counts: Total, plan: KMeansPlan) -> KMeansCenters:
    return sized(KMeansCenters, cluster=plan.n_clusters, feature=len(counts.values))


def _noisy_sums(centers: KMeansCenters, noise: LloydNoise) -> Noised:
    k, s = centers.centers.shape
    return Noised(of_shape(k, 1 + s), noise.multiplier)


# -- on a coreset ---------------------------------------------------------------------------------


def _local_solution(rows: np.ndarray, plan: KMeansPlan) -> LocalSolution:
    n, s = rows.shape
    k = min(n, plan.n_clusters)
    return LocalSolution(of_shape(k, s), of_shape(n, dtype="int64"), of_shape(n))


def _told_sizes(
    costs: Mapping[str, LocalCost], coreset_size: int, rehearsal: Rehearsal
) -> dict[str, SampleSize]:
    # In proportion to costs, which nobody knows yet; there are as many in all.
    rehearsal.assume(_SAMPLED, coreset_size)
    sizes = sample_sizes({name: float(cost.n_rows) for name, cost in costs.items()}, coreset_size)
    return {name: SampleSize(size) for name, size in sizes.items()}


def _coreset_part(rows: np.ndarray, solution: LocalSolution, size: SampleSize) -> CoresetPart:
    n_points = size.n_samples + len(solution.centers)
    return sized(CoresetPart, point=n_points, feature=rows.shape[1])


def _solved(parts: Mapping[str, CoresetPart], plan: KMeansPlan) -> KMeansCenters:
    n_features = next(iter(parts.values())).points.shape[1]
    return sized(KMeansCenters, cluster=plan.n_clusters, feature=n_features)


STAND_INS: StandIns = {
    **as_they_are(on_coreset.local_cost),
    clusters.own_clusters: lambda rows: of_shape(len(rows), dtype="int64"),
    on_sums.first_moments: lambda rows: of_shape(1, 1 + 2 * rows.shape[1]),
    on_sums.begun: _begun,
    on_sums.progress: _progress,
    on_sums.next_proposal: _proposal,
    on_sums.all_moments: lambda proposal: of_shape(1, 1 + 2 * len(proposal.origin)),
    on_sums.centred: lambda search: replace(search, settled=search.n_clusters == 1),
    on_sums.first_groups: lambda rows: of_shape(len(rows), dtype="int64"),
    on_sums.own_counts: lambda proposal: of_shape(proposal.n_groups, len(proposal.centers)),
    on_sums.counted: lambda total: sized(
        KMeansCounts, group=total.values.shape[0], cluster=total.values.shape[1]
    ),
    on_sums.next_groups: lambda rows: of_shape(len(rows), dtype="int64"),
    on_sums.fresh_moments: _fresh,
    on_sums.advanced: _advanced,
    on_sums.last_moments: lambda proposal: of_shape(
        len(proposal.centers), 1 + 2 * len(proposal.origin)
    ),
    on_sums.last_centers: _last,
    on_noisy_sums.row_counts: lambda rows: of_shape(rows.shape[1]),
    on_noisy_sums.public_bound: _public_bound,
    on_noisy_sums.first_centers: _first_centers,
    noise.noisy_sums: _noisy_sums,
    noise.updated: lambda centers: centers,
    coreset.local_solution: _local_solution,
    on_coreset.told_sizes: _told_sizes,
    coreset.coreset_part: _coreset_part,
    coreset.solved: _solved,
}
