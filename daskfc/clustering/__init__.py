"""Central clustering algorithms on squared distances, pooled data and graphs."""

from collections.abc import Mapping
from typing import Any

from daskfc.clustering.clusterers.clusterer import Clusterer, Clustering
from daskfc.clustering.clusterers.density import DBSCAN, HDBSCAN, OPTICS
from daskfc.clustering.clusterers.fuzzy import FuzzyCMeans
from daskfc.clustering.clusterers.hierarchical import Hierarchical
from daskfc.clustering.clusterers.kernel_kmeans import KernelKMeans, NystroemKMeans
from daskfc.clustering.clusterers.kmeans import KMeans
from daskfc.clustering.clusterers.landmark_spectral import LandmarkSpectral
from daskfc.clustering.clusterers.library import AffinityPropagation, GaussianMixture, ScikitLearn
from daskfc.clustering.clusterers.medoids import KMedoids
from daskfc.clustering.clusterers.nmf import NMF
from daskfc.clustering.clusterers.reduced_kmeans import ReducedKMeans
from daskfc.clustering.clusterers.spectral import Spectral
from daskfc.clustering.clusterers.umap import UMAP
from daskfc.clustering.views.exact_points import ExactPoints, exact_points
from daskfc.clustering.views.graphs import NeighbourGraph, RadiusGraph
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, RowFactors, View
from daskfc.errors import InvalidInput
from daskfc.linalg.graph_filter import (
    FilterKind,
    GraphOperator,
    RowBlocks,
    filter_features,
    row_blocks,
)
from daskfc.naming import correction, known_name
from daskfc.plugins import with_plugins

__all__ = [
    "CLUSTERERS",
    "DBSCAN",
    "HDBSCAN",
    "NMF",
    "OPTICS",
    "UMAP",
    "AffinityPropagation",
    "Clusterer",
    "Clustering",
    "DistanceBlocks",
    "ExactPoints",
    "FilterKind",
    "FullDistances",
    "FuzzyCMeans",
    "GaussianMixture",
    "GraphOperator",
    "Hierarchical",
    "KMeans",
    "KMedoids",
    "KernelKMeans",
    "LandmarkSpectral",
    "NeighbourGraph",
    "NystroemKMeans",
    "RadiusGraph",
    "ReducedKMeans",
    "RowBlocks",
    "RowFactors",
    "ScikitLearn",
    "Spectral",
    "View",
    "exact_points",
    "filter_features",
    "known_clusterers",
    "make_clusterer",
    "row_blocks",
]

CLUSTERERS: dict[str, type[Clusterer]] = {
    "spectral": Spectral,
    "landmark-spectral": LandmarkSpectral,
    "dbscan": DBSCAN,
    "hierarchical": Hierarchical,
    "k-medoids": KMedoids,
    "k-means": KMeans,
    "reduced-k-means": ReducedKMeans,
    "fuzzy-c-means": FuzzyCMeans,
    "nmf": NMF,
    "kernel-k-means": KernelKMeans,
    "nystroem-k-means": NystroemKMeans,
    "gaussian-mixture": GaussianMixture,
    "hdbscan": HDBSCAN,
    "umap": UMAP,
    "optics": OPTICS,
    "affinity-propagation": AffinityPropagation,
    "scikit-learn": ScikitLearn,
}


def known_clusterers() -> dict[str, type[Clusterer]]:
    """Return every clusterer by name: those of daskfc and of other packages.

    A package registers a subclass of `Clusterer` by an entry point of the group
    ``daskfc.clusterers``.

    Examples
    --------
    >>> from daskfc.clustering import known_clusterers
    >>> "spectral" in known_clusterers()
    True
    """
    return with_plugins("daskfc.clusterers", CLUSTERERS, _is_clusterer)


def _is_clusterer(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Clusterer)


def make_clusterer(spec: "str | Mapping[str, Any] | Clusterer") -> Clusterer:
    """Make a clusterer from its entry in a pipeline file.

    Parameters
    ----------
    spec : str, mapping or Clusterer
        A name, whose case and hyphens do not count; a mapping with one name and its parameters,
        ``{"dbscan": {"eps": 0.5}}``; or a clusterer, which is returned as it is.

    Raises
    ------
    InvalidInput
        For an unknown name, and for parameters that are unknown, missing or break their rule.

    Examples
    --------
    >>> from daskfc.clustering import make_clusterer
    >>> make_clusterer({"hierarchical": {"linkage": "average"}})
    Hierarchical(linkage='average')
    """
    if isinstance(spec, Clusterer):
        return spec
    if isinstance(spec, str):
        spec = {spec: {}}
    if not isinstance(spec, Mapping) or len(spec) != 1:
        example = "Write for example {'dbscan': {'eps': 0.5}}."
        raise InvalidInput(
            f"a clusterer must be a name, or a mapping of one name to its parameters; got {spec!r}."
            f" {correction(type(spec).__name__, known_clusterers(), example)}"
        )
    [(name, params)] = spec.items()
    kinds = known_clusterers()
    name = known_name(name, kinds)
    if name not in kinds:
        raise InvalidInput(
            f"no clusterer is named {name!r}; there are {', '.join(kinds)}. "
            f"{correction(name, kinds)}"
        )
    params = {} if params is None else params
    if not isinstance(params, Mapping):
        raise InvalidInput(
            f"the parameters of {name} must be a mapping of names to values; got {params!r}. "
            f"Write for example {{{name!r}: {{}}}}."
        )
    kind = kinds[name]
    unknown = [key for key in params if key not in kind.constraints]
    if unknown:
        known = ", ".join(sorted(kind.constraints))
        raise InvalidInput(
            f"{name} has no parameter {unknown[0]!r}; it has {known}. "
            f"{correction(unknown[0], kind.constraints, 'Correct the name or leave it out.')}"
        )
    if kind is DBSCAN and "eps" not in params:
        raise InvalidInput(
            "the 'eps' parameter of dbscan must be given; it is missing. "
            "Write for example {'dbscan': {'eps': 0.5}}."
        )
    if kind is UMAP and "then" in params:
        params = {**params, "then": make_clusterer(params["then"])}
    return kind(**params)
