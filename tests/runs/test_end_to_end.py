"""OmniFC from a pipeline file to its folder, on real worker processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from daskfc.cli import main
from daskfc.runs import Run

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def daskfc(folder, *words, **options):
    return subprocess.run(
        [sys.executable, "-m", "daskfc", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )


def here(*words):
    """Return what a command of daskfc tells in this process, whose fork server is warm."""
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def done(place):
    """One run of OmniFC on iris, beside the central clusterer and k-FED."""
    with contextlib.chdir(place):
        result = here(
            "run", ROOT / "pipelines" / "omnifc.yaml",
            "--storage", ROOT / "storage" / "iris.yaml",
            "--cluster", ROOT / "cluster-configs" / "local.yaml", "--name", "a", "--json",
            "--set", "params.n_clusters=3", "--set", "params.clusterer=hierarchical",
            "--set", "compare=[central, k-FED]",
        )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_omnifc_is_the_central_clusterer(done):
    own, central = done["metrics"]["OmniFC"], done["metrics"]["central"]
    assert list(done["metrics"]) == ["OmniFC", "central", "k-FED"]
    assert own["kappa"]["mean"] == pytest.approx(central["kappa"]["mean"], abs=1e-9)
    assert own["nmi"]["mean"] > 0.7


def test_only_coded_data_leaves_a_client(done):
    kinds = done["communication"]["by_message"]
    assert "raw" not in {row["protection"] for row in kinds.values()}
    assert kinds["CodedRows"]["protection"] == "coded"
    assert all(row["reveals"] for row in kinds.values())
    assert done["methods"]["central"]["note"] == "sees raw data"


def test_the_folder_agrees_with_the_summary(done, place):
    run = Run(place / "runs" / "a")
    assert run.labels.sizes["sample"] == done["n_samples"] == 150
    own = run.ledger[run.ledger["method"] == "OmniFC"]
    assert len(own) == done["communication"]["messages"]
    assert own["wire_bytes"].sum() == done["communication"]["wire_bytes"]
    assert set(done["peak_memory_bytes"]) == {"client-1", "client-2", "client-3", "server"}
    assert not (run.folder / "work").exists()


def interrupted(place, command, words, *signals):
    """Start a run and send signals when a line of progress says the words; return what it said."""
    process = subprocess.Popen(
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:  # stages, one a line
        if words in line:
            for number in signals:
                process.send_signal(number)
            break
    _, said = process.communicate(timeout=240)
    assert process.returncode == 1, said
    return said


def test_ctrl_c_while_the_parties_start_is_one_sentence(place, tmp_path):
    """A terminal sends it to every process, also to those that import what steps need."""
    command, err = run_of("omnifc", "early"), tmp_path / "said"
    # These tests may run in the background of a shell, which has its children ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with err.open("w") as said:
            process = subprocess.Popen(
                command, cwd=place, stdout=said, stderr=said, start_new_session=True
            )
    finally:
        signal.signal(signal.SIGINT, before)

    while process.poll() is None and not (place / "runs" / "early" / "progress.json").exists():
        time.sleep(0.01)  # parties start next, from a process that still imports
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(120) == 1
    told = err.read_text()
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith("daskfc: interrupted. Resume with: daskfc resume ")


COMPARED = ("params.clusterer=hierarchical", "compare=[central, k-FED]")


def run_of(pipeline, name, *settings):
    """Return the command of a run on iris with three clusters."""
    pipeline, storage = ROOT / "pipelines" / f"{pipeline}.yaml", ROOT / "storage" / "iris.yaml"
    sets = [word for one in ("params.n_clusters=3", *settings) for word in ("--set", one)]
    start = [sys.executable, "-m", "daskfc", "run", pipeline]
    return [*start, "--storage", storage, "--name", name, *sets]


@pytest.mark.long
def test_a_run_whose_terminal_closed_and_whose_files_are_torn_has_the_same_labels(done, place):
    command = run_of("omnifc", "torn", *COMPARED)
    said = interrupted(
        place, command, "central, seed 0", signal.SIGHUP, signal.SIGHUP, signal.SIGTERM
    )
    assert "resume with: daskfc resume runs/torn" in said.lower()
    folder = place / "runs" / "torn"
    assert not list(folder.glob(".*"))
    kept = [*(folder / "fits").rglob("*"), *(folder / "work" / "OmniFC").rglob("*")]
    for path in kept:
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    result = daskfc(place, "resume", "runs/torn")
    assert result.returncode == 0, result.stderr
    first, second = (Run(place / "runs" / name).all_labels for name in ("a", "torn"))
    assert np.array_equal(first, second)
    assert not list(folder.glob(".*"))
    assert "its fit is damaged" in (folder / "log.txt").read_text()


@pytest.mark.long
def test_a_budget_that_is_spent_is_no_reason_to_resume(place):
    noise = "params.noise={kind: data, epsilon: 5.0, delta: 1e-5, clip: 10.0}"
    command = run_of("fedsc", "spent", "params.rounds=40", noise)
    said = interrupted(place, command, "averaging", signal.SIGTERM)
    assert said.splitlines()[-1] == "daskfc: interrupted."
    left = Run(place / "runs" / "spent")
    assert left.config["resumable"] is left.summary["resumable"] is False
    result = daskfc(place, "resume", "runs/spent")
    assert result.returncode == 1
    assert "the whole of its budget of 5" in result.stderr
    assert "Resume with" not in result.stderr


def test_an_interrupted_run_resumes_with_the_same_labels(done, place):
    command = run_of("omnifc", "b", *COMPARED)
    said = interrupted(place, command, "central, seed 0", signal.SIGTERM)
    assert "resume with: daskfc resume runs/b" in said.lower()
    assert os.path.isdir(place / "runs" / "b" / "fits" / "OmniFC-0")
    with contextlib.chdir(place):
        result = here("resume", "runs/b")
    assert result.exit_code == 0, result.stderr
    first, second = (Run(place / "runs" / name).all_labels for name in "ab")
    for method in ("OmniFC", "central", "k-FED"):
        assert np.array_equal(first.sel(algorithm=method), second.sel(algorithm=method))
    assert "done before, kept" in (place / "runs" / "b" / "log.txt").read_text()


@pytest.mark.long
def test_preparation_and_fits_share_the_budget_of_a_run(place):
    noise = "{kind: data, epsilon: 5.0, delta: 1e-5, clip: 10.0}"
    ranges = "{low: 0, high: 2000, epsilon: 1.0, delta: 1e-5}"
    done = daskfc(
        place, "run", ROOT / "pipelines" / "fedsc.yaml",
        "--storage", ROOT / "storage" / "wine.yaml", "--name", "within", "--json",
        "--set", "params.n_clusters=3", "--set", "params.rounds=2",
        "--set", f"params.noise={noise}",
        "--set", f"prepare=[{{standardise: {ranges}}}]", "--set", "compare=[]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["privacy"]["noise"]
    assert told["epsilon"] < 5.0
    assert told["epsilon_with_preparation"] == pytest.approx(5.0)
    assert told["epsilon_of_all_fits"] == pytest.approx(5.0)
    refused = daskfc(
        place, "run", ROOT / "pipelines" / "fedsc.yaml",
        "--storage", ROOT / "storage" / "wine.yaml", "--name", "bare",
        "--set", "params.n_clusters=3", "--set", f"params.noise={noise}",
        "--set", "prepare=[standardise]", "--set", "compare=[]",
    )  # fmt: skip
    assert refused.returncode == 2
    assert "FedSC with noise cannot read features prepared by 'standardise'" in refused.stderr
    assert not (place / "runs" / "bare").exists()


@pytest.mark.long
def test_prepared_features_find_the_growers_of_wines(place):
    result = daskfc(
        place, "run", ROOT / "pipelines" / "prepared.yaml",
        "--storage", ROOT / "storage" / "wine.yaml",
        "--cluster", ROOT / "cluster-configs" / "local.yaml", "--name", "wine", "--json",
        "--set", "profiles={smallest: 2, of_one_client: true}",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    own, central = told["metrics"]["OmniFC"], told["metrics"]["central"]
    assert own["ari"]["mean"] == pytest.approx(central["ari"]["mean"], abs=0.02)
    assert own["ari"]["mean"] > 0.85
    assert told["quality"]["stability"] > 0.9
    run = Run(place / "runs" / "wine")
    spent = run.ledger[run.ledger["method"] == "preparation"]
    assert {"ColumnMagnitudes", "FittedMeans", "FittedScales"} <= set(spent["message"])
    assert "raw" not in set(spent["protection"])
    record = json.loads((run.folder / "run.json").read_text())
    (step,) = record["prepared"]["client-1"]
    assert step["step"] == "standardise"
    assert len(step["mean"]) == 13
    profiles, labels = told["profiles"], run.labels
    assert profiles["columns"][0] in ("flavanoids", "proline", "alcohol")
    assert profiles["sizes"] == [int((labels == c).sum()) for c in profiles["clusters"]]
    assert profiles["overall_mean"][profiles["columns"].index("proline")] > 500  # the store's units
    assert "ClusterMeans" in set(run.ledger[run.ledger["method"] == "profiles"]["message"])


def test_a_step_that_cannot_be_starts_nothing(place, monkeypatch):
    monkeypatch.chdir(place)
    result = here(
        "run", ROOT / "pipelines" / "prepared.yaml", "--storage", ROOT / "storage" / "wine.yaml",
        "--cluster", ROOT / "cluster-configs" / "local.yaml", "--name", "no",
        "--set", "prepare=[scale]",
    )  # fmt: skip
    assert result.exit_code == 2
    assert "no step of a preparation is called 'scale'" in result.stderr
    assert not (place / "runs" / "no").exists()
