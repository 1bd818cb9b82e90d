"""What stands for the steps of federated kernel k-means in a rehearsal.

How many eigenpairs later iterations keep follows from the samples, and so does how many products
Lanczos takes: `settings.cost_of_lanczos` has what they were on digits and MNIST.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import StandIns, of_shape, sized
from daskfc.privacy import Noised
from daskfc.protocols.fk_kmeans import party, server, uncompressed
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.maths.symmetric import packed_size
from daskfc.protocols.fk_kmeans.messages import (
    Eigenpairs,
    EmbeddedRows,
    FeaturePlan,
    LanczosProgress,
    LanczosVectors,
    ProductRows,
    ProjectedVectors,
    SampleCount,
    Spectrum,
    VectorRows,
)
from daskfc.protocols.fk_kmeans.noise import GramNoise
from daskfc.protocols.fk_kmeans.settings import cost_of_lanczos
from daskfc.secure.sums import Total
from daskfc.stores import ClientStore

__all__ = ["STAND_INS"]

_MORE = 1.2  # ours: eigenpairs after the first iteration over those of it, on digits and iris


@dataclass(frozen=True)
class _Rows:
    """W of a client: its size, and its WᵀW."""

    n_samples: int
    gram: np.ndarray


@dataclass(frozen=True)
class _Krylov:
    """How far Lanczos would be."""

    n_columns: int
    width: int
    n_rounds: int = 0


def _plan_of(count: Total, given: float | None, rehearsal: Rehearsal) -> FeaturePlan:
    return FeaturePlan(given or 1.0, rehearsal.n_samples, np.empty(0))


def _iterate(data: ClientStore, past: Sequence[Eigenpairs], settings: FeatureSettings) -> _Rows:
    m = settings.n_features + (past[-1].vectors.shape[1] if past else 0)
    return _Rows(data.n_samples, of_shape(m, m))


def _packed(iterate: _Rows) -> np.ndarray:
    return of_shape(packed_size(len(iterate.gram)))


def _noisy(iterate: _Rows, noise: GramNoise) -> Noised:
    return Noised(_packed(iterate), noise.multiplier)


def _pairs(
    m: int, before: Eigenpairs | None, n_clusters: int, n_eigenvectors: int, told: Rehearsal
) -> Eigenpairs:
    kept = n_clusters + 1  # above λ, the next one
    if before is not None:
        kept = int(told.assume("eigenpairs that later iterations keep", round(_MORE * kept)))
    n = min(max(kept, n_eigenvectors), m)
    number = 1 if before is None else before.number + 1
    # Of a threshold below all of them: each becomes a column of the next W.
    return Eigenpairs(np.ones(n), np.eye(m, n), 0.0, number, 0)


def _of_gram(
    total: Total,
    before: Eigenpairs | None,
    n_clusters: int,
    n_eigenvectors: int,
    rehearsal: Rehearsal,
) -> Eigenpairs:
    m = int((2 * len(total.values)) ** 0.5)  # of m (m + 1) / 2 numbers
    return _pairs(m, before, n_clusters, n_eigenvectors, rehearsal)


def _begin_lanczos(before: Eigenpairs | None, n_features: int, width: int) -> _Krylov:
    return _Krylov(n_features + (0 if before is None else before.vectors.shape[1]), width)


def _begin_whole(sizes: Mapping[str, SampleCount], width: int) -> _Krylov:
    return _Krylov(sum(one.n_samples for one in sizes.values()), width)


def _rounds(state: _Krylov, n_clusters: int, n_eigenvectors: int, told: Rehearsal) -> int:
    pairs = max(n_clusters + 2, n_eigenvectors)
    usual = cost_of_lanczos(state.n_columns, pairs, state.width, 1).rounds
    return int(told.assume("rounds of Lanczos in an iteration", usual))


def _advance(state: _Krylov) -> _Krylov:
    return _Krylov(state.n_columns, state.width, state.n_rounds + 1)


def _lanczos_progress(
    state: _Krylov, n_clusters: int, n_eigenvectors: int, rehearsal: Rehearsal
) -> LanczosProgress:
    left = _rounds(state, n_clusters, n_eigenvectors, rehearsal) - state.n_rounds
    return LanczosProgress(int(left <= 0), state.n_rounds, max(left, 0))


def _of_lanczos(
    state: _Krylov,
    before: Eigenpairs | None,
    n_clusters: int,
    n_eigenvectors: int,
    rehearsal: Rehearsal,
) -> Eigenpairs:
    return _pairs(state.n_columns, before, n_clusters, n_eigenvectors, rehearsal)


def _product(iterate: _Rows, asked: LanczosVectors) -> np.ndarray:
    return of_shape(*asked.vectors.shape)


# -- without the communication efficient mechanism ------------------------------------------------


def _parts(state: _Krylov, sizes: Mapping[str, SampleCount]) -> dict[str, VectorRows]:
    return {
        name: sized(VectorRows, sample=one.n_samples, vector=state.width)
        for name, one in sizes.items()
    }


def _embedded(sizes: Mapping[str, SampleCount], n_eigenvectors: int) -> dict[str, EmbeddedRows]:
    return {
        name: sized(EmbeddedRows, sample=one.n_samples, coordinate=n_eigenvectors)
        for name, one in sizes.items()
    }


def _spectrum(found: Eigenpairs) -> Spectrum:
    return sized(Spectrum, eigenpair=len(found.values), change=1.0)


STAND_INS: StandIns = {
    party.count_samples: lambda: of_shape(1),
    party.iterate: _iterate,
    party.packed_gram: _packed,
    party.noisy_gram: _noisy,
    party.product: _product,
    party.embedding: lambda last, n_eigenvectors: of_shape(last.n_samples, n_eigenvectors),
    server.plan_of: _plan_of,
    server.keep: lambda found: found,
    server.eigenpairs_of_gram: _of_gram,
    server.begin_lanczos: _begin_lanczos,
    server.next_vectors: lambda state: sized(
        LanczosVectors, column=state.n_columns, vector=state.width
    ),
    server.advance: _advance,
    server.lanczos_progress: _lanczos_progress,
    server.eigenpairs_of_lanczos: _of_lanczos,
    uncompressed.sample_count: uncompressed.sample_count,
    uncompressed.whole_features: lambda data, settings: of_shape(
        data.n_samples, settings.n_features
    ),
    uncompressed.project: lambda phi, part: of_shape(phi.shape[1], part.rows.shape[1]),
    uncompressed.expand: lambda phi, projected: sized(
        ProductRows, sample=len(phi), vector=projected.vectors.shape[1]
    ),
    uncompressed.take_up: uncompressed.take_up,
    uncompressed.begin_whole: _begin_whole,
    uncompressed.parts_of_vectors: _parts,
    uncompressed.tell_projected: lambda total: ProjectedVectors(total.values),
    uncompressed.advance_whole: _advance,
    uncompressed.tell_spectrum: _spectrum,
    uncompressed.parts_of_embedding: _embedded,
}
