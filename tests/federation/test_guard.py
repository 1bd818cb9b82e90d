"""The guard on real worker processes: what is refused, how fast, and that nothing hangs."""

import asyncio
import operator
import threading
import time

import numpy as np
import pytest

from daskfc.errors import EgressRefused, InvalidInput, PartyError, PrivacyError
from daskfc.federation import PerClient
from daskfc.federation.messages.wire_format import sealed
from daskfc.federation.steps.calls import StepCall, call_bytes
from daskfc.federation.worker.connections import Connection
from daskfc.federation.worker.guard import hand_over, run_step
from tests.federation import steps
from tests.federation.conftest import ROWS


def timed_refusal(read):
    started = time.monotonic()
    with pytest.raises(EgressRefused) as refusal:
        read()
    assert time.monotonic() - started < 10.0  # at once, where a hang would last for ever
    return str(refusal.value)


@pytest.mark.parametrize("direct", [True, False], ids=["from the worker", "through the scheduler"])
def test_raw_data_gathered_by_the_driver_is_refused(federation, direct):
    local = federation.on_client("client-1", steps.raw_rows)
    federation.wait(local)
    sentence = timed_refusal(
        lambda: federation.dask_client.gather(local.futures["client-1"], direct=direct)
    )
    assert sentence == (
        "party 'client-1' was asked by 'caller' for a ndarray, which is no declared message. "
        "Nothing was sent; return a Message from the step."
    )
    assert len(federation.ledger) == 0


def test_raw_data_pulled_by_a_peer_is_refused(federation):
    local = federation.on_client("client-1", steps.raw_rows)
    federation.wait(local)
    pull = federation.dask_client.submit(
        operator.neg, local.futures["client-1"], resources={"client-2": 1}, pure=False
    )
    sentence = timed_refusal(lambda: federation.dask_client.gather(pull))
    assert "asked by 'client-2' for a ndarray" in sentence
    assert len(federation.ledger) == 0


def test_a_message_for_another_party_is_refused(federation):
    sent = federation.ask(steps.row_sum, clients=["client-1"])["client-1"]
    federation.wait(sent)
    pull = federation.dask_client.submit(
        type, sent.futures["server"], resources={"client-3": 1}, pure=False
    )
    sentence = timed_refusal(lambda: federation.dask_client.gather(pull))
    assert "asked by 'client-3' for Vector, which is for 'server'" in sentence


def test_a_refusal_ends_the_run_until_the_next(federation, processes):
    heard = threading.Event()
    federation.dask_client.subscribe_topic(
        "daskfc-refusals", lambda event: (federation._refusals.hear(event), heard.set())
    )
    local = federation.on_client("client-1", steps.raw_rows)
    with pytest.raises(EgressRefused):
        federation.dask_client.gather(local.futures["client-1"])
    assert heard.wait(10)
    for verb in (federation.on_clients, federation.ask, federation.on_server):
        with pytest.raises(EgressRefused, match="party 'client-1' was asked by 'caller'"):
            verb(steps.keep_pid)
    federation.start_run("after-refusal", random_state=0)
    assert federation.publish(steps.where, party="client-1").party == "client-1"


@pytest.fixture
def heard(federation):
    """Tell when the driver has heard of a refusal."""
    told = threading.Event()
    federation.dask_client.subscribe_topic(
        "daskfc-refusals", lambda event: (federation._refusals.hear(event), told.set())
    )
    return told


def test_a_refusal_in_a_step_ends_the_run_though_nobody_waits_for_it(federation, heard):
    federation.ask(steps.not_the_declared, clients=["client-1"])
    assert heard.wait(30)
    with pytest.raises(EgressRefused, match="declares Pair"):
        federation.on_client("client-2", steps.keep_pid)


def test_a_refusal_ends_the_wait_for_others(federation, pipes):
    started, release = pipes
    straggler = federation.publish(steps.held, started, release, party="client-2", wait=False)
    with open(started) as running:
        running.read()
    federation.ask(steps.not_the_declared, clients=["client-1"])
    with pytest.raises(EgressRefused, match="declares Pair"):
        federation.wait(straggler, timeout=30)
    with open(release, "w") as let_go:
        let_go.write("go")


