"""`daskfc run --run-key ... --resume-or-start`, as a timer calls it, and what lists its runs."""

import http.server
import json
import os
import stat
import threading
from datetime import datetime
from pathlib import Path

import pytest

from daskfc.errors import ClusterError, InvalidInput
from daskfc.runs import Run, list_runs, start_or_resume, status_of
from daskfc.runs.execution.scheduled import name_of_key
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.outcome.status import note_not_started
from tests.cli.test_runs import one_line
from tests.runs.fakes import FakeFederation, FakeMethod, party_error


@pytest.fixture
def nightly(fake, daskfc, files):
    """Call the command of a timer."""
    words = ("run", *files[:3], "--run-key", "nightly-{date}", "--resume-or-start")
    return lambda *more: daskfc(*words, *more)


def tonight():
    return Path("runs") / name_of_key("nightly-{date}", datetime.now())


def test_where_no_run_is_one_is_started_and_where_one_is_done_nothing_happens(nightly):
    assert nightly().exit_code == 0
    fits = list(FakeMethod.fits)
    assert len(fits) == 2
    again = nightly("--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["run_id"] == tonight().name
    assert FakeMethod.fits == fits


def test_one_that_broke_off_is_1_and_is_resumed_with_what_it_began_with(nightly):
    FakeMethod.trouble[1] = party_error()
    assert nightly().exit_code == 1
    Path("p.yaml").write_text(Path("p.yaml").read_text().replace("n_clusters: 3", "n_clusters: 2"))
    again = nightly()
    assert again.exit_code == 0
    assert "began with other settings" in one_line(again)
    assert FakeMethod.fits == [("FakeMethod", 0), ("FakeMethod", 1), ("FakeMethod", 1)]
    assert Run(tonight()).summary["params"] == {"n_clusters": 3}


def test_one_that_another_process_carries_out_is_75(nightly):
    FakeMethod.trouble[0] = KeyboardInterrupt()
    assert nightly().exit_code == 1
    with RunFolder(tonight()).claim():
        held = nightly()
    assert held.exit_code == 75
    assert "another process runs this run" in one_line(held)
    assert nightly().exit_code == 0  # its holder is gone


def test_a_cluster_that_is_away_is_75_and_leaves_the_key_free(nightly, monkeypatch):
    def away(record, pipeline):
        raise ClusterError("no Dask scheduler answered at tcp://10.0.0.1:8786")

    with monkeypatch.context() as patched:
        patched.setattr("daskfc.runs.execution.execution.open_federation", away)
        assert nightly().exit_code == 75
        assert not tonight().exists()
    FakeMethod.trouble[1] = party_error()
    assert nightly().exit_code == 1
    monkeypatch.setattr("daskfc.runs.execution.execution.open_federation", away)
    assert nightly().exit_code == 75  # and what it did so far is kept
    assert status_of(tonight())["state"] == "broke off"


def test_bad_input_is_2(nightly, daskfc, files):
    assert nightly("--set", "params.n_clusters=0").exit_code == 2
    for words, said in (
        (["--run-key", "nightly-{day}"], "may hold {date} and {hour}"),
        (["--run-key", "a", "--name", "b"], "Give one of them"),
        (["--resume-or-start"], "Add --run-key"),
        (["--keep", "3"], "Add --run-key"),
        (["--run-key", "nightly", "--keep", "3"], "only a key with {date}"),
        (["--notify", "http://example.org/hook"], "must begin with https://"),
        (["--notify", "mail 'x"], "Correct its quotes"),
    ):
        refused = daskfc("run", *files[:3], *words)
        assert refused.exit_code == 2, refused.output
        assert said in one_line(refused)
    assert FakeFederation.opened == 0
    assert not os.path.exists("runs")


def test_a_key_alone_names_a_run_and_writes_over_none(daskfc, files, fake):
    words = ("run", *files[:3], "--run-key", "nightly-{date}")
    assert daskfc(*words).exit_code == 0
    assert "not written over" in one_line(daskfc(*words))


def test_of_two_at_once_one_runs(fake, files, tmp_path, daskfc, monkeypatch):
    """The second finds no folder, then one that is there, and then that it is done or held."""
    made = RunFolder.create

    def first_another(runs_dir, name, record):
        other = made(runs_dir, name, record)
        Run(other.path).resume()
        return made(runs_dir, name, record)

    monkeypatch.setattr(RunFolder, "create", first_another)
    run = start_or_resume("p.yaml", storage="s.yaml", run_key="once")
    assert run.status == "done"
    assert len(FakeMethod.fits) == 2


def test_a_run_that_ended_while_its_claim_was_waited_for_is_not_run_again(daskfc, files, fake):
    daskfc("run", *files)
    late = Run("runs/a")
    fits = list(FakeMethod.fits)
    with pytest.raises(InvalidInput, match="the run is done"):
        late.resume()
    assert FakeMethod.fits == fits


NIGHTS = [f"nightly-2026-03-0{day}" for day in range(1, 7)]


def night(name, *, key="nightly-{date}", **record):
    folder = RunFolder.create("runs", name, {"run_key": key})
    day = name[-2:]
    folder.update(created=f"2026-03-{day}T02:30:00+00:00", **record)
    return folder


def test_old_runs_go_and_none_that_could_be_resumed(nightly):
    for name in NIGHTS[:3]:
        night(name, status="done", resumable=False)
    night(NIGHTS[3], status="failed", resumable=True)
    night(NIGHTS[4], status="running", resumable=True)
    night(NIGHTS[5], status="failed", resumable=False)
    night("nightly-2026-03-07", status="failed")  # before its parties were there
    night("weekly-2026-03-01", key="weekly-{date}", status="done")
    os.mkdir("runs/.removed-before")
    assert nightly("--keep", "2").exit_code == 0
    kept = {NIGHTS[5], NIGHTS[3], NIGHTS[4], "nightly-2026-03-07", "weekly-2026-03-01"}
    assert set(os.listdir("runs")) == {tonight().name, *kept}


def test_a_run_that_somebody_holds_is_not_removed(nightly):
    with night(NIGHTS[0], status="done").claim():
        assert nightly("--keep", "1").exit_code == 0
        assert (Path("runs") / NIGHTS[0]).exists()
    assert nightly("--keep", "1").exit_code == 0
    assert os.listdir("runs") == [tonight().name]


def test_runs_lists_what_became_of_all(nightly, daskfc):
    nightly()
    night(NIGHTS[0], status="failed", resumable=False)
    with night(NIGHTS[1]).claim():
        told = json.loads(daskfc("runs", "--json").stdout)
        text = daskfc("runs").stdout
    assert [(row["name"], row["state"]) for row in told] == [
        (tonight().name, "done"),
        (NIGHTS[1], "running"),
        (NIGHTS[0], "failed"),
    ]
    assert told[0]["bytes"] == 160
    assert told[0]["score"].startswith("kappa 0.")
    assert "160 bytes" in text
    assert len(list_runs("runs")) == 3
    assert daskfc("runs", "--runs-dir", "none").exit_code == 2


def test_a_night_that_did_not_start_is_listed_until_it_does(nightly, daskfc, monkeypatch):
    def away(*_):
        raise ClusterError("party 'hospital-c' is not at tls://x after 60 s.")

    with monkeypatch.context() as missing:
        missing.setattr("daskfc.runs.execution.execution.open_federation", away)
        assert [nightly().exit_code for _ in range(2)] == [75, 75]
    night(NIGHTS[0], status="failed", resumable=False, error="why not")
    told = json.loads(daskfc("runs", "--json").stdout)
    assert [(row["name"], row["state"]) for row in told] == [
        (tonight().name, "not started"),
        (NIGHTS[0], "failed"),
    ]
    why = "party 'hospital-c' is not at tls://x after 60 s."
    assert [row["why"] for row in told] == [why, "why not"]
    assert daskfc("runs").stdout.splitlines()[-1] == f"{tonight().name}: {why}"
    assert set(os.listdir("runs")) == {NIGHTS[0], ".not-started.jsonl"}
    assert nightly().exit_code == 0
    assert [row["state"] for row in json.loads(daskfc("runs", "--json").stdout)] == [
        "done", "failed",
    ]  # fmt: skip


def test_notes_of_nights_are_few_and_may_be_torn(tmp_path):
    for number in range(120):
        note_not_started(tmp_path, f"night-{number}", "why")
    notes = tmp_path / ".not-started.jsonl"
    assert len(notes.read_text().splitlines()) == 100
    notes.write_text(notes.read_text() + '{"name": 3}\n[]\n{"na')
    found = list_runs(tmp_path)
    assert set(found["name"]) == {f"night-{number}" for number in range(20, 120)}
    assert stat.S_IMODE(notes.stat().st_mode) == 0o600


def test_a_note_that_cannot_be_written_is_left_out(tmp_path):
    (tmp_path / "file").touch()
    note_not_started(tmp_path / "file", "night", "why")


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_no_runs_name_is_cut(nightly, daskfc, monkeypatch, width):
    name = "hospitals-with-a-long-name-20261129-131354-028"
    night(name, status="failed", resumable=False)
    monkeypatch.setattr("daskfc.cli.terminal.output.PIPE_WIDTH", width)
    told = daskfc("runs")
    lines = told.stdout.splitlines()
    assert all(len(line) <= max(width, len(name) + 14) for line in lines)
    assert lines[1].split()[:2] == [name, "failed"]
    assert ("No room for" in told.stderr) == (width < 200)
    if width < 200:
        left = told.stderr.removeprefix("No room for ").partition(";")[0].split(", ")
        assert not set(left) & set(lines[0].split())


def test_status_tells_the_stage_of_a_run_that_is_under_way(nightly, daskfc, monkeypatch):
    told = []

    class Watched(FakeFederation):
        def start_run(self, *args, **kwargs):
            super().start_run(*args, **kwargs)

        def peak_memory(self):  # after the fit, while its progress is the last
            told.append(daskfc("status", tonight()).stdout)
            told.append(json.loads(daskfc("status", tonight(), "--json").stdout))
            return super().peak_memory()

    monkeypatch.setattr("daskfc.runs.execution.execution.open_federation", Watched)
    monkeypatch.setattr("daskfc.runs.outcome.status._EVERY_S", 0.0)
    assert nightly().exit_code == 0
    assert "now: Fake, seed 0: distances, 1 of 2, 50%" in told[0]
    assert told[1]["state"] == "running"
    assert told[1]["progress"]["pid"] == os.getpid()
    done = daskfc("status", tonight()).stdout
    assert f"{tonight().name}: done" in done
    assert "score kappa" in done
    assert not (tonight() / "progress.json").exists()


def test_status_says_why_it_broke_off_and_what_to_do(nightly, daskfc):
    FakeMethod.trouble[0] = party_error()
    nightly()
    told = daskfc("status", tonight()).stdout
    assert "broke off" in told
    assert "why: step 'encode' of party 'client-1' failed" in told
    assert f"daskfc resume {tonight()}" in told


def test_a_command_is_told_of_the_end_and_of_every_failure(nightly, monkeypatch):
    def outcomes():
        return [json.loads(line) for line in Path("told").read_text().splitlines()]

    Path("hook.sh").write_text('cat >> told; echo >> told; echo "$DASKFC_EXIT_CODE" >> codes\n')
    words = ("--notify", "sh hook.sh")
    FakeMethod.trouble[1] = party_error()
    assert nightly(*words).exit_code == 1
    assert nightly(*words).exit_code == 0
    assert nightly(*words).exit_code == 0  # done before: nothing to tell
    monkeypatch.setattr("daskfc.runs.execution.execution.open_federation", None)
    assert nightly(*words, "--set", "params.n_clusters=0", "--set", "seeds=[7]").exit_code == 0
    failed, done = outcomes()
    assert (failed["status"], failed["exit_code"]) == ("failed", 1)
    assert "step 'encode' of party 'client-1' failed" in failed["error"]
    assert (done["status"], done["error"], done["run"]) == ("done", None, tonight().name)
    assert done["summary"]["metrics"]["Fake"]["kappa"]
    assert not {"map", "profiles", "histories"} & set(done["summary"])
    assert Path("codes").read_text().split() == ["1", "0"]


def test_bad_input_is_told_too(daskfc, files, fake):
    words = ("--set", "params.n_clusters=0", "--notify", "tee told")
    assert daskfc("run", *files, *words).exit_code == 2
    told = json.loads(Path("told").read_text())
    assert (told["status"], told["exit_code"], told["run"]) == ("not started", 2, None)
    assert "must be a whole number of at least 1" in told["error"]


class _Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.told.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, *words):
        """Say nothing."""


@pytest.fixture
def hook():
    with http.server.HTTPServer(("127.0.0.1", 0), _Hook) as server:
        server.told, server.answer = [], 200
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_address_is_told_by_post(daskfc, files, fake, hook):
    address = f"http://127.0.0.1:{hook.server_port}/secret"
    assert daskfc("run", *files, "--notify", address).exit_code == 0
    assert json.loads(hook.told[0])["status"] == "done"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("false", "the command 'false' ended with code 1"),
        ("no-such-program x", "could not tell it (No such file or directory)"),
        (None, "the address at 127.0.0.1 could not be told (it answered 500)"),
    ],
)
def test_who_cannot_be_told_changes_nothing(daskfc, files, fake, hook, target, said):
    hook.answer = 500
    target = target or f"http://127.0.0.1:{hook.server_port}/secret"
    done = daskfc("run", *files, "--notify", target)
    assert done.exit_code == 0
    assert said in one_line(done)
    assert "secret" not in done.output
