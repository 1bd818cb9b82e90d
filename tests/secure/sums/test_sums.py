"""Sums over real worker processes: values, the ledger, refusals, and clients that leave."""

import os
import signal

import numpy as np
import pytest

from daskfc.errors import DeadlineError, InvalidInput, PartyError, PrivacyError
from daskfc.federation import PerClient
from daskfc.secure.sums import MaskedSum, PlainSum, RecoveringSum, SharedSum
from daskfc.testing.federation import federation_of
from tests.secure.sums import steps

pytestmark = pytest.mark.slow

ROWS = {
    f"client-{i}": np.random.default_rng(i).uniform(-5, 5, (30, 4)).round(3) for i in range(1, 7)
}


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with federation_of(tmp_path_factory.mktemp("stores"), ROWS) as federation:
        yield federation


@pytest.fixture
def federation(processes, tmp_path):
    processes.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=30)
    return processes


def truth(names):
    return np.sum([ROWS[name] for name in names], axis=0)


def values(federation, total):
    found = federation.publish(steps.values_of, total).values
    return found[:-1].reshape(30, 4), found[-1]


@pytest.mark.parametrize("kind", [PlainSum, MaskedSum, RecoveringSum, SharedSum])
def test_every_way_gives_the_sum(federation, kind):
    aggregation = kind(federation)
    parts = federation.on_clients(steps.rows)
    for _ in range(2):  # the second with the keys of the first
        found, bound = values(federation, aggregation.sum(parts, max_abs=5.0))
        np.testing.assert_allclose(found, truth(ROWS), rtol=0, atol=1e-13 + bound)
    assert bound == (0 if kind is PlainSum else pytest.approx(bound))
    kinds = {row.message: row.protection for row in federation.ledger}
    assert kinds.get("PlainPart") == ("plain" if kind is PlainSum else None)
    if kind is not PlainSum:
        sent = [row for row in federation.ledger if row.message == "MaskedPart"]
        assert {row.receiver for row in sent} == {"server"}
        assert len(sent) == 2 * len(ROWS)
        assert all(30 * 4 * 8 <= row.payload_bytes <= 30 * 4 * 8 + 192 for row in sent)
        keys = [row for row in federation.ledger if row.message == "PublicKeys"]
        n = len(ROWS)
        n_keys = {MaskedSum: 4 * n, RecoveringSum: n * (n - 1), SharedSum: 4 * (n - 2) + 2}
        assert len(keys) == n_keys[kind]  # once, not once a sum
    if kind is SharedSum:
        sent = [row for row in federation.ledger if row.message in ("Arrivals", "MaskSum")]
        assert {(row.message, row.sender, row.receiver, row.protection) for row in sent} == {
            *(("Arrivals", "server", name, "plain") for name in ("client-1", "client-2")),
            *(("MaskSum", name, "server", "coded") for name in ("client-1", "client-2")),
        }
        assert len(sent) == 8


@pytest.mark.parametrize("kind", [PlainSum, MaskedSum, RecoveringSum, SharedSum])
def test_a_sum_that_was_prepared_sends_the_same_messages(federation, kind):
    kinds = []
    for prepared in (False, True):
        aggregation, before = kind(federation), len(federation.ledger)
        if prepared:
            aggregation.prepare()
            aggregation.prepare()  # once is enough
        total = aggregation.sum(federation.on_clients(steps.rows), max_abs=5.0)
        found, bound = values(federation, total)
        np.testing.assert_allclose(found, truth(ROWS), rtol=0, atol=1e-13 + bound)
        kinds.append(sorted(row.message for row in list(federation.ledger)[before:]))
    assert kinds[0] == kinds[1]


def test_keys_are_under_way_before_there_is_anything_to_sum(federation):
    sums = MaskedSum(federation)
    sums.prepare()
    federation.wait(sums._keys)
    assert {row.message for row in federation.ledger} == {"PublicKeys"}


@pytest.mark.parametrize("kind", [PlainSum, MaskedSum, RecoveringSum, SharedSum])
def test_every_way_sums_the_arrays_of_some_clients_with_their_noise(federation, kind):
    some = ("client-5", "client-2", "client-3")
    aggregation = kind(federation) if kind is PlainSum else kind(federation, clients=some)
    total = aggregation.sum(federation.on_clients(steps.noised, clients=some), max_abs=5.0)
    found, bound = values(federation, total)
    np.testing.assert_allclose(found, truth(some), rtol=0, atol=1e-13 + bound)
    assert sorted(federation.publish(steps.terms_of, total).values) == [2, 3, 5]
    assert {row.sender for row in federation.ledger} - {"server"} == set(some)
    assert {row.receiver for row in federation.ledger} <= {*some, "server", "caller"}
    parts = [row for row in federation.ledger if row.message in ("PlainPart", "MaskedPart")]
    assert [row.noise_multiplier for row in parts] == [2.5] * 3


