"""For each sentence of a policy in plain words there is what the site then refuses, and else takes.

Runs are asked for at the gate of a party, and messages, sums and releases of its rules in a run.
"""

import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from daskfc.errors import PolicyRefused
from daskfc.federation.party.gate import Gate
from daskfc.federation.party.options import PartyOptions
from daskfc.federation.party.site_rules import PartyRules
from daskfc.site import Policy, RunRequest, SiteState
from daskfc.site.words import in_words
from daskfc.testing.federation import stores_of
from tests.federation.test_gate import settings

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
HOUR_S = 3600.0


class Site:
    """A client with two columns and three samples."""

    def __init__(self, folder, **keys):
        state, urls = str(folder / "state.sqlite"), stores_of(folder, {"a": np.eye(3)[:, :2]})
        SiteState(state)
        self.policy = Policy.of(keys)
        self.options = PartyOptions(
            "a", "client", str(folder), store=urls["a"], state=state, policy=self.policy
        )
        self.starts = itertools.count()
        self.rules = PartyRules(replace(self.options, run=settings()))

    def begins(self, method="OmniFC", *, pseudonyms=True, **asked):
        """Begin a run, and do something in it two hours later."""
        told = {"builds": dict.fromkeys("abc", "x"), **({} if pseudonyms else {"pseudonyms": {}})}
        run = settings(str(next(self.starts)), request=RunRequest(method, **asked), **told)
        until = Gate(self.options).admit(run, None).until
        replace(self.options, until=until and until - 2 * HOUR_S).check_time()

    def begins_at(self, now):
        unknown = dict.fromkeys(("runs_before", "n_samples", "columns"))
        for refusal in self.policy.refusals(RunRequest("OmniFC"), now=now, **unknown):
            raise refusal.error()


def members(*sets):
    return lambda site: [site.rules.check_members(one) for one in sets]


def groups(*sets):
    return lambda site: [site.rules.check_groups(np.repeat(one, 5)) for one in sets]


def twice(site):
    site.begins()
    site.begins()


