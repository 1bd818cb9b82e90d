"""The terms of the loss and the steps, against NumPy's slow way and known distributions.

Compiling takes longer than computing: what can be is compiled together.
"""

import math
from functools import partial

import numpy as np
import pytest

from daskfc.protocols.esfmc.networks import losses
from daskfc.protocols.esfmc.networks.framework import jax, jnp
from daskfc.protocols.esfmc.networks.optimisers import Moments, adam, sgld

RANDOM = np.random.default_rng(0)
B = 12
Z_X, Z_C = RANDOM.normal(size=(B, 3)), RANDOM.normal(size=(B, 2))
LOGITS, LABELS = RANDOM.normal(size=(B, 4)), RANDOM.integers(0, 4, B)
LABELS[[1, 4]] = -1
WEIGHT = np.array([1.0] * 9 + [0.0] * 3)
REAL = WEIGHT > 0
ALIGNED = np.array([1.0, 0.0] * 6)
NAMES = ["reconstruction", "cross_entropy", "covariance", "correlation", "histogram", "alignment"]
PLACES = [(place, row, 1) for place in range(3) for row in (0, 1, 3, 8, 10)]


def slow_histogram(z_x, z_c, n_bins):
    """Mutual information in soft bins, value by value."""

    def shares(values):
        place = (values - values.min()) / (values.max() - values.min()) * (n_bins - 1)
        table = np.zeros((len(values), n_bins))
        for row, at in enumerate(place):
            left = min(int(at), n_bins - 2)
            table[row, left], table[row, left + 1] = left + 1 - at, at - left
        return table

    total = 0.0
    for x in z_x.T:
        for c in z_c.T:
            p_x, p_c = shares(x), shares(c)
            joint = p_x.T @ p_c / len(x)
            for i, j in np.argwhere(joint > 0):
                total += joint[i, j] * math.log(joint[i, j] / p_x[:, i].mean() / p_c[:, j].mean())
    return total / (z_x.shape[1] * z_c.shape[1])


def slow_entropy(logits, labels):
    q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -np.mean([math.log(q[i, y]) for i, y in enumerate(labels) if y >= 0])


def slow():
    x, c = Z_X[REAL], Z_C[REAL]
    both = ALIGNED[REAL] > 0
    return [
        np.mean([((x[i] - c[i, 0]) ** 2).sum() for i in range(9)]),
        slow_entropy(LOGITS[REAL], LABELS[REAL]),
        (np.cov(x.T, c.T, bias=True)[:3, 3:] ** 2).mean(),
        (np.corrcoef(x.T, c.T)[:3, 3:] ** 2).mean(),
        slow_histogram(x, c, 5),
        ((c - x[:, :2])[both] ** 2).sum(axis=1).mean(),
    ]


def all_losses(z_x, z_c, logits):
    kinds = ("covariance", "correlation", "histogram")
    return jnp.stack(
        [
            losses.reconstruction(z_x, z_c[:, :1] + 0 * z_x, WEIGHT),
            losses.cross_entropy(logits, LABELS, WEIGHT),
            *(losses.dependence(kind, z_x, z_c, WEIGHT, 5) for kind in kinds),
            losses.alignment(z_c, z_x[:, :2], ALIGNED, WEIGHT),
        ]
    )


def moved(place, row, column, by):
    arrays = [Z_X.copy(), Z_C.copy(), LOGITS.copy()]
    arrays[place][row, column] += by
    return arrays


@pytest.fixture(scope="module")
def found():
    """Values, gradients, and values where one number is a little larger and smaller."""
    h = 1e-6
    variants = [moved(*at, by) for at in PLACES for by in (h, -h)]
    stacked = [np.stack(one) for one in zip(*variants, strict=True)]

    def with_gradients(*arrays):
        return all_losses(*arrays), jax.jacrev(all_losses, (0, 1, 2))(*arrays)

    jax.config.update("jax_enable_x64", True)
    try:
        values, gradients = jax.jit(with_gradients)(Z_X, Z_C, LOGITS)
        around = np.asarray(jax.jit(jax.vmap(all_losses))(*stacked))
    finally:
        jax.config.update("jax_enable_x64", False)
    slopes = (around[::2] - around[1::2]) / (2 * h)
    return np.asarray(values), [np.asarray(one) for one in gradients], slopes