def test_shared_sums_are_those_of_masks_bit_for_bit(federation):
    parts, found = federation.on_clients(steps.rows), []
    for kind in (MaskedSum, SharedSum):
        found.append(values(federation, kind(federation).sum(parts, max_abs=5.0)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_two_honest_clients_are_enough(federation):
    two, three = tuple(ROWS)[:2], tuple(ROWS)[:3]
    MaskedSum(federation, clients=two)
    with pytest.raises(PrivacyError, match="2 clients, 1 of which may collude"):
        MaskedSum(federation, clients=two, n_colluding=1)
    MaskedSum(federation, clients=three, n_colluding=1)
    parts = federation.on_clients(steps.rows, clients=two)
    revealed = MaskedSum(federation, clients=two, n_colluding=1, allow_few=True)
    found, bound = values(federation, revealed.sum(parts, max_abs=5.0))
    np.testing.assert_allclose(found, truth(two), rtol=0, atol=1e-13 + bound)


def test_a_start_of_the_run_has_new_masks(processes, tmp_path):
    seen = []
    for _ in range(2):
        processes.start_run("same", random_state=0, workspace=str(tmp_path), deadline_s=30)
        aggregation = MaskedSum(processes)
        aggregation._name = "same"  # even if tags came again
        parts = processes.on_clients(steps.rows)
        values(processes, aggregation.sum(parts, max_abs=5.0))
        seen.append(processes.publish(steps.trace, aggregation._keys, party="client-1").values)
    assert seen[0].tolist() != seen[1].tolist()


class Watched:
    """A federation that keeps what the server is given to add up."""

    def __init__(self, federation):
        self._federation = federation
        self.sent = []

    def __getattr__(self, name):
        return getattr(self._federation, name)

    def on_server(self, step, *arguments):
        self.sent.append(arguments[0])
        return self._federation.on_server(step, *arguments)


def test_two_sums_in_one_run_share_no_masks(federation):
    """As where a method makes a MaskedSum a round: the same array looks unlike in each."""
    watched = Watched(federation)
    parts = federation.on_clients(steps.rows)
    for _ in range(2):
        values(federation, MaskedSum(watched).sum(parts, max_abs=5.0))
    seen = [
        federation.publish(steps.masked_values, sent["client-1"]).values for sent in watched.sent
    ]
    assert not (seen[0] == seen[1]).any()


@pytest.mark.parametrize(("n", "threshold"), [(2, 2), (3, 2), (4, 3), (5, 4), (6, 4)])
def test_two_thirds_rounded_up_must_remain(federation, n, threshold):
    assert RecoveringSum(federation, clients=tuple(ROWS)[:n]).threshold == threshold


def test_refusals(federation):
    parts = federation.on_clients(steps.too_large)
    with pytest.raises(PartyError, match="exceed the agreed magnitude"):
        values(federation, MaskedSum(federation).sum(parts, max_abs=5.0))
    few = PerClient({"client-1": parts["client-1"]})
    with pytest.raises(InvalidInput, match="needs an array of each; got 1"):
        MaskedSum(federation).sum(few, max_abs=5.0)
    with pytest.raises(PrivacyError, match="6 clients, 5 of which may collude"):
        MaskedSum(federation, n_colluding=5)
    for threshold in (1, 4, 7):  # with 4 and 3 that collude one were alone
        with pytest.raises(InvalidInput, match=r"must be in \[5, 6\]"):
            RecoveringSum(federation, threshold=threshold, n_colluding=3)


class Interrupted(RecoveringSum):
    """Loses a client before the answers of one stage are waited for."""

    leaves = None  # (stage, client)
    stage = 0

    def _in_time(self, handles, least):
        self.stage += 1
        if self.leaves is not None and self.stage == self.leaves[0]:
            self._federation.processes.forget(self.leaves[1])
        return super()._in_time(handles, least)


def test_clients_that_leave_at_each_stage(tmp_path):
    """Keys, shares, parts, unmasking; one client less each time, down to two."""
    with federation_of(tmp_path, ROWS) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=1.5)
        names = list(ROWS)
        parts = federation.on_clients(steps.rows)
        federation.wait(parts)
        for stage, gone in enumerate(["client-6", "client-2", "client-4", "client-5"], start=1):
            sums = Interrupted(federation, threshold=2, patience_s=60, sums_per_batch=1)
            sums.leaves = (stage, gone)
            names.remove(gone)
            left = PerClient({n: parts[n] for n in ROWS if n in names or n == gone})
            total = sums.sum(left, max_abs=5.0)
            terms = {f"client-{int(t)}" for t in federation.publish(steps.terms_of, total).values}
            assert set(names) <= terms <= {*names, gone}  # it may have answered before it left
            found, bound = values(federation, total)
            np.testing.assert_allclose(found, truth(terms), rtol=0, atol=1e-13 + bound)
        left = PerClient({name: parts[name] for name in names})
        sums = RecoveringSum(federation, threshold=2)
        found, _ = values(federation, sums.sum(left, max_abs=5.0))
        np.testing.assert_allclose(found, truth(names), rtol=0, atol=1e-13)
        one = PerClient({names[0]: parts[names[0]]})
        with pytest.raises(DeadlineError, match="1 clients are left of a sum that needs 2"):
            sums.sum(one, max_abs=5.0)


class Sharing(SharedSum):
    """Loses a client where the clients are waited for: for keys first, then for arrays."""

    leaves, stage = None, 0  # (stage, client)

    def _leave(self):
        self.stage += 1
        if self.leaves is not None and self.stage == self.leaves[0]:
            self._federation.processes.forget(self.leaves[1])

    def _in_time(self, handles, least):
        self._leave()
        return super()._in_time(handles, least)

    def _whole(self, sent, there):
        self._leave()
        return super()._whole(sent, there)


def test_clients_that_leave_a_shared_sum(tmp_path):
    """Before keys, and before or after their arrays."""
    with federation_of(tmp_path, ROWS) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=1.5)
        names = list(ROWS)
        parts = federation.on_clients(steps.rows)
        federation.wait(parts)
        for stage, gone in enumerate(["client-6", "client-4"], start=1):
            sums = Sharing(federation, clients=tuple(names), threshold=2, patience_s=60)
            sums.leaves = (stage, gone)
            names.remove(gone)
            for _ in range(2):  # the second without it from the beginning
                total = sums.sum(parts.only((*names, gone)), max_abs=5.0)
                told = federation.publish(steps.terms_of, total).values
                terms = {f"client-{int(one)}" for one in told}
                assert set(names) <= terms <= {*names, gone}  # it may have answered before
                found, bound = values(federation, total)
                np.testing.assert_allclose(found, truth(terms), rtol=0, atol=1e-13 + bound)
            assert terms == set(names)


