"""What the campaign looks for is found where it is, and its relay cuts."""

import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from daskfc.errors import InvalidInput
from daskfc.runs.outcome.folder import RunFolder
from tests.chaos import judge
from tests.chaos.cases import environment
from tests.chaos.faults import TwoResumes
from tests.chaos.judge import LATER, Wrong
from tests.chaos.proxy import Relay
from tests.ports import free_port


class Ended:
    """A run that has ended with some sentences, one an attempt, and then is done."""

    def __init__(self, folder, *ends):
        self.folder = self.runs = folder
        self.ends = list(ends)
        self.case = SimpleNamespace(may_refuse=False, same=lambda labels: True)
        self.did = []

    def wait(self):
        self.code, self.told = self.ends.pop(0) if self.ends else (0, "")
        return self.code

    def sentence(self):
        return self.told

    def resume(self):
        self.did.append("resume")

    def start_again(self):
        self.did.append("start")


class Struck:
    survives = may_refuse = False

    def __init__(self, **changes):
        self.told, self.repaired = [], 0
        vars(self).update(changes)

    def repair(self):
        self.repaired += 1


@pytest.fixture(autouse=True)
def no_labels(monkeypatch):
    monkeypatch.setattr(judge, "labels_of", lambda folder: None)


RESUME = "daskfc: it broke. Resume with: daskfc resume r"


def test_a_run_is_followed_to_the_end_of_its_resumption(tmp_path):
    fault = Struck()
    run = Ended(tmp_path, (-9, ""), (1, RESUME))
    assert judge.follow(fault, run) == "resumed"
    assert (run.did, fault.repaired) == (["resume", "resume"], 1)
    assert fault.told == ["killed", RESUME]
    assert judge.follow(Struck(), Ended(tmp_path)) == "done"


def test_a_run_of_which_nothing_was_started_is_started_again(tmp_path):
    run = Ended(tmp_path / "none", (LATER, "daskfc: nobody is there."))
    assert judge.follow(Struck(), run) == "resumed"
    assert run.did == ["start"]


@pytest.mark.parametrize("struck", [Struck(), Struck(may_refuse=True)])
def test_a_run_that_was_done_when_it_was_killed_is_done(tmp_path, struck, monkeypatch):
    run = Ended(tmp_path, (-9, ""), (2, "daskfc: r: the run is done; there is nothing to resume."))
    assert judge.follow(struck, run) == "done"
    run = Ended(tmp_path, (-1, ""), (2, "daskfc: r: the run is done; there is nothing to resume."))
    with monkeypatch.context() as patched:
        patched.setattr(judge, "status_of", lambda folder: {"state": "done"})
        assert judge.follow(struck, run) == "done"
    run = Ended(tmp_path, (1, "daskfc: interrupted. The run is done; see: r"))
    run.case.same = lambda labels: False
    with pytest.raises(Wrong, match="other labels"):
        judge.follow(struck, run)


class KilledAndResumedTwice:
    """A run whose driver was killed, and what two that resume it end with, and say."""

    def __init__(self, own, other, said, may_refuse=False):
        self.own, self.words = own, said
        self.process = SimpleNamespace(kill=lambda: None, wait=lambda: -9)
        self.beside = SimpleNamespace(wait=lambda seconds: other)
        self.case = SimpleNamespace(may_refuse=may_refuse)

    def resume_beside(self):
        return self.beside

    def resume(self):
        """Nothing happens: how it ends is known."""

    def wait(self):
        return self.own

    def said(self):
        return self.words


BUSY = "daskfc: another process runs this run.\n"
DONE = "daskfc: r: the run is done; there is nothing to resume.\n"


@pytest.mark.parametrize(
    ("run", "resumed", "followed"),
    [
        (KilledAndResumedTwice(0, LATER, BUSY), True, "own"),
        (KilledAndResumedTwice(LATER, 0, BUSY), True, "other"),
        (KilledAndResumedTwice(1, LATER, BUSY, may_refuse=True), True, "own"),
        (KilledAndResumedTwice(0, 2, DONE), True, "own"),
        (KilledAndResumedTwice(2, 0, DONE), True, "other"),
        (KilledAndResumedTwice(2, 2, 2 * DONE), False, "other"),  # killed in its last moment
    ],
)
def test_of_two_resumes_one_ends_the_run_or_it_was_done(run, resumed, followed):
    fault = TwoResumes(run, None)
    fault.strike()
    assert fault.resumed is resumed
    assert (run.process is run.beside) == (followed == "other")


@pytest.mark.parametrize(
    "run",
    [
        KilledAndResumedTwice(0, 0, ""),  # both ran it
        KilledAndResumedTwice(0, 0, DONE),
        KilledAndResumedTwice(0, LATER, ""),
        KilledAndResumedTwice(1, LATER, BUSY),
        KilledAndResumedTwice(0, 2, "daskfc: it is bad input.\n"),
        KilledAndResumedTwice(2, 2, DONE),  # the other one says something else
        KilledAndResumedTwice(2, LATER, DONE),
        KilledAndResumedTwice(0, None, DONE),
    ],
)
def test_two_resumes_that_end_otherwise_are_wrong(run):
    with pytest.raises(Wrong, match="two resumes end with"):
        TwoResumes(run, None).strike()


