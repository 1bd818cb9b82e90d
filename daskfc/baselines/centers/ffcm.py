"""FFCM: clients run fuzzy c-means from the global centres, the server merges their centres.

Paper       M. Stallmann, A. Wilbik, "Towards federated clustering: a federated fuzzy c-means
            algorithm (FFCM)", 2022 (arXiv 2201.07316).
Notation    paper      here              shape, range
            c          n_clusters        int ≥ 1
            m          fuzzifier         float > 1
            P          clients           number of clients
            X^(p)      data              (n_p, d) float64, stays at client p
            u_ij       memberships       (n_p, c), rows sum to 1, stays at client p
            v^(p)      centers           (c, d), the centres of client p
            s^(p)      supports          (c,), Σ_i u_ij at client p
            V          cluster_centers_  (c, d), the global centres
Messages    FuzzyCenters   client → server   every round, P c (d + 1) floats
            GlobalCenters  server → client   every round; to the caller at the end
            CenterShift    server → caller   every round, one float
Departures  (1) Both of the paper's mergers are here: "k-means" over all clients' centres with equal
            weights (the default), and "weighted", the mean of equally numbered centres weighted by
            their supports. k-means takes the better of ten k-means++ starts and a start from the
            last global centres, and its centres are renumbered to match those. (2) The authors'
            code starts from random integers in [-10, 10], which suits its own data; here the first
            global centres are k-means over the centres that the clients find by fuzzy c-means from
            their own k-means++ seeds. (3) Stops when the global centres move by less than
            `tolerance` times their norm (the authors' code: an absolute bound). (4) Between sites
            a client tells no mean of too few rows, as `Federation.smallest` says: see
            `fuzzy_c_means`.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from daskfc.baselines.centers.centers import (
    CenterClusterer,
    GlobalCenters,
    relative_shift,
    until_rest,
)
from daskfc.baselines.centers.lloyd import kmeans_plus_plus, weighted_k_means
from daskfc.checks import integer, one_of, real
from daskfc.clustering.clusterers.fuzzy import memberships
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.parameters import param
from daskfc.federation.party.last_result import LastResult, StartFound
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.linalg import accurate_squared_distances
from daskfc.seeds import generator, integer_seed
from daskfc.stores import ClientStore


class FuzzyCenters(
    Message,
    route="client → server",
    reveals=("the client's own fuzzy means and the soft sizes of its clusters, each round"),
):
    """The fuzzy centres of one client and the sum of its memberships in each."""

    centers: np.ndarray = array("n_local_clusters", "n_features", dtype="float64")
    supports: np.ndarray = array("n_local_clusters", dtype="float64")


class CenterShift(Message, route="server → caller", reveals="one number of convergence"):
    """The global centres' movement in a round, relative to their norm."""

    shift: float


def fuzzy_c_means(
    data: ClientStore,
    centers: np.ndarray,
    *,
    fuzzifier: float,
    max_iterations: int,
    tolerance: float,
    least: int = 1,
) -> FuzzyCenters:
    """Run fuzzy c-means on one client's rows from given centres, float64 ``(c, d)``.

    A centre that counts fewer than `least` rows, as (Σw)² / Σw² of its weights, stays where it was
    given, with a support of 0.
    """
    given, counted = centers, np.zeros(len(centers), dtype=bool)
    supports = np.zeros(len(centers))
    for _ in range(max_iterations):
        sums, (weights, squares) = np.zeros_like(centers), np.zeros((2, len(centers)))
        supports = np.zeros(len(centers))
        for _, rows in data.blocks():
            u = memberships(accurate_squared_distances(rows, centers), fuzzifier)  # (b, c)
            supports += u.sum(axis=0)
            u = u**fuzzifier
            sums += u.T @ rows
            weights += u.sum(axis=0)
            squares += np.square(u).sum(axis=0)
        moved = given.copy()
        counted = (weights > 0) & (weights**2 >= (least - 1e-9) * squares)
        moved[counted] = sums[counted] / weights[counted, None]  # v_j = Σ u_ij^m x_i / Σ u_ij^m
        shift = relative_shift(centers, moved)
        centers = moved
        if shift <= tolerance:
            break
    return FuzzyCenters(centers, np.where(counted, supports, 0.0) if least > 1 else supports)


