"""What changed since an earlier run, against numbers written by hand."""

import re
import shutil

import numpy as np
import pytest
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.runs import Run, run
from daskfc.runs.outcome.folder import RunFolder
from daskfc.runs.report.changes import changes_in_words, changes_rows, changes_since, earlier_run
from daskfc.stores import ClientStore, append_samples
from daskfc.stores.layout.locations import resolve_url
from tests.runs.fakes import PIPELINE


def labels_of(values, clients, ids):
    coords = {"client": ("sample", np.array(clients)), "sample_id": ("sample", np.array(ids))}
    return xr.DataArray(np.array(values), dims="sample", coords=coords)


@pytest.fixture
def earlier(tmp_path):
    """A run of six samples of two clients, whose clusters 0, 1, 2 have three, two and one."""

    def made(*, clear=True, profiles=None):
        pipeline = {"method": "A", "seeds": [0]}
        record = {"pipeline": pipeline, "seeds": [0]}
        if not clear:
            record["pseudonyms"] = {"label": "0" * 12, "keys": {}}
        folder = RunFolder.create(tmp_path, "monday", record)
        found = labels_of([0, 0, 1, 0, 1, 2], list("aaabbb"), list("uvwxyz"))
        cube = xr.Dataset({"labels": found.expand_dims(algorithm=["A"], seed=[0])})
        folder.write_labels(cube.assign_coords(
            client=("sample", list("aaabbb")), sample_id=("sample", list("uvwxyz"))
        ))  # fmt: skip
        folder.write_summary({"profiles": profiles or {}})
        folder.update(status="done")
        return folder

    return made


def since(folder, *, clear=True, shared=None):
    told = {"run_id": "monday", "folder": str(folder.path), "shared": shared or {}}
    return {"since": told, **({} if clear else {"pseudonyms": {"label": "1" * 12}})}


def profile(means, clusters, columns=("age", "bmi"), std=(10.0, 2.0)):
    return {"columns": list(columns), "clusters": clusters, "means": means,
            "overall_std": list(std)}  # fmt: skip


NOW = labels_of([5, 5, 3, 3, 5, 3, 4, -1], list("aaaabbbb"), list("uvwqxyzp"))


def test_a_run_that_names_none_has_nothing_to_tell():
    assert changes_since({}, NOW, {}, by_rows=True) == {}


def test_clusters_matched_by_clear_ids(earlier):
    found = changes_since(since(earlier()), NOW, {}, by_rows=True)
    assert (found["by"], found["n_shared"], found["agreement"]) == ("ids", 6, 1.0)
    assert (found["n_samples"], found["n_samples_before"], found["stayed"]) == (8, 6, 1.0)
    told = {one["cluster"]: (one["before"], one["share"], one["share_before"], one["stayed"])
            for one in found["clusters"]}  # fmt: skip
    assert told == {
        3: (1, 3 / 8, 2 / 6, 1.0), 4: (2, 1 / 8, 1 / 6, 1.0), 5: (0, 3 / 8, 3 / 6, 1.0)
    }  # fmt: skip
    assert found["gone"] == {}


def test_samples_that_moved_and_clusters_that_are_new_or_gone(earlier):
    now = labels_of([0, 0, 0, 0, 0, 7, 7], list("aaabbbb"), list("uvwxyqp"))
    found = changes_since(since(earlier()), now, {}, by_rows=True)
    assert found["n_shared"] == 5
    assert found["stayed"] == 3 / 5
    assert [(one["cluster"], one["before"]) for one in found["clusters"]] == [(0, 0), (7, None)]
    assert found["gone"] == {"1": 2 / 6, "2": 1 / 6}
    assert [row[:2] for row in changes_rows(found)] == [
        ["0", "0"], ["7", "new"], ["gone", "1"], ["gone", "2"]
    ]  # fmt: skip


def test_clusters_matched_by_the_rows_that_both_runs_read(earlier):
    """Of client a three rows of four; client b was written anew, so that no row is known."""
    record = since(earlier(clear=False), clear=False, shared={"a": 3})
    found = changes_since(record, NOW, {}, by_rows=True)
    assert (found["by"], found["n_shared"]) == ("rows", 3)
    assert {one["cluster"]: one["before"] for one in found["clusters"]} == {3: 1, 4: None, 5: 0}
    assert changes_since(record, NOW, {}, by_rows=False)["by"] is None


def test_clusters_matched_by_profiles(earlier):
    """In units of overall deviations; the columns may come in another order."""
    past = profile([[60.0, 20.0], [40.0, 30.0]], [0, 1])
    now = profile([[31.0, 41.0], [20.5, 61.0]], [3, 5], ("bmi", "age"), (2.0, 9.0))
    record = since(earlier(clear=False, profiles=past), clear=False)
    found = changes_since(record, NOW, now, by_rows=True)
    assert found["by"] == "profiles"
    assert (found["stayed"], found["agreement"], found["n_shared"]) == (None, None, None)
    matched = {one["cluster"]: one for one in found["clusters"]}
    assert [matched[c]["before"] for c in (3, 4, 5)] == [1, None, 0]
    assert matched[3]["profile"] == [
        {"feature": "bmi", "mean": 31.0, "before": 30.0, "shift": 0.5},
        {"feature": "age", "mean": 41.0, "before": 40.0, "shift": 0.1},
    ]
    assert "age: 40 to 41" not in str(changes_rows(found))
    assert changes_rows(found)[0][-1] == "bmi: 30 to 31"
    assert "clusters are matched by their profiles" in changes_in_words(found)


