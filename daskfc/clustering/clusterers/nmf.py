"""Non-negative matrix factorisation of the distance matrix, D ≈ W H, in the Frobenius norm."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls
from sklearn.decomposition import non_negative_factorization
from sklearn.exceptions import ConvergenceWarning

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of, real
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    Needs,
    in_order_of_appearance,
    noting_convergence,
)
from daskfc.clustering.clusterers.kmeans import best_partition, nearest_centre, needs_rows
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.linalg.spectrum import largest_eigenpairs
from daskfc.seeds import generator, integer_seed

Symmetric = FullDistances | RowFactors


def random_start(view: Symmetric, k: int, seed: int) -> tuple[Floats, Floats]:
    """Return W, Ht, (n, k), absolute normal numbers, scaled so that W H has about D's mean."""
    size = np.sqrt(_mean(view) / k)
    random = generator(seed, "nmf start")
    W, Ht = (size * np.abs(random.standard_normal((view.n, k))) for _ in range(2))
    return W, Ht


def _mean(view: Symmetric) -> float:
    return float(view.dot(np.ones((view.n, 1))).mean()) / view.n


def spectral_start(view: Symmetric, k: int, seed: int) -> tuple[Floats, Floats]:
    """Return W, Ht, (n, k), of NNDSVDa (Boutsidis & Gallopoulos 2008): zeros become D's mean."""
    lam, vectors = largest_eigenpairs(view.dot, view.n, k, seed, by_size=True)
    W, Ht = np.zeros((view.n, k)), np.zeros((view.n, k))
    W[:, 0] = Ht[:, 0] = np.sqrt(abs(lam[0])) * np.abs(vectors[:, 0])
    for j in range(1, k):
        x = vectors[:, j]
        y = x if lam[j] >= 0 else -x  # the right singular vector
        positive = np.linalg.norm(np.maximum(x, 0)), np.linalg.norm(np.maximum(y, 0))
        negative = np.linalg.norm(np.minimum(x, 0)), np.linalg.norm(np.minimum(y, 0))
        sign, norms = (1, positive) if np.prod(positive) > np.prod(negative) else (-1, negative)
        size = np.sqrt(abs(lam[j]) * np.prod(norms))
        if size > 0:
            W[:, j] = size * np.maximum(sign * x, 0) / norms[0]
            Ht[:, j] = size * np.maximum(sign * y, 0) / norms[1]
    mean = _mean(view)
    for factor in (W, Ht):
        factor[factor < 1e-6] = mean  # the threshold of scikit-learn
    return W, Ht


def descend(W: Floats, gram: Floats, product: Floats, sweeps: int = 1) -> float:
    """Improve W (n, k) for D ≈ W H in place; return the size of the first projected gradient."""
    violation = 0.0
    for sweep in range(sweeps):
        for t in range(W.shape[1]):
            gradient = W @ gram[t] - product[:, t]
            if sweep == 0:
                open_ = np.where(W[:, t] == 0, np.minimum(gradient, 0), gradient)
                violation += float(np.abs(open_).sum())
            if gram[t, t] != 0:
                np.maximum(W[:, t] - gradient / gram[t, t], 0, out=W[:, t])
    return violation


def factorise(
    view: Symmetric, W: Floats, Ht: Floats, *, tol: float, max_iter: int, sweeps: int = 1
) -> tuple[Floats, Floats, bool]:
    """Alternate coordinate descent of W and Ht (n, k) until the projected gradient falls to `tol`.

    `tol` is relative to the first pass. Only D Hᵀ and D W are needed, so thin factors give the same
    iterates. One sweep per product equals scikit-learn's ``solver="cd"``; 2 to 5 about halve the
    passes (Gillis & Glineur 2012). The last result is whether it converged.
    """
    W, Ht = W.copy(), Ht.copy()
    limit = 0.0
    for number in range(max_iter):
        at_w = view.dot(Ht)
        violation = descend(W, Ht.T @ Ht, at_w, sweeps)
        at_h = view.dot(W)
        violation += descend(Ht, W.T @ W, at_h, sweeps)
        rounding = 1e-13 * float(at_w.sum() + at_h.sum())  # ours: of the gradients' two terms
        limit = tol * violation if number == 0 else limit
        if violation <= max(limit, rounding):
            return W, Ht, True
    return W, Ht, False


def _weights(product: Callable[[Floats], Floats], Ht: Floats) -> Floats:
    """Return the non-negative least-squares weights on H of rows of distances, from products."""
    Q, R = np.linalg.qr(Ht)  # |d - H'w|² = |Q'd - Rw|² + constant
    weights: Floats = np.array([nnls(R, row)[0] for row in product(Q)])
    return weights.reshape(-1, Ht.shape[1])


