"""Models of runs: kept where the caller has them, and new samples labelled by them."""

import numpy as np
import pandas as pd
import pytest

import daskfc
from daskfc.errors import InvalidInput
from daskfc.federation import FederatedClusterer
from daskfc.runs import Run, known_methods, load, predict_run, run, site_labels
from daskfc.runs.execution.models import keep_model
from daskfc.runs.outcome.folder import RunFolder
from daskfc.stores import write_store

N = 8


def store(folder, client, prefix, seed):
    url = str(folder / f"{prefix}{client}.zarr")
    rows = np.random.default_rng([seed, ord(client)]).normal(size=(N, 2))
    rows += 20 * (np.arange(N) % 2)[:, None]
    write_store(url, client, rows, [f"patient-{prefix}{client}{i}" for i in range(N)])
    return url


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def done(place):
    urls = {client: store(place, client, "old-", 0) for client in "ab"}
    pipeline = {
        "method": "k-FED", "params": {"n_clusters": 2}, "compare": ["MUFC", "DSC"], "seeds": [0, 5],
        "prepare": [{"clip": {"low": -100.0, "high": 100.0}}],
    }  # fmt: skip
    storage = {"clients": {client: {"store": url} for client, url in urls.items()}}
    return run(pipeline, storage=storage, runs_dir=place / "runs", name="r"), urls


@pytest.mark.slow
def test_new_samples_are_labelled_by_the_model_of_a_run(done, place):
    found, urls = done
    assert sorted(path.name for path in (found.folder / "models").iterdir()) == [
        "MUFC-0", "MUFC-5", "k-FED-0", "k-FED-5"
    ]  # fmt: skip
    new = {client: store(place, client, "new-", 1) for client in "ab"}
    target = predict_run(found.folder, {"a": new["a"]}, name="first")
    assert target == found.folder / "predictions" / "first"
    table = pd.read_csv(target / "labels.csv")
    assert table.columns.tolist() == ["pseudonym", "client", "cluster"]
    assert set(table["client"]) == {"a"}
    old = site_labels(found.folder, urls["a"])["cluster"].to_numpy()
    own = site_labels(target / "labels.csv", urls["a"], samples=new["a"])
    assert own["sample_id"].tolist() == [f"patient-new-a{i}" for i in range(N)]
    assert own["cluster"].tolist() == old.tolist()  # the same groups, in the same order
    told = pd.read_parquet(target / "ledger.parquet")
    assert set(told["message"]) == {"StoreSummary", "PseudonymousSamples"}
    for path in found.folder.rglob("*"):
        assert path.is_dir() or b"patient-" not in path.read_bytes(), path
    with pytest.raises(InvalidInput, match="is there and is not written over"):
        predict_run(found.folder, {"a": new["a"]}, name="first")
    other = predict_run(found.folder, new, method="MUFC", seed=5, name="second")
    assert len(pd.read_parquet(other / "labels.parquet")) == 2 * N
    with pytest.raises(InvalidInput, match="DSC cannot label new samples: it has no model"):
        predict_run(found.folder, new, method="DSC")
    with pytest.raises(InvalidInput, match=r"no model of k-FED with seed 9; it has MUFC-0, MUFC-5"):
        predict_run(found.folder, new, seed=9)
    with pytest.raises(InvalidInput, match="the name of a prediction must be usable"):
        predict_run(found.folder, new, name="../x")
    with pytest.raises(InvalidInput, match="must belong to clients, a, b; got"):
        predict_run(found.folder, {"c": new["a"]})
    assert sorted(p.name for p in (found.folder / "predictions").iterdir()) == ["first", "second"]


def left(tmp_path, method, status="done"):
    """The folder of a run that kept no model."""
    from daskfc.runs.outcome.folder import RunFolder

    pipeline = {"method": method, "params": {"n_clusters": 2}, "seeds": [0]}
    folder = RunFolder.create(tmp_path, "left", {"pipeline": pipeline})
    folder.update(status=status)
    return folder.path


PREDICTING = [
    name
    for name, kind in sorted(known_methods().items())
    if kind._predict is not FederatedClusterer._predict
]


@pytest.mark.parametrize("method", sorted(known_methods()))
def test_a_method_that_cannot_says_so_in_a_sentence(tmp_path, method):
    if method not in PREDICTING:
        match = f"{method} cannot label new samples"
    elif known_methods()[method].model_at_parties:
        match = f"the model of {method} lay with the parties of the run and ended with it"
    else:
        match = f"has no model of {method} with seed 0; it has none"
    with pytest.raises(InvalidInput, match=match):
        predict_run(left(tmp_path, method), {"a": "a.zarr"})


def test_a_run_that_is_not_done_has_no_model(tmp_path):
    folder = left(tmp_path, "k-FED", "failed")
    with pytest.raises(InvalidInput, match=r"its status is 'failed'\. Continue it with"):
        predict_run(folder, {"a": "a.zarr"})
    assert Run(folder).status == "failed"


def test_load_is_at_hand():
    assert daskfc.load is load
    assert "load" in daskfc.__all__
    assert daskfc.known_methods is known_methods


def test_a_disk_that_is_full_when_a_model_is_kept_is_the_moments_fault(tmp_path):
    class Model:
        model_at_parties = False
        predict = None

        def save(self, place):
            raise InvalidInput("it cannot be written.") from self.cause

    folder, model = RunFolder.create(tmp_path, "r", {}), Model()
    model.cause = OSError(28, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        keep_model(folder, model, "FedSC", 0)
    model.cause = None
    with pytest.raises(InvalidInput):
        keep_model(folder, model, "FedSC", 0)
