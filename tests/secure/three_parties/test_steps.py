"""Steps of a computation on shares: keys, summands and rounds, once each."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.cluster import DBSCAN

from daskfc.coding import SecretKey
from daskfc.errors import (
    DecodingError,
    InvalidInput,
    PolicyRefused,
    PrivacyError,
    ResourceRefused,
)
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.process_memory import PROCESS_BYTES
from daskfc.federation.party.site_rules import PartyRules, SiteRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.secure.shared import DensityClusters, Lloyd, Numbers, put_together
from daskfc.secure.shared.planes import unpacked
from daskfc.secure.three_parties import (
    CentresOfShares,
    DensityOfShares,
    NeighboursOfShares,
    WholeRows,
)
from daskfc.secure.three_parties.messages import GraphSummand, LabelSummand, SharedWords
from daskfc.secure.three_parties.steps import (
    PREDICTIONS,
    Turn,
    _name,
    advanced,
    agreed,
    begun,
    begun_placing,
    cut_rows,
    gathered,
    graph_of,
    graph_summand,
    label_summands,
    labels_of,
    offered,
    words_of,
)
from daskfc.site import Policy

MEMBERS = ("a", "b", "c")
TASK = CentresOfShares(Lloyd(6, 2, 2, 8, 1), seed=0)
ROWS = np.array([[1, 2], [2, 1], [0, 0], [90, 91], [-3, 4], [92, 90]])


class Site(SiteRules):
    """A site that remembers what tags served."""

    def __init__(self):
        self._once = OnceOnly()

    def once(self):
        return self._once


def three(tag="t", rows=ROWS, once=None, **how):
    """Return secrets, keys and shares of three members, whose memory of tags may be given."""
    secrets = {one: SecretKey.from_os() for one in MEMBERS}
    offers = {one: offered(TASK, MEMBERS, tag, secrets[one], one) for one in MEMBERS}
    got = {one: {by: offers[by][one] for by in MEMBERS if by != one} for one in MEMBERS}
    keys = {one: agreed(got[one], MEMBERS, tag, secrets[one], one) for one in MEMBERS}
    if once is not None:
        keys = {one: replace(keys[one], once=once[one]) for one in MEMBERS}
    cut, rest = (
        cut_rows(WholeRows(r, **how), MEMBERS, tag, SecretKey.from_os())
        for r in (rows[:4], rows[4:])
    )
    parts = {one: {"b": cut[one], "other": rest[one]} for one in MEMBERS}
    x = {one: gathered(parts[one], MEMBERS, tag, one) for one in MEMBERS}
    return secrets, keys, x


def test_neighbours_have_a_key_in_common_and_another_in_each_computation():
    _, keys, _ = three()
    for one, after in zip(MEMBERS, "bca", strict=True):
        assert keys[one].after.to_bytes() == keys[after].before.to_bytes()
    assert len({key.before.to_bytes() for key in keys.values()}) == 3
    assert len({key.start for key in keys.values()}) == 1
    secret = SecretKey.from_os()
    one, same, other = (
        offered(TASK, MEMBERS, tag, secret, "a")["b"].keys.tolist() for tag in "ttu"
    )
    assert one == same != other


@pytest.mark.parametrize(
    "members", [MEMBERS, ("a", "b", "c", "d"), ("a", "b", "d"), ("a", "b", "b")]
)
def test_keys_of_others_than_two_members_are_refused(members):
    secret = SecretKey.from_os()
    key = offered(TASK, MEMBERS, "t", secret, "b")["a"]
    with pytest.raises(PrivacyError, match="computes on shares with two others of a, b"):
        agreed({"b": key}, members, "t", secret, "a")


def test_summands_are_the_rows_and_the_same_if_they_are_asked_for_again():
    secret, site = SecretKey.from_os(), Site()
    sent = cut_rows(WholeRows(ROWS), MEMBERS, "t", secret, site)
    own = {m: Numbers(i, *sent[m].values) for i, m in enumerate(MEMBERS)}
    for one, other in (("a", "b"), ("b", "c"), ("c", "a")):
        found = put_together(own[one], own[other]).view(np.int64)
        np.testing.assert_array_equal(found, ROWS)
    again = cut_rows(WholeRows(ROWS), MEMBERS, "t", secret, site)
    assert all(np.array_equal(again[m].values, sent[m].values) for m in MEMBERS)
    other = cut_rows(WholeRows(ROWS), MEMBERS, "u", secret, site)
    assert not any(np.array_equal(other[m].values, sent[m].values) for m in MEMBERS)
    for rows, members in ((ROWS + 1, MEMBERS), (ROWS, ("b", "c", "a")), (ROWS.T, MEMBERS)):
        with pytest.raises(PrivacyError, match="the summands of 't' were used for another content"):
            cut_rows(WholeRows(rows), members, "t", secret, site)
    with pytest.raises(PrivacyError, match="the members on shares of '' were used for another"):
        cut_rows(WholeRows(ROWS), ("d", "e", "f"), "v", secret, site)


def test_a_program_begins_once():
    """Else other words of the others would be answered behind the same masks."""
    _, keys, x = three()
    begun(keys["a"], x["a"], TASK)
    with pytest.raises(PrivacyError, match="the task on shares of '' were used for another"):
        begun(keys["a"], x["a"], replace(TASK, seed=1))
    for shares in (x["a"], replace(x["a"], numbers=x["a"].numbers + 1)):
        with pytest.raises(PrivacyError, match=r"the streams of .* were used for another content"):
            begun(keys["a"], shares, TASK)


def test_a_member_refuses_what_its_memory_does_not_hold_before_it_sends_anything(tmp_path):
    """From the announced sizes, whatever the coordinator foresaw; and again where a task begins."""
    secret, tight = SecretKey.from_os(), TASK.memory + PROCESS_BYTES
    options = PartyOptions(name="a", role="client", scratch=str(tmp_path))
    small, large = (PartyRules(replace(options, memory=m)) for m in (tight, tight + tight // 9))
    _, keys, x = three()
    offered(TASK, MEMBERS, "t", secret, "a", large)
    with pytest.raises(ResourceRefused, match="GB of memory at 'a', more than its limit"):
        offered(TASK, MEMBERS, "t", secret, "a", small)
    with pytest.raises(ResourceRefused, match="shares of 6 samples with 2 features would take"):
        begun(keys["a"], x["a"], TASK, small)
    begun(keys["a"], x["a"], TASK, large)
    with pytest.raises(ResourceRefused, match="placing 50,000,000 new samples by a computation on"):
        offered(TASK, MEMBERS, "t", secret, "a", large, 50_000_000)
    once, fit = a_fit()
    _, keys, new = three("new", NEW, once, new=True)
    with pytest.raises(ResourceRefused, match=f"placing {len(NEW)} new samples by"):
        begun_placing(fit["a"], keys["a"], new["a"], small)


def test_messages_of_another_computation_are_refused():
    _, keys, x = three()
    turn = begun(keys["a"], x["a"], TASK)
    with pytest.raises(DecodingError, match="what b sent is of another computation on shares"):
        advanced(turn, {"b": SharedWords("u", 1, turn.words.reshape(-1))})
    rows = cut_rows(WholeRows(ROWS), MEMBERS, "u", SecretKey.from_os())
    with pytest.raises(DecodingError, match="what site sent is of another computation on shares"):
        gathered({"site": rows["a"]}, MEMBERS, "t", "a")
    with pytest.raises(DecodingError, match="or of other members"):
        gathered({"site": rows["a"]}, ("a", "c", "b"), "u", "a")
    planes = np.zeros((2, 1), np.uint64)
    parts = {one: LabelSummand(_name("t", MEMBERS), planes) for one in "ab"} | {
        "c": LabelSummand("u", planes)
    }
    with pytest.raises(DecodingError, match="what c sent is of another computation"):
        labels_of(parts, WholeRows(ROWS[:4]), TASK, MEMBERS, "t")


def test_a_member_sends_to_the_one_before_and_hears_from_the_one_after():
    """Two members' words of a round, together with the own ones, are what they hide."""
    _, keys, x = three()
    turn = begun(keys["b"], x["b"], TASK)
    assert set(words_of(turn)) == {"a"}
    words = SharedWords(_name("t", MEMBERS), 1, turn.words.reshape(-1))
    for received in ({"a": words}, {"c": words, "a": words}, {}):
        with pytest.raises(DecodingError, match="takes the words of 'c'; got those of"):
            advanced(turn, received)


