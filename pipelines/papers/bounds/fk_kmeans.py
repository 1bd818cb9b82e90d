"""Federated kernel k-means, Theorems 1 and 3: errors of the estimate and of the clustering.

Notation    paper              here
            ξ_t                Φ_t Φ_tᵀ, Φ_t (N, D) the random features of iteration t
            Z_t                B_t B_tᵀ
            Z_*                of the kernel matrix K with eigenvalues lowered by λ
            C, γ, G, H         measured over a run
            f_K                `loss`
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.kernels.features import Kernel
from daskfc.federation import Federation
from daskfc.protocols import FederatedKernelKMeans
from daskfc.protocols.fk_kmeans.features import FeatureSettings
from daskfc.seeds import generator
from pipelines.papers.journal import Record

__all__ = ["RATES", "Run", "bounds_of", "embedding_of", "loss", "measured", "thresholded"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RATES: dict[str, Callable[[int], float]] = {"2/t": lambda t: 2.0 / t, "1/t": lambda t: 1.0 / t}
DELTA = 0.01  # the probability with which Theorem 1 may fail
N_INIT = 100  # starts of exact kernel k-means


def _inner(A: Floats, B: Floats) -> float:
    """Return <A Aᵀ, B Bᵀ>."""
    return float(np.sum((A.T @ B) ** 2))


def _apart(A: Floats, B: Floats) -> float:
    """Return |A Aᵀ - B Bᵀ|², from products of their columns."""
    return max(_inner(A, A) - 2.0 * _inner(A, B) + _inner(B, B), 0.0)


def thresholded(values: Floats, vectors: Floats, threshold: float) -> Floats:
    """Return B with B Bᵀ = Z_*: eigenvalues lowered by λ, those above it kept."""
    kept = values > threshold
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept] - threshold))


class Run:
    """The iterations by one rule of step sizes, and the constants of Theorem 1.

    Parameters
    ----------
    rate : callable
        From t to η_t.
    threshold : float
        λ.
    optimum : ndarray of shape (N, r)
        B with B Bᵀ = Z_*.
    """

    def __init__(self, rate: Callable[[int], float], threshold: float, optimum: Floats) -> None:
        self._rate = rate
        self._threshold = threshold
        self._optimum = optimum
        self.B = np.empty((len(optimum), 0))
        self.values: Floats = np.empty(0)
        self.t = 0
        self.C2 = self.gamma = self.H = 0.0
        self.error = _inner(optimum, optimum)

    def advance(self, phi: Floats) -> None:
        """Take the step of the next iteration; `error` is |Z_t+1 - Z_*|² then."""
        self.t += 1
        self.C2 = max(self.C2, _apart(self.B, phi))
        eta = self._rate(self.t)
        # the weight of Z_t is -1 for η_1 = 2, but Z_1 = 0
        W = np.hstack([math.sqrt(eta) * phi, math.sqrt(max(1.0 - eta, 0.0)) * self.B])
        values, vectors = np.linalg.eigh(W.T @ W)
        lowered = values - eta * self._threshold
        kept = lowered > 0
        self.values = values[kept][::-1]
        self.B = W @ (vectors[:, kept] * np.sqrt(lowered[kept] / values[kept]))
        self.gamma = max(self.gamma, float(np.sum(self.B**2)))
        self.error = _apart(self.B, self._optimum)
        self.H = max(self.H, math.sqrt(self.error))


def bounds_of(run: Run, G: float, threshold: float) -> tuple[float, float]:
    """Return the bound of Theorem 1 on |Z_T+1 - Z_*|², and (C² + 2 λ γ) / T."""
    tau = math.log(math.ceil(2.0 * math.log2(max(run.t, 2))) / DELTA)
    inside = run.C2 + threshold * run.gamma + 2.0 * G**2 * tau
    inside += (2.0 / 3.0 * tau + 1.0) * G * run.H
    return 4.0 / run.t * inside, (run.C2 + 2.0 * threshold * run.gamma) / run.t


def loss(K: Floats, labels: Ints) -> float:
    """Return f_K: squared distances to the clusters' means in the kernel's feature space.

    Examples
    --------
    >>> loss(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]), np.array([0, 0, 1]))
    0.0
    """
    Y = np.eye(int(labels.max()) + 1)[labels]
    sizes = np.maximum(Y.sum(axis=0), 1.0)
    return float(np.trace(K) - np.sum(np.einsum("ik,ik->k", Y, K @ Y) / sizes))


def embedding_of(values: Floats, vectors: Floats) -> Floats:
    """Return rows whose inner products are the kernel matrix."""
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _federated(
    federation: Federation, T: int, params: dict[str, Any]
) -> tuple[FederatedKernelKMeans, Ints]:
    """Fit; return the model, and labels by the samples' numbers."""
    model = FederatedKernelKMeans(**params, iterations=T, solver="gram", random_state=0)
    model.fit(federation)
    labels = np.empty(model.labels_.size, dtype=np.int64)
    labels[model.labels_.sample_id.values.astype(np.int64)] = model.labels_.values
    return model, labels


