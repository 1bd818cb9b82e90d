"""What a site's policy and memory say within a run."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from daskfc.errors import EgressRefused, OverflowRefused, PolicyRefused, PrivacyError
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import FAILURES, PartyRules
from daskfc.privacy import noise_multiplier
from daskfc.protocols.omnifc import scores
from daskfc.site import Policy, RunRequest, SiteState
from daskfc.site.approved import StepUse
from daskfc.stores import ClientStore, write_store
from daskfc.testing.federation import stores_of

RUN = RunSettings("r", 0, start="s")


@pytest.fixture
def rules(tmp_path):
    def make(policy=None, run=RUN, nonce=b"n", **more):
        given = {} if policy is None else {"policy": policy}
        state = str(tmp_path / "state.sqlite")
        SiteState(state)
        return PartyRules(
            PartyOptions(
                "a",
                "client",
                str(tmp_path),
                **{"store": "/own", "state": state, **more},
                run=run,
                nonce=nonce,
                **given,
            ),
        )

    return make


def refused(rule):
    return pytest.raises(PolicyRefused, match=rf"party 'a' refuses this by its rule '{rule}'")


@pytest.mark.parametrize(
    ("rule", "policy", "ask"),
    [
        ("raw", {}, lambda rules: rules.check_raw("Rows")),
        ("ids", {}, lambda rules: rules.check_ids("Named")),
        ("stores", {}, lambda rules: rules.check_store("/other")),
        ("words", {}, lambda rules: rules.check_words()),
        ("maskers.at_least", {}, lambda rules: rules.check_maskers(2)),
        ("maskers.threshold", {}, lambda rules: rules.check_maskers(6, 3)),
        ("upload", {"upload": 10}, lambda rules: rules.check_upload(11)),
        (
            "budget",
            {"budget": {"epsilon": 1, "delta": 1e-5}},
            lambda rules: rules.charge("digest", 1.0, "factors"),
        ),
    ],
)
def test_a_refusal_is_told_by_its_rule_and_kept_whole(rules, rule, policy, ask):
    one = rules(Policy(**policy))
    with refused(rule):
        ask(one)
    (row,) = one._state.audit()
    assert (row.what, row.rule, row.run_id, row.start) == ("refused", rule, "r", "s")
    assert "policy" in row.text or "spent epsilon" in row.text
    ask(rules())  # which forbids nothing


def test_what_the_policy_lets_passes(rules):
    one = rules(Policy(raw="allow", ids="allow", upload=10, stores=["/srv"]))
    one.check_raw("Rows")
    one.check_ids("Named")
    one.check_store("/own")
    one.check_store("/srv/new")
    one.check_maskers(3, 2)
    one.check_upload(10)
    one.charge("digest", 1.0, "factors")
    assert one._state.audit() == ()


@pytest.mark.parametrize("method", ["FederatedKMeans", "opening", "labels"])
@pytest.mark.parametrize("package", ["Daskfc", "daskfc", "DASKFC", "anything"])
def test_who_composes_steps_has_a_package_of_another_name(rules, method, package):
    """`Daskfc` was another package than daskfc, and tasks were of any."""
    run = replace(RUN, request={"method": method, "package": package})
    one = rules(Policy(packages=("anything",)), run=run)
    assert one.composes == (package == "anything" and method == "FederatedKMeans")


def test_a_start_labels_by_one_model(rules):
    one, centers = rules(Policy()), np.arange(6.0).reshape(3, 2)
    for _ in range(2):
        one.check_model(centers)
    with pytest.raises(PrivacyError, match="may ask for 1 different models for labels at most"):
        one.check_model(centers + 1e-9)
    free = rules(Policy.default(loopback=True))
    for shift in range(3):
        free.check_model(centers + shift)


@pytest.mark.parametrize(
    ("steps", "few"),
    [
        ([{"step": "clip", "low": 97.5}], True),
        ([{"step": "clip", "high": 1.5}], True),
        ([{"step": "clip", "low": 94.5}], False),  # five are left
        ([{"step": "clip", "low": 150.0}], False),  # none
        ([{"step": "clip", "low": 0.0, "high": 99.0}], False),  # all
        ([{"step": "standardise", "mean": [97.5, 0.0], "scale": [1.0, 1.0]},
          {"step": "clip", "low": 0.0}], True),
        ([{"step": "log"}], False),
    ],
)  # fmt: skip
def test_a_clip_leaves_no_few_samples_as_they_are(rules, tmp_path, steps, few):
    """Of a column clipped above all samples but one, the sum is that one's."""
    rows = np.column_stack([np.arange(100.0), np.ones(100)])
    store = ClientStore.open(stores_of(tmp_path / "stores", {"a": rows})["a"])
    one = rules(Policy())
    if few:
        with refused("groups.samples"):
            one.check_clips(store, steps)
    else:
        one.check_clips(store, steps)
    rules(Policy.default(loopback=True)).check_clips(store, steps)


