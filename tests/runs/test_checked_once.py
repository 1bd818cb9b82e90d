"""The check of a run that was prepared is taken by its first attempt, and by no other."""

from daskfc.runs import prepare
from daskfc.runs.execution import run as module
from tests.followed import followed, stays
from tests.runs.fakes import PIPELINE


def test_what_was_checked_before_is_taken_once(fake, storage, tmp_path, monkeypatch):
    """Estimators of an attempt that broke off may have been fitted."""
    taken = []
    monkeypatch.setattr(module, "execute", lambda *given, **_: taken.append(given[2]))
    prepared = prepare(PIPELINE, storage=storage, runs_dir=tmp_path / "runs")
    first = prepared._checked
    prepared.resume()
    prepared.resume()
    assert taken[0] is first
    assert taken[1].pipeline == first.pipeline
    assert taken[1].own is not first.own


def test_steps_are_counted_where_somebody_is_told_of_them(fake, storage, tmp_path, monkeypatch):
    watched = []
    monkeypatch.setattr(module, "execute", lambda *_, **how: watched.append(how["watched"]))
    prepared = prepare(PIPELINE, storage=storage, runs_dir=tmp_path / "runs")
    prepared.resume(progress=lambda *_: None)
    prepared.resume()
    assert watched == [True, False]


def test_a_pipeline_seldom_comes_back_to_a_file(fake, tmp_path):
    """Each stay beyond these is a file more to read for who follows it; see CONTRIBUTING."""
    way = stays(followed(tmp_path, PIPELINE))
    assert way[:3] == [
        "runs/execution/run.py",
        "runs/pipeline/parties.py",
        "runs/pipeline/config.py",
    ]
    assert "runs/execution/fitting.py" in way
    assert len(way) <= 23
    assert len(way) - len(set(way)) <= 8
