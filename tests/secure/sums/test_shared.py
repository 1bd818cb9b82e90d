"""Sums with aggregators, without a cluster: values, what colluders see, refusals."""

import hashlib
import itertools

import numpy as np
import pytest
from scipy import stats

from daskfc.coding import FixedPoint, SecretKey, add_mask
from daskfc.errors import DeadlineError, DecodingError, InvalidInput, PolicyRefused, PrivacyError
from daskfc.federation import PerClient, check_message, payload_bytes
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import PartyRules
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.privacy import with_noise_share
from daskfc.secure.sums import SharedSum, open_sum
from daskfc.secure.sums.masked import masked_part, masked_total
from daskfc.secure.sums.messages import Arrivals
from daskfc.secure.sums.shared import (
    aggregators_of,
    agreed,
    announced,
    gathered,
    offered,
    opened,
    shared_total,
)
from daskfc.secure.sums.stand_ins import STAND_INS
from daskfc.site import Policy
from tests.secure.sums.answering import NAMES, Answer, Answering
from tests.secure.sums.test_protocol import pair_keys

RING = FixedPoint.for_bound(30.0, n_terms=5)
TOLD = b"alike"


class Clients:
    """Five clients, of which the first two or more are aggregators."""

    def __init__(self, n_colluding=0, threshold=3, secrets=None, names=NAMES, named=None):
        self.secrets = secrets or {name: SecretKey.from_os() for name in names}
        self.aggregators = aggregators_of(names, n_colluding, named)
        graph, how = (names, n_colluding), {"named": named}
        sent = {name: offered(*graph, self.secrets[name], name, **how) for name in names}
        self.public = {
            name: {other: sent[other][name] for other in names if name in sent[other]}
            for name in names
        }
        self.keys = {
            name: agreed(self.public[name], *graph, threshold, self.secrets[name], name, **how)
            for name in names
        }

    def send(self, parts, tag="s.0", told=TOLD):
        return {
            name: masked_part(part, self.keys[name], RING, tag, told)
            for name, part in parts.items()
        }

    def told(self, sent, tag="s.0"):
        return announced(gathered(sent, tag, tuple(sent)), NAMES)

    def masks(self, told):
        return {name: opened(told, self.keys[name]) for name in self.aggregators}

    def total(self, sent, tag="s.0"):
        there = gathered(sent, tag, tuple(sent))
        masks = self.masks(announced(there, NAMES))
        return shared_total(there, masks, self.aggregators)


@pytest.fixture
def clients():
    return Clients()


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-3, 3, (40, 3)) for name in NAMES}


def is_uniform(words):
    return stats.chisquare(np.bincount(words.view(np.uint8).ravel(), minlength=256)).pvalue > 1e-5


def test_a_plan_tells_aggregators_as_many_bytes():
    clients = Clients()
    digest = hashlib.sha256(TOLD).digest()
    sent = clients.send({name: np.ones((2, 3)) for name in NAMES}, told=digest)
    told = [announced(step(sent, "s.0", NAMES), NAMES) for step in (gathered, STAND_INS[gathered])]
    for message in told:
        check_message(message, party="server")
    assert payload_bytes(told[0]) == payload_bytes(told[1])


@pytest.mark.parametrize("n_colluding", [0, 1, 2, 3])
def test_the_sum_is_that_of_masks_bit_for_bit(parts, n_colluding):
    shared = Clients(n_colluding, threshold=4)
    secrets = {name: SecretKey.from_os() for name in NAMES}
    pairs = pair_keys(NAMES, n_colluding, secrets)
    sent = {name: masked_part(parts[name], pairs[name], RING, "m.0") for name in NAMES}
    masked = masked_total(sent, "m.0", NAMES)
    found = shared.total(shared.send(parts))
    np.testing.assert_array_equal(found.values, masked.values)
    assert (found.error_bound, found.terms) == (masked.error_bound, NAMES)
    assert len(shared.aggregators) == max(2, n_colluding + 1)


@pytest.mark.parametrize("gone", [("client-5",), ("client-3", "client-4")])
def test_the_sum_is_of_those_whose_arrays_arrived(clients, parts, gone):
    there = {name: part for name, part in parts.items() if name not in gone}
    found = clients.total(clients.send(there))
    exact = np.sum(list(there.values()), axis=0)
    np.testing.assert_allclose(found.values, exact, rtol=0, atol=1e-14)
    assert found.terms == tuple(there)


