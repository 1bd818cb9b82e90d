"""Kernel k-means by the leading eigenvectors of the kernel matrix, exact or from landmarks.

Paper       "kernel-k-means": H. Zha, X. He, C. Ding, H. Simon, M. Gu, "Spectral relaxation for
            k-means clustering", NeurIPS 2001; "nystroem-k-means": S. Wang, A. Gittens, M. Mahoney,
            "Scalable kernel k-means clustering with Nyström approximation", JMLR 2019. They are CK
            and SK k-means of A Communication Efficient Federated Kernel k-means, Appendix G.
Notation    paper    here
            K        a kernel between all samples, (n, n), never formed where n is large
            s        n_eigenvectors
            H        U_s Λ_s^(1/2) of K's leading eigenpairs, (n, s)
            C, W, c  K[:, L] and K[L, L] for n_landmarks places L
Departures  (1) Landmarks are drawn uniformly without replacement. (2) n_landmarks is 500 by
            default; the paper on federated kernel k-means does not state its own.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of, optional, real
from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering, Needs
from daskfc.clustering.clusterers.kmeans import best_partition, nearest_centre, needs_rows
from daskfc.clustering.kernels.features import KERNELS, Kernel
from daskfc.clustering.kernels.products import (
    HELD,
    Block,
    KernelProducts,
    inverse_root,
    kernel_of_distances,
    kernel_of_points,
    near_leading,
    parts_of,
)
from daskfc.clustering.kernels.width import interpoint_width
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.errors import InvalidInput
from daskfc.linalg.block_krylov import block_eigenpairs
from daskfc.linalg.spectrum import signed
from daskfc.seeds import generator

_DENSE = 600  # ours: up to this a full eigendecomposition takes a fraction of a second
_TOLERANCE = 1e-6  # ours: relative to the largest eigenvalue
_PRODUCTS = 12  # ours: MNIST needs 3
_START = 100_000_000  # bytes: kernels of some samples with 1,000 landmarks, a few copies
_NULL = 1e-12  # ours: smaller eigenvalues, relative to the largest, are rounding errors


def exact_embedding(block: Block, n: int, s: int, seed: int, *, dtype: type) -> tuple[Any, ...]:
    """Return coordinates H = U_s Λ_s^(1/2), (n, s), on the kernel's leading eigenvectors.

    Also return the landmarks (all samples), the projection U_s Λ_s^(-1/2) of kernel values with
    them to coordinates, and whether all |K u - λ u| are at most 1e-6 of the largest eigenvalue.
    Beyond 600 samples, use block Krylov from Nyström vectors (fewer products than random ones).
    """
    places = np.arange(n)
    if n <= max(_DENSE, 8 * s):
        K = np.asarray(block(places, places), dtype=np.float64)
        values, vectors = scipy.linalg.eigh((K + K.T) / 2, subset_by_index=(n - s, n - 1))
        values, vectors, converged = values[::-1], vectors[:, ::-1], True
    else:
        width = min(4 * s + 20, n // 2)
        start = near_leading(block, n, width, seed, least=s)
        products = KernelProducts(block, n, dtype)
        found = block_eigenpairs(
            products.dot, start, s, tolerance=_TOLERANCE, max_products=_PRODUCTS
        )
        values, vectors = found.values, found.vectors
        converged = found.residual <= _TOLERANCE * values[0]
    vectors = signed(vectors)
    live = values > _NULL * values[0]
    scale = np.sqrt(np.where(live, values, 0.0))
    H = vectors * scale
    projection = vectors * np.where(live, 1.0 / np.where(live, scale, 1.0), 0.0)
    return H, places, projection, converged


def landmark_embedding(block: Block, n: int, s: int, c: int, seed: int) -> tuple[Any, ...]:
    """Return H, (n, s), of Nyström's C W⁺ Cᵀ at rank s, landmarks, projection (c, s), and True."""
    L = np.sort(generator(seed, "landmarks").choice(n, c, replace=False))
    root = inverse_root(np.asarray(block(L, L), dtype=np.float64), c)
    gram = np.zeros((root.shape[1],) * 2)  # of Nyström's features C W^(-1/2)
    for part in parts_of(n, c):
        features = block(part, L) @ root
        gram += features.T @ features
    vectors = scipy.linalg.eigh(gram)[1][:, ::-1][:, :s]
    projection = np.zeros((c, s))
    projection[:, : vectors.shape[1]] = root @ signed(vectors)
    H = np.empty((n, s))
    for part in parts_of(n, c):
        H[part] = block(part, L) @ projection
    return H, L, projection, True


