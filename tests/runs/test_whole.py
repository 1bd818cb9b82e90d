"""The share of the whole run: it rises with the steps of a plan, and is 1 at the end alone."""

import json
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daskfc
from daskfc.errors import InvalidInput
from daskfc.federation.driver.stage import Notice, Stage
from daskfc.runs import RunFailed, resume, run
from daskfc.runs.execution import whole as module
from daskfc.runs.execution.whole import Whole, choice_of, steps_of
from daskfc.runs.outcome.status import KeptProgress, read_progress
from daskfc.runs.pipeline.config import load_pipeline
from daskfc.runs.pipeline.methods import check_pipeline
from daskfc.secure.profiles import Profile
from daskfc.site import Refusal
from daskfc.stores import load_storage
from daskfc.testing.federation import stores_of
from tests.runs.fakes import PIPELINE, FakeFederation, FakeMethod, party_error

IRIS = {"source": {"dataset": "iris"}, "partition": {"scheme": "iid", "clients": 3}}


def checked_of(**changes):
    keys = {"method": "k-FED", "params": {"n_clusters": 2}, "metrics": [], "profiles": False}
    return check_pipeline(load_pipeline({**keys, **changes}))


class Told(list):
    """The shares that were told."""

    def __call__(self, stage, done, total):
        if not isinstance(stage, Notice):
            self.append(stage.share)


@pytest.fixture
def told():
    return Told()


def test_steps_of_a_plan_are_its_shares(told):
    whole = Whole(told, checked_of(seeds=[0, 1], compare=["MUFC"]), {"k-FED": 10, "MUFC": 30})
    federation = SimpleNamespace(n_results=7)  # of an opening
    whole("starting", 0, 0)
    whole.follow(federation)
    for part in ("k-FED", "k-FED", "MUFC", "MUFC"):
        with whole.part(part):
            federation.n_results += 5
            whole("a stage", 99, 100)
    whole.end()
    # of 80 steps; a fit that ends early is whole
    assert told == [0.0, 5 / 80, 15 / 80, 25 / 80, 55 / 80, 1.0]


def test_more_steps_than_planned_are_no_more_than_the_fit(told):
    whole = Whole(told, checked_of(seeds=[0, 1]), {"k-FED": 10})
    federation = SimpleNamespace(n_results=0)
    whole.follow(federation)
    with whole.part("k-FED"):
        federation.n_results += 1000
        whole("a stage", 0, 0)
    with whole.part("k-FED"):
        federation.n_results += 1000
        whole("a stage", 0, 0)
    assert told == [0.5, 0.99]


def test_without_a_plan_a_fit_tells_how_many_steps_the_next_has(told):
    whole = Whole(told, checked_of(seeds=[0, 1]), {})
    federation = SimpleNamespace(n_results=0)
    whole.follow(federation)
    with whole.part("k-FED"):
        federation.n_results += 15
        whole("a stage", 0, 0)
        federation.n_results += 5
    with whole.part("k-FED"):
        federation.n_results += 10
        whole("a stage", 0, 0)
    assert told == [0.0, 0.75]


def test_a_part_without_a_plan_weighs_as_the_mean_of_the_others(told):
    whole = Whole(told, checked_of(compare=["MUFC"], metrics=["ari"]), {"k-FED": 10, "MUFC": 30})
    whole.skip("k-FED")  # kept from before
    whole("a stage", 0, 0)
    with whole.part("evaluation"):
        pass
    whole("a stage", 0, 0)
    assert told == [10 / 60, 30 / 60]


def test_a_notice_is_passed_on_and_has_no_share():
    passed = []
    whole = Whole(lambda *stage: passed.append(stage), checked_of(), {})
    whole(Notice("told"), 0, 0)
    whole.end()  # nothing was told of any stage
    assert passed == [(Notice("told"), 0, 0)]
    whole(Stage("rounds", "of clients"), 1, 2)
    assert (passed[1][0].unit, passed[1][0].share) == ("of clients", 0.0)


@given(st.lists(st.tuples(st.sampled_from(["k-FED", "MUFC"]), st.lists(st.integers(0, 40)))),
       st.dictionaries(st.sampled_from(["k-FED", "MUFC"]), st.integers(0, 50)))  # fmt: skip
def test_whatever_happens_it_never_falls_and_is_not_1_before_the_end(parts, steps):
    told = Told()
    whole = Whole(told, CHECKED, steps)
    federation = SimpleNamespace(n_results=0)
    whole.follow(federation)
    for part, more in parts:
        with whole.part(part):
            for n in more:
                federation.n_results += n
                whole("a stage", 0, 0)
        whole("between", 0, 0)
    assert told == sorted(told)
    assert all(0.0 <= share <= 0.99 for share in told)


CHECKED = checked_of(compare=["MUFC"])


@pytest.mark.parametrize(
    ("choose", "fits"),
    [
        ({"by": "stability"}, {"k-FED": 9}),
        ({"by": "stability", "seeds": [1, 2]}, {"k-FED": 6}),
        ({}, {"k-FED": 9}),
    ],
)
def test_fits_that_choose_a_number_of_clusters_count(choose, fits):
    checked = checked_of(params={"n_clusters": [2, 4]}, **({"choose": choose} if choose else {}))
    assert choice_of(checked) == fits


def test_a_choice_by_a_criterion_is_a_part():
    checked = checked_of(
        method="OmniFC", params={"n_clusters": [2, 4]}, choose={"by": "silhouette"}
    )
    assert choice_of(checked) == {"choice": 1}


