"""Reduced k-means: clusters, and the few directions in which their means lie, found together.

Papers      G. De Soete, J. D. Carroll, "K-means clustering in a low-dimensional Euclidean space",
            1994; as GCC's clustering of graph-convolved features: C. Fettal, L. Labiod, M. Nadif,
            WSDM 2022.
Notation    GCC   here          shape, range
            X     X             (n, d)
            f     n_components  int >= 1, k by default
            W     W             (d, f), orthonormal columns
            F     F             (k, f), means of the embedding X W
            G     labels        (n,) int64 in [0, k)
Objective   ‖X - G F Wᵀ‖ over W, F and G in turn, from principal components and k-means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, boolean, integer, optional
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    in_order_of_appearance,
)
from daskfc.clustering.clusterers.kmeans import best_partition, nearest_centre
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.errors import InvalidInput

_TOLERANCE = 1e-7  # ours, of ‖X‖: alternation ends when the objective falls by less
_MOST = 100  # ours: alternations


@dataclass(frozen=True)
class Reduced:
    """Labels (n,), directions W (d, f), means F (k, f), and whether the alternation ended."""

    labels: Ints
    W: Floats
    F: Floats
    converged: bool


def reduced(
    X: Floats, labels: Ints, embedded: Floats, k: int, *, max_iter: int, tolerance: float
) -> Reduced:
    """Minimise ‖X - G F Wᵀ‖ from labels and an embedding (n, f), to changes below `tolerance`."""
    F = _means(embedded, labels, np.zeros((k, embedded.shape[1])))
    W = np.zeros((X.shape[1], embedded.shape[1]))
    squared = float(np.vdot(X, X))
    before, converged = np.inf, False
    for _ in range(max_iter):
        left, _, right = np.linalg.svd(X.T @ F[labels], full_matrices=False)
        W = left @ right  # orthogonal Procrustes
        embedded = X @ W
        labels = nearest_centre(embedded, F)
        F = _means(embedded, labels, F)
        fitted = F[labels]
        # W has orthonormal columns: ‖G F Wᵀ‖ = ‖G F‖ and <X, G F Wᵀ> = <X W, G F>.
        loss = squared - 2.0 * float(np.vdot(embedded, fitted)) + float(np.vdot(fitted, fitted))
        now = np.sqrt(max(loss, 0.0))
        if before - now < tolerance:
            converged = True
            break
        before = now
    return Reduced(labels, W, F, converged)


def _means(rows: Floats, labels: Ints, otherwise: Floats) -> Floats:
    """Return the means of clusters; an empty one keeps its own."""
    counts = np.bincount(labels, minlength=len(otherwise))
    sums = np.eye(len(otherwise))[labels].T @ rows
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], otherwise)


@dataclass(frozen=True)
class ReducedKMeans(Clusterer):
    """k-means in the few directions that suit the clusters best, found with them.

    For many features of which few directions tell the clusters, such as words that were averaged
    over a graph (``smooth`` of `daskfc.Prepare`); features of mere noise need small variance.

    Parameters
    ----------
    n_components : int, optional
        Number of directions, as many as clusters by default; at most as samples and features.
    n_init : int, default 10
        Starts of k-means on principal components; the best one is where the search begins.
    centred : bool, default True
        Whether samples are seen from their mean, and not from the origin as in GCC [2]_. Distances
        do not tell where the origin is: without centring OmniFC takes clients that hold columns,
        and its server learns the length of every sample over all of them, which places the origin.

    Notes
    -----
    The alternation of GCC, a local search as k-means is. A new sample's part off the span of the
    fit's samples is not seen.

    References
    ----------
    .. [1] G. De Soete, J. D. Carroll, "K-means clustering in a low-dimensional Euclidean space",
       in New Approaches in Classification and Data Analysis, 1994.
    .. [2] C. Fettal, L. Labiod, M. Nadif, "Efficient graph convolution for joint node
       representation learning and clustering", WSDM 2022.

    Examples
    --------
    >>> from daskfc.clustering import ReducedKMeans
    >>> from daskfc.clustering.views.views import RowFactors
    >>> view = RowFactors(np.array([[0.0, 1.0], [0.5, 0.0], [9.0, 1.0], [9.5, 0.0]]))
    >>> ReducedKMeans(n_components=1).fit(view, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    n_components: int | None = None
    n_init: int = 10
    centred: bool = True

    name: ClassVar[str] = "reduced-k-means"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_components": optional(integer(1)),
        "n_init": integer(1),
        "centred": boolean(),
    }
    accepts = (FullDistances, RowFactors)

    @property
    def from_origin(self) -> bool:
        """Whether samples are not centred; see `Clusterer.from_origin`."""
        return not self.centred

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        if self.from_origin and not (isinstance(view, RowFactors) and view.from_origin):
            raise InvalidInput(
                f"{self.name} without centring needs samples whose distances to the origin are "
                "known; these have distances to each other alone. Give centred=True."
            )
        points = view.coordinates()
        found, clustering = self._found(points, k, seed)
        # x W Fᵀ of a new sample x, from squared distances to all samples: with the mean m and
        # centred X it is (x - m) Xᵀ B + m W Fᵀ for Xᵀ B = W Fᵀ
        mean = points.mean(axis=0)
        X = points - mean
        B = X @ np.linalg.pinv(X.T @ X, hermitian=True) @ (found.W @ found.F.T)
        lengths = np.einsum("ij,ij->i", X, X)
        offsets = np.einsum("ij,ij->i", found.F, found.F)
        if self.from_origin:
            offsets -= 2.0 * (mean @ found.W) @ found.F.T
        offsets[np.bincount(found.labels, minlength=k) == 0] = np.inf  # of empty clusters
        model = {"weights": B, "lengths": lengths, "offsets": offsets}
        return Clustering(clustering.labels, k, model, found.converged, None, clustering.notes)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._found(X, k, seed)[1]

    def _found(self, points: Floats, k: int, seed: int) -> tuple[Reduced, Clustering]:
        centred = points - points.mean(axis=0)
        X = centred if self.centred else points
        f = min(self.n_components or k, *X.shape)
        components = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :f]
        embedded = X @ components
        start = best_partition(embedded, k, seed, n_init=self.n_init, max_iter=300, owner=self.name)
        tolerance = _TOLERANCE * float(np.linalg.norm(X))
        found = reduced(X, start.labels, embedded, k, max_iter=_MOST, tolerance=tolerance)
        names = in_order_of_appearance(found.labels, k)
        labels, order = names[found.labels], np.argsort(names)
        named = Reduced(labels, found.W, found.F[order], found.converged)
        return named, Clustering(labels, k, {}, found.converged, None, start.notes)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        model = clustering.model
        lengths = model["lengths"]
        own = D.mean(axis=1, keepdims=True) - lengths.mean()  # |x|² of new samples
        products = -0.5 * (D - lengths - own) @ model["weights"]
        return np.asarray((model["offsets"] - 2.0 * products).argmin(axis=1))
