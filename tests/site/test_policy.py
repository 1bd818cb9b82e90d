"""A site's policy: what its file may say, and which rule says no to what."""

import pickle
import re
from datetime import UTC, datetime
from fractions import Fraction

import pytest
import yaml

from daskfc.errors import ENDS_A_RUN, InvalidInput, PolicyRefused, PrivacyError
from daskfc.federation.party.crossing import without_values
from daskfc.site import Policy, Refusal, RunRequest, Smallest
from daskfc.site.words import in_words, template

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)  # a Wednesday
ASKED = RunRequest("OmniFC", submitter="alice", version="0.1.0", n_clients=5)


def rules(policy, asked=ASKED, **known):
    """Return the rules that say no, in a party that knows everything."""
    told = {"now": NOON, "runs_before": 0, "n_samples": 100, "columns": ["age", "bmi"], **known}
    return [refusal.rule for refusal in policy.refusals(asked, **told)]


def of(**keys):
    return Policy.of(keys)


def asking(**changes):
    return RunRequest(**{**vars(ASKED), **changes})


# -- files ------------------------------------------------------------------------------------


def test_a_file_is_read_as_it_is_written(tmp_path):
    file = tmp_path / "site.yaml"
    file.write_text(
        """
        raw: allow
        methods:
          - OmniFC
          - FedSC: {noise: required, noise.epsilon: {max: 1}, n_clusters: [3, 4]}
        submitters: [alice]
        stores: [/srv/new]
        columns: [age]
        samples: {at_least: 10}
        maskers: {at_least: 4, threshold: 3/4, differ_by: 3}
        budget: {epsilon: 3, delta: 1e-5}
        hours: {days: mon-fri, times: 20:00-06:00, zone: Europe/Berlin}
        runs: {at_most: 10, per: day, longest: 12h}
        upload: 2 GB
        ids: allow
        errors: codes
        packages: ["our-methods>=1.2,<2"]
        """,
        encoding="utf-8",
    )
    policy = Policy.load(file)
    assert set(policy.methods) == {"OmniFC", "FedSC"}
    assert policy.methods["FedSC"]["noise.epsilon"].max == 1
    assert (policy.maskers.threshold, policy.maskers.differ_by) == (Fraction(3, 4), 3)
    assert (policy.upload, policy.runs.seconds) == (2_000_000_000, 86_400)
    assert policy.runs.longest == 43_200
    assert (policy.budget.epsilon, policy.budget.delta) == (3, 1e-5)
    assert (policy.raw, policy.ids, policy.errors) == ("allow", "allow", "codes")
    assert pickle.loads(pickle.dumps(policy)) == policy  # it goes to the worker's process


