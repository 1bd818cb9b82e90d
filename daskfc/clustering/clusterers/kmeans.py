"""k-means on coordinates of the samples, or on rows of distances as in the paper of OmniFC."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.cluster import KMeans as LibraryKMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    Needs,
    in_order_of_appearance,
    noting_convergence,
)
from daskfc.clustering.clusterers.lloyd import LloydRun, best_run
from daskfc.clustering.views.views import FullDistances, RowFactors
from daskfc.seeds import integer_seed

ROWS = ("coordinates", "distances")
_LARGE = 2**28  # ours: coordinates of more bytes are not copied, but shifted and shifted back
_FEW = 1 << 22  # ours: n q k from which `lloyd` takes less time than scikit-learn's k-means
_TOL = 1e-4  # scikit-learn's: a run ends when centres move by less, relative to the mean variance


@dataclass(frozen=True)
class Partition:
    """Labels (n,), the inertia, and a note if there are fewer distinct rows than clusters."""

    labels: Ints
    inertia: float
    converged: bool
    notes: tuple[str, ...]


def best_partition(
    rows: Floats,
    k: int,
    seed: int,
    *,
    n_init: int,
    max_iter: int,
    owner: str,
    copy: bool = True,
    threads: int | None = None,
    n_features: int | None = None,
) -> Partition:
    """Return the best of `n_init` runs of Lloyd's algorithm from k-means++ starts.

    `copy=False` shifts rows (n, q) in place and back. `threads` is 1 where clients work at once,
    all that the process may use by default; labels do not depend on it. A run ends when centres
    move by little relative to the mean variance of the data's `n_features` columns, q by default.
    """
    tol = _TOL * rows.shape[1] / (n_features or rows.shape[1])
    how = {"n_init": n_init, "max_iter": max_iter, "tol": tol}
    number = integer_seed(seed, owner)
    if rows.size * k < _FEW:
        lloyd = LibraryKMeans(k, random_state=number, copy_x=copy, **how)
        with threadpool_limits(2 if threads is None else threads, "openmp"), noting_convergence():
            lloyd.fit(rows)  # two threads at most: the order of three partial sums would matter
        found = LloydRun(lloyd.labels_, float(lloyd.inertia_), lloyd.n_iter_)
    else:
        found = best_run(rows, k, number, **how, copy=copy, threads=threads)
    notes: tuple[str, ...] = ()
    if np.unique(found.labels).size < k:
        notes = (f"{owner} was asked for {k} clusters, and the rows have fewer distinct values.",)
        warnings.warn(notes[0], ConvergenceWarning, stacklevel=2)
    names = in_order_of_appearance(found.labels, k)
    return Partition(names[found.labels], found.inertia, found.n_iter < max_iter, notes)


def needs_rows(n: int, d: int) -> Needs:
    """Return "rows" if the factors of D are much thinner than D and D is large, else "full"."""
    return "full" if n <= max(4096, 3 * (d + 2)) else "rows"  # ours: 4096 rows are 128 MiB


def nearest_centre(rows: Floats, centres: Floats) -> Ints:
    """Return for each row (b, n) the nearest of the centres (k, n), the first of equal ones."""
    offset = centres.mean(axis=0)  # shorter vectors, less rounding
    moved = centres - offset
    scores = np.einsum("ij,ij->i", moved, moved) - 2.0 * ((rows - offset) @ moved.T)
    return np.asarray(scores.argmin(axis=1))


def mean_offsets(points: Floats, weights: Floats) -> Floats:
    """Return Σ_i w_i |y_i - c|², (k,), of points (n, q) about means; -inf for an empty cluster."""
    centred = points - points.mean(axis=0)
    centres = weights.T @ centred
    offsets = weights.T @ np.einsum("ij,ij->i", centred, centred)
    offsets -= np.einsum("ij,ij->i", centres, centres)
    offsets[~weights.any(axis=0)] = -np.inf
    return np.asarray(offsets)


def nearest_mean(distances: Floats, weights: Floats, offsets: Floats) -> Ints:
    """Return each new sample's nearest mean, by squared distances (b, n) and `mean_offsets`."""
    return np.asarray((distances @ weights - offsets).argmin(axis=1))


@dataclass(frozen=True)
class KMeans(Clusterer):
    """k-means of the samples, by coordinates that their distances give.

    Parameters
    ----------
    n_init : int, default 10
        Runs from different k-means++ starts; the one with the smallest inertia is kept.
    max_iter : int, default 300
        Iterations of one run.
    rows : {"coordinates", "distances"}, default "coordinates"
        What is clustered. Coordinates have the samples' distances, so that labels and inertia are
        those of k-means on the pooled samples. The paper of OmniFC clusters the rows of the
        squared-distance matrix: another objective, with other labels.

    Notes
    -----
    `pooled` is k-means on the samples, which the paper calls "central", for both `rows`.

    Examples
    --------
    >>> from daskfc.clustering import KMeans
    >>> from daskfc.clustering.views.views import RowFactors
    >>> view = RowFactors(np.array([[0.0], [0.5], [9.0], [9.5]]))
    >>> KMeans().fit(view, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    n_init: int = 10
    max_iter: int = 300
    rows: str = "coordinates"

    name: ClassVar[str] = "k-means"
    told_apart: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "n_init": integer(1),
        "max_iter": integer(1),
        "rows": one_of(*ROWS),
    }
    accepts = (FullDistances, RowFactors)

    def needs(self, n: int, d: int) -> Needs:
        """Return "coordinates", or for rows of D "full" or "rows"; see `Clusterer.needs`."""
        return "coordinates" if self.rows == "coordinates" else needs_rows(n, d)

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        if self.rows == "coordinates":
            return self._fit_coordinates(view.coordinates(), view.n_features, k, seed)
        found = self._partition(view.isometric(), k, seed, isinstance(view, FullDistances))
        members = np.eye(k)[found.labels]  # (n, k)
        counts = members.sum(axis=0)
        centres = view.dot(members).T / np.maximum(counts, 1.0)[:, None]  # means of rows of D
        centres[counts == 0] = np.inf
        return Clustering(
            found.labels, k, {"centres": centres}, found.converged, found.inertia, found.notes
        )

    def _fit_coordinates(
        self, points: Floats, n_features: int | None, k: int, seed: int
    ) -> Clustering:
        copy = points.nbytes < _LARGE
        found = self._partition(points, k, seed, copy, n_features)
        members = np.eye(k)[found.labels]
        members /= np.maximum(members.sum(axis=0), 1.0)
        model = {"weights": members, "offsets": mean_offsets(points, members)}
        return Clustering(found.labels, k, model, found.converged, found.inertia, found.notes)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        found = self._partition(X, k, seed, True)
        return Clustering(found.labels, k, {}, found.converged, found.inertia, found.notes)

    def _partition(
        self, rows: Floats, k: int, seed: int, copy: bool, n_features: int | None = None
    ) -> Partition:
        return best_partition(
            rows,
            k,
            seed,
            n_init=self.n_init,
            max_iter=self.max_iter,
            owner=self.name,
            copy=copy,
            n_features=n_features,
        )

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        model = clustering.model
        if "weights" in model:
            return nearest_mean(D, model["weights"], model["offsets"])
        centres = model["centres"]
        live = np.flatnonzero(np.isfinite(centres[:, 0]))  # empty clusters have no centre
        return live[nearest_centre(D, centres[live])]
