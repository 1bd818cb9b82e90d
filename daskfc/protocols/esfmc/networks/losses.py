"""The terms of the loss, Eqs. (4) and (11), on one batch.

Every batch has the same shape: rows that pad the last one have weight 0.

The dependence between Z_x and Z_c has three estimators:

``covariance``   mean of squared covariances of pairs of coordinates; small features make it small
``correlation``  mean of squared correlations of pairs of coordinates, in [0, 1]
``histogram``    mean over pairs of coordinates of their mutual information, in nats, from counts in
                 soft bins (Daub et al. 2004): a value between the centres of two bins counts in
                 both, in proportion to its nearness, so that counts have gradients

References
----------
Daub, Steuer, Selbig, Kloska: Estimating mutual information using B-spline functions, 2004.
"""

from typing import Any, NamedTuple, TypeAlias

from daskfc.protocols.esfmc.networks.framework import jax, jnp

Array: TypeAlias = Any  # of JAX, or a tracer

_TINY = 1e-12  # ours: smaller variances and ranges count as this


class Terms(NamedTuple):
    """The unweighted terms of the loss: L_1, L_2 (in nats), L_3 (the estimator's unit) and L_a."""

    reconstruction: Array
    cross_entropy: Array
    dependence: Array
    alignment: Array


def _mean(values: Array, weight: Array) -> Array:
    """Return the weighted mean; 0 if all weights are 0."""
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(weight), 1.0)


def reconstruction(rows: Array, decoded: Array, weight: Array) -> Array:
    """Return the mean over rows of |x - g(z_x)|², the first term of Eq. (4); weights are 1 or 0."""
    return _mean(jnp.sum((rows - decoded) ** 2, axis=1), weight)


def cross_entropy(logits: Array, labels: Array, weight: Array) -> Array:
    """Return the mean of -log Q[i, y_i] over labelled rows, in nats (Eq. 4; the sign is ours)."""
    log_q = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_q, jnp.maximum(labels, 0)[:, None], axis=1)[:, 0]
    return _mean(-picked, weight * (labels >= 0))


def _centred(Z: Array, weight: Array) -> Array:
    mean = jnp.sum(Z * weight[:, None], axis=0) / jnp.maximum(jnp.sum(weight), 1.0)
    return (Z - mean) * weight[:, None]


def covariance(z_x: Array, z_c: Array, weight: Array) -> Array:
    """Return the mean over pairs of coordinates of their squared covariance; weights are 1 or 0."""
    cov = _centred(z_x, weight).T @ _centred(z_c, weight) / jnp.maximum(jnp.sum(weight), 1.0)
    return jnp.mean(cov**2)


def correlation(z_x: Array, z_c: Array, weight: Array) -> Array:
    """Return the mean over pairs of coordinates of their squared correlation, in [0, 1]."""
    x, c = _centred(z_x, weight), _centred(z_c, weight)
    x = x / jnp.sqrt(jnp.sum(x**2, axis=0) + _TINY)
    c = c / jnp.sqrt(jnp.sum(c**2, axis=0) + _TINY)
    return jnp.mean((x.T @ c) ** 2)


def _soft_bins(Z: Array, weight: Array, n_bins: int) -> Array:
    """Return each value's shares in the bins, (b, d, n_bins), which sum to the row's weight."""
    real = weight[:, None] > 0
    low = jnp.min(jnp.where(real, Z, jnp.inf), axis=0)
    high = jnp.max(jnp.where(real, Z, -jnp.inf), axis=0)
    place = (Z - low) / (high - low + _TINY) * (n_bins - 1)  # in [0, n_bins - 1]
    shares = jax.nn.relu(1.0 - jnp.abs(place[:, :, None] - jnp.arange(n_bins)))
    return jnp.where(real[:, :, None], shares, 0.0)


def histogram(z_x: Array, z_c: Array, weight: Array, n_bins: int) -> Array:
    """Return the mean mutual information of pairs of coordinates in soft bins, in nats."""
    in_x, in_c = _soft_bins(z_x, weight, n_bins), _soft_bins(z_c, weight, n_bins)
    n = jnp.sum(weight)
    b, d_x, _ = in_x.shape
    d_c = in_c.shape[1]
    joint = in_x.reshape(b, -1).T @ in_c.reshape(b, -1) / n
    joint = joint.reshape(d_x, n_bins, d_c, n_bins)
    p_x, p_c = jnp.sum(in_x, axis=0) / n, jnp.sum(in_c, axis=0) / n
    apart = p_x[:, :, None, None] * p_c[None, None]
    # log 1 where a cell is empty, so that its term and gradient are 0
    ratio = jnp.where(joint > 0, joint / jnp.where(joint > 0, apart, 1.0), 1.0)
    return jnp.sum(joint * jnp.log(ratio)) / (d_x * d_c)


def dependence(kind: str, z_x: Array, z_c: Array, weight: Array, n_bins: int) -> Array:
    """Return the third term of Eq. (4), in the unit of the estimator; "histogram" uses `n_bins`."""
    if kind == "histogram":
        return histogram(z_x, z_c, weight, n_bins)
    return {"covariance": covariance, "correlation": correlation}[kind](z_x, z_c, weight)


def alignment(z_c: Array, mapped: Array, aligned: Array, weight: Array) -> Array:
    """Return the mean over aligned rows of |z_c - g̃(q)|², the bound of Eq. (11); 0 without any."""
    return _mean(jnp.sum((z_c - mapped) ** 2, axis=1), weight * aligned)
