"""The steps of secure sums without a cluster: what they compute, what colluders see, refusals."""

import hashlib
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from daskfc.coding import (
    SHARE_BYTES,
    FixedPoint,
    KeyPair,
    SecretKey,
    add_mask,
    combine_shares,
)
from daskfc.coding.residues.shamir import _PRIME
from daskfc.errors import (
    DecodingError,
    InvalidInput,
    OverflowRefused,
    PartyError,
    PrivacyError,
)
from daskfc.federation import PerClient
from daskfc.federation.party.once import OnceOnly
from daskfc.federation.party.site_rules import SiteRules
from daskfc.secure.sums import RecoveringSum
from daskfc.secure.sums.masked import (
    agree,
    check_maskers,
    mask_key,
    mask_neighbours,
    masked_part,
    masked_total,
    public_key,
)
from daskfc.secure.sums.messages import RevealedShares
from daskfc.secure.sums.recovering import recovered_total
from daskfc.secure.sums.vault import advertise, masked_once, open_vault, own_seed, reveal, seal
from tests.secure.sums.answering import NAMES, Answer, Answering

TAGS = ["a.0", "a.1"]


def pair_keys(names, n_colluding, secrets):
    graph = names, n_colluding
    sent = {name: public_key(*graph, secrets[name], name) for name in names}
    near = mask_neighbours(*graph)
    return {
        name: agree({o: sent[o][name] for o in near[name]}, *graph, secrets[name], name)
        for name in names
    }


class Clients:
    """Five clients that keep pair keys, and vaults for two sums with a threshold of three."""

    def __init__(self, threshold=3, secrets=None):
        self.threshold = threshold
        self.secrets = secrets or {name: SecretKey.from_os() for name in NAMES}
        self.keys = pair_keys(NAMES, 0, self.secrets)
        told = {name: advertise(NAMES, "a", TAGS, self.secrets[name]) for name in NAMES}
        self.public = {name: {o: told[o][name] for o in NAMES} for name in NAMES}
        self.sealed = {
            name: seal(self.public[name], "a", TAGS, threshold, self.secrets[name], name)
            for name in NAMES
        }
        self.vaults = {name: self.vault(name) for name in NAMES}

    def vault(self, name, tags=TAGS, **changed):
        sealed = {other: self.sealed[other][name] for other in NAMES} | changed
        return open_vault(
            self.public[name], sealed, "a", tags, self.threshold, self.secrets[name], name
        )

    def send(self, name, part, ring, tag):
        return masked_once(part, self.vaults[name], ring, tag, self.secrets[name])


@pytest.fixture
def clients():
    return Clients()


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return {name: rng.uniform(-3, 3, (40, 3)) for name in NAMES}


RING = FixedPoint.for_bound(3.0, n_terms=5)


def test_masked_sum_is_exact_to_the_bound(clients, parts):
    sent = {name: masked_part(parts[name], clients.keys[name], RING, "s.0") for name in NAMES}
    total = masked_total(sent, "s.0", NAMES)
    assert total.error_bound < 1e-16
    exact = np.sum([parts[name] for name in NAMES], axis=0, dtype=np.longdouble)
    assert np.abs(total.values - exact).max() <= total.error_bound + 2**-50
    assert total.terms == NAMES


