"""The iterations of DSPGD over a federation, in the communication efficient way of Section 4.2."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from daskfc import seeds
from daskfc.arrays import Floats
from daskfc.federation import Federation, Local, PerClient, Sent
from daskfc.linalg.symmetric import packed_size
from daskfc.protocols.fk_kmeans import party, server
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.maths.dspgd import Iteration, relative_change
from daskfc.protocols.fk_kmeans.messages import Eigenpairs, FeaturePlan, LanczosProgress
from daskfc.protocols.fk_kmeans.noise import GramNoise
from daskfc.protocols.fk_kmeans.settings import IterationSettings
from daskfc.secure.sums import Aggregation

_NORM = 2.0 * (1.0 + 1e-9)  # |w|² of a row of W: |a|² / D ≤ 2, and |b_t+1| ≤ |w_t|


@dataclass(frozen=True)
class Planned:
    """The plan before the first iteration: `plan` for the server, `plan_sent` for the clients."""

    plan: FeaturePlan
    plan_sent: Sent[FeaturePlan]
    features: FeatureSettings
    folder: Local[str] | None
    n_eigenvectors: int
    noise: GramNoise | None
    run: str

    @property
    def bound(self) -> float | None:
        """Public bound on W[m]ᵀW[m] c, and on packed W[m]ᵀW[m]; None for a polynomial kernel."""
        return _NORM * self.plan.n_samples if self.features.has_bounded_norm else None


@dataclass(frozen=True)
class IterationReport:
    """An iteration's relative change, eigenvalues before shrinking by λ, and uploads (Section 5.2).

    `n_floats` of all clients include superfluous Lanczos products, and are 0 for earlier starts.
    """

    change: float
    values: Floats
    threshold: float
    n_products: int
    n_floats: int


@dataclass
class Iterations:
    """Algorithm 1 up to the embedding; `on_iteration` gets each iteration's report."""

    federation: Federation
    settings: IterationSettings
    planned: Planned
    sums: Aggregation
    on_iteration: Callable[[IterationReport], None]
    found: list[Iteration] = field(default_factory=list, init=False)
    past: list[Local[Eigenpairs]] = field(default_factory=list, init=False)

    def run(self, done: int) -> PerClient[Local]:
        """Run the iterations after the first `done`, which the server saved; return H by client."""
        federation, settings, planned = self.federation, self.settings, self.planned
        for number in range(1, done + 1):
            assert planned.folder is not None
            self._add(federation.on_server(server.remembered, planned.folder, number), 0, None)
        iterate: PerClient[Local] | None = None
        told: list[Sent] = [federation.tell(found) for found in self.past]
        start = done if done == settings.iterations or self._has_settled() else done + 1
        if start == done:  # only W_T is missing; the server saved its eigenpairs
            told_last = told.pop()
            iterate = self._iterate(None, told)
        else:
            for number in range(start, settings.iterations + 1):
                federation.next_round()
                iterate = self._iterate(iterate, told if iterate is None else told[-1:])
                self._add(*self._eigenpairs(iterate, told), planned.folder)
                told_last = federation.tell(self.past[-1])
                told.append(told_last)
                federation.report_progress("iterating", number, settings.iterations, "rounds")
                if self._has_settled():
                    break
        return federation.on_clients(party.embedding, iterate, told_last, planned.n_eigenvectors)

    def _add(self, found: Local[Eigenpairs], n_floats: int, folder: Local[str] | None) -> None:
        told = self.federation.publish(server.keep, found, folder)
        change = relative_change(self.found[-1] if self.found else None, told.iteration)
        self.past.append(found)
        self.found.append(told.iteration)
        self.report = IterationReport(
            change, told.values, told.threshold, told.n_products, n_floats
        )
        self.on_iteration(self.report)

    def _has_settled(self) -> bool:
        return bool(self.past) and self.report.change < self.settings.tolerance

    def _iterate(self, before: PerClient[Local] | None, told: list[Sent]) -> PerClient[Local]:
        planned = self.planned
        return self.federation.on_clients(
            party.iterate, before, told, planned.plan_sent, planned.features, planned.run
        )

    def _eigenpairs(
        self, iterate: PerClient[Local], told: list[Sent]
    ) -> tuple[Local[Eigenpairs], int]:
        """Return the eigenpairs, and how many numbers the clients uploaded for them."""
        federation, settings = self.federation, self.settings
        before = self.past[-1] if self.past else None
        how = (before, settings.n_clusters, self.planned.n_eigenvectors)
        n_columns = settings.n_features
        if self.found:
            n_columns += self.found[-1].to_basis().shape[1]
        if settings.solver == "gram":
            total = self._gram(iterate, told)
            n_floats = len(iterate) * packed_size(n_columns)
            return federation.on_server(server.eigenpairs_of_gram, total, *how), n_floats
        bound = self.planned.bound

        def product(state: Local) -> Local:
            vectors = federation.tell(server.next_vectors, state)
            parts = federation.inline(party.product, iterate, vectors)
            total = self.sums.sum(parts, max_abs=bound)
            return federation.on_server(server.advance, state, total, *how)

        seed = seeds.integer_seed(settings.random_state, "FK k-means", len(self.past))
        block = settings.lanczos_block
        state = federation.on_server(server.begin_lanczos, before, settings.n_features, block, seed)
        state, n_rounds = run_lanczos(
            product, lambda state: federation.publish(server.lanczos_progress, state, *how), state
        )
        found = federation.on_server(server.eigenpairs_of_lanczos, state, *how)
        return found, len(iterate) * min(n_rounds * block, n_columns) * n_columns

    def _gram(self, iterate: PerClient[Local], told: list[Sent]) -> Local:
        noise = self.planned.noise
        if noise is None:
            parts = self.federation.inline(party.packed_gram, iterate)
            return self.sums.sum(parts, max_abs=self.planned.bound)
        shares = self.sums.n_noise_shares
        noisy = self.federation.inline(party.noisy_gram, iterate, told, noise, shares)
        bound = self.planned.bound
        assert bound is not None  # noise needs a bounded norm
        return self.sums.sum(noisy, max_abs=bound + noise.reach(shares))


def run_lanczos(
    product: Callable[[Local], Local], progress: Callable[[Local], LanczosProgress], state: Local
) -> tuple[Local, int]:
    """Run Lanczos to its end; return the last state and the number of products submitted."""
    ahead, n_rounds = 1, 0  # a converged state ignores the products submitted in excess
    while True:
        for _ in range(ahead):
            state = product(state)
        n_rounds += ahead
        told = progress(state)
        if told.done:
            return state, n_rounds
        ahead = max(1, min(told.n_left, math.ceil(0.5 * told.n_rounds)))
