"""What runs after one another would tell by their difference, with TLS and on real processes."""

import itertools
import signal

import numpy as np
import pytest

from daskfc.errors import PartyError, PolicyRefused
from daskfc.federation import PerClient
from daskfc.federation.driver.agreement import wrapped_id_key
from daskfc.federation.identity.pseudonyms import Pseudonyms
from daskfc.federation.methods.samples import own_labels
from daskfc.secure.profiles.steps import own_groups
from daskfc.secure.sums import masked, vault
from daskfc.site import RunRequest
from daskfc.stores import append_samples
from tests.deploy.consortium import Consortium

pytestmark = pytest.mark.slow

CLIENTS = ("a", "b", "c")
ROWS = {name: np.random.default_rng(i).normal(size=(6, 2)) for i, name in enumerate(CLIENTS)}
# A method of a package that the sites' policies name: its runs may compose daskfc's steps.
OTHER = RunRequest("other", package="tests", masked=True)
LABEL = "5f0c2a91d3b7"
_runs = itertools.count()


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    policy = "maskers: {at_least: 2, threshold: 2/3, differ_by: 2}"
    made = Consortium(tmp_path_factory.mktemp("over-runs"), ROWS, policy)
    yield made
    made.site.end()


@pytest.fixture(autouse=True)
def unheard(recorder):
    """What is tried here is what the lists must not have."""
    recorder.listens = False
    yield
    recorder.listens = True


def joined(consortium, who="alice"):
    return consortium.joined(who, clients=CLIENTS)


def begin(federation, request=OTHER):
    federation.start_run(f"r-{next(_runs)}", random_state=0, deadline_s=60, request=request)


def refused(rule, party="[abc]"):
    return pytest.raises(PolicyRefused, match=rf"party '{party}' refuses this by its rule '{rule}'")


# -- pseudonyms -----------------------------------------------------------------------------------


def names_of(federation, n):
    labels = np.zeros(n, dtype=np.int64)
    return federation.publish(own_labels, labels, party="a").sample_ids().tolist()


def names_under(consortium, label, n, who="alice"):
    """Return the pseudonyms of a's samples in a run of a session of its own."""
    with joined(consortium, who) as federation:
        federation.pseudonyms = Pseudonyms(label)
        begin(federation)
        return names_of(federation, n)


def test_nobody_is_followed_by_a_label_that_is_used_again(consortium):
    """A label that was used again gave everybody the pseudonym of the run before."""
    first = names_under(consortium, LABEL, 6)
    assert names_under(consortium, LABEL, 6) == first  # as a run that is resumed, or predicts
    with refused("pseudonyms"):
        names_under(consortium, LABEL, 6, "bob")
    with joined(consortium) as federation:
        federation.pseudonyms = Pseudonyms(LABEL)
        begin(federation)
        append_samples(consortium.urls["a"], np.ones((1, 2)), ["new"])
        with pytest.raises(PartyError, match="was written again since the federation opened"):
            names_of(federation, 7)
        federation._contract = None  # by which it says what data it means
        with refused("start"):
            begin(federation)
    with refused("pseudonyms"):
        names_under(consortium, LABEL, 7)
    second = names_under(consortium, "a3b1c2d4e5f6", 7)
    assert not {name.partition("-")[2] for name in first} & {
        name.partition("-")[2] for name in second
    }


def test_a_run_wraps_and_takes_back_no_pseudonyms_but_its_own(consortium):
    """One key under two labels, or groups under an old label, would tell the same."""
    with joined(consortium) as federation:
        own = federation.pseudonyms.label
        for label in (own, "another"):
            begin(federation, RunRequest("pseudonyms"))
            sent = federation.publish(wrapped_id_key, None, None, label, party="a", wait=False)
            if label == own:
                federation.wait([sent])
        with refused("steps"):
            federation.wait([sent])
        begin(federation, RunRequest("profiles", masked=True))
        groups = PerClient({"a": np.zeros(6, dtype=np.int32)})
        ids = PerClient({"a": "a digest of pseudonyms that are guessed"})
        kept = federation.on_clients(own_groups, groups, ids, Pseudonyms(LABEL), clients=["a"])
        with refused("steps"):
            federation.wait(list(kept.values()))


# -- clients of sums ------------------------------------------------------------------------------


def agreed(federation, members):
    near = PerClient(masked.mask_neighbours(members, 0))
    public = federation.exchange(masked.public_key, members, 0, clients=members, receivers=near)
    return federation.on_clients(masked.agree, public, members, 0, clients=members)


def test_sums_with_and_without_one_client_are_not_both_made(consortium):
    """Their difference is the array of that client."""
    for _ in range(2):
        with joined(consortium) as federation:
            begin(federation)
            federation.wait(list(agreed(federation, CLIENTS).values()))
    process = consortium.processes["a"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    consortium.party("a")  # which remembers
    for two in (("a", "b"), ("a", "c")):
        for who in ("alice", "bob"):
            with joined(consortium, who) as federation:
                begin(federation)
                with refused("maskers.differ_by", "a"):
                    federation.wait([agreed(federation, two)["a"]])


def test_sums_that_survive_who_leaves_are_not_opened_with_and_without_one_client(consortium):
    """A submitter who says of one sum that a client left, and of the next that it stayed."""
    tags = ["t.0", "t.1"]
    to = {"clients": CLIENTS, "receivers": CLIENTS}
    with joined(consortium) as federation:
        begin(federation)
        public = federation.exchange(vault.advertise, CLIENTS, "t", tags, **to)
        sealed = federation.exchange(vault.seal, public, "t", tags, 2, **to)
        vaults = federation.on_clients(vault.open_vault, public, sealed, "t", tags, 2)
        federation.wait(list(federation.ask(vault.reveal, vaults, "t.0", CLIENTS).values()))
        two = ("b", "c")
        sent = federation.ask(vault.reveal, vaults, "t.1", two, clients=two)
        with refused("maskers.differ_by"):
            federation.wait(list(sent.values()))
