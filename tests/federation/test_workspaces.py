"""A site's workspace: folders of runs by their names, which came from submitters, and how many."""

import os
import string
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.errors import InvalidInput, LedgerError
from daskfc.federation.party import party as module
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.party import Party
from daskfc.federation.party.workspaces import empty, folders_of_client, remove_old_runs


@pytest.fixture
def party(tmp_path, monkeypatch):
    """Makes a party of a site, whose logs are left alone."""
    monkeypatch.setattr(module, "_LOGGERS", ())
    monkeypatch.setattr(module.logging, "captureWarnings", lambda capture: None)

    def make(role="client", name="a", **options):
        own = {"folder": str(tmp_path / "own"), **options}
        return Party(PartyOptions(name, role, str(tmp_path / "scratch"), **own))

    return make


def sent_from(submitter, name, method="x"):
    """Where a submitter's machine keeps what the server's work of a run is called by."""
    return "/".join((submitter, name, "work", method))


def run(name, run_id="start-1", **more):
    return RunSettings(run_id, 0, start=run_id, name=name, **more)


OUTSIDE = [
    "..", "../x", "a/../../x", "/etc", "a/b", "a\\b", ".", ".hidden", ".removed-1", "C:x", "a\0b",
    "a\nb", "\x1b[31m", "*", "n" * 201, "é" * 101, "\ud800", 7, None, ["a"], {"a": 1}, b"a", True,
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE, ids=repr)
def test_a_name_from_the_wire_that_is_no_folders_name_begins_no_run(name):
    """As a nanny reads it: settings are plain values that a submitter made up."""
    for key in ("name", "run_id"):
        if key == "name" and name is None:
            continue  # as without a name
        told = {**asdict(run("night")), key: name}
        with pytest.raises(InvalidInput, match="must be usable as the name of a folder"):
            RunSettings(**told)


@given(st.text(max_size=300), st.text(max_size=300))
def test_whatever_is_a_name_stays_in_the_workspace(name, run_id):
    try:
        settings = run(name, run_id or "r", workspace="w")
    except InvalidInput:
        return
    for role in ("client", "server", "server-2"):
        options = PartyOptions("a", role, "/scratch", folder="/own", run=settings)
        folder = options.run_folder()
        assert Path(os.path.normpath(folder)) == folder
        assert folder.parent.parent == Path("/own/runs")
        assert folder.parent.name == (name or "unnamed")
        assert all(len(os.fsencode(part)) <= 255 for part in folder.parts)


def test_the_longest_names_have_a_folder(party, tmp_path):
    name, run_id = "ß" * 100, "r" * 200
    made = party()
    made.start_run(run(name, run_id))
    assert made.refusal is None
    assert (tmp_path / "own" / "runs" / name / run_id / "ledger.jsonl").exists()


def test_a_start_cannot_call_itself_by_the_servers_folder_of_another_run():
    """Its steps would find there what the server keeps of that run."""
    theirs = PartyOptions(
        "server",
        "server",
        "/s",
        folder="/own",
        run=run("night", workspace=sent_from("ana", "night")),
    )
    with pytest.raises(InvalidInput, match="may not begin with 'work-'"):
        run("night", theirs.run_folder().name)


@pytest.mark.parametrize("where", ["runs/night", "runs/night/start-1"])
def test_a_link_in_a_runs_place_is_not_followed(party, tmp_path, where):
    outside = tmp_path / "outside"
    (outside / "start-1").mkdir(parents=True)
    (outside / "start-1" / "mine").touch()
    link = tmp_path / "own" / where
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    made = party()
    made.start_run(run("night"))
    with pytest.raises(LedgerError, match="cannot write its ledger"):
        made.check_open()
    made.start_run(run("another", "start-2"))  # which sweeps what others left
    assert made.refusal is None
    assert sorted(path.name for path in outside.rglob("*")) == ["mine", "start-1"]


def test_what_is_removed_is_no_links_target(tmp_path):
    outside, own = tmp_path / "outside", tmp_path / "own" / "runs" / "night" / "start-1"
    outside.mkdir()
    (outside / "mine").touch()
    own.mkdir(parents=True)
    (own / "ledger.jsonl").touch()
    (own / "folder").symlink_to(outside)
    (own / "file").symlink_to(outside / "mine")
    (tmp_path / "own" / "runs" / "linked").symlink_to(outside)
    (outside / "x").mkdir()
    (outside / "x" / "ledger.jsonl").touch()
    (outside / "x" / "rows").touch()
    empty(folders_of_client(str(tmp_path / "own")))
    assert [path.name for path in own.iterdir()] == ["ledger.jsonl"]
    remove_old_runs(str(tmp_path / "own"), 1, own)
    assert (outside / "mine").exists()
    assert (outside / "x" / "rows").exists()


def test_of_two_submitters_with_one_name_each_finds_its_own(party, tmp_path):
    """The same name and the same path, at two machines."""
    settings = run("night", workspace=sent_from("runs", "night", "FedSC"))
    server = party("server")
    server.start_run(settings, submitter="ana")
    (server.folder / "fits").mkdir()
    anas = server.options
    server.start_run(replace(settings, run_id="start-2", start="2"), submitter="eve")
    assert server.folder.parent == anas.run_folder().parent  # the run's name
    assert not (server.folder / "fits").exists()
    empty(server.options.folders_of_run())  # eve's run ends, and ana's does not
    assert (anas.run_folder() / "fits").exists()
    server.start_run(replace(settings, run_id="start-3", start="3"), submitter="ana")
    assert (server.folder / "fits").exists()
    clients = party()
    clients.start_run(settings, submitter="ana")
    clients.start_run(replace(settings, run_id="start-2", start="2"), submitter="eve")
    assert {path.parent.name for path in clients.folder.parent.glob("*/ledger.jsonl")} >= {
        "start-1", "start-2",
    }  # fmt: skip


