"""UMAP, a map of the samples from their nearest neighbours, and a clusterer on the map.

Paper       L. McInnes, J. Healy, J. Melville, "UMAP: Uniform Manifold Approximation and Projection
            for Dimension Reduction", 2018. The arithmetic is that of umap-learn.
Departures  Neighbours are exact. Parts of the graph without an edge between them begin in the order
            of their first samples, not by the means of their features, which nobody has.
"""

import importlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of, optional, real
from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering, Needs
from daskfc.clustering.clusterers.density import HDBSCAN
from daskfc.clustering.clusterers.density_tree import clusters_by_modularity
from daskfc.clustering.clusterers.library import numbered
from daskfc.clustering.views.graphs import NeighbourGraph
from daskfc.clustering.views.views import FullDistances
from daskfc.errors import InvalidInput
from daskfc.seeds import integer_seed

_EDGE = 72  # bytes: an edge of the graph both ways, in copies that the library makes
_LIBRARY = 180_000_000  # bytes: umap-learn and what numba compiles of it
_TREE = 30  # ours: neighbours on the map of which a tree of densities is made
_IN_MEMORY = 8192  # samples of which a clusterer of the map has all distances in memory
_SPREAD = 1.0  # umap-learn's, as what follows
_ALPHA, _GAMMA, _NEGATIVE = 1.0, 1.0, 5


