"""Ways out of a party other than its messages: Dask's own handlers, plugins, exceptions, files."""

import stat

import pytest
from distributed import WorkerPlugin
from distributed.diagnostics.plugin import NannyPlugin

from daskfc.errors import DaskfcError, EgressRefused, InvalidInput, PartyError
from tests.federation import steps
from tests.federation.conftest import ROWS


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


@pytest.mark.parametrize("nanny", [False, True], ids=["worker", "nanny"])
def test_a_run_leads_no_party_out_of_its_folder(federation, nanny, tmp_path):
    addresses = federation._roll_call.addresses()
    address = next(a for a, name in addresses.items() if name == "client-1")
    client, before = federation.dask_client, federation.run_id
    words = "the name of a run must be usable as the name of"
    for escape in (str(tmp_path / "out"), "../../../out", "", 7):
        run = {"run_id": escape, "random_state": 0}
        if nanny:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            there = client.rpc(workers[address]["nanny"])
            answer = client.sync(there.daskfc_start_run, run=run)
            assert (answer["status"], answer["kind"]) == ("declined", "InvalidInput")
            assert words in answer["sentence"]
        else:
            there = client.rpc(address)
            with pytest.raises(InvalidInput, match=words):
                client.sync(there.daskfc_start_run, run=run, nonce=b"n", submitter=None, seal=b"")
    assert not (tmp_path / "out").exists()
    assert federation.publish(steps.where, party="client-1").party == "client-1"
    assert federation.run_id == before


def test_logs_and_folders_are_their_owners(federation, tmp_path):
    with pytest.raises(PartyError):
        federation.wait(federation.ask(steps.fails_with_values, clients=["client-1"]))
    federation.publish(steps.where, party="client-1")
    federation.start_run("modes", random_state=0, workspace=str(tmp_path / "deep" / "run"))
    federation.publish(steps.where, party="client-1")
    own = tmp_path / "parties" / "client-1"
    assert modes(own / "party.log", own / "ledger.jsonl") == {0o600}
    deep = tmp_path / "deep" / "run" / "parties"
    assert modes(tmp_path / "deep", deep, deep / "client-1", own, own.parent) == {0o700}


def modes(*paths):
    return {stat.S_IMODE(path.stat().st_mode) for path in paths}


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


@pytest.mark.parametrize(
    "way", ["get_client", "worker_client", "batched_stream", "variable", "queue", "event"]
)
def test_steps_find_no_client_of_the_scheduler(federation, way):
    words = "Steps reach no scheduler; return a message in place of that"
    with pytest.raises(PartyError, match=words):
        federation.publish(steps.tells_the_scheduler, way, party="client-1")
    told = federation.dask_client.run_on_scheduler(_told_by_dask)
    assert told == [[], [], []]
    assert len(federation.ledger) == 0


def test_a_lazy_store_is_not_computed_by_the_scheduler(federation):
    """Its tasks could be placed at another party."""
    with pytest.raises(PartyError, match="Steps reach no scheduler"):
        federation.publish(steps.computes_lazily, None, party="client-1")
    assert len(federation.ledger) == 0
    told = federation.publish(steps.computes_lazily, "synchronous", party="client-1")
    assert told.values.tolist() == pytest.approx(ROWS["client-1"].sum(axis=0).tolist())
    assert federation.dask_client.run_on_scheduler(_prefixes_of_arrays) == []


def test_dasks_pages_show_steps_by_name_and_party(federation):
    federation.publish(steps.total_message, federation.ask(steps.row_sum))
    prefixes = federation.dask_client.run_on_scheduler(
        lambda dask_scheduler: list(dask_scheduler.task_prefixes)
    )
    assert {"row_sum|client", "total_message|server"} <= set(prefixes)


def _prefixes_of_arrays(dask_scheduler):
    names = [name for name in dask_scheduler.task_prefixes if "|" not in name]  # of no step
    return [name for name in names if name.startswith(("features", "sum"))]


def _told_by_dask(dask_scheduler):
    extensions = dask_scheduler.extensions
    named = [list(extensions["variables"].variables), list(extensions["queues"].queues)]
    return [list(dask_scheduler.get_events("rows")), *named]


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


@pytest.mark.parametrize("step", [steps.refuses_with_cause, steps.fails_by_itself_with_cause])
def test_what_daskfcs_own_errors_come_from_stays_too(federation, step):
    with pytest.raises((EgressRefused, PartyError), match=r"a sentence of its own|a reason") as got:
        federation.wait(federation.ask(step, clients=["client-1"]))
    error = got.value
    seen = f"{error!r} {error.__cause__!r} {error.__context__!r} {vars(error)}"
    assert repr(float(ROWS["client-1"][0, 0])) not in seen
    assert "KeyError" not in seen


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (steps.fails_with_a_telling_class, "failed: ArithmeticError"),
        (steps.fails_with_a_refusal_that_tells, r"no \\ud800"),
        (steps.fails_with_an_error_that_tells, "failed: sentence"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_neither_class_nor_attributes_of_an_exception_cross(federation, step, sentence):
    value = str(float(ROWS["client-1"][0, 0]))
    with pytest.raises((PartyError, EgressRefused), match=sentence) as failure:
        federation.wait(federation.ask(step, clients=["client-1"]))
    error = failure.value
    assert type(error) in (PartyError, EgressRefused)
    assert value not in f"{error!r} {vars(error)} {error.__cause__!r}"


def test_a_task_that_is_no_step_gives_no_text_either(federation):
    future = federation.dask_client.submit(
        int, "1234.5678 as text", resources={"client-1": 1}, pure=False
    )
    with pytest.raises(EgressRefused) as failure:
        federation.dask_client.gather(future)
    assert "1234" not in f"{failure.value!r} {failure.value.__cause__!r}"
