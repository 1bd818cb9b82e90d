"""The driver's half by itself: a federation whose Dask client is the test's."""

import concurrent.futures
import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from daskfc.errors import (
    ClusterError,
    DeadlineError,
    EgressRefused,
    InvalidInput,
    LedgerError,
    PartyError,
)
from daskfc.federation import Federation, Ledger
from daskfc.federation.driver import federation as module
from daskfc.federation.driver.waiting import Refusals
from daskfc.federation.messages.envelopes import Outgoing
from daskfc.federation.party.options import RunSettings
from daskfc.federation.worker.guard import REFUSALS
from tests.federation import steps
from tests.federation.driver import CLIENTS, Future, in_a_run, opened


@pytest.fixture
def federation():
    return in_a_run()


# -- opening --------------------------------------------------------------------------------------


def test_a_federation_begins_in_no_run():
    what = opened(contract="contract", processes="processes")
    federation = Federation(what)
    assert (federation.dask_client, federation.clients) == (what.dask_client, CLIENTS)
    assert (federation.processes, federation.contract) == ("processes", "contract")
    assert (federation.run_id, federation.round) == (None, 0)
    assert (federation.workspace, federation.on_progress) == (None, None)
    assert federation.limits() == {"a": 5}
    assert isinstance(federation.opening_ledger, Ledger)
    assert (len(federation.opening_ledger), len(federation.ledger)) == (0, 0)
    assert federation._deadline == federation._default_deadline == 9.0
    assert federation._absences.deadline == 9.0
    assert federation._absences._roll_call is federation._roll_call
    assert federation._absences._parties == (*CLIENTS, "server")
    federation.report_progress("sums", 1, 2)  # to nobody
    with pytest.raises(InvalidInput, match="in no run"):
        federation.on_server(steps.keep_pid)


def test_a_closed_federation_says_so(federation):
    federation.close()
    federation.close()
    for work in (
        lambda: federation.start_run("r", random_state=0),
        lambda: federation.on_server(steps.keep_pid),
        lambda: federation.ledger,
        federation.peak_memory,
    ):
        with pytest.raises(InvalidInput, match="the federation is closed"):
            work()


def test_a_federation_is_no_array(federation):
    with pytest.raises(InvalidInput, match="is no array of samples, which stay with its clients"):
        np.asarray(federation)
    with pytest.raises(InvalidInput, match="in place of a grid search"):
        StandardScaler().fit(federation)


def test_raw_data_stays_unless_it_is_allowed(monkeypatch):
    given = []

    def open_local(storage, **options):
        given.append((storage, options))
        return opened()

    monkeypatch.setattr(module, "open_local", open_local)
    assert Federation(opened()).allow_raw is False
    assert Federation.local("digits.yaml").allow_raw is False
    assert Federation.local("digits.yaml", allow_raw=True, root="stores").allow_raw is True
    assert given == [("digits.yaml", {}), ("digits.yaml", {"root": "stores"})]


def test_steps_of_two_federations_are_never_one_task():
    keys = set()
    for _ in range(2):
        federation = Federation(opened())
        federation._run = RunSettings("r", 0)
        keys.update(federation.on_clients(steps.keep_pid)["a"].futures["a"].key for _ in range(2))
    assert len(keys) == 4
    assert all(re.fullmatch(r"keep_pid\|a-[0-9a-f]+-\d+", key) for key in keys)


# -- what a federation hears ----------------------------------------------------------------------


def heard(run_id, kind="EgressRefused", sentence="no.", start=""):
    return (0.0, {"run_id": run_id, "start": start, "kind": kind, "sentence": sentence})


def test_a_federation_hears_what_parties_of_its_run_refuse(federation):
    assert set(federation.dask_client.topics) == {REFUSALS}
    hear = federation.dask_client.topics[REFUSALS]
    federation._refusals.run_id = "r"
    for other in (heard("another"), heard("r", start="an earlier one")):
        hear(other)
    federation.on_server(steps.keep_pid)
    hear(heard("r", "LedgerError", "full."))
    hear(heard("r", "EgressRefused", "later."))
    with pytest.raises(LedgerError, match=r"^full\.$"):
        federation.on_server(steps.keep_pid)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("EgressRefused", EgressRefused), ("LedgerError", LedgerError), ("Other", EgressRefused)],
)
def test_a_refusal_has_its_class_or_that_of_most(kind, error):
    refusals = Refusals()
    assert (refusals.run_id, refusals.error) == (None, None)
    refusals.run_id = "r"
    refusals.hear(heard("r", kind))
    assert (type(refusals.error), str(refusals.error)) == (error, "no.")


# -- runs -----------------------------------------------------------------------------------------


