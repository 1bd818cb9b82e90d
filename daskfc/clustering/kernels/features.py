"""Kernels, and random features with inner products that estimate them without bias.

Paper       A. Rahimi, B. Recht, "Random features for large-scale kernel machines", 2008, for the
            Gaussian and the Laplacian kernel; N. Pham, R. Pagh, "Fast and scalable polynomial
            kernels via explicit feature maps", 2013 (TensorSketch), for the polynomial one.
Notation    paper              here
            A / √D             `RandomFeatures.of`: rows φ(x) with E φ(x)·φ(y) = κ(x, y)
            ω, b               frequencies (d, D), phases (D,)
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.kernel_approximation import PolynomialCountSketch

from daskfc.arrays import Floats
from daskfc.checks import Constraint, check_params, integer, one_of, real
from daskfc.clustering.kernels.kernels import gaussian_kernel, real_matrix, same_features
from daskfc.seeds import generator, integer_seed

KERNELS = ("gaussian", "laplacian", "polynomial")

_RULES: dict[str, Constraint] = {
    "kind": one_of(*KERNELS),
    "width": real(above=0),
    "degree": integer(low=1),
}


@dataclass(frozen=True)
class Kernel:
    """The kernel exp(-|x - y|² / 2r²), exp(-|x - y|₁ / r) or (x·y / r² + 1)^p, r being `width`."""

    kind: str
    width: float
    degree: int = 3

    def __post_init__(self) -> None:
        given = {"kind": self.kind, "width": self.width, "degree": self.degree}
        check_params("a kernel", given, _RULES)

    @property
    def is_stationary(self) -> bool:
        """Whether it depends only on x - y, so that κ(x, x) = 1."""
        return self.kind != "polynomial"

    def values(self, X: ArrayLike, Y: ArrayLike) -> Floats:
        """Return κ(x, y), exactly, (n, m), for samples X (n, d) and Y (m, d)."""
        if self.kind == "gaussian":
            return gaussian_kernel(X, Y, self.width)
        X, Y = same_features(X, Y)
        if self.kind == "laplacian":
            return np.exp(cdist(X, Y, "cityblock") / -self.width)
        return np.asarray((X @ Y.T / self.width**2 + 1.0) ** self.degree)

    def features(self, n_features: int, seed: int, n_columns: int) -> "RandomFeatures":
        """Draw D = `n_features` random features of samples with d = `n_columns` by a seed."""
        return RandomFeatures(self, n_features, seed, n_columns)


@dataclass(frozen=True)
class RandomFeatures:
    """One draw of D = `n_features` random features of samples with `n_columns`; public seed."""

    kernel: Kernel
    n_features: int
    seed: int
    n_columns: int
    _frequencies: Floats = field(init=False, repr=False, compare=False)
    _phases: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        random = generator(self.seed, "random features", self.kernel.kind)
        shape = (self.n_columns, self.n_features)
        if self.kernel.kind == "gaussian":
            frequencies = random.standard_normal(shape)
        else:  # Laplacian: the Fourier transform of exp(-|t|); a sketch does not use them
            frequencies = random.standard_cauchy(shape)
        object.__setattr__(self, "_frequencies", frequencies / self.kernel.width)
        object.__setattr__(self, "_phases", random.uniform(0.0, 2.0 * np.pi, self.n_features))

    @property
    def largest_norm(self) -> float:
        """Bound on the Euclidean norm of every row: √2, or infinite for a polynomial kernel."""
        return math.sqrt(2.0) if self.kernel.is_stationary else math.inf

    def of(self, X: ArrayLike) -> Floats:
        """Return the features φ(x) of samples, (n, D), the paper's a(x) / √D."""
        rows = real_matrix(X, "X")
        if not self.kernel.is_stationary:
            return self._sketched(rows)
        phi = rows @ self._frequencies
        phi += self._phases
        np.cos(phi, out=phi)
        phi *= math.sqrt(2.0 / self.n_features)
        return phi

    def with_slope(self, x: ArrayLike) -> tuple[Floats, Floats]:
        """Return φ(x), (D,), and ∂φ_j / ∂x_i, (d, D), of one sample, for Fourier features."""
        angle = np.asarray(x, dtype=np.float64) @ self._frequencies + self._phases
        scale = math.sqrt(2.0 / self.n_features)
        return scale * np.cos(angle), -scale * np.sin(angle) * self._frequencies

    def _sketched(self, rows: Floats) -> Floats:
        sketch = PolynomialCountSketch(
            degree=self.kernel.degree,
            gamma=self.kernel.width**-2,
            coef0=1.0,
            n_components=self.n_features,
            random_state=integer_seed(self.seed, "random features", "polynomial"),
        )
        sketch.fit(np.zeros((1, self.n_columns)))
        return np.asarray(sketch.transform(rows), dtype=np.float64)
