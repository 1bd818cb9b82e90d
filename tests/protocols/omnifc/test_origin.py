"""Lengths over columns: clusters seen from the origin, which distances do not tell."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from daskfc import Federation, OmniFC, Prepare
from daskfc.baselines.maths.gcc import cluster_gcc, gcc_features
from daskfc.clustering import ReducedKMeans, make_clusterer
from daskfc.errors import InvalidInput, PartyError
from daskfc.federation.steps.rules import Announced, broken_rule
from daskfc.metrics import ari
from daskfc.secure.distances.parties.by_columns import (
    common_order,
    lengths_in_order,
    squared_lengths,
)
from daskfc.secure.distances.parties.server import RowPlan
from daskfc.secure.sums import Total
from daskfc.seeds import integer_seed
from daskfc.site import Policy, RunRequest
from daskfc.site.approved import Protocol
from tests.protocols.conftest import by_id
from tests.protocols.omnifc.test_columns import a_store, cells, new_cells

DIGITS = load_digits().data[:300]
OWN = np.array_split(np.arange(64), 3)
SPEC = {"reduced-k-means": {"centred": False}}
CLUSTERER = make_clusterer(SPEC)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return a federation over columns of digits."""
    urls = cells(tmp_path_factory.mktemp("digits"), DIGITS, [np.arange(300)], OWN)
    with Federation.local(urls) as federation:
        yield federation


def pooled(X, k=6, seed=0):
    return CLUSTERER.pooled_labels(X, k, integer_seed(seed, CLUSTERER.name))


def fitted(federation, k=6, **given):
    return OmniFC(k, split="columns", clusterer=SPEC, random_state=0, **given).fit(federation)


def test_labels_are_those_of_gcc_on_pooled_columns(digits, approved):
    digits.preparation = Prepare("normalise").fit(digits)
    try:
        found = by_id(fitted(digits).labels_)
    finally:
        digits.preparation = None
    no_edges = sparse.csr_array(np.zeros((300, 300)))
    features = gcc_features(DIGITS, no_edges, filter_order=0, tf_idf=False)
    assert ari(found, pooled(features)) == 1.0
    assert ari(found, ReducedKMeans().pooled_labels(features, 6, 0)) < 1.0
    of_gcc = cluster_gcc(DIGITS, no_edges, 6, filter_order=0, tf_idf=False, seed=0)
    assert ari(found, of_gcc) == 1.0


@pytest.mark.parametrize("distances", ["exact", "blocks", "landmark"])
def test_labels_are_those_of_the_pooled_columns_on_every_route(digits, approved, distances):
    found = by_id(fitted(digits, distances=distances).labels_)
    assert ari(found, pooled(DIGITS)) == 1.0
    assert ari(found, ReducedKMeans().pooled_labels(DIGITS, 6, 0)) < 1.0


def test_lengths_reach_the_server_in_one_masked_sum(digits, approved):
    model = fitted(digits)
    frame = model.ledger_.to_frame()
    masked = frame[frame["message"] == "MaskedPart"]
    assert set(masked["receiver"]) == {"server"}
    assert sorted(masked["sender"]) == sorted(digits.clients)
    assert (masked["protection"] == "masked").all()
    assert (masked["payload_bytes"] >= 8 * len(DIGITS)).all()
    centred = OmniFC(6, split="columns", clusterer="reduced-k-means").fit(digits)
    told, others = set(frame["message"]), set(centred.ledger_.to_frame()["message"])
    assert told - others == {"MaskedPart", "Magnitude", "PublicKeys"}


def test_columns_that_a_client_centres_and_balances_are_seen_from_the_origin(tmp_path, approved):
    """And in the unit in which distances are."""
    X = DIGITS[:, :30] * np.where(np.arange(30) < 9, 1.0, 40.0)
    X[:, 9:20] += 1e5
    own = [np.arange(9), np.arange(9, 20), np.arange(20, 30)]
    with Federation.local(cells(tmp_path, X, [np.arange(300)], own)) as federation:
        found = by_id(fitted(federation, balance=True).labels_)
    parts = [X[:, one] / np.sqrt(2.0 * X[:, one].var(axis=0).sum()) for one in own]
    assert ari(found, pooled(np.hstack(parts))) == 1.0
    assert ari(found, pooled(np.hstack(parts) - np.hstack(parts).mean(axis=0))) < 1.0


