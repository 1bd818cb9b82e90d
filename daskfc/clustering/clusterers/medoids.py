"""k-medoids by FasterPAM (Schubert & Rousseeuw 2021), on all distances or on blocks of them."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import kmedoids
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer
from daskfc.clustering.blocks.swaps import Medoids, medoids_by_swaps
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    Needs,
    in_order_of_appearance,
)
from daskfc.clustering.views.nearest import distances_of
from daskfc.clustering.views.views import DistanceBlocks, FullDistances
from daskfc.seeds import generator

_PANELS = 128_000_000  # bytes: columns of distances, 32 MiB, and copies


@dataclass(frozen=True)
class KMedoids(Clusterer):
    """k-medoids: the k samples with the smallest sum of Euclidean distances to their nearest.

    Parameters
    ----------
    n_init : int, default 10
        Runs from different random medoids, at most one for each sample; the one with the smallest
        sum is kept.
    max_iter : int, default 100
        Passes over the samples of one run.

    Notes
    -----
    The distances are Euclidean, the roots of D. Samples are tried in a random order, in which each
    run begins at another place. Where all distances do not fit in memory they are read in blocks,
    once in a pass of all runs; the swaps are the same.

    Examples
    --------
    >>> from daskfc.clustering import KMedoids
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> found = KMedoids().pooled(X, 2, seed=0)
    >>> found.labels.tolist(), found.model["medoids"].tolist()
    ([0, 0, 0, 1], [1, 3])
    """

    n_init: int = 10
    max_iter: int = 100

    name: ClassVar[str] = "k-medoids"
    constraints: ClassVar[Mapping[str, Constraint]] = {"n_init": integer(1), "max_iter": integer(1)}
    accepts = (FullDistances, DistanceBlocks)
    matrices = 2.0

    def needs(self, n: int, d: int) -> Needs:
        """Return "full"; see `Clusterer.needs`."""
        return "full"

    def block_bytes(self, n: int, k: int) -> tuple[int, int]:
        """Return bytes in memory and on disk; see `Clusterer.block_bytes`."""
        return (self.n_init + 1) * n * 40 + _PANELS, 0

    def _fit(self, view: FullDistances | DistanceBlocks, k: int, seed: int) -> Clustering:
        n = view.n
        order = generator(seed, self.name, "order").permutation(n)
        starts = {
            run * n // self.n_init: generator(seed, self.name, run).choice(n, k, replace=False)
            for run in range(self.n_init)
        }
        if isinstance(view, FullDistances):
            runs = self._runs_in_memory(view.matrix, order, starts)
        else:
            runs = medoids_by_swaps(view, order, starts, self.max_iter)
        best = min(runs, key=lambda run: run.loss)  # the first of equal ones
        chosen = best.medoids
        nearest = view.block(slice(0, n), chosen).argmin(axis=1)
        nearest[chosen] = np.arange(k)  # a medoid among its duplicates keeps its own cluster
        number = in_order_of_appearance(nearest, k)
        labels, medoids = number[nearest], chosen[np.argsort(number)]
        converged = best.n_iter < self.max_iter
        notes: tuple[str, ...] = ()
        if not converged:
            notes = (f"{self.name} stopped after {self.max_iter} passes; raise max_iter.",)
            warnings.warn(notes[0], ConvergenceWarning, stacklevel=3)
        return Clustering(labels, k, {"medoids": medoids}, converged, best.loss, notes)

    def _runs_in_memory(self, D: Floats, order: Ints, starts: Mapping[int, Any]) -> list[Medoids]:
        """Return the runs of the package kmedoids, which tries samples in the matrix's order."""
        distances, place, runs = np.empty_like(D), np.empty(len(D), np.int64), []
        for first, start in starts.items():
            tried = np.roll(order, -first)
            place[tried] = np.arange(len(D))
            for row, sample in zip(distances, tried.tolist(), strict=True):
                np.sqrt(D[sample, tried], out=row)
            run = kmedoids.fasterpam(distances, place[start], max_iter=self.max_iter, n_cpu=1)
            chosen = tried[np.asarray(run.medoids, dtype=np.int64)]
            runs.append(Medoids(chosen, float(run.loss), int(run.n_iter)))
        return runs

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._fit(distances_of(X), k, seed)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        return np.asarray(D[:, clustering.model["medoids"]].argmin(axis=1))
