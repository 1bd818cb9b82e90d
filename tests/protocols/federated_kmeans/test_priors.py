"""Labels by distances and each client's own shares of clusters."""

import numpy as np
import pytest
from sklearn.base import clone

from daskfc import FederatedKMeans
from daskfc.errors import InvalidInput
from daskfc.federation import Federation
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.protocols.federated_kmeans import priors
from daskfc.runs.planning.rehearse import STAND_INS
from daskfc.secure.kmeans import nearest_labels
from daskfc.secure.kmeans.messages import KMeansCenters
from daskfc.secure.sums import Total
from daskfc.testing.federation import stores_of

CENTERS = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 9.0]])
MIXES = {"a": (0.85, 0.1, 0.05), "b": (0.1, 0.8, 0.1), "c": (0.2, 0.2, 0.6)}


def drawn(random, n, mix):
    kinds = random.choice(3, n, p=mix)
    return CENTERS[kinds] + random.normal(size=(n, 2)), kinds


def by_hand(rows, centers, shares, rho, temperature):
    """Labels as the module's first lines say, one sample at a time."""
    n, k = len(rows), len(centers)
    far = [[float(((x - c) ** 2).sum()) for c in centers] for x in rows]
    labels = [min(range(k), key=lambda j, own=own: own[j]) for own in far]
    while rho > 0:
        counts = [labels.count(j) for j in range(k)]
        prior = [
            (rho * m + (1 - rho) * g) / (rho * n + 1 - rho)
            for m, g in zip(counts, shares, strict=True)
        ]
        cost = [
            [own[j] - temperature * np.log(prior[j] / shares[j]) for j in range(k)] for own in far
        ]
        new = [min(range(k), key=lambda j, own=own: own[j]) for own in cost]
        if new == labels:
            break
        labels = new
    return labels


@pytest.mark.parametrize("rho", [0.0, 0.05, 0.9])
@pytest.mark.parametrize("mix", MIXES.values())
def test_labels_are_those_by_hand_in_any_order_and_unit(rho, mix):
    random = np.random.default_rng(0)
    rows, _ = drawn(random, 60, mix)
    shares = np.array([0.4, 0.35, 0.25])
    labels = priors.tempered(rows, CENTERS, shares, rho, 0.7)
    assert labels.tolist() == by_hand(rows, CENTERS, shares, rho, 0.7)
    order = random.permutation(60)
    again = priors.tempered(1e3 * rows[order], 1e3 * CENTERS, shares, rho, 0.7e6)
    np.testing.assert_array_equal(again, labels[order])


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_labels_beside_a_far_centre_are_those_by_hand(rho):
    centers = np.array([[0.0], [1.0], [9999999999.0]])
    rows, shares = np.array([[0.1], [0.2], [0.45], [0.6], [1.3]]), np.array([0.3, 0.6, 0.1])
    found = priors.tempered(rows, centers, shares, rho, 0.3).tolist()
    assert found == by_hand(rows, centers, shares, rho, 0.3)


def test_nobody_is_put_into_a_cluster_that_has_no_sample():
    rows = np.array([[0.0, 0.0]] * 5 + [[0.1, 0.0]])
    centers = np.array([[0.0, 0.0], [0.1, 0.0], [0.05, 0.0]])
    labels = priors.tempered(rows, centers, np.array([0.5, 0.5, 0.0]), 0.9, 5.0)
    assert labels.tolist() == [0] * 6
    alone = priors.tempered(rows, centers, np.array([0.5, 0.5, 0.0]), 1.0, 1e-9)
    assert alone.tolist() == [0] * 5 + [1]  # the client has both, and no more


@pytest.mark.parametrize("rho", [0.1, 0.4, 0.7])
def test_few_samples_weigh_little_beside_the_shares_of_all(rho):
    centers, shares = np.array([[-1.0], [1.0]]), np.array([0.8, 0.2])
    for n in (2, 5, 6, 7):
        rows = np.linspace(-1.2, 1.2, n).reshape(-1, 1)
        found = priors.tempered(rows, centers, shares, rho, 1.5).tolist()
        assert found == by_hand(rows, centers, shares, rho, 1.5)


def test_a_rare_cluster_of_the_clients_is_not_left_for_one_that_nobody_has():
    rows, centers = np.array([[0.0]] * 20 + [[10.0]]), np.array([[0.0], [10.0], [10.1]])
    labels = priors.tempered(rows, centers, np.array([0.5, 0.5, 0.0]), 0.9, 5.0)
    assert labels.tolist() == [0] * 20 + [1]


def test_equal_samples_have_the_nearest_centre():
    found = priors.tempered(np.zeros((3, 1)), np.zeros((1, 1)), np.ones(1), 0.5, 0.0)
    assert found.tolist() == [0, 0, 0]


def estimated(counts):
    """Return ρ of clients' counts of clusters, by the steps."""
    told = priors.ClusterShares(counts.sum(axis=0))
    labels = [np.repeat(np.arange(len(own)), own) for own in counts]
    parts = [priors.unlikeness(own, told) for own in labels]
    assert max(part[0] for part in parts) <= told.largest
    names = tuple(f"c{i}" for i in range(len(counts)))
    total = Total(np.sum(parts, axis=0)[:, None], 0.0, names)
    centers = KMeansCenters(np.zeros((counts.shape[1], 1)), 1.0)
    return priors.client_priors(total, told, centers).overdispersion


