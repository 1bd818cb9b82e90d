"""The study of federated k-means: its sets, a piece of it, and its page."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from pipelines.papers.kmeans import other_data, reproduce, tables
from pipelines.papers.kmeans.data import MANY, SETS


@pytest.mark.parametrize("name", SETS)
def test_sets_are_the_same_every_time(name):
    rows = SETS[name]()
    assert len(rows.X) >= 150
    assert 2 <= rows.k <= 10
    np.testing.assert_array_equal(rows.X, SETS[name]().X)


@pytest.mark.parametrize("name", MANY)
def test_most_rows_are_as_long_as_is_said(name):
    rows = MANY[name](5000)
    assert name.endswith(f"d = {rows.X.shape[1]}")
    inside = (np.linalg.norm(rows.X, axis=1) <= rows.largest_norm).mean()
    assert 0.95 < inside
    assert np.median(np.linalg.norm(rows.X, axis=1)) > rows.largest_norm / 4


def test_the_inertia_is_scikit_learns():
    rows = SETS["iris"]()
    model = KMeans(3, n_init=3, random_state=0).fit(rows.X)
    assert reproduce.inertia(rows.X, model.cluster_centers_) == pytest.approx(model.inertia_)


@pytest.mark.slow
def test_a_piece_has_a_fit_for_every_noise_and_seed(monkeypatch):
    monkeypatch.setattr(reproduce, "SEEDS", (0,))
    monkeypatch.setattr(reproduce, "EPSILONS", (4.0,))
    [(name, piece), *_] = list(reproduce.pieces("samples"))
    assert name == "samples, unequal clouds, d = 8, 1000"
    [noisy] = list(piece)
    assert 1.0 < noisy["ratio"] < 30
    assert [noisy[key] for key in ("epsilon", "n", "d", "k")] == [4.0, 1000, 8, 10]
    page = tables.render([noisy])
    assert f"{noisy['ratio']:.3f} ({noisy['ratio']:.3f})" in page
    assert "## With noise, by the number of samples" in page
    assert "## Without noise" not in page


def test_the_page_has_means_and_the_largest():
    one = {"kind": "inertia", "data": "a", "n": 5000, "d": 2, "k": 3, "epsilon": None, "rounds": 9,
           "uploaded": 3e4}  # fmt: skip
    page = tables.render([{**one, "ratio": 1.0}, {**one, "ratio": 1.002}])
    row = next(line for line in page.splitlines() if line.startswith("| a "))
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[1:-1] == ["a", "5,000", "2", "3", "1.0010", "1.0020", "9", "30"]


def test_the_page_of_other_sets_counts_those_within_the_goal():
    one = {"kind": "inertia", "n": 5000, "d": 2, "k": 3, "epsilon": None, "rounds": 9,
           "uploaded": 3e4}  # fmt: skip
    ratios = {"banknote": (1.0, 1.0018), "cora": (1.0, 1.004)}
    page = other_data.render(
        [{**one, "data": name, "ratio": ratio} for name, own in ratios.items() for ratio in own]
    )
    assert "which 1 of 2 reach" in page
    assert "| cora " in page
