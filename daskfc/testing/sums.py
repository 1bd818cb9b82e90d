"""Conformance suite for secure sums: what holds whatever protects the parts."""

import numpy as np
import pytest

from daskfc.errors import PartyError
from daskfc.federation import Federation, Message, PerClient, array
from daskfc.privacy import Noised
from daskfc.secure.sums import Aggregation, Total
from daskfc.stores import ClientStore


class SumAtServer(Message, route="server → caller", reveals="to the caller the sum and its error"):
    """A `Total`, for a test."""

    values: np.ndarray = array("row", "column", dtype="float64")
    error_bound: float
    n_terms: int


def at_server(total: Total) -> SumAtServer:
    """Send the caller a sum."""
    return SumAtServer(total.values, total.error_bound, len(total.terms))


def rows_of(data: ClientStore) -> np.ndarray:
    """Return a client's rows, which are summed."""
    return data.rows(0, data.n_samples)


def column_of(data: ClientStore) -> np.ndarray:
    """Return a vector of a client, an eighth of its first column."""
    column: np.ndarray = rows_of(data)[:, 0] / 8
    return column


def noisy_rows(data: ClientStore) -> Noised:
    """Return a client's rows as if they bore noise."""
    return Noised(rows_of(data), 2.5)


def endless(data: ClientStore) -> np.ndarray:
    """Return rows of which one entry is infinite."""
    rows = rows_of(data).copy()
    rows[0, 0] = np.inf
    return rows


class SecureSumTests:
    """Subclass it once per kind of sum; define `open` and fixtures `federation` and `rows`."""

    hides = True

    def open(self, federation: Federation, clients: tuple[str, ...]) -> Aggregation:
        """Return the sum under test, over some clients."""
        raise NotImplementedError

    def _summed(self, federation: Federation, total: object) -> SumAtServer:
        found: SumAtServer = federation.publish(at_server, total)
        return found

    def test_the_sum_is_exact_up_to_its_error_bound(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """The sum is exact up to its error bound."""
        sums = self.open(federation, federation.clients)
        for _ in range(2):  # the second time with what the first agreed on
            found = self._summed(federation, sums.sum(federation.on_clients(rows_of)))
            truth = np.sum(list(rows.values()), axis=0)
            assert found.error_bound < 1e-9 * (1 + np.abs(truth).max())
            np.testing.assert_allclose(found.values, truth, rtol=1e-14, atol=found.error_bound)
            assert found.n_terms == len(rows)

    def test_a_vector_is_a_column_and_some_clients_are_enough(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """A vector is a column and some clients are enough."""
        some = federation.clients[:3]
        parts = federation.on_clients(column_of, clients=some)
        found = self._summed(federation, self.open(federation, some).sum(parts, max_abs=1e3))
        truth = np.sum([rows[name][:, :1] / 8 for name in some], axis=0)
        np.testing.assert_allclose(found.values, truth, rtol=1e-14, atol=found.error_bound)
        assert {row.sender for row in federation.ledger} <= {*some, "server"}

    def test_parts_may_be_made_within_the_step_that_sends_them(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """Parts may be made within the step that sends them, with a stated bound and without."""
        truth = np.sum(list(rows.values()), axis=0)
        for bound in (1e3, None):
            sums = self.open(federation, federation.clients)
            parts = federation.inline(rows_of)
            found = self._summed(federation, sums.sum(parts, max_abs=bound))
            np.testing.assert_allclose(found.values, truth, rtol=1e-14, atol=found.error_bound)

    def test_a_stated_bound_costs_no_message(self, federation: Federation) -> None:
        """A stated bound costs no message."""
        sums = self.open(federation, federation.clients)
        parts = federation.on_clients(rows_of)
        federation.wait(sums.sum(parts, max_abs=1e3))
        assert "Magnitude" not in {row.message for row in federation.ledger}

    def test_what_exceeds_a_stated_bound_is_refused(self, federation: Federation) -> None:
        """What exceeds a stated bound is refused."""
        if not self.hides:
            pytest.skip("nothing is rounded to a bound")
        parts = federation.on_clients(rows_of)
        with pytest.raises(PartyError, match=r"rows_of|masked"):
            self._summed(
                federation, self.open(federation, federation.clients).sum(parts, max_abs=1e-3)
            )

    def test_infinity_is_refused(self, federation: Federation) -> None:
        """Infinity is refused."""
        if not self.hides:
            pytest.skip("nothing is rounded")
        parts = federation.on_clients(endless)
        with pytest.raises(PartyError, match="must be finite"):
            self._summed(federation, self.open(federation, federation.clients).sum(parts))

    def test_the_ledger_has_the_noise(self, federation: Federation) -> None:
        """The ledger has the noise."""
        parts: PerClient = federation.on_clients(noisy_rows)
        sums = self.open(federation, federation.clients)
        federation.wait(sums.sum(parts, max_abs=1e3))
        releases = federation.ledger.releases()
        assert {len(own.events) for own in releases.values()} == {1}
        assert set(releases) == set(federation.clients)

    def test_no_array_of_a_client_goes_in_the_clear(
        self, federation: Federation, rows: dict[str, np.ndarray]
    ) -> None:
        """No array of a client goes in the clear."""
        sums = self.open(federation, federation.clients)
        federation.wait(sums.sum(federation.on_clients(rows_of)))
        shape = list(next(iter(rows.values())).shape)
        clear = [
            row
            for row in federation.ledger
            if row.protection == "plain" and shape in [list(one) for one in row.shapes.values()]
        ]
        assert bool(clear) == (not self.hides)
