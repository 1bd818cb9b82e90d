"""Spectral clustering of millions of samples by their nearest landmarks.

Paper       D. Huang, C.-D. Wang, J.-S. Wu, J.-H. Lai, C.-K. Kwoh, "Ultra-scalable spectral
            clustering and ensemble clustering", IEEE TKDE 32 (6), 2020: U-SPEC.
Notation    here            paper
            p, K            n_landmarks representatives, n_neighbors nearest ones of a sample
            B               (n, p), Gaussian affinities of samples to their K nearest landmarks
            T, s            D_X^(-1) B with rows that sum to 1, and the sums of B's rows
            E, V            E_R = Bᵀ D_X^(-1) B between landmarks, and its Laplacian's eigenvectors
Departures  Nearest landmarks are exact, not approximate. The embedding's rows have norm 1, as in
            the authors' program, of which the paper says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans as LibraryKMeans
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats
from daskfc.checks import Constraint, integer
from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering, noting_convergence
from daskfc.clustering.clusterers.kmeans import best_partition, nearest_centre
from daskfc.clustering.views.views import RowFactors
from daskfc.errors import InvalidInput
from daskfc.linalg.laplacian import NormalisedAdjacency, components_of
from daskfc.linalg.spectrum import laplacian_embedding
from daskfc.seeds import generator, integer_seed

Ints = NDArray[Any]

_CANDIDATES = 10  # samples a landmark, as in the paper
_MOVES = 20  # ours: iterations of k-means among candidates, whose ends change little
_ENTRIES = 1 << 22  # ours: distances to landmarks at a time, 32 MiB
_PANELS = 200_000_000  # bytes: a few copies of these, and of the landmarks' own matrices


@dataclass(frozen=True)
class LandmarkSpectral(Clusterer):
    """Spectral clustering on the graph of samples and landmarks, in time linear in the samples.

    Parameters
    ----------
    n_landmarks : int, default 1000
        Landmarks, means of samples that are drawn; at most half as many as there are samples.
    n_neighbors : int, default 5
        Nearest landmarks of a sample, its neighbours in the graph.
    n_init : int, default 10
        k-means runs on the embedding.

    Notes
    -----
    An approximation of `Spectral` for many samples: one pass over them, not over their pairs, and
    eigenvectors of a matrix of landmarks.

    Examples
    --------
    >>> from daskfc.clustering import LandmarkSpectral
    >>> X = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> LandmarkSpectral(n_neighbors=2).pooled(X, 2, seed=0).labels.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    n_landmarks: int = 1000
    n_neighbors: int = 5
    n_init: int = 10

    name: ClassVar[str] = "landmark-spectral"
    told_apart: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_landmarks": integer(1),
        "n_neighbors": integer(1),
        "n_init": integer(1),
    }
    accepts = (RowFactors,)

    def row_bytes(self, n: int, k: int) -> int:
        """Return bytes of the graph and the embedding; see `Clusterer.row_bytes`."""
        return n * (40 * self.n_neighbors + 24 * k + 200) + _PANELS

    def _fit(self, view: RowFactors, k: int, seed: int) -> Clustering:
        if k > self.n_landmarks:
            raise InvalidInput(
                f"the 'n_landmarks' parameter of {self.name} must be at least the number of "
                f"clusters, {k}; got {self.n_landmarks}. Raise it."
            )
        points = view.coordinates()
        candidates, own = self._candidates(points, k, seed)
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        counts = np.diff(starts, append=own.size)
        landmarks = np.add.reduceat(points[candidates], starts, axis=0) / counts[:, None]
        apart = points[candidates] - np.repeat(landmarks, counts, axis=0)
        offsets = np.add.reduceat(np.einsum("ij,ij->i", apart, apart), starts) / counts

        K = min(self.n_neighbors, len(landmarks))
        near, apart = _nearest(points, landmarks, K)
        width2 = float(np.sqrt(apart).mean()) ** 2 or 1.0
        T, sums = _stochastic(near, apart, width2, len(landmarks))
        weighted = T.copy()
        weighted.data *= np.repeat(sums, K)
        E = (T.T @ weighted).toarray()
        V = laplacian_embedding(_normalised(E), min(k, len(E)), seed)
        rows = normalize(T @ V)
        found = best_partition(rows, k, seed, n_init=self.n_init, max_iter=300, owner=self.name)
        centres = np.full((k, rows.shape[1]), np.inf)  # of clusters without samples
        for cluster in np.unique(found.labels):
            centres[cluster] = rows[found.labels == cluster].mean(axis=0)
        model: dict[str, NDArray[Any]] = {
            "candidates": candidates,
            "starts": starts,
            "offsets": offsets,
            "width2": np.array(width2),
            "embedding": V,
            "centres": centres,
        }
        return Clustering(
            found.labels, k, model, found.converged, found.inertia, found.notes,
            decisive=np.array([width2]),
        )  # fmt: skip

    def _candidates(self, points: Floats, k: int, seed: int) -> tuple[Ints, Ints]:
        """Draw candidates for landmarks; return their places by landmark, and the landmarks."""
        n = len(points)
        p = max(min(self.n_landmarks, n // 2), k)
        drawn = generator(seed, self.name).choice(n, min(n, _CANDIDATES * p), replace=False)
        drawn.sort()
        lloyd = LibraryKMeans(
            p, init="random", n_init=1, max_iter=_MOVES, random_state=integer_seed(seed, self.name)
        )
        with threadpool_limits(limits=2, user_api="openmp"), noting_convergence():
            lloyd.fit(points[drawn])  # equal samples make fewer landmarks, which is as it should be
        order = np.argsort(lloyd.labels_, kind="stable")
        return drawn[order], lloyd.labels_[order]

    def _predict(self, clustering: Clustering, D: Floats) -> NDArray[np.int64]:
        model = clustering.model
        starts, V, centres = model["starts"], model["embedding"], model["centres"]
        counts = np.diff(starts, append=model["candidates"].size)
        # |x - c|² of a mean c = Σ_i y_i / m is Σ_i |x - y_i|² / m - Σ_i |y_i - c|² / m
        to_landmarks = np.add.reduceat(D[:, model["candidates"]], starts, axis=1) / counts
        to_landmarks -= model["offsets"]
        near, apart = _smallest(to_landmarks, min(self.n_neighbors, len(V)))
        T, _ = _stochastic(near, apart, float(model["width2"]), len(V))
        live = np.flatnonzero(np.isfinite(centres[:, 0]))
        return live[nearest_centre(normalize(T @ V), centres[live])]


def _nearest(points: Floats, landmarks: Floats, K: int) -> tuple[Ints, Floats]:
    """Return the K nearest landmarks of each point, (n, K) each: numbers, squared distances."""
    n, p = len(points), len(landmarks)
    near, apart = np.empty((n, K), np.int32), np.empty((n, K))
    centre = landmarks.mean(axis=0)  # shorter vectors, less rounding
    moved = landmarks - centre
    squares = np.einsum("ij,ij->i", moved, moved)
    step = max(1, _ENTRIES // p)
    for start in range(0, n, step):
        part = slice(start, start + step)
        block = points[part] - centre
        D = block @ moved.T
        D *= -2.0
        D += squares
        D += np.einsum("ij,ij->i", block, block)[:, None]
        near[part], apart[part] = _smallest(D, K)
    return near, apart


def _smallest(D: Floats, K: int) -> tuple[Ints, Floats]:
    near: Ints = np.argpartition(D, K - 1, axis=1)[:, :K]
    near.sort(axis=1)
    return near, np.maximum(np.take_along_axis(D, near, axis=1), 0.0)


def _stochastic(
    near: Ints, apart: Floats, width2: float, p: int
) -> tuple["sparse.csr_array[Any, Any]", Floats]:
    """Return T (n, p) and s (n,): B of the paper is s T, exp(-d² / (2 σ²)), which may be 0."""
    n, K = near.shape
    least = apart.min(axis=1, keepdims=True)
    B = np.exp((apart - least) * (-0.5 / width2))
    sums = B.sum(axis=1)
    B /= sums[:, None]
    ends = np.arange(0, n * K + 1, K)
    T = sparse.csr_array((B.ravel(), near.ravel(), ends), shape=(n, p))
    return T, sums * np.exp(least[:, 0] * (-0.5 / width2))


def _normalised(E: Floats) -> NormalisedAdjacency:
    """Return D_R^(-1/2) E_R D_R^(-1/2); unlike a graph's, the diagonal stays."""
    degrees = E.sum(axis=0)
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    components = components_of(E)
    E /= root
    E /= root[:, None]
    return NormalisedAdjacency(E, root, components)
