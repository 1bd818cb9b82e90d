"""scikit-learn's clusterers, on coordinates computed from distances, or on the distances.

Those by density are in `density.py`.
"""

import dataclasses
import inspect
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as LibraryMixture

from daskfc.arrays import Floats, Ints
from daskfc.checks import Constraint, integer, one_of, optional, real
from daskfc.clustering.blocks.exemplars import exemplars_by_blocks
from daskfc.clustering.clusterers.clusterer import (
    Clusterer,
    Clustering,
    Needs,
    in_order_of_appearance,
    noting_convergence,
)
from daskfc.clustering.views.decisive import between_samples, to_kth_nearest
from daskfc.clustering.views.nearest import distances_of, exact_squared_distances
from daskfc.clustering.views.views import DistanceBlocks, FullDistances, RowFactors
from daskfc.errors import InvalidInput
from daskfc.seeds import integer_seed

_PANELS = 110_000_000  # bytes: rows of three matrices, 4 MiB each, copies, and counts


def placed(points: Floats, distances: Floats) -> Floats:
    """Return coordinates (b, q) of new samples from squared distances (b, n) to points (n, q)."""
    centre = points.mean(axis=0)
    Y = points - centre
    # |x - y_i|² = |x|² + |y_i|² - 2 x · y_i; terms equal for all i cancel, as Σ y_i = 0
    right = np.einsum("ij,ij->i", Y, Y) - distances  # (b, n)
    return np.asarray(np.linalg.lstsq(Y.T @ Y, (right @ Y).T / 2, rcond=None)[0].T + centre)


def numbered(labels: NDArray[np.integer]) -> tuple[Ints, int]:
    """Return labels in order of appearance, with -1 for noise, and the number of clusters."""
    found = labels.astype(np.int64)
    clustered = found >= 0
    k = int(found.max(initial=-1)) + 1
    found[clustered] = in_order_of_appearance(found[clustered], k)[found[clustered]]
    return found, len(np.unique(found[clustered]))


