"""What a run says of its data before it starts."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from daskfc.errors import InvalidInput
from daskfc.runs import Pipeline, check_pipeline, run
from daskfc.runs.outcome.quality import quality_of
from daskfc.runs.pipeline.remarks import check_bound, data_warnings
from daskfc.stores import ClientStore, write_store
from tests.runs.fakes import PIPELINE
from tests.runs.test_quality import fit


@pytest.fixture
def stores(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        rows = rng.normal(size=(40, 2)) * [1.0, 1e6]
        write_store(str(tmp_path / name), name, rows, dtype="float64")
    return {name: ClientStore.open(str(tmp_path / name)) for name in "ab"}


def told(stores, prepare=(), **params):
    params = {"n_clusters": 2, **params}
    pipeline = Pipeline(method="FedSC", params=params, prepare=prepare)
    return data_warnings(check_pipeline(pipeline), stores)


@pytest.mark.parametrize("step", ["standardise", "min-max", "robust"])
def test_unlike_ranges_are_told_unless_they_are_prepared(stores, step):
    assert ["standardise" in one for one in told(stores)] == [True]
    assert ["standardise" in one for one in told(stores, ["log"])] == [True]
    assert told(stores, [step]) == []


def test_a_width_is_told_where_no_two_samples_are_alike(stores):
    pairs = [cdist(rows, rows) for rows in (store.rows(0, 40) for store in stores.values())]
    nearest = np.sort(np.concatenate([(p + np.diag([np.inf] * 40)).min(axis=0) for p in pairs]))
    # of 80 samples four are a twentieth
    assert len(told(stores, kernel_width=nearest[3] / 9.99)) == 1
    assert len(told(stores, kernel_width=nearest[3] / 10.01)) == 2
    assert told(stores, ["standardise"], kernel_width=1e-12) == []  # prepared, so not known


def test_features_beyond_a_declared_bound_are_refused(stores):
    most = max(np.abs(store.rows(0, 40)).max() for store in stores.values())
    params = {"n_clusters": 2, "max_abs": float(most)}
    check_bound(check_pipeline(Pipeline(method="OmniFC", params=params)), stores)
    params["max_abs"] *= 1 - 1e-9
    with pytest.raises(
        InvalidInput, match=r"features of client '[ab]' must lie within the declared"
    ):
        check_bound(check_pipeline(Pipeline(method="OmniFC", params=params)), stores)
    prepared = Pipeline(method="OmniFC", params=params, prepare=["standardise"])
    check_bound(check_pipeline(prepared), stores)


def test_what_is_told_before_a_run_stands_in_its_summary():
    assert quality_of([fit([0, 1, 0, 1])], {}, ["of data."])["warnings"][0] == "of data."


def test_what_data_make_doubtful_stands_in_the_summary(fake, tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 1.0, 1e6]
    write_store(url := str(tmp_path / "a.zarr"), "a", rows, dtype="float64")
    storage = {"clients": {"a": {"store": url}}}
    done = run({**PIPELINE, "metrics": []}, storage=storage, runs_dir=tmp_path / "runs")
    assert any("standardise" in one for one in done.summary["quality"]["warnings"])
