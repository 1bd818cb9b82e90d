"""What a run says of sites: that it waits for them, and what one of them refused."""

import pytest

from daskfc.errors import ClusterError, InvalidInput, PolicyRefused
from daskfc.runs import Run, RunFailed, run
from tests.runs.fakes import PIPELINE, FakeFederation, FakeMethod


def of_what_is_compared(fake, monkeypatch, error):
    fit = FakeMethod.fit

    def failing(model, federation):
        if type(model) is not FakeMethod:
            raise error
        return fit(model, federation)

    monkeypatch.setattr(FakeMethod, "fit", failing)


def test_what_sites_refuse_to_be_compared_is_left_out(fake, storage, tmp_path, monkeypatch):
    refused = PolicyRefused("party 'b' refuses this by its rule 'raw'.")
    of_what_is_compared(fake, monkeypatch, refused)
    done = run({**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "runs")
    alone = run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs")
    assert done.labels.equals(alone.labels)
    assert {*done.summary["metrics"]} == {PIPELINE["method"]}
    told = "FakeRaw, of the pipeline's 'compare', is left out: party 'b' refuses this by its rule"
    assert [w for w in done.summary["quality"]["warnings"] if w.startswith(told)]
    assert told in (done.folder / "report.html").read_text("utf-8").replace("&#39;", "'")


def test_what_sites_refused_keeps_no_run_from_going_on(fake, storage, tmp_path, monkeypatch):
    of_what_is_compared(fake, monkeypatch, PolicyRefused("party 'b' refuses this."))

    def away(*_, **__):
        raise ClusterError("party 'b' is away.")

    monkeypatch.setattr(FakeFederation, "publish", away)
    monkeypatch.setattr(FakeMethod, "can_start_again", lambda _: False, raising=False)
    with pytest.raises(RunFailed) as got:
        run({**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "runs")
    assert got.value.resumable


def test_a_failure_of_what_is_compared_says_so(fake, storage, tmp_path, monkeypatch):
    of_what_is_compared(fake, monkeypatch, InvalidInput("features must be finite; got NaN."))
    with pytest.raises(RunFailed) as got:
        run({**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "runs")
    told = "FakeRaw, of the pipeline's 'compare': features must be finite; got NaN."
    assert str(got.value) == told
    assert Run(got.value.folder).summary["error"] == told


def test_what_sites_refuse_of_the_runs_own_method_ends_it(fake, storage, tmp_path, monkeypatch):
    def refused(*_):
        raise PolicyRefused("party 'b' refuses this by its rule 'methods'.")

    monkeypatch.setattr(FakeMethod, "fit", refused)
    with pytest.raises(RunFailed, match="rule 'methods'"):
        run(PIPELINE, storage=storage, runs_dir=tmp_path / "runs")


def test_what_fails_once_all_are_compared_is_no_matter_of_theirs(
    fake, storage, tmp_path, monkeypatch
):
    def refused(*_, **__):
        raise PolicyRefused("party 'b' refuses this by its rule 'labels'.")

    monkeypatch.setattr(FakeFederation, "publish", refused)
    with pytest.raises(RunFailed, match=r"^party 'b' refuses this by its rule 'labels'\.$"):
        run({**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "runs")


def test_between_sites_a_run_waits_for_parties_that_it_does_not_start(tmp_path):
    stages = []
    with pytest.raises(ClusterError, match="no Dask scheduler answered"):
        run(
            {"method": "OmniFC", "params": {"n_clusters": 3}},
            storage={"clients": ["a", "b", "c"]},
            cluster={"cluster": "existing", "scheduler": "tcp://127.0.0.1:1", "connect": 1},
            runs_dir=tmp_path / "runs",
            progress=lambda stage, *_: stages.append(stage),
        )
    assert {*stages} == {"waiting for the parties"}
