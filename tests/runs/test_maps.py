"""The map of a run: of its own first fit, in its ledger, and left out where a pipeline says so."""

import numpy as np
import pytest

from daskfc.federation import Ledger
from daskfc.federation.methods.sample_map import map_of_points
from daskfc.runs import run
from tests.runs.fakes import PIPELINE, FakeMethod, ledger_row

COMPARED = {**PIPELINE, "compare": ["FakeRaw"]}


@pytest.fixture
def start(fake, storage, tmp_path):
    def begin(pipeline, name="a"):
        return run(pipeline, storage=storage, runs_dir=tmp_path / "runs", name=name)

    return begin


@pytest.fixture
def mapped(monkeypatch):
    """Have the fake method draw a map of 30 samples; return the seeds of those that were drawn."""
    drawn = []

    def sample_map(self, federation):
        drawn.append((type(self).__name__, self.random_state))
        federation.ledger = Ledger([*map(vars, self.ledger_), ledger_row(message="SampleMap")])
        X = np.random.default_rng(0).normal(size=(30, 3))
        return map_of_points(X, self.labels_.values[:30])

    monkeypatch.setattr(FakeMethod, "sample_map", sample_map, raising=False)
    monkeypatch.setattr(FakeMethod, "mapped_by", "chance", raising=False)
    return drawn


def test_the_first_fit_of_the_runs_own_method_is_drawn(start, mapped):
    done = start(COMPARED)
    assert mapped == [("FakeMethod", 0)]
    told = done.summary["map"]
    assert len(told["positions"]) == len(told["labels"]) == 30
    assert told["told"].startswith("30 of 150 samples, by chance: their first two principal")
    assert "Map of the samples" in (done.folder / "report.html").read_text()


def test_a_map_is_a_message_like_all_others(start, mapped):
    done = start(COMPARED)
    assert done.summary["communication"]["by_message"]["SampleMap"]["messages"] == 1
    rows = done.ledger[done.ledger["message"] == "SampleMap"]
    assert rows[["method", "seed"]].values.tolist() == [["Fake", 0]]


def test_a_pipeline_can_leave_the_map_out(start, mapped):
    done = start({**COMPARED, "map": False})
    assert mapped == []
    assert done.summary["map"] == {}
    assert done.config["pipeline"]["map"] is False
    page = (done.folder / "report.html").read_text()
    assert "Map of the samples" not in page
    assert "No map of the samples" in page


def test_a_method_without_a_map_says_so(start):
    assert "No map of the samples" in (start(PIPELINE).folder / "report.html").read_text()
