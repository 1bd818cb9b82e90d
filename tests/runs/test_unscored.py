"""A site that keeps its true labels: told to whoever asked for scores, and to nobody else."""

import pytest

from daskfc.errors import PolicyRefused
from daskfc.runs import RunFailed, resume, run
from tests.runs.fakes import PIPELINE, FakeFederation, party_error

TOLD = "party 'a' refuses this by its rule 'labels'."
UNASKED = {key: value for key, value in PIPELINE.items() if key != "metrics"}


@pytest.fixture
def keeps_labels(fake, monkeypatch):
    def refused(federation, run_id, *, random_state, workspace=None, request=None):
        assert request.method == "labels"
        raise PolicyRefused(TOLD)

    monkeypatch.setattr(FakeFederation, "start_run", refused)
    return fake


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [(PIPELINE, TOLD), (UNASKED, "the pipeline asks for no metrics.")],
)
def test_who_asked_for_no_scores_hears_no_complaint(
    keeps_labels, storage, tmp_path, pipeline, said
):
    done = run(pipeline, storage=storage, runs_dir=tmp_path / "runs")
    assert (done.status, done.summary["metrics"]) == ("done", {})
    assert done.summary["unscored"] == said
    report = (done.folder / "report.html").read_text(encoding="utf-8")
    assert ("refuses this" in report) == (said == TOLD)


def test_a_run_that_goes_on_still_knows_that_nobody_asked(keeps_labels, storage, tmp_path):
    keeps_labels.trouble[0] = party_error()
    with pytest.raises(RunFailed) as failed:
        run(UNASKED, storage=storage, runs_dir=tmp_path / "runs")
    assert resume(failed.value.folder).summary["unscored"] == "the pipeline asks for no metrics."


def test_sites_that_tell_their_labels_are_scored_by_all_metrics(fake, storage, tmp_path):
    done = run(UNASKED, storage=storage, runs_dir=tmp_path / "runs")
    assert list(done.summary["metrics"]["Fake"]) == ["kappa", "nmi", "ari", "acc", "f1"]