@pytest.mark.parametrize("rho", [0.05, 0.2, 0.5])
def test_overdispersion_is_that_which_counts_were_drawn_with(rho):
    random = np.random.default_rng(1)
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    mixes = random.dirichlet((1 - rho) / rho * shares, size=3000)
    sizes = random.integers(20, 200, size=3000)
    counts = np.stack([random.multinomial(n, mix) for n, mix in zip(sizes, mixes, strict=True)])
    assert estimated(counts) == pytest.approx(rho, rel=0.1)
    alike = random.multinomial(sizes, shares)
    assert estimated(alike) < 0.001


@pytest.mark.parametrize(
    ("counts", "rho"),
    [([[5, 0], [0, 5]], 1.0), ([[4, 4], [4, 4]], 0.0), ([[7, 2]], 0.0), ([[3, 0], [4, 0]], 0.0),
     ([[1, 0], [0, 1]], 0.0), ([[0, 0], [6, 0], [0, 6]], 1.0)],
)  # fmt: skip
def test_overdispersion_at_its_ends(counts, rho):
    assert estimated(np.array(counts)) == rho


def test_a_second_question_of_shares_is_refused():
    from daskfc.errors import PrivacyError
    from daskfc.federation.party.once import OnceOnly
    from daskfc.federation.party.site_rules import SiteRules

    class Once(SiteRules):
        held = OnceOnly()

        def once(self):
            return self.held

    site, labels = Once(), np.array([0, 1, 1])
    told = priors.ClusterShares(np.array([5, 6]))
    np.testing.assert_array_equal(
        priors.unlikeness(labels, told, site), priors.unlikeness(labels, told, site)
    )
    with pytest.raises(PrivacyError):
        priors.unlikeness(labels, priors.ClusterShares(np.array([6, 6])), site)


def test_noise_and_priors_are_not_both_had():
    noise = {"epsilon": 1.0, "delta": 1e-6, "largest_norm": 9.0}
    with pytest.raises(InvalidInput, match="has either 'noise' or 'client_priors'"):
        FederatedKMeans(3, noise=noise, client_priors=True).check(3)


def stores_with(folder, mixes, n=400):
    random = np.random.default_rng(2)
    found = {name: drawn(random, n, mix) for name, mix in mixes.items()}
    rows = {name: own for name, (own, _) in found.items()}
    return stores_of(folder, rows), rows, np.concatenate([kinds for _, kinds in found.values()])


def right(labels, kinds, centers):
    """Return the share of samples in the cluster whose centre is nearest to their kind's."""
    return np.mean(labels == nearest_labels(CENTERS, centers)[kinds])


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("averaging", ["masked", "plain", "recovering", "shared"])
def test_clients_with_other_clusters_are_labelled_better(tmp_path, averaging):
    stores, rows, kinds = stores_with(tmp_path / "fit", MIXES)
    with Federation.local(stores) as federation:
        nearest = FederatedKMeans(3, averaging=averaging).fit(federation)
        model = FederatedKMeans(3, averaging=averaging, client_priors=True).fit(federation)
        again = model.predict(federation, stores)
        rehearsal = Rehearsal(
            dict(federation.contract.readable), STAND_INS, limits=federation.limits()
        )
        clone(model).rehearse(rehearsal)
    np.testing.assert_array_equal(model.cluster_centers_, nearest.cluster_centers_)
    centers, n = model.cluster_centers_, 3 * 400
    counts = np.bincount(nearest.labels_.values, minlength=3)
    np.testing.assert_array_equal(model.cluster_shares_, counts / n)
    assert 0.1 < model.overdispersion_ < 0.9
    assert model.temperature_ == pytest.approx(0.2 * model.inertia_ / n)
    how = (model.cluster_shares_, model.overdispersion_, model.temperature_)
    wanted = np.concatenate([priors.tempered(own, centers, *how) for own in rows.values()])
    np.testing.assert_array_equal(model.labels_.values, wanted)
    np.testing.assert_array_equal(again.values, wanted)
    before, after = (right(one.labels_.values, kinds, centers) for one in (nearest, model))
    assert after > before + 0.01
    planned, sent = (
        sorted(
            (row.message, row.receiver, row.payload_bytes)
            for row in ledger
            if row.message in ("ClusterShares", "ClientPriors")
        )
        for ledger in (rehearsal.ledger, model.ledger_)
    )
    assert planned == sent
    assert len(sent) == 2 * (len(rows) + 1)  # to each client, and the caller
    own = {row.message for row in model.ledger_ if row.sender in rows}
    assert own == {row.message for row in nearest.ledger_ if row.sender in rows}


@pytest.mark.slow
def test_clients_that_are_alike_have_the_nearest_centres(tmp_path):
    stores, _, _ = stores_with(tmp_path, dict.fromkeys("abc", (0.4, 0.4, 0.2)))
    with Federation.local(stores) as federation:
        model = FederatedKMeans(3, client_priors=True).fit(federation)
        nearest = FederatedKMeans(3).fit(federation)
    assert model.overdispersion_ < 0.005
    assert np.mean(model.labels_.values != nearest.labels_.values) < 0.005
