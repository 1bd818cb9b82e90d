"""Conformance suite for distributed k-means: what holds whatever the server sees of the rows."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from daskfc.arrays import Floats
from daskfc.errors import InvalidInput, PartyError
from daskfc.federation import Federation, Message, PerClient, array
from daskfc.linalg import squared_distances
from daskfc.secure.kmeans import DistributedKMeans, nearest_labels, own_clusters


class ToldClusters(Message, route="client → caller", reveals="to the caller the cluster of rows"):
    """A client's labels, for a test."""

    labels: np.ndarray = array("row", dtype="int64")


def as_given(rows: Floats) -> Floats:
    """Return rows that a test hands to a client."""
    return rows


def told(labels: NDArray[np.int64]) -> ToldClusters:
    """Send the caller a client's labels."""
    return ToldClusters(labels)


def rows_for_tests(name: str) -> tuple[Floats, int]:
    """Return rows of "blobs", "iris" or 599 "digits" on 10 axes, and a number of clusters."""
    if name == "blobs":
        random = np.random.default_rng(5)
        middles = 40.0 * random.permutation(np.indices((2, 2, 2)).reshape(3, 8).T)
        sizes = [90, 60, 40, 30, 20, 20, 12, 8]
        return make_blobs(sizes, centers=middles, random_state=1)[0] + 100.0, len(sizes)
    if name == "iris":
        return np.asarray(load_iris().data, dtype=np.float64), 3
    axes = PCA(10, svd_solver="full").fit_transform(load_digits().data[::3])
    return np.ascontiguousarray(axes, dtype=np.float64), 10


def dealt(rows: Floats, clients: tuple[str, ...], how: str) -> dict[str, NDArray[np.int64]]:
    """Return the row numbers of each client: in "turns", or "sorted" in runs of unequal lengths."""
    n, m = len(rows), len(clients)
    if how == "turns":
        return {name: np.arange(i, n, m) for i, name in enumerate(clients)}
    order = np.lexsort(rows.T)
    ends = (n * (np.arange(1, m) / m) ** 2).astype(int)
    return dict(zip(clients, np.split(order, ends), strict=True))


def inertia_of(rows: Floats, centers: Floats) -> float:
    """Return the sum of squared distances of rows to the nearest of some centres."""
    return float(squared_distances(rows, centers).min(axis=1).sum())


