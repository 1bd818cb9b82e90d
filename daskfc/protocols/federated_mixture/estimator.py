"""FederatedGaussianMixture: the estimator, from the clusters of k-means on sums to a mixture."""

import math
import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskfc import seeds
from daskfc.arrays import Floats
from daskfc.checks import boolean, integer, one_of, real
from daskfc.federation import FederatedClusterer, Federation, Local, PerClient, own_labels, param
from daskfc.federation.methods.samples import Labelled, NewStores
from daskfc.protocols.federated_mixture import party, server
from daskfc.protocols.federated_mixture.messages import Mixture, MixtureUnits
from daskfc.secure.kmeans import KMeansOnSums, KMeansPlan
from daskfc.secure.prepare import steps
from daskfc.secure.prepare.moments import ColumnMoments
from daskfc.secure.sums import AGGREGATORS, KINDS, Aggregation, check_maskers, open_sum


class FederatedGaussianMixture(FederatedClusterer):
    """A Gaussian mixture whose server learns the parameters of each iteration, and no distances.

    Parameters
    ----------
    n_clusters : int
        Number of components.
    covariance : {"full", "tied", "diag", "spherical"}
        Covariances: one matrix each, one for all, variances of features, or one variance each.
    reg_covar : float
        Added to all variances, as a share of a feature's variance over all samples; "spherical":
        of the largest such.
    tol : float
        Iterations end when the mean log-likelihood of a sample rises by less.
    max_iter : int
        Iterations, at most.
    averaging : {"masked", "recovering", "shared", "plain"}
        Whether the server sees only sums; only sums even if clients leave during a round, where
        all clients hold shares of keys, or two clients hold all masks ("shared": the server must
        not collude with both); or every client's part of the sums.
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
        Seed of the k-means from which the mixture starts, as `FederatedKMeans` has it. Masks have
        no seed.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.
    weights_ : ndarray of shape (k,), float64
        Weights; 0 of a component that lost its samples.
    means_ : ndarray of shape (k, d), float64
        Means, in the units of the features.
    covariances_ : ndarray of float64
        ``(k, d, d)``, ``(d, d)``, ``(k, d)`` or ``(k,)``, as scikit-learn has them.
    lower_bound_ : float
        Mean log-likelihood of a sample under these parameters.
    lower_bounds_ : list of float
        The same before the first iteration and after each one.
    n_iter_ : int
        Iterations, each of two sums.
    converged_ : bool
        Whether iterations ended by `tol`; else a warning says by what.
    aic_, bic_ : float
        Akaike's and the Bayesian information criterion; lower is better.

    Notes
    -----
    Privacy: all parties are semi-honest. The server learns sums over all clients, and clients what
    follows of them: the parameters of every iteration. No sum is of a component with fewer than
    five samples' responsibilities (or what sites' policies ask for); a component that fewer than
    five samples would change stays as it was; and together the sums are fewer numbers than the
    samples have. That hides no sample for sure: sums of many iterations are equations in the
    samples. See `FederatedKMeans` for the start, whose sums hold at least five samples each.

    Parameters are those of `sklearn.mixture.GaussianMixture` on pooled samples from the same start,
    up to rounding: sums of standardised samples are off by L² n (1 + m)² 2⁻⁵⁸ at most, with L
    clients, n samples, and m the largest magnitude of a mean. A fit that is started again with the
    same seed opens the same sums.

    References
    ----------
    A. P. Dempster, N. M. Laird, D. B. Rubin, "Maximum likelihood from incomplete data via the EM
    algorithm", J. R. Stat. Soc. B 39 (1977) 1-38.

    Examples
    --------
    >>> import numpy as np
    >>> import daskfc as fc
    >>> random = np.random.default_rng(0)
    >>> wide, narrow = random.normal(0, 3, (200, 2)), random.normal(8, 0.5, (100, 2))
    >>> rows = {"a": wide[:150], "b": np.vstack([wide[150:], narrow])}
    >>> with fc.simulate(rows) as federation:  # doctest: +SKIP
    ...     fc.FederatedGaussianMixture(2).fit(federation).weights_.round(1)
    array([0.7, 0.3])
    """

    split: ClassVar = "samples"
    model_at_parties: ClassVar[bool] = False

    n_clusters: int = param(integer(low=1), kw_only=False)
    covariance: str = param(one_of("full", "tied", "diag", "spherical"), default="full")
    reg_covar: float = param(real(low=0), default=1e-6)
    tol: float = param(real(low=0), default=1e-3)
    max_iter: int = param(integer(low=1), default=100)
    averaging: str = param(one_of(*KINDS), default="masked")
    aggregators: Sequence[str] | None = param(AGGREGATORS, default=None)
    n_colluding: int = param(integer(low=0), default=0)
    allow_few: bool = param(boolean(), default=False)
    patience_s: float = param(real(above=0), default=10.0)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints, each other and the number of clients."""
        super().check(n_clients)
        if n_clients is not None and self.averaging != "plain":
            check_maskers(n_clients, self.n_colluding, self.allow_few)

    def _fit(self, federation: Federation) -> Labelled:
        sums = open_sum(
            federation,
            self.averaging,
            n_colluding=self.n_colluding,
            allow_few=self.allow_few,
            patience_s=self.patience_s,
            aggregators=self.aggregators,
        )
        sums.prepare()
        plan = server.MixturePlan(self.covariance, self.reg_covar, self.tol, self.max_iter)
        with self._stage(federation, "units"):
            units, rows = self._units(federation, sums)
        with self._stage(federation, "start"):
            seed = seeds.integer_seed(self.seed_, "federated k-means")  # its start
            kmeans = KMeansOnSums(federation, KMeansPlan(self.n_clusters, seed), sums)
            search, total, rows = kmeans.moments(rows)
            state = federation.on_server(server.started, search, total, units, plan)
        told_units = federation.publish(units)
        those, bound = tuple(rows), 2.0 * told_units.n_rows
        found, before = [], None
        with self._stage(federation, "iterations"):
            while True:
                federation.next_round()
                told = federation.tell(server.parameters, state, clients=those)
                joint = federation.on_clients(party.own_log_joint, rows, told, clients=those)
                if before is None:
                    before = federation.on_clients(party.uniform, rows, told, clients=those)
                parts = federation.inline(party.own_masses, joint, before, told, clients=those)
                total = sums.sum(parts, max_abs=bound)
                state = federation.on_server(server.weighed, state, total, plan)
                now = federation.publish(server.progress, state)
                if np.isfinite(now.log_likelihood):
                    found.append(now.log_likelihood)
                if now.ended:
                    break
                if now.opens:
                    held = federation.tell(server.held, state, clients=those)
                    before = federation.on_clients(
                        party.responsibilities, joint, before, held, clients=those
                    )
                    parts = federation.inline(
                        party.own_moments, rows, before, told, self.covariance, clients=those
                    )
                    total = sums.sum(parts, max_abs=now.bound)
                    state = federation.on_server(server.moved, state, total, plan)
        self._keep(told_units, federation.publish(server.parameters, state), found)
        self.n_iter_ = now.n_iter
        self.converged_ = now.ended == "rest"
        self._warn(now.ended)
        labels = federation.on_clients(party.own_components, joint, clients=those)
        return federation.publish(own_labels, labels, party="clients", wait=False)

    def _units(
        self, federation: Federation, sums: Aggregation
    ) -> tuple[Local[MixtureUnits], PerClient[Local[Floats]]]:
        """Return the common units, at the server, and each client's samples in them."""
        means, there = ColumnMoments(federation, sums, [], federation.clients).means()
        total, largest, there = there.about(means, steps.squares)
        those, one = there.clients, self.covariance == "spherical"
        units = federation.on_server(server.units_of, total, means, largest, one)
        sent = federation.tell(units, clients=those)
        return units, federation.on_clients(party.own_rows, sent, clients=those)

    def _keep(self, units: MixtureUnits, found: Mixture, bounds: list[float]) -> None:
        """Keep the parameters, in the features' units as results and in common ones to predict."""
        scales = units.scales
        self._units_and_mixture = (
            units.means, scales, found.weights, found.means, found.covariances
        )  # fmt: skip
        self.weights_ = found.weights
        self.means_ = units.means + scales * found.means
        if self.covariance in ("full", "tied"):
            covariances = found.covariances * np.outer(scales, scales)
            self.covariances_ = covariances if self.covariance == "full" else covariances[0]
        elif self.covariance == "diag":
            self.covariances_ = found.covariances[:, 0] * scales**2
        else:
            self.covariances_ = found.covariances[:, 0, 0] * scales[0] ** 2
        shift = float(np.log(scales).sum())
        self.lower_bounds_ = [bound - shift for bound in bounds]
        self.lower_bound_ = found.log_likelihood - shift
        k, d = found.means.shape
        free, n = server.size_of_moments(k, d, self.covariance) - 1, units.n_rows
        self.aic_ = 2.0 * (free - n * self.lower_bound_)
        self.bic_ = free * math.log(n) - 2.0 * n * self.lower_bound_

    def _warn(self, ended: str) -> None:
        why = {
            "rounds": f"after max_iter={self.max_iter} iterations, while the log-likelihood rises "
            "by more than 'tol'. Raise 'max_iter' or 'tol'",
            "held": f"at iteration {self.n_iter_}, while the log-likelihood rises by more than "
            "'tol', as the next would move fewer than five samples. Ask for fewer clusters, or "
            "raise 'tol'",
            "numbers": f"at iteration {self.n_iter_}, as their sums would be as many numbers "
            "as all samples have. Ask for fewer clusters, covariance 'diag' or 'spherical', or "
            "fewer features",
        }.get(ended)
        if why:
            warnings.warn(f"{type(self).__name__} ended {why}.", ConvergenceWarning, stacklevel=4)

    def _predict(self, federation: Federation, new: NewStores) -> Labelled:
        model = self._units_and_mixture
        return federation.publish(party.labelled_new, new, *model, party=tuple(new), wait=False)