def test_a_refusal_in_a_step_of_the_last_run_does_not_end_this_one(federation, heard, pipes):
    started, release = pipes
    late = federation.ask(steps.held_then_not_the_declared, started, release, clients=["client-1"])
    with open(started) as running:
        running.read()
    federation.start_run("the-next", random_state=0)
    with open(release, "w") as let_go:
        let_go.write("go")
    with pytest.raises(EgressRefused, match="declares Pair"):
        federation.wait(late)
    heard.clear()
    federation.wait(federation.on_client("client-1", steps.tells_of_a_refusal, "another", ""))
    assert heard.wait(30)  # and so of whatever was told before
    assert federation.publish(steps.where, party="client-1").party == "client-1"


@pytest.mark.parametrize("run_id", ["another", None])
def test_a_refusal_of_another_start_ends_nothing(federation, heard, run_id):
    of = run_id or federation.run_id, "an earlier one"
    told = federation.on_client("client-1", steps.tells_of_a_refusal, *of)
    assert heard.wait(30)
    federation.wait(told)
    assert federation.publish(steps.where, party="client-1").party == "client-1"


def test_steps_tell_the_scheduler_nothing(federation):
    federation.wait(federation.on_client("client-1", steps.tells_an_event))
    assert federation.dask_client.get_events("rows") == ()


def test_parties_refuse_by_themselves_after_a_refusal(federation):
    """Even when the driver has not heard of it, the party performs no further step of the run."""
    local = federation.on_client("client-1", steps.raw_rows)
    with pytest.raises(EgressRefused):
        federation.dask_client.gather(local.futures["client-1"])
    federation._refusals.error = None
    run_id = federation._refusals.run_id
    federation._refusals.run_id = "deaf"
    with pytest.raises(EgressRefused, match="for a ndarray"):
        federation.publish(steps.where, party="client-1")
    federation._refusals.run_id = run_id


def test_a_refusal_holds_back_earlier_messages(federation):
    """What the party made before it refused does not leave either, asked behind the driver."""
    earlier = federation.publish(steps.row_sum, party="client-1", wait=False)
    federation.wait(earlier)
    local = federation.on_client("client-1", steps.raw_rows)
    with pytest.raises(EgressRefused):
        federation.dask_client.gather(local.futures["client-1"])
    with pytest.raises(EgressRefused, match="for a ndarray"):
        federation.dask_client.gather(earlier.futures["caller"])
    assert len(federation.ledger) == 0


def test_a_task_that_no_verb_made_is_not_run(federation, tmp_path):
    """Neither a function of the submitter nor one of daskfc's own, and the party goes on."""
    marked = tmp_path / "run"
    for function, arguments in (
        (steps.forged, {"message": steps.a_vector, "run_id": "r", "sender": "client-1"}),
        (hand_over, {"receiver": "caller", "envelopes": {"caller": 3}}),
        (marked.touch, {}),
        (lambda: marked.touch(), {}),
    ):
        future = federation.dask_client.submit(
            function, resources={"client-1": 1}, pure=False, **arguments
        )
        with pytest.raises(EgressRefused, match=r"no step of daskfc\. Nothing was run"):
            federation.dask_client.gather(future)
        assert not marked.exists()
        federation.start_run("next", random_state=0)
    assert federation.publish(steps.row_sum, party="client-1")
    assert len(federation.ledger) == 1