def test_a_sum_whose_aggregator_is_away_ends_and_names_it(tmp_path):
    """Before its masks, and before its keys."""
    with federation_of(tmp_path, {n: ROWS[n] for n in tuple(ROWS)[:4]}) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=1.5)
        parts = federation.on_clients(steps.rows)
        federation.wait(parts)
        sums = Sharing(federation, threshold=2, patience_s=60)
        sums.leaves = (3, "client-2")
        values(federation, sums.sum(parts, max_abs=5.0))
        with pytest.raises(DeadlineError, match=r"party 'client-2' has been away for 1\.5 s"):
            values(federation, sums.sum(parts, max_abs=5.0))
        with pytest.raises(
            DeadlineError, match=r"one of client-1, client-2 is away|\d clients are"
        ):
            SharedSum(federation, threshold=2, patience_s=0.5).sum(parts, max_abs=5.0)


def test_a_killed_client_or_aggregator_comes_back_and_changes_nothing(tmp_path):
    with federation_of(tmp_path, ROWS) as federation:
        federation.start_run("run", random_state=0, workspace=str(tmp_path), deadline_s=60)
        sums = SharedSum(federation, patience_s=60)
        parts = federation.on_clients(steps.rows)
        expected, _ = values(federation, sums.sum(parts, max_abs=5.0))
        for name in ("client-5", "client-1"):
            pid = federation.processes.pid(name)
            os.kill(pid, signal.SIGKILL)
            found, _ = values(federation, sums.sum(parts, max_abs=5.0))
            np.testing.assert_array_equal(found, expected)
            assert federation.processes.pid(name) != pid
