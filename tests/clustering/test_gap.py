"""The gap statistic against the paper's definition, on the pooled samples."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.cluster import KMeans as LibraryKMeans
from sklearn.datasets import load_iris, load_wine, make_blobs

from daskfc.clustering import FullDistances, KMeans
from daskfc.clustering.clusterers.gap import REFERENCES, box_of, dispersion, gap_statistic
from daskfc.seeds import generator, integer_seed

WINE = load_wine().data


def blobs(k):
    return make_blobs(
        n_samples=120, centers=k, n_features=4, cluster_std=0.6, center_box=(-6, 6), random_state=k
    )[0]


def pairwise_dispersion(X, labels):
    """W_k as the paper has it: Σ over clusters of all squared distances over 2 n_r."""
    found = 0.0
    for label in set(labels):
        own = X[labels == label]
        found += sum(np.sum((a - b) ** 2) for a in own for b in own) / (2 * len(own))
    return found


def in_the_papers_words(X, k, seed):
    """Gap(k) and s_k with references that are turned back into the samples' own axes."""

    def log_within(rows):
        chance = integer_seed(seed, "k-means")  # the same start, hence the same optimum
        labels = LibraryKMeans(k, n_init=10, random_state=chance).fit(rows).labels_
        return math.log(pairwise_dispersion(rows, labels))

    mean = X.mean(axis=0)
    _, _, Vt = np.linalg.svd(X - mean)
    turned = (X - mean) @ Vt.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    logs = []
    for number in range(REFERENCES):
        chance = generator(seed, "gap", number).random((X.shape[1], len(X))).T
        logs.append(log_within((low + chance * (high - low)) @ Vt + mean))
    spread = math.sqrt(np.mean((np.array(logs) - np.mean(logs)) ** 2))
    return np.mean(logs) - log_within(X), spread * math.sqrt(1 + 1 / REFERENCES)


@pytest.mark.parametrize("X", [load_iris().data[::3], blobs(3)[::3]], ids=["iris", "blobs"])
def test_it_is_the_papers(X):
    for k in (1, 3):
        found = gap_statistic(X, k, KMeans(), 4)
        assert found == pytest.approx(in_the_papers_words(X, k, 4), abs=1e-9)


def test_dispersion_is_that_of_all_pairs_and_what_k_means_makes_small():
    X = load_iris().data
    found = LibraryKMeans(3, n_init=10, tol=0.0, random_state=0).fit(X)
    assert dispersion(X, found.labels_) == pytest.approx(found.inertia_, rel=1e-9)
    assert dispersion(X, found.labels_) == pytest.approx(
        pairwise_dispersion(X, found.labels_), rel=1e-9
    )


def chosen(X, most):
    found = (gap_statistic(X, k, KMeans(), 0) for k in range(1, most + 2))
    pairs = enumerate(pairwise(found), start=1)
    return next((k for k, ((gap, _), (after, error)) in pairs if gap >= after - error), None)


@pytest.mark.few(1)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_clear_clusters_are_counted(k):
    assert chosen(blobs(k), 7) == k


def test_standardised_wine_has_three_and_chance_one():
    assert chosen((WINE - WINE.mean(axis=0)) / WINE.std(axis=0), 5) == 3
    assert chosen(np.random.default_rng(0).random((150, 3)), 4) == 1


def test_motions_of_the_samples_change_nothing():
    X = blobs(3)
    turn = ortho_group.rvs(4, random_state=0)
    moved = np.hstack([X @ turn + 100.0, np.zeros((len(X), 1))])  # an axis without width
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    expected = gap_statistic(X, 3, KMeans(), 1)
    assert gap_statistic(moved, 3, KMeans(), 1) == pytest.approx(expected, abs=1e-9)
    of_distances = gap_statistic(FullDistances(D).coordinates(), 3, KMeans(), 1)
    assert of_distances == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(box_of(moved)[:4], box_of(X), rtol=1e-9)


def test_other_seeds_draw_other_references():
    X = blobs(2)
    assert gap_statistic(X, 2, KMeans(), 0) == gap_statistic(X, 2, KMeans(), 0)
    assert gap_statistic(X, 2, KMeans(), 0) != gap_statistic(X, 2, KMeans(), 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_of_a_few_rows():
    X = np.repeat(np.eye(3), 20, axis=0)
    two, three, four = (gap_statistic(X, k, KMeans(), 0) for k in (2, 3, 4))
    assert two[0] < three[0] - three[1]
    assert three[0] > four[0]
    assert gap_statistic(np.ones((9, 2)), 2, KMeans(), 0) == (math.inf, 0.0)
    assert gap_statistic(X, 61, KMeans(), 0) == (math.inf, 0.0)