def test_gaps_are_no_samples_that_a_clip_leaves(rules, tmp_path):
    rows = np.array([[np.nan]] * 4 + [[1.0]] * 6 + [[9.0]])
    write_store(str(tmp_path / "a.zarr"), "a", rows, missing="keep")
    store = ClientStore.open(str(tmp_path / "a.zarr"))
    rules(Policy()).check_clips(store, [{"step": "clip", "high": 5.0}])
    with refused("groups.samples"):
        rules(Policy()).check_clips(store, [{"step": "clip", "low": 5.0}])


def test_a_clip_that_moves_nothing_is_let_be_whatever_is_there(rules, tmp_path):
    """Three samples, and as many beside gaps: nothing of them is told apart."""
    for name, rows in {"a": np.ones((3, 1)), "b": np.array([[np.nan]] * 8 + [[1.0]] * 3)}.items():
        write_store(str(tmp_path / name), "a", rows, missing="keep")
        store = ClientStore.open(str(tmp_path / name))
        rules(Policy()).check_clips(store, [{"step": "clip", "high": 5.0}])


def grouped(*numbers):
    return lambda one: one.check_groups(np.repeat(numbers, 5))


def test_groups_have_enough_of_the_sites_own_samples(rules):
    one = rules(Policy())
    one.check_groups(np.array([0] * 5 + [-1] * 4))
    with refused("groups.samples"):
        one.check_groups(np.array([0] * 5 + [1] * 4))
    rules(run=of_any_part()).check_groups(np.array([0]))


def of_any_part():
    return replace(RUN, request={"smallest": [1, 1]})


def test_one_grouping_is_described_unless_the_policy_says_more(rules):
    grouped(0, 1, -1)(rules(Policy()))
    grouped(1, 0, -1)(rules(Policy()))  # the same parts, in another process
    grouped(-1, -1, -1)(rules(Policy()))  # nothing
    with refused("groups.groupings"):
        grouped(0, 1, 1)(rules(Policy()))
    with refused("groups.groupings"):
        grouped(0, 1, 2)(rules(Policy()))
    two = Policy(groups={"groupings": 2})
    grouped(0, 1, 1)(rules(two))
    with refused("groups.groupings"):
        grouped(0, 1, 2)(rules(two))
    grouped(0, 1, 2)(rules(Policy(groups={"groupings": "any"})))


def announced(**noise):
    asked = RunRequest("FedSC", parameters={"noise": noise})
    return replace(RUN, request=json.loads(asked.as_json()), builds={"a": "x", "b": "y"})


def test_a_run_releases_no_more_than_it_announced(rules):
    """Without a budget in the policy, too: who agrees to an epsilon of 1 tells no more."""
    each = noise_multiplier(1.0, 1e-5, 3)
    one = rules(run=announced(kind="factors", epsilon=1.0, delta=1e-5, clip=2.0))
    for number in (0, 1, 1, 2):  # what is repeated bears the same noise
        one.charge("digest", each, f"round {number}")
    with refused("noise"):
        one.charge("digest", each, "round 3")
    one.charge("digest", each, "round 2")
    free = rules(run=announced(kind="data", sigma=1.0, clip=2.0, delta=1e-5))
    free.charge("digest", 0.1, "another")


# -- what fails -----------------------------------------------------------------------------------


def fails(rules, error=OverflowRefused):
    with pytest.raises(error), rules.counting_failures():
        raise error("too large.")


def test_steps_of_a_start_fail_a_few_times_at_a_site(rules):
    """A caller that chooses a bound finds a number of the site by one refusal after the other."""
    for number in range(FAILURES):
        one = rules(Policy())  # as after a crash of the party's process
        with one.counting_failures():
            """What succeeds is not counted."""
        fails(one, EgressRefused)  # which ends the run by itself
        fails(one, OverflowRefused if number % 2 else ZeroDivisionError)
        assert len(one._state.audit()) == (number == FAILURES - 1)
    for again in (one, rules(Policy())):
        with (
            pytest.raises(
                PrivacyError, match=r"^4 steps of this start failed at a, which takes no"
            ),
            again.counting_failures(),
        ):
            raise AssertionError("a step of the run")
    assert [row.rule for row in one._state.audit()] == ["steps"]
    fails(rules(Policy(), replace(RUN, start="another")))