def test_new_samples_are_seen_from_the_origin(digits, tmp_path, approved):
    model = fitted(digits)
    new = np.trunc((DIGITS[:40] + DIGITS[40:80]) / 2)
    found = by_id(model.predict(digits, new_cells(tmp_path, new, OWN)))
    of_pool = CLUSTERER._found(DIGITS, 6, integer_seed(0, CLUSTERER.name))[0]
    labels = by_id(model.labels_)
    embedded = DIGITS @ of_pool.W
    nearest = np.linalg.norm((new @ of_pool.W)[:, None] - embedded[None], axis=2)
    means = np.array([embedded[labels == c].mean(axis=0) for c in range(6)])
    wanted = np.linalg.norm((new @ of_pool.W)[:, None] - means[None], axis=2).argmin(axis=1)
    assert nearest.shape == (40, 300)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("split", ["samples", "grid"])
def test_lengths_are_of_clients_that_hold_columns(split):
    with pytest.raises(InvalidInput, match=f"clients add up over columns; got split='{split}'"):
        OmniFC(3, clusterer=SPEC, split=split).check()


def test_lengths_in_two_orders_are_not_added_up(tmp_path):
    urls = cells(tmp_path, DIGITS, [np.arange(300)], OWN[:2])
    (tmp_path / "other").mkdir()
    others = cells(tmp_path / "other", DIGITS, [np.arange(300)[::-1]], OWN)
    urls["client-3"] = others["client-3"]
    with Federation.local(urls) as federation:
        with pytest.raises(PartyError, match="must have the samples in one order") as refused:
            fitted(federation)
        assert "MaskedPart" not in set(federation.ledger.to_frame()["message"])
    assert isinstance(refused.value.__cause__, InvalidInput)


def test_a_sum_comes_into_the_order_of_the_distances():
    order = np.array([2, 0, 1])
    plan = RowPlan({"a": order, "b": order}, 2, 1.0, 1.0, -1, 0)
    places = common_order(plan)
    total = Total(np.array([[5.0], [7.0], [-1e-12]]), 1e-12, ("a", "b"))
    np.testing.assert_array_equal(lengths_in_order(total, places), [7.0, 0.0, 5.0])


@pytest.mark.parametrize(
    ("announced", "allowed"),
    [
        (SPEC, True),
        ({"Reduced K-Means": {"centred": False, "n_init": 10}}, True),
        ({"reduced-k-means": {"centred": False, "n_init": 3}}, False),
        ("reduced-k-means", False),
        ("spectral", False),
    ],
)
def test_a_site_tells_lengths_where_they_were_announced(tmp_path, announced, allowed):
    store = a_store(tmp_path / "a", DIGITS[:, :5])
    given = {"centre": True, "balance": False, "clusterer": CLUSTERER}
    asked = Announced({"clusterer": announced, "balance": False})
    assert (broken_rule(squared_lengths, given, asked) is None) == allowed
    lengths = squared_lengths(store, True, False, clusterer=CLUSTERER)
    np.testing.assert_allclose(lengths[:, 0], np.square(DIGITS[:, :5]).sum(axis=1))


def test_a_site_may_forbid_lengths():
    steps = Protocol.of("OmniFC").steps
    entry = steps[f"{squared_lengths.__module__}.squared_lengths"]
    assert entry["at"]["client"] == {"split": ["columns"], "reveal": ["distances"]}
    policy = Policy.of({"methods": {"OmniFC": {"clusterer": ["reduced-k-means", "k-means"]}}})
    for spec, rules in (("reduced-k-means", []), (SPEC, ["methods.OmniFC.clusterer"])):
        asked = RunRequest("OmniFC", submitter="a", parameters={"clusterer": spec}, n_clients=3)
        assert [one.rule for one in policy.refusals(asked)] == rules