WRONG = [
    ("raws: never", "key 'raws' is not known there"),
    ("raw: sometimes", "key 'raw': must be 'never' or 'allow'; got 'sometimes'"),
    ("submitters: alice", "key 'submitters': must be 'any' or a list of names; got 'alice'"),
    ("submitters:", "key 'submitters': must be 'any' or a list of names; got None"),
    ("columns: [1]", "key 'columns': must be 'any' or a list of names"),
    ("methods:", "key 'methods': must be 'any', a list of names, or names with limits"),
    ("methods: [3]", "key 'methods': must be 'any', a list of names, or names with limits"),
    ("methods: {3: {}}", "key 'methods.3"),
    ("methods: {FedSC: 3}", "key 'methods.FedSC': must be a mapping of keys and values; got 3"),
    ("methods: 3", "key 'methods': must be 'any', a list of names, or names with limits"),
    ("methods: [OmniFC, OmniFC: {}]", "names 'OmniFC' twice"),
    (
        "methods: {FedSC: {noise: {most: 1}}}",
        "key 'methods.FedSC.noise': must be 'required', a value, a",
    ),
    ("methods: {FedSC: {noise: {}}}", "must be 'required', a value, a list of values, or"),
    ("methods: {FedSC: {n_clusters: []}}", "must name at least one value"),
    ("methods: {FedSC: {n_clusters: {min: 3, max: 2}}}", "a min that is no larger than its max"),
    ("methods: {FedSC: {n_clusters: {max: .nan}}}", "finite number"),
    ("samples: {at_least: 0}", "must be at least 1"),
    ("samples: {at_least: true}", "must be a whole number"),
    *(
        (f"maskers: {{threshold: {share}}}", "must be a share above 1/2 and at most 1, such as 2/3")
        for share in ("1/2", "0.5", "2/5", "0", "-1", "4/3", "1/0", "true", "half", "[2/3]")
    ),
    ("maskers: {differ_by: 0}", "must be at least 1"),
    ("maskers: {differ_by: '3'}", "must be a whole number"),
    ("budget: {epsilon: 1}", "key 'budget.delta' is required and missing"),
    ("budget: {epsilon: .inf, delta: 1e-5}", "finite number"),
    ("budget: {epsilon: 0, delta: 1e-5}", "must be above 0.0"),
    ("budget: {epsilon: 1, delta: 1}", "must be below 1.0"),
    ("hours: {days: mon-fri}", "key 'hours.zone' is required and missing"),
    ("hours: {zone: Mars/Olympus}", "must be a time zone such as Europe/Berlin or UTC"),
    ("hours: {zone: ../../etc/passwd}", "must be a time zone such as Europe/Berlin or UTC"),
    ("hours: {days: holidays, zone: UTC}", "must be days such as mon-fri, or a list of them"),
    ("hours: {days: 3, zone: UTC}", "must be days such as mon-fri, or a list of them"),
    ("hours: {days: [], zone: UTC}", "must be days such as mon-fri, or a list of them"),
    ("hours: {times: 8-18, zone: UTC}", "must be times of day such as 20:00-06:00"),
    ("hours: {times: 24:00-06:00, zone: UTC}", "must be times of day such as 20:00-06:00"),
    ("hours: {times: 08:00-24:30, zone: UTC}", "must be times of day such as 20:00-06:00"),
    ("hours: {times: 08:00-08:00, zone: UTC}", "must end at another time than it begins"),
    ("runs: {at_most: 10, per: fortnight}", "must be 'hour', 'day' or 'week'"),
    ("runs: {at_most: -1, per: day}", "must be at least 0"),
    ("runs: {at_most: 1, per: day, longest: 12}", "must be a time with its unit, such as 12h"),
    ("runs: {at_most: 1, per: day, longest: long}", "must be a time with its unit, such as 12h"),
    ("runs: {at_most: 1, per: day, longest: 0h}", "must be a time with its unit, such as 12h"),
    ("upload: lots", "must be a number of bytes such as 2 GB"),
    ("upload: -1", "must be a number of bytes such as 2 GB"),
    ("packages: ['our methods']", "must be 'any', or a list of packages with versions"),
    ("packages: ['our-methods @ https://a.example/x.whl']", "must be 'any', or a list of packages"),
    ("packages: ['our-methods; python_version > \"3\"']", "must be 'any', or a list of packages"),
    ("{raw: never, raw: allow}", "key 'raw' is given twice"),
    ("method: OmniFC", "this is a pipeline file, and a policy file is wanted here"),
    ("", "a policy file must be a mapping with keys such as 'raw' and 'methods'"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[text for text, _ in WRONG])
def test_what_is_wrong_is_one_sentence(tmp_path, text, says):
    file = tmp_path / "site.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        Policy.load(file)
    assert says in str(refused.value)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


def test_no_file_is_no_policy(tmp_path):
    with pytest.raises(InvalidInput, match="there is no such file"):
        Policy.load(tmp_path / "site.yaml")


def test_the_template_says_what_holds_without_a_file_and_shows_every_key():
    given = yaml.safe_load(template())
    assert Policy.of(given) == Policy() == Policy.default(loopback=False)
    lines = [line.lstrip("# ") for line in template().splitlines()]
    for key in Policy.model_fields:
        assert any(line.startswith(f"{key}: ") or line == f"{key}:" for line in lines), key
    plain = template().replace("methods: any\n", "", 1)
    shown = yaml.safe_load(re.sub(r"^# (?=\w+:| {2}\w)", "", plain, flags=re.MULTILINE))
    assert set(shown) == set(Policy.model_fields)
    policy = Policy.of(shown)
    assert policy.methods["FedSC"]["noise"].required
    assert policy.hours is not None


# -- what is answered -------------------------------------------------------------------------

WIDE = RunRequest(
    "central",
    submitter=None,
    package="their-methods",
    version="1.0",
    n_clients=1,
    allow_raw=True,
    clear_ids=True,
    masked=True,
    stores=("/etc/new.zarr",),
    trusted=True,
)


def test_on_the_loopback_everything_may_run():
    policy = Policy.default(loopback=True)
    assert rules(policy, WIDE, runs_before=10**6, n_samples=1) == []
    policy.check_maskers(1, threshold=1)
    policy.check_upload(10**15)
    policy.check_store("/etc/new.zarr")


def test_without_a_file_a_network_allows_what_protects():
    policy = Policy.default(loopback=False)
    assert rules(policy) == []
    assert rules(policy, WIDE) == [
        "raw", "packages", "stores", "ids", "trusted", "maskers.at_least"
    ]  # fmt: skip
    policy.check_maskers(3, threshold=2)
    for n_maskers, threshold, rule in ((2, None, "at_least"), (4, 2, "threshold")):
        with pytest.raises(PolicyRefused) as refused:
            policy.check_maskers(n_maskers, threshold)
        assert refused.value.rule == f"maskers.{rule}"
    with pytest.raises(PolicyRefused):
        policy.check_store("/etc/new.zarr")


PROFILES = {"method": "profiles", "parameters": {}}
BARE = {"method": "preparation", "parameters": {"noised": False}}
NOISED = {"method": "preparation", "parameters": {"noised": True}}


@pytest.mark.parametrize(
    ("keys", "asked", "known", "rule"),
    [
        ({"submitters": ["bob"]}, {}, {}, "submitters"),
        ({"submitters": ["bob"]}, {"submitter": None}, {}, "submitters"),
        ({"submitters": []}, {}, {}, "submitters"),
        ({"methods": ["FedSC"]}, {}, {}, "methods"),
        ({"methods": []}, {}, {}, "methods"),
        ({"methods": ["omnifc"]}, {}, {}, "methods"),
        ({"columns": ["age"]}, {}, {}, "columns"),
        ({"columns": ["age"]}, {"columns": ("bmi",)}, {}, "columns"),
        ({"samples": {"at_least": 101}}, {}, {}, "samples.at_least"),
        ({"maskers": {"at_least": 6}}, {"masked": True}, {}, "maskers.at_least"),
        ({"runs": {"at_most": 3, "per": "day"}}, {}, {"runs_before": 3}, "runs.at_most"),
        ({"runs": {"at_most": 0, "per": "day"}}, {}, {}, "runs.at_most"),
        ({"hours": {"times": "13:00-11:00", "zone": "UTC"}}, {}, {}, "hours"),
        ({"packages": ["daskfc<0.1"]}, {}, {}, "packages"),
        ({"profiles": "never"}, PROFILES, {}, "profiles"),
        ({"budget": {"epsilon": 1, "delta": 1e-5}}, PROFILES, {}, "profiles"),
        ({"methods": {"FedSC": {"noise": "required"}}}, PROFILES, {}, "profiles"),
        ({"methods": {"FedSC": {"noise.epsilon": {"max": 1}}}}, PROFILES, {}, "profiles"),
        ({"runs": {"at_most": 3, "per": "day"}}, PROFILES, {"runs_before": 3}, "runs.at_most"),
        ({"preparation": "never"}, NOISED, {}, "preparation"),
        (
            {"preparation": "noised", "budget": {"epsilon": 1, "delta": 1e-5}},
            BARE,
            {},
            "preparation",
        ),
        ({"methods": {"FedSC": {"noise.epsilon": {"max": 1}}}}, NOISED, {}, "preparation"),
        (
            {"methods": {"FedSC": {"noise.epsilon": {"max": 1}}}},
            {"method": "FedSC", "parameters": {"noise": {"epsilon": 0.5, "delta": None}}},
            {},
            "noise",
        ),
        (
            {"methods": {"FedSC": {"noise.epsilon": {"max": 1}}}},
            {
                "method": "FedSC",
                "parameters": {"noise": {"epsilon": 0.5, "delta": 1e-6, "formula": "published"}},
            },
            {},
            "noise",
        ),
        ({"budget": {"epsilon": 1, "delta": 1e-5}}, BARE, {}, "preparation"),
        ({"budget": {"epsilon": 1, "delta": 1e-5}}, {"method": "preparation"}, {}, "preparation"),
        ({"runs": {"at_most": 3, "per": "day"}}, BARE, {"runs_before": 3}, "runs.at_most"),
        (
            {"budget": {"epsilon": 1, "delta": 1e-5}},
            {"parameters": {"noise": {"kind": "data", "sigma": 1e-4}}},
            {},
            "budget",
        ),
        ({"kept": "never"}, {"parameters": {"start": "last"}}, {}, "kept"),
        ({}, {"parameters": {"gaps": "scale"}}, {}, "gaps"),
        ({"gaps": "never"}, {"parameters": {"gaps": "apart"}}, {}, "gaps"),
        ({"groups": {"samples": 6}}, {}, {}, "groups.samples"),
        ({"groups": {"clients": 3}}, PROFILES, {}, "groups.clients"),
        ({}, {"smallest": Smallest(4, 2)}, {}, "groups.samples"),
        ({}, {"allow_raw": True}, {}, "raw"),
        ({}, {"clear_ids": True}, {}, "ids"),
        ({}, {"trusted": True}, {}, "trusted"),
        ({}, {"stores": ("/srv/b.zarr",)}, {"own_store": "/srv/a.zarr"}, "stores"),
    ],
)
def test_one_rule_says_no(keys, asked, known, rule):
    assert rules(of(**keys), asking(**asked), **known) == [rule]


@pytest.mark.parametrize(
    ("keys", "asked", "known"),
    [
        ({"submitters": ["bob", "alice"]}, {}, {}),
        ({"methods": ["OmniFC"]}, {}, {}),
        ({"columns": ["age", "bmi", "sex"]}, {}, {}),
        ({"columns": ["age"]}, {"columns": ("age",)}, {}),
        ({"samples": {"at_least": 100}}, {}, {}),
        ({"maskers": {"at_least": 5}}, {"masked": True}, {}),
        ({"maskers": {"at_least": 6}}, {}, {}),
        ({"runs": {"at_most": 3, "per": "day"}}, {}, {"runs_before": 2}),
        ({"hours": {"times": "11:00-13:00", "zone": "UTC"}}, {}, {}),
        ({"raw": "allow", "ids": "allow"}, {"allow_raw": True, "clear_ids": True}, {}),
        ({"trusted": "allow"}, {"trusted": True}, {}),
        ({}, {"stores": ("/srv/a.zarr",)}, {"own_store": "/srv/a.zarr"}),
        ({"stores": ["/srv/new"]}, {"stores": ("/srv/new/b.zarr",)}, {}),
        ({"stores": "any"}, {"stores": ("s3://b/c",)}, {}),
        ({"packages": ["daskfc>=0.1"]}, {}, {}),
        ({}, {"parameters": {"start": "last"}}, {}),
        ({"kept": "never"}, {"parameters": {"start": "anew"}}, {}),
        ({}, {"parameters": {"gaps": "refuse"}}, {}),
        ({"gaps": "allow"}, {"parameters": {"gaps": "scale"}}, {}),
        ({}, PROFILES, {}),
        ({}, BARE, {}),
        ({"methods": {"FedSC": {"n_clusters": 3}}}, PROFILES, {}),
        ({"budget": {"epsilon": 1, "delta": 1e-5}, "profiles": "allow"}, PROFILES, {}),
        ({"budget": {"epsilon": 1, "delta": 1e-5}}, NOISED, {}),
        ({"budget": {"epsilon": 1, "delta": 1e-5}, "preparation": "allow"}, BARE, {}),
        ({"runs": {"at_most": 0, "per": "day"}}, {"method": "opening"}, {}),
    ],
)
def test_no_rule_says_no(keys, asked, known):
    assert rules(of(**keys), asking(**asked), **known) == []


def test_what_is_not_known_is_not_judged():
    keys = {"columns": ["age"], "samples": {"at_least": 9}, "runs": {"at_most": 0, "per": "day"}}
    policy = of(**keys, hours={"times": "13:00-14:00", "zone": "UTC"})
    unknown = dict.fromkeys(("now", "runs_before", "n_samples", "columns"))
    assert rules(policy, **unknown) == []
    assert len(rules(policy, n_samples=8)) == 4


@pytest.mark.parametrize(
    ("package", "version", "takes"),
    [
        ("our-methods", "1.2", True),
        ("Our_Methods", "1.9rc1", True),  # one name, as pip sees it
        ("our-methods", "2.0rc1", False),
        ("our-methods", "1.1", False),
        ("our-methods", "", False),
        ("our-methods", "unknown", False),
        ("their-methods", "1.2", False),
        ("free", "", True),
        ("daskfc", "", True),
        ("daskfc-methods", "1.2", False),
    ],
)
def test_methods_of_other_packages(package, version, takes):
    policy = of(packages=["our-methods>=1.2,<2", "free"])
    asked = asking(package=package, version=version)
    assert rules(policy, asked) == ([] if takes else ["packages"])


def test_noise_without_a_delta_is_refused_in_a_sentence():
    policy = of(methods={"FedSC": {"noise.epsilon": {"max": 1}}})
    request = asking(method="FedSC", parameters={"noise": {"epsilon": 0.5, "delta": None}})
    told = {"now": NOON, "runs_before": 0, "n_samples": 100, "columns": ["age", "bmi"]}
    (refusal,) = policy.refusals(request, **told)
    assert refusal.sentence == "the noise of FedSC has no delta, so that its epsilon says nothing."


def test_limits_on_parameters_are_rules_of_their_own():
    policy = of(methods={"FedSC": {"noise": "required", "noise.epsilon": {"max": 1}}})
    asked = {"method": "FedSC", "parameters": {"noise": {"epsilon": 1.0, "delta": 1e-5}}}
    assert rules(policy, asking(**asked)) == []
    for noise, broken in (
        (None, ["noise", "noise.epsilon"]),
        ({"epsilon": 1.5, "delta": 1e-5}, ["noise.epsilon"]),
        ({"multiplier": 0.1, "delta": 1e-5}, ["noise.epsilon"]),
    ):
        found = rules(policy, asking(method="FedSC", parameters={"noise": noise}))
        assert found == [f"methods.FedSC.{path}" for path in broken]


def test_an_upload_ends_at_the_byte():
    policy = of(upload=1000)
    policy.check_upload(1000)
    with pytest.raises(PolicyRefused) as refused:
        policy.check_upload(1001)
    assert refused.value.rule == "upload"
    assert "1,001" in refused.value.sentence


@pytest.mark.parametrize("n_maskers", range(3, 12))
def test_the_threshold_is_a_share_of_the_maskers(n_maskers):
    policy, least = Policy(), -(-2 * n_maskers // 3)
    policy.check_maskers(n_maskers, least)
    policy.check_maskers(n_maskers)
    with pytest.raises(PolicyRefused):
        policy.check_maskers(n_maskers, least - 1)


@pytest.mark.parametrize("share", ["501/1000", "2/3", "1"])
@pytest.mark.parametrize("n_maskers", range(2, 30))
def test_two_groups_of_maskers_can_never_both_open_a_sum(n_maskers, share):
    policy = of(maskers={"at_least": 2, "threshold": share})
    for threshold in range(n_maskers + 1):
        if 2 * threshold <= n_maskers:
            with pytest.raises(PolicyRefused):
                policy.check_maskers(n_maskers, threshold)
    policy.check_maskers(n_maskers, n_maskers)


# -- what is told -----------------------------------------------------------------------------


def test_the_submitter_is_told_the_rule_and_nothing_else():
    policy = of(methods={"FedSC": {"noise.epsilon": {"max": 0.25}}}, submitters=["bob"])
    asked = asking(method="FedSC", parameters={"noise": {"epsilon": 7.5, "delta": 1e-6}})
    limit, who = policy.refusals(asked, now=NOON, runs_before=0, n_samples=100, columns=None)
    assert limit.sentence == "the parameter 'noise.epsilon' of FedSC must be at most 0.25; got 7.5."
    assert "bob" in who.sentence
    for refusal in (limit, who):
        assert refusal.rule in refusal.told
        for secret in ("0.25", "7.5", "bob", "alice"):
            assert secret not in refusal.told


def test_the_sites_own_sentence_does_not_travel():
    error = Refusal("upload", "the run would send 1,001 bytes").error("hospital-a")
    assert (error.rule, error.sentence) == ("upload", "the run would send 1,001 bytes")
    arrived = pickle.loads(pickle.dumps(error))
    assert b"1,001" not in pickle.dumps(error)
    assert isinstance(arrived, PolicyRefused)
    assert str(arrived) == str(error)
    assert "party 'hospital-a'" in str(arrived)
    crossing = without_values(error, "hospital-a", "step")
    assert (type(crossing), str(crossing)) == (PolicyRefused, str(error))
    assert crossing.sentence == ""
    assert isinstance(error, PrivacyError)
    assert isinstance(error, ENDS_A_RUN)


# -- requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('"allow_raw": "false"', "key 'allow_raw'"),
        ('"n_clients": "3"', "key 'n_clients'"),
        ('"more": 1', "key 'more'"),
        ('"method": null', "key 'method'"),
    ],
)
def test_a_request_is_taken_as_it_is_written_or_not_at_all(change, says):
    text = WIDE.as_json()
    assert RunRequest.of_json(text) == WIDE
    key = change.partition(":")[0]
    kept = [part for part in text[1:-1].split(", ") if not part.startswith(key)]
    with pytest.raises(InvalidInput, match=says):
        RunRequest.of_json("{" + ", ".join([*kept, change]) + "}")


