"""The guard on real worker processes: what is refused, how fast, and that nothing hangs."""

import operator
import threading
import time

import numpy as np
import pytest
from distributed import WorkerPlugin
from distributed.diagnostics.plugin import NannyPlugin

from daskfc.errors import DaskfcError, EgressRefused, InvalidInput, PartyError, PrivacyError
from daskfc.federation import PerClient
from daskfc.federation.guard import run_step
from daskfc.federation.steps import StepCall
from tests.federation import steps
from tests.federation.conftest import ROWS


def timed_refusal(read):
    started = time.monotonic()
    with pytest.raises(EgressRefused) as refusal:
        read()
    assert time.monotonic() - started < 1.0
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


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (steps.pair_wrong_dtype, r"Pair.right as int64 \(3,\); declared uint8 \| uint32 \(n=3,\)"),
        (steps.pair_wrong_lengths, r"Pair.right as uint8 \(4,\); declared .* \(n=3,\)"),
        (steps.pair_wrong_rank, r"Pair.left as float64 \(3, 1\); declared float64 \(n,\)"),
        (steps.not_the_declared, "tried to send Vector; step 'not_the_declared' declares Pair"),
        (steps.a_bare_array, "tried to send a ndarray"),
        (steps.with_a_stowaway, "with 1 attributes that are no fields"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_declared_does_not_leave(federation, step, what):
    sent = federation.ask(step, clients=["client-2"])
    with pytest.raises(EgressRefused, match=f"party 'client-2' .*{what}"):
        federation.wait(sent)
    assert len(federation.ledger) == 0


def test_sizes_given_by_the_caller_hold(federation):
    federation.wait(federation.ask(steps.pair_of, 3, axes={"n": 3}))
    late = federation.ask(steps.pair_of, 4, axes={"n": 3}, clients=["client-1"])
    with pytest.raises(EgressRefused, match=r"float64 \(4,\); declared float64 \(n=3,\)"):
        federation.wait(late)


def test_routes_hold_when_the_graph_is_built_and_at_the_party(federation):
    with pytest.raises(EgressRefused, match="client → server; its routes are client → client"):
        federation.ask(steps.to_server)
    call = StepCall(steps.to_server, {}, "client-1", federation.run_id, 0, "send", ("server",), {})
    future = federation.dask_client.submit(run_step, call, resources={"client-1": 1}, pure=False)
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


@pytest.mark.parametrize(
    "reach",
    [
        lambda client: client.run(dict),
        lambda client: client.run(dict, nanny=True),
        lambda client: client.get_worker_logs(),
        lambda client: client.get_worker_logs(nanny=True),
        lambda client: client.sync(
            client.scheduler.broadcast, msg={"op": "call_stack", "keys": ["a"]}, nanny=False
        ),
        lambda client: client.sync(client.scheduler.broadcast, msg={"op": "profile"}),
        lambda client: client.sync(client.scheduler.broadcast, msg={"op": "get_story", "keys": []}),
        lambda client: client.sync(client.scheduler.broadcast, msg={"op": "keys"}),
        lambda client: client.sync(client.scheduler.broadcast, msg={"op": "dump_state"}),
        lambda client: client.sync(
            client.scheduler.broadcast, msg={"op": "plugin_add", "plugin": b""}, nanny=True
        ),
        lambda client: client.sync(
            client.scheduler.broadcast,
            msg={"op": "upload_file", "filename": "a.py", "data": b""},
        ),
    ],
    ids=[
        "run",
        "run at nannies",
        "logs",
        "logs of nannies",
        "call stack",
        "profile",
        "story",
        "keys",
        "state",
        "nanny plugin",
        "upload",
    ],
)
def test_other_ways_out_are_shut(federation, reach):
    with pytest.raises(Exception, match=r"explicitly disallowed in Party(Worker|Nanny)"):
        reach(federation.dask_client)


def test_plugins_of_the_scheduler_are_not_installed(federation):
    class Spy(WorkerPlugin):
        def setup(self, worker):
            raise AssertionError("it ran")

    class NannySpy(NannyPlugin):
        def setup(self, nanny):
            raise AssertionError("it ran")

    for spy in (Spy(), NannySpy()):
        with pytest.raises(Exception, match="explicitly disallowed"):
            federation.dask_client.register_plugin(spy, name="spy")
        with pytest.raises(Exception, match="explicitly disallowed"):
            federation.dask_client.unregister_worker_plugin("spy", nanny=spy.__class__ is NannySpy)


def test_copies_are_not_made_at_other_parties(federation):
    """Dask's own ways to copy a value to another worker: asked for, and by its memory manager."""
    dask_client = federation.dask_client
    sent = federation.ask(steps.row_sum, clients=["client-1"])["client-1"]
    federation.wait(sent)
    future = sent.futures["server"]
    with pytest.raises(Exception, match="'gather' handler has been explicitly disallowed"):
        dask_client.replicate([future], n=3)
    worker = next(a for a, name in federation._roll_call.addresses().items() if name == "client-2")
    dask_client.run_on_scheduler(_order_copy, key=future.key, worker=worker)
    federation.publish(steps.where, party="client-2")  # later than the order on the same stream
    assert len(dask_client.who_has([future])[future.key]) == 1
    assert [row.step for row in federation.ledger] == ["where"]


def _order_copy(dask_scheduler, key, worker):
    who_has = {key: [w.address for w in dask_scheduler.tasks[key].who_has]}
    message = {"op": "acquire-replicas", "who_has": who_has, "nbytes": {key: 1}}
    dask_scheduler.stream_comms[worker].send({**message, "stimulus_id": "test"})


def test_actors_do_not_answer(federation):
    class Keeper:
        def __init__(self):
            self.rows = [1.0]

        def give(self):
            return self.rows

    made = federation.dask_client.submit(Keeper, actor=True, resources={"client-1": 1}, pure=False)
    with pytest.raises((EgressRefused, ValueError, DaskfcError)):
        federation.dask_client.gather(made).give().result(timeout=5)


@pytest.mark.parametrize("step", [steps.fails_with_values, steps.fails_with_cause])
def test_the_text_of_an_exception_stays_at_its_party(federation, step, tmp_path):
    value = repr(float(ROWS["client-1"][0, 0]))
    with pytest.raises(PartyError) as failure:
        federation.wait(federation.ask(step, clients=["client-1"]))
    error = failure.value
    kind = "ValueError" if step is steps.fails_with_values else "RuntimeError"
    assert str(error) == f"step {step.__name__!r} of party 'client-1' failed: {kind}"
    seen = f"{error!r} {error.__cause__!r} {error.__context__!r} {vars(error)}"
    assert value not in seen
    assert "secret-text" not in seen
    log = (tmp_path / "parties" / "client-1" / "party.log").read_text()
    assert value in log
    assert "Traceback" in log


def test_a_task_that_is_no_step_gives_no_text_either(federation):
    future = federation.dask_client.submit(
        int, "1234.5678 as text", resources={"client-1": 1}, pure=False
    )
    with pytest.raises(PartyError) as failure:
        federation.dask_client.gather(future)
    assert failure.value.kind == "ValueError"
    assert "1234" not in f"{failure.value!r} {failure.value.__cause__!r}"


def test_sentences_of_daskfc_cross_with_their_class(federation):
    with pytest.raises(PartyError, match="distances need 31 bits; 24 are there") as failure:
        federation.wait(federation.ask(steps.fails_with_sentence, clients=["client-3"]))
    assert isinstance(failure.value.__cause__, InvalidInput)
    assert type(failure.value.__cause__).__name__ == "OverflowRefused"


def test_handles_are_checked_while_the_graph_is_built(federation):
    local = federation.on_client("client-1", steps.raw_rows)
    with pytest.raises(PrivacyError, match="'raw_rows', which stays at party 'client-1'"):
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