@pytest.mark.slow
def test_equal_the_slow_way(found):
    assert found[0] == pytest.approx(slow(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_gradients_are_those_of_differences(found, number):
    _, gradients, slopes = found
    for (place, row, column), slope in zip(PLACES, slopes[:, number], strict=True):
        assert gradients[place][number, row, column] == pytest.approx(slope, rel=1e-4, abs=1e-8)
        if row >= 9:  # fills up the batch
            assert slope == 0.0
    assert np.abs(slopes[:, number]).max() > 1e-3


@pytest.mark.slow
def test_rows_without_label_or_assignments_do_not_count(found):
    _, gradients, slopes = found
    for (_, row, _), slope, other in zip(PLACES, slopes[:, 1], slopes[:, 5], strict=True):
        assert row != 1 or slope == 0.0  # label -1
        assert row not in (1, 3) or other == 0.0  # not aligned
    assert not gradients[2][1, [1, 4]].any()
    assert gradients[2][1, [0, 2, 3]].all()


@pytest.mark.slow
def test_constant_features_are_no_dependence_and_no_nan():
    def of(z_x):
        kinds = ("covariance", "correlation", "histogram")
        return jnp.stack([losses.dependence(kind, z_x, Z_C, WEIGHT, 5) for kind in kinds])

    values, gradients = jax.jit(lambda z: (of(z), jax.jacrev(of)(z)))(np.ones((B, 3), np.float32))
    assert np.asarray(values) == pytest.approx([0.0] * 3, abs=1e-6)
    assert np.isfinite(np.asarray(gradients)).all()


@pytest.mark.slow
def test_soft_bins_find_the_mutual_information_of_normal_variables():
    """It is -log(1 - ρ²) / 2; soft bins are below it, and come nearer as they become more."""
    n, rhos = 20_000, (0.0, 0.6, 0.9)
    x, noise = np.random.default_rng(1).normal(size=(2, n, 1))
    of = jax.jit(partial(losses.histogram, weight=np.ones(n)), static_argnames="n_bins")
    for rho in rhos:
        c = rho * x + math.sqrt(1 - rho**2) * noise
        estimates = [float(of(x, c, n_bins=bins)) for bins in (8, 32)]
        truth = -0.5 * math.log(1 - rho**2)
        assert estimates[0] < estimates[1]
        assert estimates[0] < truth + 0.01
        assert estimates[1] == pytest.approx(truth, rel=0.15, abs=0.03)


def test_no_labelled_row_is_no_loss():
    def of(logits):
        none = losses.cross_entropy(logits, np.full(B, -1), WEIGHT)
        return none + losses.alignment(Z_C, Z_X[:, :2], np.zeros(B), WEIGHT)

    value, gradient = jax.jit(jax.value_and_grad(of))(LOGITS)
    assert float(value) == 0.0
    assert not np.asarray(gradient).any()


@pytest.mark.slow
def test_langevin_steps_sample_from_the_gibbs_distribution():
    """U = w² / 2 s² at temperature α: variance α s² / (1 - η / 2 s²), exactly, for steps η."""
    s2 = np.array([0.5, 2.0, 8.0]).repeat(2000)
    eta, alpha = 0.2, 0.3

    def walk(w, key):
        return sgld(w, w / s2, eta, alpha, jax.random.normal(key, w.shape)), None

    @jax.jit
    def sample():
        return jax.lax.scan(walk, jnp.zeros(s2.size), jax.random.split(jax.random.key(0), 400))[0]

    for variance, part in zip((0.5, 2.0, 8.0), np.asarray(sample()).reshape(3, -1), strict=True):
        wanted = alpha * variance / (1 - eta / (2 * variance))
        assert part.var() == pytest.approx(wanted, rel=0.12)  # four standard errors
        assert abs(part.mean()) < 4 * math.sqrt(wanted / part.size)


def test_adam_is_as_published():
    """Kingma and Ba 2015, Algorithm 1, in a loop of scalars; and the noise of Eq. (7) on top."""
    step = jax.jit(adam)
    w, m, v = 1.0, 0.0, 0.0
    zeros = np.zeros(1, np.float32)
    at, moments = np.ones(1, np.float32), Moments(zeros, zeros, np.int32(0))
    for t, g in enumerate([0.5, -2.0, 0.1], start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w -= 0.01 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        w += math.sqrt(2 * 0.01 * 0.5) * 0.25
        at, moments = step(at, np.full(1, g), moments, 0.01, 0.5, np.full(1, 0.25))
    assert float(at[0]) == pytest.approx(w, rel=1e-5)
    assert int(moments.steps) == 3