def test_withheld_figures_do_not_count(earlier):
    past = profile([[60.0, None], [40.0, 30.0]], [0, 1])
    now = profile([[41.0, None], [61.0, 20.0]], [3, 5])
    record = since(earlier(clear=False, profiles=past), clear=False)
    found = changes_since(record, NOW, now, by_rows=True)
    matched = {one["cluster"]: one for one in found["clusters"]}
    assert [matched[c]["before"] for c in (3, 5)] == [1, 0]
    assert [one["feature"] for one in matched[3]["profile"]] == ["age"]


def test_a_withheld_figure_makes_no_cluster_nearer(earlier):
    past = profile([[50.0, 20.0], [None, 20.0], [90.0, 30.0]], [0, 1, 2])
    record = since(earlier(clear=False, profiles=past), clear=False)
    own = profile([[51.0, 20.0], [91.0, 30.0]], [3, 5])
    found = changes_since(record, NOW, own, by_rows=True)
    assert {one["cluster"]: one["before"] for one in found["clusters"]} == {3: 0, 4: None, 5: 2}


def test_nothing_is_matched_where_nothing_is_known(earlier):
    found = changes_since(since(earlier(clear=False), clear=False), NOW, {}, by_rows=True)
    assert (found["by"], found["gone"]) == (None, {})
    assert {one["before"] for one in found["clusters"]} == {None}
    assert "new" not in str(changes_rows(found))
    assert "Say 'profiles: true' in the pipeline" in changes_in_words(found)


def test_an_earlier_run_that_was_removed_meanwhile(earlier):
    folder = earlier()
    record = since(folder)
    shutil.rmtree(folder.path)
    found = changes_since(record, NOW, {}, by_rows=True)
    assert changes_rows(found) == []
    assert "cannot be read any more" in changes_in_words(found)


def test_a_run_that_is_not_done_or_not_there(fake, storage, tmp_path, earlier):
    folder = earlier()
    folder.update(status="failed")
    for path, match in ((folder.path, "is compared with one that is done"), ("gone", "no run is")):
        with pytest.raises(InvalidInput, match=match):
            run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs", since=path)
        assert not (tmp_path / "runs").exists()
        assert not (tmp_path / "stores").exists()
    with pytest.raises(InvalidInput, match="no run is there"):
        earlier_run(tmp_path / "gone", None)


def test_two_nights_of_runs(fake, storage, tmp_path, monkeypatch):
    """Stores grow between them; rows of each client's store tell which samples are shared."""
    where = {"storage": storage, "runs_dir": tmp_path / "runs"}
    monday = run(PIPELINE, name="monday", **where)
    assert monday.summary["changes"] == {}
    assert "What changed" not in (monday.folder / "report.html").read_text(encoding="utf-8")
    url = resolve_url(f"{storage['root']}/client-1.zarr")
    far = np.tile([5.0, 3.0, 9.0, 2.0], (30, 1))
    names = ClientStore.open(url).feature_names
    ids = [f"new-{i}" for i in range(30)]
    append_samples(url, far, ids, ["virginica"] * 30, feature_names=names)
    tuesday = run(PIPELINE, name="tuesday", since=monday.folder, **where)
    shared = tuesday.config["since"]["shared"]
    assert shared == {f"client-{i}": 50 for i in (1, 2, 3)}
    found = tuesday.summary["changes"]
    assert (found["since"], found["by"]) == ("monday", "rows")
    assert (found["n_samples"], found["n_samples_before"], found["n_shared"]) == (180, 150, 150)
    assert (found["stayed"], found["agreement"]) == (1.0, 1.0)
    last = found["clusters"][-1]
    assert last["share"] > last["share_before"]
    page = re.sub(r"\s+", " ", (tuesday.folder / "report.html").read_text(encoding="utf-8"))
    assert "<h2>What changed</h2>" in page
    assert "100.0% of 150 shared ones stayed where they were" in page
    assert Run(tuesday.folder).summary["changes"] == found


def test_stores_that_were_written_anew_share_no_rows(fake, storage, tmp_path):
    where = {"storage": storage, "runs_dir": tmp_path / "runs"}
    monday = run(PIPELINE, name="monday", **where)
    other = {**storage, "partition": {**storage["partition"], "seed": 1}, "root": f"{tmp_path}/b"}
    tuesday = run(PIPELINE, name="tuesday", since=monday.folder, storage=other,
                  runs_dir=tmp_path / "runs")  # fmt: skip
    assert tuesday.config["since"]["shared"] == {}
    assert tuesday.summary["changes"]["by"] is None