def first_local_centers(
    data: ClientStore,
    *,
    n_clusters: int,
    fuzzifier: float,
    max_iterations: int,
    tolerance: float,
    random_state: int,
    party: str,
    site: SiteRules = FREE,
) -> FuzzyCenters:
    """Run fuzzy c-means on one client's rows from its own k-means++ seeds, before round 1."""
    seeds = kmeans_plus_plus(data, n_clusters, generator(random_state, "FFCM", party))
    least = site.smallest.samples
    found = fuzzy_c_means(
        data,
        seeds,
        fuzzifier=fuzzifier,
        max_iterations=max_iterations,
        tolerance=tolerance,
        least=least,
    )
    kept = (found.supports > 0) | (least == 1)  # a seed is a row
    return FuzzyCenters(found.centers[kept], found.supports[kept])


def local_centers(
    data: ClientStore,
    centers: GlobalCenters,
    *,
    fuzzifier: float,
    max_iterations: int,
    tolerance: float,
    site: SiteRules = FREE,
) -> FuzzyCenters:
    """Run a round's fuzzy c-means from the global centres; refuse another number of features."""
    if centers.centers.shape[1] != data.n_features:
        raise InvalidInput(
            f"the last fit of FFCM was of samples with {centers.centers.shape[1]} features, and "
            f"these have {data.n_features}. Begin anew with start='local', or with another "
            "random_state."
        )
    return fuzzy_c_means(
        data,
        centers.centers,
        fuzzifier=fuzzifier,
        max_iterations=max_iterations,
        tolerance=tolerance,
        least=site.smallest.samples,
    )


def first_centers(
    parts: Mapping[str, FuzzyCenters], *, n_clusters: int, random_state: int
) -> GlobalCenters:
    """Cluster the clients' own centres into the first global ones; refuse fewer than clusters."""
    points = np.concatenate([parts[name].centers for name in sorted(parts)])
    seed = integer_seed(random_state, "FFCM", "server")
    return GlobalCenters(weighted_k_means(points, np.ones(len(points)), n_clusters, seed)[0])


def merge_centers(
    parts: Mapping[str, FuzzyCenters],
    last: GlobalCenters,
    *,
    averaging: Literal["k-means", "weighted"],
    random_state: int,
) -> GlobalCenters:
    """Merge the clients' centres, c each, into global ones, numbered like those of `last`."""
    if averaging == "weighted":
        return GlobalCenters(_weighted_mean(parts, last.centers))
    return GlobalCenters(_merged_by_k_means(parts, last.centers, random_state))


def _weighted_mean(parts: Mapping[str, FuzzyCenters], last: np.ndarray) -> np.ndarray:
    names = sorted(parts)
    supports = np.stack([parts[name].supports for name in names])  # (P, c)
    total = supports.sum(axis=0)
    sums = sum(parts[name].supports[:, None] * parts[name].centers for name in names)
    merged = last.copy()
    merged[total > 0] = np.asarray(sums)[total > 0] / total[total > 0, None]
    return merged