def measured(
    federation: Federation,
    X: NDArray[Any],
    params: dict[str, Any],
    shown: Sequence[int],
    fits: Sequence[int],
    **about: Any,
) -> list[Record]:
    """Evaluate both theorems on the samples of a federation, whose ids are row numbers.

    Parameters
    ----------
    federation : Federation
        Whose clients hold X.
    X : ndarray of shape (N, d)
        All samples.
    params : dict
        k, D and s of `FederatedKernelKMeans`.
    shown : sequence of int
        Ascending T of Theorem 1.
    fits : sequence of int
        T of fits, for Theorem 3; the first is compared with the iterations here.
    **about
        For the records.
    """
    models = [_federated(federation, T, params) for T in fits]
    width, k, s = models[0][0].kernel_width_, params["n_clusters"], params["n_eigenvectors"]
    rows = np.asarray(X, dtype=np.float64)
    K = Kernel("gaussian", width).values(rows, rows)
    values, vectors = np.linalg.eigh(K)
    draws = FeatureSettings("gaussian", 3, params["n_features"], 0)
    whole, G, runs = float(np.sum(K**2)), 0.0, dict[str, Run]()
    threshold, found = 0.0, list[Record]()
    about = {**about, "n": len(X), "D": params["n_features"]}
    for t in range(1, shown[-1] + 1):
        phi = draws.drawn(width, t, X.shape[1]).of(rows)
        if not runs:
            threshold = float(np.linalg.eigvalsh(phi.T @ phi)[::-1][k + 1])
            optimum = thresholded(values, vectors, threshold)
            runs = {name: Run(rate, threshold, optimum) for name, rate in RATES.items()}
        G = max(G, math.sqrt(_inner(phi, phi) - 2.0 * float(np.sum(phi * (K @ phi))) + whole))
        for name, run in runs.items():
            run.advance(phi)
            if t in shown:
                bound, mean = bounds_of(run, G, threshold)
                record = {"kind": "fk 1", **about, "rate": name, "T": t, "value": run.error}
                record |= {"bound": bound, "mean": mean, "start": _inner(optimum, optimum)}
                record |= {"C2": run.C2, "gamma": run.gamma, "G": G, "H": run.H}
                found.append({**record, "threshold": threshold})
        if t == fits[0]:
            seen = models[0][0].history_[-1].values
            own = runs["1/t"].values[: len(seen)]
            apart = float(np.abs(own - seen[: len(own)]).max()) / float(seen[0])
            found.append({"kind": "fk run", **about, "T": t, "apart": apart})
    exact = best_partition(
        embedding_of(values, vectors), k, 0, n_init=N_INIT, max_iter=300, owner="bounds"
    ).labels
    random = generator(0, "bounds", "labels").integers(0, k, len(X))
    losses = {T: loss(K, labels) for T, (_, labels) in zip(fits, models, strict=True)}
    best = min(loss(K, exact.astype(np.int64)), *losses.values())
    for T, value in losses.items():
        record = {"kind": "fk 3", **about, "T": T, "k": k, "s": s, "value": value / best}
        record |= {"random": loss(K, random) / best, "one": loss(K, random * 0) / best}
        found.append({**record, "bound": 1.0 + k / s})
    return found
