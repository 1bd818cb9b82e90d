"""Runs side by side, against numbers written by hand."""

import numpy as np
import pytest
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.runs import Run, run
from daskfc.runs.report.comparison import comparison
from tests.runs.fakes import PIPELINE


def labels(values, ids=None):
    names = np.array([str(i) for i in range(len(values))] if ids is None else ids)
    coords = {"sample_id": ("sample", names)}
    return xr.DataArray(np.array(values), dims="sample", coords=coords)


def config(**params):
    return {"pipeline": {"params": params}, "seeds": [0], "versions": {"daskfc": "1"}}


def summary(method="A", **changes):
    return {
        "method": method, "status": "done", "n_samples": 4, "n_clients": 2,
        "metrics": {method: {"ari": {"mean": 0.5, "std": 0.0}}, "central": {}},
        "quality": {"sizes": {"0": 1, "1": 3}, "silhouette": None},
        "communication": {"messages": 7, "payload_bytes": 900},
        "timing": {"total_s": 9.0, f"{method}_fit_s": 4.0},
        "peak_memory_bytes": {"a": 5, "server": 8}, **changes,
    }  # fmt: skip


def test_settings_are_told_where_they_differ():
    frame = comparison(
        ["a", "b"], [config(k=3, step="x"), config(k=4, step="x")], [summary(), summary()],
        [None, None],
    )  # fmt: skip
    assert frame.loc["settings"].to_dict() == {"a": {"k": 3}, "b": {"k": 4}}


def test_what_came_of_runs_and_what_it_cost():
    frame = comparison(["a", "b"], [{}, {}], [summary("A"), summary("B", metrics={})], [None] * 2)
    told = {what: values for (_, what), values in zip(frame.index, frame.to_numpy(), strict=True)}
    assert told["method"].tolist() == ["A", "B"]
    assert told["ari"].tolist() == [0.5, None]
    assert told["sizes"].tolist() == ["3, 1", "3, 1"]
    assert told["payload bytes"].tolist() == [900, 900]
    assert told["seconds of a fit"].tolist() == [4.0, 4.0]
    assert told["peak memory of a party, bytes"].tolist() == [8, 8]
    assert "silhouette" not in told  # nobody knows it


def test_agreement_is_of_the_same_samples_in_any_order():
    frame = comparison(
        ["a", "b", "c", "d"], [{}] * 4, [summary()] * 4,
        [labels([0, 0, 1, 1]), labels([1, 0, 1, 0], ["3", "0", "2", "1"]),
         labels([0, 0, 1, 1, 1]), None],
    )  # fmt: skip
    found = frame.loc["clusters", "agreement with a (ari)"].tolist()
    assert found == [1.0, 1.0, None, None]


def test_runs_of_one_name_are_told_apart():
    frame = comparison(["a", "a"], [{}, {}], [summary(), summary()], [None, None])
    assert list(frame.columns) == ["a (1)", "a (2)"]
    frame = comparison(["a", "a", "a (1)"], [{}] * 3, [summary(c) for c in "ABC"], [None] * 3)
    assert frame.loc["run", "method"].tolist() == ["A", "B", "C"]


def test_one_run_is_no_comparison():
    with pytest.raises(InvalidInput, match="two runs at least; got 1"):
        comparison(["a"], [{}], [summary()], [None])


def test_runs_compare_themselves(fake, storage, tmp_path):
    for name, k in (("a", 3), ("b", 2)):
        run(PIPELINE, storage=storage, params={"n_clusters": k}, runs_dir=tmp_path, name=name)
    first, second = Run(tmp_path / "a"), Run(tmp_path / "b")
    frame = first.compare(second)
    assert frame.loc["settings", "n_clusters"].tolist() == [3, 2]
    assert frame.loc["clusters", "agreement with a (ari)"].tolist() == [1.0, 1.0]
