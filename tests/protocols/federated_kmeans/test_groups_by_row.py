"""Federated k-means on plain arrays: against a slow rewrite, scikit-learn, and what is opened."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_moons,
)
from sklearn.preprocessing import StandardScaler

from daskfc.federation import PerClient
from daskfc.protocols.federated_kmeans.estimator import LLOYD_ROUNDS
from daskfc.secure.kmeans import open_kmeans
from daskfc.secure.kmeans.groups import SMALLEST
from daskfc.secure.sums import PlainSum
from daskfc.secure.sums.few import count_unit
from daskfc.testing.kmeans import inertia_of
from tests.protocols.federated_kmeans.oracle import LEAST, last_labels, means, rounds
from tests.secure.kmeans.here import Here


def fitted(rows, k, clients="abc", seed=0):
    """Return the centres' message, and what was told on the way."""
    federation = Here(clients)
    own = PerClient({name: rows[i :: len(clients)] for i, name in enumerate(clients)})
    how = {"sums": PlainSum(federation), "lloyd_rounds": LLOYD_ROUNDS}
    kmeans = open_kmeans(federation, "sums", n_clusters=k, seed=seed, **how)
    return kmeans.fit(own).centers, federation.ledger


def told_of(ledger, kind, receiver="a"):
    return [one.content for one in ledger if one.message == kind and one.receiver == receiver]


def rng(seed):
    return np.random.default_rng(seed)


def unequal(n, d, k=10, seed=0):
    """Clouds of unequal sizes and widths that overlap."""
    random = np.random.default_rng(seed)
    places = 3.0 * random.normal(size=(k, d))
    kinds = random.choice(k, n, p=np.arange(1, k + 1) / sum(range(1, k + 1)))
    return places[kinds] + random.normal(size=(n, d)) * random.uniform(0.5, 1.5, k)[kinds, None]


SETS = {  # of 5,000 rows and more: rows, clusters
    "blobs": (lambda: make_blobs(5000, 4, centers=6, random_state=0)[0], 6),
    "moons": (lambda: make_moons(5000, noise=0.1, random_state=0)[0], 6),
    "cube": (lambda: rng(0).uniform(size=(10_000, 3)), 8),
    "square": (lambda: rng(0).uniform(size=(10_000, 2)), 4),
    "wide blobs": (
        lambda: make_blobs(20_000, 16, centers=10, cluster_std=4.0, random_state=0)[0],
        10,
    ),
    "wide moons": (lambda: make_moons(20_000, noise=0.2, random_state=0)[0], 3),
    "unequal": (lambda: unequal(20_000, 8), 10),
    "unequal, 32 features": (lambda: unequal(10_000, 32), 10),
}
OPTIMA = {  # rows with many optima, of which the search may find another one
    "cube, 8 features": (lambda: rng(0).uniform(size=(20_000, 8)), 10),
    "unequal, 2 features": (lambda: unequal(20_000, 2), 10),
    "tails": (lambda: unequal(10_000, 8) + rng(2).standard_t(3, size=(10_000, 8)), 10),
}
FEW = {  # where parts of groups are often too small
    "digits": (lambda: load_digits().data, 10),
    "breast cancer": (lambda: StandardScaler().fit_transform(load_breast_cancer().data), 2),
    "wine": (lambda: StandardScaler().fit_transform(load_wine().data), 3),
    "iris": (lambda: load_iris().data, 3),
}


MORE = {**FEW, **OPTIMA}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SETS, *FEW, *OPTIMA])
def test_the_inertia_is_that_of_pooled_rows(name):
    (load, k), most = (SETS[name], 1.001) if name in SETS else (MORE[name], 1.015)
    most = 1.12 if name == "tails" else most
    rows = load()
    pooled = KMeans(k, n_init=10, random_state=0).fit(rows)
    found, _ = fitted(rows, k)
    assert inertia_of(rows, found.centers) <= most * pooled.inertia_


@pytest.mark.parametrize("k", [3, 4])
def test_counts_groups_and_centres_are_those_of_a_slow_rewrite(k):
    rows = load_iris().data + 0.001 * np.random.default_rng(1).normal(size=(150, 4))
    found, ledger = fitted(rows, k)
    told = told_of(ledger, "KMeansProposal")[1:]  # after the mean of all
    replayed = rounds(rows, [one.centers for one in told])
    for one, sent in zip(replayed, told_of(ledger, "KMeansCounts"), strict=True):
        width = sent.counts.shape[1]
        names = sorted(set(one.groups))
        slow = [[one.counts[name, j] for j in range(width)] for name in names]
        assert sorted(slow) == sorted(sent.counts.tolist())
    after = means(rows, last_labels(replayed[-1], k), told[-1].centers)
    np.testing.assert_allclose(found.centers, after, atol=1e-9)
    lloyd = [
        np.allclose(means(rows, one.kept, before.centers), then.centers, atol=1e-9)
        for one, before, then in zip(replayed, told, told[1:], strict=False)
        if before.centers.shape == then.centers.shape
    ]
    assert lloyd[-1]
    assert 1 < sum(lloyd) < len(lloyd)


def test_no_combination_of_what_is_opened_is_over_few_rows():
    """Of all sums of all rounds: any four rows may be left out, and no rank is lost."""
    rows = make_blobs(160, 2, centers=3, cluster_std=2.0, random_state=3)[0]
    _, ledger = fitted(rows, 3)
    replayed = rounds(rows, [one.centers for one in told_of(ledger, "KMeansProposal")[1:]])
    names = [one.groups for one in replayed]
    W = [[name == group for name in own] for own in names for group in sorted(set(own))]
    last = last_labels(replayed[-1], 3)
    W = np.array([*W, *([label == j for label in last] for j in range(3))], dtype=float)
    rank = np.linalg.matrix_rank(W)
    assert rank > 8
    random = np.random.default_rng(0)
    home = np.array([row != label for row, label in zip(replayed[-1].kept, last, strict=True)])
    for some in (np.flatnonzero(home), np.arange(len(rows))):
        for _ in range(200 if len(some) else 0):
            few = random.choice(some, min(LEAST - 1, len(some)), replace=False)
            assert np.linalg.matrix_rank(np.delete(W, few, axis=1)) == rank


def test_every_group_that_is_opened_has_enough_rows():
    rows = load_digits().data[:600]
    _, ledger = fitted(rows, 10)
    parts = [one.content.values for one in ledger if one.message == "PlainPart"]
    sums = [sum(parts[i : i + 3]) for i in range(0, len(parts), 3)]
    opened = [one for one in sums if one.shape[1] == 1 + 2 * rows.shape[1] and len(one)]
    assert len(opened) > 5
    *_, told = (one.content for one in ledger if one.message == "KMeansProgress")
    assert all((one[:, 0] >= SMALLEST * count_unit(told.bound)).all() for one in opened[1:])


def test_other_clients_and_another_order_give_the_same_centres():
    rows = unequal(600, 3, 4)
    one = fitted(rows, 4)[0].centers
    other = fitted(rows[np.random.default_rng(0).permutation(len(rows))], 4, clients="abcdef")[0]
    np.testing.assert_allclose(one, other.centers, atol=1e-9)