def test_keys_and_shares_are_of_one_order_of_members():
    """Else who deals to whom would be turned around, and one would know what hides a number."""
    _, keys, _ = three()
    cut = cut_rows(WholeRows(ROWS), ("a", "c", "b"), "t", SecretKey.from_os())
    shares = gathered({"site": cut["a"]}, ("a", "c", "b"), "t", "a")
    with pytest.raises(DecodingError, match="keys and shares are of two computations"):
        begun(keys["a"], shares, TASK)


def hostile(task=TASK, **fields):
    """Return a task whose fields nobody looked at, as a pickle makes one."""
    other = object.__new__(type(task))
    other.__dict__.update({**vars(task), **fields})
    return other


class Other(Lloyd):
    """A program of the caller's."""


class OtherTask(CentresOfShares):
    """A program of the caller's, in the fields of a task."""


@pytest.mark.parametrize(
    "task",
    [
        OtherTask(TASK.lloyd, seed=0),
        hostile(lloyd=Other(6, 2, 2, 8, 1)),
        hostile(lloyd=hostile(TASK.lloyd, n_clusters=7)),
        hostile(lloyd=hostile(TASK.lloyd, flat=1)),
        hostile(candidates=[0, 5]),
        hostile(seed="0"),
        hostile(seed=-1),
        hostile(scale=1),
        hostile(DensityOfShares(DensityClusters(6, 2, 8, 1, 1)), clusters=TASK.lloyd),
        TASK.lloyd,
        7,
    ],
)
@pytest.mark.parametrize("step", [begun, labels_of])
def test_a_site_performs_its_own_programs_only(step, task):
    announced = Announced(clients=MEMBERS)
    members = {} if step is begun else {"members": MEMBERS}
    assert broken_rule(step, {"task": TASK, **members}, announced) is None
    assert "'task' must be" in broken_rule(step, {"task": task, **members}, announced)


