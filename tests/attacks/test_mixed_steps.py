"""Approved steps whose inputs are of different rounds, clusterings, keys or preparations.

A driver of daskfc gives a step what belongs together, and a submitter may not.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from daskfc.clustering import make_clusterer
from daskfc.errors import PolicyRefused, PrivacyError
from daskfc.federation import PerClient
from daskfc.federation.driver.agreement import KeyOffer
from daskfc.federation.messages.texts import texts_in
from daskfc.federation.messages.wire_format import Reader, encode
from daskfc.federation.methods.sample_keys import digest_key
from daskfc.federation.party.options import PartyOptions, RunSettings
from daskfc.federation.party.site_rules import PartyRules
from daskfc.federation.steps.handles import Slot
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.federation.steps.uses import identity, uses_of
from daskfc.protocols.fk_kmeans.messages import Eigenpairs
from daskfc.protocols.fk_kmeans.party import iterate
from daskfc.protocols.kcagc.messages import Intersections
from daskfc.protocols.kcagc.party import nodes_of
from daskfc.protocols.omnifc.clusters import cluster
from daskfc.secure.kmeans import KMeansPlan, coreset
from daskfc.secure.kmeans import on_sums as sums
from daskfc.secure.prepare import steps, words
from daskfc.secure.prepare.declared import Declared, noisy_scales
from daskfc.secure.prepare.messages import CommonMagnitudes, FittedMeans, HashKey, NarrowedRanges
from daskfc.secure.prepare.quantiles import histograms
from daskfc.secure.profiles.messages import WithheldCells
from daskfc.secure.profiles.steps import cluster_sums
from daskfc.secure.sums import PlainSum, Total
from daskfc.site import BETWEEN_SITES, Policy
from daskfc.site.approved import Protocol
from daskfc.stores import ClientStore, write_store
from tests.attacks.conftest import ROWS
from tests.secure.announced import Announced as RunOf
from tests.secure.kmeans.here import Here

BOUND = 2.0**18  # of all sums of squares of ROWS


def test_what_a_party_sends_is_not_made_by_the_submitter():
    """Ranges of its own told how many samples have which value; keys of its own, whose ids."""
    made = {
        histograms: ("preparation", "ranges", NarrowedRanges(*np.zeros((2, 2, 3), np.uint64), 0)),
        cluster_sums: ("profiles", "withheld", WithheldCells(np.zeros((2, 2), np.uint8))),
        nodes_of: ("kCAGC", "nodes", Intersections(np.arange(3), np.ones(3))),
        digest_key: ("OmniFC", "offer", {"a": KeyOffer(np.zeros(32, np.uint8))}),
        iterate: (
            "FederatedKernelKMeans",
            "past",
            [Slot(0), Eigenpairs(np.zeros(1), np.zeros((1, 1)), 0.0, 1, 0)],
        ),
    }
    for step, (method, argument, value) in made.items():
        asked = {"made_by": [identity(Eigenpairs)], "at": "client", "read": None}
        for given, message in ((value, True), ([] if isinstance(value, list) else None, False)):
            (use,) = uses_of(step, {argument: Reader().decode(encode(given))}, **asked)
            said = Protocol.of(method).refusal(use, {"noised": False, "noise": None})
            assert (said is not None and "message of no party" in said.sentence) == message


def rules_of(folder, request, **policy):
    """Return the rules of a site in a run of some request."""
    run = RunSettings("r", 0, start="s", builds=dict.fromkeys("abc", ""), request=request)
    given = PartyOptions("a", "client", str(folder), policy=Policy(**policy), run=run, store="/own")
    return PartyRules(given)


class Search:
    """A k-means on the sums of three sites, as a submitter composes its steps."""

    def __init__(self, rules=None, k=4):
        self.federation, self.k = Here(list(ROWS), BETWEEN_SITES), k
        self.federation.rules = rules or {}
        self.sums, self.own = PlainSum(self.federation), PerClient(ROWS)
        on_server, plan = self.federation.on_server, KMeansPlan(2, 0)
        total = self.summed(sums.first_moments, self.own, BOUND)
        self.begun = on_server(sums.begun, total, plan, BOUND)
        told = self.federation.tell(sums.next_proposal, self.begun)
        self.moments = self.summed(sums.all_moments, self.own, told, BOUND)
        self.groups = self.federation.on_clients(sums.first_groups, self.own)
        self.state = self.started(0)
        self.bound = self.state.bound

    def summed(self, step, *args):
        return self.sums.sum(self.federation.inline(step, *args))

    def started(self, seed):
        plan = KMeansPlan(self.k, seed, n_init=1)
        return self.federation.on_server(sums.centred, self.begun, self.moments, plan, BOUND)

    def near(self, state):
        told = self.federation.tell(sums.next_proposal, state)
        return told, self.federation.on_clients(sums.own_nearest, self.own, told)

    def counted(self, state):
        told, near = self.near(state)
        total = self.summed(sums.own_counts, self.groups, near, told)
        return told, near, total, self.federation.tell(sums.counted, total)

    def round(self):
        told, near, total, counts = self.counted(self.state)
        self.groups = self.federation.on_clients(sums.next_groups, self.groups, near, counts)
        given = self.own, self.groups, told, counts, self.bound
        found = self.summed(sums.fresh_moments, *given)
        plan = KMeansPlan(self.k, 0, n_init=1)
        self.state = self.federation.on_server(sums.advanced, self.state, total, found, plan)

    def last(self, near, told, counts):
        given = self.own, self.groups, near, told, counts, self.bound
        total = self.summed(sums.last_moments, *given)
        return self.federation.on_server(sums.last_centers, self.state, total).centers


def test_rows_near_other_centres_than_were_counted_are_not_summed():
    """Parts of five rows by one round's centres were single rows by another's: rows were told."""
    search = Search()
    search.round()
    told, near, _, counts = search.counted(search.state)
    for seed in range(6):
        _, others = search.near(search.started(seed))
        with pytest.raises(PrivacyError, match="got those of others"):
            search.last(others, told, counts)
        with pytest.raises(PrivacyError, match="got those of others"):
            search.federation.on_clients(sums.next_groups, search.groups, others, counts)
    rows, found = np.concatenate(list(ROWS.values())), search.last(near, told, counts)
    assert not (np.abs(rows[:, None] - found).max(axis=2) < 1e-6).any()
    step = search.federation.on_clients(sums.next_groups, search.groups, near, counts)
    forged = Total(np.full((3, search.k), 2.0**40), 0.0, tuple(ROWS))  # another sum, as counts
    counts = search.federation.tell(sums.counted, forged)
    for groups in (search.groups, step):
        with pytest.raises(PrivacyError, match="got those of others"):
            search.federation.on_clients(sums.next_groups, groups, near, counts)


def test_a_start_has_one_k_means_and_ends_with_the_sums_of_its_clusters(tmp_path):
    request = {"method": "FederatedKMeans", "parameters": {"n_clusters": 4}}
    rules = {name: rules_of(tmp_path / name, request) for name in ROWS}
    search = Search(rules)
    first = search.groups
    search.round()
    split, search.groups = search.groups, first
    with pytest.raises(PrivacyError, match=r"a start has one .*, and this is another"):
        search.counted(search.started(5))  # of the first group, by other centres
    search.groups = split
    told, near, _, counts = search.counted(search.state)
    search.last(near, told, counts)
    search.groups = search.federation.on_clients(sums.next_groups, split, near, counts)
    given = search.own, search.groups, told, counts, search.bound
    with pytest.raises(PrivacyError, match=r"a start has one .*, and this is another"):
        search.federation.on_clients(sums.fresh_moments, *given)
    with pytest.raises(PrivacyError, match=r"a start has one .*, and this is another"):
        search.counted(search.state)


def test_a_start_sums_over_one_set_of_clients_unless_its_method_says_otherwise(tmp_path):
    """Counts over all clients, and sums over some, whose parts had fewer rows."""
    one = rules_of(tmp_path, {"method": "FederatedKMeans", "parameters": {}})
    one.check_one_set("abc")
    one.check_one_set("cba")
    with pytest.raises(PrivacyError, match=r"a start has one .*, and this is another"):
        one.check_one_set("ab")
    parameters = {"participation": 0.6}
    some = rules_of(tmp_path / "b", {"method": "FedSC", "parameters": parameters})
    some.check_one_set("abc")
    some.check_one_set("ab")


def test_a_start_labels_once_with_no_more_clusters_than_announced(tmp_path):
    """The server clustered by any number, and by any radius, as often as it was asked."""
    store = SimpleNamespace(digest="of the rows")
    rules = rules_of(tmp_path, {"method": "OmniFC", "parameters": {"n_clusters": 3}})
    with pytest.raises(PolicyRefused, match="by its rule 'steps'"):
        rules.check_labels(store, np.arange(4), "own")
    for _ in range(2):
        rules.check_labels(store, np.array([0, 1, 2, 0]), "own")
    rules.check_labels(SimpleNamespace(digest="of others"), np.array([0, 0]), "own")
    rules.check_labels(store, np.array([0, 1, 1, 0]), "new")
    with pytest.raises(PrivacyError, match=r"a start has one .*, and this is another"):
        rules.check_labels(store, np.array([0, 1, 1, 0]), "own")
    asked = Announced({"clusterer": {"dbscan": {"eps": 1.0}}})
    for eps, broken in (
        (1.0, None),
        (0.9, "'clusterer' must be the 'clusterer' that was announced"),
    ):
        given = {"clusterer": make_clusterer({"dbscan": {"eps": eps}})}
        assert broken_rule(cluster, given, asked, "server") == broken


def test_the_server_clusters_a_coreset_into_no_more_than_was_announced(tmp_path):
    """With a cluster for each point their centres told the caller the sampled coordinates."""
    asked = Announced({"n_clusters": 2, "coreset_size": 10})
    for k, broken in ((2, False), (36, True)):
        said = broken_rule(coreset.solved, {"plan": KMeansPlan(k, 0)}, asked, "server")
        assert (said is not None) == broken
    rules = rules_of(tmp_path, {"method": "FederatedKernelKMeans", "parameters": {}})
    rows, size = ROWS["site-1"], SimpleNamespace(n_samples=3)
    for seed, again in ((0, False), (0, False), (1, True)):
        plan = KMeansPlan(2, seed)
        given = rows, coreset.local_solution(rows, plan, "a"), size, plan, "a"
        if again:
            with pytest.raises(PrivacyError, match=r"a start has one .*, and this is another"):
                coreset.coreset_part(*given, rules)
        else:
            coreset.coreset_part(*given, rules)


@pytest.fixture
def cities(tmp_path):
    """Two sites, of which one has a word of one sample, and the rules of each."""
    found = {}
    for name, own in (("a", ["Berlin"] * 6 + ["Aachen"]), ("b", ["Berlin"] * 5)):
        table = pd.DataFrame({"city": own, "age": np.arange(1.0, 1 + len(own))})
        write_store(str(tmp_path / f"{name}.zarr"), name, table, categorical=["city"])
        rules = rules_of(tmp_path / name, {"method": "preparation", "parameters": {}})
        found[name] = ClientStore.open(str(tmp_path / f"{name}.zarr")), rules
    return found


def test_sums_of_a_column_are_of_words_that_enough_samples_share(cities):
    """The submitter listed a word of one sample: its column's sums were that sample's values."""
    key, other = (HashKey(np.full(32, i, dtype=np.uint8)) for i in (1, 2))
    columns = ("city",)
    parts = [words.bucket_counts(data, [], columns, key, site) for data, site in cities.values()]
    total = Total(sum(parts), 0.0, ("a", "b"))
    kept = words.kept_buckets(total, 5, False, RunOf(BETWEEN_SITES))
    for so_far, asked, by in (([], columns, other), ([], ("age",), key), ([LOG], columns, key)):
        with pytest.raises(PrivacyError, match="the words to spell were counted in other columns"):
            words.spelt_buckets(cities["a"][0], so_far, asked, by, kept, cities["a"][1])
    spelt = [
        words.spelt_buckets(*one[:1], [], columns, key, kept, one[1]) for one in cities.values()
    ]
    told = words.words_of(Total(sum(spelt), 0.0, ("a", "b")), kept)
    assert texts_in(told.word_bytes, told.word_ends) == ["Berlin"]
    for data, site in cities.values():
        site.check_listed(data, [{"step": "categories", "words": {"city": ["Berlin"]}}, LOG])
    data, site = cities["a"]
    for words_, before in ((["Aachen"], []), (["Aachen", "Berlin"], []), (["Berlin"], [RENAMED])):
        with pytest.raises(PolicyRefused, match=r"by its rule 'groups\.samples'"):
            site.check_listed(data, [*before, {"step": "categories", "words": {"city": words_}}])
    free = rules_of(data.url, {"package": "ours", "method": "theirs"}, packages="any")
    free.check_listed(data, [{"step": "categories", "words": {"city": ["Aachen"]}}])


def test_sums_of_columns_are_told_by_the_step_that_counts_their_values():
    """A submitter had the server tell the sum of a column with one value as a noisy one."""
    magnitudes = CommonMagnitudes(np.zeros(2, np.int16))
    total = Total(np.array([[7.5, 9.0], [1.0, 9.0], [1.0, 3.0]]), 0.0, ("a", "b"))
    assert np.isnan(steps.means_of(total, magnitudes, RunOf(BETWEEN_SITES)).means[0])
    declared = Declared((0.0, 0.0), (1.0, 1.0), 1.0)
    for told in (
        lambda: noisy_scales(total, declared, 10**9),
        lambda: steps.scales_of(total, FittedMeans(np.zeros(2)), magnitudes, ["", ""]),
        lambda: steps.row_lengths(total),
        lambda: steps.sample_total(total),
        lambda: steps.zero_total(total),
    ):
        with pytest.raises(PrivacyError, match="of which it tells nothing"):
            told()


LOG = {"step": "log"}
RENAMED = {"step": "words", "words": {"city": {"Berlin": "Aachen", "Aachen": "Berlin"}}}
