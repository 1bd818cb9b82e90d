"""What a site's rules say in secure sums: how many mask, and that nothing is revealed twice."""

import numpy as np
import pytest

from daskfc.coding import FixedPoint
from daskfc.errors import PolicyRefused, PrivacyError
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import FREE, PartyRules
from daskfc.federation.steps.rules import Announced, at_most_honest, broken_rule
from daskfc.privacy import with_noise_share
from daskfc.secure.sums import masked, vault
from daskfc.secure.sums.plain import plain_part
from daskfc.site import Policy
from tests.secure.sums.test_protocol import NAMES, TAGS, Clients


@pytest.fixture
def rules(tmp_path):
    """Of a party whose site gives no policy off the loopback."""
    run = RunSettings("r", 0, start="s", builds=dict.fromkeys(NAMES, ""))
    return PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))


def refused(rule):
    return pytest.raises(PolicyRefused, match=rf"party 'a' refuses this by its rule '{rule}'")


def test_a_second_vault_reveals_no_more_than_the_first(rules):
    """Threat 11: both shares of one client, from two vaults of one batch."""
    clients = Clients(threshold=4)
    one = rules

    def opened(site):
        name = NAMES[0]
        return vault.open_vault(
            clients.public[name],
            {other: clients.sealed[other][name] for other in NAMES},
            "a",
            TAGS,
            4,
            clients.secrets[name],
            name,
            site,
        )

    here, gone = NAMES, NAMES[:-1]
    opened(one).reveal(TAGS[0], here)
    with pytest.raises(PrivacyError, match="the shares of"):
        opened(one).reveal(TAGS[0], gone)
    # Without a party's memory the attack goes through, which shows that the rule is what stops it.
    opened(FREE).reveal(TAGS[0], here)
    own, pairs = opened(FREE).reveal(TAGS[0], gone)
    assert len(own) == len(gone)
    assert len(pairs) == 1


def open_first(clients, public, sealed, threshold, site):
    secret = clients.secrets[NAMES[0]]
    return vault.open_vault(public, sealed, "a", TAGS, threshold, secret, NAMES[0], site)


@pytest.mark.parametrize("dealers", [NAMES[:1], NAMES[:4], NAMES[1:]])
def test_a_vault_opens_with_the_shares_of_all(rules, dealers):
    """With its own alone a client added no pair masks, and the others opened its own mask."""
    clients = Clients(threshold=4)
    public = clients.public[NAMES[0]]
    sealed = {other: clients.sealed[other][NAMES[0]] for other in NAMES}
    few = {other: sealed[other] for other in dealers}
    for site in (rules, FREE):
        with pytest.raises(PrivacyError, match=f"shares of {len(dealers)} clients and keys of 5"):
            open_first(clients, public, few, 4, site)
    others = [{other: of[other] for other in NAMES[1:]} for of in (public, sealed)]
    with pytest.raises(PrivacyError, match="got shares of 4 clients and keys of 4"):
        open_first(clients, *others, 4, FREE)
    assert repr(open_first(clients, public, sealed, 4, rules)) == "Vault of client-1 for 2 sums"


def test_a_vault_opens_for_no_more_clients_than_dealt(rules):
    """A threshold of 10,000 counted as so many among whom a share of noise is hidden."""
    clients = Clients(threshold=4)
    name = NAMES[0]
    alone = {name: clients.public[name][name]}
    for site in (rules, FREE):
        with pytest.raises(PrivacyError, match="for a threshold of 10000"):
            open_first(clients, alone, {name: clients.sealed[name][name]}, 10_000, site)


def test_a_vault_opens_for_the_clients_for_whom_its_own_shares_were_dealt(rules):
    """These are sealed by no key, which would tell."""
    clients = Clients(threshold=4)
    name = NAMES[0]
    vault.seal(clients.public[name], "a", TAGS, 5, clients.secrets[name], name, rules)
    sealed = {other: clients.sealed[other][name] for other in NAMES}
    with pytest.raises(PrivacyError, match=r"the shares of 'of the keys of a\.0' were used"):
        open_first(clients, clients.public[name], sealed, 4, rules)


def test_a_vault_is_sealed_for_enough_clients(rules):
    clients = Clients(threshold=3)
    name = NAMES[0]
    with refused("maskers.threshold"):
        vault.seal(clients.public[name], "a", TAGS, 1, clients.secrets[name], name, rules)


def test_vaults_are_of_clients_that_were_announced(tmp_path):
    """Others were prepared to nothing, and the sum was the announced client's own array."""
    run = RunSettings("r", 0, start="s", builds=dict.fromkeys(NAMES[:3], ""))
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
    clients, name = Clients(threshold=4), NAMES[0]
    public, sealed = clients.public[name], {one: clients.sealed[one][name] for one in NAMES}
    with refused("steps"):
        vault.seal(public, "a", TAGS, 4, clients.secrets[name], name, site)
    with refused("steps"):
        open_first(clients, public, sealed, 4, site)
    for receivers, broken in ((NAMES[:3], False), (NAMES, True)):
        said = broken_rule(vault.advertise, {"receivers": receivers}, Announced({}, NAMES[:3]))
        assert (said is not None) == broken