def _quietly(run: Any, *args: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a call's result and the library's warnings about convergence, once each."""
    with noting_convergence() as texts:
        result = run(*args)
    notes = tuple(dict.fromkeys(texts))
    for note in notes:
        warnings.warn(note, ConvergenceWarning, stacklevel=4)
    return result, notes


@dataclass(frozen=True)
class GaussianMixture(Clusterer):
    """A mixture of Gaussians by expectation maximisation, scikit-learn's.

    Parameters
    ----------
    covariance : {"full", "tied", "spherical"}, default "full"
        Covariance of each component; none of these depends on a rotation of the coordinates.
    n_init : int, default 1
        Runs from different k-means; the one with the largest likelihood is kept.
    max_iter : int, default 100
        Iterations of one run.
    regularisation : float, default 1e-8
        Added to the diagonal of covariances, as a share of the samples' total variance, so that
        labels depend on no unit of all columns. Where columns have units of their own, standardise
        them, or the widest drowns the others.

    Examples
    --------
    >>> from daskfc.clustering import GaussianMixture, RowFactors
    >>> view = RowFactors(np.array([[0.0], [0.5], [9.0], [9.6]]))
    >>> GaussianMixture().fit(view, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    covariance: str = "full"
    n_init: int = 1
    max_iter: int = 100
    regularisation: float = 1e-8

    name: ClassVar[str] = "gaussian-mixture"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "covariance": one_of("full", "tied", "spherical"),
        "n_init": integer(1),
        "max_iter": integer(1),
        "regularisation": real(0),
    }
    accepts = (FullDistances, RowFactors)

    def _mixture(self, k: int, seed: int, variance: float = 1.0) -> LibraryMixture:
        return LibraryMixture(
            k,
            covariance_type=self.covariance,
            n_init=self.n_init,
            max_iter=self.max_iter,
            reg_covar=self.regularisation * variance,
            random_state=integer_seed(seed, self.name),
        )

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        points = view.coordinates()
        if len(points) == 1:  # a mixture needs two
            return Clustering(np.zeros(1, np.int64), k, {"points": points})
        mixture = self._mixture(k, seed, float(points.var(axis=0).sum()) or 1.0)
        labels, notes = _quietly(mixture.fit_predict, points)
        number = in_order_of_appearance(labels, k)
        order = np.argsort(number)
        own = self.covariance != "tied"
        model = {
            "points": points,
            "weights": mixture.weights_[order],
            "means": mixture.means_[order],
            "precisions": mixture.precisions_cholesky_[order if own else ...],
        }
        score = -float(mixture.lower_bound_)
        return Clustering(number[labels], k, model, bool(mixture.converged_), score, notes)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        model = clustering.model
        if "means" not in model:
            return np.zeros(len(D), dtype=np.int64)
        mixture = self._mixture(clustering.n_clusters, 0)
        mixture.weights_, mixture.means_ = model["weights"], model["means"]
        mixture.precisions_cholesky_ = model["precisions"]
        return np.asarray(mixture.predict(placed(model["points"], D)).astype(np.int64))


@dataclass(frozen=True)
class NearestSample(Clusterer):
    """A scikit-learn clusterer without a rule for new samples: they join their nearest one."""

    accepts: ClassVar[tuple[type, ...]] = (FullDistances, RowFactors)

    @abstractmethod
    def _labels(self, points: Any, k: int, seed: int) -> NDArray[np.integer]: ...

    @property
    def _rank(self) -> int:
        """The rank of the neighbour that determines a sample's density."""
        return 1

    def _decisive(self, view: FullDistances | RowFactors, labels: Ints) -> Floats:
        return to_kth_nearest(view, self._rank)

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        return self._cluster(view.coordinates(), k, seed)

    def _cluster(self, points: Any, k: int, seed: int) -> Clustering:
        points = points if issparse(points) else np.ascontiguousarray(points)
        found, notes = _quietly(self._labels, points, k, seed)
        labels, count = numbered(found)
        return Clustering(labels, k or count, {"labels": labels}, not notes, None, notes)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        return np.asarray(clustering.model["labels"][D.argmin(axis=1)])


@dataclass(frozen=True)
class AffinityPropagation(Clusterer):
    """Exemplars of clusters, found by message passing: scikit-learn's, for few samples.

    Parameters
    ----------
    damping : float, default 0.5
        Share of an old message that is kept, in [0.5, 1).
    preference : float, optional
        Tendency of a sample to be an exemplar; by default the median of minus squared distances.
    max_iter : int, default 200
        Iterations.

    Notes
    -----
    It needs several n × n matrices in memory, or else three in files: with the same result, and
    minutes an iteration.

    Examples
    --------
    >>> from daskfc.clustering import AffinityPropagation
    >>> X = np.array([[0.0], [0.1], [0.3], [9.0], [9.1], [9.3]])
    >>> AffinityPropagation().pooled(X, None, seed=0).labels.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    damping: float = 0.5
    preference: float | None = None
    max_iter: int = 200

    name: ClassVar[str] = "affinity-propagation"
    finds_n_clusters: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "damping": Constraint("a number in [0.5, 1)", lambda v: real(0.5).holds(v) and v < 1),
        "preference": optional(real()),
        "max_iter": integer(1),
    }
    accepts = (FullDistances, DistanceBlocks)
    matrices = 7.0

    def needs(self, n: int, d: int) -> Needs:
        """Return "full"; see `Clusterer.needs`."""
        return "full"

    def block_bytes(self, n: int, k: int) -> tuple[int, int] | None:
        """Return bytes in memory and on disk; see `Clusterer.block_bytes`."""
        return 200 * n + _PANELS, 3 * 8 * n * n

    def _fit(self, view: FullDistances | DistanceBlocks, k: int, seed: int) -> Clustering:
        if view.n == 1:
            model = {"exemplars": np.zeros(1, np.int64), "labels": np.zeros(1, np.int64)}
            return Clustering(np.zeros(1, np.int64), 1, model)
        how: dict[str, Any] = dataclasses.asdict(self)
        random_state = integer_seed(seed, self.name)
        if isinstance(view, DistanceBlocks):
            (exemplars, found), notes = _quietly(
                lambda: exemplars_by_blocks(view, **how, seed=random_state)
            )
        else:
            library = sklearn.cluster.AffinityPropagation(
                **how, affinity="precomputed", copy=False, random_state=random_state
            )
            found, notes = _quietly(library.fit_predict, -view.matrix)
            exemplars = np.asarray(library.cluster_centers_indices_, dtype=np.int64)
        labels, count = numbered(found)
        model = {"exemplars": exemplars, "labels": labels}
        decisive = between_samples(view, exemplars)
        return Clustering(labels, count, model, not notes, None, notes, decisive)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        return self._fit(distances_of(X), k, seed)

    def _predict(self, clustering: Clustering, D: Floats) -> Ints:
        exemplars = clustering.model["exemplars"]
        if exemplars.size == 0:
            return np.full(len(D), -1, dtype=np.int64)
        return np.asarray(clustering.model["labels"][exemplars[D[:, exemplars].argmin(axis=1)]])


def _library_class(name: Any) -> type[ClusterMixin] | None:
    kind = getattr(sklearn.cluster, name, None) if isinstance(name, str) else None
    if isinstance(kind, type) and issubclass(kind, ClusterMixin):
        return None if kind is sklearn.cluster.FeatureAgglomeration else kind
    return None


@dataclass(frozen=True)
class ScikitLearn(NearestSample):
    """Any clusterer of `sklearn.cluster`, by its name.

    Parameters
    ----------
    estimator : str
        Such as "Birch" or "BisectingKMeans".
    options : mapping, optional
        Its parameters. Number of clusters and seed are added where it takes them.
    on : {"coordinates", "distances"}, default "coordinates"
        Its input: coordinates of the samples, up to a rigid motion; or all distances, not squared,
        with ``metric="precomputed"``.

    Notes
    -----
    A new sample gets the label of its nearest one. An estimator that depends on single features,
    not only on distances, gives other labels than on the pooled samples.

    Examples
    --------
    >>> from daskfc.clustering import RowFactors, make_clusterer
    >>> clusterer = make_clusterer({"scikit-learn": {"estimator": "BisectingKMeans"}})
    >>> view = RowFactors(np.array([[0.0], [0.5], [9.0], [9.5]]))
    >>> clusterer.fit(view, 2, seed=0).labels.tolist()
    [0, 0, 1, 1]
    """

    estimator: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    on: str = "coordinates"

    matrices = 4.2  # measured: 3.0 to 4.2 for clusterers that take distances
    name: ClassVar[str] = "scikit-learn"
    constraints: ClassVar[Mapping[str, Constraint]] = {
        "estimator": Constraint(
            "the name of a clusterer of sklearn.cluster",
            lambda name: _library_class(name) is not None,
        ),
        "options": Constraint("a mapping", lambda value: isinstance(value, Mapping)),
        "on": one_of("coordinates", "distances"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        known = self._known()
        for name in self.options:
            if name not in known:
                raise InvalidInput(
                    f"{self.estimator} of scikit-learn has no parameter {name!r}; it has "
                    f"{', '.join(sorted(known))}. Correct the 'options' of {self.name}."
                )
        if "n_clusters" in self.options:
            raise InvalidInput(
                f"the 'options' of {self.name} must leave 'n_clusters' to the method, which asks "
                f"for as many; got {self.options['n_clusters']!r}. Give it to the method."
            )
        linkage = self.options.get("linkage", "ward") if "linkage" in known else None
        if self.on == "distances" and linkage == "ward":
            raise InvalidInput(
                f"{self.estimator} of scikit-learn takes no distances with linkage 'ward', its "
                "default. Give another 'linkage' in the 'options', or on='coordinates'."
            )
        if self.on == "distances" and "metric" not in known:
            raise InvalidInput(
                f"the 'on' parameter of {self.name} must be 'coordinates' with {self.estimator}, "
                "which takes no precomputed distances; got 'distances'."
            )
        object.__setattr__(self, "finds_n_clusters", "n_clusters" not in known)

    def _known(self) -> set[str]:
        kind = _library_class(self.estimator)
        assert kind is not None
        return set(inspect.signature(kind).parameters)

    @property
    def any_distances(self) -> bool:
        """See `Clusterer.any_distances`."""
        return self.on == "distances"

    def needs(self, n: int, d: int) -> Needs:
        """Return "coordinates" or "full"; see `Clusterer.needs`."""
        return "coordinates" if self.on == "coordinates" else "full"

    def _fit(self, view: FullDistances | RowFactors, k: int, seed: int) -> Clustering:
        if self.on == "coordinates":
            return super()._fit(view, k, seed)
        if not isinstance(view, FullDistances):
            raise InvalidInput(
                f"the view given to {self.name} must be FullDistances with on='distances'; "
                f"got {type(view).__name__}. Build what {self.name}.needs(n, d) names."
            )
        return self._cluster(np.sqrt(view.matrix), k, seed)

    def _pooled(self, X: Floats, k: int, seed: int) -> Clustering:
        if self.on == "coordinates":
            return super()._pooled(X, k, seed)
        return self._fit(FullDistances(exact_squared_distances(X)), k, seed)

    def _labels(self, points: Floats, k: int, seed: int) -> NDArray[np.integer]:
        if len(points) == 1:  # most estimators refuse it
            return np.zeros(1, dtype=np.int64)
        known, given = self._known(), dict(self.options)
        if "n_clusters" in known:
            given["n_clusters"] = k
        if "random_state" in known:
            if given.get("random_state") is None:  # the library's default is not reproducible
                given["random_state"] = integer_seed(seed, self.name)
        if self.on == "distances":
            given["metric"] = "precomputed"
        kind = _library_class(self.estimator)
        assert kind is not None
        return np.asarray(kind(**given).fit_predict(points))