@dataclass(frozen=True)
class NMF(Clusterer):
    """Non-negative matrix factorisation of the squared-distance matrix, and clusters of weights.

    Parameters
    ----------
    assignment : {"k-means", "argmax"}, default "k-means"
        How labels follow from W: by k-means on its rows, or as a sample's largest weight.
    init : {"random", "nndsvda"}, default "random"
        Start of the factors.
    max_iter : int, default 1000
        Passes of coordinate descent.
    tol : float, default 1e-3
        Stop when the projected gradient has fallen to this share of the first pass.
    n_init : int, default 10
        k-means runs on the rows of W.

    Notes
    -----
    The paper does not say how weights become clusters, nor how negative features are treated.
    Distances are large almost everywhere, so that the largest weight means little: on the 1,797
    digits of scikit-learn kappa is 0.66 by "k-means" and 0.30 by "argmax"; with the start
    "nndsvda" it is 0.29. The weights of an old or new sample are the non-negative least-squares
    solution for its distances on H.

    `pooled` factorises the samples by scikit-learn's NMF, after a feature with negative values is
    shifted by its minimum; with more clusters than features its start is random.

    Examples
    --------
    >>> from daskfc.clustering import NMF
    >>> from daskfc.clustering.views.views import RowFactors
    >>> view = RowFactors(np.array([[0.0], [0.5], [9.0], [9.5]]))
    >>> NMF().fit(view, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    assignment: str = "k-means"
    init: str = "random"
    max_iter: int = 1000
    tol: float = 1e-3
    n_init: int = 10

    name: ClassVar[str] = "nmf"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "assignment": one_of("k-means", "argmax"),
        "init": one_of("random", "nndsvda"),
        "max_iter": integer(1),
        "tol": real(above=0),
        "n_init": integer(1),
    }
    accepts = (FullDistances, RowFactors)

    def needs(self, n: int, d: int) -> Needs:
        """Return "full" for few samples, "rows" for many; see `Clusterer.needs`."""
        return needs_rows(n, d)

    def _fit(self, view: Symmetric, k: int, seed: int) -> Clustering:
        start = (random_start if self.init == "random" else spectral_start)(view, k, seed)
        _, Ht, converged = factorise(view, *start, tol=self.tol, max_iter=self.max_iter, sweeps=3)
        W = _weights(view.dot, Ht)  # the optimum for this H, as for new samples
        clustering, order = self._assign(W, k, seed, converged)
        clustering.model["basis"] = np.ascontiguousarray(Ht.T[order])
        if self.assignment == "k-means":
            members = np.eye(k)[clustering.labels]
            live = members.any(axis=0)
            centres = np.full((k, k), np.inf)  # of clusters, in weights
            centres[live] = members.T[live] @ W / members.sum(axis=0)[live, None]
            clustering.model["centres"] = centres
        return clustering

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        shifted = X - np.minimum(X.min(axis=0), 0.0)
        with noting_convergence() as texts:
            W, _, _ = non_negative_factorization(
                shifted,
                n_components=k,
                init=self.init if k <= min(X.shape) else "random",
                tol=self.tol,
                max_iter=self.max_iter,
                random_state=integer_seed(seed, self.name),
            )
        return self._assign(W, k, seed, not texts)[0]

    def _assign(self, W: Floats, k: int, seed: int, converged: bool) -> tuple[Clustering, Ints]:
        """Return the clustering, and the order of the components by its labels."""
        notes: tuple[str, ...] = ()
        if not converged:
            notes = (
                f"{self.name} stopped after {self.max_iter} passes before its projected gradient "
                f"fell to {self.tol:g} of the first; raise max_iter or tol.",
            )
            warnings.warn(notes[0], ConvergenceWarning, stacklevel=5)
        if self.assignment == "k-means":
            found = best_partition(W, k, seed, n_init=self.n_init, max_iter=300, owner=self.name)
            result = Clustering(found.labels, k, {}, converged, None, notes + found.notes)
            return result, np.arange(k)
        number = in_order_of_appearance(W.argmax(axis=1), k)
        result = Clustering(number[W.argmax(axis=1)], k, {}, converged, None, notes)
        return result, np.argsort(number)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        weights = _weights(lambda Q: np.asarray(D @ Q), clustering.model["basis"].T)
        if self.assignment == "argmax":
            return np.asarray(weights.argmax(axis=1))
        centres = clustering.model["centres"]
        live = np.flatnonzero(np.isfinite(centres[:, 0]))  # empty clusters have no centre
        return live[nearest_centre(weights, centres[live])]
