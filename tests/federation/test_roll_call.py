"""Questions to all parties at once, to a scheduler and with a clock of the test's."""

import asyncio
import gc
import re
from types import SimpleNamespace

import pytest

from daskfc.errors import ClusterError, DeadlineError, EgressRefused
from daskfc.federation.driver import roll_call as module
from daskfc.federation.driver.roll_call import RollCall

ADDRESS = "tcp://10.0.0.1:8786"
WORKERS = {"tcp://1": "a", "tcp://2": "b", "tcp://3": "server", "tcp://4": 7}


class Scheduler:
    """What a Dask client holds of its scheduler; answers as told."""

    address = ADDRESS

    def __init__(self):
        self.calls = []
        self.answers = {}  # by address of a worker: an answer, or an exception
        self.working = {"tcp://1": [], "tcp://2": []}
        self.restarted = None

    async def identity(self):
        return {
            "workers": {
                address: {"name": name, "last_seen": float(at)}
                for at, (address, name) in enumerate(WORKERS.items())
            }
        }

    async def versions(self, packages):
        return {"packages": {"python": "3.11", **dict.fromkeys(packages, "1.0")}}

    async def processing(self):
        return self.working

    async def broadcast(self, *, msg, workers, nanny, on_error):
        (address,) = workers
        self.calls.append((address, msg, nanny, on_error))
        answer = self.answers.get(address, "yes")
        if isinstance(answer, BaseException):
            raise answer
        if answer == "hangs":
            await asyncio.Event().wait()
        return {address: answer}

    async def restart_workers(self, **options):
        self.calls.append(("restart", options))
        if self.restarted is not None:
            raise self.restarted
        await asyncio.sleep(0)
        self.calls.append("restarted")

    async def unregister(self, **options):
        self.calls.append(("unregister", options))


class DaskClient:
    def __init__(self):
        self.scheduler = Scheduler()
        self.failure = None
        self.timeouts = []

    def sync(self, function, scheduler, *, callback_timeout, **kwargs):
        self.timeouts.append(callback_timeout)
        if self.failure is not None:
            raise self.failure

        async def run():
            answer = await function(scheduler, **kwargs)
            await asyncio.sleep(0)  # as in a loop that goes on
            return answer

        return asyncio.run(run())


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self):
        self.now = 100.0
        self.slept = []
        self.shortest = 0.0

    def monotonic(self):
        return self.now

    def time(self):
        return 1e9

    def sleep(self, seconds):
        self.slept.append(seconds)
        assert len(self.slept) < 100, "it sleeps without end"
        self.now += max(seconds, self.shortest)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def client():
    return DaskClient()


@pytest.fixture
def calls(client):
    return client.scheduler.calls


@pytest.fixture
def roll_call(client):
    return RollCall(client)


def test_who_is_there_by_address_and_since_when(roll_call):
    assert roll_call.addresses() == {**WORKERS, "tcp://4": "7"}
    assert roll_call.last_seen() == {"a": 0.0, "b": 1.0, "server": 2.0, "7": 3.0}


def test_the_scheduler_tells_its_version_of_daskfc_too(roll_call):
    assert roll_call.scheduler_versions() == {"python": "3.11", "daskfc": "1.0"}


def test_idle_is_when_no_worker_has_a_task(roll_call, client):
    assert roll_call.idle() is True
    client.scheduler.working = {"tcp://1": [], "tcp://2": ["a task"]}
    assert roll_call.idle() is False
    client.scheduler.working = {}
    assert roll_call.idle() is True


def test_every_party_is_asked_by_itself(roll_call, calls):
    assert roll_call.ask("an_op", run="r") == dict.fromkeys(("a", "b", "server", "7"), "yes")
    msg = {"op": "an_op", "run": "r"}
    assert calls == [(address, msg, False, "ignore") for address in WORKERS]


def test_some_parties_are_asked_at_their_nannies(roll_call, calls):
    assert roll_call.ask("an_op", nanny=True, parties=["server", "a", "z"]) == {
        "a": "yes",
        "server": "yes",
    }
    assert calls == [
        ("tcp://1", {"op": "an_op"}, True, "ignore"),
        ("tcp://3", {"op": "an_op"}, True, "ignore"),
    ]
    assert roll_call.ask("an_op", parties=[]) == {}