@pytest.mark.parametrize("names", [("Night", "night"), ("ﬁt", "fit"), ("é", "e\u0301")])
def test_names_that_some_disks_take_for_one_share_no_start(party, tmp_path, monkeypatch, names):
    """As a disk without cases would, the second name gives the first's folder."""
    first, second = names
    made = party()
    made.start_run(run(first))
    (tmp_path / "own" / "runs" / second).symlink_to(made.folder.parent)  # one folder, two names
    monkeypatch.setattr("daskfc.federation.party.workspaces._is_link", lambda folder: False)
    made = party(keep=1)
    made.start_run(run(second, "start-2"))
    assert made.refusal is None
    folders = {path.parent.name for path in (tmp_path / "own/runs" / first).glob("*/ledger.jsonl")}
    assert folders == {"start-1", "start-2"}  # nor is the run under way an old one


def begun(made, name, at, **more):
    """Begin a run at a party that was just started, as if at a second since 1970."""
    made.start_run(run(name, f"start-{at}", **more))
    os.utime(made.ledger.path, (at, at))
    return made


def test_a_party_keeps_the_folders_of_the_newest_runs(party, tmp_path):
    runs = tmp_path / "own" / "runs"
    for number, name in enumerate(("a", "b", "a", "c")):
        begun(party(keep=2), name, number)
    assert {path.name for path in runs.iterdir()} == {"a", "c"}
    assert sorted(path.name for path in (runs / "a").iterdir()) == ["start-0", "start-2"]
    begun(party(keep=2), "d", 9)
    assert {path.name for path in runs.iterdir()} == {"c", "d"}
    for at, letter in enumerate(string.ascii_lowercase[4:9]):
        begun(party(), letter, at)  # without a number
    assert len(list(runs.iterdir())) == 7


def test_tasks_that_no_policy_counts_push_out_no_run(party, tmp_path):
    begun(party(keep=1), "night", 1)
    begun(party(keep=1), "asked", 2, request={"method": "opening"})
    assert {path.name for path in (tmp_path / "own" / "runs").iterdir()} == {"night", "asked"}
    begun(party(keep=1), "summed", 3, request={"method": "profiles"})
    assert {path.name for path in (tmp_path / "own" / "runs").iterdir()} == {"summed"}


def test_the_run_under_way_stays_whatever_the_clock_says(party, tmp_path):
    begun(party(), "old", 4e9)
    made = begun(party(keep=1), "now", 1)
    assert {path.name for path in (tmp_path / "own" / "runs").iterdir()} == {"old", "now"}
    assert made.ledger.path.exists()


def test_a_server_keeps_what_could_be_resumed(party, tmp_path):
    """A note that noise was released is such a thing: a second release would cost twice."""

    def server():
        return party("server", "server", keep=1)

    runs = tmp_path / "own" / "runs"
    for number, (name, left) in enumerate(
        [("fits", "fits/kept"), ("noise", "releases-began-1"), ("done", None), ("log", "party.log")]
    ):
        made = begun(server(), name, number, workspace=sent_from("me", name))
        if left is not None:
            (made.folder / left).parent.mkdir(exist_ok=True)
            (made.folder / left).touch()
    begun(server(), "new", 9, workspace=sent_from("me", "new"))
    assert {path.name for path in runs.iterdir()} == {"fits", "noise", "new"}
    made = begun(server(), "noise", 10, workspace=sent_from("me", "noise"))
    assert (made.folder / "releases-began-1").exists()
    empty(made.options.folders_of_run())  # it is told that its run is done
    begun(server(), "last", 11, workspace=sent_from("me", "last"))
    assert {path.name for path in runs.iterdir()} == {"fits", "last"}


def test_removal_that_was_cut_short_is_ended_by_the_next_run(party, tmp_path):
    half = tmp_path / "own" / "runs" / ".removed-1" / "start-1"
    half.mkdir(parents=True)
    (half / "party.log").touch()
    made = party(keep=5)
    made.start_run(run("night"))
    assert [path.name for path in (tmp_path / "own" / "runs").iterdir()] == ["night"]


def test_files_of_a_version_without_folders_of_runs_are_swept_too(party, tmp_path):
    old = tmp_path / "own" / "431407e6"
    (old / "rows.zarr").mkdir(parents=True)
    (old / "ledger.jsonl").touch()
    party().start_run(run("night"))
    assert [path.name for path in old.iterdir()] == ["ledger.jsonl"]


def test_a_folder_that_cannot_be_removed_ends_no_run(party, tmp_path, monkeypatch):
    begun(party(), "old", 1)

    def refused(self, target):
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "rename", refused)
    assert begun(party(keep=1), "now", 2).refusal is None
    assert (tmp_path / "own" / "runs" / "old" / "start-1" / "ledger.jsonl").exists()