@pytest.fixture
def everyone(federation, monkeypatch):
    """What all parties are asked; each answers what the test says, or nothing."""
    told = SimpleNamespace(calls=[], answers={}, error=None)

    def everyone(parties, op, **options):
        told.calls.append((tuple(parties), op, options))
        if told.error is not None:
            raise told.error
        return {party: told.answers.get(party) for party in parties}

    monkeypatch.setattr(federation._roll_call, "everyone", everyone)
    return told


def test_a_run_begins_at_the_nannies_and_at_the_server_first(federation, everyone):
    federation._contract = SimpleNamespace(builds={"a": "1", "b": "2"})
    federation.start_run("new", random_state=0, workspace="w")
    (first, op, options), second = everyone.calls
    assert (first, op) == (("server",), "daskfc_start_run")
    assert second == (CLIENTS, op, options)
    run = options.pop("run")
    assert re.fullmatch(r"fits-\d{8}-\d{6}", run.pop("name"))  # nobody gave the run a name
    assert options == {"nanny": True, "deadline": 9.0, "proof": None, "n_bytes": 0}
    assert re.fullmatch("[0-9a-f]{32}", run.pop("start"))
    assert run == {
        "run_id": "new",
        "random_state": 0,
        "allow_raw": False,
        "workspace": "w",
        "results": None,
        "builds": {"a": "1", "b": "2"},
        "request": {"smallest": [1, 1]},
        **{"driver": "me", "preparation": {}, "pseudonyms": {}, "session": ""},
    }


def test_a_run_is_begun_with_all_of_it_new(federation, everyone):
    federation.allow_raw = True
    assert [federation.next_round(), federation.next_round()] == [1, 2]
    federation._refusals.error = EgressRefused("no.")
    for _ in range(2):
        federation.start_run("new", random_state=7, deadline_s=0.5)
    assert (federation.run_id, federation.round) == ("new", 0)
    assert (federation._refusals.run_id, federation._refusals.error) == ("new", None)
    runs = [options["run"] for parties, _, options in everyone.calls if parties == CLIENTS]
    assert runs[0]["start"] != runs[1]["start"]
    assert (runs[0]["random_state"], runs[0]["allow_raw"], runs[0]["builds"]) == (7, True, {})
    assert everyone.calls[0][2]["deadline"] == federation._deadline == 0.5
    assert (federation._absences.deadline, federation._absences._parties) == (
        0.5,
        (*CLIENTS, "server"),
    )
    assert federation._absences._roll_call is federation._roll_call
    federation.start_run("another", random_state=0)
    assert federation._deadline == federation._absences.deadline == 9.0


@pytest.mark.parametrize("seed", [-1, -0.5, 0.5, "7", None])
def test_a_run_with_another_seed_than_a_number_is_not_begun(federation, everyone, seed):
    with pytest.raises(InvalidInput, match="must be a whole number of at least 0"):
        federation.start_run("new", random_state=seed)
    assert (federation.run_id, everyone.calls) == ("r", [])


def test_a_run_that_parties_decline_has_not_begun(federation, everyone):
    everyone.error = ClusterError("another driver.")
    with pytest.raises(ClusterError, match="another driver"):
        federation.start_run("new", random_state=0)
    assert [parties for parties, _, _ in everyone.calls] == [("server",)]
    assert federation.run_id == "r"


def test_the_ledger_is_that_of_all_parties_and_of_the_run(federation, everyone):
    fields = {"run": "r", "round": 0, "step": "s", "sender": "a", "receiver": "server"}
    fields |= {"message": "Vector", "protection": "plain", "shapes": {}, "dtypes": {}, "task": "t"}
    row = {**fields, "payload_bytes": 8, "wire_bytes": 9, "time": 2.0}
    everyone.answers = {
        "a": ({"m1": row}, [], None),
        "b": ({}, [], None),
        "server": ({"m2": {**row, "time": 1.0}, "m3": row}, [], None),
    }
    assert [one.time for one in federation.ledger] == [1.0, 2.0, 2.0]
    parties = (*CLIENTS, "server")
    asked = {"deadline": 9.0, "run_id": "r", "places": dict.fromkeys(parties, (0, ()))}
    asked["proof"] = b""  # without TLS
    assert everyone.calls == [(parties, "daskfc_ledger", asked)]


def test_the_most_memory_is_asked_of_all_parties(federation, everyone):
    everyone.answers = {"a": 1, "b": 2, "server": 3}
    assert federation.peak_memory() == everyone.answers
    assert everyone.calls == [((*CLIENTS, "server"), "daskfc_peak_memory", {"deadline": 9.0})]


# -- waiting --------------------------------------------------------------------------------------


