import json
import logging
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, cohen_kappa_score

from daskfc.errors import ClusterError, EgressRefused, InvalidInput
from daskfc.runs import Run, RunFailed, prepare, resume, run
from daskfc.runs.outcome.folder import RunFolder
from daskfc.secure.profiles import Profile
from daskfc.site import Refusal
from daskfc.stores import load_storage, write_store
from tests.runs.fakes import PIPELINE, FakeFederation, FakeMethod, party_error

KEYS = {
    "run_id", "status", "pipeline", "storage", "method", "params", "n_samples", "n_clients",
    "seeds", "metrics", "communication", "privacy", "timing", "peak_memory_bytes",
}  # fmt: skip


@pytest.fixture
def start(fake, storage, tmp_path):
    def begin(pipeline=PIPELINE, **changes):
        return run(pipeline, storage=storage, runs_dir=tmp_path / "runs", name="a", **changes)

    return begin


def runs_in(tmp_path):
    folder = tmp_path / "runs"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def test_a_run_leaves_its_folder_complete(start):
    done = start()
    assert done.status == "done"
    assert {p.name for p in done.folder.iterdir() if not p.name.startswith(".")} == {
        "run.json", "summary.json", "labels.zarr", "ledger.parquet", "report.html", "log.txt",
        "labels.csv", "labels.parquet",
    }  # fmt: skip
    record = json.loads((done.folder / "run.json").read_text())
    assert record["seeds"] == [0, 1]
    assert record["versions"]["daskfc"]
    assert "INFO daskfc.runs: Fake, seed 0: begins" in (done.folder / "log.txt").read_text()


def test_a_site_that_allows_no_profiles_leaves_the_labels(start, monkeypatch):
    def refuse(self, federation, labels):
        raise Refusal("profiles", "what the site says to itself").error("a")

    monkeypatch.setattr(Profile, "fit", refuse)
    monkeypatch.setattr(FakeFederation, "report_progress", lambda *_: None, raising=False)
    done = start({**PIPELINE, "profiles": True})
    assert done.status == "done"
    assert done.summary["profiles"] == {}
    (said,) = [one for one in done.summary["quality"]["warnings"] if "described" in one]
    assert said.startswith("clusters are not described: party 'a' refuses this by its rule 'profi")
    assert "to itself" not in said


def test_the_summary_has_the_promised_keys(start):
    summary = start({**PIPELINE, "compare": ["FakeRaw"]}).summary
    assert set(summary) >= KEYS
    assert summary["run_id"] == "a"
    assert summary["n_samples"] == 150
    assert summary["n_clients"] == 3
    assert list(summary["metrics"]) == ["Fake", "FakeRaw"]
    moved = summary["communication"]
    assert moved["messages"] == 4
    assert moved["payload_bytes"] == 160
    assert moved["wire_bytes"] == 1200
    assert moved["uploaded_floats"] == 3 * 40  # CodedRows of three clients; Plan goes down
    assert moved["by_message"]["Plan"]["route"] == "server → client"
    assert summary["privacy"]["statement"] == "none whatsoever."
    assert summary["methods"]["FakeRaw"]["note"] == "sees raw data"
    assert summary["methods"]["Fake"]["note"] == ""
    assert summary["timing"]["total_s"] > 0
    assert summary["timing"]["distances_s"] == pytest.approx(0.1)
    assert set(summary["peak_memory_bytes"]) == {"client-1", "client-2", "client-3", "server"}


def test_scores_are_against_the_clients_own_labels(start, storage):
    done = start({**PIPELINE, "seeds": [0]})
    truth = np.concatenate([store.labels() for store in load_storage(storage).open().values()])
    # the fake's labels are in the order of the classes: no matching is needed
    expected = cohen_kappa_score(truth, done.labels)
    assert done.summary["metrics"]["Fake"]["kappa"] == {
        "mean": pytest.approx(expected),
        "std": 0.0,
    }
    assert expected > 0.9


