"""Agglomerative clustering with four linkages, cut at a given number of clusters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import fastcluster
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, one_of
from daskfc.clustering.blocks.chains import linkage_by_chains
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    Needs,
    in_order_of_appearance,
)
from daskfc.clustering.views.nearest import distances_of
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, RowFactors
from daskfc.errors import InvalidInput

_PANELS = 64_000_000  # bytes: rows of distances, 16 MiB, and copies


def cut(merges: Floats, k: int) -> Ints:
    """Return the k clusters (n,) after n - k merges of a scipy linkage, in order of appearance."""
    n = len(merges) + 1  # scipy's fcluster gives fewer than k if heights are equal at the cut
    pairs = merges[: n - k, :2].astype(np.int64)
    top = np.arange(n + len(pairs))
    top[pairs] = np.arange(n, n + len(pairs))[:, None]  # the parent of each merged cluster
    while not np.array_equal(top, top[top]):  # jump to the parent's parent until at the top
        top = top[top]
    _, labels = np.unique(top[:n], return_inverse=True)
    return in_order_of_appearance(labels, k)[labels]


@dataclass(frozen=True)
class Hierarchical(Clusterer):
    """Agglomerative clustering on Euclidean distances.

    Parameters
    ----------
    linkage : {"ward", "average", "complete", "single"}, default "ward"
        Distance of two clusters.

    Notes
    -----
    New samples join the cluster nearest by the same linkage: its smallest, largest or mean
    distance, or for Ward the distance to its centroid. Above 8,192 samples "single" and "ward"
    run on coordinates, without all n × n distances in memory (their time still grows as n²).
    "average" and "complete" use a file of 8 n² bytes where all distances do not fit in memory,
    with the same merges except where average distances tie up to rounding.

    Examples
    --------
    >>> from daskfc.clustering import Hierarchical
    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> Hierarchical("single").pooled(X, 2, seed=0).labels.tolist()
    [0, 0, 1]
    """

    linkage: str = "ward"

    name: ClassVar[str] = "hierarchical"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "linkage": one_of("ward", "average", "complete", "single")
    }
    accepts = (FullDistances, DistanceBlocks, RowFactors)
    matrices = 2.0

    @property
    def any_distances(self) -> bool:
        """See `Clusterer.any_distances`."""
        return self.linkage != "ward"

    def needs(self, n: int, d: int) -> Needs:
        """Return "full", or "rows" for many samples where possible; see `Clusterer.needs`."""
        # ours: 8,192 samples are 512 MiB of full and 256 MiB of condensed distances
        return "rows" if n > 8192 and self.linkage in ("single", "ward") else "full"

    def block_bytes(self, n: int, k: int) -> tuple[int, int] | None:
        """Return bytes in memory and on disk; see `Clusterer.block_bytes`."""
        if self.linkage in ("single", "ward"):  # these use coordinates of many samples
            return None
        return 400 * n + _PANELS, 8 * n * n

    def _fit(
        self, view: FullDistances | DistanceBlocks | RowFactors, k: int, seed: int
    ) -> Clustering:
        merges = self._merges(view) if view.n > 1 else np.empty((0, 4))
        labels = cut(merges, k)
        model: dict[str, NDArray[np.generic]] = {"labels": labels}
        if self.linkage == "ward":
            # |x - centroid|² = mean of |x - x_j|² - (mean of |x_i - x_j|²) / 2
            members = np.eye(k)[labels]
            members /= members.sum(axis=0)
            model["half_spread"] = np.einsum("ij,ij->j", members, view.dot(members)) / 2
        return Clustering(labels, k, model, decisive=np.square(merges[:, 2]))

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        if self.needs(*X.shape) == "rows":
            return self._fit(RowFactors(X), k, seed)
        return self._fit(distances_of(X), k, seed)

    def _merges(self, view: FullDistances | DistanceBlocks | RowFactors) -> Floats:
        if isinstance(view, RowFactors):
            if self.linkage not in ("single", "ward"):
                raise InvalidInput(
                    f"hierarchical with linkage {self.linkage!r} must be given FullDistances; got "
                    f"RowFactors. Build all distances or use linkage 'single' or 'ward'."
                )
            return np.asarray(fastcluster.linkage_vector(view.points, method=self.linkage))
        if isinstance(view, DistanceBlocks):
            return linkage_by_chains(view, self.linkage)
        condensed = squareform(view.matrix, checks=False)
        np.sqrt(condensed, out=condensed)
        merges = fastcluster.linkage(condensed, method=self.linkage, preserve_input=False)
        return np.asarray(merges)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        labels = clustering.model["labels"]
        order = np.argsort(labels, kind="stable")
        starts = np.searchsorted(labels[order], np.arange(clustering.n_clusters))
        if self.linkage == "single":
            to_cluster = np.minimum.reduceat(D[:, order], starts, axis=1)
        elif self.linkage == "complete":
            to_cluster = np.maximum.reduceat(D[:, order], starts, axis=1)
        else:
            members = np.eye(clustering.n_clusters)[labels]
            members /= members.sum(axis=0)
            if self.linkage == "average":
                to_cluster = np.sqrt(D) @ members
            else:
                to_cluster = D @ members - clustering.model["half_spread"]
        return np.asarray(to_cluster.argmin(axis=1))
