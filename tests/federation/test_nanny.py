"""The process beside a party's worker: runs it begins or declines, and what it says of it."""

import asyncio
import datetime
import os
import re
from dataclasses import asdict, replace
from types import SimpleNamespace

import psutil
import pytest
from distributed import Nanny
from distributed.core import Status

from daskfc.errors import ClusterError
from daskfc.federation.party.gate import Admitted
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.worker import nanny as module
from daskfc.federation.worker.guard import PartyWorker, declined
from daskfc.federation.worker.nanny import PartyNanny, _connected


def run_of(run_id="r", start="1", driver="me"):
    return RunSettings(run_id, 0, start=start, driver=driver)


class Worker:
    """Stands for the worker process; keeps what it is told."""

    def __init__(self, answer=None):
        self.told, self.nonces = [], []
        self.answer = answer or {"status": "OK"}
        self.worker_kwargs, self.pid, self.worker_address = {}, None, None

    async def daskfc_start_run(self, run, nonce, submitter, until, seal):
        self.told.append(run)
        self.nonces.append(nonce)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def options(tmp_path):
    return PartyOptions("a", "client", str(tmp_path))


@pytest.fixture
def at_nanny(options):
    """Runs a coroutine function at a nanny that was made and not started."""

    def run(function, **arguments):
        async def whole():
            nanny = PartyNanny(
                "tcp://127.0.0.1:9",
                party=options,
                local_directory=options.scratch,
                **arguments,
            )
            own = nanny.rpc
            try:
                return await function(nanny)
            finally:
                nanny.process, nanny.rpc = None, own
                await nanny.close()

        return asyncio.run(whole())

    return run


def with_worker(nanny, answer=None):
    """Give it a worker process that runs."""
    worker = Worker(answer)
    worker.worker_address = "tcp://127.0.0.1:5"
    nanny.process = worker
    nanny.rpc = {worker.worker_address: worker}.__getitem__
    nanny.status = Status.running
    return worker


def test_a_nanny_is_its_party(at_nanny, options):
    async def look(nanny):
        assert (nanny.name, nanny.Worker) == ("a", PartyWorker)
        assert nanny.worker_kwargs["party"] is nanny._party is nanny._given is options
        assert nanny.handlers["daskfc_start_run"] == nanny.start_run
        assert nanny.handlers["daskfc_processor_seconds"] == nanny.processor_seconds
        opened = {name for name in nanny.handlers if name not in nanny.blocked_handlers}
        assert {"daskfc_start_run", "daskfc_end_run"} <= opened
        assert not {"run", "get_logs", "plugin_add", "plugin_remove"} & opened
        assert await nanny.plugin_add(object(), name="spy") == {"status": "OK"}
        assert "spy" not in nanny.plugins

    at_nanny(look)


def test_a_name_may_be_given(at_nanny):
    async def name(nanny):
        return nanny.name

    assert at_nanny(name, name="other") == "other"


def test_processor_time_is_that_of_the_worker_process(at_nanny):
    async def look(nanny):
        assert nanny.processor_seconds() is None  # there is no process
        nanny.process = Worker()
        assert nanny.processor_seconds() is None
        nanny.process.pid = os.getpid()
        before = psutil.Process().cpu_times()
        seconds = nanny.processor_seconds()
        after = psutil.Process().cpu_times()
        assert isinstance(seconds, float)
        assert before.user + before.system <= seconds <= after.user + after.system
        nanny.process.pid = 2**22 + 1  # no process has this number
        assert nanny.processor_seconds() is None

    at_nanny(look)


def test_processor_time_adds_what_the_system_did(at_nanny, monkeypatch):
    async def look(nanny):
        monkeypatch.setattr(nanny, "_of_worker", lambda ask: SimpleNamespace(user=2.0, system=0.5))
        return nanny.processor_seconds()

    assert at_nanny(look) == 2.5


# -- runs -----------------------------------------------------------------------------------------


