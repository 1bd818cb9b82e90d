"""Fuzzy c-means (Bezdek 1984) on the rows of the distance matrix, or on the samples themselves."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of, real
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    Needs,
    in_order_of_appearance,
)
from daskfc.clustering.clusterers.kmeans import (
    ROWS,
    mean_offsets,
    nearest_centre,
    nearest_mean,
    needs_rows,
)
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.seeds import integer_seed


def memberships(distances: Floats, fuzziness: float) -> Floats:
    """Return the optimal memberships u_ij ∝ d_ij^(-1/(m-1)), (n, k), for squared distances d."""
    least = distances.min(axis=1, keepdims=True)
    # Relative to the nearest centre, so that nothing overflows; 0/0 marks the centres hit.
    ratio = np.divide(
        least, distances, out=np.ones_like(distances), where=distances > 0
    )  # in [0, 1]
    share: Floats = ratio ** (1.0 / (fuzziness - 1.0))
    share /= share.sum(axis=1, keepdims=True)
    return share


def _to_centres(rows: Floats, squares: Floats, centres: Floats) -> Floats:
    distances = rows @ (-2.0 * centres.T)
    distances += squares[:, None]
    distances += np.einsum("ij,ij->i", centres, centres)
    floor = 4e-16 * float(squares.max(initial=0.0))  # ours: rounding of the three terms above
    distances[distances <= floor] = 0.0
    return distances


def fuzzy_partition(
    rows: Floats, centres: Floats, *, fuzziness: float, tol: float, max_iter: int
) -> tuple[Floats, float, float]:
    """Return memberships (n, k) at fuzzy c-means' last centres, objective and largest change."""
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = _to_centres(rows, squares, centres)
    share = memberships(distances, fuzziness)
    change = np.inf
    for _ in range(max_iter):
        weights = share**fuzziness
        centres = (weights.T @ rows) / weights.sum(axis=0)[:, None]
        distances = _to_centres(rows, squares, centres)
        before, share = share, memberships(distances, fuzziness)
        change = float(np.abs(share - before).max())
        if change <= tol:
            break
    return share, float((share**fuzziness * distances).sum()), change


@dataclass(frozen=True)
class FuzzyCMeans(Clusterer):
    """Fuzzy c-means of the samples, by coordinates that their distances give.

    Parameters
    ----------
    fuzziness : float, default 1.1
        Exponent m of the memberships; near 1 it becomes k-means.
    n_init : int, default 3
        Runs from different k-means++ starts; the one with the smallest objective is kept.
    max_iter : int, default 300
        Iterations of one run.
    tol : float, default 1e-5
        A run ends when no membership changes by more.
    rows : {"coordinates", "distances"}, default "coordinates"
        What is clustered, as for `KMeans`: the paper of OmniFC takes the rows of the
        squared-distance matrix.

    Notes
    -----
    A sample's label is its largest membership. `pooled` is fuzzy c-means on the samples.

    The paper does not state m. With the usual 2 all centres collapse to the mean of data in many
    dimensions of similar size (Yu, Cheng & Huang 2004 bound m for that reason): with 1,000 pooled
    samples of MNIST, kappa is 0.13 with 2 and 0.52 with 1.1, where the paper has 0.50. A note says
    when centres coincide.

    Examples
    --------
    >>> from daskfc.clustering import FuzzyCMeans
    >>> from daskfc.clustering.views.views import RowFactors
    >>> view = RowFactors(np.array([[0.0], [0.5], [9.0], [9.5]]))
    >>> FuzzyCMeans().fit(view, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    fuzziness: float = 1.1
    n_init: int = 3
    max_iter: int = 300
    tol: float = 1e-5
    rows: str = "coordinates"

    name: ClassVar[str] = "fuzzy-c-means"
    told_apart: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "fuzziness": real(above=1),
        "n_init": integer(1),
        "max_iter": integer(1),
        "tol": real(above=0),
        "rows": one_of(*ROWS),
    }
    accepts = (FullDistances, RowFactors)

    def needs(self, n: int, d: int) -> Needs:
        """Return "coordinates", or for rows of D "full" or "rows"; see `Clusterer.needs`."""
        return "coordinates" if self.rows == "coordinates" else needs_rows(n, d)

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        if self.rows == "coordinates":
            points = view.coordinates()
            clustering, share = self._best(points - points.mean(axis=0), k, seed)
            weights = share**self.fuzziness
            weights /= weights.sum(axis=0)
            clustering.model["weights"] = weights
            clustering.model["offsets"] = mean_offsets(points, weights)
            clustering.model["memberships"] = share
            return clustering
        rows = view.isometric()
        if isinstance(view, FullDistances):  # the rows of factors come centred
            rows = rows - rows.mean(axis=0)
        clustering, share = self._best(rows, k, seed)
        weights = share**self.fuzziness  # (n, k)
        clustering.model["centres"] = view.dot(weights / weights.sum(axis=0)).T  # rows of D
        clustering.model["memberships"] = share
        return clustering

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._best(X - X.mean(axis=0), k, seed)[0]

    def _best(self, rows: Floats, k: int, seed: int) -> tuple[Clustering, Floats]:
        best: tuple[Floats, float, float] | None = None
        for run in range(self.n_init):
            start, _ = kmeans_plusplus(rows, k, random_state=integer_seed(seed, self.name, run))
            found = fuzzy_partition(
                rows, start, fuzziness=self.fuzziness, tol=self.tol, max_iter=self.max_iter
            )
            if best is None or found[1] < best[1]:
                best = found
        assert best is not None
        share, objective, change = best
        number = in_order_of_appearance(share.argmax(axis=1), k)
        share = share[:, np.argsort(number)]
        converged = change <= self.tol
        notes = self._coinciding(share)
        if not converged:
            notes = (
                *notes,
                f"{self.name} stopped after {self.max_iter} iterations with memberships still "
                f"changing by {change:.1e}; raise max_iter or tol.",
            )
            warnings.warn(notes[-1], ConvergenceWarning, stacklevel=4)
        labels = share.argmax(axis=1)
        return Clustering(labels, k, {}, converged, objective, notes), share

    def _coinciding(self, share: Floats) -> tuple[str, ...]:
        k = share.shape[1]
        for one in range(k):
            for other in range(one):
                if np.abs(share[:, one] - share[:, other]).max() < 1e-3:
                    return (
                        f"{self.name} ended with centres that coincide, so that its labels mean "
                        f"little; lower fuzziness, now {self.fuzziness:g}, towards 1.",
                    )
        return ()

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        model = clustering.model
        if "weights" in model:
            return nearest_mean(D, model["weights"], model["offsets"])
        return nearest_centre(D, model["centres"])