def test_all_are_waited_for_or_as_many_as_are_asked_for(federation, monkeypatch):
    calls = []

    def wait_for(handles, **options):
        calls.append((handles, options))
        yield from reversed(handles[: options["count"]])

    monkeypatch.setattr(module, "wait_for", wait_for)
    asked = federation.ask(steps.row_sum)
    every = [asked["a"], asked["b"]]
    assert federation.wait(asked) == (every[::-1], [])
    assert federation.wait(asked, count=1, timeout=2.5) == (every[:1], every[1:])
    assert federation.wait(asked, count=0) == ([], every)
    assert [handles for handles, _ in calls] == [every] * 3
    told = [(options["count"], options["timeout"]) for _, options in calls]
    assert told == [(2, None), (1, 2.5), (0, None)]
    assert all(options["absences"] is federation._absences for _, options in calls)
    refusal = calls[0][1]["refusal"]
    assert refusal() is None
    federation._refusals.error = EgressRefused("no.")
    assert refusal() is federation._refusals.error


def test_a_message_that_is_not_there_in_time_is_named(federation, fetched, monkeypatch):
    monkeypatch.setattr(Future, "done", lambda future: False)
    monkeypatch.setattr(Future, "add_done_callback", lambda future, call: None, raising=False)
    sent = federation.publish(steps.row_sum, party="a", wait=False)
    sentence = "step 'row_sum' of party 'a' has not ended within 0.01 s. Wait longer or cancel it."
    with pytest.raises(DeadlineError, match=f"^{re.escape(sentence)}$"):
        sent.result(timeout=0.01)
    assert fetched.patience == []


def test_all_tasks_of_steps_that_are_cancelled_are(federation, monkeypatch):
    cancelled = []
    federation.dask_client.cancel = lambda futures, force: cancelled.append(futures)
    told, asked = federation.tell(steps.as_message, 1.0), federation.ask(steps.row_sum)
    federation.cancel([told, asked])
    futures = [*told.futures.values(), *(f for s in asked.values() for f in s.futures.values())]
    assert cancelled == [futures]


# -- fetching -------------------------------------------------------------------------------------


@pytest.fixture
def fetched(federation, monkeypatch):
    """What is published and gathered: answers in turn, of which an exception is raised."""
    message = steps.Vector(np.ones(2))
    envelope = Outgoing(message, "a", "caller", "row_sum", "r", 0, {})
    told = SimpleNamespace(answers=[[envelope]], patience=[], checks=[], cancelled=0, of=message)

    class Gathering:
        def result(self, timeout):
            told.patience.append(timeout)
            answer = told.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        def cancel(self):
            told.cancelled += 1

    def threadsafe(gathering, loop):
        assert (gathering, loop) == ("gathering", "loop")
        return Gathering()

    def check(pending, needed):
        told.checks.append((pending, needed))
        if len(told.checks) == 3:
            raise DeadlineError("away.")

    monkeypatch.setattr(module, "run_coroutine_threadsafe", threadsafe)
    monkeypatch.setattr(federation._absences, "check", check)
    return told


def test_a_message_comes_from_its_party_and_not_through_the_scheduler(federation, fetched):
    assert federation.publish(steps.row_sum, party="a") is fetched.of
    ((futures, options),) = federation.dask_client.gathered
    assert [future.key for future in futures] == [federation.dask_client.tasks[0].key]
    assert options == {"direct": True, "asynchronous": True}
    assert (fetched.patience, fetched.checks, fetched.cancelled) == ([1.0], [], 0)


def test_who_is_away_while_a_message_is_fetched_is_looked_for_every_second(federation, fetched):
    late = concurrent.futures.TimeoutError()
    sent = federation.publish(steps.row_sum, party="a", wait=False)
    fetched.answers[:0] = [late, late]
    assert sent.result() is fetched.of
    assert fetched.patience == [1.0] * 3
    assert fetched.checks == [([sent], 1)] * 2
    fetched.answers[:] = [late, late]
    with pytest.raises(DeadlineError, match="away"):
        sent.result()
    assert fetched.cancelled == 1


@pytest.mark.parametrize("error", [EgressRefused("no."), LedgerError("full.")])
def test_what_a_party_refuses_to_give_out_ends_the_run(federation, fetched, error):
    fetched.answers[:] = [error]
    with pytest.raises(type(error), match=str(error)):
        federation.publish(steps.row_sum, party="a")
    with pytest.raises(type(error), match=str(error)):
        federation.on_server(steps.keep_pid)


def test_another_failure_to_give_out_does_not(federation, fetched):
    for error, kind in ((PartyError("a", "row_sum", "ValueError"), PartyError),
                        (OSError("gone"), ClusterError)):  # fmt: skip
        fetched.answers[:] = [error]
        with pytest.raises(kind, match="'row_sum' of party 'a'"):
            federation.publish(steps.row_sum, party="a")
    federation.on_server(steps.keep_pid)
