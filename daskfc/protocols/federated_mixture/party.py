"""Federated Gaussian mixture: the clients' steps, on their own rows and published parameters."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import Covariance, multivariate_normal

from daskfc.arrays import Floats, Ints
from daskfc.errors import PrivacyError
from daskfc.federation import LabelledSamples, own_labels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_many_as_announced, takes
from daskfc.linalg.symmetric import packed
from daskfc.protocols.federated_mixture.messages import Mixture, MixtureHeld, MixtureUnits
from daskfc.stores import ClientStore

PER_COMPONENT = 4  # numbers of each component in `own_masses`
_BLOCK = 4096  # ours: rows at a time, so that no step holds all rows twice


@dataclass(frozen=True)
class Marked:
    """Numbers of a client's rows, (n_m, k), and the marks of the `Mixture` that they are of."""

    values: Floats
    mark: float = 0.0
    after: float = 0.0


def _check_order(joint: Marked, before: Marked, mark: float) -> None:
    """Refuse responsibilities of two sums with others between: single samples may differ there."""
    if joint.mark != mark or before.mark != joint.after:
        raise PrivacyError(
            "a mixture's sums are of responsibilities other than those of the parameters that the "
            "server told, and of the moments before. Nothing was sent; start the run again."
        )


def own_rows(data: ClientStore, units: MixtureUnits) -> Floats:
    """Return a client's samples in common units, (n_m, d); they stay in its memory for the fit."""
    rows = data.rows_of_any_size(0, data.n_samples)
    return np.asarray((rows - units.means) / units.scales)


def uniform(rows: Floats, told: Mixture) -> Marked:
    """Return the responsibilities before the first iteration: all alike, (n_m, k)."""
    return Marked(np.full((len(rows), len(told.weights)), 1.0 / len(told.weights)))


def own_log_joint(rows: Floats, told: Mixture) -> Marked:
    """Return log w_j + log p(x | j) of a client's rows, (n_m, k)."""
    found = np.full((len(rows), len(told.weights)), -np.inf)
    for j in np.flatnonzero(told.weights > 0):
        matrix = told.covariances[j % len(told.covariances)]  # a tied one is alone
        density = multivariate_normal(told.means[j], _covariance(matrix, rows.shape[1]))
        for start in range(0, len(rows), _BLOCK):
            block = density.logpdf(rows[start : start + _BLOCK])
            found[start : start + _BLOCK, j] = math.log(told.weights[j]) + block
    return Marked(found, told.mark, told.after)


def _covariance(matrix: Floats, d: int) -> Covariance:
    if len(matrix) == d:
        return Covariance.from_cholesky(np.linalg.cholesky(matrix))
    return Covariance.from_diagonal(np.broadcast_to(matrix[0], d))


def own_masses(joint: Marked, before: Marked, told: Mixture) -> Floats:
    """Return a client's part of the sums that say whether moments may be opened, (4 k + 2,).

    Of each component: responsibilities; 1 if they are 1 or more; their changes since moments were
    opened, and the squares of these. Last, the log-likelihood times `told.unit`, and `told.mark`.
    """
    _check_order(joint, before, told.mark)
    r = softmax(joint.values, axis=1)
    changes = np.abs(r - before.values)
    mass = r.sum(axis=0)
    columns = (mass, mass >= 1.0, changes.sum(axis=0), np.square(changes).sum(axis=0))
    likelihood = logsumexp(joint.values, axis=1).sum() * told.unit
    return np.concatenate([np.stack(columns, axis=1).ravel(), [likelihood, told.mark]])


def second_moment(weights: Floats, apart: Floats, covariance: str) -> Floats:
    """Return Σ w x xᵀ, (d, d); or its diagonal, (1, d); or the mean of that, (1, 1)."""
    if covariance in ("full", "tied"):
        return np.asarray((apart.T * weights) @ apart)
    squares = weights @ np.square(apart)
    return squares[None] if covariance == "diag" else np.array([[squares.mean()]])


def responsibilities(joint: Marked, before: Marked, told: MixtureHeld) -> Marked:
    """Return a client's responsibilities, (n_m, k), where those of held components stay."""
    _check_order(joint, before, told.mark)
    held, r = told.held, before.values.copy()
    r[:, ~held] = softmax(joint.values[:, ~held], axis=1)
    r[:, ~held] *= 1.0 - before.values[:, held].sum(axis=1, keepdims=True)
    return Marked(r, told.mark)


def own_moments(rows: Floats, r: Marked, told: Mixture, covariance: str) -> Floats:
    """Return a client's part of the moments about the components' means, as one vector.

    First Σ r and Σ r (x - μ_j), (k, 1 + d), then the second moments, of all together if "tied".
    """
    k, d = told.means.shape
    firsts, seconds = np.zeros((k, 1 + d)), np.zeros(told.covariances.shape)
    for j in range(k):
        for start in range(0, len(rows), _BLOCK):
            own = r.values[start : start + _BLOCK, j]
            apart = rows[start : start + _BLOCK] - told.means[j]  # saves digits far from 0
            firsts[j] += np.concatenate([[own.sum()], own @ apart])
            seconds[j % len(seconds)] += second_moment(own, apart, covariance)
    flat = [packed(one) if len(one) == d else one[0] for one in seconds]
    return np.concatenate([firsts.ravel(), *flat])


def own_components(joint: Marked) -> Ints:
    """Return the most probable component of each of a client's rows."""
    return np.asarray(joint.values.argmax(axis=1), dtype=np.int64)


@takes(means=as_many_as_announced)
def labelled_new(
    new: ClientStore,
    shift: Floats,
    scales: Floats,
    weights: Floats,
    means: Floats,
    covariances: Floats,
    site: SiteRules = FREE,
) -> LabelledSamples:
    """Label new samples by the most probable component; all but the shift is in its units."""
    site.check_model(shift, scales, weights, means, covariances)
    rows = own_rows(new, MixtureUnits(shift, scales, 0))
    told = Mixture(weights, means, covariances, 1.0, 0.0, 0.0, 0.0)
    return own_labels(new, own_components(own_log_joint(rows, told)))