def test_a_request_that_is_no_json_is_refused():
    with pytest.raises(InvalidInput, match="the request of a run"):
        RunRequest.of_json("{")


# -- in words ---------------------------------------------------------------------------------


def test_every_key_has_words():
    for policy in (Policy(), Policy.default(loopback=True)):
        told = in_words(policy)
        assert set(told) == set(Policy.model_fields)
        assert all(told.values())


def test_a_policy_says_by_how_many_clients_sums_differ_where_it_asks():
    assert "differ" not in in_words(Policy())["maskers"]
    told = in_words(of(maskers={"differ_by": 3}))["maskers"]
    assert told.endswith("; two of different clients differ by at least 3")


@pytest.mark.parametrize(
    ("methods", "who"),
    [
        ("any", "every method may make them"),
        (["OmniFC", "FedSC"], "OmniFC, FedSC may make them"),
        ({"OmniFC": None, "FedSC": {"noise": "required"}}, "OmniFC may make them"),
        ({"FedSC": {"noise": None}}, "FedSC may make them"),
        ({"FedSC": {"noise.epsilon": {"max": 1}}}, None),
    ],
)
def test_a_budget_says_whom_it_does_not_hold_back(methods, who):
    told = in_words(of(methods=methods, budget={"epsilon": 1, "delta": 1e-5}))["budget"]
    assert told.endswith(who) if who else "without noise" not in told


def test_noise_of_preparations_needs_a_budget():
    with pytest.raises(InvalidInput, match="'preparation: noised' needs a 'budget'"):
        Policy.of({"preparation": "noised"})


def test_a_site_that_names_formulas_takes_them():
    limits = {"noise.epsilon": {"max": 1}, "noise.formula": ["exact", "published"]}
    policy = Policy.of({"methods": {"FedSC": limits}})
    noise = {"epsilon": 0.5, "delta": 1e-6, "formula": "published"}
    asked = RunRequest("FedSC", parameters={"noise": noise})
    known = {"now": None, "runs_before": None, "n_samples": None, "columns": None}
    assert policy.refusals(asked, **known) == ()
