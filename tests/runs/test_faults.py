"""Runs that are killed, torn, edited, or run out of disk: no wrong label, and true ways out."""

import fcntl
import json
import logging
import shutil
import signal

import numpy as np
import pytest

from daskfc.errors import InvalidInput, PartyError, PrivacyError, StoreError
from daskfc.federation import Local
from daskfc.federation.driver.waiting import translated
from daskfc.runs import Run, RunFailed, resume, run
from daskfc.runs.outcome.folder import RunFolder, digests_of
from tests.faults import tears
from tests.runs.fakes import PIPELINE, FakeFederation, FakeMethod, party_error


@pytest.fixture(scope="module")
def storage(tmp_path_factory):  # built once for all tests
    return {
        "source": {"dataset": "iris"},
        "partition": {"scheme": "iid", "clients": 3, "seed": 0},
        "root": str(tmp_path_factory.mktemp("stores")),
    }


@pytest.fixture
def start(fake, storage, tmp_path):
    def begin(pipeline=PIPELINE, name="a", **changes):
        return run(pipeline, storage=storage, runs_dir=tmp_path / "runs", name=name, **changes)

    return begin


@pytest.fixture
def broken(start):
    """A run whose second fit broke off."""
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    FakeMethod.fits.clear()
    return got.value.folder


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def edit(folder, change):
    record = json.loads((folder / "run.json").read_text())
    change(record)
    (folder / "run.json").write_text(json.dumps(record))


# -- torn files ---------------------------------------------------------------------------------


@pytest.mark.few(4)
@tears
@pytest.mark.parametrize("name", ["fit.json", "labels.npz", "ledger.parquet"])
def test_a_torn_fit_is_fitted_again(start, broken, name, tear):
    tear(broken / "fits" / "Fake-0" / name)
    resumed = resume(broken)
    assert FakeMethod.fits == [("FakeMethod", 0), ("FakeMethod", 1)]
    assert resumed.all_labels.identical(start(name="b").all_labels)


def test_a_changed_byte_of_a_fit_is_no_label(broken):
    kept = broken / "fits" / "Fake-0" / "fit.json"
    kept.write_text(kept.read_text().replace("total_s", "total_z"))
    resume(broken)
    assert FakeMethod.fits == [("FakeMethod", 0), ("FakeMethod", 1)]


@pytest.mark.few(4)
@tears
@pytest.mark.parametrize("kind", ["labels", "sample_id", "client"])
def test_torn_labels_are_never_read(start, kind, tear):
    done = start()
    for chunk in (done.folder / "labels.zarr" / kind / "c").rglob("*"):
        if chunk.is_file():
            tear(chunk)
    with pytest.raises(InvalidInput, match=r"labels\.zarr: is missing or damaged"):
        _ = done.labels


@pytest.mark.few(3)
@tears
@pytest.mark.parametrize("name", ["summary.json", "ledger.parquet"])
def test_torn_results_are_one_sentence(start, name, tear):
    done = start()
    page = (done.folder / "report.html").read_text()
    tear(done.folder / name)
    with pytest.raises(InvalidInput, match=f"{name}: is missing or damaged"):
        _ = done.summary if name == "summary.json" else done.ledger
    if name == "summary.json":
        with pytest.raises(InvalidInput, match="damaged"):
            done.write_report()
        assert (done.folder / "report.html").read_text() == page


@pytest.mark.few(2)
@tears
def test_a_torn_summary_of_a_broken_run_is_made_again(broken, tear):
    tear(broken / "summary.json")
    assert Run(broken).summary["resumable"] is True
    assert Run(broken).summary["method"] == "Fake"
    Run(broken).write_report()
    assert resume(broken).status == "done"


@tears
def test_a_torn_record_starts_nothing(broken, tear):
    tear(broken / "run.json")
    opened = FakeFederation.opened
    with pytest.raises(InvalidInput, match=r"no run is there|not valid JSON"):
        resume(broken)
    assert FakeFederation.opened == opened
    assert (broken / "fits" / "Fake-0").is_dir()


