"""The nearest centre of each row is that of differences, also beside a centre that is far away."""

import numpy as np
import pytest

from daskfc.linalg import distances
from daskfc.secure.kmeans import nearest_labels


@pytest.mark.parametrize("code", [0.0, 1e6, 999_999_999.0, 1e12])
@pytest.mark.parametrize("apart", [4.0, 0.5])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("entries", [1, 1 << 18])
def test_a_code_for_missing_values_hides_no_centre(monkeypatch, code, apart, d, entries):
    """Products lost what tells the others apart, and labels were anybody's."""
    monkeypatch.setattr(distances, "_ENTRIES", entries)
    random = np.random.default_rng(0)
    rows = random.normal(0, 0.1 * apart, (440, d))
    rows[200:400, 1] += apart
    rows[400:, 0] = code
    parts = np.split(rows, [200, 400])
    centers = np.array([part.mean(axis=0) for part in parts])
    wanted = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert nearest_labels(rows, centers).tolist() == wanted.tolist()
    assert nearest_labels(rows, centers[:1]).tolist() == [0] * 440


def test_the_first_of_equal_centres_is_taken():
    centers = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert (
        nearest_labels(np.array([[0.0, 0.0], [2.0, 0.0], [0.1, 0.1]]), centers).tolist() == [0] * 3
    )
