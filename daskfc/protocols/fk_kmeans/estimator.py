"""FederatedKernelKMeans: the estimator, which runs the steps of clients and server."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from daskfc import seeds
from daskfc.checks import boolean, integer, one_of, optional, real
from daskfc.clustering.kernels.features import KERNELS
from daskfc.coding import FixedPoint
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import FederatedClusterer, Federation, Local, PerClient, param
from daskfc.federation.methods.one_budget import NOISE, noise_told
from daskfc.federation.methods.parameters import picked
from daskfc.federation.methods.samples import Labelled, NewStores, own_labels, store_content
from daskfc.protocols.fk_kmeans import party, server
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.protocols.fk_kmeans.iterations import IterationReport, Iterations, Planned
from daskfc.protocols.fk_kmeans.maths.dspgd import feature_weights
from daskfc.protocols.fk_kmeans.noise import Noise, noise_of
from daskfc.protocols.fk_kmeans.settings import (
    IterationSettings,
    cheaper,
    cost_of_gram,
    cost_of_lanczos,
)
from daskfc.protocols.fk_kmeans.uncompressed import Uncompressed
from daskfc.secure.kmeans import LloydNoise, open_kmeans
from daskfc.secure.sums import (
    AGGREGATORS,
    KINDS,
    Aggregation,
    agree_on_centre,
    check_maskers,
    open_sum,
)
from daskfc.secure.sums.interpoint import agree_on_width

log = logging.getLogger("daskfc.protocols")


class FederatedKernelKMeans(FederatedClusterer):
    """Kernel k-means by random features, with eigenvectors from sums over the clients.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, the paper's k.
    n_features : int
        D, random features of a sample, drawn anew in each iteration; at least k + 2, and s.
    n_eigenvectors : int, optional
        s, coordinates of a sample that are clustered; k by default.
    iterations : int
        T; each improves the estimate of the kernel matrix.
    kernel : {"gaussian", "laplacian", "polynomial"}
        ``exp(-|x - y|² / (2 r²))``, ``exp(-|x - y|₁ / r)`` or ``(x·y / r² + 1)^degree``.
    kernel_width : float, optional
        r > 0, in units of the data; by default from the mean interpoint distance of all clients'
        samples, computed by one secure sum (Section 6.1).
    degree : int
        Degree of the polynomial kernel.
    solver : {"auto", "gram", "lanczos"}
        One secure sum of all WᵀW in an iteration, or products with some vectors at a time until
        the eigenpairs have converged. "auto" takes the faster one over a network of 0.1 s and
        100 Mbit/s; see `plan_`.
    lanczos_block : int
        Vectors in one product of Lanczos: the paper has 1, more take fewer rounds and more upload.
    communication_efficient : bool
        Use Section 4.2. False, for comparison only, uses Section 4.1, with messages that grow with
        the samples and give the server a coordinate of each.
    clustering : {"coreset", "sums"}
        How the samples' coordinates are clustered: the server gets rows of a weighted sample, or
        only sums over all clients.
    coreset_size : int
        Samples in the coreset, over all clients.
    n_init : int
        Starts of k-means.
    averaging : {"masked", "recovering", "shared", "plain"}
        Whether the server sees only sums; only sums even if clients leave during a round, where
        all clients hold shares of keys, or two clients hold all masks ("shared": the server must
        not collude with both); or every client's WᵀW.
    noise : mapping, optional
        ``{"epsilon": ε, "delta": δ}``, or a noise ``multiplier`` with ``delta``: Gaussian noise on
        every sum of WᵀW, added in shares by the clients, and on the sums of ``rounds`` rounds of
        k-means (5 by default). Needs `kernel_width`, a Gaussian or Laplacian kernel, solver "gram"
        and clustering "sums", so that nothing else about the data is revealed.
    tolerance : float
        Iterations end when the estimate changes by less, relative to its Frobenius norm.
    aggregators : sequence of str, optional
        Who holds the masks with ``averaging="shared"``: two clients or more, and more than may
        collude; by default the first by name.
    n_colluding : int
        Clients that may collude with the server.
    allow_few : bool
        Allow secure sums with fewer than two honest clients.
    patience_s : float
        Seconds that ``averaging="recovering"`` or "shared" waits for stragglers once two thirds
        have answered.
    random_state : int, optional
        Seed of random features and of k-means. Masks and noise have no seed.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    kernel_width_ : float
        The r that was used.
    plan_ : dict of str to SolverCost
        "gram" and "lanczos": round trips, numbers that a client uploads, seconds; and "chosen".
    sum_error_bound_ : float
        Bound on the rounding error of an entry of Σ WᵀW in fixed point; 0 for plain sums, NaN for a
        polynomial kernel, where parties agree on a bound for each sum.
    n_iterations_ : int
        Number of iterations.
    history_ : list of IterationReport
        Each iteration's relative ``change`` of the estimate; ``values``, its eigenvalues;
        ``threshold``, λ; ``n_products`` of Lanczos; ``n_floats`` that clients uploaded.
    eigenpairs_ : list of Iteration
        Eigenpairs of WᵀW after each iteration, as a fit with fewer iterations would end with.
    cluster_centers_ : ndarray of shape (k, s)
        Centres in the samples' coordinates.
    feature_weights_ : ndarray of shape (T, D, s)
        G, by which `predict` computes a sample's coordinates h(x) = Σ_t φ_t(x) G_t.
    privacy_ : dict
        With noise: "kind", "multiplier", "releases", "delta" and "epsilon" for each sample.

    Notes
    -----
    Privacy: all parties are semi-honest. The server sees sums of WᵀW over all clients (Lanczos:
    their products with some vectors), where the paper's Theorem 4 concedes every client's own, and
    by coresets the coordinates of `coreset_size` samples and of all local centres; clients see
    eigenvectors and centres. With `clustering` "sums" no sample's coordinates leave its client;
    with noise what the server sees is (ε, δ)-private for every sample. A client of few samples is
    hidden less where there are few random features or clients: `protocols.fk_kmeans.privacy`.

    `predict` needs only the model: a new sample's coordinates follow from its random features.

    References
    ----------
    "A communication efficient federated kernel k-means", under review at ICLR 2021, Algorithm 1.

    Examples
    --------
    >>> from daskfc.protocols import FederatedKernelKMeans
    >>> FederatedKernelKMeans(10, n_features=200).get_params()["iterations"]
    10
    """

    split: ClassVar = "samples"
    resumable: ClassVar[bool] = True
    model_at_parties: ClassVar[bool] = False

    n_clusters: int = param(integer(low=1), kw_only=False)
    n_features: int = param(integer(low=1), default=200)
    n_eigenvectors: int | None = param(optional(integer(low=1)), default=None)
    iterations: int = param(integer(low=1), default=10)
    kernel: str = param(one_of(*KERNELS), default="gaussian")
    kernel_width: float | None = param(optional(real(above=0)), default=None)
    degree: int = param(integer(low=1), default=3)
    solver: str = param(one_of("auto", "gram", "lanczos"), default="auto")
    lanczos_block: int = param(integer(low=1), default=4)
    communication_efficient: bool = param(boolean(), default=True)
    clustering: str = param(one_of("coreset", "sums"), default="coreset")
    coreset_size: int = param(integer(low=1), default=1000)
    n_init: int = param(integer(low=1), default=10)
    averaging: str = param(one_of(*KINDS), default="masked")
    noise: Mapping[str, Any] | None = param(NOISE, default=None)
    tolerance: float = param(real(low=0), default=0.0)
    aggregators: Sequence[str] | None = param(AGGREGATORS, default=None)
    n_colluding: int = param(integer(low=0), default=0)
    allow_few: bool = param(boolean(), default=False)
    patience_s: float = param(real(above=0), default=10.0)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints, each other and the number of clients."""
        super().check(n_clients)
        least = max(self.n_clusters + 2, self._n_eigenvectors())
        if self.n_features < least:
            raise InvalidInput(
                f"the 'n_features' parameter of FederatedKernelKMeans must be at least {least}, "
                "n_clusters + 2 and n_eigenvectors; "
                f"got {self.n_features}. Raise it."
            )
        if not self.communication_efficient and self.solver == "gram":
            raise InvalidInput(
                "communication_efficient=False needs solver 'lanczos' or 'auto', as the server "
                "has no sum of WᵀW then; got 'gram'. Leave 'solver' out."
            )
        if noise_of(self.noise, iterations=self.iterations) is not None:
            self._check_noise()
        if n_clients is not None and self.averaging != "plain":
            check_maskers(n_clients, self.n_colluding, self.allow_few)

    def _check_noise(self) -> None:
        needed = {
            "kernel_width": self.kernel_width is not None,
            "kernel='gaussian' or 'laplacian'": self.kernel != "polynomial",
            "solver='gram'": self.solver == "gram",
            "clustering='sums'": self.clustering == "sums",
        }
        missing = [name for name, is_there in needed.items() if not is_there]
        if missing:
            raise PrivacyError(
                "noise on the sums protects only what they tell, and nothing else may be told of "
                f"the data: noise of FederatedKernelKMeans needs {', '.join(missing)}. "
                "Give them beside it."
            )

    def _n_eigenvectors(self) -> int:
        return self.n_eigenvectors or self.n_clusters

    def _fit(self, federation: Federation) -> Labelled:
        self.history_: list[IterationReport] = []
        noise = noise_of(self._noise_within, iterations=self.iterations)
        sums = open_sum(
            federation,
            self.averaging,
            n_colluding=self.n_colluding,
            allow_few=self.allow_few,
            patience_s=self.patience_s,
            aggregators=self.aggregators,
        )
        with self._stage(federation, "planning"):
            planned, done = self._planned(federation, sums, noise)
            settings = self._settings(len(federation.clients))
        with self._stage(federation, "iterating"):
            if self.communication_efficient:
                loop = Iterations(federation, settings, planned, sums, self._note)
                rows = loop.run(done)
                self.eigenpairs_ = loop.found
                self.feature_weights_ = feature_weights(
                    loop.found, self.n_features, planned.n_eigenvectors
                )
            else:
                rows = Uncompressed(federation, settings, planned, sums, self._note).run()
            federation.wait(rows)
        with self._stage(federation, "clustering"):
            labels = self._cluster(federation, sums, rows, noise)
        self._planned_with = (planned.plan, planned.features)
        if noise is not None:
            releases = self.n_iterations_ + noise.rounds
            self.privacy_ = noise_told("sums", noise.multiplier, releases, noise.delta)
        return federation.publish(own_labels, labels, party="clients", wait=False)

    def _planned(
        self, federation: Federation, sums: Aggregation, noise: Noise | None
    ) -> tuple[Planned, int]:
        """Agree on the kernel's width; find where an earlier start of this fit was interrupted."""
        folder, begun = None, None
        sums.prepare()
        if noise is not None:
            self._begin_releases(federation)
        elif self.communication_efficient:
            contents = federation.ask(store_content)
            folder = federation.on_server(server.folder_of, self._params_key, contents)
            begun = federation.publish(server.iterations_done, folder, wait=False)
        count = sums.sum(federation.on_clients(party.count_samples), max_abs=_MOST_SAMPLES)
        features = FeatureSettings(self.kernel, self.degree, self.n_features, self.seed_)
        shifts = features.has_bounded_norm  # a stationary kernel does not depend on the origin
        width = None
        if not self.kernel_width:
            hidden = 0.0 if shifts else None
            width = agree_on_width(federation, sums, self.kernel, hidden=hidden)
        plan = federation.on_server(server.plan_of, count, width, self.kernel_width, None)
        told = federation.publish(plan)
        if shifts and told.width == 0.0:  # rounding hides it if samples are far from the origin
            centre = agree_on_centre(federation, sums)
            width = agree_on_width(federation, sums, self.kernel, centre=federation.tell(centre))
            plan = federation.on_server(server.plan_of, count, width, None, centre)
            told = federation.publish(plan)
        sent = federation.tell(plan)
        done = 0 if begun is None else begun.result().n_iterations
        self.kernel_width_ = told.width
        if told.n_samples < self.n_clusters:
            raise InvalidInput(
                f"the 'n_clusters' parameter of FederatedKernelKMeans must be at most the number "
                f"of samples, {told.n_samples}; got {self.n_clusters}. Lower it."
            )
        gram_noise = None if noise is None else noise.gram
        n = self._n_eigenvectors()
        planned = Planned(told, sent, features, folder, n, gram_noise, self.run_id_)
        self.sum_error_bound_ = self._sum_error(planned, sums, len(federation.clients))
        return planned, done

    def _sum_error(self, planned: Planned, sums: Aggregation, n_clients: int) -> float:
        if self.averaging == "plain":
            return 0.0
        bound = planned.bound
        if bound is None:
            return math.nan
        if planned.noise is not None:
            bound += planned.noise.reach(sums.n_noise_shares)
        return FixedPoint.for_bound(bound, n_terms=n_clients).error_bound

    def _settings(self, n_clients: int) -> IterationSettings:
        """Choose the solver by the costs of both; set `plan_`."""
        n_columns = self.n_features + self.n_clusters + 1  # after the first iteration
        n_pairs = max(self.n_clusters + 2, self._n_eigenvectors())
        lanczos = cost_of_lanczos(n_columns, n_pairs, self.lanczos_block, n_clients)
        costs = {"gram": cost_of_gram(n_columns, n_clients), "lanczos": lanczos}
        solver = self.solver
        if not self.communication_efficient:
            solver = "lanczos"
        elif solver == "auto":
            solver = cheaper(n_columns, n_pairs, self.lanczos_block, n_clients).solver
        self.plan_ = {**costs, "chosen": costs[solver]}
        log.info(
            "solver %r: an iteration takes about %d round trips and %d numbers of each client; "
            "the other one %d and %d",
            solver,
            *(
                number
                for name in (solver, next(name for name in costs if name != solver))
                for number in (costs[name].rounds, costs[name].floats)
            ),
        )
        return picked(IterationSettings, self, solver=solver, random_state=self.seed_)

    @property
    def choices(self) -> Mapping[str, str]:
        """The solver of the last fit, and the cost of an iteration."""
        if not hasattr(self, "plan_"):
            return {}
        cost = self.plan_["chosen"]
        return {
            "solver": f"{cost.solver}: an iteration takes about {cost.rounds} round trips and "
            f"{cost.floats} numbers of each client"
        }

    def _note(self, report: IterationReport) -> None:
        self.history_.append(report)
        self.n_iterations_ = len(self.history_)

    def _cluster(
        self,
        federation: Federation,
        sums: Aggregation,
        rows: PerClient[Local[np.ndarray]],
        noise: Noise | None,
    ) -> PerClient[Local[np.ndarray]]:
        """Cluster the rows of H (Algorithm 1, line 19), as in Balcan et al. 2013 or by sums."""
        how: dict[str, Any] = {"n_init": self.n_init, "sums": sums}
        if self.clustering == "coreset":
            how = {"n_init": self.n_init, "coreset_size": self.coreset_size}
        elif noise is not None:
            norm = self._largest_norm(self.history_[-1])
            how = {"sums": sums, "noise": LloydNoise(noise.multiplier, norm, noise.rounds)}
        federation.next_round()
        seed = seeds.integer_seed(self.seed_, "FK k-means", "clustering")
        kmeans = open_kmeans(
            federation, self.clustering, n_clusters=self.n_clusters, seed=seed, **how
        )
        clusters = kmeans.fit(rows)
        self.cluster_centers_ = federation.publish(clusters.centers).centers
        return clusters.labels

    def _largest_norm(self, last: IterationReport) -> float:
        """Return a bound on |h(x)| from released values: √2 times the largest scale."""
        values = last.values[: self._n_eigenvectors()]
        raised = values + (1.0 - 1.0 / self.n_iterations_) * last.threshold
        return float(np.sqrt(2.0 * np.max(raised / values)))

    @property
    def histories(self) -> Mapping[str, Mapping[str, Sequence[float]]]:
        """The relative change of the estimate of the kernel matrix, by iteration."""
        change = [told.change for told in self.history_[1:]]
        return {
            "Relative change of the kernel matrix's estimate, from the second iteration on": {
                "change": change
            }
        }

    def can_start_again(self) -> bool:
        """Whether an interrupted fit may begin again: not if it released noisy sums."""
        return not (self.noise is not None and getattr(self, "history_", None))

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        if not self.communication_efficient:
            raise InvalidInput(
                "predict of FederatedKernelKMeans needs communication_efficient=True: without it "
                "nothing maps new samples to coordinates; got False. Fit with it."
            )
        plan, features = self._planned_with
        model = (self.feature_weights_, self.cluster_centers_, plan, features)
        return federation.publish(party.labelled_new, new, *model, party=tuple(new), wait=False)


_MOST_SAMPLES = 2.0**40  # of one client