def test_a_large_request_has_the_time_that_it_takes_to_send(roll_call, client, calls, monkeypatch):
    within, wait_for = [], asyncio.wait_for

    def noted(answer, seconds):
        within.append(seconds)
        return wait_for(answer, seconds)

    monkeypatch.setattr(asyncio, "wait_for", noted)
    roll_call.ask("an_op", parties=["a", "b"], n_bytes=5_000_000)
    assert within == [23.0, 23.0]  # by way of the scheduler, both
    assert client.timeouts[-1] == 53.0
    assert [msg for _, msg, *_ in calls] == [{"op": "an_op"}] * 2


def test_who_has_left_or_hangs_is_not_among_the_answers(roll_call, client, monkeypatch):
    monkeypatch.setattr(module, "_PARTY_S", 0.01)
    client.scheduler.answers = {
        "tcp://1": "hangs",
        "tcp://2": KeyError("tcp://2"),
        "tcp://3": None,
        "tcp://4": TimeoutError(),
    }
    assert roll_call.ask("an_op") == {"server": None}


def test_another_failure_is_not_taken_for_one_who_left(roll_call, client):
    client.scheduler.answers = {"tcp://2": ValueError("a bug")}
    with pytest.raises(ValueError, match="a bug"):
        roll_call.ask("an_op")


def test_processor_time_is_told_by_nannies_that_answer(roll_call, client, calls):
    client.scheduler.answers = {"tcp://1": 1.5, "tcp://2": None, "tcp://3": 0.0}
    assert roll_call.processor_seconds(["a", "b", "server"]) == {"a": 1.5, "server": 0.0}
    msg = {"op": "daskfc_processor_seconds"}
    assert calls == [(f"tcp://{i}", msg, True, "ignore") for i in (1, 2, 3)]


@pytest.mark.parametrize("failure", [None, OSError("no route")])
def test_who_is_signed_off_is_restarted_and_unregistered(roll_call, client, calls, clock, failure):
    client.scheduler.restarted = failure
    roll_call.sign_off(["b", "7", "z"])
    stimulus = "daskfc-sign-off-1000000000.0"
    going = {
        "workers": ["tcp://2", "tcp://4"],
        "timeout": 30.0,
        "wait_for_workers": False,
        "on_error": "return",
        "stimulus_id": stimulus,
    }
    # the nannies are told before the scheduler forgets them
    assert calls[0] == ("restart", going)
    assert [call for call in calls[1:] if call != "restarted"] == [
        ("unregister", {"address": address, "stimulus_id": stimulus})
        for address in ("tcp://2", "tcp://4")
    ]