def test_labels_by_method_and_seed(start):
    done = start({**PIPELINE, "compare": ["FakeRaw"]})
    assert done.labels.dims == ("sample",)
    assert done.all_labels.dims == ("algorithm", "seed", "sample")
    assert list(done.all_labels["algorithm"].to_numpy()) == ["Fake", "FakeRaw"]
    assert np.array_equal(done.all_labels.sel(algorithm="Fake", seed=1), done.labels + 1)
    assert set(done.labels["client"].to_numpy()) == {"client-1", "client-2", "client-3"}


def test_the_ledger_holds_every_fit(start):
    ledger = start({**PIPELINE, "compare": ["FakeRaw"]}).ledger
    assert list(ledger["method"]) == ["Fake"] * 8 + ["FakeRaw"] * 2 + ["evaluation"]
    assert set(ledger["seed"]) == {0, 1, -1}


def test_params_and_overrides(start):
    done = start(params={"n_clusters": 4}, overrides=["seeds=[2]"])
    assert done.summary["params"] == {"n_clusters": 4}
    assert done.summary["seeds"] == [2]


def test_stages_are_reported(start):
    told = []
    start(progress=lambda *stage: told.append(stage))
    assert ("Fake, seed 0: distances", 1, 2) in told
    assert told[0][0] == "building the stores"


def test_an_existing_run_is_not_written_over(start):
    first = start().summary
    with pytest.raises(InvalidInput, match="not written over"):
        start()
    assert Run(first and start.__closure__ and _folder(start)).summary == first


def _folder(start):
    (place,) = (c.cell_contents for c in start.__closure__ if hasattr(c.cell_contents, "joinpath"))
    return place / "runs" / "a"


@pytest.mark.parametrize(
    ("pipeline", "changes"),
    [
        ({"method": "Fake", "params": {"n_clusters": 0}}, {}),
        ({"method": "Fake", "params": {"n_clusters": 151}}, {}),
        (PIPELINE, {"cluster": {"cluster": "cloud"}}),
        (PIPELINE, {"cluster": "no-such.yaml"}),
    ],
)
def test_bad_input_starts_nothing_and_leaves_nothing(start, tmp_path, pipeline, changes):
    with pytest.raises(InvalidInput):
        start(pipeline, **changes)
    assert FakeFederation.opened == 0
    assert runs_in(tmp_path) == []


def test_no_storage_is_refused(fake, tmp_path):
    with pytest.raises(InvalidInput, match="whose data"):
        run(PIPELINE, runs_dir=tmp_path / "runs")


def test_a_missing_store_is_refused(fake, tmp_path):
    clients = {"a": {"store": str(tmp_path / "none.zarr")}}
    with pytest.raises(InvalidInput, match=r"none\.zarr"):
        run(PIPELINE, storage={"clients": clients}, runs_dir=tmp_path / "runs")
    assert runs_in(tmp_path) == []


def test_an_unreachable_scheduler_leaves_nothing(start, tmp_path, monkeypatch):
    def unreachable(*where):
        raise ClusterError("no scheduler answers at tcp://127.0.0.1:1.")

    monkeypatch.setattr("daskfc.runs.execution.execution.open_federation", unreachable)
    with pytest.raises(ClusterError, match="no scheduler"):
        start()
    assert runs_in(tmp_path) == []


def test_a_failed_run_is_continued_without_repeating_fits(start):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed, match=r"step 'encode' of party 'client-1'.*daskfc resume") as got:
        start()
    folder = got.value.folder
    failed = Run(folder)
    assert failed.status == "failed"
    assert failed.summary["resumable"] is True
    assert set(failed.summary) >= KEYS
    assert "client-1" in (folder / "report.html").read_text()
    done = resume(folder)
    assert done.status == "done"
    assert FakeMethod.fits == [("FakeMethod", 0), ("FakeMethod", 1), ("FakeMethod", 1)]
    assert done.summary["error"] is None
    assert list(done.all_labels["seed"].to_numpy()) == [0, 1]
    assert not (folder / "fits").exists()