def test_members_compute_on_rows_of_all_clients(tmp_path):
    """A submitter chooses no clients of which labels say more."""
    run = RunSettings("r", 0, start="s", builds={"b": "1", "other": "1", "left out": "1"})
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
    parts = {
        name: cut_rows(WholeRows(ROWS), MEMBERS, "t", SecretKey.from_os())["a"]
        for name in ("b", "other")
    }
    with pytest.raises(PolicyRefused, match="party 'a' refuses this by its rule 'steps'"):
        gathered(parts, MEMBERS, "t", "a", site)
    everybody = {**parts, "left out": parts["b"]}
    assert gathered(everybody, MEMBERS, "t", "a", site).numbers.shape == (18, 2)


def test_clients_that_were_told_different_grids_are_not_computed_with():
    """Else who tells them would move one client's samples against another's."""
    point = np.array([1.0, 0.0])
    cut = cut_rows(WholeRows(ROWS, 2.0, point), MEMBERS, "t", SecretKey.from_os())["a"]
    same = {"b": cut, "other": cut}
    assert gathered(same, MEMBERS, "t", "a").scale == 2.0
    how = ((4.0, point), (2.0, -point), (2.0,), (2.0, point, False, 9))
    for rows in (WholeRows(ROWS, *one) for one in how):
        other = cut_rows(rows, MEMBERS, "t", SecretKey.from_os())["a"]
        with pytest.raises(PrivacyError, match="were told different scales or centres"):
            gathered({**same, "other": other}, MEMBERS, "t", "a")