def test_there_are_no_fewer_aggregators_than_were_announced():
    asked = Announced({"n_colluding": 2}, clients=NAMES)
    for given, allowed in ((2, True), (3, True), (0, False), (1, False)):
        told = broken_rule(agreed, {"members": NAMES, "n_colluding": given}, asked)
        assert (told is None) == allowed
    unannounced = Announced(clients=NAMES)
    assert broken_rule(agreed, {"members": NAMES, "n_colluding": 0}, unannounced) is None


def test_aggregators_are_those_that_were_announced():
    """Else a submitter would have two of its own hold the masks."""
    named, given = ["client-5", "client-3"], {"members": NAMES, "n_colluding": 0}
    asked = Announced({"aggregators": named}, clients=NAMES)
    assert broken_rule(agreed, {**given, "named": named}, asked) is None
    for other in (None, named[:1], ["client-1", "client-2"]):
        assert "'aggregators' that were announced" in broken_rule(
            agreed, {**given, "named": other}, asked
        )
    assert "'aggregators'" in broken_rule(agreed, given, asked)
    assert "'aggregators'" in broken_rule(agreed, {**given, "named": named}, Announced({}, NAMES))


def test_named_aggregators_hold_the_masks_of_all(parts):
    named = ("client-3", "client-5")
    clients = Clients(named=named)
    assert clients.aggregators == named
    found = clients.total(clients.send(parts))
    np.testing.assert_allclose(
        found.values, np.sum(list(parts.values()), axis=0), rtol=0, atol=1e-14
    )
    assert aggregators_of(NAMES[:3], 1, named) == ("client-1", "client-3")  # who take part
    assert aggregators_of(NAMES, 0, NAMES[2:]) == NAMES[2:]
    assert SharedSum(Answering(), aggregators=named).aggregators == named


@pytest.mark.parametrize(
    ("names", "kind", "n_colluding", "match"),
    [
        (NAMES[:2], "masked", 0, "with averaging='shared' alone; got 'masked'"),
        (("client-1", "client-9"), "shared", 0, "must be clients; there is no 'client-9'"),
        (NAMES[:2], "shared", 2, "more than the 2 clients that may collude"),
    ],
)
def test_aggregators_that_hold_nothing_back_are_refused(names, kind, n_colluding, match):
    with pytest.raises(InvalidInput, match=match):
        open_sum(Answering(), kind, n_colluding=n_colluding, aggregators=names)


def colluders_of(n_colluding):
    """Every set that may collude: all that are aggregators but one, or any clients."""
    return [set(one) for one in itertools.combinations(NAMES, max(1, n_colluding))]


@pytest.mark.parametrize("n_colluding", [0, 1, 2])
def test_server_and_colluders_see_nothing_but_the_sum_of_the_others(n_colluding):
    """They take away every mask that they know; what is left of one honest part is uniform."""
    zeros = np.zeros((20_000, 1))
    clients = Clients(n_colluding, threshold=4)
    sent = clients.send(dict.fromkeys(NAMES, zeros))
    masks = clients.masks(clients.told(sent))
    for pool in colluders_of(n_colluding):
        honest = [name for name in NAMES if name not in pool]
        left = {name: sent[name].values.copy() for name in honest}
        known = {name: message.values.copy() for name, message in masks.items()}
        for aggregator in clients.aggregators:
            for name in NAMES:
                if {aggregator, name} & pool:  # either of the two has the key
                    whose = aggregator if aggregator in pool else name
                    key = clients.keys[whose]._key(name, aggregator, "s.0", TOLD)
                    add_mask(known[aggregator], key, -1)
                    if name in left:
                        add_mask(left[name], key, -1)
        assert all(is_uniform(left[name]) for name in honest)
        # of honest aggregators' answers only what gives the sum: here 0
        rest = sum(left.values(), np.zeros_like(zeros, dtype=np.uint64))
        for own in known.values():
            rest -= own
        assert not rest.any()
        if len(honest) > 1:
            assert is_uniform(sum(left[name] for name in honest[1:]))


def test_all_aggregators_and_the_server_together_see_every_array(clients, parts):
    """What the guides say of them."""
    left = clients.send(parts)["client-4"].values.copy()
    for aggregator in clients.aggregators:
        add_mask(left, clients.keys[aggregator]._key("client-4", aggregator, "s.0", TOLD), -1)
    np.testing.assert_allclose(RING.decode(left), parts["client-4"], atol=1e-14)