def test_the_labels_of_a_resumed_run_are_the_same(start, storage, tmp_path):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start({**PIPELINE, "compare": ["FakeRaw"]})
    resumed = resume(got.value.folder)
    whole = run(
        {**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "runs", name="b"
    )
    assert resumed.all_labels.identical(whole.all_labels)
    assert resumed.summary["metrics"] == whole.summary["metrics"]


def test_a_started_run_outlives_parties_that_cannot_be_opened(start, monkeypatch):
    def unreachable(*where):
        raise ClusterError("no scheduler answers at tcp://127.0.0.1:1.")

    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    with monkeypatch.context() as away:
        away.setattr("daskfc.runs.execution.execution.open_federation", unreachable)
        with pytest.raises(ClusterError, match="no scheduler"):
            resume(got.value.folder)
    assert resume(got.value.folder).status == "done"
    assert [seed for _, seed in FakeMethod.fits] == [0, 1, 1]


@pytest.fixture
def during(monkeypatch):
    """Do something whenever a fit begins."""

    def begin(act):
        fit = FakeMethod.fit

        def acting(model, federation):
            act(model, federation)
            return fit(model, federation)

        monkeypatch.setattr(FakeMethod, "fit", acting)

    return begin


def test_a_run_that_goes_on_has_no_error_any_more(start, during):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    folder, seen = RunFolder(got.value.folder), []
    during(lambda *_: seen.extend([folder.record, folder.summary]))
    resume(folder.path)
    said = [(told["status"], told["error"], told["resumable"]) for told in seen]
    assert said == [("running", None, True)] * 2


def test_a_stage_is_logged_once(start, during):
    during(lambda _, federation: federation.on_progress("distances", 0, 2))
    log = (start().folder / "log.txt").read_text()
    assert log.count("Fake, seed 0: distances") == log.count("Fake, seed 1: distances") == 1


def test_a_folder_that_is_removed_meanwhile_is_a_failed_run(start, during, tmp_path):
    during(lambda *_: shutil.rmtree(tmp_path / "runs" / "a"))
    FakeMethod.trouble[0] = party_error()
    with pytest.raises(RunFailed):
        start()


def test_scores_do_not_depend_on_the_order_of_a_result(start, storage, monkeypatch, tmp_path):
    fit = FakeMethod.fit

    def interleaved(model, federation):
        fit(model, federation)
        owners = model.labels_["client"].to_numpy()
        place = [(owners[:i] == owner).sum() for i, owner in enumerate(owners)]
        model.labels_ = model.labels_[np.argsort(place, kind="stable")]
        return model

    whole = start().summary["metrics"]
    monkeypatch.setattr(FakeMethod, "fit", interleaved)
    other = run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs", name="b")
    assert list(other.labels["client"].to_numpy()[:3]) == ["client-1", "client-2", "client-3"]
    assert other.summary["metrics"] == whole


def test_clients_without_a_result_are_not_scored(start, monkeypatch):
    fit, publish, asked = FakeMethod.fit, FakeFederation.publish, []

    def without_the_last(model, federation):
        fit(model, federation)
        model.labels_ = model.labels_[model.labels_["client"].to_numpy() != "client-3"]
        return model

    def of_some(federation, step, *, party):
        asked.append(party)
        found = publish(federation, step, party="clients")
        return found if party == "clients" else {name: found[name] for name in party}

    monkeypatch.setattr(FakeMethod, "fit", without_the_last)
    monkeypatch.setattr(FakeFederation, "publish", of_some)
    done = start()
    assert asked == [["client-1", "client-2"]]
    assert done.summary["metrics"]["Fake"]["kappa"]["mean"] > 0


def test_seeds_share_a_workspace_and_methods_do_not(start, during):
    seen = {}

    def noting(model, federation):
        place = Path(federation.workspace)
        seen.setdefault(type(model).__name__, []).append(place)
        place.mkdir(parents=True, exist_ok=True)

    during(noting)
    folder = start({**PIPELINE, "compare": ["FakeRaw"]}).folder.absolute()
    places = {name: set(own) for name, own in seen.items()}
    assert [len(own) for own in seen.values()] == [2, 2]
    assert [len(own) for own in places.values()] == [1, 1]
    assert len(set.union(*places.values())) == 2
    assert all(folder in place.parents for own in places.values() for place in own)
    assert not any(place.parent.exists() for own in places.values() for place in own)


def test_the_seconds_of_all_attempts_count(start):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    folder = RunFolder(got.value.folder)
    assert folder.record["elapsed_s"] > 0
    folder.update(elapsed_s=1000.0)
    began = time.monotonic()
    total = resume(folder.path).summary["timing"]["total_s"]
    assert 1000 < total <= 1000 + time.monotonic() - began


def test_attempts_add_up_however_often_it_breaks_off(start):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    folder = RunFolder(got.value.folder)
    folder.update(elapsed_s=1000.0)
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed):
        resume(folder.path)
    assert 1000 < folder.record["elapsed_s"] < 2000