@pytest.mark.parametrize("text", ["[]", "{}", '{"run_id": "a", "status": "finished"}', "\xff"])
def test_a_record_of_something_else_starts_nothing(broken, text):
    (broken / "run.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"not valid JSON|missing or was changed by hand"):
        resume(broken)


# -- edited records -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda r: r["pipeline"]["params"].update(n_clusters=4), "pipeline.params.n_clusters"),
        (lambda r: r["pipeline"]["params"].update(clusterer="dbscan"), "pipeline.params.clusterer"),
        (lambda r: r["pipeline"].update(method="FakeRaw"), "pipeline.method"),
        (lambda r: r["pipeline"].update(compare=["FakeRaw"]), "pipeline.compare"),
        (lambda r: r["pipeline"]["seeds"].append(2), "pipeline.seeds"),
        (lambda r: r.pop("pipeline"), "pipeline"),
        (lambda r: r["contents"].update({"client-1": "0"}), "contents.client-1"),
        (lambda r: r["storage"]["clients"].pop("client-2"), "storage.clients.client-2.store"),
        (lambda r: r.pop("digests"), "digests"),
    ],
)
def test_an_edited_setting_is_named_and_starts_nothing(broken, change, key):
    edit(broken, change)
    before = {path: path.stat().st_mtime_ns for path in broken.rglob("*") if path.is_file()}
    opened = FakeFederation.opened
    with pytest.raises(InvalidInput, match=f"'{key}'"):
        resume(broken)
    assert FakeFederation.opened == opened
    assert before == {p: p.stat().st_mtime_ns for p in broken.rglob("*") if p.is_file()}


def test_an_edited_run_that_never_began_is_left_alone(fake, storage, tmp_path):
    from daskfc.runs import prepare

    prepared = prepare(PIPELINE, storage=storage, runs_dir=tmp_path, name="a")
    edit(prepared.folder, lambda record: record["pipeline"]["params"].update(n_clusters=4))
    with pytest.raises(InvalidInput, match="n_clusters"):
        prepared.resume()
    assert prepared.folder.is_dir()


def test_order_and_what_decides_no_label_may_be_edited(broken):
    def change(record):
        record["cluster"]["deadline"] = 99.0
        record.update(status="running", error="none", elapsed_s=0.0, versions={})

    edit(broken, change)
    record = json.loads((broken / "run.json").read_text())
    turned = dict(reversed(record.items())) | {
        "pipeline": dict(reversed(record["pipeline"].items()))
    }
    (broken / "run.json").write_text(json.dumps(turned, indent=7))
    assert resume(broken).status == "done"
    assert FakeMethod.fits == [("FakeMethod", 1)]


def test_a_fit_of_other_settings_is_never_mixed_in(broken):
    def change(record):  # as thoroughly as one can
        record["pipeline"]["params"]["n_clusters"] = 4
        record["digests"] = digests_of(record)

    edit(broken, change)
    resume(broken)
    assert FakeMethod.fits == [("FakeMethod", 0), ("FakeMethod", 1)]


# -- whether a resume could help ----------------------------------------------------------------


def crossed(kind, sentence="the features must be finite. Fill them."):
    """An error of a step as it reaches the driver."""
    error = PartyError("client-1", "describe", sentence)
    error.error_type = kind
    return translated(error, Local("client-1", "describe", {}))


@pytest.mark.parametrize(
    ("error", "resumable"),
    [
        (crossed("InvalidInput"), False),
        (crossed("OverflowRefused"), False),
        (crossed("PrivacyError"), False),
        (crossed("StoreError"), True),
        (crossed("DecodingError"), True),
        (crossed("", "MemoryError"), True),
        (InvalidInput("the tile is too small."), False),
        (StoreError("the store is not there."), True),
        (OSError(5, "Input/output error"), True),
    ],
)
def test_a_way_out_is_told_where_there_is_one(start, error, resumable, tmp_path):
    FakeMethod.trouble[0] = error
    with pytest.raises(RunFailed) as got:
        start()
    left = Run(tmp_path / "runs" / "a")
    assert got.value.resumable is resumable
    assert left.config["resumable"] is left.summary["resumable"] is resumable
    assert ("daskfc resume" in str(got.value)) is resumable


def test_a_fit_that_may_not_start_again_makes_no_promise(start, monkeypatch, tmp_path):
    monkeypatch.setattr(FakeMethod, "can_start_again", lambda self: self.random_state == 0)
    FakeMethod.trouble[0] = party_error()
    with pytest.raises(RunFailed) as got:
        start(name="a")
    assert got.value.resumable is True
    FakeMethod.trouble[1] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        start(name="b")
    assert Run(tmp_path / "runs" / "b").config["resumable"] is False
    assert Run(tmp_path / "runs" / "b").summary["resumable"] is False


def test_the_record_is_true_while_the_run_goes_on(start, monkeypatch, tmp_path):
    monkeypatch.setattr(FakeMethod, "can_start_again", lambda self: False)
    seen = []

    def look(*stage):
        path = tmp_path / "runs" / "a" / "run.json"
        if path.exists() and "distances" in stage[0]:
            seen.append(json.loads(path.read_text())["resumable"])

    start(progress=look)
    assert seen == [False, False]


