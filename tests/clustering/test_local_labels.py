"""A client's own labels: which graph is taken, and what the score says."""

import numpy as np
import pytest
from scipy import sparse

from daskfc.clustering.clusterers import local_labels
from daskfc.clustering.clusterers.local_labels import (
    k_means_labels,
    modularity,
    spectral_labels,
    wants_cosine,
)
from daskfc.errors import InvalidInput
from daskfc.metrics import accuracy
from tests.conftest import DATA, needs_data

RANDOM = np.random.default_rng(0)
TRUE = np.repeat(np.arange(3), 40)
BLOBS = np.array([[0, 0], [4, 0], [0, 4]])[TRUE] + RANDOM.normal(0, 0.3, (120, 2))


def test_modularity_is_newmans_sum_over_pairs():
    A = RANDOM.integers(0, 2, (12, 12))
    A = np.triu(A, 1) + np.triu(A, 1).T
    labels = RANDOM.integers(0, 3, 12)
    degrees, whole = A.sum(axis=1), A.sum()
    pairs = ((i, j) for i in range(12) for j in range(12) if labels[i] == labels[j])
    slow = sum(A[i, j] - degrees[i] * degrees[j] / whole for i, j in pairs) / whole
    assert modularity(sparse.csr_array(A.astype(float)), labels) == pytest.approx(slow)
    assert modularity(sparse.csr_array((3, 3)), np.zeros(3, int)) == 0.0


@pytest.mark.parametrize("of", [k_means_labels, spectral_labels])
def test_clusters_that_lie_apart_are_found_and_score_high(of):
    found = of(BLOBS, 3, seed=0)
    assert accuracy(TRUE, found.labels) == 1.0
    assert found.labels.dtype == np.int64
    assert found.score == pytest.approx(2 / 3, abs=0.01)  # three components of one size
    noise = of(RANDOM.normal(size=(120, 6)), 3, seed=0)
    assert noise.score < found.score - 0.1
    assert np.array_equal(of(BLOBS, 3, seed=0).labels, found.labels)


def test_rings_need_neighbours():
    angle = RANDOM.uniform(0, 2 * np.pi, 300)
    ring = np.where(np.arange(300) < 150, 1.0, 3.0)
    rows = np.column_stack([ring * np.cos(angle), ring * np.sin(angle)])
    assert accuracy(ring > 2, spectral_labels(rows, 2, seed=0).labels) == 1.0
    assert accuracy(ring > 2, k_means_labels(rows, 2, seed=0).labels) < 0.8


def test_a_merged_pair_of_classes_loses(monkeypatch):
    """The graph with ten neighbours gives unequal clusters of larger modularity here."""
    halves = {10: np.repeat([0, 0, 0, 0, 0, 1], 20), 15: np.repeat([0, 0, 0, 1, 1, 1], 20)}
    scores = {10: 0.55, 15: 0.5}

    class Given:
        def __init__(self, n_neighbors):
            self.n_neighbors = n_neighbors

        def fit(self, view, n_clusters, seed):
            self.labels = halves[self.n_neighbors]
            return self

    monkeypatch.setattr(local_labels, "Spectral", Given)
    monkeypatch.setattr(local_labels, "NEIGHBOURS", (10, 15))
    monkeypatch.setattr(local_labels, "neighbour_affinity", lambda graph, n: n)
    monkeypatch.setattr(local_labels, "modularity", lambda n, labels: scores[n])
    assert spectral_labels(BLOBS, 2, seed=0).n_neighbors == 15
    monkeypatch.setattr(local_labels, "_BALANCE", 0)
    assert spectral_labels(BLOBS, 2, seed=0).n_neighbors == 10


def test_directions_of_counts_not_their_lengths():
    """Two classes of texts, long and short ones in each."""
    topic = np.repeat([0, 1], 60)
    rates = np.where(np.arange(80) // 40 == topic[:, None], 0.4, 0.02)
    length = np.where(np.arange(120) % 2 == 0, 1, 12)[:, None]
    counts = RANDOM.poisson(rates * length)
    assert wants_cosine(counts)
    assert wants_cosine((counts / 255).astype(np.float32))  # in another unit
    assert not wants_cosine(counts * RANDOM.random(80))
    found = spectral_labels(counts, 2, seed=0, metric="cosine")
    assert accuracy(topic, found.labels) > 0.9
    assert accuracy(topic, spectral_labels(counts, 2, seed=0, metric="euclid").labels) < 0.9
    assert not wants_cosine(-counts)
    assert not wants_cosine(np.ones((3, 3)))


def test_few_rows_have_few_neighbours():
    found = spectral_labels([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]], 2, seed=0)
    assert found.n_neighbors == 6


@pytest.mark.parametrize(
    ("rows", "change", "words"),
    [
        (BLOBS[:3], {}, r"n above n_clusters = 3; got shape \(3, 2\)"),
        (BLOBS[:, 0], {}, r"got shape \(120,\)"),
        (np.where(BLOBS > 4, np.inf, BLOBS), {}, "must be finite; some of 120 are not"),
        (BLOBS, {"metric": "angle"}, "must be one of 'auto', 'euclid', 'cosine'"),
    ],
)
def test_wrong_input_gets_one_sentence(rows, change, words):
    for of in (k_means_labels, spectral_labels):
        with pytest.raises(InvalidInput, match=words):
            of(rows, 3, seed=0, **change)


@needs_data
@pytest.mark.slow
def test_a_view_of_handwritten_digits():
    """The prototype's best view: 95.5 to 95.9 %."""
    with np.load(DATA / "hw_mfeat.npz") as data:
        X, y = data["view3"].astype(float), data["y"]
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    assert accuracy(y, spectral_labels(X, 10, seed=0).labels) > 0.95
