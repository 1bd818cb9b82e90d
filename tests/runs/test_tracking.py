"""A run is logged to MLflow by one call."""

import json
import sys

import pytest

from daskfc.errors import InvalidInput
from daskfc.runs import Run, run
from daskfc.runs.outcome.folder import RunFolder
from tests.runs.fakes import PIPELINE


@pytest.fixture
def done(fake, storage, tmp_path):
    pipeline = {**PIPELINE, "compare": ["FakeRaw"]}
    return run(pipeline, storage=storage, runs_dir=tmp_path / "runs", name="a")


@pytest.fixture
def client(tmp_path, monkeypatch):
    """MLflow's client of a database in a folder, as it is by default, and where that is."""
    monkeypatch.chdir(tmp_path)
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed (daskfc[mlflow])")
    place = f"sqlite:///{tmp_path}/mlflow.db"
    return mlflow.MlflowClient(place), place


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's own calls of SQLAlchemy
def test_mlflow_has_the_runs_numbers_and_its_report(done, client):
    client, place = client
    logged = client.get_run(done.log_to_mlflow("wines"))  # without any setting of MLflow's
    assert (logged.info.run_name, logged.info.status) == ("a", "FINISHED")
    summary = done.summary
    metrics = logged.data.metrics
    for method, prefix in (("Fake", ""), ("FakeRaw", "FakeRaw.")):
        for name, score in summary["metrics"][method].items():
            assert metrics[f"{prefix}{name}"] == score["mean"]
    assert metrics["n_samples"] == 150
    assert metrics["payload_bytes"] == summary["communication"]["payload_bytes"]
    params = logged.data.params
    assert params["method"] == "Fake"
    assert json.loads(params["n_clusters"]) == 3
    assert json.loads(params["seeds"]) == [0, 1]
    assert logged.data.tags["daskfc.daskfc"] == done.config["versions"]["daskfc"]
    files = {file.path for file in client.list_artifacts(logged.info.run_id)}
    assert files == {"summary.json", "report.html"}
    again = client.get_run(done.log_to_mlflow("wines", tracking_uri=place))
    assert again.info.experiment_id == logged.info.experiment_id
    assert again.info.run_id != logged.info.run_id


def test_only_what_is_done_is_logged(tmp_path):
    record = {"pipeline": {"method": "Fake", "params": {}, "seeds": [0]}, "digests": {}}
    begun = Run(RunFolder.create(tmp_path, "b", record).path)
    with pytest.raises(InvalidInput, match="run 'b' has no results to log; its status is"):
        begun.log_to_mlflow()


def test_without_mlflow_a_sentence_names_the_extra(done, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InvalidInput, match=r"pip install 'daskfc\[mlflow\]'"):
        done.log_to_mlflow()