@pytest.mark.parametrize("where", [{}, {"policy": Policy(), "store": None}])
def test_failures_are_counted_where_a_site_has_a_policy_and_data(rules, where):
    one = rules(**where)
    for _ in range(2 * FAILURES):
        fails(one)


def test_a_start_prepares_samples_in_so_many_ways(rules):
    """By shifts of its own a caller learned where samples lie: what is below fails in a log."""
    one = rules(
        Policy(), replace(RUN, request={"method": "preparation", "parameters": {"noised": False}})
    )
    step = "daskfc.secure.prepare.steps.zero_rows"

    def ask(*means, last=()):
        moved = [{"step": "standardise", "mean": [mean], "scale": [1.0]} for mean in means]
        given = {"so_far": [*moved, *last]}
        one.check_step(StepUse(step, "client", frozenset(), {}, given=given))

    for kind in ("log", "tf-idf"):
        for mean in (1.0, 2.0, 2.0):
            ask(mean, last=[{"step": kind}])
    ask(1.0, last=[{"step": "log"}, {"step": "normalise"}])  # which no value fails
    for kind in ("log", "tf-idf"):
        with pytest.raises(PrivacyError, match="4 different ways to prepare samples for a log at"):
            ask(3.0, last=[{"step": kind}])
    for mean in range(9):
        ask(float(mean))
    ask(0.0)
    with pytest.raises(PrivacyError, match="may ask for 16 different ways to prepare samples at"):
        ask(0.5)


# -- over runs ------------------------------------------------------------------------------------


def told(rules, data_set="wine", build="1", digest="ab"):
    """Have rules know the party's own store, as its party does when it opens that."""
    rules.opened(SimpleNamespace(build_id=build, digest=digest), data_set)
    return rules


def labelled(label="5f0c"):
    return replace(RUN, pseudonyms={"label": label, "keys": {}})


def test_a_label_of_pseudonyms_is_of_one_submitter_and_of_one_writing_of_the_data(rules):
    policy = Policy()
    told(rules(policy, labelled(), submitter="alice"))
    told(rules(policy, replace(labelled(), run_id="resumed", driver="new"), submitter="alice"))
    told(rules(policy, labelled("a3b1"), submitter="bob"), digest="ef")
    for who, store in (
        ("bob", {}),
        (None, {}),
        ("alice", {"build": "2"}),
        ("alice", {"digest": "cd"}),
    ):
        with refused("pseudonyms"):
            told(rules(policy, labelled(), submitter=who), **store)
    told(rules(policy, submitter="bob"))  # asks for clear ids, of which another rule is
    told(rules(run=labelled(), submitter="bob"))  # where nothing is forbidden
    told(rules(policy, labelled(), submitter="bob", state=None))  # and where nothing remembers


def test_sums_of_one_data_set_differ_by_as_many_clients_as_the_policy_says(rules):
    policy, everybody = Policy(maskers={"differ_by": 3}), "abcdefg"
    one = told(rules(policy))
    one.check_members(everybody)
    one.check_members(reversed(everybody))
    again = told(rules(policy, replace(RUN, run_id="later")))
    for fewer in ("abcdef", "abcde", "abcdefgh", "abcdefh"):
        with refused("maskers.differ_by"):
            again.check_members(fewer)
    again.check_members("abcd")  # without three of them
    for near in ("bcdefg", "abc"):  # near the first, and near the second
        with refused("maskers.differ_by"):
            again.check_members(near)
    assert [row.rule for row in again._state.audit()] == 6 * ["maskers.differ_by"]
    assert "differ from one before by d alone" in again._state.audit()[-1].text
    told(rules(policy), data_set="beer").check_members("abcdef")


def test_clients_that_may_leave_a_sum_count_as_if_they_did(rules):
    """Who holds no masks knows who was named, and not whose arrays are in a sum."""
    one = told(rules(Policy(maskers={"differ_by": 2})))
    one.check_members("abcdefgh", 3)
    one.check_members("abcdefgh", 2)  # others hold the masks of the same clients, and compare them
    for members, may_leave in (("abcdef", 1), ("abcdefgh" + "ij", 1), ("abcdef", 0)):
        with refused("maskers.differ_by"):
            one.check_members(members, may_leave)
    one.check_members("abc", 0)
    told(rules(Policy(), store="/other"), data_set="b").check_members("abcdefg", 2)
    told(rules(Policy(), store="/other"), data_set="b").check_members("abcdefgh", 2)


