"""Kernels against their definitions, and random features against the kernels."""

import math

import numpy as np
import pytest

from daskfc.clustering.kernels.features import KERNELS, Kernel
from daskfc.errors import InvalidInput

X = np.random.default_rng(0).normal(size=(7, 3))
Y = np.random.default_rng(1).normal(size=(5, 3))


def one_value(kernel, x, y):
    if kernel.kind == "gaussian":
        return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / 2 / kernel.width**2)
    if kernel.kind == "laplacian":
        return math.exp(-sum(abs(a - b) for a, b in zip(x, y, strict=True)) / kernel.width)
    return (sum(a * b for a, b in zip(x, y, strict=True)) / kernel.width**2 + 1) ** kernel.degree


@pytest.mark.parametrize("kind", KERNELS)
def test_values_are_the_definition(kind):
    kernel = Kernel(kind, 1.7, degree=2)
    want = [[one_value(kernel, x, y) for y in Y] for x in X]
    np.testing.assert_allclose(kernel.values(X, Y), want, rtol=1e-12)


@pytest.mark.parametrize("kind", KERNELS)
def test_inner_products_are_the_kernel_on_average(kind):
    """Of 400 draws of 64 features the mean is off by a few standard errors at most."""
    kernel = Kernel(kind, 2.0, degree=2)
    draws = []
    for seed in range(400):
        phi = kernel.features(64, seed, 3).of(X)
        draws.append(phi @ phi.T)
    error = np.std(draws, axis=0) / math.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - kernel.values(X, X)) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("kind", KERNELS)
def test_a_draw_depends_on_its_seed_alone(kind):
    kernel = Kernel(kind, 1.0)
    once, again = (kernel.features(16, 3, 3).of(X) for _ in range(2))
    assert np.array_equal(once, again)
    np.testing.assert_allclose(kernel.features(16, 3, 3).of(X[2:4]), once[2:4], rtol=1e-12)
    assert not np.allclose(kernel.features(16, 4, 3).of(X), once)


def test_norms_of_fourier_features_are_bounded():
    """That bound is the sensitivity of noise on their sums."""
    for kind in ("gaussian", "laplacian"):
        drawn = Kernel(kind, 0.1).features(3, 0, 3)
        far = drawn.of(1e3 * np.random.default_rng(2).normal(size=(2000, 3)))
        assert np.linalg.norm(far, axis=1).max() <= drawn.largest_norm == math.sqrt(2)
    assert Kernel("polynomial", 0.1).features(3, 0, 3).largest_norm == math.inf


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cosine", 1.0), "'kind' parameter of a kernel must be"),
        (("gaussian", 0.0), "'width' parameter of a kernel must be"),
        (("polynomial", 1.0, 0), "'degree' parameter of a kernel must be"),
    ],
)
def test_parameters_outside_their_range_are_refused(arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Kernel(*arguments)


@pytest.mark.parametrize("kind", ["gaussian", "laplacian"])
def test_slopes_are_finite_differences(kind):
    drawn = Kernel(kind, 2.0).features(6, 0, 3)
    phi, slope = drawn.with_slope(X[0])
    np.testing.assert_allclose(phi, drawn.of(X[:1])[0], rtol=1e-12)
    step = 1e-6
    for i in range(3):
        moved = X[:1] + step * np.eye(3)[i]
        back = X[:1] - step * np.eye(3)[i]
        difference = (drawn.of(moved) - drawn.of(back))[0] / (2 * step)
        np.testing.assert_allclose(slope[i], difference, rtol=1e-5, atol=1e-6)
