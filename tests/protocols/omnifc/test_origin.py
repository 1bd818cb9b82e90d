"""Lengths over columns: clusters seen from the origin, which distances do not tell."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from daskfc import Federation, OmniFC, Prepare
from daskfc.baselines.maths.gcc import cluster_gcc, gcc_features
from daskfc.clustering import ReducedKMeans, make_clusterer
from daskfc.clustering.views.order import order_of_points
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

N, K = 400, 4
DIGITS = load_digits().data[:N]
OWN = np.array_split(np.arange(64), 3)
SPEC = {"reduced-k-means": {"centred": False}}
CLUSTERER = make_clusterer(SPEC)
SEED = integer_seed(0, CLUSTERER.name)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return a federation over columns of digits."""
    urls = cells(tmp_path_factory.mktemp("digits"), DIGITS, [np.arange(N)], OWN)
    with Federation.local(urls) as federation:
        yield federation


def fitted(federation, k=K, **given):
    return OmniFC(k, split="columns", clusterer=SPEC, random_state=0, **given).fit(federation)


@pytest.fixture(scope="module")
def model(digits):
    return fitted(digits)


def check_seen_from_origin(labels, X, k=K):
    assert ari(by_id(labels), CLUSTERER.pooled_labels(X, k, SEED)) == 1.0
    assert ari(by_id(labels), ReducedKMeans().pooled_labels(X, k, SEED)) < 1.0


def test_labels_are_those_of_gcc_on_pooled_columns(digits, approved):
    digits.preparation = Prepare("normalise").fit(digits)
    try:
        labels = fitted(digits).labels_
    finally:
        digits.preparation = None
    no_edges = sparse.csr_array((N, N))
    features = gcc_features(DIGITS, no_edges, filter_order=0, tf_idf=False)
    check_seen_from_origin(labels, features)
    of_gcc = cluster_gcc(DIGITS, no_edges, K, filter_order=0, tf_idf=False, seed=0)
    assert ari(by_id(labels), of_gcc) == 1.0


def test_labels_are_those_of_the_pooled_columns(model, approved):
    check_seen_from_origin(model.labels_, DIGITS)


@pytest.mark.parametrize("given", [{"distances": "blocks"}, {"distances": "landmark"}], ids=str)
def test_labels_are_those_of_the_pooled_columns_on_every_route(digits, approved, given):
    check_seen_from_origin(fitted(digits, **given).labels_, DIGITS)


def test_balanced_columns_have_lengths_in_their_unit(digits, approved):
    parts = [DIGITS[:, one] for one in OWN]
    balanced = np.hstack([part / np.sqrt(2.0 * part.var(axis=0).sum()) for part in parts])
    check_seen_from_origin(fitted(digits, k=3, balance=True).labels_, balanced, k=3)


def test_lengths_reach_the_server_in_one_masked_sum(digits, model):
    frame = model.ledger_.to_frame()
    masked = frame[frame["message"] == "MaskedPart"]
    assert set(masked["receiver"]) == {"server"}
    assert sorted(masked["sender"]) == sorted(digits.clients)
    assert (masked["protection"] == "masked").all()
    assert (masked["payload_bytes"] >= 8 * N).all()
    from_clients = frame[frame["sender"].str.startswith("client")]
    assert set(from_clients["message"]) == {
        "KeyOffer", "SealedDigestKey", "SampleSummary", "Magnitude", "PublicKeys", "MaskedPart",
        "CodedRows", "CodedDistances", "LabelledSamples",
    }  # fmt: skip


def test_new_samples_are_seen_from_the_origin(digits, tmp_path, approved):
    model = fitted(digits)
    new = np.trunc((DIGITS[:40] + DIGITS[40:80]) / 2)
    found = by_id(model.predict(digits, new_cells(tmp_path, new, OWN)))
    W = CLUSTERER._found(DIGITS[order_of_points(DIGITS).places], K, SEED)[0].W
    labels = by_id(model.labels_)
    means = np.array([(DIGITS @ W)[labels == c].mean(axis=0) for c in range(K)])
    np.testing.assert_array_equal(found, cdist(new @ W, means).argmin(axis=1))
    assert len(set(found.tolist())) > 1


@pytest.mark.parametrize("split", ["samples", "grid"])
def test_lengths_are_of_clients_that_hold_columns(split):
    with pytest.raises(InvalidInput, match=f"clients add up over columns; got split='{split}'"):
        OmniFC(3, clusterer=SPEC, split=split).check()


def test_lengths_in_two_orders_are_not_added_up(tmp_path, monkeypatch):
    """Of sites, whose ids the driver does not see, the server's digests tell the order."""
    monkeypatch.setattr("daskfc.federation.driver.contract.check_samples", lambda *given: None)
    rows = np.arange(N)
    urls = cells(tmp_path, DIGITS, [rows], OWN[:2])
    (tmp_path / "other").mkdir()
    others = cells(tmp_path / "other", DIGITS, [rows[::-1]], OWN)
    urls["client-3"] = others["client-3"]
    with Federation.local(urls) as federation:
        with pytest.raises(PartyError, match="must have the samples in one order") as refused:
            fitted(federation)
        told = set(federation.ledger.to_frame()["message"])
        assert not told & {"MaskedPart", "Magnitude", "PublicKeys"}
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
def test_a_site_tells_lengths_where_they_were_announced(announced, allowed):
    given = {"centre": True, "balance": False, "clusterer": CLUSTERER}
    asked = Announced({"clusterer": announced, "balance": False})
    assert (broken_rule(squared_lengths, given, asked) is None) == allowed
    same = {**given, "clusterer": make_clusterer(announced)}
    centred = not same["clusterer"].from_origin
    assert (broken_rule(squared_lengths, same, asked) is not None) == centred


def test_columns_that_a_client_centres_have_lengths_from_the_origin(tmp_path):
    """And in the unit in which distances are."""
    X = DIGITS[:, 2:7] + 1e5
    found = squared_lengths(a_store(tmp_path / "a", X), True, True, clusterer=CLUSTERER)
    wanted = np.square(X).sum(axis=1) / (2.0 * X.var(axis=0).sum())
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-9)


def test_a_site_may_forbid_lengths():
    steps = Protocol.of("OmniFC").steps
    entry = steps[f"{squared_lengths.__module__}.squared_lengths"]
    assert entry["at"]["client"] == {"split": ["columns"], "reveal": ["distances"]}
    policy = Policy.of({"methods": {"OmniFC": {"clusterer": ["reduced-k-means", "k-means"]}}})
    for spec, rules in (("reduced-k-means", []), (SPEC, ["methods.OmniFC.clusterer"])):
        asked = RunRequest("OmniFC", submitter="a", parameters={"clusterer": spec}, n_clients=3)
        told = policy.refusals(asked, now=None, runs_before=0, n_samples=N, columns=None)
        assert [one.rule for one in told] == rules