def _merged_by_k_means(
    parts: Mapping[str, FuzzyCenters], last: np.ndarray, random_state: int
) -> np.ndarray:
    points = np.concatenate([parts[name].centers for name in sorted(parts)])  # (P c, d)
    warm = KMeans(len(last), init=last, n_init=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # centres that coincide up to rounding
        warm.fit(points)
    merged = np.asarray(warm.cluster_centers_, dtype=np.float64)
    if len(np.unique(points, axis=0)) >= len(last):
        seed = integer_seed(random_state, "FFCM", "server")
        fresh, inertia = weighted_k_means(points, np.ones(len(points)), len(last), seed)
        if inertia < warm.inertia_ * (1 - 1e-9):
            merged = fresh
    numbers = linear_sum_assignment(accurate_squared_distances(last, merged))[1]
    return np.asarray(merged[numbers])


def center_shift(before: GlobalCenters, after: GlobalCenters) -> CenterShift:
    """Return the global centres' movement, by which the caller stops the rounds."""
    return CenterShift(relative_shift(before.centers, after.centers))


def find_centers(last_result: LastResult) -> StartFound:
    """Return whether there are centres of the last fit, and their size, for the caller."""
    return StartFound.of(last_result, "centers")


def last_centers(last_result: LastResult) -> GlobalCenters:
    """Return the last fit's centres, found by `find_centers`."""
    found = last_result.start()
    assert found is not None
    return GlobalCenters(found["centers"])


def keep_centers(centers: GlobalCenters, last_result: LastResult) -> bool:
    """Keep the centres as the next fit's start."""
    last_result.keep({"centers": np.asarray(centers.centers)})
    return True


_STARTED = {
    "last": "the centres of the last fit like this one",
    "local": "the clients' own centres: the server kept none of a fit like this one",
}


class FFCM(CenterClusterer):
    """Federated fuzzy c-means of Stallmann and Wilbik.

    Parameters
    ----------
    n_clusters : int
        Clusters over all clients.
    fuzzifier : float
        The exponent m, above 1.
    averaging : {"k-means", "weighted"}
        How the server merges the clients' centres.
    max_rounds : int
        Rounds between clients and server, at most.
    max_local_iterations : int
        Updates of the centres at a client in a round, at most.
    tolerance : float
        Relative movement of centres below which a client, or the server, stops.
    start : {"local", "last"}
        The first centres: from the clients' own ones, or the last ones of the previous fit with
        these parameters and clients, which the server kept, or else the clients' own.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, the cluster of the largest membership.
    cluster_centers_ : numpy.ndarray
        ``(n_clusters, n_features)`` float64.
    n_rounds_ : int
        Rounds that were run.
    start_ : {"local", "last"}
        The first centres.

    Notes
    -----
    Privacy: the server sees every client's fuzzy means and soft sizes in the clear, every round;
    between sites of as many samples as ``Federation.smallest`` says.

    Examples
    --------
    >>> from daskfc.baselines import FFCM
    >>> FFCM(10, averaging="weighted").get_params()["fuzzifier"]
    2.0
    """

    fuzzifier: float = param(real(above=1), default=2.0)
    averaging: Literal["k-means", "weighted"] = param(
        one_of("k-means", "weighted"), default="k-means"
    )
    max_rounds: int = param(integer(low=1), default=50)
    max_local_iterations: int = param(integer(low=1), default=100)
    tolerance: float = param(real(low=0), default=1e-4)
    start: Literal["local", "last"] = param(one_of("local", "last"), default="local")

    @property
    def choices(self) -> Mapping[str, str]:
        """The start of the last fit, if `start` is "last"."""
        if self.start == "local" or not hasattr(self, "start_"):
            return {}
        return {"start": _STARTED[self.start_]}

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        local: dict[str, Any] = {
            "fuzzifier": self.fuzzifier,
            "max_iterations": self.max_local_iterations,
            "tolerance": self.tolerance,
        }
        chance: dict[str, Any] = {"n_clusters": self.n_clusters, "random_state": self.seed_}
        with self._stage(federation, "first_centers"):
            self.start_ = "local"
            if self.start == "last" and federation.publish(find_centers).n_rows:
                self.start_ = "last"
                centers = federation.on_server(last_centers)
            else:
                parts = federation.ask(first_local_centers, **local, **chance)
                centers = federation.on_server(first_centers, parts, **chance)
            federation.wait(centers)
        with self._stage(federation, "rounds"):
            centers = self._rounds(federation, centers, local)
        if self.start == "last":
            federation.wait(federation.on_server(keep_centers, centers))
        self._publish_centers(federation, centers)
        return self._nearest_labels(federation, centers)

    def _rounds(
        self, federation: Federation, centers: Local[GlobalCenters], local: dict[str, Any]
    ) -> Local[GlobalCenters]:
        """Run rounds until the global centres converge."""
        how: dict[str, Any] = {"averaging": self.averaging, "random_state": self.seed_}

        def turn(_: int) -> float:
            nonlocal centers
            parts = federation.ask(local_centers, federation.tell(centers), **local)
            before = centers
            centers = federation.on_server(merge_centers, parts, before, **how)
            return federation.publish(center_shift, before, centers).shift

        until_rest(self, federation, turn, "centres", "their")
        return centers