@pytest.mark.parametrize("step", [agreed, cut_rows, gathered, labels_of])
def test_a_site_shares_among_three_of_which_no_two_collude(step):
    given = {"members": MEMBERS} | ({"task": TASK} if step is labels_of else {})
    for n_colluding, told in ((None, True), (1, True), (2, False)):
        announced = Announced({"n_colluding": n_colluding}, clients=(*MEMBERS, "d"))
        assert (broken_rule(step, given, announced) is None) == told
    for members in (("a", "b"), ("a", "b", "x"), ("a", "a", "b"), (*MEMBERS, "d")):
        announced = Announced(clients=(*MEMBERS, "d"))
        assert "'members' must be" in broken_rule(step, {**given, "members": members}, announced)


def test_a_task_for_other_samples_is_refused():
    _, keys, x = three()
    other = replace(TASK, lloyd=replace(TASK.lloyd, n_samples=7))
    for task in (other, replace(TASK, scale=2.0)):
        with pytest.raises(InvalidInput, match=r"must be for .* those that clients shared"):
            begun(keys["a"], x["a"], task)
    _, keys, x = three(bits=9)  # labels by the lowest bits alone would tell something else
    with pytest.raises(InvalidInput, match=r"in 8 bits, those that clients shared; .* in 9"):
        begun(keys["a"], x["a"], TASK)
    _, keys, x = three(bits=8)
    begun(keys["a"], x["a"], TASK)


def in_turns(keys, x, task=TASK):
    """Take turns until the programs have ended; return the last ones and all before them."""
    return to_the_end({one: begun(keys[one], x[one], task) for one in MEMBERS})


def to_the_end(turns):
    before = []
    while any(turn.words is not None for turn in turns.values()):
        before.append(turns)
        sent = {one: words_of(turns[one]) for one in MEMBERS}
        after = dict(zip(MEMBERS, "bca", strict=True))
        turns = {one: advanced(turns[one], {after[one]: sent[after[one]][one]}) for one in MEMBERS}
    return turns, before


def test_rounds_give_labels_and_an_ended_program_says_nothing_more():
    _, keys, x = three()
    turns, before = in_turns(keys, x)
    assert {turn.number for turn in turns.values()} == {len(before)}
    assert words_of(turns["a"])["c"].values.size == 0
    assert (
        advanced(turns["a"], {"b": SharedWords(_name("t", MEMBERS), 1, np.empty(0, np.uint64))})
        is turns["a"]
    )
    parts = {one: label_summands(turns[one]) for one in MEMBERS}
    assert {client for part in parts.values() for client in part} == {"b", "other"}
    found = [
        labels_of(
            {m: parts[m][client] for m in MEMBERS}, WholeRows(ROWS[:n]), TASK, MEMBERS, "t"
        ).tolist()
        for client, n in (("b", 4), ("other", 2))
    ]
    assert found == [[0, 0, 0, 1], [0, 1]]
    with pytest.raises(DecodingError, match="result needs the summands of a, b, c; got those of a"):
        labels_of({"a": parts["a"]["b"]}, WholeRows(ROWS[:4]), TASK, MEMBERS, "t")


def test_a_graph_is_opened_at_the_server_from_three_summands_of_one_size():
    _, keys, x = three()
    near = NeighboursOfShares(DensityClusters(6, 2, 8, 10, 2))
    turns, _ = in_turns(keys, x, near)
    parts = {one: graph_summand(turns[one]) for one in MEMBERS}
    bits = unpacked(graph_of(parts, MEMBERS, "t"), 6)[:6]
    squares = np.square(ROWS[:, None] - ROWS).sum(-1)
    np.testing.assert_array_equal(bits, squares <= 10)
    for one, other in ("ab", "bc", "ac"):  # two say nothing
        assert not np.array_equal(unpacked(parts[one].rows ^ parts[other].rows, 6)[:6], bits)
    short = {**parts, "c": GraphSummand(parts["c"].tag, parts["c"].rows[:-1])}
    with pytest.raises(DecodingError, match="members sent summands of different sizes"):
        graph_of(short, MEMBERS, "t")
    with pytest.raises(DecodingError, match="needs the summands of a, b, c; got those of a, b"):
        graph_of({one: parts[one] for one in "ab"}, MEMBERS, "t")
    with pytest.raises(DecodingError, match="has not ended, and has no graph yet"):
        graph_summand(Turn(turns["a"].running, 1, None))


