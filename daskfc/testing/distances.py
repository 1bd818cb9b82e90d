"""Conformance suite for secure distances: exact, complete, and sent as shares only."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from daskfc.clustering import ExactPoints
from daskfc.federation import Federation, Local, Message, PerClient, array
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.samples import canonical_positions, opened, sample_digests
from daskfc.linalg import LandmarkEmbedding
from daskfc.pairwise import DistanceTiles
from daskfc.secure.distances import Columns, RowPlan, SecureDistances
from daskfc.stores import ClientStore


class ToldMatrix(Message, route="server → caller", reveals="to the caller a matrix of the server"):
    """A matrix of the server, for a test."""

    values: np.ndarray = array("row", "column", dtype="float64")


def rows_at_client(data: ClientStore) -> np.ndarray:
    """Return a client's rows."""
    return data.rows(0, data.n_samples)


def all_distances(found: DistanceTiles | ExactPoints) -> ToldMatrix:
    """Send the caller all distances."""
    if isinstance(found, ExactPoints):
        return ToldMatrix(found.full())
    return ToldMatrix(np.asarray(found.full()))


def coordinates(embedding: LandmarkEmbedding) -> ToldMatrix:
    """Send the caller the coordinates that landmarks gave."""
    return ToldMatrix(np.ascontiguousarray(embedding.coordinates))


def places(plan: RowPlan) -> ToldMatrix:
    """Send the caller each row's place, one client after the other."""
    return ToldMatrix(np.concatenate(list(plan.positions.values()))[:, None].astype(float))


def to_new(columns: list[Columns]) -> ToldMatrix:
    """Send the caller distances to new rows."""
    return ToldMatrix(np.concatenate([part.distances for part in columns]))


class SecureDistancesTests:
    """Subclass it once per way of opening; define `open`, `federation`, `rows`, `new`."""

    tolerance = 1e-4  # of the mean squared distance, at most

    def open(self, federation: Federation) -> SecureDistances:
        """Return the distances under test, of the rows of all clients."""
        raise NotImplementedError

    def _truth(
        self, federation: Federation, distances: SecureDistances, rows: dict[str, np.ndarray]
    ) -> np.ndarray:
        order = federation.publish(places, distances.plan).values[:, 0].astype(int)
        X = np.concatenate(list(rows.values()))
        ordered = np.empty_like(X)
        ordered[order] = X
        return ordered

    def _close(self, found: np.ndarray, truth: np.ndarray) -> None:
        error = math.sqrt(float(((found - truth) ** 2).mean()))
        assert error <= self.tolerance * truth.mean()

    def test_every_distance_is_there(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """Every distance is there."""
        distances = self.open(federation)
        found = federation.publish(all_distances, distances.blocks("full")).values
        X = self._truth(federation, distances, rows)
        np.testing.assert_array_equal(found, found.T)
        self._close(found, cdist(X, X, "sqeuclidean"))
        assert distances.n_samples == len(X)
        assert distances.dropped == {}

    def test_columns_give_every_distance_to_the_last_bit(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """Columns give every distance to the last bit, or blocks do."""
        distances, n = self.open(federation), sum(map(len, rows.values()))
        found = federation.publish(all_distances, distances.all_pairs("full")).values
        blocks = federation.publish(all_distances, self.open(federation).blocks("full")).values
        np.testing.assert_array_equal(found, blocks)
        if n <= 2 * (distances.n_features + 2):
            assert distances.route == "blocks"
        assert distances.reason

    def test_columns_of_landmarks_span_the_rows(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """Columns of landmarks span the rows."""
        distances = self.open(federation)
        Y = federation.publish(coordinates, distances.columns(1e-9)).values
        X = self._truth(federation, distances, rows)
        self._close(cdist(Y, Y, "sqeuclidean"), cdist(X, X, "sqeuclidean"))

    def test_new_samples_are_measured_to_all(
        self, federation: Federation, rows: dict[str, np.ndarray], new: dict[str, str]
    ) -> None:
        """New samples are measured to all."""
        distances = self.open(federation)
        X = self._truth(federation, distances, rows)
        stores = federation.on_clients(opened, PerClient(new), clients=tuple(new))
        seen = 0
        for panel in distances.to_new_samples(stores)[1]:
            theirs = ClientStore.open(new[panel.owner]).rows(panel.start, panel.stop)
            found = federation.publish(to_new, panel.columns).values
            self._close(found, cdist(X, theirs, "sqeuclidean"))
            seen += panel.stop - panel.start
        assert seen == sum(ClientStore.open(url).n_samples for url in new.values())

    def test_rows_leave_a_client_as_shares_only(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """Rows leave a client as shares only."""
        distances = self.open(federation)
        federation.wait(distances.blocks("full"))
        width = next(iter(rows.values())).shape[1]
        for row in federation.ledger:
            sizes = [size for shape in row.shapes.values() for size in shape[-1:]]
            if row.sender != "server" and width in sizes and row.protection != "coded":
                pytest.fail(f"{row.message} has {width} columns in the clear")
        coded = {row.message for row in federation.ledger if row.protection == "coded"}
        assert coded == {"CodedRows", "CodedDistances", "SealedDigestKey"}


def positions_of(federation: Federation) -> Local:
    """Return the server's order of all samples, for `SecureDistances.of_rows`."""
    digests = federation.ask(sample_digests, digest_keys(federation))
    return federation.on_server(canonical_positions, digests)
