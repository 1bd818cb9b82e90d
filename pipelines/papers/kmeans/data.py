"""Rows for federated k-means: sets of scikit-learn's, and generated ones of any size."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_moons,
)
from sklearn.preprocessing import StandardScaler

from daskfc.seeds import generator

__all__ = ["MANY", "SETS", "Rows"]

K = 10


class Rows(NamedTuple):
    """Rows (n, d), the number of clusters looked for, and a norm that most do not exceed."""

    X: np.ndarray
    k: int
    largest_norm: float = 0.0


def unequal(n: int, d: int) -> np.ndarray:
    """Return ten clouds of unequal sizes and widths that overlap."""
    random = generator(0, "unequal clouds", d)
    places = 3.0 * random.normal(size=(K, d))
    kinds = random.choice(K, n, p=np.arange(1, K + 1) / (K * (K + 1) / 2))
    widths = random.uniform(0.5, 1.5, K)
    return np.asarray(places[kinds] + random.normal(size=(n, d)) * widths[kinds, None])


def tails(n: int, d: int) -> np.ndarray:
    """Return ten clouds with far outliers: Student's t of three degrees of freedom."""
    random = generator(0, "clouds with tails", d)
    places = 6.0 * random.normal(size=(K, d)) / np.sqrt(d) * 2.0
    return np.asarray(places[random.integers(0, K, n)] + random.standard_t(3, size=(n, d)))


def cube(n: int, d: int) -> np.ndarray:
    """Return rows without clusters: uniform in a cube about the origin."""
    return np.asarray(generator(0, "cube", d).uniform(-0.5, 0.5, size=(n, d)))


def scaled(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1."""
    return np.asarray(StandardScaler().fit_transform(X))


SETS: dict[str, Callable[[], Rows]] = {
    "iris": lambda: Rows(load_iris().data, 3),
    "wine, standardised": lambda: Rows(scaled(load_wine().data), 3),
    "breast cancer, standardised": lambda: Rows(scaled(load_breast_cancer().data), 2),
    "digits": lambda: Rows(load_digits().data, K),
    "blobs": lambda: Rows(make_blobs(5000, 4, centers=6, random_state=0)[0], 6),
    "moons": lambda: Rows(make_moons(5000, noise=0.1, random_state=0)[0], 6),
    "cube, d = 3": lambda: Rows(cube(10_000, 3), 8),
    "unequal clouds, d = 2": lambda: Rows(unequal(20_000, 2), K),
    "unequal clouds, d = 8": lambda: Rows(unequal(20_000, 8), K),
    "unequal clouds, d = 32": lambda: Rows(unequal(20_000, 32), K),
    "clouds with tails, d = 8": lambda: Rows(tails(20_000, 8), K),
    "cube, d = 8": lambda: Rows(cube(20_000, 8), K),
}
"""Sets for fits without noise."""

MANY: dict[str, Callable[[int], Rows]] = {
    "unequal clouds, d = 2": lambda n: Rows(unequal(n, 2), K, 10.0),
    "unequal clouds, d = 8": lambda n: Rows(unequal(n, 8), K, 15.0),
    "unequal clouds, d = 16": lambda n: Rows(unequal(n, 16), K, 20.0),
    "unequal clouds, d = 32": lambda n: Rows(unequal(n, 32), K, 25.0),
    "clouds with tails, d = 8": lambda n: Rows(tails(n, 8), K, 25.0),
    "clouds with tails, d = 32": lambda n: Rows(tails(n, 32), K, 30.0),
    "cube, d = 3": lambda n: Rows(cube(n, 3), K, 0.9),
    "cube, d = 8": lambda n: Rows(cube(n, 8), K, 1.5),
}
"""Sets of any number of rows, for fits with noise."""
