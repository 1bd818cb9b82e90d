"""A view's own unit: what networks see does not depend on the unit that a client keeps it in."""

import numpy as np
import pytest

from daskfc.errors import InvalidInput
from daskfc.protocols.esfmc.networks.units import Units

BYTES = np.random.default_rng(0).integers(0, 256, (5000, 7)).astype(np.float32)


def seen(rows):
    return Units.of(rows).applied(rows)


@pytest.mark.parametrize("factor", [1 / 256, 2.0**40])
def test_a_power_of_two_changes_no_bit(factor):
    assert np.array_equal(seen(BYTES * np.float32(factor)), seen(BYTES))


def test_other_units_change_what_rounding_changes():
    scaled = (BYTES / np.float32(255)).astype(np.float32)
    assert seen(scaled) == pytest.approx(seen(BYTES), abs=1e-6)
    assert seen(BYTES.astype(np.float64) + 1e9) == pytest.approx(seen(BYTES), abs=1e-6)


def test_columns_begin_at_0_the_widest_ends_at_1_and_they_compare_as_before():
    rows = seen(BYTES * [1, 1, 1, 1, 1, 1, 50] + 3)
    assert np.array_equal(rows.min(axis=0), np.zeros(7))
    assert rows.max(axis=0) == pytest.approx([1 / 50] * 6 + [1])


def test_columns_from_0_to_1_are_taken_as_they_are():
    rows = (BYTES / np.float32(255)).astype(np.float32)
    assert np.array_equal(seen(rows), rows)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_tiny_and_huge_values_are_no_exception(size):
    assert seen(BYTES.astype(np.float64) * size) == pytest.approx(seen(BYTES), abs=1e-6)


def test_equal_rows_and_columns_are_0():
    rows = np.full((3, 2), 7.3)
    assert np.array_equal(seen(rows), np.zeros((3, 2)))
    rows = np.array([[7.3, 0.0], [7.3, 1.0], [7.3, 5.0]])
    assert np.array_equal(seen(rows), [[0.0, 0.0], [0.0, np.float32(0.2)], [0.0, 1.0]])


def test_new_rows_are_seen_in_the_units_of_the_old():
    units = Units.of(BYTES)
    assert np.array_equal(units.applied(BYTES[5:6]), units.applied(BYTES)[5:6])


def test_rows_that_are_not_finite_stay_so_and_no_others():
    rows = BYTES.copy()
    rows[3, 2], rows[9, 0] = np.nan, np.inf
    assert np.flatnonzero(~np.isfinite(seen(rows)).all(axis=1)).tolist() == [3, 9]


@pytest.mark.parametrize("kind", ["code", "dates"])
def test_values_that_leave_float32_no_digits_of_others_are_refused(kind):
    """All other samples became the same one, without a word."""
    rows = np.random.default_rng(0).normal(size=(91, 3))
    if kind == "code":
        rows[-1] = 999_999_999.0
    else:
        rows[:3, 1] = [1.7e15, 1.8e15, 1.9e15]
    with pytest.raises(InvalidInput, match="step 'clip' in 'prepare'"):
        Units.of(rows)


@pytest.mark.parametrize(
    "rows",
    [
        np.exp(3.0 * np.random.default_rng(0).normal(size=(500, 3))),  # incomes
        np.eye(60),  # words, each of which one sample has
        np.ones((5, 2)),
        np.array([[0.0], [1e9]]),
        np.column_stack([np.arange(50.0), 1e9 * np.arange(50.0)]),
    ],
)
def test_heavy_tails_words_and_other_units_are_no_such_values(rows):
    assert Units.of(rows).width == (np.ptp(rows, axis=0).max() or 1.0)