def test_a_run_is_told_to_the_worker_and_kept_for_the_next(at_nanny):
    async def look(nanny):
        worker = with_worker(nanny, {"status": "declined"})
        assert await nanny.start_run(asdict(run_of())) == {"status": "declined"}
        assert worker.told == [asdict(run_of())]
        assert nanny._party.run == run_of()
        assert worker.nonces == [nanny._party.nonce]
        assert nanny.worker_kwargs["party"] is worker.worker_kwargs["party"] is nanny._party
        assert nanny._given is nanny._party

    at_nanny(look)


@pytest.mark.parametrize(
    ("role", "left"),
    [
        ("server", {"last-results/a/x", "work-1/fits/kept", "start-1/fits/kept"}),
        ("client", {"last-results/a/x"}),
    ],
)
def test_a_run_that_ends_leaves_ledgers_and_logs(at_nanny, options, tmp_path, role, left):
    own = tmp_path / "own"

    def party_of(workspace):
        run = replace(run_of(), workspace=workspace, name="night")
        return replace(options, name="a", role=role, folder=str(own), run=run)

    def make(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    ours = {party_of(f"runs/r/{fit}").run_folder() for fit in ("FedSC", "evaluation")}
    other = party_of("runs/s/FedSC").run_folder()
    for folder in (*ours, other, own / "work-1", own / "start-1"):
        for name in ("ledger.jsonl", "party.log", "fits/kept"):
            make(folder / name)
    make(own / "last-results" / "a" / "x")

    async def end(nanny):
        nanny._party = party_of("runs/r/evaluation")
        wrong = await nanny.end_run(asdict(run_of(start="2")))
        assert "takes the end of the run that it is in from whoever began" in wrong["sentence"]
        assert all((folder / "fits" / "kept").exists() for folder in ours)
        assert await nanny.end_run(asdict(nanny._party.run)) == {"status": "OK"}
        nanny._party = options  # nothing of its own
        assert (await nanny.end_run(asdict(run_of())))["status"] == "declined"

    at_nanny(end)
    files = {str(path.relative_to(own)) for path in own.rglob("*") if path.is_file()}
    left |= {f"{other.relative_to(own)}/fits/kept"} if role == "server" else set()
    kept = {file for file in files if file.endswith(("ledger.jsonl", "party.log"))}
    assert files - kept == left
    assert len(kept) == 2 * len({*ours, other, 1, 2})


@pytest.mark.parametrize("status", [None, Status.starting])
def test_a_run_that_begins_before_the_worker_is_for_its_start(at_nanny, status):
    async def look(nanny):
        if status is not None:
            worker = with_worker(nanny)
            nanny.status = status
        assert await nanny.start_run(asdict(run_of())) == {"status": "OK"}
        assert nanny._party.run == run_of()
        if status is not None:
            assert worker.told == []

    at_nanny(look)


def test_a_worker_that_cannot_be_reached_is_asked_again(at_nanny):
    async def look(nanny):
        with_worker(nanny, ConnectionResetError("gone"))
        answer = await nanny.start_run(asdict(run_of()))
        assert answer == {"status": "error", "kind": "ConnectionResetError"}

    at_nanny(look)


def test_a_run_has_a_name_that_a_folder_can_have(at_nanny):
    async def look(nanny):
        answer = await nanny.start_run({"run_id": "../out", "random_state": 0})
        assert (answer["status"], answer["kind"]) == ("declined", "InvalidInput")
        assert "the name of a run" in answer["sentence"]
        assert nanny._party.run is None

    at_nanny(look)


class Events:
    """A scheduler that tells, from question to question, whether a client is connected."""

    def __init__(self, *connected):
        self.connected, self.topics = list(connected), []

    async def events(self, topic):
        self.topics.append(topic)
        there = self.connected.pop(0) if len(self.connected) > 1 else self.connected[0]
        return ((0.0, {"action": "add-client" if there else "remove-client"}),)


@pytest.fixture
def clock(monkeypatch):
    """The time of day stands still, and pauses are noted."""
    clock = SimpleNamespace(now=1_700_000_000.0, pauses=[])
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: clock.now))

    async def sleep(seconds):
        clock.pauses.append(seconds)
        assert len(clock.pauses) < 100, "it waits without end"
        await asyncio.sleep(0)  # others go on

    fake = SimpleNamespace(Lock=asyncio.Lock, sleep=sleep)
    monkeypatch.setattr(module, "asyncio", fake)
    return clock


