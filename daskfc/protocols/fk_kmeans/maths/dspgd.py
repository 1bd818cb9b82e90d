"""Distributed stochastic proximal gradient descent on the kernel matrix, in factors (Section 4).

Notation    paper              here
            t, η_t             number, ``learning_rate(number)``
            λ                  threshold
            (λ_i,t , V_i,t)    values, vectors of an `Iteration`
            W_t[m]             ``weighted(phi, B, number)``; phi is A_t[m] / √D
            B_t+1[m]           W_t[m] ``to_basis``
            H[m]               W_T[m] ``to_embedding``
Departures  η_t = 1/t, as in Algorithm 1; Theorem 1's 2/t would make 1 - η_1 negative. H has the
            root missing in the printed formula: √(λ_i + (1 - η) λ), as in K̂ of Section 6.2.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daskfc.arrays import Floats


def learning_rate(number: int) -> float:
    """Return η_t = 1/t (Algorithm 1, line 5)."""
    return 1.0 / number


def weighted(phi: Floats, B: Floats, number: int) -> Floats:
    """Return rows (n, D + r) of W_t = [√(η/D) A_t, √(1 - η) B_t] (Algorithm 1, line 8)."""
    eta = learning_rate(number)
    return np.hstack([math.sqrt(eta) * phi, math.sqrt(1.0 - eta) * B])


def n_kept(values: Floats, threshold: float, number: int, n_eigenvectors: int) -> int:
    """Return the number of revealed eigenpairs: all above η λ, at least s, only positive ones."""
    above = int(np.count_nonzero(values > learning_rate(number) * threshold))
    return min(max(above, n_eigenvectors), int(np.count_nonzero(values > 0)))


@dataclass(frozen=True)
class Iteration:
    """The eigenpairs, values (r,) and vectors (m, r), that end iteration t, and their maps."""

    values: Floats
    vectors: Floats
    threshold: float
    number: int

    def to_basis(self) -> Floats:
        """Return C with B_t+1 = W_t C: V_i √((λ_i - η λ) / λ_i) for λ_i > η λ (line 13)."""
        lowered = self.values - learning_rate(self.number) * self.threshold
        above = lowered > 0
        scale = np.sqrt(lowered[above] / self.values[above])
        return np.asarray(self.vectors[:, above] * scale)

    def whole_basis(self) -> Floats:
        """Return B_t+1 where V are eigenvectors of R_t itself: V_i √(λ_i - η λ) (Section 4.1)."""
        lowered = self.values - learning_rate(self.number) * self.threshold
        above = lowered > 0
        return np.asarray(self.vectors[:, above] * np.sqrt(lowered[above]))

    def to_embedding(self, n_eigenvectors: int) -> Floats:
        """Return E with H = W_T E: V_i √((λ_i + (1 - η) λ) / λ_i) for i ≤ s (line 17)."""
        values = self.values[:n_eigenvectors]
        raised = values + (1.0 - learning_rate(self.number)) * self.threshold
        return np.asarray(self.vectors[:, :n_eigenvectors] * np.sqrt(raised / values))


def relative_change(before: Iteration | None, found: Iteration) -> float:
    """Return |Z_t+1 - Z_t| / |Z_t+1| in Frobenius norm from eigenpairs; infinite where Z_t+1 is 0.

    Before t = 1 (None), Z_1 = 0. <Z_t, Z_t+1> = |B_tᵀ B_t+1|²: as √(1 - η) B_t are the last columns
    of W_t, B_tᵀ B_t+1 are the last rows of WᵀW C / √(1 - η), where WᵀW V = V Λ.
    """
    eta = learning_rate(found.number)
    lowered = np.maximum(found.values - eta * found.threshold, 0.0)
    after = float(np.sum(lowered**2))
    if after == 0.0:
        return math.inf
    if before is None:
        return 1.0
    kept = before.values - learning_rate(before.number) * before.threshold
    n_columns = int(np.count_nonzero(kept > 0))
    last = found.vectors[len(found.vectors) - n_columns :]
    overlap = float(np.sum((last * np.sqrt(found.values * lowered)) ** 2)) / (1.0 - eta)
    own = float(np.sum(np.maximum(kept, 0.0) ** 2))
    return math.sqrt(max(after - 2.0 * overlap + own, 0.0) / after)


def change_of_whole(before: Iteration | None, found: Iteration) -> float:
    """Return the `relative_change` where V are eigenvectors of R_t itself."""
    after = found.whole_basis()
    if before is None or not after.size:
        return 1.0 if after.size else math.inf
    own = before.whole_basis()
    squares = [float(np.sum((X.T @ Y) ** 2)) for X, Y in ((after, after), (after, own), (own, own))]
    return math.sqrt(max(squares[0] - 2.0 * squares[1] + squares[2], 0.0) / squares[0])


def embed(phis: Sequence[Floats], past: Sequence[Iteration]) -> Floats:
    """Return rows (n, r) of B_t+1 from the random features (n, D) of iterations 1 to t."""
    B = np.empty((len(phis[0]) if phis else 0, 0))
    for phi, found in zip(phis, past, strict=True):
        B = weighted(phi, B, found.number) @ found.to_basis()
    return B


def feature_weights(past: Sequence[Iteration], n_features: int, n_eigenvectors: int) -> Floats:
    """Return G (T, D, s) with h(x) = Σ_t φ_t(x) G_t for every sample x, clustered or new."""
    after = past[-1].to_embedding(n_eigenvectors)
    weights = []
    for found in reversed(past):
        if found is not past[-1]:
            after = found.to_basis() @ after
        eta = learning_rate(found.number)
        weights.append(math.sqrt(eta) * after[:n_features])
        after = math.sqrt(1.0 - eta) * after[n_features:]
    return np.array(weights[::-1])