@pytest.mark.parametrize("failure", [None, OSError("no route")])
def test_nobody_complains_that_nobody_asks_how_a_restart_ended(client, failure):
    client.scheduler.restarted, complaints = failure, []

    async def sign_off():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: complaints.append(context["message"]))
        await module._sign_off(client.scheduler, ["tcp://1"])
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()  # a task says so when it goes

    asyncio.run(sign_off())
    assert complaints == []


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (OSError("x"), "OSError"),
        (TimeoutError(), "TimeoutError"),
        (RuntimeError("x"), "RuntimeError"),
        (ConnectionResetError(), "ConnectionResetError"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_named(roll_call, client, failure, kind):
    client.failure = failure
    sentence = (
        f"the scheduler at {ADDRESS} does not answer any more ({kind}). Start the cluster again "
        "and resume the run."
    )
    with pytest.raises(ClusterError, match=f"^{re.escape(sentence)}$"):
        roll_call.idle()


def test_a_scheduler_has_its_time_to_answer(roll_call, client):
    assert roll_call.patience == 30.0
    roll_call.idle()
    roll_call.patience = 5.0
    roll_call.idle()
    assert client.timeouts == [30.0, 5.0]


def test_a_connection_that_was_lost_is_no_scheduler(roll_call, client):
    client.scheduler = None
    sentence = f"the scheduler at {ADDRESS} does not answer any more (the connection was lost). "
    with pytest.raises(ClusterError, match=f"^{re.escape(sentence)}"):
        roll_call.addresses()


def test_other_failures_are_bugs(roll_call, client):
    client.failure = KeyError("x")
    with pytest.raises(KeyError):
        roll_call.idle()


# -- until everyone has answered ------------------------------------------------------------------


@pytest.fixture
def asked(roll_call, monkeypatch):
    """The questions; the answers are rounds of dicts by party, the last one for ever."""
    told = SimpleNamespace(questions=[], rounds=[])

    def ask(op, *, nanny=False, parties=None, **kwargs):
        told.questions.append((op, nanny, list(parties), kwargs))
        answers = told.rounds.pop(0) if len(told.rounds) > 1 else told.rounds[0]
        return {name: answer for name, answer in answers.items() if name in parties}

    monkeypatch.setattr(roll_call, "ask", ask)
    return told


def test_everyone_answers_in_the_order_of_the_question(roll_call, asked, clock):
    asked.rounds = [{"a": 1, "b": {"status": "OK"}, "c": 0}]
    found = roll_call.everyone(iter(["c", "b", "a"]), "an_op", deadline=5, nanny=True, run="r")
    assert list(found.items()) == [("c", 0), ("b", {"status": "OK"}), ("a", 1)]
    assert asked.questions == [("an_op", True, ["c", "b", "a"], {"run": "r"})]
    assert clock.slept == []


def test_only_those_unheard_are_asked_again(roll_call, asked, clock):
    asked.rounds = [{"a": "first"}, {"b": None}, {"b": {"status": "error"}}, {"b": "last"}]
    assert roll_call.everyone(["a", "b"], "an_op", deadline=5) == {"a": "first", "b": "last"}
    parties = [question[2] for question in asked.questions]
    assert parties == [["a", "b"], ["b"], ["b"], ["b"]]
    assert [question[1] for question in asked.questions] == [False] * 4
    assert clock.slept == [0.1] * 3


def test_who_does_not_answer_in_time_is_named(roll_call, asked, clock):
    asked.rounds = [{"a": "yes"}]
    sentence = (
        "party 'b', 'c' did not answer within 1.5 s. Look whether its worker runs, and into its "
        "party.log."
    )
    with pytest.raises(DeadlineError, match=f"^{re.escape(sentence)}$"):
        roll_call.everyone(["b", "a", "c"], "an_op", deadline=1.5)
    assert 1.5 <= clock.now - 100.0 < 1.7


def test_the_end_of_the_deadline_is_one_question_more(roll_call, asked, clock, monkeypatch):
    monkeypatch.setattr(clock, "shortest", 0.5)
    asked.rounds = [{}]
    with pytest.raises(DeadlineError, match="within 1 s"):
        roll_call.everyone(["a"], "an_op", deadline=1)
    assert len(asked.questions) == 3  # at 0, at 0.5 and at 1 s


@pytest.mark.parametrize(
    ("kind", "error"),
    [("EgressRefused", EgressRefused), ("DeadlineError", DeadlineError), ("Other", ClusterError)],
)
def test_a_party_that_declines_ends_it_at_once(roll_call, asked, clock, kind, error):
    asked.rounds = [{"a": {"status": "declined", "kind": kind, "sentence": "not now."}}]
    with pytest.raises(error, match=r"^not now\.$") as refusal:
        roll_call.everyone(["a", "b"], "an_op", deadline=5)
    assert type(refusal.value) is error
    assert clock.slept == []


def test_the_parties_of_a_federation_answer(federation):
    there = federation._roll_call
    parties = ("client-1", "client-2", "client-3", "server")
    assert set(there.addresses().values()) == set(parties)
    described = there.everyone(parties, "daskfc_describe", deadline=10)
    assert [told["party"] for told in described.values()] == list(parties)
    assert [told["role"] for told in described.values()] == ["client"] * 3 + ["server"]
    seconds = there.processor_seconds(parties[:2])
    assert set(seconds) == set(parties[:2])
    assert all(0 < one < 1000 for one in seconds.values())
    assert there.scheduler_versions()["python"].startswith("3.")
    assert set(federation.peak_memory()) == set(parties)


def test_a_run_begins_whose_preparation_has_a_number_for_each_of_many_samples(
    processes, tmp_path, monkeypatch
):
    """By `normalise` over columns; copied number by number, no party answered before the next."""
    steps = [{"step": "normalise", "lengths": [0.1] * 1_000_000}]
    prepared = SimpleNamespace(steps=dict.fromkeys(processes.clients, steps))
    monkeypatch.setattr(processes, "preparation", prepared)
    monkeypatch.setattr(processes._roll_call, "patience", 15.0)
    processes.start_run("many-samples", random_state=0, workspace=str(tmp_path), deadline_s=30)
