"""One epoch of a client's training, compiled by JAX for each shape of networks and rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from daskfc.protocols.esfmc.networks import losses
from daskfc.protocols.esfmc.networks.batches import Client
from daskfc.protocols.esfmc.networks.framework import jax, jnp
from daskfc.protocols.esfmc.networks.layers import (
    apply,
    flatten,
    from_assignments,
    shapes,
    unflatten,
)
from daskfc.protocols.esfmc.networks.optimisers import Moments, adam, sgld
from daskfc.protocols.esfmc.settings import NetworkSettings, TrainingSettings

Array: TypeAlias = Any  # of JAX, or a tracer

_PRECISION = "float32"  # full precision, also where a GPU would round products to ten bits


@dataclass(frozen=True)
class EpochLosses:
    """Means over an epoch of the loss's terms, and `total`, their weighted sum without prior."""

    reconstruction: float
    cross_entropy: float
    dependence: float
    alignment: float
    total: float


class Plan(NamedTuple):
    """Settings that need a new compilation when they change."""

    n_columns: int
    n_clusters: int
    network: NetworkSettings
    optimiser: str
    dependence: str
    n_bins: int
    dropout: float


class Rates(NamedTuple):
    """Numbers that may change without a new compilation."""

    learning_rate: float
    temperature: float
    prior_scale: float
    weights: losses.Terms


def _terms(
    params: Mapping[str, Array], plan: Plan, client: Client, batch: Array, key: Array
) -> tuple[losses.Terms, losses.Terms]:
    """Return the terms of the loss on one batch, and the number of rows in each mean."""
    weight = (batch >= 0).astype(jnp.float32)
    rows, labels, aligned = client.rows[batch], client.labels[batch], client.aligned[batch]
    out = apply(params, rows, plan.network, dropout=plan.dropout, key=key)
    mapped = from_assignments(params, client.assignments[batch])
    terms = losses.Terms(
        losses.reconstruction(rows, out.decoded, weight),  # Eq. (4), first term
        losses.cross_entropy(out.logits, labels, weight),  # second, departure (1)
        losses.dependence(plan.dependence, out.z_x, out.z_c, weight, plan.n_bins),  # third
        losses.alignment(out.z_c, mapped, aligned, weight),  # Eq. (11)
    )
    n = jnp.sum(weight)
    n_labelled, n_aligned = jnp.sum(weight * (labels >= 0)), jnp.sum(weight * aligned)
    return terms, losses.Terms(n, n_labelled, n, n_aligned)


def _epoch(
    w: Array, moments: Moments, client: Client, order: Array, rates: Rates, key: Array, plan: Plan
) -> tuple[Array, Moments, losses.Terms, losses.Terms]:
    layout = shapes(plan.n_columns, plan.n_clusters, plan.network)

    def loss(params: Mapping[str, Array], batch: Array, key: Array) -> tuple[Array, Any]:
        terms, counts = _terms(params, plan, client, batch, key)
        total = sum(a * b for a, b in zip(rates.weights, terms, strict=True))  # Eqs. (4), (12)
        return total, (terms, counts)

    def step(carry: tuple[Array, Moments], batch: Array) -> tuple[tuple[Array, Moments], Any]:
        w, moments = carry
        drop_key, noise_key = jax.random.split(jax.random.fold_in(key, moments.steps))
        found, means = jax.grad(loss, has_aux=True)(unflatten(w, layout), batch, drop_key)
        decay = rates.temperature / rates.prior_scale**2
        gradient = flatten(found, layout) + decay * w  # ∇U of Eq. (6), prior N(0, s² I)
        noise = jax.random.normal(noise_key, w.shape)
        eta, alpha = rates.learning_rate, rates.temperature
        if plan.optimiser == "adam":
            w, moments = adam(w, gradient, moments, eta, alpha, noise)
        else:
            w = sgld(w, gradient, eta, alpha, noise)  # Eq. (7)
            moments = moments._replace(steps=moments.steps + 1)
        return (w, moments), means

    with jax.default_matmul_precision(_PRECISION):
        (w, moments), (terms, counts) = jax.lax.scan(step, (w, moments), order)
    return w, moments, terms, counts


def _outputs(w: Array, rows: Array, plan: Plan) -> tuple[Array, Array, Array, Array]:
    params = unflatten(w, shapes(plan.n_columns, plan.n_clusters, plan.network))
    with jax.default_matmul_precision(_PRECISION):
        out = apply(params, rows, plan.network)
    return out.z, out.z_c, out.z_x, jax.nn.softmax(out.logits)


run_epoch = jax.jit(_epoch, static_argnames="plan")
"""From weights, moments, client, order, rates, key and plan to weights, moments, terms, counts."""

outputs = jax.jit(_outputs, static_argnames="plan")
"""From weights, rows and plan to Z, Z_c, Z_x and assignments."""


def losses_of(terms: losses.Terms, counts: losses.Terms, weights: losses.Terms) -> EpochLosses:
    """Return means over an epoch from those of its batches, weighted by their numbers of rows."""
    means = []
    for term, count in zip(terms, counts, strict=True):
        values, n = np.asarray(term, dtype=np.float64), np.asarray(count, dtype=np.float64)
        means.append(float(values @ n) / max(float(n.sum()), 1.0))
    total = sum(weight * mean for weight, mean in zip(weights, means, strict=True))
    return EpochLosses(means[0], means[1], means[2], means[3], total)


def plan_of(
    n_columns: int, n_clusters: int, network: NetworkSettings, settings: TrainingSettings
) -> Plan:
    """Return the settings that need a new compilation."""
    kind, n_bins = settings.dependence, settings.n_bins
    sizes = n_columns, n_clusters, network
    return Plan(*sizes, settings.optimiser, kind, n_bins, settings.dropout)


def rates_of(settings: TrainingSettings, n_columns: int) -> Rates:
    """Return the settings that need no new compilation."""
    share = 1.0 / n_columns if settings.reconstruction == "mean" else 1.0
    weights = losses.Terms(
        settings.reconstruction_weight * share,
        settings.label_weight,
        settings.dependence_weight,
        settings.alignment_weight,
    )
    return Rates(settings.learning_rate, settings.temperature, settings.prior_scale, weights)