class KMeansTests:
    """Subclass it once per kind of k-means; define `open` and the fixture `federation`.

    `federation` is in a run of at least three clients; what they hold does not matter. `factor`
    bounds the inertia, relative to scikit-learn's k-means on pooled rows; `sees` are the classes of
    all messages that clients may send. `however_dealt` says whether centres are the same whichever
    client holds which rows, and `smallest` how many rows a cluster has at least.
    """

    factor = 1.05
    sees: ClassVar[frozenset[str]] = frozenset()
    however_dealt = False
    smallest = 1

    def open(self, federation: Federation, n_clusters: int, seed: int = 0) -> DistributedKMeans:
        """Return the k-means under test."""
        raise NotImplementedError

    def _fit(
        self, federation: Federation, parts: Mapping[str, Floats], n_clusters: int, seed: int = 0
    ) -> tuple[Floats, dict[str, NDArray[np.int64]], float]:
        """Return centres, labels by client and the inertia that the server knows."""
        rows = federation.on_clients(as_given, PerClient(parts), clients=tuple(parts))
        clusters = self.open(federation, n_clusters, seed).fit(rows)
        labels = federation.on_clients(told, clusters.labels, clients=tuple(parts))
        found = federation.publish(clusters.centers)
        said = federation.publish(labels)
        return found.centers, {name: said[name].labels for name in parts}, found.inertia

    def _pooled(
        self, federation: Federation, rows: Floats, n_clusters: int, how: str = "turns"
    ) -> tuple[Floats, NDArray[np.int64], float]:
        """Return centres, labels in the order of `rows`, and the inertia that the server knows."""
        places = dealt(rows, federation.clients, how)
        parts = {name: rows[own] for name, own in places.items()}
        centers, by_client, inertia = self._fit(federation, parts, n_clusters)
        labels = np.empty(len(rows), dtype=np.int64)
        for name, own in places.items():
            labels[own] = by_client[name]
        return centers, labels, inertia

    @pytest.mark.parametrize("name", ["iris", "digits"])
    def test_the_inertia_is_near_that_of_pooled_rows(
        self, federation: Federation, name: str
    ) -> None:
        """The inertia is near that of pooled rows, and labels are those of the nearest centres."""
        rows, k = rows_for_tests(name)
        centers, labels, known = self._pooled(federation, rows, k)
        assert centers.shape == (k, rows.shape[1])
        np.testing.assert_array_equal(labels, nearest_labels(rows, centers))
        pooled = KMeans(k, n_init=10, random_state=0).fit(rows)
        inertia = inertia_of(rows, centers)
        assert inertia <= self.factor * pooled.inertia_
        assert np.isnan(known) or abs(known - inertia) < 0.2 * inertia

    @pytest.mark.parametrize("how", ["turns", "sorted"])
    def test_separate_blobs_are_found_exactly(self, federation: Federation, how: str) -> None:
        """Separate blobs are found exactly, also where each client holds only some of them."""
        rows, k = rows_for_tests("blobs")
        _, labels, _ = self._pooled(federation, rows, k, how)
        pooled = KMeans(k, n_init=10, random_state=0).fit(rows)
        assert adjusted_rand_score(pooled.labels_, labels) == 1.0

    def test_the_same_seed_gives_the_same_result(self, federation: Federation) -> None:
        """The same seed gives the same result, bit for bit."""
        rows, _ = rows_for_tests("iris")
        first, second = (self._pooled(federation, rows, 3) for _ in range(2))
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])

    def test_who_holds_which_rows_does_not_matter(self, federation: Federation) -> None:
        """Who holds which rows does not matter."""
        if not self.however_dealt:
            pytest.skip("clients draw from their own rows")
        rows, _ = rows_for_tests("iris")
        first, second = (self._pooled(federation, rows, 3, how) for how in ("turns", "sorted"))
        np.testing.assert_allclose(first[0], second[0], rtol=0, atol=1e-8 * np.abs(rows).max())
        np.testing.assert_array_equal(first[1], second[1])

    def test_nothing_leaves_but_the_declared_messages(self, federation: Federation) -> None:
        """Nothing leaves a client but the declared messages."""
        rows, _ = rows_for_tests("iris")
        places = dealt(rows, federation.clients, "turns")
        own = PerClient({name: rows[those] for name, those in places.items()})
        clusters = self.open(federation, 3).fit(federation.on_clients(as_given, own))
        federation.publish(clusters.centers)
        sent = {row.message for row in federation.ledger if row.sender in federation.clients}
        assert sent
        assert sent <= self.sees

    def test_one_cluster_is_the_mean(self, federation: Federation) -> None:
        """One cluster is the mean."""
        rows, _ = rows_for_tests("iris")
        centers, labels, _ = self._pooled(federation, rows, 1)
        assert not labels.any()
        assert inertia_of(rows, centers) <= self.factor * inertia_of(rows, rows.mean(0)[None])

    def test_one_row_at_a_client_is_enough(self, federation: Federation) -> None:
        """One row at a client is enough, or as many as a cluster must have, all clusters so."""
        n = len(federation.clients)
        rows = np.array([[9.0 * i**2] for _ in range(self.smallest) for i in range(n)])
        _, labels, _ = self._pooled(federation, rows, n)
        assert len(np.unique(labels)) == n

    @pytest.mark.parametrize("distinct", [1, 2])
    def test_fewer_distinct_rows_than_clusters(self, federation: Federation, distinct: int) -> None:
        """Fewer distinct rows than clusters leave clusters empty, and a client may have no rows."""
        first, *others = federation.clients
        values = np.array([[2.5, -1e3], [4.5, 0.1]])[:distinct]
        parts = {name: np.repeat(values, 5, axis=0) for name in others}
        parts[first] = np.empty((0, 2))
        centers, labels, inertia = self._fit(federation, parts, 3)
        assert not len(labels[first])
        assert len(np.unique(np.concatenate(list(labels.values())))) == distinct
        assert np.isfinite(centers).all()
        assert np.isnan(inertia) or inertia < 1e-6

    def test_more_clusters_than_rows_are_refused(self, federation: Federation) -> None:
        """More clusters than rows are refused."""
        parts = {name: np.ones((1, 2)) for name in federation.clients}
        k = len(parts) + 1
        with pytest.raises((InvalidInput, PartyError), match=f"rows of all clients.*got {k}"):
            self._fit(federation, parts, k)

    def test_rows_that_are_not_finite_are_refused(self, federation: Federation) -> None:
        """Rows that are not finite are refused."""
        parts = {name: np.full((2, 2), np.nan) for name in federation.clients}
        with pytest.raises((InvalidInput, PartyError), match="must be finite float64"):
            self._fit(federation, parts, 2)

    def test_other_rows_get_the_nearest_centre(self, federation: Federation) -> None:
        """Other rows get the nearest centre, at their client."""
        rows, _ = rows_for_tests("iris")
        first, *_ = federation.clients
        places = dealt(rows, federation.clients, "turns")
        own = PerClient({name: rows[those] for name, those in places.items()})
        clusters = self.open(federation, 3).fit(federation.on_clients(as_given, own))
        new = federation.on_clients(as_given, PerClient({first: rows[:7] + 0.1}), clients=[first])
        labels = federation.on_clients(own_clusters, new, clusters.told, clients=[first])
        said = federation.publish(federation.on_clients(told, labels, clients=[first]))
        centers = federation.publish(clusters.centers).centers
        np.testing.assert_array_equal(said[first].labels, nearest_labels(rows[:7] + 0.1, centers))
