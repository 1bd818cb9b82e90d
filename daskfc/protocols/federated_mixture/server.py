"""Federated Gaussian mixture: the server's steps, from sums over clients to parameters."""

import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.linalg.symmetric import matrix_of, packed_size
from daskfc.protocols.federated_mixture.messages import (
    Mixture,
    MixtureHeld,
    MixtureProgress,
    MixtureUnits,
)
from daskfc.protocols.federated_mixture.party import PER_COMPONENT, second_moment
from daskfc.secure.kmeans.groups import SMALLEST
from daskfc.secure.kmeans.on_sums import Search, clusters_of
from daskfc.secure.prepare.messages import CommonMagnitudes, FittedMeans
from daskfc.secure.prepare.steps import deviations_of
from daskfc.secure.sums import Total
from daskfc.stores.store.prepared import scale_of

_MARKS = 2.0**24  # ours


@dataclass(frozen=True)
class MixturePlan:
    """Parameters of a fit, as the estimator has them."""

    covariance: str
    reg_covar: float
    tol: float
    max_iter: int


@dataclass(frozen=True)
class State:
    """The server's state between two sums, in common units."""

    n_rows: int  # of all clients
    left: int  # numbers that may still be opened
    weights: Floats
    means: Floats
    covariances: Floats  # (k or 1, d, d), (k, 1, d) or (k, 1, 1)
    n_iter: int = 0
    log_likelihood: float = -math.inf
    held: NDArray[np.bool_] | None = None  # components whose responsibilities stay
    opens: bool = False
    ended: str = ""
    after: float = 0.0  # the mark of the parameters whose moments were opened last

    @property
    def mark(self) -> float:
        """24 bits for the parameters, which sums in fixed point keep."""
        told = (self.weights, self.means, self.covariances, np.array(self.after))
        digest = hashlib.sha256(b"".join(one.tobytes() for one in told)).digest()
        return (1 + int.from_bytes(digest[:3])) / _MARKS


def units_of(
    total: Total, means: FittedMeans, farthest: CommonMagnitudes, one_scale: bool
) -> MixtureUnits:
    """Send all the features' means and deviations, or the largest of these for all features."""
    if np.isnan(means.means).any():
        raise InvalidInput(
            "a mixture needs features of as many samples and clients as sites ask for, of which "
            "sums are opened; there are fewer. Add samples or clients."
        )
    deviations = deviations_of(total, farthest)
    scales = scale_of(deviations, means.means)
    if one_scale:  # of features that are not constant
        scales[:] = scales[scales == deviations].max(initial=0.0) or 1.0
    return MixtureUnits(means.means, scales, round(float(total.values[1, 0])))


def started(search: Search, total: Total, units: MixtureUnits, plan: MixturePlan) -> State:
    """Return the mixture of the clusters of k-means, of which no sum is opened for it."""
    counts, means, within = clusters_of(search, total)
    k, d = means.shape
    opened = (len(search.moments) + k) * (1 + 2 * d)
    variances = within / np.maximum(counts, 1.0)[:, None]
    if plan.covariance == "tied":
        variances = within.sum(axis=0, keepdims=True) / counts.sum()
    if plan.covariance == "spherical":
        variances = variances.mean(axis=1, keepdims=True)
    spread = variances[:, None, :]
    if plan.covariance in ("full", "tied"):
        spread = spread * np.eye(d)
    state = State(
        units.n_rows, units.n_rows * d - opened, counts / counts.sum(), means,
        _regular(spread, plan),
    )  # fmt: skip
    return _checked(state)


def _regular(covariances: Floats, plan: MixturePlan) -> Floats:
    """Return covariances with `reg_covar` on the diagonal."""
    one = np.eye(covariances.shape[2]) if plan.covariance in ("full", "tied") else 1.0
    return covariances + plan.reg_covar * one


def _spreads(state: State) -> Floats:
    """Return the eigenvalues of the covariances of components that are there, (k, d)."""
    d = state.means.shape[1]
    of = state.covariances[np.flatnonzero(state.weights > 0) % len(state.covariances)]
    if of.shape[1] == d:
        return np.asarray(np.linalg.eigvalsh(of), dtype=np.float64)
    return np.broadcast_to(of[:, 0], (len(of), d))


def _checked(state: State) -> State:
    """Refuse covariances that are singular up to rounding."""
    spreads = _spreads(state)
    if not (spreads > 4.0 * np.finfo(np.float64).eps * spreads.max(axis=1, keepdims=True)).all():
        raise InvalidInput(
            "a component's samples have no variance in some direction, so its covariance is "
            "singular. Raise 'reg_covar', ask for fewer clusters, or leave out features that "
            "follow from others."
        )
    return state


def _reach(state: State) -> float:
    """Return a bound on the sum of |x - μ_j|² in each feature, over all rows."""
    there = state.means[state.weights > 0]
    return float(2.0 * state.n_rows * (1.0 + np.abs(there).max()) ** 2)  # Σ x² ≤ n, and rounding


