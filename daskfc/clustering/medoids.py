"""k-medoids by FasterPAM (Schubert & Rousseeuw 2021) on all distances."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import kmedoids
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from daskfc.checks import Constraint, integer
from daskfc.clustering.clusterer import Clusterer, Clustering, Needs, in_order_of_appearance
from daskfc.clustering.nearest import exact_squared_distances
from daskfc.clustering.views import FullDistances
from daskfc.seeds import integer_seed

__all__ = ["KMedoids"]


@dataclass(frozen=True)
class KMedoids(Clusterer):
    """k-medoids: the k samples with the smallest sum of Euclidean distances to their nearest.

    Parameters
    ----------
    n_init : int, default 10
        Runs from different random medoids; the one with the smallest sum counts.
    max_iter : int, default 100
        Passes over the samples of one run.

    Notes
    -----
    The distances are Euclidean, the roots of D.

    Examples
    --------
    >>> import numpy as np
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
    accepts = (FullDistances,)

    def needs(self, n: int, d: int) -> Needs:
        """Return "full"; see `Clusterer.needs`."""
        return "full"

    def _fit(self, view: FullDistances, k: int, seed: int) -> Clustering:
        distances = np.sqrt(view.matrix)
        runs = [
            kmedoids.fasterpam(
                distances,
                k,
                max_iter=self.max_iter,
                init="random",
                random_state=integer_seed(seed, self.name, run),
                n_cpu=1,
            )
            for run in range(self.n_init)
        ]
        best = min(runs, key=lambda run: float(run.loss))  # the first of equal ones
        chosen = np.asarray(best.medoids, dtype=np.int64)
        nearest = distances[:, chosen].argmin(axis=1)
        nearest[chosen] = np.arange(k)  # a medoid among its duplicates keeps its own cluster
        number = in_order_of_appearance(nearest, k)
        labels, medoids = number[nearest], chosen[np.argsort(number)]
        converged = int(best.n_iter) < self.max_iter
        notes: tuple[str, ...] = ()
        if not converged:
            notes = (f"{self.name} stopped after {self.max_iter} passes; raise max_iter.",)
            warnings.warn(notes[0], ConvergenceWarning, stacklevel=3)
        return Clustering(labels, k, {"medoids": medoids}, converged, float(best.loss), notes)

    def _pooled(self, X: NDArray[np.float64], k: int, seed: int) -> Clustering:
        return self._fit(FullDistances(exact_squared_distances(X)), k, seed)

    def _predict(self, clustering: Clustering, D: NDArray[np.float64]) -> NDArray[np.int64]:
        nearest: NDArray[np.int64] = D[:, clustering.model["medoids"]].argmin(axis=1)
        return nearest