def test_a_second_driver_is_declined_while_the_first_is_connected(at_nanny, clock):
    async def look(nanny):
        nanny.scheduler = Events(True)
        await nanny.start_run(asdict(run_of("first", driver="one")))
        clock.now += 100.0
        await nanny.start_run(asdict(run_of("first", driver="one")))  # asked again
        answer = await nanny.start_run(asdict(run_of("second", driver="two")))
        since = datetime.datetime.fromtimestamp(1_700_000_000).astimezone()
        assert answer == {
            "status": "declined",
            "kind": "ClusterError",
            "sentence": "party 'a' has been in run 'first' of another driver since "
            f"{since:%Y-%m-%d %H:%M:%S %Z}. Wait until that has ended or closed its federation.",
        }
        assert nanny._party.run.run_id == "first"
        assert nanny.scheduler.topics == ["one"] * 10
        assert clock.pauses == [0.1] * 9  # between the looks
        await nanny.start_run(asdict(run_of("first", start="2", driver="one")))
        answer = await nanny.start_run(asdict(run_of("second", driver="two")))
        assert (
            f"since {since + datetime.timedelta(seconds=100):%Y-%m-%d %H:%M:%S %Z}"
            in answer["sentence"]
        )

    at_nanny(look)


def test_another_submitter_is_not_the_driver_that_it_says_it_is(at_nanny, clock):
    """The name of a driver's client is no secret; nor is that of its run told to others."""

    async def look(nanny):
        nanny.scheduler, who = Events(True), ["alice"]
        nanny._gate = SimpleNamespace(
            submitter=lambda settings, proof: who[0],
            admit=lambda settings, proof: Admitted(b"n", who[0]),
        )
        await nanny.start_run(asdict(run_of("first", driver="one")))
        assert await nanny.start_run(asdict(run_of("next", driver="one"))) == {"status": "OK"}
        who[0] = "bob"
        answer = await nanny.start_run(asdict(run_of("second", driver="one")))
        assert "has been in a run of another driver since" in answer["sentence"]
        assert nanny._party.run.run_id == "next"

    at_nanny(look)


def test_a_driver_whose_time_is_over_makes_place(at_nanny, clock):
    async def look(nanny):
        nanny.scheduler, later = Events(True), clock.now + 60.0
        nanny._gate = SimpleNamespace(
            submitter=lambda settings, proof: None,
            admit=lambda settings, proof: Admitted(b"n", None, later),
        )
        await nanny.start_run(asdict(run_of("first", driver="one")))
        clock.now += 59.0
        answer = await nanny.start_run(asdict(run_of("second", driver="two")))
        assert answer["status"] == "declined"
        clock.now += 2.0
        assert await nanny.start_run(asdict(run_of("second", driver="two"))) == {"status": "OK"}

    at_nanny(look)


def test_drivers_that_are_declined_do_not_wait_for_each_other(at_nanny, clock):
    async def look(nanny):
        nanny.scheduler = Events(True)
        await nanny.start_run(asdict(run_of("first", driver="one")))
        looking = []

        async def declined_after(driver):
            answer = await nanny.start_run(asdict(run_of("second", driver=driver)))
            looking.append(len(nanny.scheduler.topics))
            return answer["status"]

        answers = await asyncio.gather(declined_after("two"), declined_after("three"))
        assert answers == ["declined"] * 2
        assert looking == [19, 20]  # they looked in turn, not one after the other's last look

    at_nanny(look)


def test_the_hold_of_a_driver_that_has_gone_is_no_more(at_nanny, clock):
    async def look(nanny):
        nanny.scheduler = Events(True, True, False)
        await nanny.start_run(asdict(run_of("first", driver="one")))
        assert await nanny.start_run(asdict(run_of("second", driver="two"))) == {"status": "OK"}
        assert nanny._party.run == run_of("second", driver="two")
        assert clock.pauses == [0.1] * 2

    at_nanny(look)


