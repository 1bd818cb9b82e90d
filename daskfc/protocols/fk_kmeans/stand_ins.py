"""Stubs for the steps of federated kernel k-means in a rehearsal.

The numbers of kept eigenpairs and of Lanczos products, which depend on the samples, are guesses
from digits, iris and MNIST; see `settings.cost_of_lanczos`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.linalg.symmetric import packed_size
from daskfc.privacy import Noised
from daskfc.protocols.fk_kmeans import party, server, uncompressed
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.messages import Eigenpairs, FeaturePlan, LanczosProgress
from daskfc.protocols.fk_kmeans.settings import cost_of_lanczos
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore

_MORE = 1.2  # ours: eigenpairs of a later iteration over those of the first, on digits and iris


@dataclass(frozen=True)
class _Rows:
    """W of a client: its size, and its WᵀW."""

    n_samples: int
    gram: np.ndarray


@dataclass(frozen=True)
class _Krylov:
    """State of the rehearsed Lanczos."""

    n_columns: int
    n_vectors: int  # of a block
    n_rounds: int = 0


def _plan_of(count: Total, given: float | None, rehearsal: Rehearsal) -> FeaturePlan:
    return FeaturePlan(given or 1.0, rehearsal.n_samples, np.empty(0))


def _iterate(data: ClientStore, past: Sequence[Eigenpairs], settings: FeatureSettings) -> _Rows:
    m = settings.n_features + (past[-1].vectors.shape[1] if past else 0)
    return _Rows(data.n_samples, of_shape(m, m))


def _pairs(
    m: int, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int, told: Rehearsal
) -> Eigenpairs:
    kept = n_clusters + 1  # those above λ, the (k + 2)-th
    if before is not None:
        kept = int(told.assume("eigenpairs that later iterations keep", round(_MORE * kept)))
    n = min(max(kept, n_eigenvectors), m)
    number = 1 if before is None else before.number + 1
    # With a threshold below all of them, each becomes a column of the next W.
    return Eigenpairs(np.ones(n), np.eye(m, n), 0.0, number, 0)


def _lanczos_progress(
    state: _Krylov, n_clusters: int, n_eigenvectors: int, rehearsal: Rehearsal
) -> LanczosProgress:
    pairs = max(n_clusters + 2, n_eigenvectors)
    usual = cost_of_lanczos(state.n_columns, pairs, state.n_vectors, 1).rounds
    left = int(rehearsal.assume("rounds of Lanczos in an iteration", usual)) - state.n_rounds
    return LanczosProgress(int(left <= 0), state.n_rounds, max(left, 0))


STAND_INS: StandIns = {
    party.count_samples: lambda: of_shape(1),
    party.iterate: _iterate,
    party.packed_gram: lambda iterate: of_shape(packed_size(len(iterate.gram))),
    party.noisy_gram: lambda iterate, noise: Noised(
        of_shape(packed_size(len(iterate.gram))), noise.multiplier
    ),
    party.product: lambda asked: asked.vectors,
    party.embedding: lambda last, n_eigenvectors: of_shape(last.n_samples, n_eigenvectors),
    server.plan_of: _plan_of,
    server.keep: lambda found: found,
    server.eigenpairs_of_gram: lambda total, before, n_clusters, n_eigenvectors, rehearsal: (
        # the sum has m (m + 1) / 2 numbers
        _pairs(int((2 * len(total.values)) ** 0.5), before, n_clusters, n_eigenvectors, rehearsal)
    ),
    server.begin_lanczos: lambda before, n_features, width: _Krylov(
        n_features + (0 if before is None else before.vectors.shape[1]), width
    ),
    server.advance: lambda state: replace(state, n_rounds=state.n_rounds + 1),
    server.lanczos_progress: _lanczos_progress,
    server.eigenpairs_of_lanczos: lambda state, before, n_clusters, n_eigenvectors, rehearsal: (
        _pairs(state.n_columns, before, n_clusters, n_eigenvectors, rehearsal)
    ),
    uncompressed.whole_features: lambda data, settings: of_shape(
        data.n_samples, settings.n_features
    ),
    uncompressed.project: lambda phi, part: of_shape(phi.shape[1], part.rows.shape[1]),
    uncompressed.expand: lambda phi: Sizes(sample=len(phi)),
    uncompressed.take_up: uncompressed.take_up,
    uncompressed.begin_whole: lambda sizes, width: _Krylov(
        sum(one.n_samples for one in sizes.values()), width
    ),
    uncompressed.parts_of_vectors: lambda sizes: {
        name: Sizes(sample=one.n_samples) for name, one in sizes.items()
    },
    uncompressed.tell_projected: lambda total: Sizes(vectors=total.values),
    uncompressed.advance_whole: lambda state: replace(state, n_rounds=state.n_rounds + 1),
    uncompressed.tell_spectrum: lambda found: Sizes(eigenpair=len(found.values), change=1.0),
    uncompressed.parts_of_embedding: lambda sizes, n_eigenvectors: {
        name: Sizes(sample=one.n_samples, coordinate=n_eigenvectors) for name, one in sizes.items()
    },
}
