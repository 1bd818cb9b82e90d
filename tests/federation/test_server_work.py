"""A server of several workers: what it hands out, what comes back, and a worker that dies."""

import itertools

import numpy as np
import pytest

from daskfc.errors import EgressRefused, InvalidInput, PrivacyError
from daskfc.federation import Federation, PerClient
from daskfc.testing.federation import stores_of
from tests.federation import server_steps as steps
from tests.federation import steps as plain_steps
from tests.federation.conftest import ROWS
from tests.federation.test_recovery import kill

pytestmark = pytest.mark.slow

_runs = itertools.count()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    urls = stores_of(tmp_path_factory.mktemp("stores"), ROWS)
    with Federation.local(urls, cluster={"cluster": "local", "server": {"workers": 3}}) as running:
        yield running


@pytest.fixture
def federation(processes, tmp_path):
    processes.start_run(
        f"run-{next(_runs)}", random_state=0, workspace=str(tmp_path), deadline_s=30
    )
    return processes


def test_work_goes_out_and_comes_back(federation):
    task = federation.hand_out(steps.task_of, 5)
    shares = PerClient({"server-2": 1, "server-3": 2})
    parts = federation.hand_back(steps.part_of, task, number=shares)
    own = federation.on_server(steps.part_of, federation.on_server(steps.task_of, 5), number=0)
    total = federation.publish(steps.parts_together, own, parts)
    assert total.values.tolist() == [0.0, 5.0, 10.0]
    pids = {federation.processes.pid(name) for name in federation.parties}
    assert len(pids) == 6
    rows = {(row.sender, row.receiver, row.message) for row in federation.ledger}
    assert rows == {
        ("server", "server-2", "Task"),
        ("server", "server-3", "Task"),
        ("server-2", "server", "Part"),
        ("server-3", "server", "Part"),
        ("server", "caller", "Vector"),
    }


def test_a_message_for_workers_may_lie_at_the_server(federation):
    lying = federation.on_server(steps.task_of, 7)
    parts = federation.hand_back(steps.part_of, federation.hand_out(lying), number=1)
    own = federation.on_server(steps.part_of, lying, number=1)
    assert federation.publish(steps.parts_together, own, parts).values.tolist() == [7.0] * 3


def test_what_is_declared_for_others_does_not_go_to_workers(federation):
    with pytest.raises(EgressRefused, match="Vector server → server worker; its routes are"):
        federation.hand_out(plain_steps.total_message, {})
    with pytest.raises(EgressRefused, match="Task server worker → server"):
        federation.hand_back(steps.task_of, 5)
    with pytest.raises(EgressRefused, match="Task server → client"):
        federation.tell(steps.task_of, 5)
    assert len(federation.ledger) == 0


def test_what_stays_at_the_server_is_not_for_its_workers(federation):
    lying = federation.on_server(steps.task_of, 7)
    with pytest.raises(PrivacyError, match="which stays at party 'server'"):
        federation.hand_back(steps.part_of, lying, number=1)
    asked = federation.ask(plain_steps.draws)
    with pytest.raises(PrivacyError, match="to server only"):
        federation.hand_back(steps.part_of, asked["client-1"], number=1)


def test_clients_answer_to_a_worker_alone(federation):
    numbers = PerClient({"client-1": 10, "client-2": 20, "client-3": 30})
    answers = federation.ask_for("server-3", steps.answer_of, number=numbers)
    parts = federation.hand_back(
        steps.part_of_answers, PerClient({"server-3": answers}), workers=["server-3"]
    )
    assert list(parts) == ["server-3"]
    with pytest.raises(PrivacyError, match="to server-3 only"):
        federation.on_server(steps.part_of_answers, answers)
    total = federation.publish(
        steps.parts_together, federation.on_server(steps.part_of, steps.Task(0), number=0), parts
    )
    assert total.values.tolist() == [0.0, 16.0, 26.0, 36.0]
    rows = {(row.sender, row.receiver, row.message) for row in federation.ledger}
    assert rows == {
        *((f"client-{number}", "server-3", "Answer") for number in (1, 2, 3)),
        ("server-3", "server", "Part"),
        ("server", "caller", "Vector"),
    }


def test_only_workers_of_the_server_are_asked_for(federation):
    with pytest.raises(InvalidInput, match="further workers are server-2, server-3; got 'server'"):
        federation.ask_for("server", steps.answer_of, number=1)
    with pytest.raises(InvalidInput, match=r"got 'server-4'\. Name some of them"):
        federation.hand_back(steps.part_of, None, workers=["server-4"], number=1)
    with pytest.raises(EgressRefused, match="Vector client → server worker"):
        federation.ask_for("server-2", plain_steps.draws)
    assert len(federation.ledger) == 0


def test_a_worker_of_the_server_holds_no_data(federation):
    with pytest.raises(InvalidInput, match="reads data, and the server holds none"):
        federation.hand_back(steps.part_of_data, number=1)


def test_a_worker_that_dies_does_its_part_again(federation, pipes):
    started, release = pipes
    task = federation.hand_out(steps.task_of, 4)
    ways = PerClient({"server-2": (started, release), "server-3": None})
    parts = federation.hand_back(steps.held_part, task, ways=ways)
    with open(started) as running:
        first = int(running.read())
    assert first == kill(federation, "server-2")
    with open(started) as running:
        second = int(running.read())
    with open(release, "w") as let_go:
        let_go.write("go")
    assert second != first
    own = federation.on_server(steps.part_of, federation.on_server(steps.task_of, 4), number=1)
    total = federation.publish(steps.parts_together, own, parts)
    np.testing.assert_array_equal(total.values, [4.0, 4.0, 4.0])


def test_a_server_that_dies_goes_on_with_what_its_workers_did(federation):
    lying = federation.on_server(steps.task_of, 3)
    parts = federation.hand_back(steps.part_of, federation.hand_out(lying), number=2)
    federation.wait(parts)
    kill(federation, "server")
    own = federation.on_server(steps.part_of, lying, number=1)
    assert federation.publish(steps.parts_together, own, parts).values.tolist() == [3.0, 6.0, 6.0]


def test_a_server_of_one_worker_has_none_to_hand_work_to(tmp_path):
    urls = stores_of(tmp_path, ROWS)
    with Federation.local(urls) as federation:
        assert federation.server_workers == ()
        federation.start_run("alone", random_state=0)
        with pytest.raises(InvalidInput, match="has one worker"):
            federation.hand_out(steps.task_of, 5)
        with pytest.raises(InvalidInput, match="has one worker"):
            federation.hand_back(steps.part_of, None, number=1)
        with pytest.raises(InvalidInput, match="has one worker"):
            federation.ask_for("server-2", steps.answer_of, number=1)


def test_no_client_has_the_name_of_a_worker(tmp_path):
    (url,) = stores_of(tmp_path, {"a": next(iter(ROWS.values()))}).values()
    with pytest.raises(InvalidInput, match="'server-2' and so on"):
        Federation.local({"server-2": url})
