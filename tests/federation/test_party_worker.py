"""A party's worker that was made and not started: what it opens, tells and leaves behind."""

import asyncio
import errno
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from dask._task_spec import Task
from distributed import Worker
from distributed.core import Status

from daskfc.errors import ClusterError, EgressRefused, LedgerError, PartyError
from daskfc.federation.identity.versions import HERE
from daskfc.federation.messages.envelopes import Outgoing, Unread
from daskfc.federation.party.gate import Admitted, seal_of_start
from daskfc.federation.party.kept import Kept
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.worker import guard as module
from daskfc.federation.worker.connections import Connection
from daskfc.federation.worker.door import Refused
from daskfc.federation.worker.guard import PartyWorker, _step_of, run_step
from daskfc.federation.worker.memory import peak_memory_bytes
from tests.federation import steps

SCHEDULER = "tcp://127.0.0.1:9"


@pytest.fixture
def at_worker(told, tmp_path):
    """Runs a function at a worker, in a thread of its own: only the main one takes signals."""

    def run(function, run=None, **arguments):
        own = str(tmp_path / "own")
        options = PartyOptions("a", "client", own, threads=3, device="cpu", run=run)

        async def whole():
            worker = PartyWorker(
                SCHEDULER, party=options, local_directory=str(tmp_path / "dask"), **arguments
            )
            try:
                found = function(worker)
                return await found if asyncio.iscoroutine(found) else found
            finally:
                await Worker.close(worker, nanny=False)

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, whole()).result()

    return run


def test_a_worker_is_its_party(at_worker, told):
    def look(worker):
        assert (worker.name, worker.scheduler.address) == ("a", SCHEDULER)
        assert (worker.party.name, worker.party.run) == ("a", None)
        assert worker.handlers["daskfc_describe"] == worker.describe
        assert worker.handlers["daskfc_ledger"] == worker.ledger_rows
        assert worker.handlers["daskfc_peak_memory"] is peak_memory_bytes
        assert worker.handlers["daskfc_start_run"] == worker.start_run
        opened = {name for name in worker.handlers if name not in worker.blocked_handlers}
        assert {"daskfc_describe", "daskfc_peak_memory", "get_data"} <= opened
        assert not {"run", "gather", "get_logs", "plugin_add", "actor_execute"} & opened
        assert worker.stream_handlers["acquire-replicas"](who_has={}, nbytes={}) is None

    at_worker(look)
    assert (told.threads, told.devices) == ([3], ["cpu"])


def test_a_worker_may_be_given_a_name(at_worker):
    assert at_worker(lambda worker: worker.name, name="other") == "other"


def test_a_plugin_is_not_installed(at_worker, told):
    async def add(worker):
        before = set(worker.plugins)
        assert await worker.plugin_add(object(), name="spy") == {"status": "OK"}
        assert set(worker.plugins) == before

    at_worker(add)
    assert told.said == ["a plugin was not installed: parties take none"]


@pytest.mark.parametrize(
    "run", [None, RunSettings("r", 0, start="s")], ids=["in no run", "in a run"]
)
@pytest.mark.parametrize("kind", [EgressRefused, LedgerError])
def test_a_refusal_is_kept_written_down_and_told(at_worker, told, monkeypatch, run, kind):
    events = []
    monkeypatch.setattr(Worker, "log_event", lambda worker, *event: events.append(event))

    def refuse(worker):
        refusal = kind("not 100% plain.")
        worker.refuse(refusal)
        assert worker.party.refusal is refusal

    at_worker(refuse, run)
    event = {"run_id": run and "r", "start": run and "s", "kind": kind.__name__}
    event["sentence"] = "not 100% plain."
    assert [e for e in events if e[0] == "daskfc-refusals"] == [("daskfc-refusals", event)]
    assert told.said == ["not 100% plain."]


def envelopes(*sizes):
    return {
        ("task", i): Outgoing(steps.Vector(np.ones(n)), "a", "server", "sums", "r", 2, {})
        for i, n in enumerate(sizes)
    }


@pytest.mark.parametrize(
    ("written", "sizes"),
    [(16 + 8 + 5, [16 + 3, 8 + 2]), (16 + 8 + 4, [16 + 2, 8 + 2]), (23, [16, 8]), (0, [16, 8])],
)
def test_messages_of_one_answer_share_what_is_no_payload(at_worker, written, sizes):
    def record(worker):
        worker.record(envelopes(2, 1))(written)
        return worker.party.ledger.read("r")

    rows = at_worker(record, RunSettings("r", 0))
    assert [row["wire_bytes"] for row in rows] == sizes
    assert [row["payload_bytes"] for row in rows] == [16, 8]
    assert [row["task"] for row in rows] == ["('task', 0)", "('task', 1)"]
    assert {(row["step"], row["round"], row["sender"]) for row in rows} == {("sums", 2, "a")}