@dataclass(frozen=True)
class _KernelClusterer(Clusterer):
    """Linear k-means on coordinates that a kernel gives."""

    kernel: str = "gaussian"
    kernel_width: float | None = None
    degree: int = 3
    n_eigenvectors: int | None = None
    n_init: int = 10

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "kernel": one_of(*KERNELS),
        "kernel_width": optional(real(above=0)),
        "degree": integer(1),
        "n_eigenvectors": optional(integer(1)),
        "n_init": integer(1),
    }
    accepts = (FullDistances, RowFactors)

    def needs(self, n: int, d: int) -> Needs:
        """Return "full" for few samples, "rows" for many; see `Clusterer.needs`."""
        self._check_distances()
        return needs_rows(n, d)

    def _check_distances(self) -> None:
        if self.kernel != "gaussian":
            raise InvalidInput(
                f"the 'kernel' parameter of {self.name} must be 'gaussian' on squared distances, "
                f"which give no other; got {self.kernel!r}. Cluster pooled samples, or change it."
            )

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        self._check_distances()
        if isinstance(view, RowFactors):
            return self._pooled(view.points, k, seed)
        width = self.kernel_width or float(np.sqrt(view.matrix.mean())) or 1.0
        block = kernel_of_distances(view.matrix, width)
        return self._cluster(block, view.n, k, seed, width, np.float64)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        if self.kernel_width is not None:
            width = self.kernel_width
        elif len(X) > 1 and (X != X[0]).any():
            width = interpoint_width(X, self.kernel)
        else:
            width = 1.0  # all kernel values are equal for any width
        kernel = Kernel(self.kernel, width, self.degree)
        single = not KernelProducts.holds(len(X), np.float64)
        block = kernel_of_points(X, kernel, single=single)
        return self._cluster(block, len(X), k, seed, width, np.float32 if single else np.float64)

    def _cluster(
        self, block: Block, n: int, k: int, seed: int, width: float, dtype: type
    ) -> Clustering:
        s = k if self.n_eigenvectors is None else self.n_eigenvectors
        self._check_rank(s, n)
        H, places, projection, converged = self._embed(block, n, s, seed, dtype)
        found = best_partition(H, k, seed, n_init=self.n_init, max_iter=300, owner=self.name)
        notes = found.notes
        if not converged:
            notes = ("The eigenvectors of the kernel are less exact than 1e-6.", *notes)
        model: dict[str, NDArray[Any]] = {}
        if self.kernel == "gaussian":
            centres = np.full((k, s), np.inf)  # of clusters without samples
            for cluster in np.unique(found.labels):
                centres[cluster] = H[found.labels == cluster].mean(axis=0)
            model = {
                "places": places,
                "projection": projection,
                "centres": centres,
                "width": np.array(width),
            }
        converged = converged and found.converged
        return Clustering(
            found.labels, k, model, converged, found.inertia, notes, decisive=np.array([width**2])
        )

    def _check_rank(self, s: int, n: int) -> None:
        if s > n:
            raise InvalidInput(
                f"the 'n_eigenvectors' parameter of {self.name} must be at most the number of "
                f"samples, {n}; got {s}. Lower it."
            )

    @abstractmethod
    def _embed(self, block: Block, n: int, s: int, seed: int, dtype: type) -> tuple[Any, ...]: ...

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        model = clustering.model
        K = np.exp(D[:, model["places"]] * (-0.5 / float(model["width"]) ** 2))
        live = np.flatnonzero(np.isfinite(model["centres"][:, 0]))
        return live[nearest_centre(K @ model["projection"], model["centres"][live])]


@dataclass(frozen=True)
class KernelKMeans(_KernelClusterer):
    """Kernel k-means on the leading eigenvectors of the kernel matrix.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "polynomial"}, default "gaussian"
        The kernel; on distances only the Gaussian.
    kernel_width : float or None, default None
        r of ``exp(-|x - y|² / (2 r²))``, in units of the data; None for the root mean squared
        distance of all pairs, which is ``γ = N² / (2 Σ |x - y|²)``. See `interpoint_width` for
        other kernels.
    degree : int, default 3
        Of the polynomial kernel.
    n_eigenvectors : int or None, default None
        s, the rank of the kernel; None for as many as clusters.
    n_init : int, default 10
        k-means runs on the coordinates.

    Notes
    -----
    Eigenpairs have residuals of at most 1e-6 of the largest eigenvalue. Half the kernel matrix
    is in memory up to 512 MiB, 10,606 samples; beyond, it is recomputed in each of about three
    products, in blocks and in float32, which changes values by about 1e-6.

    Examples
    --------
    >>> from daskfc.clustering import KernelKMeans
    >>> X = np.array([[0.0], [0.5], [9.0], [9.5]])
    >>> KernelKMeans().pooled(X, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    name: ClassVar[str] = "kernel-k-means"

    matrices = 2.0

    def row_bytes(self, n: int, k: int) -> int:
        """Return bytes of half the kernel, if it is kept; see `Clusterer.row_bytes`."""
        sizes = (KernelProducts.size(n, dtype) for dtype in (np.float64, np.float32))
        return next((size for size in sizes if size <= HELD), 0) + _START

    def _embed(self, block: Block, n: int, s: int, seed: int, dtype: type) -> tuple[Any, ...]:
        return exact_embedding(block, n, s, seed, dtype=dtype)


@dataclass(frozen=True)
class NystroemKMeans(_KernelClusterer):
    """Kernel k-means on Nyström's approximation of the kernel matrix, restricted in rank.

    Parameters
    ----------
    kernel, kernel_width, degree, n_eigenvectors, n_init
        As for `KernelKMeans`.
    n_landmarks : int, default 500
        Samples, drawn uniformly, whose kernel values with all others approximate the kernel; all
        samples where there are fewer.

    Examples
    --------
    >>> from daskfc.clustering import NystroemKMeans
    >>> X = np.array([[0.0], [0.5], [9.0], [9.5]])
    >>> NystroemKMeans(n_landmarks=3).pooled(X, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    n_landmarks: int = 500

    name: ClassVar[str] = "nystroem-k-means"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        **_KernelClusterer.constraints,
        "n_landmarks": integer(1),
    }

    def row_bytes(self, n: int, k: int) -> int:
        """Return bytes of kernels with landmarks; see `Clusterer.row_bytes`."""
        return min(24 * n * self.n_landmarks, _START)

    def _embed(self, block: Block, n: int, s: int, seed: int, dtype: type) -> tuple[Any, ...]:
        c = min(self.n_landmarks, n)
        if s > c:
            raise InvalidInput(
                f"the 'n_landmarks' parameter of {self.name} must be at least the number of "
                f"eigenvectors, {s}; got {self.n_landmarks}. Raise it."
            )
        return landmark_embedding(block, n, s, c, seed)