def test_what_an_aggregator_gets_and_sends_does_not_depend_on_the_arrays(parts):
    secrets = {name: SecretKey.from_os() for name in NAMES}
    seen = []
    for factor in (1.0, -0.5):
        clients = Clients(secrets=secrets)
        told = clients.told(clients.send({n: factor * part for n, part in parts.items()}))
        seen.append((told, opened(told, clients.keys["client-1"])))
    (told, sums), (told_again, sums_again) = seen
    for one, other in ((told, told_again), (sums, sums_again)):
        assert all(np.array_equal(a, vars(other)[name]) for name, a in vars(one).items())
    assert set(vars(told)) == {"tag", "told", "n_rows", "n_columns", "present"}


def test_masks_are_new_in_every_sum_and_of_each_client_and_aggregator(clients):
    zeros = np.zeros((20_000, 1))
    sent = [clients.send(dict.fromkeys(NAMES, zeros), tag) for tag in ("s.0", "s.1")]
    sent.append(clients.send(dict.fromkeys(NAMES, zeros), "s.2", b"other"))
    words = [message.values for one in sent for message in one.values()]
    assert all(is_uniform(one) for one in words)
    assert all(not (a == b).any() for a, b in itertools.combinations(words, 2))
    both = clients.aggregators
    streams = [
        clients.keys[who]._key(*pair, "s.0", TOLD).fingerprint()
        for who, pair in [
            (both[0], both), (both[0], both[::-1]), (both[0], (both[0], both[0])),
            (both[1], (both[1], both[1])), (both[0], ("client-3", both[0])),
        ]
    ]  # fmt: skip
    assert len(set(streams)) == len(streams)


def test_an_array_that_comes_late_stays_hidden(clients):
    zeros = np.zeros((20_000, 1))
    sent = clients.send(dict.fromkeys(NAMES, zeros))
    late = sent.pop("client-5").values
    masks = clients.masks(clients.told(sent))
    assert is_uniform(late)
    rest = late - masks["client-1"].values - masks["client-2"].values
    assert is_uniform(rest)


def test_an_aggregator_opens_one_set_of_clients_a_sum(clients, parts):
    sent = clients.send(parts)
    told = clients.told(sent)
    first, again = clients.masks(told), clients.masks(told)  # after a kill
    np.testing.assert_array_equal(first["client-1"].values, again["client-1"].values)
    sent.pop("client-5")
    for name in clients.aggregators:
        with pytest.raises(PrivacyError, match=r"sums of masks of 's\.0' were used for another"):
            opened(clients.told(sent), clients.keys[name])


def told_with(told, **other):
    return Arrivals(**{**vars(told), **other})


@pytest.mark.parametrize(
    "present", [[1, 1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1, 2], [1] * 6, [0] * 5]
)
def test_too_few_and_strangers_are_not_opened(clients, parts, present):
    told = clients.told(clients.send(parts))
    bent = told_with(told, present=np.array(present, dtype=np.uint8))
    with pytest.raises(PrivacyError, match="at least 3 of its clients; client-1 was asked"):
        opened(bent, clients.keys["client-1"])
    opened(told, clients.keys["client-1"])  # what was refused is not held against it


def test_others_than_aggregators_open_nothing(clients, parts):
    with pytest.raises(PrivacyError, match="are opened by client-1, client-2, for"):
        opened(clients.told(clients.send(parts)), clients.keys["client-3"])


def test_clients_whose_keys_did_not_arrive_are_not_opened(clients, parts):
    some = {name: key for name, key in clients.public["client-1"].items() if name != "client-4"}
    keys = agreed(some, NAMES, 0, 3, clients.secrets["client-1"], "client-1")
    with pytest.raises(PrivacyError, match="Nothing was opened"):
        opened(clients.told(clients.send(parts)), keys)
    left = {name: part for name, part in parts.items() if name != "client-4"}
    opened(clients.told(clients.send(left, "s.1"), "s.1"), keys)


@pytest.mark.parametrize("lacking", ["client-1", "client-2"])
def test_keys_of_other_clients_are_refused(clients, lacking):
    name = "client-3"
    fewer = {who: key for who, key in clients.public[name].items() if who != lacking}
    stranger = {**clients.public[name], "client-4": clients.public["client-1"]["client-4"]}
    for public in (fewer, stranger, {}):
        with pytest.raises(PrivacyError, match="where client-1, client-2 hold the masks of 5"):
            agreed(public, NAMES, 0, 3, clients.secrets[name], name)


