"""What a run says of sites: that it waits for them, and what one of them refused."""

import pytest

from daskfc.errors import ClusterError, PolicyRefused
from daskfc.runs import Run, RunFailed, run
from tests.runs.fakes import PIPELINE, FakeFederation, FakeMethod


def test_a_failure_of_what_is_compared_says_so(fake, storage, tmp_path, monkeypatch):
    fit = FakeMethod.fit

    def refused(model, federation):
        if type(model) is not FakeMethod:
            raise PolicyRefused("party 'b' refuses this by its rule 'raw'.")
        return fit(model, federation)

    monkeypatch.setattr(FakeMethod, "fit", refused)
    with pytest.raises(RunFailed) as got:
        run({**PIPELINE, "compare": ["FakeRaw"]}, storage=storage, runs_dir=tmp_path / "runs")
    told = "FakeRaw, of the pipeline's 'compare': party 'b' refuses this by its rule 'raw'."
    assert str(got.value) == told
    assert Run(got.value.folder).summary["error"] == told


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
