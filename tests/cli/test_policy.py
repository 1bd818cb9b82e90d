"""``daskfc policy``: a site's file from nothing to what a pipeline is answered."""

import time

import numpy as np
import pytest
import yaml

from daskfc.site import Policy, Refusal, RunRequest, SiteState
from daskfc.stores import write_store


@pytest.fixture
def site(tmp_path, daskfc):
    """Write a policy and a pipeline, and ask what the pipeline is answered."""

    def ask(policy, pipeline, *options):
        (tmp_path / "site.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
        (tmp_path / "p.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
        return daskfc("policy", "check", "site.yaml", "p.yaml", *options)

    return ask


def words(result):
    """Return the rows of the table, as lists of words."""
    return [line.split() for line in result.stdout.splitlines() if line.strip()]


KEYS = (
    "raw trusted ids labels words preparation profiles kept gaps errors methods packages "
    "submitters hours runs columns stores samples maskers groups upload budget"
).split()
OMNIFC = {"method": "OmniFC", "params": {"n_clusters": 3}}


def test_from_nothing_to_a_file(daskfc, tmp_path):
    made = daskfc("policy", "init")
    assert made.exit_code == 0, made.stderr
    assert made.stdout.splitlines()[-1] == "  daskfc policy show site.yaml"
    assert Policy.load(tmp_path / "site.yaml") == Policy.default(loopback=False)
    shown = daskfc("policy", "show", "site.yaml")
    assert shown.exit_code == 0
    assert shown.stdout == daskfc("policy", "show").stdout
    assert [line.split()[0] for line in shown.stdout.splitlines()] == KEYS
    assert "no raw data leave" in shown.stdout
    again = daskfc("policy", "init")
    assert again.exit_code == 2
    assert "a file is there and is not written over" in again.stderr


def test_what_comes_in_and_what_it_may_name(daskfc, tmp_path):
    (tmp_path / "site.yaml").write_text("packages: [numpy]", encoding="utf-8")
    told = daskfc("policy", "show", "site.yaml", "--ingress").stdout.splitlines()
    assert "  daskfc.federation.worker.guard.run_step" in told
    assert told[-1].endswith("classes of: daskfc, numpy")
    assert "  builtins.eval" not in told


def test_the_steps_of_a_method(daskfc):
    told = daskfc("policy", "show", "--steps", "FedSC").stdout.splitlines()
    at = told.index("secure.sums.plain.plain_part")
    assert told[at + 1 : at + 3] == [
        "  at: client (where averaging is plain)",
        "  sends: client → server (where averaging is plain)",
    ]
    assert daskfc("policy", "show", "--steps", "opening").exit_code == 0
    unknown = daskfc("policy", "show", "--steps", "FedSc")
    assert unknown.exit_code == 2
    assert "no method of daskfc is called 'FedSc'" in unknown.stderr
    assert daskfc("policy", "show", "--steps", "FedSC", "--ingress").exit_code == 2


def test_what_holds_on_this_machine_alone(daskfc, tmp_path):
    assert "raw data may leave" in daskfc("policy", "show", "--loopback").stdout
    (tmp_path / "site.yaml").write_text("raw: never", encoding="utf-8")
    told = daskfc("policy", "show", "site.yaml", "--loopback")
    assert (told.exit_code, told.stdout) == (2, "")


def test_a_method_that_nobody_knows_is_named(daskfc, tmp_path):
    (tmp_path / "site.yaml").write_text("methods: [OmniFC, fedsc]", encoding="utf-8")
    assert daskfc("policy", "show", "site.yaml").stderr == "Not installed here: fedsc.\n"


def test_yes(site):
    told = site({"methods": ["OmniFC"]}, OMNIFC, "--clients", "3")
    assert told.exit_code == 0, told.stderr
    assert words(told)[2:] == [["OmniFC", "yes"]]


def test_no_and_which_rule(site):
    told = site({}, {**OMNIFC, "compare": ["central", "k-FED"], "ids": "clear"}, "--clients", "3")
    assert told.exit_code == 2
    assert [row[:3] for row in words(told)[2:]] == [
        ["OmniFC", "no", "ids"],
        ["central", "no", "raw"],
        ["ids", "the", "caller"],
        ["k-FED", "no", "ids"],
    ]
    told = site({}, {**OMNIFC, "compare": ["central"]}, "--clients", "3")
    assert [row[:2] for row in words(told)[2:4]] == [["OmniFC", "yes"], ["central", "no"]]
    assert told.exit_code == 2  # one refusal is enough


def test_a_rule_is_told_once_whatever_number_of_clusters_breaks_it(site):
    policy = {"methods": {"OmniFC": {"n_clusters": {"max": 3}}}}
    pipeline = {"method": "OmniFC", "params": {"n_clusters": [2, 4]}}
    told = site(policy, pipeline, "--clients", "3")
    assert told.exit_code == 2
    assert "n_clusters' of OmniFC must be at most 3; got 4." in " ".join(told.stdout.split())
    told = site(policy, pipeline, "--clients", "3", "--set", "params.n_clusters=[2, 3]")
    assert told.exit_code == 0


def test_what_the_options_tell_is_judged(site, tmp_path):
    write_store(
        str(tmp_path / "a.zarr"),
        "a",
        np.zeros((4, 2)) + np.arange(4)[:, None],
        feature_names=["age", "bmi"],
    )
    policy = {
        "columns": ["age"],
        "samples": {"at_least": 5},
        "submitters": ["bob"],
        "hours": {"days": "mon-fri", "times": "20:00-06:00", "zone": "UTC"},
        "budget": {"epsilon": 1, "delta": 1e-5},
    }
    pipeline = {"method": "FedSC", "params": {"n_clusters": 3}}
    unknown = site(policy, pipeline)
    assert unknown.exit_code == 0, unknown.stderr
    assert unknown.stdout.splitlines()[-1] == (
        "Not judged: columns (--store), samples (--store), maskers (--clients), "
        "submitters (--submitter), hours (--at), budget."
    )
    options = ("--store", "a.zarr", "--clients", "2", "--submitter", "alice", "--at")
    told = site(policy, pipeline, *options, "2026-03-04T12:00+00:00")
    assert told.exit_code == 2
    rules = [row[2] if row[0] == "FedSC" else row[0] for row in words(told)[2:-1]]
    assert {"columns", "submitters", "samples.at_least", "maskers.at_least", "hours"} <= set(rules)
    assert told.stdout.splitlines()[-1] == "Not judged: budget."
    night = site({"hours": policy["hours"]}, pipeline, "--at", "2026-03-04T23:00+00:00")
    assert night.exit_code == 0


@pytest.mark.parametrize(("zone", "answer"), [("Asia/Tokyo", 2), ("UTC", 0)])
def test_a_time_without_a_zone_is_of_this_machine(site, monkeypatch, zone, answer):
    """23 o'clock in Tokyo is 14 in the site's hours."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        told = site({"hours": {"times": "20:00-06:00", "zone": "UTC"}}, OMNIFC, "--clients", "3",
                    "--at", "2026-03-04T23:00")  # fmt: skip
    time.tzset()
    assert told.exit_code == answer, told.output


def test_what_is_wrong_is_one_sentence(site, daskfc):
    for policy, pipeline, options, says in (
        ({"raws": "never"}, OMNIFC, (), "site.yaml: key 'raws' is not known there"),
        ({}, {"method": "OmniFD"}, (), "no method is called 'OmniFD'"),
        ({}, OMNIFC, ("--at", "noon"), "--at must be a time such as 2026-01-31T22:00"),
        ({}, OMNIFC, ("--store", "none.zarr"), "none.zarr"),
    ):
        told = site(policy, pipeline, *options)
        assert (told.exit_code, told.stdout) == (2, "")
        assert says in told.stderr
        assert len(told.stderr.splitlines()) == 1
    swapped = daskfc("policy", "check", "p.yaml", "site.yaml")
    assert "p.yaml: this is a pipeline file, and a policy file is wanted here" in swapped.stderr


def test_the_audit_log_is_a_table(daskfc, tmp_path):
    state = SiteState(tmp_path / "state.sqlite", clock=lambda: 0.0)
    state.begin("r", "s", RunRequest("FedSC", submitter="alice"))
    state.refused(Refusal("raw", "[bold]central[/bold] sends raw data."), run_id="q", start="t")
    told = words(daskfc("policy", "audit", "state.sqlite"))
    assert told[2:] == [
        ["1970-01-01", "00:00:00", "began", "r", "alice", "FedSC"],
        [*"1970-01-01 00:00:00 refused q raw [bold]central[/bold] sends raw data.".split()],
    ]
    none = daskfc("policy", "audit", "none.sqlite")
    assert (none.exit_code, none.stdout) == (2, "")
