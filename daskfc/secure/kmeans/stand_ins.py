"""Stubs for the steps of a distributed k-means in a rehearsal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape
from daskfc.linalg.symmetric import packed_size
from daskfc.privacy import Noised
from daskfc.secure.kmeans import clusters, coreset, noise, on_coreset, on_noisy_sums, on_sums
from daskfc.secure.kmeans.clusters import KMeansPlan
from daskfc.secure.kmeans.coreset import LocalSolution, sample_sizes
from daskfc.secure.kmeans.messages import KMeansCenters, KMeansReach, LocalCost, SampleSize
from daskfc.secure.kmeans.noise import LloydNoise
from daskfc.secure.kmeans.private import approach, on_offsets
from daskfc.secure.kmeans.private import noise as private
from daskfc.secure.kmeans.private.noise import SEEDING, StartedNoise
from daskfc.secure.sums import Total

_SAMPLED = "rows of the sample, of which each client has a share by its number of rows"
_ROUNDS = 10  # ours: of k-means on sums, or ``max_iter`` if less; iris takes 8
_LLOYD = 10  # ours: of Lloyd's after these, where a method has any
_GROUPS = 4  # ours: per cluster, in all rounds


# -- on sums --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KMeansSearch:
    """The state of a search for centres."""

    n_features: int
    n_clusters: int
    clients: tuple[str, ...]
    n_rounds: int = 0
    settled: bool = False


def _of_rows(rows: np.ndarray) -> np.ndarray:
    return of_shape(len(rows), dtype="int64")


def _of_columns(rows: np.ndarray) -> np.ndarray:
    return of_shape(rows.shape[1])


def _begun(total: Total, plan: KMeansPlan) -> KMeansSearch:
    return KMeansSearch(total.values.shape[1] - 1, plan.n_clusters, total.terms)


def _advanced(search: KMeansSearch, plan: KMeansPlan, rehearsal: Rehearsal) -> KMeansSearch:
    number = search.n_rounds + 1
    most = rehearsal.assume("rounds of k-means", min(_ROUNDS, plan.max_iter))
    if plan.lloyd_rounds:
        most += rehearsal.assume("rounds of Lloyd", min(_LLOYD, plan.lloyd_rounds))
    return replace(search, n_rounds=number, settled=number >= most)


def _told(settled: bool, clients: Sequence[str]) -> Sizes:
    return Sizes(settled=int(settled), bound=1.0, clients=np.array(clients, dtype=str))


def _proposal(search: KMeansSearch, rehearsal: Rehearsal) -> Sizes:
    per_cluster = int(rehearsal.assume("groups of rows of each cluster, in k-means", _GROUPS))
    return Sizes(n_groups=search.n_clusters * per_cluster)


# -- on noisy sums and offsets --------------------------------------------------------------------


def _noisy(told: KMeansCenters | KMeansReach, noise: LloydNoise | StartedNoise) -> Noised:
    k, s = told.centers.shape
    return Noised(of_shape(k, 1 + s), noise.multiplier)


@dataclass(frozen=True)
class _Approach:
    """The sizes of a state between two rounds."""

    n_centers: int
    n_features: int


def _approached(state: _Approach, plan: KMeansPlan, number: int) -> _Approach:
    joined = number + 1 >= SEEDING
    return replace(state, n_centers=plan.n_clusters if joined else state.n_centers)


def _noisy_moments(rows: np.ndarray, noise: StartedNoise) -> Noised:
    s = rows.shape[1]
    return Noised(of_shape(s + packed_size(s)), noise.multiplier)


# -- on a coreset ---------------------------------------------------------------------------------


def _local_solution(rows: np.ndarray, plan: KMeansPlan) -> LocalSolution:
    n, s = rows.shape
    k = min(n, plan.n_clusters)
    return LocalSolution(of_shape(k, s), of_shape(n, dtype="int64"), of_shape(n))


def _told_sizes(
    costs: Mapping[str, LocalCost], coreset_size: int, rehearsal: Rehearsal
) -> dict[str, SampleSize]:
    # By numbers of rows in place of costs, which are unknown; the total is the same.
    rehearsal.assume(_SAMPLED, coreset_size)
    sizes = sample_sizes({name: float(cost.n_rows) for name, cost in costs.items()}, coreset_size)
    return {name: SampleSize(size) for name, size in sizes.items()}


STAND_INS: StandIns = {
    **as_they_are(on_coreset.local_cost),
    **dict.fromkeys((clusters.own_clusters, on_sums.first_groups, on_sums.own_nearest), _of_rows),
    **dict.fromkeys((on_sums.own_sums, on_sums.own_squares, on_noisy_sums.row_counts), _of_columns),
    on_sums.first_moments: lambda rows: of_shape(1, 1 + rows.shape[1]),
    on_sums.begun: _begun,
    on_sums.progress: lambda search: _told(search.settled, search.clients),
    on_sums.next_proposal: _proposal,
    on_sums.all_moments: lambda proposal: of_shape(1, 1 + 2 * len(proposal.origin)),
    on_sums.centred: lambda search: replace(search, settled=search.n_clusters == 1),
    on_sums.own_counts: lambda proposal: of_shape(1 + proposal.n_groups, len(proposal.centers)),
    on_sums.counted: lambda total: Sizes(
        group=total.values.shape[0] - 1, cluster=total.values.shape[1]
    ),
    on_sums.next_groups: lambda groups: of_shape(len(groups), dtype="int64"),
    on_sums.fresh_moments: lambda proposal: of_shape(
        proposal.n_groups, 1 + 2 * len(proposal.origin)
    ),
    on_sums.advanced: _advanced,
    on_sums.last_moments: lambda proposal: of_shape(
        len(proposal.centers), 1 + 2 * len(proposal.origin)
    ),
    on_noisy_sums.public_bound: lambda counts: _told(False, counts.terms),
    on_noisy_sums.first_centers: lambda counts: Sizes(feature=len(counts.values)),
    noise.noisy_sums: lambda centers, noise: _noisy(centers, noise),
    on_offsets.bound_of_noise: lambda counts: _told(False, counts.terms),
    private.noisy_moments: _noisy_moments,
    private.noisy_offsets: _noisy,
    approach.started: lambda counts, plan: _Approach(
        approach.OVER * plan.n_clusters, len(counts.values)
    ),
    approach.approached: _approached,
    approach.reach_of: lambda state: Sizes(cluster=state.n_centers, feature=state.n_features),
    approach.ended: lambda state: KMeansCenters(
        of_shape(state.n_centers, state.n_features), math.nan
    ),
    coreset.local_solution: _local_solution,
    on_coreset.told_sizes: _told_sizes,
    coreset.coreset_part: lambda rows, solution, size: Sizes(
        point=size.n_samples + len(solution.centers), feature=rows.shape[1]
    ),
}