@pytest.mark.parametrize(
    ("names", "threshold", "n_colluding"), [(NAMES[::-1], 3, 0), (NAMES, 4, 0), (NAMES[:4], 3, 0)]
)
def test_who_is_told_of_other_clients_or_thresholds_spoils_the_sum(
    clients, parts, names, threshold, n_colluding
):
    """One cannot be among few where the others believe to be among many."""
    one, fewer = "client-3", {n: parts[n] for n in NAMES[:4]}
    clients.keys[one] = agreed(
        {n: k for n, k in clients.public[one].items() if n in names},
        names, n_colluding, threshold, clients.secrets[one], one,
    )  # fmt: skip
    found = clients.total(clients.send(fewer))
    assert np.abs(found.values - np.sum(list(fewer.values()), axis=0)).max() > 1.0


def test_what_clients_were_told_differently_is_refused_or_noise(clients, parts):
    sent = clients.send({n: part for n, part in parts.items() if n != "client-4"})
    sent |= clients.send({"client-4": parts["client-4"]}, "s.0", b"else")
    with pytest.raises(DecodingError, match="were told different things: client-4"):
        gathered(sent, "s.0", NAMES)
    honest = clients.told({n: one for n, one in sent.items() if n != "client-4"})
    bent = told_with(honest, present=np.ones(5, dtype=np.uint8))  # as if it did not look
    total = sum(message.values for message in sent.values())
    for name in clients.aggregators:
        total = total - opened(bent, clients.keys[name]).values
    assert np.abs(RING.decode(total) - np.sum(list(parts.values()), axis=0)).max() > 1.0


def test_masks_hide_one_array_only(clients):
    first, again = (clients.send({"client-1": np.ones(3)}) for _ in range(2))
    np.testing.assert_array_equal(first["client-1"].values, again["client-1"].values)
    with pytest.raises(PrivacyError, match=r"masks of 's\.0' were used for another content"):
        clients.send({"client-1": np.zeros(3)})


def test_missing_and_stale_masks_are_errors(clients, parts):
    sent = clients.send(parts)
    there = gathered(sent, "s.0", NAMES)
    masks = clients.masks(announced(there, NAMES))
    other = clients.masks(clients.told(clients.send(parts, "s.1"), "s.1"))
    for wrong in ({"client-1": masks["client-1"]}, masks | {"client-2": other["client-2"]}):
        with pytest.raises(DecodingError, match="wrong or missing: client-2"):
            shared_total(there, wrong, clients.aggregators)


def test_parties_of_all_versions_derive_the_same():
    """Labels and their order: who derives another key spoils the sum of all."""
    secrets = {name: SecretKey(hashlib.sha256(name.encode()).digest()) for name in NAMES}
    clients, digest = Clients(secrets=secrets), hashlib.sha256()
    sent = clients.send(dict.fromkeys(NAMES, np.ones((2, 1))))
    for message in (*sent.values(), *clients.masks(clients.told(sent)).values()):
        digest.update(np.ascontiguousarray(message.values).tobytes())
    assert digest.hexdigest() == (
        "237e860f42c90254c6cc60353e1c8e3a68f713e3b0c23cff5503891c16c2d0c7"
    )


# -- what a site's rules say ----------------------------------------------------------------------


def rules_of(folder, **policy):
    run = RunSettings("r", 0, start="s")
    options = PartyOptions("a", "client", str(folder), run=run, policy=Policy.of(policy))
    return PartyRules(options)


def refused(rule):
    return pytest.raises(PolicyRefused, match=rf"party 'a' refuses this by its rule '{rule}'")


def test_a_share_of_noise_is_among_those_who_stay_and_do_not_collude(clients, tmp_path):
    name = NAMES[0]
    run = RunSettings("r", 0, start="s", request={"parameters": {"n_colluding": 1}})
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))

    def send(n_shares):
        part = with_noise_share(np.zeros((2, 2)), sigma=6.0, sensitivity=2.0, n_shares=n_shares)
        return masked_part(part, clients.keys[name], RING, "t", site=site)

    most = clients.keys[name].threshold - 1
    with pytest.raises(PrivacyError, match=f"here it may be among {most}"):
        send(most + 1)
    assert send(most).noise_multiplier == 3.0


