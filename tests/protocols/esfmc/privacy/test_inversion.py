"""Model inversion on features of which it is known what they tell."""

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.protocols.esfmc.privacy import inversion_error

N, D, K = 600, 6, 4
RANDOM = np.random.default_rng(0)
TRUE = RANDOM.integers(0, K, N)
ROWS = RANDOM.normal(size=(K, D))[TRUE] * 2 + RANDOM.normal(size=(N, D))


def test_an_image_that_keeps_everything_gives_everything():
    image = np.tanh(0.2 * ROWS @ RANDOM.normal(size=(D, D)))
    assert inversion_error(image, ROWS) < 0.1
    assert inversion_error(image * 1e6 + 5.0, ROWS * 1e3) < 0.1  # whatever the units


def test_noise_gives_nothing_but_the_mean():
    assert inversion_error(RANDOM.normal(size=(N, 3)), ROWS) == pytest.approx(1.0, abs=0.15)


def test_labels_give_the_means_of_clusters():
    """What is left is the spread within clusters: the best that labels allow."""
    spread = sum(((ROWS[TRUE == k] - ROWS[TRUE == k].mean(axis=0)) ** 2).sum() for k in range(K))
    best = spread / ((ROWS - ROWS.mean(axis=0)) ** 2).sum()
    assert inversion_error(np.eye(K)[TRUE], ROWS) == pytest.approx(best, rel=0.12)


def test_fewer_columns_give_less():
    half = inversion_error(ROWS[:, : D // 2], ROWS)
    assert inversion_error(ROWS, ROWS) < half < 1.0


def test_a_constant_column_is_no_trouble():
    rows = np.hstack([ROWS, np.ones((N, 1))])
    assert inversion_error(rows, rows, known=0.8) < 0.1


def test_the_seed_decides():
    image = ROWS[:, :2]
    assert inversion_error(image, ROWS, seed=1) == inversion_error(image, ROWS, seed=1)
    assert inversion_error(image, ROWS, seed=1) != inversion_error(image, ROWS, seed=2)


@pytest.mark.parametrize("features", [ROWS[:-1], ROWS[:, 0]])
def test_tables_that_do_not_go_together_are_refused(features):
    with pytest.raises(InvalidInput, match="as many samples"):
        inversion_error(features, ROWS)
    with pytest.raises(InvalidInput, match="known"):
        inversion_error(ROWS, ROWS, known=1.0)