def test_clients_of_sums_are_remembered_before_a_policy_asks(rules):
    told(rules(Policy())).check_members("abc")
    told(rules(Policy())).check_members("ab")
    with refused("maskers.differ_by"):
        told(rules(Policy(maskers={"differ_by": 2}))).check_members("ac")
    told(rules()).check_members("ac")  # where nothing is forbidden


def test_the_data_set_is_asked_of_the_party_where_no_step_has_read_it_yet(rules):
    told(rules(Policy())).check_members("abc")
    asked = []

    def opens():
        asked.append(told(one))

    one = rules(Policy(maskers={"differ_by": 2}))
    one._open_store = opens
    with refused("maskers.differ_by"):
        one.check_members("ab")
    one.check_members("abc")
    assert len(asked) == 1


def test_a_party_without_data_counts_no_clients(rules):
    one = rules(Policy(maskers={"differ_by": 2}), store=None)
    for members in ("abc", "ab"):
        one.check_members(members)


# -- once -----------------------------------------------------------------------------------------


def test_a_tag_serves_one_content():
    once = OnceOnly()
    once.hold("masks", "t", b"one")
    once.hold("masks", "t", b"one")
    once.hold("masks", "u", b"two")
    once.hold("shares", "t", b"two")
    with pytest.raises(PrivacyError, match=r"the masks of 't' were used for another content"):
        once.hold("masks", "t", b"two")


def test_a_tag_is_remembered_by_the_next_process_of_a_start_and_by_no_other_start(rules):
    rules().once().hold("masks", "t", b"one")
    rules().once().hold("masks", "t", b"one")
    with pytest.raises(PrivacyError, match="another content"):
        rules().once().hold("masks", "t", b"two")
    rules(nonce=b"other").once().hold("masks", "t", b"two")


def test_a_line_that_a_crash_cut_off_is_left(tmp_path):
    path = tmp_path / "once"
    OnceOnly(path).hold("masks", "t", b"one")
    before = path.read_text()
    OnceOnly(path).hold("masks", "u", b"one")
    after = path.read_text()
    for end in range(len(before), len(after)):
        path.write_text(after[:end])
        again = OnceOnly(path)
        again.hold("masks", "u", b"one")
        with pytest.raises(PrivacyError):
            again.hold("masks", "t", b"two")
        with pytest.raises(PrivacyError):
            OnceOnly(path).hold("masks", "u", b"two")


def test_noise_that_is_counted_where_it_is_made_counts_once(rules):
    """And counts if no message of it does."""
    one = rules()
    one.release(8.0, "data")
    one.charge("", 8.0, "a message of it")
    one.release(8.0, "data")  # the same step once more
    once = one._state.spent("").epsilon(1e-5)
    assert one._state.charge("", 9.0, None, run_id="r", start="s", label="x").epsilon(1e-5) > once
    assert len(one._state.spent("").events) == 2
    one.charge("", 7.0, "of other noise")
    one.release(8.0, "data that are perturbed once more")
    assert sum(event.count for event in one._state.spent("").events) == 4


def test_what_is_charged_twice_counts_once(rules):
    one = rules(Policy(budget={"epsilon": 1, "delta": 1e-5}))
    for _ in range(50):
        one.charge("digest", 8.0, "factors")
    assert np.isclose(one._state.spent("digest").epsilon(1e-5), 0.4344, atol=1e-4)
    one._state.begin("r", "s", RunRequest("FedSC", submitter="alice"))
    with refused("budget"):
        for i in range(50):
            one.charge("digest", 8.0, f"factors of round {i}")
    assert one._state.audit()[-1].submitter == "alice"


def test_values_for_the_server_are_of_the_types_of_its_steps(rules, caplog):
    """And need not be what was announced, where their names are: other numbers are tried."""
    request = {"method": "OmniFC", "parameters": {"n_clusters": 3}}
    server = rules(Policy(), replace(RUN, request=request))
    asked = {"by": frozenset({"caller"})}
    use = StepUse(
        "daskfc.protocols.omnifc.scores.cluster_score", "server", frozenset({"server → caller"}),
        asked, frozenset(), scores.cluster_score, {"by": "silhouette"},
    )  # fmt: skip
    server.check_step(use)
    with refused("steps"):
        server.check_step(replace(use, given={"by": 7}))
    assert "'by' must be of the type that its step declares" in caplog.text
    tried = {name: frozenset({"caller"}) for name in ("n_clusters", "seed")}
    several = replace(
        use, step="daskfc.protocols.omnifc.scores.gap", takes=tried, function=scores.gap
    )
    server.check_step(replace(several, given={"n_clusters": 4, "seed": 0}))