# key: its value, another that allows what is asked, words, the rule that refuses, what is asked
SENTENCES = [
    ("raw", "never", "allow", "no raw data leave", "raw", lambda s: s.begins(allow_raw=True)),
    ("raw", "never", "allow", "no raw data leave", "raw", lambda s: s.rules.check_raw("Rows")),
    ("trusted", "never", "allow", "never beside a worker of a Dask cluster", "trusted",
     lambda s: s.begins(trusted=True)),
    ("ids", "never", "allow", "the caller is told pseudonyms", "ids",
     lambda s: s.begins(pseudonyms=False)),
    ("ids", "never", "allow", "the caller is told pseudonyms", "ids",
     lambda s: s.rules.check_ids("Named")),
    ("labels", "never", "allow", "no true labels leave", "labels", lambda s: s.begins("labels")),
    ("words", "never", "allow", "nobody is told which words samples have", "words",
     lambda s: s.rules.check_words()),
    ("preparation", "never", "noised", "no sums that prepare features leave", "preparation",
     lambda s: s.begins("preparation", parameters={"noised": True})),
    ("preparation", "noised", "allow", "leave with noise alone", "preparation",
     lambda s: s.begins("preparation", parameters={"noised": False})),
    ("profiles", "never", "allow", "nobody is told means of clusters", "profiles",
     lambda s: s.begins("profiles")),
    ("kept", "never", "allow", "the server keeps nothing that a later fit starts from", "kept",
     lambda s: s.begins(parameters={"start": "last"})),
    ("gaps", "never", "allow", "nobody is told distances over some columns alone", "gaps",
     lambda s: s.begins(parameters={"gaps": "scale"})),
    ("methods", ["FedSC"], ["OmniFC"], "FedSC", "methods", Site.begins),
    ("methods", [], "any", "none: nothing may run", "methods", Site.begins),
    ("methods", {"OmniFC": {"n_clusters": {"max": 3}}}, {"OmniFC": {"n_clusters": {"max": 4}}},
     "OmniFC (n_clusters must be at most 3)", "methods.OmniFC.n_clusters",
     lambda s: s.begins(parameters={"n_clusters": 4})),
    ("packages", [], "any", "methods of daskfc", "packages",
     lambda s: s.begins(package="their-methods", version="1")),
    ("packages", ["our-methods>=2"], ["our-methods>=1"], "methods of daskfc and our-methods>=2",
     "packages", lambda s: s.begins(package="our-methods", version="1.5")),
    ("submitters", ["bob"], "any", "bob", "submitters", Site.begins),
    ("submitters", [], "any", "nobody", "submitters", Site.begins),
    ("hours", {"times": "20:00-06:00", "zone": "UTC"}, {"times": "08:00-18:00", "zone": "UTC"},
     "runs begin", "hours", lambda s: s.begins_at(NOON)),
    ("runs", {"at_most": 1, "per": "day"}, {"at_most": 2, "per": "day"},
     "at most 1 begin in one day", "runs.at_most", twice),
    ("runs", {"at_most": 9, "per": "day", "longest": "1h"},
     {"at_most": 9, "per": "day", "longest": "3h"}, "each is left after", "runs.longest",
     Site.begins),
    ("columns", ["x0"], ["x0", "x1"], "x0", "columns", Site.begins),
    ("columns", [], "any", "none", "columns", Site.begins),
    ("stores", [], "any", "the party's own alone", "stores", lambda s: s.rules.check_store("/b")),
    ("stores", ["/srv"], ["/"], "/srv", "stores", lambda s: s.rules.check_store("/b")),
    ("samples", {"at_least": 4}, {"at_least": 3}, "at least 4 in the store", "samples.at_least",
     Site.begins),
    ("maskers", {"at_least": 4}, {"at_least": 3}, "a masked sum has at least 4 clients",
     "maskers.at_least", lambda s: s.rules.check_maskers(3)),
    ("maskers", {"at_least": 4}, {"at_least": 3}, "a masked sum has at least 4 clients",
     "maskers.at_least", lambda s: s.begins(masked=True)),
    ("maskers", {"threshold": "1"}, {"threshold": "2/3"}, "1 of them must stay",
     "maskers.threshold", lambda s: s.rules.check_maskers(3, 2)),
    ("maskers", {"differ_by": 2}, {"differ_by": 1}, "two of different clients differ by at least 2",
     "maskers.differ_by", members("abc", "ab")),
    ("groups", {"samples": 6}, {"samples": 5}, "sums are told of 6 samples", "groups.samples",
     Site.begins),
    ("groups", {"clients": 3}, {"clients": 2}, "of 3 clients or more", "groups.clients",
     Site.begins),
    ("groups", {"groupings": 1}, {"groupings": "any"}, "profiles of 1 grouping of a data set",
     "groups.groupings", groups([0, 1], [0, 0])),
    ("upload", 10, 11, "at most 10 bytes a run", "upload", lambda s: s.rules.check_upload(11)),
    ("budget", {"epsilon": 1, "delta": 1e-5}, {"epsilon": 20, "delta": 1e-5},
     "epsilon 1 at delta 1e-05 for the life of each data set", "budget",
     lambda s: s.rules.charge("digest", 1.0, "rows")),
]  # fmt: skip
BESIDE = {"preparation": {"budget": {"epsilon": 1, "delta": 1e-5}}}  # what a value needs
ONLY_HOW = {"errors"}  # how refusals and errors are told


def test_no_key_is_forgotten():
    assert {sentence[0] for sentence in SENTENCES} == set(Policy.model_fields) - ONLY_HOW


@pytest.mark.parametrize(("key", "value", "other", "words", "rule", "ask"), SENTENCES)
def test_what_is_said_is_refused(tmp_path, key, value, other, words, rule, ask):
    beside = BESIDE.get(key, {})
    site = Site(tmp_path / "strict", **{key: value}, **beside)
    assert re.search(rf"(?<!\w){re.escape(words)}", in_words(site.policy)[key])
    with pytest.raises(PolicyRefused) as refused:
        ask(site)
    assert refused.value.rule == rule
    allows = Site(tmp_path / "other", **{key: other}, **beside)
    assert in_words(allows.policy)[key] != in_words(site.policy)[key]
    ask(allows)