def test_what_steps_took_is_counted_by_step_and_not_by_round(at_worker):
    def count(worker):
        before = dict(worker.digests_total)
        for span in ("first", "second", None):
            worker.digest_metric(("execute", span, "means", "other", "seconds"), 1.0)
        worker.digest_metric(("gather-dep", "network", "seconds"), 2.0)
        worker.digest_metric("latency", 3.0)
        return {name: n for name, n in worker.digests_total.items() if before.get(name) != n}

    assert at_worker(count) == {
        ("execute", None, "means", "other", "seconds"): 3.0,
        ("gather-dep", "network", "seconds"): 2.0,
        "latency": 3.0,
    }


def test_rows_that_cannot_be_completed_stand(at_worker, told):
    def record(worker):
        complete = worker.record(envelopes(2))
        worker.party.ledger.complete = full
        complete(100)
        return worker.party.ledger.read("r")

    def full(marks, sizes):
        raise OSError(errno.ENOSPC, "no room at all")

    (row,) = at_worker(record, RunSettings("r", 0))
    assert row["wire_bytes"] == 16
    assert told.said == ["the bytes on the wire were not written down: no room at all"]


def test_a_failure_holds_the_error_that_crosses_and_no_more(at_worker):
    error = EgressRefused("no.")
    event = at_worker(lambda worker: worker._failure("key", 7, error, "why"))
    assert (event.key, event.run_id, event.stimulus_id) == ("key", 7, "why")
    assert (event.start, event.stop, event.traceback) == (None, None, None)
    assert (event.exception_text, event.traceback_text) == ("EgressRefused('no.')", "")
    crossing = pickle.loads(event.exception.data)
    assert (type(crossing), str(crossing)) == (EgressRefused, "no.")


def test_an_address_is_forgotten_with_its_worker(at_worker, monkeypatch):
    removed = []
    monkeypatch.setattr(
        Worker, "_handle_remove_worker", lambda worker, *given: removed.append(given)
    )

    def remove(worker):
        worker._names = {"tcp://1": "b", "tcp://2": "c"}
        worker._handle_remove_worker("tcp://1", "why")
        worker._handle_remove_worker("tcp://3", "unknown")  # was never asked for
        assert worker._names == {"tcp://2": "c"}

    at_worker(remove)
    assert removed == [("tcp://1", "why"), ("tcp://3", "unknown")]


@pytest.mark.parametrize(
    ("given", "closed"),
    [
        ({}, {"reason": "worker-close"}),
        (
            {"reason": "scheduler-close", "nanny": True},
            {"reason": "scheduler-close", "nanny": True},
        ),
        (
            {"reason": "scheduler-remove-worker", "nanny": True},
            {"reason": "scheduler-remove-worker", "nanny": False},
        ),
        (
            {"reason": "worker-heartbeat-missing"},
            {"reason": "worker-heartbeat-missing", "nanny": False},
        ),
    ],
)
def test_only_a_worker_that_was_taken_for_gone_leaves_its_nanny(
    at_worker, monkeypatch, given, closed
):
    real, told = Worker.close, []

    async def close(worker, *args, **kwargs):
        told.append((args, kwargs))
        return "OK"

    async def end(worker):
        monkeypatch.setattr(Worker, "close", close)
        assert await worker.close(5, **given) == "OK"
        monkeypatch.setattr(Worker, "close", real)

    at_worker(end)
    assert told == [((5,), closed)]


def test_poison_stays_poison_and_raises_only_where_it_is_read():
    poison = Refused(EgressRefused("no."), raises=False)
    for _ in range(2):  # a peer may give it on
        poison = pickle.loads(pickle.dumps(poison))
        assert (type(poison.error), str(poison.error)) == (EgressRefused, "no.")
    with pytest.raises(EgressRefused, match=r"^no\.$"):
        pickle.loads(pickle.dumps(Refused(EgressRefused("no."), raises=True)))


@pytest.mark.parametrize("key", ["means|client-1|ab-0", "means", "means|a|b|c"])
def test_a_step_is_named_by_its_key(key):
    assert _step_of(key) == "means"


# -- requests -------------------------------------------------------------------------------------


def test_a_worker_says_who_it_is(at_worker):
    described = at_worker(lambda worker: worker.describe(), memory_limit="2GB")
    assert described == {
        "party": "a",
        "role": "client",
        "memory_limit": 2 * 10**9,
        "versions": HERE,
    }