def test_a_round_is_not_taken_twice_and_not_with_words_of_another():
    _, keys, x = three()
    _, before = in_turns(keys, x)
    words = {"b": SharedWords(_name("t", MEMBERS), 1, before[0]["b"].words.reshape(-1))}
    with pytest.raises(
        DecodingError, match="round 1 of a computation on shares was asked for again"
    ):
        advanced(before[0]["a"], words)
    other = three("fresh")
    fresh = begun(*(other[i]["a"] for i in (1, 2)), TASK)
    with pytest.raises(DecodingError, match="or a member is in another one"):
        advanced(fresh, {"b": SharedWords(_name("fresh", MEMBERS), 2, words["b"].values)})
    with pytest.raises(DecodingError, match="or a member is in another one"):
        advanced(fresh, {"b": SharedWords(_name("fresh", MEMBERS), 1, words["b"].values[:-1])})


NEW = np.array([[3, 1], [88, 95], [-200, 7], [47, 46], [46, 47], [255, -255], [1, 2]])


def a_fit(how=None):
    """Return the members' memories and their turns at the end of a fit."""
    once = {one: OnceOnly() for one in MEMBERS}
    _, keys, x = three(once=once, **(how or {}))
    return once, in_turns(keys, x, replace(TASK, scale=(how or {}).get("scale", 1.0)))[0]


def placed(fit, once, tag, rows=NEW, task=TASK, **how):
    """Return labels of new rows by what a fit found, and all turns on the way."""
    _, keys, x = three(tag, rows, once, new=True, **how)
    turns = {one: begun_placing(fit[one], keys[one], x[one]) for one in MEMBERS}
    turns, before = to_the_end(turns)
    parts = {one: label_summands(turns[one]) for one in MEMBERS}
    return np.concatenate(
        [
            labels_of({m: parts[m][name] for m in MEMBERS}, WholeRows(own), task, MEMBERS, tag)
            for name, own in (("b", rows[:4]), ("other", rows[4:]))
        ]
    ), before


def test_new_samples_get_the_nearest_of_the_shared_centres():
    once, fit = a_fit()
    centres = put_together(*(fit[one].kept for one in "ab")).view(np.int64)
    nearest = np.square(NEW[:, None] - centres).sum(-1).argmin(1)
    found, _ = placed(fit, once, "new")
    np.testing.assert_array_equal(found, nearest)
    assert set(nearest) == {0, 1}
    own, _ = placed(fit, once, "own", ROWS)
    np.testing.assert_array_equal(own, [0, 0, 0, 1, 0, 1])  # as the fit's, see above


def test_the_same_samples_placed_again_are_behind_other_masks():
    """Behind one mask, words of two predictions would differ by what they hide."""
    once, fit = a_fit()
    (found, one), (again, other) = (placed(fit, once, tag) for tag in ("new", "once more"))
    np.testing.assert_array_equal(found, again)
    assert len(one) == len(other)
    differences = np.concatenate(
        [
            (a[m].words ^ b[m].words).reshape(-1)
            for a, b in zip(one, other, strict=True)
            for m in MEMBERS
        ]
    )
    assert (differences != 0).mean() > 0.95
    counts = np.bincount(differences.view(np.uint8), minlength=256)
    assert len(differences) > 300
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < chi2.isf(1e-9, 255)


def test_a_prediction_has_streams_of_its_own():
    """Neither the fit's, which were drawn from, nor those of a prediction before."""
    once, fit = a_fit()
    placed(fit, once, "new")
    for tag in ("t", "new"):
        with pytest.raises(PrivacyError, match=r"the streams of .* were used for another content"):
            placed(fit, once, tag)