@pytest.mark.parametrize(
    ("ends", "wrong"),
    [
        ([(None, "")], "hangs"),
        ([(1, "")], "no sentence, exit code 1"),
        ([(1, "daskfc: it broke.")], "no way to go on"),
        ([(-9, ""), (1, "daskfc: it broke.")], "cannot go on"),
        ([(1, RESUME)] * 4, "cannot be resumed"),
    ],
)
def test_an_end_that_must_not_be_is_wrong(tmp_path, ends, wrong):
    with pytest.raises(Wrong, match=f"^{wrong}$"):
        judge.follow(Struck(), Ended(tmp_path, *ends))


def test_other_labels_and_a_fault_that_was_to_be_survived_are_wrong(tmp_path):
    run = Ended(tmp_path)
    run.case.same = lambda labels: False
    with pytest.raises(Wrong, match="other labels"):
        judge.follow(Struck(), run)
    with pytest.raises(Wrong, match="should have survived"):
        judge.follow(Struck(survives=True), Ended(tmp_path, (1, RESUME)))


def test_a_refusal_is_right_where_files_were_changed(tmp_path):
    run = Ended(tmp_path, (-9, ""), (2, "daskfc: it was changed."))
    assert judge.follow(Struck(may_refuse=True), run) == "refused"


def test_what_is_left_is_found(tmp_path):
    (tmp_path / "t" / "daskfc-x").mkdir(parents=True)
    (tmp_path / "t" / "daskfc-x" / ".owner").touch()
    assert judge.left_in(tmp_path / "t") == ["daskfc-x"]
    assert judge.left_in(tmp_path / "t", swept=True) == []
    waits = [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        waits, env=environment(tmp_path / "t"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert [one.pid for one in judge.processes_of(tmp_path)] == [process.pid]
    assert judge.processes_of(tmp_path) == []


def test_a_folder_that_says_what_is_not_so_is_wrong(tmp_path):
    folder = RunFolder.create(tmp_path, "r", {"pipeline": {"method": "k-FED"}})
    run = SimpleNamespace(folder=folder.path, runs=tmp_path)
    with pytest.raises(Wrong, match=r"says 'broke off', the list of runs .'broke off'."):
        judge.check_folder(run, "done")
    judge.check_folder(run, "refused")
    (folder.path / ".labels-x").mkdir()
    with pytest.raises(Wrong, match=r"left in the run's folder: \.labels-x"):
        judge.check_folder(run, "refused")
    (folder.path / "run.json").write_text("{")
    with pytest.raises(Wrong, match="not valid JSON"):
        judge.check_folder(run, "done")
    with pytest.raises(InvalidInput):
        assert folder.record


def test_a_budget_that_got_less_is_wrong(tmp_path):
    place = (Path("client-1-files/state.sqlite"), "data")
    judge.check_spent({place: 1.0}, {place: 1.0, "other": 2.0})
    for after in ({}, {place: 0.9}):
        with pytest.raises(Wrong, match="the budget of client-1-files was reset"):
            judge.check_spent({place: 1.0}, after)


def test_what_a_clients_workspace_may_keep(tmp_path):
    for name in ("client-1-files/r/ledger.jsonl", "client-1-files/state.sqlite", "server-files/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    judge.check_workspaces(tmp_path)
    with pytest.raises(Wrong, match="left in workspaces: server-files/x"):
        judge.check_workspaces(tmp_path, done=True)
    (tmp_path / "client-1-files" / "r" / "rows").touch()
    with pytest.raises(Wrong, match="left in workspaces: client-1-files/r/rows"):
        judge.check_workspaces(tmp_path)


def test_a_relay_holds_back_what_it_is_given_while_it_is_cut():
    place = ("127.0.0.1", free_port())
    with socket.create_server(("127.0.0.1", 0)) as target:

        def echo():
            for _ in range(2):
                connection = target.accept()[0]
                with connection:
                    while piece := connection.recv(100):
                        connection.sendall(piece)

        answering = threading.Thread(target=echo)
        answering.start()
        relay = Relay({place: target.getsockname()})
        with socket.create_connection(place, timeout=30) as one:
            one.sendall(b"a")
            assert one.recv(1) == b"a"
            relay.cut()
            one.sendall(b"b")
            one.settimeout(0.2)
            with pytest.raises(TimeoutError):
                one.recv(1)
            relay.mend()
            one.settimeout(30)
            assert one.recv(1) == b"b"
        with socket.create_connection(place, timeout=30) as other:
            other.sendall(b"c")
            assert other.recv(1) == b"c"
        answering.join(30)
        relay.end()