def test_done_is_said_when_all_else_is_written(start, monkeypatch):
    """A process that is killed while it writes results leaves a run that can be resumed."""
    seen = []
    for name in ("write_labels", "write_ledger", "write_summary"):
        _tell_status(monkeypatch, name, seen)
    done = start()
    assert {name for name, _ in seen} == {"write_labels", "write_ledger", "write_summary"}
    assert {status for _, status in seen} == {"running"}
    assert done.status == "done"


def _tell_status(monkeypatch, name, seen):
    write = getattr(RunFolder, name)

    def watched(folder, content):
        write(folder, content)
        seen.append((name, folder.status))

    monkeypatch.setattr(RunFolder, name, watched)


def test_a_done_run_is_not_resumed(start):
    done = start()
    with pytest.raises(InvalidInput, match="nothing to resume"):
        done.resume()


def test_an_interrupt_leaves_a_resumable_run(start, tmp_path):
    FakeMethod.trouble[0] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        start()
    left = Run(tmp_path / "runs" / "a")
    assert (left.status, left.summary["resumable"]) == ("failed", True)
    assert left.resume().status == "done"


def test_a_privacy_refusal_is_not_resumable(start):
    FakeMethod.trouble[0] = EgressRefused("party 'client-1' tried to send a list.")
    with pytest.raises(RunFailed) as got:
        start()
    assert got.value.resumable is False
    assert "resume" not in str(got.value)


def test_an_unexpected_error_is_one_line_with_the_log(start):
    FakeMethod.trouble[0] = RuntimeError("first line\nsecond line")
    with pytest.raises(RunFailed) as got:
        start()
    assert "unexpected RuntimeError" in str(got.value)
    assert "\n" not in str(got.value)
    assert "second line" in (got.value.folder / "log.txt").read_text()


def test_a_warning_is_shown_and_kept(start):
    FakeMethod.trouble[0] = UserWarning("did not converge")
    with pytest.warns(UserWarning, match="did not converge"):
        run = start()
    assert "seed 0: did not converge" in (run.folder / "log.txt").read_text()


def test_what_did_not_converge_stands_in_the_summary(start):
    FakeMethod.trouble[0] = ConvergenceWarning("the centres still move.")
    run = start()
    assert "the centres still move." in run.summary["quality"]["warnings"]
    assert "seed 0: the centres still move." in (run.folder / "log.txt").read_text()


def test_a_full_disk_says_so(start):
    FakeMethod.trouble[0] = OSError(28, "No space left on device")
    with pytest.raises(RunFailed, match="no space left on the disk"):
        start()


def test_a_store_that_changed_is_not_continued(start, storage, tmp_path):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as got:
        start()
    load_storage({**storage, "partition": {"scheme": "iid", "clients": 3, "seed": 9}}).build(
        overwrite=True
    )
    from daskfc.runs.pipeline.parties import open_federation

    with pytest.raises(InvalidInput, match="written again since the run began"):
        open_federation(Run(got.value.folder).config, None)


def test_a_run_that_another_process_holds_is_left_alone(fake, storage, tmp_path):
    prepared = prepare(PIPELINE, storage=storage, runs_dir=tmp_path / "runs")
    with prepared._folder.claim(), pytest.raises(InvalidInput, match="another process"):
        prepared.resume()
    assert prepared.resume().status == "done"