def test_few_predictions_are_made_in_a_start():
    """Labels of chosen samples tell where centres are, ever more exactly."""
    once, fit = a_fit()
    for number in range(PREDICTIONS):
        placed(fit, once, f"new {number}")
    with pytest.raises(PrivacyError, match="ask for 8 different predictions on shares at most"):
        placed(fit, once, "one more")


def test_new_samples_are_placed_at_the_centres_of_their_fit_alone():
    once, fit = a_fit({"scale": 2.0})
    placed(fit, once, "new", scale=2.0)
    point = np.array([1.0, 0.0])
    for how in ({"scale": 4.0}, {"scale": 2.0, "point": point}):
        with pytest.raises(PrivacyError, match="not of new samples on the grid, from the point"):
            placed(fit, once, "other", **how)
    with pytest.raises(PrivacyError, match="not of new samples on the grid"):
        placed(fit, once, "wide", np.ones((6, 3), int), scale=2.0)
    _, keys, x = three("fit's own", ROWS, once, scale=2.0)
    with pytest.raises(PrivacyError, match="not of new samples on the grid"):
        begun_placing(fit["a"], keys["a"], x["a"])
    others = {one: replace(keys[one], members=("a", "c", "b")) for one in MEMBERS}
    with pytest.raises(PrivacyError, match="and for the members of the fit"):
        begun_placing(fit["a"], others["a"], replace(x["a"], new=True))
    with pytest.raises(InvalidInput, match="by what k-means or DBSCAN found that has ended"):
        begun_placing(replace(fit["b"], kept=None), keys["b"], x["b"])


def test_new_samples_get_the_clusters_of_core_samples_near_them():
    once = {one: OnceOnly() for one in MEMBERS}
    task = DensityOfShares(DensityClusters(6, 2, 8, 10_000, 2))
    _, keys, x = three(once=once)
    fit, _ = in_turns(keys, x, task)
    found, before = placed(fit, once, "new", task=task)
    model = DBSCAN(eps=100.001, min_samples=2, algorithm="brute").fit(ROWS)
    near = np.square(NEW[:, None] - ROWS[model.core_sample_indices_]).sum(-1) <= 10_000
    wanted = [min(model.labels_[model.core_sample_indices_][row], default=-1) for row in near]
    assert found.tolist() == wanted
    assert {-1, 0} <= set(wanted)
    assert len(before) == task.placing(len(NEW)).cost().rounds
    for number in range(PREDICTIONS - 1):
        placed(fit, once, f"new {number}", task=task)
    with pytest.raises(PrivacyError, match="ask for 8 different predictions on shares at most"):
        placed(fit, once, "one more", task=task)


def test_a_graph_places_no_new_samples():
    once = {one: OnceOnly() for one in MEMBERS}
    _, keys, x = three(once=once)
    fit, _ = in_turns(keys, x, NeighboursOfShares(DensityClusters(6, 2, 8, 10, 2)))
    with pytest.raises(InvalidInput, match="this member has nothing of that computation"):
        placed(fit, once, "new")


def test_new_samples_have_no_part_in_a_fit():
    """Else a submitter would cluster some clients' samples, or samples that it chose."""
    _, keys, x = three(new=True)
    with pytest.raises(PrivacyError, match="new samples are placed by what a fit found, and"):
        begun(keys["a"], x["a"], TASK)
    cut = {
        name: cut_rows(WholeRows(ROWS, new=new), MEMBERS, "t", SecretKey.from_os())["a"]
        for name, new in (("b", True), ("other", False))
    }
    with pytest.raises(PrivacyError, match="or some sent new samples and others their own"):
        gathered(cut, MEMBERS, "t", "a")


def test_some_clients_may_have_new_samples(tmp_path):
    """Of a fit's own, all clients' are needed: see above."""
    run = RunSettings("r", 0, start="s", builds={"b": "1", "left out": "1"})
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
    cut = cut_rows(WholeRows(ROWS, new=True), MEMBERS, "t", SecretKey.from_os())["a"]
    shares = gathered({"b": cut}, MEMBERS, "t", "a", site)
    assert (shares.new, shares.places) == (True, {"b": (0, 6)})
