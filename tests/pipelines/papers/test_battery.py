"""The pure parts of the program that compares OmniFC with scikit-learn on public data sets."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from pipelines.papers.omnifc import battery, battery_tables
from pipelines.papers.public_data import DATASETS, MOST
from tests.pipelines.papers.pages import row_of

TIED = np.random.default_rng(1).integers(0, 6, (60, 2)).astype(float)
GRID = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)


def record(data, clusterer, index, **more):
    about = {"kind": "battery", "data": data, "n": 1150, "d": 4, "k": 3, "clusterer": clusterer}
    return {**about, "index": index, **more}


def test_there_are_at_least_25_sets_and_those_of_the_library_are_whole():
    assert len(DATASETS) >= 25
    for name in ("iris", "wine", "diabetes", "linnerud-body", "linnerud-exercise"):
        found = DATASETS[name].samples(None)
        assert found.X.dtype == np.float64
        assert len(found.X) == len(found.y)
        assert found.n_clusters >= 2


def test_large_sets_are_drawn_from_the_same_each_time(tmp_path):
    n = MOST + 500
    np.savez(tmp_path / "mnist.npz", X=np.arange(2 * n).reshape(n, 2), y=np.arange(n) % 3)
    one, other = (DATASETS["mnist"].samples(tmp_path) for _ in range(2))
    assert np.array_equal(one.X, other.X)
    assert len(one.X) == MOST
    assert np.array_equal(one.X[:, 0] // 2 % 3, one.y)
    assert (np.diff(one.X[:, 0]) > 0).all()


@pytest.mark.parametrize("X", [GRID, np.random.default_rng(0).normal(size=(80, 3))])
def test_the_radius_makes_most_samples_core_and_is_no_distance(X):
    radius = battery.radius_of(X)
    assert not np.isclose(pdist(X), radius, rtol=0, atol=1e-9).any()
    near = (np.linalg.norm(X[:, None] - X, axis=2) <= radius).sum(axis=1)
    assert np.mean(near >= battery.MIN_SAMPLES) >= 0.9


def test_ties_show_in_scikit_learn_itself():
    labels = battery.pooled("single", GRID, 5, 1.0)
    found = battery.other_orders("single", GRID, 5, 1.0, labels)
    assert found["rows"] < 1.0  # all neighbours are equally near
    apart = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    labels = battery.pooled("single", apart, 3, 1.0)
    assert battery.other_orders("single", apart, 3, 1.0, labels) == {"rows": 1.0, "columns": 1.0}


def test_scikit_learn_reads_the_order_of_distances():
    """So that its labels of tied samples do not hang on how they are listed."""
    moved = np.random.default_rng(0).permutation(len(TIED))
    labels, again = (battery.in_order("single", X, 5, 1.0) for X in (TIED, TIED[moved]))
    assert np.array_equal(labels[moved], again)
    other = battery.pooled("single", TIED, 5, 1.0)[moved]
    assert not np.array_equal(other, battery.pooled("single", TIED[moved], 5, 1.0))


def test_inertia_is_that_of_the_library():
    from sklearn.cluster import KMeans

    X = np.random.default_rng(0).normal(size=(50, 3))
    model = KMeans(4, n_init=1, random_state=0).fit(X)
    assert battery.inertia(X, model.labels_) == pytest.approx(model.inertia_)


def test_the_section_counts_what_is_the_same_and_explains_the_rest():
    text = battery_tables.render([
        record("iris", "ward", 1.0), record("iris", "single", 0.99999, rows=0.5, columns=1.0),
        record("iris", "k-means", 0.9, seed=0.8, inertia=0.99999),
        record("iris", "spectral", 1.0, seed=1.0),
    ])  # fmt: skip
    assert "**1 of 2** are the same" in text
    first, second, third = text.split("\n## ")[1:]
    assert row_of(first, "iris")[2:] == ["1,150", "4", "3", "1", "0.999", "–", "–"]
    assert row_of(second, "iris", "single")[2:] == ["0.999", "0.500", "1"]
    assert row_of(third, "iris")[1:] == ["0.900", "0.800", "1.0000", "1", "1"]
    assert "Nowhere." in battery_tables.render([record("iris", "ward", 1.0)])