# -- in a run ---------------------------------------------------------------------------------


def test_a_run_tells_its_share(fake, storage, tmp_path, told):
    where = {"storage": storage, "runs_dir": tmp_path / "runs", "name": "a"}
    done = run({**PIPELINE, "compare": ["FakeRaw"]}, progress=told, **where)
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)
    assert told.count(1.0) == 1
    assert sorted({*told}) == [0.0, 0.4, 0.8, 1.0]  # four fits, and scores
    assert not read_progress(done.folder)


def test_what_follows_the_fits_is_no_stage_of_theirs(fake, storage, tmp_path, monkeypatch):
    def refuse(self, federation, labels):
        raise Refusal("profiles", "no.").error("a")

    def report(self, *stage):
        self.on_progress(*stage)

    monkeypatch.setattr(Profile, "fit", refuse)
    monkeypatch.setattr(FakeFederation, "report_progress", report, raising=False)
    stages = []
    where = {"storage": storage, "runs_dir": tmp_path / "runs", "name": "a"}
    run({**PIPELINE, "profiles": True}, progress=lambda *told: stages.append(told[0]), **where)
    assert "Fake, seed 1: distances" in stages
    assert "describing the clusters" in stages


def test_a_resumed_run_goes_on_where_it_broke_off(fake, storage, tmp_path, told):
    FakeMethod.trouble[1] = party_error()
    with pytest.raises(RunFailed) as failed:
        run(PIPELINE, storage=storage, runs_dir=tmp_path, name="a", progress=told)
    assert 1.0 not in told
    again = Told()
    resume(failed.value.folder, progress=again)
    fit = next(share for share in again if share > 0)
    assert fit == pytest.approx(1 / 3)  # of two fits and scores, one is kept
    assert again == sorted(again)
    assert again[-1] == 1.0


def test_nobody_who_is_told_nothing_waits_for_a_plan(fake, storage, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfc.runs.execution.execution.steps_of", None)
    done = run(PIPELINE, storage=storage, runs_dir=tmp_path, name="a")
    assert done.status == "done"


def test_the_share_is_in_the_runs_folder(tmp_path):
    KeptProgress(tmp_path, lambda *_: None)(Stage("rounds", share=0.25), 1, 2)
    assert json.loads((tmp_path / "progress.json").read_text())["share"] == 0.25
    KeptProgress(tmp_path, lambda *_: None)("rounds", 1, 2)
    assert read_progress(tmp_path)["share"] is None


# -- a plan has the steps of a run ------------------------------------------------------------


def record_of(tmp_path, **changes):
    urls = load_storage({**IRIS, "root": str(tmp_path)}).ensure()
    clients = {name: {"store": url} for name, url in urls.items()}
    return {"cluster": {"cluster": "local"}, "storage": {"clients": clients}, **changes}


def test_what_cannot_be_planned_has_no_steps(tmp_path, monkeypatch):
    record = record_of(tmp_path)
    sites = {"cluster": "existing", "scheduler": "tcp://127.0.0.1:1"}
    assert steps_of({**record, "cluster": sites}, CHECKED) == {}
    monkeypatch.setattr(module, "_LARGEST", 599)
    assert steps_of(record, CHECKED) == {}
    monkeypatch.setattr(module, "_LARGEST", 600)
    assert set(steps_of(record, CHECKED)) == {"k-FED", "MUFC"}
    assert steps_of(record, checked_of(method="kCAGC"))["kCAGC"] == 0  # no columns to join

    def broken(*_):
        raise InvalidInput("no.")

    monkeypatch.setattr(module, "planned_steps", broken)
    assert steps_of(record, CHECKED) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "pipeline",
    [
        {"method": "OmniFC", "params": {"n_clusters": 2}, "compare": ["central"]},
        {"method": "FedSC", "params": {"n_clusters": 2, "rounds": 3}, "prepare": ["standardise"]},
        {"method": "k-FED", "params": {"n_clusters": [2, 3]}, "seeds": [0, 1]},
    ],
    ids=lambda pipeline: pipeline["method"],
)
def test_a_real_run_has_the_steps_of_its_plan(tmp_path, told, pipeline, monkeypatch):
    groups = np.repeat([[0.0] * 3, [9.0] * 3], 9, axis=0)
    rows = {
        name: groups + np.random.default_rng(seed).normal(size=groups.shape)
        for seed, name in enumerate("abc")
    }
    found, ended = {}, Whole.part

    def part(whole, name):
        before = whole._n_done()
        found.setdefault(name, []).append(before)
        return ended(whole, name)

    planned = {}

    def kept(record, checked):
        planned.update(steps_of(record, checked))
        return planned

    monkeypatch.setattr("daskfc.runs.execution.execution.steps_of", kept)
    monkeypatch.setattr(Whole, "part", part)
    counts = []
    monkeypatch.setattr(Whole, "end", lambda whole: counts.append(whole._n_done()))
    done = daskfc.run(
        {"metrics": [], "profiles": False, **pipeline},
        storage={
            "clients": {name: {"store": url} for name, url in stores_of(tmp_path, rows).items()}
        },
        runs_dir=tmp_path / "runs",
        progress=told,
    )
    assert done.status == "done"
    assert told == sorted(told)
    starts = [*sorted(chain.from_iterable(found.values())), *counts]
    took = dict(zip(starts, np.diff(starts), strict=False))
    for name, places in found.items():
        for place in places:
            assert 0.6 <= took[place] / planned[name] <= 1.2, (name, took[place], planned[name])