def test_a_part_alone_is_uniform_and_new_in_every_sum(clients):
    zeros = np.zeros((20_000, 1))
    seen = []
    for tag in ("s.0", "s.1"):
        values = masked_part(zeros, clients.keys["client-1"], RING, tag).values
        counts = np.bincount(values.view(np.uint8).ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-5
        seen.append(values)
    assert (seen[0] == seen[1]).sum() == 0
    assert (seen[1] - seen[0] == seen[1][0] - seen[0][0]).sum() == 1


@pytest.mark.parametrize("colluding", [0, 1, 2, 3])
def test_colluders_see_nothing_but_the_sum_of_the_others(clients, colluding):
    """They take away every mask that they know; what is left of one honest part is uniform."""
    zeros, ring = np.zeros((20_000, 1)), RING
    sent = {name: masked_part(zeros, clients.keys[name], ring, "s.0") for name in NAMES}
    pool, honest = NAMES[:colluding], NAMES[colluding:]
    left = {name: sent[name].values.copy() for name in honest}
    for name, other in itertools.product(honest, pool):
        key = clients.keys[other]._keys[name].derive("mask", "s.0", "")
        add_mask(left[name], key, -1 if name < other else 1)
    for name in honest:
        counts = np.bincount(left[name].view(np.uint8).ravel(), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-5
    assert not sum(left.values(), np.zeros_like(left[honest[0]])).any()  # their sum, which is 0


def test_many_clients_mask_with_their_neighbours_only():
    names = tuple(f"client-{i}" for i in range(1, 13))
    keys = pair_keys(names, 0, {name: SecretKey.from_os() for name in names})
    assert {len(one._keys) for one in keys.values()} == {4}
    zeros = np.zeros((20_000, 1))
    sent = {name: masked_part(zeros, keys[name], RING, "s.0") for name in names}
    assert not masked_total(sent, "s.0", names).values.any()
    pool = ("client-1", "client-2", "client-4")  # three of the four neighbours of client-3
    left = sent["client-3"].values.copy()
    for other in pool:
        key = keys[other]._keys["client-3"].derive("mask", "s.0", "")
        add_mask(left, key, -1 if other > "client-3" else 1)
    counts = np.bincount(left.view(np.uint8).ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-5


@given(n=st.integers(2, 14), colluding=st.integers(0, 12), data=st.data())
def test_honest_clients_stay_connected(n, colluding, data):
    """Without any announced colluders, and any three in any case, masks join all others."""
    names = tuple(map(str, range(n)))
    near = mask_neighbours(names, colluding)
    assert all(one in near[other] for one in names for other in near[one])  # in pairs
    assert all(one not in near[one] for one in names)
    gone = data.draw(st.sets(st.sampled_from(names), max_size=max(colluding, 3)))
    honest = [name for name in names if name not in gone]
    reached, todo = set(honest[:1]), honest[:1]
    while todo:
        new = set(near[todo.pop()]) - reached - gone
        reached |= new
        todo += new
    assert reached == set(honest)


@pytest.mark.parametrize("colluding", range(9))
def test_every_client_has_more_neighbours_than_there_are_colluders(colluding):
    near = mask_neighbours(tuple(map(str, range(20))), colluding)
    least = max(4, colluding + 1)
    assert all(least <= len(others) <= least + 1 for others in near.values())


def test_masks_hide_one_array_only(clients):
    keys = clients.keys["client-1"]
    first = masked_part(np.ones(3), keys, RING, "s.0")
    again = masked_part(np.ones(3), keys, RING, "s.0")  # a step that is repeated after a kill
    np.testing.assert_array_equal(first.values, again.values)
    with pytest.raises(PrivacyError, match=r"masks of 's\.0' were used for another content"):
        masked_part(np.zeros(3), keys, RING, "s.0")


def test_missing_replayed_and_unlike_parts_are_errors(clients):
    def sent(tag, sizes=(3,) * 5):
        return {
            name: masked_part(np.ones(size), clients.keys[name], RING, tag)
            for name, size in zip(NAMES, sizes, strict=True)
        }

    good = sent("s.0")
    with pytest.raises(DecodingError, match="wrong or missing: client-2"):
        masked_total({n: m for n, m in good.items() if n != "client-2"}, "s.0", NAMES)
    with pytest.raises(DecodingError, match="parts of client-4 belong to another sum"):
        masked_total(sent("s.1") | {"client-4": good["client-4"]}, "s.1", NAMES)
    with pytest.raises(InvalidInput, match="must have one shape"):
        masked_total(sent("s.2", (3, 3, 4, 3, 3)), "s.2", NAMES)
    coarse = replace(good["client-4"], fraction_bits=3)
    with pytest.raises(InvalidInput, match="as many bits"):
        masked_total(good | {"client-4": coarse}, "s.0", NAMES)
    with pytest.raises(OverflowRefused, match="some of 3 numbers"):
        masked_part(np.array([0.0, 4.5, 0.0]), clients.keys["client-1"], RING, "s.3")
    with pytest.raises(InvalidInput, match="one or two axes; got 3"):
        masked_part(np.zeros((1, 1, 1)), clients.keys["client-1"], RING, "s.4")


def test_parties_of_all_versions_derive_the_same():
    """Labels, their order, nonces: who derives another key spoils the sum of all."""
    secrets = {name: SecretKey(hashlib.sha256(name.encode()).digest()) for name in NAMES}
    clients, tag, present = Clients(secrets=secrets), TAGS[1], NAMES[1:]
    sent = [masked_part(np.ones((2, 1)), clients.keys[name], RING, "s.0") for name in NAMES]
    sent += [message for name in NAMES for message in clients.sealed[name].values()]
    sent += [clients.send(name, np.ones((2, 1)), RING, tag) for name in NAMES]
    sent += [reveal(clients.vaults[name], tag, present) for name in present]
    digest = hashlib.sha256()
    for message in sent:
        for content in vars(message).values():
            if isinstance(content, np.ndarray):
                digest.update(repr((content.shape, content.dtype.str)).encode())
                digest.update(content.tobytes())
    assert digest.hexdigest() == (
        "28b2444964ceb959a5f1d7d8aeb7e0a790ad98d3efeabea1d530d6f95ab4aca4"
    )


def test_too_few_honest_maskers():
    with pytest.raises(PrivacyError, match="2 clients, 1 of which may collude"):
        check_maskers(2, 1, False)
    check_maskers(2, 1, True)
    check_maskers(3, 1, False)


# -- with recovery --------------------------------------------------------------------------------


def test_the_masks_of_a_vault_hide_one_array_of_each_sum(clients):
    first = clients.send("client-1", np.ones(3), RING, TAGS[0])
    again = clients.send("client-1", np.ones(3), RING, TAGS[0])
    np.testing.assert_array_equal(first.values, again.values)
    clients.send("client-1", np.zeros(3), RING, TAGS[1])  # the other sum has masks of its own
    with pytest.raises(PrivacyError, match=r"masks of 'a\.0' were used for another content"):
        clients.send("client-1", np.zeros(3), RING, TAGS[0])


@pytest.mark.parametrize("n_absent", [0, 1, 2])
def test_a_sum_without_those_that_left(clients, parts, n_absent):
    tag, present = TAGS[1], NAMES[n_absent:]
    sent = {name: clients.send(name, parts[name], RING, tag) for name in present}
    for answering in itertools.combinations(present, 3):
        shares = {name: reveal(clients.vaults[name], tag, present) for name in answering}
        total = recovered_total(sent, shares, tag, NAMES, 3)
        exact = np.sum([parts[name] for name in present], axis=0)
        np.testing.assert_allclose(total.values, exact, rtol=0, atol=1e-14)
        assert total.terms == present


def test_a_part_that_comes_late_stays_hidden(clients):
    """The server has the pair key of client-1, which it took for gone; then its part arrives."""
    zeros, tag = np.zeros((20_000, 1)), TAGS[0]
    late = clients.send("client-1", zeros, RING, tag)
    for name in NAMES[1:]:
        clients.send(name, zeros, RING, tag)
    shares = {n: reveal(clients.vaults[n], tag, NAMES[1:]) for n in NAMES[1:4]}
    numbered = {NAMES.index(n): m.pairs[0].tobytes() for n, m in shares.items()}
    left = late.values.copy()
    pair = KeyPair(SecretKey(combine_shares(numbered, 3)))
    for other in NAMES[1:]:
        key = pair.shared(clients.public["client-2"][other].keys[1].tobytes(), "masks")
        key = mask_key(key, tag, b"")
        add_mask(left, key, -1 if other > "client-1" else 1)
    assert stats.chisquare(np.bincount(left.view(np.uint8).ravel(), minlength=256)).pvalue > 1e-5
    add_mask(left, own_seed(clients.secrets["client-1"], tag), -1)
    assert not left.any()  # only its own mask was left


def test_both_shares_of_a_client_are_never_revealed(clients):
    vault, tag = clients.vaults["client-2"], TAGS[0]
    reveal(vault, tag, NAMES)
    reveal(vault, tag, NAMES[::-1])  # the same set again
    with pytest.raises(PrivacyError, match="used for another content before"):
        reveal(vault, tag, NAMES[1:])
    with pytest.raises(PrivacyError, match="at least 3 of its clients; got 2"):
        reveal(vault, TAGS[1], NAMES[:2])
    with pytest.raises(PrivacyError, match="Nothing was revealed"):
        reveal(vault, TAGS[1], (*NAMES[:3], "stranger"))
    with pytest.raises(PrivacyError, match="at least 3 of its clients; got 1"):
        reveal(vault, TAGS[1], ("client-1",) * 3)


def test_every_sum_has_keys_of_its_own(clients):
    """What the server learns of one sum, all own seeds or pair keys, opens no other."""
    learned = []
    for tag, present in zip(TAGS, (NAMES[1:], NAMES[2:]), strict=True):
        answers = {NAMES.index(n): reveal(clients.vaults[n], tag, present) for n in NAMES[2:]}
        for kind in ("own", "pairs"):
            for row in range(len(getattr(answers[2], kind))):
                shares = {i: getattr(m, kind)[row].tobytes() for i, m in answers.items()}
                learned.append(combine_shares(shares, 3))
    assert len(learned) == 2 * len(NAMES)
    assert len(set(learned)) == len(learned)


def test_every_secret_is_shared_by_a_polynomial_of_its_own(clients):
    """Of two polynomials with the same coefficients, one share tells the secrets' difference."""
    for dealer in NAMES:
        held = [clients.vaults[name]._shares[dealer] for name in NAMES]
        cuts = range(0, 2 * len(TAGS) * SHARE_BYTES, SHARE_BYTES)
        secrets = [
            [int.from_bytes(one[cut : cut + SHARE_BYTES], "little") for one in held] for cut in cuts
        ]
        for one, other in itertools.combinations(secrets, 2):
            differences = {(a - b) % _PRIME for a, b in zip(one, other, strict=True)}
            assert len(differences) == len(NAMES)


def test_every_message_of_shares_is_sealed_by_a_key_of_its_own(clients):
    """Two sealed by the same key would tell the exclusive or of their contents."""
    pads = set()
    for sender, receiver in itertools.permutations(NAMES, 2):
        content = np.frombuffer(clients.vaults[receiver]._shares[sender], dtype=np.uint8)
        pads.add((clients.sealed[sender][receiver].sealed[: content.size] ^ content).tobytes())
    assert len(pads) == len(NAMES) * (len(NAMES) - 1)


def test_no_two_sets_of_holders_have_points_of_one_polynomial(clients):
    """F9: client m, number 1 of one set and 2 of another, had two points of a line."""
    name, m, *_ = NAMES
    sets = [NAMES[:3], (NAMES[0], *NAMES[1:4])]
    seeds = []
    for holders in sets:
        public = {other: clients.public[name][other] for other in holders}
        sealed = seal(public, "a", TAGS, 2, clients.secrets[name], name)
        seeds.append(sealed[name].sealed.tobytes())  # not sealed for itself
    first, second = (int.from_bytes(one[:SHARE_BYTES], "little") for one in seeds)
    # the dealer's own point is number 0 of both: of one polynomial it would be the same
    assert first != second
    wrong, other = ({one: clients.public[m][one] for one in holders} for holders in sets[::-1])
    sealed = {
        one: seal(other if one == name else wrong, "a", TAGS, 2, clients.secrets[one], one)[m]
        for one in wrong
    }
    with pytest.raises(DecodingError, match=f"from {name!r} cannot be opened"):
        open_vault(wrong, sealed, "a", TAGS, 2, clients.secrets[m], m)


def test_who_deals_no_shares_is_no_member_of_the_next_dealing():
    """All mask for all: a client that leaves before it deals has the others deal anew."""

    class Leaving(Answering):
        def exchange(self, step, *arguments, clients, receivers):
            sent = super().exchange(step, *arguments, clients=clients, receivers=receivers)
            if step is not seal or NAMES[0] not in clients:
                return sent
            gone = {one: Answer(failed=True) for one in receivers}
            return PerClient({r: PerClient({**by, NAMES[0]: gone[r]}) for r, by in sent.items()})

        def on_client(self, client, step, sent):
            return sent

    federation = Leaving()
    parts = PerClient(dict.fromkeys(NAMES, Answer()))
    sums = RecoveringSum(federation)
    sums.sum(parts, max_abs=1.0)
    (first, *_), (sealed_first, *_), (second, *_), (sealed_second, *_) = [
        (tuple(arguments[0]), arguments) for _, arguments in federation.exchanged
    ]
    assert first == sealed_first == NAMES
    assert second == sealed_second == sums._batch.members == NAMES[1:]
    batches = [a[1:3] for step, a in federation.exchanged if step is advertise]
    assert not set(batches[0][1]) & set(batches[1][1])


def test_keys_are_dealt_once(clients, tmp_path):
    site = SiteRules()
    once = OnceOnly()
    site.once = lambda: once
    name = NAMES[0]
    seal(clients.public[name], "a", TAGS, 3, clients.secrets[name], name, site)
    seal(clients.public[name], "a", TAGS, 3, clients.secrets[name], name, site)  # after a kill
    with pytest.raises(PrivacyError, match=r"shares of 'of the keys of a\.0' were used"):
        seal(clients.public[name], "a", TAGS, 2, clients.secrets[name], name, site)


def test_too_few_shares_and_shares_of_another_sum(clients, parts):
    sent = {name: clients.send(name, parts[name], RING, TAGS[0]) for name in NAMES}
    shares = {name: reveal(clients.vaults[name], TAGS[0], NAMES) for name in NAMES[:2]}
    with pytest.raises(DecodingError, match="needs 3 of its shares; got 2"):
        recovered_total(sent, shares, TAGS[0], NAMES, 3)
    other = reveal(clients.vaults["client-3"], TAGS[1], NAMES)
    with pytest.raises(DecodingError, match="shares of client-3 belong to another sum"):
        recovered_total(sent, shares | {"client-3": other}, TAGS[0], NAMES, 3)
    wrong = reveal(clients.vaults["client-3"], TAGS[0], NAMES)
    forged = RevealedShares(TAGS[0], wrong.own ^ np.uint8(1), wrong.pairs)
    four = shares | {n: reveal(clients.vaults[n], TAGS[0], NAMES) for n in NAMES[3:]}
    with pytest.raises(DecodingError, match="contradict each other"):
        recovered_total(sent, four | {"client-3": forged}, TAGS[0], NAMES, 3)


def test_key_shares_that_were_changed_or_swapped(clients):
    message = clients.sealed["client-4"]["client-1"]
    bent = type(message)(message.sealed ^ np.uint8(1))
    with pytest.raises(DecodingError, match="from 'client-4' cannot be opened"):
        clients.vault("client-1", **{"client-4": bent})
    with pytest.raises(DecodingError, match="cannot be opened"):
        clients.vault("client-1", **{"client-4": clients.sealed["client-4"]["client-2"]})
    with pytest.raises(DecodingError, match=f"have {4 * SHARE_BYTES} bytes; expected"):
        clients.vault("client-1", tags=TAGS[:1])


def test_a_killed_client_sends_the_same_again(clients, parts):
    name = "client-3"
    again = seal(clients.public[name], "a", TAGS, 3, clients.secrets[name], name)
    for member, message in again.items():
        np.testing.assert_array_equal(message.sealed, clients.sealed[name][member].sealed)
    first = clients.send(name, parts[name], RING, TAGS[0])
    clients.vaults[name] = clients.vault(name)
    second = clients.send(name, parts[name], RING, TAGS[0])
    np.testing.assert_array_equal(first.values, second.values)


def test_keys_are_exchanged_for_eight_sums_and_no_tag_comes_twice():
    federation = Answering()
    parts = PerClient(dict.fromkeys(NAMES, Answer()))
    sums = RecoveringSum(federation), RecoveringSum(federation)
    counts = []
    for _ in range(17):
        sums[0].sum(parts, max_abs=1.0)
        counts.append(sum(step is advertise for step, _ in federation.exchanged))
    assert counts == 8 * [1] + 8 * [2] + [3]
    sums[1].sum(parts, max_abs=1.0)
    tags = [arguments[3] for step, arguments in federation.asked if step is masked_once]
    assert len(set(tags)) == len(tags) == 18
    batches = [arguments[1:3] for step, arguments in federation.exchanged if step is advertise]
    assert len({batch for batch, _ in batches}) == len(batches) == 4
    assert set(tags) <= {tag for _, given in batches for tag in given}


def test_the_others_are_waited_for_once_a_threshold_has_answered():
    """Of messages among clients, once a threshold of clients can have those of one another."""
    federation = Answering()
    parts = PerClient(dict.fromkeys(NAMES, Answer()))
    RecoveringSum(federation, threshold=3, patience_s=2.5).sum(parts, max_abs=1.0)
    keys = [(25, 9, None, True), (25, None, 2.5, False)]
    messages = [(5, 3, None, True), (5, None, 2.5, False)]
    assert federation.waited == 2 * keys + 2 * messages


def test_who_is_late_or_gone_is_left_out():
    federation = Answering()
    handles = {name: Answer() for name in NAMES[:3]}
    handles |= {"client-4": Answer(failed=True), "client-5": Answer(failed=None)}
    there = RecoveringSum(federation, threshold=3)._in_time(handles, 3)
    assert there == set(NAMES[:3])
    assert federation.cancelled == [handles["client-4"], handles["client-5"]]


def test_what_a_client_refuses_is_an_error_of_the_sum():
    federation = Answering(PartyError("client-1", "masked_once", "InvalidInput"))
    with pytest.raises(PartyError, match="client-1"):
        RecoveringSum(federation)._in_time({"client-1": Answer()}, 1)