def parameters(state: State) -> Mixture:
    """Send all the parameters, and the unit in which log-likelihoods are at most n."""
    spreads, d = _spreads(state), state.means.shape[1]
    largest = (
        d * (math.log(2.0 * math.pi) + _reach(state) / state.n_rows / spreads.min())
        + np.abs(np.log(spreads)).sum(axis=1).max()
        - math.log(state.weights[state.weights > 0].min())
    )
    unit = 2.0 ** -math.ceil(math.log2(largest))
    found = state.weights, state.means, state.covariances
    return Mixture(*found, unit, state.log_likelihood, state.mark, state.after)


def held(state: State, site: SiteRules = FREE) -> MixtureHeld:
    """Send the clients which components' responsibilities stay; refuse sums that stay closed.

    From what was opened one sum goes on: two of its own, or of two fits, may differ by a sample.
    """
    if state.held is None or not state.opens:
        raise PrivacyError(
            "moments of a mixture whose masses did not allow it are not opened. Ask for masses."
        )
    content = np.append(state.mark, state.held).tobytes()
    site.once().hold("moments of a mixture", f"after {state.after}", content)
    return MixtureHeld(state.held, state.mark)


def progress(state: State) -> MixtureProgress:
    """Report the state to the caller, and a bound on the next moments."""
    bound = 2.0 * _reach(state)  # √2, for packed matrices
    return MixtureProgress(int(state.opens), bound, state.n_iter, state.log_likelihood, state.ended)


def size_of_moments(k: int, d: int, covariance: str) -> int:
    """Return how many numbers `own_moments` has."""
    seconds = {"full": k * packed_size(d), "tied": packed_size(d), "diag": k * d, "spherical": k}
    return k * (1 + d) + seconds[covariance]


def weighed(state: State, total: Total, plan: MixturePlan, site: SiteRules = FREE) -> State:
    """Return the state that says, from sums of `own_masses`, whether moments are opened.

    They are not, and a component goes, where its responsibilities are fewer than `SMALLEST` or of
    too few clients. One is held where its change is of too few samples, as (Σ|δ|)² / Σδ² counts
    them. No more are opened once the log-likelihood rests, or all others are held; after
    `max_iter`; and before as many numbers are opened as all samples have.
    """
    k, d = state.means.shape
    if round(total.values[-1, 0] / len(total.terms) * _MARKS) != state.mark * _MARKS:
        raise PrivacyError(
            "a mixture's masses are of other parameters than those that moments would be opened "
            "for, or in units that are too coarse. Nothing was opened; start the run again."
        )
    table = total.values[:-2, 0].reshape(k, PER_COMPONENT)
    mass, holders, changes, squares = table.T
    least = max(SMALLEST, site.smallest.samples)
    there = state.weights > 0
    large = (mass >= least) & (np.rint(holders) >= site.smallest.clients)
    if not large[there].all() and there.sum() > 1:
        kept = there & large if (there & large).any() else np.arange(k) == mass.argmax()
        weights = np.where(kept, state.weights, 0.0)
        left = state.left - total.values.size
        return replace(
            state, weights=weights / weights.sum(), left=left, opens=False,
            log_likelihood=-math.inf,
        )  # fmt: skip
    found = float(total.values[-2, 0] / parameters(state).unit / mass.sum())
    left = state.left - total.values.size
    slack = 1e-9 + 2.0 * least * total.error_bound  # changes of no sample at all are rounding
    few = np.square(changes) + slack < least * squares
    held, ended = there & few & (state.n_iter > 0), ""
    if state.n_iter and abs(found - state.log_likelihood) < plan.tol:
        ended = "rest"
    elif held.any() and (there & ~held).sum() < 2:
        ended = "held"
    elif state.n_iter >= plan.max_iter:
        ended = "rounds"
    elif left < size_of_moments(k, d, plan.covariance) + total.values.size:
        ended = "numbers"
    return replace(state, left=left, log_likelihood=found, held=held, opens=not ended, ended=ended)


def moved(state: State, total: Total, plan: MixturePlan) -> State:
    """Return the state with the parameters that the moments of all clients give."""
    k, d = state.means.shape
    values = total.values[:, 0]
    firsts, seconds = values[: k * (1 + d)].reshape(k, 1 + d), values[k * (1 + d) :]
    counts = np.maximum(firsts[:, 0], 0.0)
    n = np.maximum(counts, np.finfo(np.float64).tiny)[:, None]
    shift = np.where(state.weights[:, None] > 0, firsts[:, 1:] / n, 0.0)
    kind, shape = plan.covariance, state.covariances.shape
    parts = seconds.reshape(shape[0], -1)
    matrices = np.array([matrix_of(one) if shape[1] == d else one[None] for one in parts])
    if kind == "tied":
        matrices = (matrices - second_moment(counts, shift, kind)) / counts.sum()
    else:
        between = [second_moment(np.ones(1), one[None], kind) for one in shift]
        matrices = matrices / n[:, :, None] - np.array(between)
    covariances = _regular(matrices, plan)
    if kind != "tied":
        there = state.weights[:, None, None] > 0
        covariances = np.where(there, covariances, state.covariances)
    after = replace(
        state, weights=counts / counts.sum(), means=state.means + shift, covariances=covariances,
        left=state.left - values.size, n_iter=state.n_iter + 1, after=state.mark,
    )  # fmt: skip
    return _checked(after)