def test_sites_ask_for_enough_clients(clients, parts, tmp_path):
    name = "client-3"
    own = clients.public[name], NAMES, 0
    rules = rules_of(tmp_path, maskers={"at_least": 4})
    with refused("maskers.threshold"):
        agreed(*own, 3, clients.secrets[name], name, rules)
    agreed(*own, 4, clients.secrets[name], name, rules)
    with refused("maskers.at_least"):
        agreed(*own, 5, clients.secrets[name], name, rules_of(tmp_path, maskers={"at_least": 6}))
    few = {n: parts[n] for n in NAMES[:3]}
    with refused("maskers.at_least"):
        opened(clients.told(clients.send(few)), clients.keys["client-1"], rules)


class Counted(PartyRules):
    """Rules that note whose arrays are added up, where they ask."""

    def __init__(self, folder):
        self.__dict__.update(rules_of(folder).__dict__)
        self.members = []

    def check_members(self, members, may_leave=0):
        self.members.append(tuple(members))


def test_aggregators_hold_whose_masks_they_open_and_others_who_takes_part(clients, parts, tmp_path):
    for name, expected in (("client-1", [NAMES[:4]]), ("client-3", [NAMES])):
        site = Counted(tmp_path)
        keys = agreed(clients.public[name], NAMES, 0, 4, clients.secrets[name], name, site)
        if name == "client-1":
            tag = "s.9"
            sent = clients.send({n: parts[n] for n in NAMES[:4]}, tag)
            opened(clients.told(sent, tag), keys, site)
        assert site.members == expected


def test_a_restarted_aggregator_opens_no_other_set(clients, parts):
    once = OnceOnly()
    site = rules_of("/nonexistent")
    site.once = lambda: once
    name = "client-1"

    def anew():
        return agreed(clients.public[name], NAMES, 0, 4, clients.secrets[name], name, site)

    opened(clients.told(clients.send(parts)), anew())
    with pytest.raises(PrivacyError, match="sums of masks"):
        opened(clients.told(clients.send({n: parts[n] for n in NAMES[:4]})), anew())


def test_shares_of_noise_are_of_clients_that_stay(clients):
    def noised(n_shares):
        return with_noise_share(np.zeros((2, 2)), sigma=6.0, sensitivity=2.0, n_shares=n_shares)

    with pytest.raises(PrivacyError, match="here it may be among 3"):
        clients.send({"client-4": noised(4)})
    assert clients.send({"client-4": noised(3)})["client-4"].noise_multiplier == 3.0


# -- the driver's side ----------------------------------------------------------------------------


def summed(federation, n_sums=1, **options):
    sums = SharedSum(federation, **options)
    for _ in range(n_sums):
        sums.sum(PerClient(dict.fromkeys(NAMES, Answer())), max_abs=1.0)
    return sums


def test_keys_are_exchanged_once_and_no_tag_comes_twice():
    federation = Answering()
    for _ in range(2):
        summed(federation, n_sums=3)
    assert [step for step, _ in federation.exchanged] == [offered, offered]
    tags = [arguments[3] for step, arguments in federation.asked if step is masked_part]
    assert len(set(tags)) == len(tags) == 6
    receivers = [arguments for step, arguments in federation.asked if step is announced]
    assert {one[1] for one in receivers} == {NAMES}


def test_stragglers_are_waited_for_once_a_threshold_has_answered():
    federation = Answering()
    summed(federation, threshold=3, patience_s=2.5)
    keys = [(25, 8, None, True), (25, None, 2.5, False)]  # `Answering` has all receivers
    assert federation.waited == [*keys, (5, 3, None, True), (1, None, 2.5, False)]


def test_a_sum_that_needs_all_waits_for_nobody():
    federation = Answering()
    assert summed(federation, threshold=5).n_noise_shares == 5
    assert federation.waited == []


def test_too_few_parts_and_thresholds_out_of_range():
    few = PerClient(dict.fromkeys(NAMES[:2], Answer()))
    with pytest.raises(DeadlineError, match="2 clients are left of a sum that needs 4"):
        SharedSum(Answering()).sum(few, max_abs=1.0)
    with pytest.raises(InvalidInput, match=r"threshold of a SharedSum of 5 clients must be in \["):
        SharedSum(Answering(), threshold=6)
    with pytest.raises(PrivacyError, match="5 clients, 4 of which may collude"):
        SharedSum(Answering(), n_colluding=4)


@pytest.mark.parametrize(("colluding", "n"), [(0, 2), (1, 2), (2, 3), (3, 4)])
def test_aggregators_are_one_more_than_may_collude(colluding, n):
    assert aggregators_of(NAMES[::-1], colluding) == NAMES[:n]
    assert SharedSum(Answering(), n_colluding=colluding).aggregators == NAMES[:n]
