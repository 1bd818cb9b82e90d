"""The server's clustering, on views whose clusters are known."""

import itertools

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, cohen_kappa_score

from daskfc.clustering.clusterers import local_labels
from daskfc.protocols.esfmc.maths import grouping
from daskfc.protocols.esfmc.maths.grouping import (
    Block,
    averaged_assignments,
    by_graphs,
    by_kmeans,
    by_spectral,
    concatenated,
    kmeans_from,
    matched,
    numbering,
    scaled,
    view_weight,
)

K = 3
N = 90
TRUE = np.repeat(np.arange(K), N // K)


def view(seed, spread=0.3, d=4):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(K, d)) * 3
    return centres[TRUE] + spread * random.normal(size=(N, d))


@pytest.mark.parametrize("seed", range(5))
def test_numbering_is_the_best_of_all(seed):
    random = np.random.default_rng(seed)
    labels, wanted = random.integers(0, 4, 60), random.integers(-1, 4, 60)
    known = wanted >= 0
    best = max(
        sum(np.array(order)[labels[known]] == wanted[known])
        for order in itertools.permutations(range(4))
    )
    numbers = numbering(labels, wanted, 4)
    assert sorted(numbers) == list(range(4))
    assert sum(numbers[labels[known]] == wanted[known]) == best


def test_clusters_keep_their_numbers():
    labels = np.array([2, 2, 0, 1])
    assert matched(labels, None, K) is labels
    assert matched(labels, np.array([0, 0, 1, 2]), K).tolist() == [0, 0, 1, 2]


def test_scaled_rows_have_the_weight_as_their_mean_size():
    rows = scaled(view(0) * 1e4, 0.5)
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(0.25)
    np.testing.assert_array_equal(scaled(np.zeros((3, 2))), np.zeros((3, 2)))


def test_a_view_counts_as_much_as_its_centroids_agree():
    X = view(1, spread=3.0)
    centres = np.stack([X[TRUE == k].mean(axis=0) for k in range(K)])
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert view_weight(X, TRUE) == pytest.approx(cohen_kappa_score(nearest, TRUE))
    assert view_weight(view(1, spread=0.01), TRUE) == 1.0
    noise = np.random.default_rng(0).normal(size=(N, 2))
    assert 0.0 <= view_weight(noise, TRUE) < 0.5
    assert view_weight(noise, TRUE) < view_weight(X, TRUE)


def test_features_stand_beside_each_other_in_one_order():
    order = np.random.default_rng(3).permutation(N)
    first, second = view(0), view(1)
    blocks = [Block(np.arange(N), first), Block(order, second[order])]
    rows = np.array([4, 0, 77])
    np.testing.assert_array_equal(
        concatenated(blocks, rows, N), np.hstack([first[rows], second[rows]])
    )


def test_kmeans_goes_on_from_the_last_labels():
    X = view(2)
    centres = np.stack([X[TRUE == k].mean(axis=0) for k in range(K)])
    wanted = KMeans(K, init=centres, n_init=1).fit_predict(X)
    np.testing.assert_array_equal(kmeans_from(X, K, TRUE), wanted)
    lost = np.where(TRUE == 2, 1, TRUE)  # a cluster without a sample starts anew
    assert adjusted_rand_score(kmeans_from(X, K, lost), TRUE) == 1.0


class Merges:
    """Spectral clustering that takes two clusters for one, by some numbers of neighbours."""

    merging = (10, 15, 20, 25)

    def __init__(self, *, n_neighbors):
        self.merges = n_neighbors in self.merging

    def fit(self, graph, k, seed):
        labels = np.where(TRUE == 2, 1, TRUE) if self.merges else TRUE
        return type("Found", (), {"labels": labels})


def test_spectral_labels_that_merge_clusters_do_not_count_after_others(monkeypatch):
    X, last = view(2), np.array([2, 0, 1])[TRUE]
    np.testing.assert_array_equal(by_spectral(X, K, last, 0), last)
    monkeypatch.setattr(local_labels, "Spectral", Merges)
    np.testing.assert_array_equal(by_spectral(X, K, last, 0), last)
    other = last.copy()
    other[:3] = (other[:3] + 1) % K  # k-means would mend these, and so says that they changed
    np.testing.assert_array_equal(by_spectral(X, K, other, 0), other)


@pytest.mark.parametrize("merging", [(10,), (10, 15, 25)])
def test_first_spectral_labels_are_those_that_separate_clusters_best(monkeypatch, merging):
    monkeypatch.setattr(local_labels, "Spectral", Merges)
    monkeypatch.setattr(Merges, "merging", merging)
    np.testing.assert_array_equal(by_spectral(view(2), K, None, 0), TRUE)


def test_kmeans_counts_where_no_number_of_neighbours_keeps_clusters_apart(monkeypatch):
    X = view(2)
    monkeypatch.setattr(local_labels, "Spectral", Merges)
    np.testing.assert_array_equal(by_spectral(X, K, None, 0), by_kmeans(X, K, 0))


def test_spectral_labels_have_the_last_numbers():
    X = view(2)
    last = np.array([2, 0, 1])[TRUE]
    np.testing.assert_array_equal(by_spectral(X, K, last, 0), last)


def test_kmeans_finds_the_clusters():
    assert adjusted_rand_score(by_kmeans(np.hstack([view(0), view(1)]), K, 0), TRUE) == 1.0


def test_graphs_join_what_no_view_has_whole():
    """Every sample is in one view or two, none in all three, and no client has all."""
    random = np.random.default_rng(0)
    held = random.random((3, N)) < 0.6
    held[0, ~held.any(axis=0)] = True
    held[2, held.all(axis=0)] = False
    blocks = [Block(np.flatnonzero(own), view(i)[own]) for i, own in enumerate(held)]
    assert adjusted_rand_score(by_graphs(blocks, [1.0, 1.0, 1.0], N, K, 0), TRUE) == 1.0
    noise = Block(np.arange(N), random.normal(size=(N, 3)))
    ignored = by_graphs([*blocks, noise], [1.0, 1.0, 1.0, 0.0], N, K, 0)
    assert adjusted_rand_score(ignored, TRUE) == 1.0


def test_the_number_of_neighbours_in_clients_graphs_is_the_one_that_keeps_clusters_apart(
    monkeypatch,
):
    """Each cluster has two parts of 15 samples: with ten neighbours they fall apart."""
    random = np.random.default_rng(2)
    parts = np.repeat(np.arange(2 * K), N // (2 * K))
    centres = 20.0 * np.repeat(np.eye(K), 2, axis=0)
    centres[1::2] += 2.0
    blocks = [
        Block(np.arange(N), centres[parts] + 0.1 * random.normal(size=(N, K))) for _ in range(2)
    ]
    assert adjusted_rand_score(by_graphs(blocks, [1.0, 0.5], N, K, 0), parts // 2) == 1.0
    monkeypatch.setattr(grouping, "NEIGHBOURS", (10,))
    assert adjusted_rand_score(by_graphs(blocks, [1.0, 0.5], N, K, 0), parts // 2) < 1.0


def test_assignments_are_means_over_those_who_have_the_sample():
    random = np.random.default_rng(0)
    blocks = [Block(np.array(own), random.random((len(own), 2))) for own in ([0, 2], [1, 2, 3])]
    Q = averaged_assignments(blocks, 4)
    np.testing.assert_allclose(Q[2], (blocks[0].features[1] + blocks[1].features[1]) / 2)
    np.testing.assert_allclose(Q[3], blocks[1].features[2])