def test_what_was_released_is_told_to_the_next_start(start, monkeypatch):
    monkeypatch.setattr(FakeMethod, "remembered", [])
    monkeypatch.setattr(FakeMethod, "released", (1.5, 2.0))
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    assert Run(got.value.folder).config["released"] == {
        "Fake, seed 0": [1.5, 2.0], "Fake, seed 1": [1.5, 2.0],
    }  # fmt: skip
    resume(got.value.folder)
    assert FakeMethod.remembered == [(), (), (1.5, 2.0)]


def test_results_of_other_samples_are_no_reason_to_resume(start, monkeypatch):
    fit = FakeMethod.fit

    def fewer(self, federation, y=None):
        fit(self, federation)
        if self.random_state:
            self.labels_ = self.labels_[1:]
        return self

    monkeypatch.setattr(FakeMethod, "fit", fewer)
    with pytest.raises(RunFailed, match=r"labelled other samples.*Start a new run\.$"):
        start()


# -- disks and folders --------------------------------------------------------------------------


def no_space(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_one_sentence_and_resumed_once_it_is_free(
    start, monkeypatch, capsys, tmp_path
):
    fit = FakeMethod.fit
    with monkeypatch.context() as patch:

        def filling(self, federation, y=None):
            patch.setattr("daskfc.runs.outcome.folder.write_whole", no_space)
            patch.setattr("daskfc.folders.PrivateLog.flush", no_space)
            return fit(self, federation)

        patch.setattr(FakeMethod, "fit", filling)
        patch.setattr("daskfc.runs.outcome.fits.whole_folder", no_space)
        with pytest.raises(RunFailed, match="no space left on the disk"):
            start()
    assert capsys.readouterr().err == ""
    left = Run(tmp_path / "runs" / "a")
    assert left.status == "running"
    assert hidden(left.folder) == []
    assert left.resume().status == "done"


def test_a_log_that_cannot_be_made_ends_no_run(start, monkeypatch):
    monkeypatch.setattr(logging.FileHandler, "_open", no_space)
    assert start().status == "done"


def test_a_folder_that_is_removed_while_it_runs_is_told(start, monkeypatch, tmp_path):
    fit = FakeMethod.fit

    def removing(self, federation, y=None):
        shutil.rmtree(tmp_path / "runs" / "a")
        return fit(self, federation)

    monkeypatch.setattr(FakeMethod, "fit", removing)
    with pytest.raises(RunFailed, match=r"was removed while it ran\. Start") as got:
        start()
    assert got.value.resumable is False


def test_what_a_killed_process_left_is_swept(broken):
    for name in (".labels-abc", ".partial-abc", "fits/.partial-x"):
        (broken / name).mkdir()
        (broken / name / "half").write_text("x")
    for name in (".ledger.parquet", ".claim", ".run.json-x", ".summary.json-x", ".report.html-x"):
        (broken / name).write_text("x")
    resume(broken)
    assert hidden(broken) == []


def test_nothing_temporary_is_left(start, broken):
    assert hidden(broken) == []
    assert hidden(start(name="b").folder) == []
    assert hidden(broken.parent) == []


def test_a_run_killed_when_it_was_done_is_cleaned_up(start):
    done = start()
    (done.folder / "work" / "Fake").mkdir(parents=True)
    (done.folder / ".claim").write_text("")
    with pytest.raises(InvalidInput, match="nothing to resume"):
        done.resume()
    assert not (done.folder / "work").exists()
    assert hidden(done.folder) == []


def test_an_interrupt_after_the_end_ends_nothing(start, monkeypatch, tmp_path):
    def interrupted(self, **changes):
        update(self, **changes)
        if changes.get("status") == "done":
            raise KeyboardInterrupt

    update = RunFolder.update
    monkeypatch.setattr(RunFolder, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start()
    left = Run(tmp_path / "runs" / "a")
    assert left.status == "done"
    assert not (left.folder / "fits").exists()
    assert np.array_equal(left.labels, left.all_labels[0, 0])


def test_a_creation_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("daskfc.runs.outcome.folder.write_whole", interrupted)
    with pytest.raises(KeyboardInterrupt):
        RunFolder.create(tmp_path / "runs", "a", {})
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_claim_is_of_the_file_that_is_there(tmp_path, monkeypatch):
    folder = RunFolder.create(tmp_path, "a", {})
    flock, tries = fcntl.flock, []

    def late(handle, how):
        if not tries:
            (folder.path / ".claim").unlink()  # as its holder does at the end
        tries.append(how)
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with folder.claim():
        assert len(tries) == 2
        with pytest.raises(InvalidInput, match="another process"), folder.claim():
            pass


def test_privacy_refused_before_the_start_is_bad_input(capsys):
    from daskfc.cli.terminal.exits import BAD_INPUT, exits

    with pytest.raises(SystemExit) as left, exits():
        raise PrivacyError("noise protects nothing here.")
    assert left.value.code == BAD_INPUT
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