def test_a_message_has_its_row_before_it_is_sent(federation):
    sent = federation.publish(steps.megabytes, 1, party="client-1", wait=False)
    federation.wait(sent)
    key = sent.futures["caller"].key
    federation.wait(federation.on_client("client-1", steps.answers_a_broken_connection, key))
    (row,) = federation.ledger.rows
    assert (row.step, row.sender, row.receiver) == ("megabytes", "client-1", "caller")
    assert row.wire_bytes == row.payload_bytes == 2**20  # not known better


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (steps.pair_wrong_dtype, r"Pair.right as int64 \(3,\); declared uint8 \| uint32 \(n=3,\)"),
        (steps.pair_wrong_lengths, r"Pair.right as uint8 \(4,\); declared .* \(n=3,\)"),
        (steps.pair_wrong_rank, r"Pair.left as float64 \(3, 1\); declared float64 \(n,\)"),
        (steps.not_the_declared, "tried to send Vector; step 'not_the_declared' declares Pair"),
        (steps.more_than_declared, "VectorAndMore; step 'more_than_declared' declares Vector"),
        (steps.a_bare_array, "tried to send a ndarray"),
        (steps.with_a_stowaway, "with 1 attributes that are no fields"),
        (steps.of_a_subclass, "tried to send Longer; step 'of_a_subclass' declares Vector"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_declared_does_not_leave(federation, step, what):
    sent = federation.ask(step, clients=["client-2"])
    with pytest.raises(EgressRefused, match=f"party 'client-2' .*{what}"):
        federation.wait(sent)
    assert len(federation.ledger) == 0


@pytest.mark.parametrize(
    "send",
    [
        lambda f: f.tell(steps.as_message, [1.0, 2.0], axes={"n": 3}),
        lambda f: f.exchange(steps.length_of_name, f.clients, clients=["client-1"], axes={"n": 3}),
        lambda f: f.publish(steps.row_sum, party="client-1", wait=False, axes={"n": 3}),
    ],
    ids=["tell", "exchange", "publish"],
)
def test_sizes_given_by_the_caller_hold_for_every_verb(federation, send):
    with pytest.raises(EgressRefused, match=r"declared float64 \(n=3,\)"):
        federation.wait(send(federation))


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (steps.with_a_pocket, "Pocketed with 1 attributes that are no fields"),
        (steps.with_a_lone_surrogate, "Where.note as str; declared text of at most 1000"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_no_ledger_would_show_is_refused(federation, step, what):
    with pytest.raises(EgressRefused, match=what):
        federation.publish(step, party="client-2")
    assert len(federation.ledger) == 0


def test_an_array_arrives_without_what_its_dtype_carries(federation):
    """A dtype's metadata is pickled with it: 96 bytes of rows crossed as 24 bytes of payload."""
    message = federation.publish(steps.with_metadata, party="client-2")
    assert message.values.dtype.metadata is None
    np.testing.assert_array_equal(message.values, np.zeros(3))
    (row,) = federation.ledger
    assert row.payload_bytes == 24


def test_a_part_of_rows_arrives_without_the_rest(federation):
    message = federation.publish(steps.part_of_a_view, party="client-2")
    np.testing.assert_array_equal(message.values, ROWS["client-2"][::2, 1])
    assert message.values.flags.c_contiguous
    (row,) = federation.ledger
    assert row.payload_bytes == 24


def test_a_class_does_not_decide_how_it_is_sent(federation):
    steps._remembered.clear()
    message = federation.publish(steps.with_own_pickling, party="client-2")
    assert message == steps.Talkative(1)
    assert steps._remembered == {}


def test_nothing_can_be_put_into_a_party(federation):
    """Nor a forged envelope, which would leave it again."""
    addresses = federation._roll_call.addresses()
    worker = next(a for a, name in addresses.items() if name == "client-1")
    for direct in (True, False):
        with pytest.raises(Exception, match="'update_data' handler has been explicitly disallow"):
            federation.dask_client.scatter(3, workers=[worker], direct=direct, timeout=5)


def test_only_envelopes_of_the_party_itself_leave(federation):
    federation.start_run("forged", random_state=0)
    kept = federation.on_client("client-1", steps.forged_by_a_step, run_id=federation.run_id)
    with pytest.raises(EgressRefused, match="for a Outgoing, which is no declared message"):
        federation.dask_client.gather(kept.futures["client-1"])
    assert len(federation.ledger) == 0


def test_a_connection_serves_the_next_request_after_a_refusal(federation):
    for direct in (True, False):  # read by the caller, passed on by the scheduler
        for _ in range(3):
            federation.start_run("another", random_state=0)
            kept = federation.on_client("client-1", steps.vector_of_zeros)
            with pytest.raises(EgressRefused, match="for a Vector, which is no declared message"):
                federation.dask_client.gather(kept.futures["client-1"], direct=direct)
    federation.start_run("another", random_state=0)


def test_a_word_that_comes_after_a_refusal_is_no_request():
    said = iter(["OK", {"op": "identity"}, {"op": "ping"}])

    class Line:
        async def read(self):
            return next(said)

    connection = Connection(Line(), None)
    requests = [asyncio.run(connection.read()) for _ in range(2)]
    assert requests == [{"op": "identity"}, {"op": "ping"}]


def test_the_scheduler_learns_neither_type_nor_size_of_what_is_kept(federation):
    told = []
    for step in (steps.of_a_telling_class, steps.raw_rows):
        local = federation.on_client("client-1", step)
        federation.wait(local)
        key = local.futures["client-1"].key
        told.append(federation.dask_client.run_on_scheduler(_told_of, key=key))
    assert told[0] == told[1]
    assert told[0][0].endswith("Kept")


def _told_of(dask_scheduler, key):
    task = dask_scheduler.tasks[key]
    return task.type, task.nbytes


def test_sizes_given_by_the_caller_hold(federation):
    federation.wait(federation.ask(steps.pair_of, 3, axes={"n": 3}))
    late = federation.ask(steps.pair_of, 4, axes={"n": 3}, clients=["client-1"])
    with pytest.raises(EgressRefused, match=r"float64 \(4,\); declared float64 \(n=3,\)"):
        federation.wait(late)


def test_routes_hold_when_the_graph_is_built_and_at_the_party(federation):
    with pytest.raises(EgressRefused, match="client → server; its routes are client → client"):
        federation.ask(steps.to_server)
    call = StepCall(steps.to_server, {}, "client-1", federation.run_id, 0, "send", ("server",), {})
    future = federation.dask_client.submit(
        run_step,
        sealed(federation.driver_key, call_bytes(call)),
        resources={"client-1": 1},
        pure=False,
    )
    with pytest.raises(EgressRefused, match=r"to 'server' \(client → server\)"):
        federation.dask_client.gather(future)


def test_raw_messages_need_allow_raw(federation):
    with pytest.raises(EgressRefused, match="which is raw data; only a federation opened with"):
        federation.publish(steps.publish_rows, party="client-1")
    federation.allow_raw = True  # the driver's own check is off; the party's is not
    try:
        with pytest.raises(EgressRefused, match="party 'client-1' tried to send RawRows, which is"):
            federation.publish(steps.publish_rows, party="client-1")
        federation.start_run("raw", random_state=0)  # now the parties know
        rows = federation.publish(steps.publish_rows, party="client-1").rows
        np.testing.assert_array_equal(rows, ROWS["client-1"])
        assert [row.protection for row in federation.ledger] == ["raw"]
    finally:
        federation.allow_raw = False


def test_sentences_of_daskfc_cross_with_their_class(federation):
    with pytest.raises(PartyError, match="distances need 31 bits; 24 are there") as failure:
        federation.wait(federation.ask(steps.fails_with_sentence, clients=["client-3"]))
    assert isinstance(failure.value.__cause__, InvalidInput)
    assert type(failure.value.__cause__).__name__ == "OverflowRefused"


def test_handles_are_checked_while_the_graph_is_built(federation):
    local = federation.on_client("client-1", steps.raw_rows)
    words = (
        "step 'as_message' of party 'client-2' may not use the result of 'raw_rows', which stays"
    )
    with pytest.raises(PrivacyError, match=f"{words} at party 'client-1'"):
        federation.on_client("client-2", steps.as_message, local)
    with pytest.raises(PrivacyError, match="stays at party 'client-1'"):
        federation.on_server(steps.total, PerClient({"client-1": [local]}))
    told = federation.tell(steps.as_message, 1.0, clients=["client-1"])
    with pytest.raises(PrivacyError, match="sends to client-1 only"):
        federation.on_client("client-2", steps.scaled, told)
    with pytest.raises(PrivacyError, match="is for client-1, not for the caller"):
        told.result()
    with pytest.raises(InvalidInput, match="reads data, and the server holds none"):
        federation.on_server(steps.raw_rows)
    with pytest.raises(InvalidInput, match="got 'client-9'"):
        federation.on_client("client-9", steps.keep_pid)


def test_parties_are_built_to_share_cores(federation):
    told = federation.publish(steps.how_it_shares, party="clients")
    for name, message in told.items():
        frozen, policy = message.note.split(" frozen, ")
        assert int(frozen) > 10_000, name  # what was imported, in the process it was forked from
        assert policy == "waits passive"


def test_a_message_that_cannot_be_checked_is_refused_and_not_asked_for_without_end(federation):
    sentence = timed_refusal(lambda: federation.publish(steps.breaks_at_the_door, party="client-1"))
    assert sentence == (
        "party 'client-1' could not check what it was asked for (RuntimeError). Nothing was sent; "
        "its party.log says more."
    )