@pytest.mark.parametrize(
    ("actions", "connected"),
    [
        ([], False),
        (["add-client"], True),
        (["add-client", "remove-client"], False),
        (["add-client", "remove-client", "add-client"], True),
        (["add-client", "update-graph"], True),
        (["add-client", "remove-client", "client-releases-keys"], False),
        (["update-graph"], True),  # its arrival was dropped
        ([None], True),
    ],
)
def test_what_a_scheduler_noted_of_a_client(actions, connected):
    assert _connected((float(i), {"action": one}) for i, one in enumerate(actions)) is connected


def test_what_is_no_note_of_the_scheduler_says_nothing():
    assert _connected([(0.0, "text"), (1.0, ["add-client"])]) is False
    assert _connected([(0.0, {"action": "add-client"}), (1.0, "text")]) is True


# -- starting -------------------------------------------------------------------------------------


@pytest.fixture
def start(monkeypatch, options):
    """What the start of a worker process does, instead of starting one."""
    start = SimpleNamespace(status=Status.running, meanwhile=None, given=[])
    real = Nanny.instantiate

    async def instantiate(nanny):
        if nanny.worker_kwargs["party"].scratch != options.scratch:
            return await real(nanny)  # of a federation of other tests, whose worker just died
        assert nanny._starting.locked()
        start.given.append(nanny.worker_kwargs["party"])
        if start.meanwhile is not None:
            await start.meanwhile(nanny)
        return start.status

    monkeypatch.setattr(Nanny, "instantiate", instantiate)
    return start


def test_a_worker_starts_with_the_run_under_way(at_nanny, start):
    async def look(nanny):
        await nanny.start_run(asdict(run_of()))
        worker = with_worker(nanny)
        assert await nanny.instantiate() == Status.running
        assert start.given == [nanny._party] == [nanny._given]
        assert start.given[0].run == run_of()
        assert worker.told == []
        assert not nanny._starting.locked()

    at_nanny(look)


@pytest.mark.parametrize("status", [Status.running, Status.failed])
def test_a_run_that_begins_while_a_worker_starts_is_told_to_it(at_nanny, start, status):
    async def begin(nanny):
        nanny.status = Status.starting
        await nanny.start_run(asdict(run_of("new")))

    async def look(nanny):
        worker = with_worker(nanny)
        start.meanwhile, start.status = begin, status
        assert await nanny.instantiate() == status
        assert worker.told == ([asdict(run_of("new"))] if status == Status.running else [])

    at_nanny(look)


def memory(nanny, monkeypatch, used, limit=200_000_000, share=0.95):
    nanny.memory_manager = SimpleNamespace(memory_limit=limit, memory_terminate_fraction=share)
    nanny.process = Worker()
    nanny.process.pid = os.getpid()
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: SimpleNamespace(rss=used))


def test_a_worker_that_would_be_stopped_at_once_is_refused(at_nanny, start, monkeypatch):
    sentence = (
        "party 'a' needs 190 MB before its first step, and is stopped at 95% of its memory_limit "
        "of 200 MB. Raise the limit."
    )

    async def look(nanny):
        memory(nanny, monkeypatch, used=190_000_000)
        with pytest.raises(ClusterError, match=f"^{re.escape(sentence)}$"):
            await nanny.instantiate()
        await nanny.start_run(asdict(run_of()))
        assert await nanny.instantiate() == Status.running  # in a run it is started again

    at_nanny(look)


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        ({"used": 189_999_999}, True),
        ({"used": 190_000_000}, False),
        ({"used": 10**12, "limit": None}, True),
        ({"used": 10**12, "share": False}, True),
    ],
)
def test_a_worker_has_room_below_its_limit(at_nanny, monkeypatch, limits, fits):
    async def look(nanny):
        memory(nanny, monkeypatch, **limits)
        assert (nanny._memory_refusal() is None) is fits
        nanny.process.pid = None
        assert nanny._memory_refusal() is None

    at_nanny(look)


def test_what_is_declined_tells_its_class_and_sentence():
    assert declined(ClusterError("not now.")) == {
        "status": "declined", "kind": "ClusterError", "sentence": "not now."
    }  # fmt: skip