@dataclass(frozen=True)
class UMAP(Clusterer):
    """A map by umap-learn from exact nearest neighbours, and another clusterer on the map.

    Parameters
    ----------
    n_neighbors : int, default 30
        Neighbours of a sample, itself among them.
    min_dist : float, default 0.0
        How near samples may lie on the map, in [0, 1]; 0 packs clusters most densely.
    n_components : int, default 2
        Dimensions of the map.
    n_epochs : int, optional
        Passes over the graph; by default 500, or 200 from 10,001 samples on.
    then : Clusterer, default HDBSCAN()
        The clusterer of the places on the map; in a pipeline file a name, or a name with its
        parameters.
    selection : {"modularity", "excess_of_mass"}
        Which clusters HDBSCAN takes out of its tree, where it is `then`: those of the largest
        modularity in UMAP's graph, or those that persist longest, as it does by itself.

    Raises
    ------
    InvalidInput
        Also where umap-learn is not installed.

    Notes
    -----
    The map is that of ``umap.UMAP`` with ``precomputed_knn`` and a seed: one thread, and the same
    for the same graph on the same kind of processor. Distances between far groups on it mean
    little. A new sample gets the label of its nearest one. For "modularity" the tree is that of 30
    neighbours on the map, or of `n_neighbors` of `then`. As modularity does, it joins clusters that
    are very small beside the whole.

    Examples
    --------
    >>> from daskfc.clustering import make_clusterer
    >>> spec = {"umap": {"n_neighbors": 15, "then": {"hdbscan": {"min_cluster_size": 100}}}}
    >>> make_clusterer(spec).then.min_cluster_size  # doctest: +SKIP
    100
    """

    n_neighbors: int = 30
    min_dist: float = 0.0
    n_components: int = 2
    n_epochs: int | None = None
    then: Clusterer = field(default_factory=HDBSCAN)
    selection: str = "modularity"

    name: ClassVar[str] = "umap"
    finds_n_clusters: ClassVar[bool] = True  # as `then` does
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_neighbors": integer(2),
        "min_dist": real(0, _SPREAD),
        "n_components": integer(1),
        "n_epochs": optional(integer(1)),
        "then": Constraint(
            "a clusterer that needs no origin",
            lambda value: isinstance(value, Clusterer) and not value.from_origin,
        ),
        "selection": one_of("modularity", "excess_of_mass"),
    }
    accepts = (NeighbourGraph, FullDistances)
    matrices = 2.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_spec("umap") is None:
            raise InvalidInput(
                "the clusterer umap must have umap-learn, which is not installed here. "
                "Install it with: pip install 'daskfc[umap]'."
            )
        object.__setattr__(self, "finds_n_clusters", self.then.finds_n_clusters)

    @property
    def graph_neighbors(self) -> int:
        """See `Clusterer.graph_neighbors`."""
        return self.n_neighbors - 1

    @property
    def _by_modularity(self) -> bool:
        return isinstance(self.then, HDBSCAN) and self.selection == "modularity"

    def needs(self, n: int, d: int) -> Needs:
        """Return "neighbours"; see `Clusterer.needs`."""
        return "neighbours"

    def row_bytes(self, n: int, k: int) -> int:
        """Return bytes of the graph, of its eigenvectors, and of the clusterer on the map."""
        vectors = 8 * n * max(2 * self.n_components + 3, int(n**0.5))  # of the Lanczos method
        then = self.then.row_bytes(n, k)
        if self._by_modularity:
            then = _EDGE * n * (self.n_neighbors + _TREE) + then
        elif self.then.needs(n, self.n_components) == "full":
            by_blocks = self.then.block_bytes(n, k) if n > _IN_MEMORY else None
            then += by_blocks[0] if by_blocks else int(self.then.matrices * 8 * n * n)
        return _LIBRARY + max(_EDGE * n * self.n_neighbors + vectors, then)

    def _decisive(self, view: NeighbourGraph | FullDistances, labels: Ints) -> Floats:
        return self._neighbours(view).distances[:, self.graph_neighbors - 1]

    def _fit(self, view: Any, k: int, seed: int) -> Clustering:
        graph, number = _in_order(self._neighbours(view), self.graph_neighbors)
        places, edges, failed = self._map(graph, integer_seed(seed, self.name))
        found = self._on_map(places, edges, k, seed)
        labels = numbered(found.labels[number])[0]
        notes = (*failed, *found.notes)
        return Clustering(
            labels, found.n_clusters, {"labels": labels}, found.converged, None, notes
        )

    def _on_map(self, places: Floats, edges: Any, k: int, seed: int) -> Clustering:
        """Return the clusters of samples by their places, and UMAP's graph."""
        then = self.then
        if not (self._by_modularity and isinstance(then, HDBSCAN)):
            return then.pooled(places, None if self.finds_n_clusters else k, seed)
        labels = clusters_by_modularity(
            places,
            edges,
            min_cluster_size=then.min_cluster_size,
            min_samples=then.min_samples or then.min_cluster_size,
            n_neighbors=then.n_neighbors or _TREE,
        )
        return Clustering(labels, int(labels.max()) + 1, {})

    def _map(self, graph: NeighbourGraph, seed: int) -> tuple[Floats, Any, tuple[str, ...]]:
        """Return the places (n, dimensions) of the samples on the map, its graph, and notes."""
        n, k = graph.n, self.n_neighbors
        near = np.column_stack([np.arange(n, dtype=np.int32), graph.indices[:, : k - 1]])
        apart = np.zeros((n, k), np.float32)  # the first neighbour is the sample itself
        distances = np.sqrt(graph.distances[:, : k - 1])
        # the library looks for widths within 2**64 of 1: in other units, in steps of as much
        unit = 64 * round(int(np.frexp(distances.mean())[1]) / 64)
        apart[:, 1:] = np.ldexp(distances, -unit)
        order = np.linspace(0.0, 1.0, n)[:, None]  # in place of features

        def places(init: str) -> tuple[Floats, Any]:
            library = importlib.import_module("umap.umap_")
            a, b = library.find_ab_params(_SPREAD, self.min_dist)
            random = np.random.RandomState(seed)
            edges, _, _ = library.fuzzy_simplicial_set(
                order, k, random, "euclidean", knn_indices=near, knn_dists=apart
            )
            kept = edges.copy()  # the library leaves out light edges in its own
            found, _ = library.simplicial_set_embedding(
                order, edges, self.n_components, _ALPHA, a, b, _GAMMA, _NEGATIVE, self.n_epochs,
                init, random, "euclidean", {}, densmap=False, densmap_kwds={}, output_dens=False,
            )  # fmt: skip
            return np.asarray(found, dtype=np.float64), kept

        with _one_thread(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", "Spectral initialisation failed", UserWarning)
            try:
                found, edges = places("spectral")
            except (TypeError, ValueError):  # fewer samples in a part than ARPACK has vectors
                found, edges = places("random")
        failed = "The map began with random places, as the graph's eigenvectors were not found."
        return found, edges, (failed,) * bool(caught)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        return np.asarray(clustering.model["labels"][D.argmin(axis=1)])


def _in_order(graph: NeighbourGraph, k: int) -> tuple[NeighbourGraph, Ints]:
    """Return a graph of k neighbours in an order by distances, not pseudonyms, and the numbers."""
    order = np.lexsort(graph.distances[:, :k].T[::-1])
    number = np.argsort(order)
    near = number[graph.indices[order, :k]].astype(np.int32)
    return NeighbourGraph(near, graph.distances[order, :k]), number


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have BLAS and numba use one thread: the order of partial sums changes their bits."""
    numba = importlib.import_module("numba")
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        numba.set_num_threads(before)