def test_a_worker_begins_a_run_of_its_nanny_or_says_why_not(at_worker, tmp_path):
    new, torn = RunSettings("new", 3), RunSettings("torn", 3)

    def begin(worker):
        def sealed(run):
            return seal_of_start(worker.party.options.secret, run, own)

        own = Admitted(b"n", "alice", 9e9)
        seal = sealed(new)
        for run, admitted, shown in (
            (new, own, b""),
            (new, own._replace(nonce=b"m"), seal),
            (new, own._replace(submitter="bob"), seal),
            (new, own._replace(until=None), seal),
            (torn, own, seal),
        ):
            past = worker.start_run(asdict(run), shown, **admitted._asdict())
            assert (past["status"], past["kind"]) == ("declined", "PrivacyError")
        assert worker.party.run is None
        assert worker.start_run(asdict(new), seal, **own._asdict()) == {"status": "OK"}
        assert worker.party.options.until == 9e9
        assert worker.party.run == new
        assert worker.party.options.submitter == "alice"
        (tmp_path / "own" / "torn").write_text("no folder")
        return worker.start_run(asdict(torn), sealed(torn), **own._asdict())

    declined = at_worker(begin)
    assert (declined["status"], declined["kind"]) == ("declined", "LedgerError")
    assert declined["sentence"].startswith("party 'a' cannot write its ledger")


def test_only_a_message_leaves_for_whom_it_is(at_worker, tmp_path):
    def release(worker):
        sent = issued(worker, "server")
        assert worker.release("key", sent, "server") is sent
        with pytest.raises(
            EgressRefused, match=r"^party 'a' was asked by 'b' for Vector, which is for 'server'\. "
        ):
            worker.release("key", sent, "b")
        for value in (Kept(1.5), 1.5):
            with pytest.raises(
                EgressRefused, match=r"^party 'a' was asked by 'b' for a float, which is no decl"
            ):
                worker.release("key", value, "b")
        unknown = Outgoing(sent.message, "a", "server", "sums", "r", 0, {})
        with pytest.raises(EgressRefused, match="in an envelope that it did not make"):
            worker.release("key", unknown, "server")
        worker.party.refusal = EgressRefused("before.")
        with pytest.raises(EgressRefused, match="before"):
            worker.release("key", sent, "server")

    at_worker(release, RunSettings("r", 0))


def issued(worker, receiver):
    envelope = Outgoing(steps.Vector(np.ones(1)), "a", receiver, "sums", "r", 0, {})
    worker.party._issued.add(envelope)
    return envelope


@pytest.mark.parametrize(
    ("who", "receiver", "peer"),
    [(None, "caller", False), ("tcp://1", "b", True)],
)
def test_who_asks_is_known_by_the_address_of_a_worker(at_worker, monkeypatch, who, receiver, peer):
    asked = []

    async def get_data(worker, door, keys, **options):
        asked.append((door._receiver, door._peer, door._comm, door._worker, keys, options))
        return "answered"

    monkeypatch.setattr(Worker, "get_data", get_data)

    async def ask(worker):
        worker.scheduler = Scheduler()
        connection = Connection("line", None)
        assert await worker.get_data(connection, ["k"], who, ["s"]) == "answered"
        assert asked == [
            (receiver, peer, "line", worker, ["k"], {"who": who, "serializers": ["s"]})
        ]
        worker.scheduler = SimpleNamespace(close_rpc=lambda: None)

    at_worker(ask)


def test_who_is_nobody_is_turned_away_without_a_look(at_worker, monkeypatch):
    written = []

    async def write(message):
        written.append(message)

    async def ask(worker):
        worker.scheduler = Scheduler()
        monkeypatch.setattr(PartyWorker, "data", None)  # in which nothing can be looked up
        line = Connection(SimpleNamespace(write=write, peer_address="tcp://9"), None)
        assert await worker.get_data(line, ["k", "l"], "tcp://9") == Status.dont_reply
        worker.scheduler = SimpleNamespace(close_rpc=lambda: None)

    at_worker(ask)
    ((status, data),) = [(one["status"], one["data"]) for one in written]
    assert (status, list(data)) == ("OK", ["k", "l"])
    assert len({str(one.data.error) for one in data.values()}) == 1


class Scheduler:
    """Knows who has which worker."""

    def __init__(self):
        self.asked = 0
        self.workers = {"tcp://1": {"name": "b"}, "tcp://2": {"name": 7}}

    async def identity(self):
        self.asked += 1
        return {"workers": self.workers}

    async def close_rpc(self):
        """There is no connection."""