def test_a_default_name_says_what_was_run(fake, storage, tmp_path):
    first = prepare(PIPELINE, storage=storage, runs_dir=tmp_path / "runs")
    assert first.name.startswith("Fake-")


def test_without_metrics_no_labels_are_asked_for(start, monkeypatch):
    monkeypatch.setattr(FakeFederation, "publish", None)
    done = start({**PIPELINE, "metrics": []})
    assert done.summary["metrics"] == {}
    assert done.summary["unscored"] == "the pipeline asks for no metrics."
    assert "evaluation" not in set(done.ledger["method"])
    assert "asks for no metrics" in (done.folder / "report.html").read_text()


def test_unlabelled_clients_have_no_scores(start, fake, tmp_path):
    url = str(tmp_path / "a.zarr")
    rows = np.random.default_rng(0).random((6, 3))
    write_store(url, "a", rows, [str(i) for i in range(6)])
    done = run(PIPELINE, storage={"clients": {"a": {"store": url}}}, runs_dir=tmp_path / "runs")
    assert done.summary["metrics"] == {}
    assert done.summary["unscored"] == "client 'a' lacks true labels."
    assert done.status == "done"


def test_the_log_handler_is_gone_after_a_run(start):
    logger = logging.getLogger("daskfc")
    handlers, level = list(logger.handlers), logger.level
    logger.setLevel(logging.ERROR)
    try:
        start()
        assert (logger.handlers, logger.level) == (handlers, logging.ERROR)
    finally:
        logger.setLevel(level)


def test_a_running_cluster_needs_no_store_in_reach(fake, tmp_path):
    cluster = {"cluster": "existing", "scheduler": "tcp://127.0.0.1:1"}
    clients = {"a": {"store": "/elsewhere/a.zarr"}, "b": {"store": "/elsewhere/b.zarr"}}
    named = prepare(PIPELINE, storage={"clients": clients}, cluster=cluster, runs_dir=tmp_path)
    assert list(named.config["storage"]["clients"]) == ["a", "b"]
    assert named.config["contents"] == {}
    alone = prepare(PIPELINE, storage={"clients": ["a", "b"]}, cluster=cluster, runs_dir=tmp_path)
    assert list(alone.config["storage"]["clients"]) == ["a", "b"]
    expected = prepare(PIPELINE, cluster={**cluster, "expect": ["a", "b"]}, runs_dir=tmp_path)
    assert expected.config["storage"] == {"clients": ["a", "b"]}
    assert expected.config["n_clients"] == 2
    with pytest.raises(InvalidInput, match=r"nothing says which clients of tcp://127\.0\.0\.1:1"):
        prepare(PIPELINE, cluster=cluster, runs_dir=tmp_path)


def test_sites_that_coded_their_labels_alone_are_scored_on_the_words(fake, tmp_path):
    """Site b has nobody who is healthy, so that its code 0 is another word's than at a."""
    generator = np.random.default_rng(0)
    kinds = {"a": ["healthy", "ckd", "acute"], "b": ["ckd", "acute"], "c": ["healthy", "acute"]}
    place = {"healthy": 0.0, "ckd": 3.7, "acute": 7.0}
    clients, words = {}, []
    for name, own in kinds.items():
        label = generator.choice(own, 40)
        middle = np.array([place[word] for word in label])[:, None]
        rows = middle + generator.normal(scale=0.4, size=(40, 3))
        url = str(tmp_path / f"{name}.zarr")
        write_store(url, name, rows, [f"{name}{i}" for i in range(40)], label)
        clients[name], words = {"store": url}, [*words, *label]
    done = run({**PIPELINE, "metrics": ["ari"]}, storage={"clients": clients}, runs_dir=tmp_path)
    expected = adjusted_rand_score(words, done.labels)
    assert done.summary["metrics"]["Fake"]["ari"]["mean"] == pytest.approx(expected)
    assert expected > 0.8
