"""Processes that are killed: the same results, in time, or an error that names the party."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from daskfc.errors import ClusterError, DeadlineError, InvalidInput
from daskfc.federation import Federation
from daskfc.testing.federation import federation_of, stores_of
from tests.federation import steps
from tests.federation.conftest import ROWS

pytestmark = pytest.mark.slow


def kill(federation, party):
    """Kill a worker process and wait until the nanny has noticed."""
    pid = federation.processes.pid(party)
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(10) if psutil.pid_exists(pid) else None
    return pid


@pytest.fixture(autouse=True)
def nobody_left_waiting(processes):
    """Leave the shared federation whole: every party answers before and after."""
    yield
    processes._roll_call.everyone(processes.parties, "daskfc_describe", deadline=30)


def secret_of(federation, name):
    return tuple(federation.publish(steps.secret_trace, party=name).values)


def test_a_client_killed_in_a_step_gives_the_same_result(federation, pipes):
    started, release = pipes
    secret = secret_of(federation, "client-2")
    undisturbed = federation.publish(steps.draws, party="client-2").values
    sent = federation.publish(steps.held, started, release, party="client-2", wait=False)
    drawn = federation.publish(steps.draws, party="client-2", wait=False)
    with open(started) as running:
        first = int(running.read())
    assert first == kill(federation, "client-2")
    with open(started) as running:  # the step begins again, in another process
        second = int(running.read())
    with open(release, "w") as let_go:
        let_go.write("go")
    assert second != first
    assert second == federation.processes.pid("client-2")
    assert len(sent.result(60).values) == 3
    np.testing.assert_array_equal(drawn.result(60).values, undisturbed)
    assert secret_of(federation, "client-2") == secret
    assert federation.publish(steps.where, party="client-2").pid == second


def test_messages_lost_with_their_sender_are_made_again(federation, pipes):
    asked = federation.ask(steps.draws)
    local = federation.on_clients(steps.as_message, 5.0)
    federation.wait([asked, local])
    kill(federation, "client-1")
    result = federation.publish(steps.total_message, asked)
    again = federation.publish(steps.total_message, asked)
    np.testing.assert_array_equal(result.values, again.values)
    values = federation.publish(steps.sent_on, local, party="clients")
    assert [message.values[0] for message in values.values()] == [5.0] * 3


def test_who_is_started_again_has_what_it_sent(federation):
    """The receiver has the message, and gives it to nobody: the sender makes it again."""
    own = federation.on_clients(steps.draws)
    asked = federation.ask(own)
    federation.wait(federation.on_server(steps.total, asked))
    kill(federation, "client-1")
    again = federation.publish(steps.sent_on, own, party="clients")
    undisturbed = federation.publish(steps.draws, party="clients")
    for name, message in again.items():
        np.testing.assert_array_equal(message.values, undisturbed[name].values)
    with pytest.raises(InvalidInput, match="'draws' after the party sent it"):
        federation.on_clients(steps.sent_on, asked)


def test_a_message_that_is_fetched_again_has_a_second_row(federation):
    asked = federation.ask(steps.row_sum)
    federation.publish(steps.total_message, asked)
    kill(federation, "server")
    federation.publish(steps.total_message, asked)
    rows = [row for row in federation.ledger if row.step == "row_sum"]
    assert len(rows) == 6
    assert len({row.task for row in rows}) == 3


def test_rows_of_a_killed_sender_are_not_lost(federation):
    federation.publish(steps.draws, party="client-3")
    kill(federation, "client-3")
    assert [row.sender for row in federation.ledger] == ["client-3"]


def test_a_killed_party_knows_the_run(federation):
    """Its new process was told run, folder and permissions by the nanny, not by the driver."""
    kill(federation, "client-1")
    kill(federation, "server")
    assert federation.publish(steps.in_folder, party="client-1").note.endswith("client-1")
    assert federation.publish(steps.in_folder).note.endswith("server")


def test_a_party_that_comes_back_takes_no_plugins(federation):
    """The scheduler hands the plugins that it knows to every worker that registers."""
    dask_client = federation.dask_client
    with pytest.raises(Exception, match="explicitly disallowed"):
        dask_client.register_plugin(steps.LeavesATrace(), name="trace")
    kill(federation, "client-1")
    assert federation.publish(steps.trace_of_a_plugin, party="client-1").note == ""
    with pytest.raises(Exception, match="explicitly disallowed"):
        dask_client.unregister_worker_plugin("trace")


def test_a_run_can_start_while_a_party_is_coming_back(federation, tmp_path):
    kill(federation, "client-2")
    federation.start_run("began-meanwhile", random_state=3, workspace=str(tmp_path))
    assert federation.publish(steps.where, party="client-2").party == "client-2"


def test_a_step_that_kills_its_process_is_an_error(federation, tmp_path):
    doomed = federation.on_client("client-1", steps.ends_its_process)
    with pytest.raises(ClusterError, match="process of party 'client-1' died each time while step"):
        federation.wait(doomed, timeout=120)
    federation.start_run("next", random_state=0, workspace=str(tmp_path), deadline_s=30)
    assert federation.publish(steps.where, party="client-1").party == "client-1"


def test_a_party_that_never_comes_back_is_named_by_its_deadline(tmp_path):
    with federation_of(tmp_path, {"a": np.eye(2), "b": np.eye(2)}) as federation:
        federation.start_run("r", random_state=0, deadline_s=1.5)
        federation.wait(federation.ask(steps.row_sum))
        federation.processes.forget("b")
        began = time.monotonic()
        with pytest.raises(DeadlineError, match=r"party 'b' has been away for 1\.5 s while step"):
            federation.publish(steps.total_message, federation.ask(steps.row_sum))
        assert time.monotonic() - began < 10
        done, late = federation.wait(federation.ask(steps.row_sum), count=1)  # a is enough
        assert [handle.party for handle in (*done, *late)] == ["a", "b"]
        with pytest.raises(DeadlineError, match="party 'b' did not answer within"):
            federation.start_run("s", random_state=0, deadline_s=0.5)


def test_closing_leaves_no_worker_and_no_files(tmp_path):
    federation = Federation.local(stores_of(tmp_path, {"a": ROWS["client-1"]}))
    pids = [federation.processes.pid(party) for party in federation.parties]
    scratch = federation.processes._parties["a"].scratch
    assert os.path.isdir(scratch)
    began = time.monotonic()
    federation.close()
    federation.close()
    assert time.monotonic() - began < 5
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not os.path.exists(scratch)


SCRIPT = """
from daskfc.federation import Federation
from tests.federation import steps
print("script runs", flush=True)
federation = Federation.local({urls!r})
federation.start_run("r", random_state=0)
print(federation.publish(steps.row_sum, party="a").values.tolist())
{end}
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("end", ["federation.close()", ""], ids=["closed", "forgotten"])
def test_a_plain_script_works_and_ends_quietly(tmp_path, end):
    """No ``__main__`` guard, and no close: nothing on the terminal but what it prints itself."""
    script = tmp_path / "script.py"
    urls = stores_of(tmp_path, {"a": np.array([[1.0, 2.0]])})
    script.write_text(SCRIPT.format(urls=urls, end=end))
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("script runs\n[1.0, 2.0]\n", "")
    assert ended.returncode == 0


def test_wrong_storage_starts_nothing(tmp_path):
    with pytest.raises(InvalidInput, match="at least one client"):
        Federation.local({})
    with pytest.raises(InvalidInput, match="got 'server'"):
        Federation.local({"server": str(tmp_path)})
    with pytest.raises(InvalidInput, match="sets limits of nobody"):
        Federation.local(
            {"a": str(tmp_path)},
            cluster={"cluster": "local", "parties": {"nobody": {"memory_limit": "1GB"}}},
        )
    with pytest.raises(InvalidInput, match="'cluster: local'"):
        Federation.local(
            {"a": "x"}, cluster={"cluster": "existing", "scheduler": "tcp://127.0.0.1:1"}
        )
