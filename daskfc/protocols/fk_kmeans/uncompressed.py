"""DSPGD without the communication efficient mechanism (Section 4.1): the paper's own comparison.

The server has Z_t = B_t B_tᵀ and runs Lanczos on R_t = (1 - η) Z_t + η ξ_t, with a number for each
sample in a vector. Unlike `iterations`, the cost grows with the number of samples, and the server
learns the eigenvectors, a coordinate of every sample.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from daskfc import seeds
from daskfc.arrays import Floats
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.federation.steps.rules import made_of, takes
from daskfc.protocols.fk_kmeans import server
from daskfc.protocols.fk_kmeans.features import FeatureSettings, features_of
from daskfc.protocols.fk_kmeans.iterations import IterationReport, Planned, run_lanczos
from daskfc.protocols.fk_kmeans.maths.dspgd import change_of_whole, learning_rate
from daskfc.protocols.fk_kmeans.maths.lanczos import Krylov, begin
from daskfc.protocols.fk_kmeans.messages import (
    Eigenpairs,
    EmbeddedRows,
    FeaturePlan,
    ProductRows,
    ProjectedVectors,
    SampleCount,
    Spectrum,
    VectorRows,
)
from daskfc.protocols.fk_kmeans.settings import IterationSettings
from daskfc.secure.sums import Aggregation, Total
from daskfc.stores import ClientStore


def sample_count(data: ClientStore) -> SampleCount:
    """Return the client's number of samples, for the server."""
    return SampleCount(data.n_samples)


@takes(settings=made_of())
def whole_features(
    data: ClientStore, settings: FeatureSettings, plan: FeaturePlan, number: int
) -> Floats:
    """Return A_t[m] / √D as one array."""
    return np.concatenate([phi for _, (phi,) in features_of(data, settings, plan, [number])])


def project(phi: Floats, part: VectorRows) -> Floats:
    """Return A[m]ᵀ c_q[m] / √D (step 2)."""
    return np.asarray(phi.T @ part.rows)


def expand(phi: Floats, projected: ProjectedVectors) -> ProductRows:
    """Return A[m] Aᵀ c_q / D, for the server (step 4)."""
    return ProductRows(phi @ projected.vectors)


def take_up(rows: EmbeddedRows) -> Floats:
    """Return the received H[m]."""
    return rows.rows


# -- server ---------------------------------------------------------------------------------------


def _split(whole: Floats, sizes: Mapping[str, SampleCount]) -> dict[str, Floats]:
    ends = np.cumsum([one.n_samples for one in sizes.values()])
    return dict(zip(sizes, np.split(whole, ends[:-1]), strict=True))


def begin_whole(sizes: Mapping[str, SampleCount], width: int, seed: int) -> Krylov:
    """Begin with random vectors of as many numbers as there are samples."""
    return begin(sum(one.n_samples for one in sizes.values()), width, seed)


def parts_of_vectors(state: Krylov, sizes: Mapping[str, SampleCount]) -> Mapping[str, VectorRows]:
    """Return each client's rows of the vectors (step 1)."""
    return {name: VectorRows(rows.copy()) for name, rows in _split(state.block, sizes).items()}


def tell_projected(total: Total) -> ProjectedVectors:
    """Return Aᵀ c_q / √D, for all clients (step 3)."""
    return ProjectedVectors(total.values)


def advance_whole(
    state: Krylov,
    parts: Mapping[str, ProductRows],
    sizes: Mapping[str, SampleCount],
    before: Eigenpairs | None,
    n_clusters: int,
    n_eigenvectors: int,
) -> Krylov:
    """Combine the parts to R_t c_q and advance Lanczos (step 5)."""
    if server.converged(state, before, n_clusters, n_eigenvectors):
        return state
    eta = learning_rate(1 if before is None else before.number + 1)
    product = eta * np.concatenate([parts[name].rows for name in sizes])
    if before is not None:
        B = before.iteration.whole_basis()  # B_t
        product += (1.0 - eta) * (B @ (B.T @ state.block))
    return state.advance(product)


def tell_spectrum(found: Eigenpairs, before: Eigenpairs | None) -> Spectrum:
    """Return the progress of the iterations, for the caller."""
    change = change_of_whole(None if before is None else before.iteration, found.iteration)
    return Spectrum(found.values, found.threshold, change, found.n_products)


def parts_of_embedding(
    last: Eigenpairs, sizes: Mapping[str, SampleCount], n_eigenvectors: int
) -> Mapping[str, EmbeddedRows]:
    """Return each client's H[m] = [√(λ_i + (1 - η) λ) U_i[m]]."""
    found = last.iteration
    raised = found.values + (1.0 - learning_rate(found.number)) * found.threshold
    H = found.vectors[:, :n_eigenvectors] * np.sqrt(raised[:n_eigenvectors])
    return {name: EmbeddedRows(rows.copy()) for name, rows in _split(H, sizes).items()}


@dataclass
class Uncompressed:
    """Algorithm 1 with the iterations of Section 4.1; see `iterations.Iterations`."""

    federation: Federation
    settings: IterationSettings
    planned: Planned
    sums: Aggregation
    on_iteration: Callable[[IterationReport], None]

    def run(self) -> PerClient[Local]:
        """Run all iterations; return H at each client."""
        federation, settings, planned = self.federation, self.settings, self.planned
        sizes = federation.ask(sample_count)
        per_product = planned.plan.n_samples + len(sizes) * settings.n_features
        per_product *= settings.lanczos_block
        found: Local[Eigenpairs] | None = None
        for number in range(1, settings.iterations + 1):
            federation.next_round()
            before = found
            found, n_rounds = self._eigenpairs(sizes, before, number)
            told = federation.publish(tell_spectrum, found, before)
            n_floats = per_product * n_rounds
            self.on_iteration(
                IterationReport(told.change, told.values, told.threshold, told.n_products, n_floats)
            )
            federation.report_progress("iterating", number, settings.iterations, "rounds")
            if told.change < settings.tolerance:
                break
        rows = federation.tell(parts_of_embedding, found, sizes, planned.n_eigenvectors)
        return federation.on_clients(take_up, rows)

    def _eigenpairs(
        self, sizes: PerClient[Sent], before: Local[Eigenpairs] | None, number: int
    ) -> tuple[Local[Eigenpairs], int]:
        federation, settings, planned = self.federation, self.settings, self.planned
        how = (before, settings.n_clusters, planned.n_eigenvectors)
        phi = federation.on_clients(whole_features, planned.features, planned.plan_sent, number)

        def product(state: Local) -> Local:
            vectors = federation.tell(parts_of_vectors, state, sizes)
            parts = federation.inline(project, phi, vectors)
            total = self.sums.sum(parts, max_abs=planned.bound)
            rows = federation.ask(expand, phi, federation.tell(tell_projected, total))
            return federation.on_server(advance_whole, state, rows, sizes, *how)

        seed = seeds.integer_seed(settings.random_state, "FK k-means", number)
        state = federation.on_server(begin_whole, sizes, settings.lanczos_block, seed)
        state, n_rounds = run_lanczos(
            product, lambda state: federation.publish(server.lanczos_progress, state, *how), state
        )
        return federation.on_server(server.eigenpairs_of_lanczos, state, *how), n_rounds