def test_a_scheduler_is_asked_for_addresses_that_are_not_known(at_worker):
    async def look(worker):
        worker.scheduler = scheduler = Scheduler()
        found = [await worker._party_at(one) for one in ("tcp://1", "tcp://2", "tcp://1")]
        assert (found, scheduler.asked) == (["b", "7", "b"], 1)
        assert await worker._party_at("tcp://3") is None
        scheduler.workers = {"tcp://3": {"name": "c"}}
        assert await worker._party_at("tcp://3") == "c"
        assert (await worker._party_at("tcp://1"), scheduler.asked) == (None, 4)

    at_worker(look)


def test_a_new_connection_skips_words_that_are_no_request(at_worker, monkeypatch):
    monkeypatch.setattr(Worker, "handle_comm", lambda worker, comm: comm)
    comm = at_worker(lambda worker: worker.handle_comm("line"))
    assert (type(comm), comm.comm) == (Connection, "line")


def test_steps_and_dask_tell_the_scheduler_nothing(at_worker, monkeypatch):
    events = []
    monkeypatch.setattr(Worker, "log_event", lambda worker, *event: events.append(event))
    assert at_worker(lambda worker: worker.log_event("rows", [1.5])) is None
    assert events == []


# -- tasks ----------------------------------------------------------------------------------------


@pytest.fixture
def executed(at_worker, monkeypatch):
    """Runs a task at a worker whose part of Dask does what the test says."""

    def run(outcome, inputs=(), refused=None, raised=None, spec=None):
        async def execute(worker, key, *, stimulus_id):
            assert (key, stimulus_id) == ("means|a|0", "why")
            return outcome

        monkeypatch.setattr(Worker, "execute", execute)

        async def whole(worker):
            real = worker.state.tasks
            worker.party.refusal = refused
            dependencies = [SimpleNamespace(key=i) for i in range(len(inputs) + 1)]
            called = spec or Task("means|a|0", run_step, b"")
            task = SimpleNamespace(dependencies=dependencies, run_id=5, run_spec=called)
            if raised is not None:
                worker.crossing["means|a|0"] = raised
            worker.state.tasks = {"means|a|0": task}
            worker.data.update(enumerate(inputs))
            try:
                event = await worker.execute("means|a|0", stimulus_id="why")
            finally:
                worker.state.tasks = real
            return event, worker.party.refusal

        return at_worker(whole, RunSettings("r", 0))

    return run


class Failed(SimpleNamespace):
    """Stands for Dask's event of a task that failed."""


def failure():
    return Failed(run_id=6, stimulus_id="its")


def test_a_task_that_ends_well_is_as_dask_left_it(executed):
    outcome = object()
    assert executed(outcome, inputs=[1.5])[0] is outcome


def test_a_task_with_poison_among_its_inputs_fails_with_it(executed):
    event, _ = executed(object(), inputs=[1.5, Refused(EgressRefused("no."), raises=False)])
    assert (event.key, event.run_id, event.stimulus_id) == ("means|a|0", 5, "why")
    crossing = pickle.loads(event.exception.data)
    assert (type(crossing), str(crossing)) == (EgressRefused, "no.")


@pytest.mark.parametrize("call", [True, False], ids=["the call", "an input"])
def test_a_task_that_there_was_no_memory_to_read_fails_and_ends_no_run(executed, call):
    spec = {"spec": Unread} if call else {}
    event, refusal = executed(object(), inputs=[1.5] if call else [1.5, Unread], **spec)
    crossing = pickle.loads(event.exception.data)
    assert type(crossing) is ClusterError
    assert str(crossing).startswith("there was no memory to send what party 'a' waits for")
    assert refusal is None


def test_of_a_task_that_fails_no_value_crosses(executed, monkeypatch):
    monkeypatch.setattr(module, "ExecuteFailureEvent", Failed)
    event, refusal = executed(failure(), raised=ValueError("1.5"))
    assert (event.key, event.run_id, event.stimulus_id) == ("means|a|0", 6, "its")
    crossing = pickle.loads(event.exception.data)
    assert type(crossing) is PartyError
    assert (crossing.party, crossing.step, crossing.kind) == ("a", "means", "ValueError")
    assert refusal is None


def test_a_refusal_of_the_run_under_way_is_told(executed, monkeypatch):
    monkeypatch.setattr(module, "ExecuteFailureEvent", Failed)
    events = []
    monkeypatch.setattr(Worker, "log_event", lambda worker, *event: events.append(event))
    for refused, told in ((EgressRefused("no."), 1), (EgressRefused("other."), 0), (None, 0)):
        events.clear()
        event, _ = executed(failure(), raised=EgressRefused("no."), refused=refused)
        assert type(pickle.loads(event.exception.data)) is EgressRefused
        assert len([one for one in events if one[0] == "daskfc-refusals"]) == told
