import json
import os
import resource
import stat

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from daskfc.errors import InvalidInput
from daskfc.runs.outcome.folder import RunFolder


def noise(n):
    return np.random.default_rng(0).random(n)


def labels(n=5):
    numbers = np.arange(2 * n) if n < 10 else (noise(2 * n) * 2**60).astype(np.int64)
    return xr.Dataset(
        {"labels": (("algorithm", "seed", "sample"), numbers.reshape(1, 2, n))},
        coords={
            "algorithm": np.array(["OmniFC"]),
            "seed": np.array([0, 3]),
            "client": ("sample", np.array(["hôpital-a"] * n)),
            "sample_id": ("sample", np.array([f"id {i}" for i in range(n)])),
        },
    )


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "runs", "night", {"seeds": [0]})


def test_an_existing_name_is_refused_and_kept(folder):
    folder.update(status="done")
    with pytest.raises(InvalidInput, match="not written over"):
        RunFolder.create(folder.path.parent, "night", {})
    assert folder.status == "done"


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".claim", "a/b", "../a", "a\0b", "a\\b", "a\nb", "\ud800", "a" * 300]
)
def test_a_name_that_is_no_folder_is_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match="name"):
        RunFolder.create(tmp_path, name, {})
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(InvalidInput, match="runs-dir"):
        RunFolder.create(tmp_path / "runs", "a", {})


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"no run\.json"):
        RunFolder(tmp_path)


def test_a_spoilt_record_is_one_sentence(folder):
    (folder.path / "run.json").write_text("{")
    with pytest.raises(InvalidInput, match="not valid JSON"):
        _ = folder.status


def test_labels_come_back(folder):
    folder.write_labels(labels())
    folder.write_labels(labels(7))  # again, in place of the first
    back = folder.read_labels()
    assert back["labels"].dtype == np.int64
    assert np.array_equal(back["labels"], labels(7)["labels"])
    assert list(back["client"].to_numpy()) == ["hôpital-a"] * 7
    assert list(back["sample_id"].to_numpy()) == [f"id {i}" for i in range(7)]
    assert list(back["algorithm"].to_numpy()) == ["OmniFC"]
    assert sorted(p.name for p in folder.path.iterdir()) == ["labels.zarr", "run.json"]


def test_a_run_without_labels_says_so(folder):
    with pytest.raises(InvalidInput, match="no labels yet"):
        folder.read_labels()


def test_json_holds_no_nan_and_numpy_numbers_are_numbers(folder):
    nan = float("nan")
    nested = {"f": nan, "g": [nan, {"h": np.float32("-inf")}]}
    folder.write_summary(
        {"a": nan, "b": np.float64("inf"), "c": np.int64(3), "d": (1, nan), "e": nested}
    )
    text = (folder.path / "summary.json").read_text()
    assert json.loads(text) == {
        "a": None, "b": None, "c": 3, "d": [1, None], "e": {"f": None, "g": [None, {"h": None}]},
    }  # fmt: skip
    assert folder.summary["c"] == 3


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_run_is_its_owners_until_the_owner_opens_its_folder(tmp_path, umask):
    before = os.umask(umask)
    try:
        folder = RunFolder.create(tmp_path, "night", {})
        folder.write_summary({})
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert (folder.path / "summary.json").stat().st_mode & 0o044 == 0o044


def test_a_failed_write_leaves_the_old_file_and_no_rest(folder, monkeypatch):
    folder.write_text("report.html", "old")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        folder.write_text("report.html", "new")
    monkeypatch.undo()
    assert (folder.path / "report.html").read_text() == "old"
    assert sorted(p.name for p in folder.path.iterdir()) == ["report.html", "run.json"]


@pytest.mark.parametrize(
    "write",
    [
        lambda folder, rows: folder.write_labels(labels(rows)),
        lambda folder, rows: folder.write_ledger(pd.DataFrame({"bytes": noise(rows)})),
        lambda folder, rows: folder.write_summary({"metrics": noise(rows).tolist()}),
    ],
    ids=["labels", "ledger", "summary"],
)
def test_a_disk_that_fills_up_leaves_what_was_there(folder, write):
    def content():
        files = (p for p in folder.path.rglob("*") if p.is_file())
        parts = ((p, p.relative_to(folder.path).parts) for p in files)
        return {names: p.read_bytes() for p, names in parts if not names[0].startswith(".")}

    write(folder, 5)
    before = content()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write(folder, 40_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert content() == before


def test_a_run_without_a_ledger_has_an_empty_one(folder):
    assert folder.read_ledger().empty


def test_one_process_at_a_time(folder):
    with folder.claim(), pytest.raises(InvalidInput, match="another process"), folder.claim():
        pass
    with folder.claim():  # the hold has ended
        pass
