"""Normalised spectral clustering on a graph of neighbours or on a Gaussian kernel."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy import sparse

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of, optional, real
from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering, Needs
from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.kernels.gaussian_graph import gaussian_graph, median_apart
from daskfc.clustering.views.decisive import to_kth_nearest
from daskfc.clustering.views.graphs import NeighbourGraph, RadiusGraph
from daskfc.clustering.views.nearest import distances_of, nearest_columns, within_radius_of_points
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, RowFactors
from daskfc.errors import InvalidInput, ResourceRefused
from daskfc.linalg.laplacian import NormalisedAdjacency
from daskfc.linalg.spectrum import laplacian_eigenvalues, laplacian_embedding

_View: TypeAlias = NeighbourGraph | RadiusGraph | FullDistances | DistanceBlocks

_KRYLOV = 20  # memory over the vectors of one product: those of eight, their images, and copies
_PAIRS = 1 << 25  # ours: of a radius graph at most, some 150 bytes each
_PANELS = 140_000_000  # bytes: the kernel of 4,000 samples and 1,000 landmarks, a few copies


def neighbour_affinity(graph: NeighbourGraph, n_neighbors: int) -> "sparse.csr_array[Any, Any]":
    """Return (A + Aᵀ) / 2 of a graph, without loops; `n_neighbors` includes the sample itself."""
    k = n_neighbors - 1
    cols = graph.indices[:, :k].ravel()
    ends = np.arange(0, k * graph.n + 1, k) if k else np.zeros(graph.n + 1, dtype=np.int64)
    A = sparse.csr_array((np.full(cols.size, 0.5), cols, ends), shape=(graph.n, graph.n))
    return sparse.csr_array(A + A.T)


def radius_affinity(graph: RadiusGraph) -> "sparse.csr_array[Any, Any]":
    """Return A (n, n), 1 for pairs within the radius; ResourceRefused for too many."""
    rows, cols = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    pairs = 0
    for left, right in graph:
        pairs += left.size
        if pairs > _PAIRS:
            raise ResourceRefused(
                f"the graph of spectral with eps = {math.sqrt(graph.radius2)!r} must have at most "
                f"{_PAIRS} pairs, {2 * _PAIRS // graph.n} neighbours a sample; it has more. Lower "
                "eps, or use affinity 'nearest_neighbors'."
            )
        rows.append(left.astype(np.int32))
        cols.append(right.astype(np.int32))
    ends = np.concatenate(rows), np.concatenate(cols)
    A = sparse.csr_array((np.ones(pairs), ends), shape=(graph.n, graph.n))
    return sparse.csr_array(A + A.T)


def median_gamma(matrix: Floats) -> float:
    """Return 1 / (2 median) of the squared distances that are not 0; 1.0 if all are 0."""
    upper = np.concatenate([matrix[i, i + 1 :] for i in range(len(matrix))])
    upper = upper[upper > 0]  # near duplicates have distance 0 after quantisation
    return 0.5 / float(np.median(upper, overwrite_input=True)) if upper.size else 1.0


@dataclass(frozen=True)
class Spectral(Clusterer):
    """Spectral clustering with the normalised Laplacian and k-means on the embedding.

    Parameters
    ----------
    affinity : {"nearest_neighbors", "radius", "gaussian"}, default "nearest_neighbors"
        (A + Aᵀ) / 2 of the graph of nearest neighbours; 1 within `eps` and 0 beyond; or exp(-γ D).
    n_neighbors : int, default 10
        Neighbours of a sample, itself among them, in the graph; and the number of nearest
        clustered samples that vote in `predict` (with all affinities).
    eps : float or None, default None
        Radius of a neighbourhood with affinity "radius", a distance in units of the data.
    gamma : float or None, default None
        γ of the Gaussian kernel, in inverse squared units of the data; None for half the inverse
        of the median of the non-zero squared distances.
    n_init : int, default 10
        k-means runs on the embedding.

    Notes
    -----
    Equal distances are ordered by a hash of sample numbers, as the first ones would be everybody's.
    The labels are those of scikit-learn's SpectralClustering with the same affinity ("precomputed"
    of the graph within a radius), up to their numbers and to ties. When the graph has more
    components than there are clusters, the largest components make clusters, the others join one of
    them, and a note says so.

    Where all distances do not fit in memory, the Gaussian kernel is recomputed in every product
    with a few vectors, half of it at a time; eigenvectors have residuals of at most 1e-8.

    Examples
    --------
    >>> from daskfc.clustering import Spectral
    >>> X = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> Spectral(n_neighbors=3).pooled(X, 2, seed=0).labels.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    affinity: str = "nearest_neighbors"
    n_neighbors: int = 10
    gamma: float | None = None
    n_init: int = 10
    eps: float | None = None

    name: ClassVar[str] = "spectral"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "affinity": one_of("nearest_neighbors", "radius", "gaussian"),
        "n_neighbors": integer(2),
        "gamma": optional(real(above=0)),
        "n_init": integer(1),
        "eps": optional(real(1e-150, 1e150)),
    }
    accepts = (NeighbourGraph, RadiusGraph, FullDistances, DistanceBlocks)
    matrices = 2.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma is not None and self.affinity != "gaussian":
            raise InvalidInput(
                f"the 'gamma' parameter of spectral must be left out with affinity "
                f"{self.affinity!r}, which has no width; got {self.gamma!r}. "
                f"Use affinity 'gaussian' or remove gamma."
            )
        if (self.eps is None) == (self.affinity == "radius"):
            raise InvalidInput(
                f"the 'eps' parameter of spectral must be given with affinity 'radius' and with no "
                f"other; got {self.eps!r} with {self.affinity!r}. Change one of the two."
            )

    @property
    def graph_neighbors(self) -> int:
        """See `Clusterer.graph_neighbors`."""
        return self.n_neighbors - 1

    @property
    def radius2(self) -> float | None:
        """See `Clusterer.radius2`."""
        return None if self.eps is None else float(self.eps) ** 2

    def needs(self, n: int, d: int) -> Needs:
        """Return what the affinity is made of; see `Clusterer.needs`."""
        kinds: dict[str, Needs] = {"gaussian": "full", "radius": "radius"}
        return kinds.get(self.affinity, "neighbours")

    def block_bytes(self, n: int, k: int) -> tuple[int, int] | None:
        """Return bytes in memory and on disk; see `Clusterer.block_bytes`."""
        if self.affinity != "gaussian":
            return None
        return (2 * k + 10) * n * 8 * _KRYLOV + _PANELS, 0

    def eigengaps(self, view: _View, most: int, seed: int) -> Floats:
        """Return the gaps after the k-th smallest eigenvalue of the Laplacian, for k to `most`."""
        self._check_view(view)
        return np.diff(laplacian_eigenvalues(self._graph(view, most + 1, seed), most + 1, seed))

    def _check_view(self, view: _View) -> None:
        others: dict[str, type] = {"gaussian": DistanceBlocks, "radius": RadiusGraph}
        other = others.get(self.affinity, NeighbourGraph)
        if not isinstance(view, (FullDistances, other)):
            raise InvalidInput(
                f"spectral with affinity {self.affinity!r} must be given FullDistances or "
                f"{other.__name__}; got {type(view).__name__}. Build what its needs(n, d) names."
            )

    def _fit(self, view: _View, k: int, seed: int) -> Clustering:
        self._check_view(view)
        if self.affinity == "gaussian" and self.gamma is None:
            return replace(self, gamma=self._gamma(view))._fit(view, k, seed)
        found = self._cluster(self._graph(view, k, seed), k, seed)
        # exp(-γ D) changes over distances of about 1 / γ
        decisive = self.radius2 if self.gamma is None else 1.0 / self.gamma
        return found if decisive is None else replace(found, decisive=np.array([decisive]))

    def _gamma(self, view: _View) -> float:
        """Return γ as given, or 1 / (2 median) of the squared distances that are not 0."""
        if self.gamma is not None:
            return self.gamma
        if isinstance(view, FullDistances):
            return median_gamma(view.matrix)
        assert isinstance(view, DistanceBlocks)
        return 0.5 / (median_apart(view) or 0.5)

    def _decisive(self, view: _View, labels: Ints) -> Floats:
        if isinstance(view, NeighbourGraph):
            return view.distances[:, self.graph_neighbors - 1]
        assert isinstance(view, FullDistances)
        return to_kth_nearest(view, self.graph_neighbors)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        if self.affinity == "gaussian":
            return self._fit(distances_of(X), k, seed)
        if self.radius2 is not None:
            return self._fit(within_radius_of_points(X, self.radius2), k, seed)
        return self._fit(self._neighbours(RowFactors(X)), k, seed)

    def _graph(self, view: _View, k: int, seed: int) -> NormalisedAdjacency:
        if self.affinity == "gaussian":
            gamma = self._gamma(view)
            if isinstance(view, DistanceBlocks):
                return gaussian_graph(view, gamma, k, seed)
            assert isinstance(view, FullDistances)
            weights = view.matrix * -gamma
            return NormalisedAdjacency.of(np.exp(weights, out=weights))
        if self.radius2 is not None:
            if isinstance(view, FullDistances):
                return NormalisedAdjacency.of((view.matrix <= self.radius2).astype(np.float64))
            assert isinstance(view, RadiusGraph)
            return NormalisedAdjacency.of(radius_affinity(self._within_radius(view)))
        graph = self._neighbours(view)
        return NormalisedAdjacency.of(neighbour_affinity(graph, self.n_neighbors))

    def _cluster(self, graph: NormalisedAdjacency, k: int, seed: int) -> Clustering:
        embedding = laplacian_embedding(graph, k, seed)
        found = best_partition(
            embedding, k, seed, n_init=self.n_init, max_iter=300, owner=self.name
        )
        notes = found.notes
        if graph.n_components > k:
            notes = (
                f"The neighbour graph has {graph.n_components} components, more than the {k} "
                f"clusters asked for: the largest made clusters, the others joined one of them.",
                *notes,
            )
        model = {"labels": found.labels}
        return Clustering(found.labels, k, model, found.converged, found.inertia, notes)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        labels = clustering.model["labels"]
        voters = labels[nearest_columns(D, min(self.n_neighbors, labels.size))]  # nearest first
        votes = (voters[:, :, None] == voters[:, None, :]).sum(axis=2)
        # The first voter of a cluster with most votes is taken, so ties go to the nearer cluster.
        return np.asarray(voters[np.arange(len(D)), votes.argmax(axis=1)])