def test_keys_are_agreed_on_with_enough_clients(rules):
    clients = Clients()
    name, own = NAMES[0], clients.secrets[NAMES[0]]

    def agree(members):
        sent = {o: masked.public_key(members, 0, clients.secrets[o], o)[name] for o in members[1:]}
        return masked.agree(sent, members, 0, own, name, rules)

    agree(NAMES[:3])
    with refused("maskers.at_least"):
        agree(NAMES[:2])


class Counted(PartyRules):
    """Rules that note whose arrays are added up, where they ask."""

    def __init__(self, rules):
        self.__dict__.update(rules.__dict__)
        self.members = []

    def check_members(self, members, may_leave=0):
        self.members.append(tuple(members))


def test_a_client_asks_with_whom_it_is_added_up(rules):
    """Of sums that survive who leaves, these are known when their masks are opened."""
    clients, one = Clients(), Counted(rules)
    name, *others = NAMES
    sent = {o: masked.public_key(NAMES, 0, clients.secrets[o], o)[name] for o in others}
    masked.agree(sent, NAMES, 0, clients.secrets[name], name, one)
    vault.reveal(clients.vaults[name], TAGS[0], NAMES[:4], one)
    assert one.members == [tuple(NAMES), tuple(NAMES[:4])]


def test_keys_that_are_agreed_on_again_mask_no_second_array(rules):
    """Threat 11: `agree` twice under one tag gave a client's array less another one of its own."""
    clients = Clients()
    sent = {one: masked.public_key(NAMES, 0, clients.secrets[one], one) for one in NAMES}
    name, *others = NAMES
    told = {other: sent[other][name] for other in others}
    ring = FixedPoint.for_bound(10.0, n_terms=5)

    def part(value, site):
        keys = masked.agree(told, NAMES, 0, clients.secrets[name], name, site)
        return masked.masked_part(np.full((2, 2), value), keys, ring, "t").values

    part(1.0, rules)
    with pytest.raises(PrivacyError, match="the masks of 't'"):
        part(2.0, rules)
    difference = part(2.0, FREE) - part(1.0, FREE)  # the attack, where nothing remembers
    np.testing.assert_allclose(ring.decode(difference), np.ones((2, 2)), atol=1e-6)


@pytest.mark.parametrize("n_colluding", [0, 1])
def test_a_share_of_noise_goes_where_all_shares_go(n_colluding, tmp_path):
    """Less noise than was announced: sums of some clients, of who stays, and of one alone."""
    run = RunSettings("r", 0, start="s", request={"parameters": {"n_colluding": n_colluding}})
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
    clients = Clients(threshold=3)
    name, own = NAMES[0], clients.secrets[NAMES[0]]
    ring = FixedPoint.for_bound(100.0, n_terms=5)

    def noised(n_shares):
        return with_noise_share(np.zeros((2, 2)), sigma=6.0, sensitivity=2.0, n_shares=n_shares)

    def masked_among(members, part):
        sent = {o: masked.public_key(members, 0, clients.secrets[o], o)[name] for o in members[1:]}
        keys = masked.agree(sent, members, 0, own, name)
        return masked.masked_part(part, keys, ring, "t", site=site)

    sealed = {other: clients.sealed[other][name] for other in NAMES}
    kept = vault.open_vault(clients.public[name], sealed, "a", TAGS, 3, own, name)
    ways = {
        5: lambda part: masked_among(NAMES, part),
        4: lambda part: masked_among(NAMES[:4], part),
        3: lambda part: vault.masked_once(part, kept, ring, TAGS[0], own, site=site),
        1: plain_part,
    }
    for n_members, send in ways.items():
        n_hidden = max(1, n_members - n_colluding)  # colluders know theirs
        with pytest.raises(PrivacyError, match=f"here it may be among {n_hidden}"):
            send(noised(n_hidden + 1))
        assert send(noised(n_hidden)).noise_multiplier == 3.0


@pytest.mark.parametrize("told", [-5, "2", [1], 1.0, True])
def test_no_announcement_makes_less_noise(told, tmp_path):
    """As many shares as a negative number of colluding clients would let pass."""
    run = RunSettings("r", 0, start="s", request={"parameters": {"n_colluding": told}})
    site = PartyRules(PartyOptions("a", "client", str(tmp_path), run=run, policy=Policy()))
    with pytest.raises(PrivacyError, match="must be a whole number of at least 0"):
        at_most_honest.holds(2, site._announced)
    clients = Clients(threshold=3)
    part = with_noise_share(np.zeros((2, 2)), sigma=6.0, sensitivity=2.0, n_shares=8)
    ring = FixedPoint.for_bound(100.0, n_terms=5)
    with pytest.raises(PrivacyError, match="must be a whole number of at least 0"):
        masked.masked_part(part, clients.keys[NAMES[0]], ring, "t", site=site)
