"""Bounds of the residue system where they bite: the last that passes, the first that fails."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from daskfc.coding import (
    BYTE_PRIMES,
    ENGINES,
    GRIDS,
    ResidueSystem,
    choose_residues,
    detect_grids,
    quantise,
)
from daskfc.coding.residues.modular import balanced, is_prime, residue_dtype
from daskfc.errors import InvalidInput, OverflowRefused

DEFAULTS = dict(n_features=1, tolerance=1e-4, grids=1, n_columns=2, n_points=11, radius=5.0)


def choose(**changes):
    return choose_residues(**{**DEFAULTS, **changes})


def on_grids(*values):
    mask = detect_grids(np.array([values]))
    return [grid for i, grid in enumerate(GRIDS) if mask >> i & 1]


# -- grids --------------------------------------------------------------------------------------


def test_a_value_may_be_off_its_grid_by_three_roundings():
    """One unit in the last place of 1000 is 1.024 roundings of float64."""
    unit = math.ulp(1000.0)
    assert 1 in on_grids(1000 + 2 * unit)
    assert 1 not in on_grids(1000 + 3 * unit)


def test_large_values_may_be_off_by_less():
    """Three roundings of a float32 are more than 1/256 at 64000, but more than that is refused."""
    x = 1000 + 1 / 64 + 2.0**-14  # a float32, the next one to a 64th
    assert 64 in on_grids(x)
    assert 128 not in on_grids(x)


def test_a_double_is_held_to_its_own_precision():
    """0.1 up to 1e-8 would pass for a float32."""
    assert on_grids(0.1) == [10, 100, 1000]
    assert on_grids(0.1 + 1e-9) == []
    assert on_grids(float(np.float32(0.1))) == [10, 100, 1000]


@pytest.mark.parametrize("off", range(20))
def test_every_row_is_looked_at(off):
    X = np.ones((20, 2))
    X[off, 1] = math.pi
    assert detect_grids(X) == 0


def test_values_beyond_float32_are_on_every_grid():
    """Without a warning: they are integers."""
    assert on_grids(1e300) == list(GRIDS)


# -- the choice ---------------------------------------------------------------------------------


def test_the_bound_is_one_above_the_largest_distance():
    """(2 * 100 + sqrt(4))**2: integer rows within the radius, rounding included."""
    assert choose(radius=100.0, n_features=4).bound == 202**2 + 1
    assert choose(radius=5.0, n_features=4).bound == 12**2 + 1


@pytest.mark.parametrize(("square", "count"), [(249.5, 1), (250.5, 2)])
def test_the_modulus_exceeds_the_bound(square, count):
    system = choose(radius=(math.sqrt(square) - 1) / 2)
    assert system.bound == int(square) + 1
    assert system.primes == BYTE_PRIMES[:count]


@pytest.mark.parametrize("grid", GRIDS)
def test_the_coarsest_common_grid_is_the_scale(grid):
    above = sum(1 << i for i, other in enumerate(GRIDS) if other >= grid)
    assert choose(grids=above).scale == grid


@pytest.mark.parametrize(("tolerance", "d"), [(1e-4, 784), (0.5, 3), (0.5, 100), (0.01, 10_000)])
def test_the_scale_solves_the_equation_of_the_error(tolerance, d):
    """tolerance**2 = 2/3 u + (d u / 6)**2 with u = 1 / (S**2 Dm), for S / 2**j; j is the largest.

    A grid as much finer by two as the same primes hold costs nothing.
    """
    system = choose(grids=0, tolerance=tolerance, n_features=d, mean_square=7.0)

    def error(scale):
        u = 1 / (Fraction(scale) ** 2 * 7)
        return float(Fraction(2, 3) * u + (d * u / 6) ** 2)

    halved = [error(system.scale / 2**j) for j in range(5)]
    assert min(abs(one / tolerance**2 - 1) for one in halved) < 1e-12
    assert halved[0] <= tolerance**2 * (1 + 1e-12)
    assert (4 * 5.0 * system.scale + math.sqrt(d)) ** 2 > system.modulus


def test_points_all_the_same_have_scale_1():
    assert choose(radius=0.0, grids=0).scale == 1.0


@pytest.mark.parametrize(("n_points", "primes"), [(251, (251,)), (241, (251,)), (240, (251,))])
def test_a_prime_has_as_many_points_as_residues(n_points, primes):
    assert choose(n_points=n_points).primes == primes


def test_more_points_than_a_byte_has_residues():
    assert choose(n_points=252).primes[0] > 251


@pytest.mark.parametrize("n_columns", [200, 392, 1000, 9998])
def test_the_long_primes_are_the_largest_with_exact_products(n_columns):
    """(k + 2) ((p - 1) / 2)**2 <= 2**53 in one product of float64, norms included."""

    def exact(p):
        return (n_columns + 2) * ((p - 1) // 2) ** 2 <= 2**53

    p = choose(n_columns=n_columns, n_points=252).primes[0]
    assert exact(p)
    assert ENGINES["f64"].chunk(p) >= n_columns + 2
    following = next(q for q in range(p + 1, 2**25) if is_prime(q))
    assert not exact(following)
    alone = choose(n_columns=n_columns, n_points=p)
    assert alone.primes == (p,)  # p points differ modulo p


def test_few_columns_take_the_largest_primes_of_24_bits():
    assert choose(n_columns=1, n_points=252).primes == (16777213,)


def test_as_few_bytes_as_hold_the_bound():
    """Thirteen bytes hold 100.8 bits; 2 radius + 1 of 50 bits needs them all."""
    assert len(choose(radius=(2**50 - 1) / 2, tolerance=1e-17).primes) == 13
    assert choose(radius=(2**19 - 1) / 2).primes == BYTE_PRIMES[:5]


@pytest.mark.parametrize("radius", [1e7, 1e8])
def test_the_refusal_counts_bits(radius):
    """2 log2(2 rho S + sqrt(d)) of the last scale tried."""
    with pytest.raises(OverflowRefused) as refused:
        choose(radius=radius, tolerance=1e-9, n_features=400, mean_square=1.0, grids=0)
    needed = float(re.search(r"need (\S+) bits", str(refused.value)).group(1))
    u = 3e-18  # 1.5 tolerance**2 at most; d hardly counts
    assert needed == pytest.approx(2 * math.log2(2 * radius / math.sqrt(u / 2) + 20), abs=0.06)


def test_the_refusal_counts_the_roundings():
    with pytest.raises(OverflowRefused, match=r"need 110\.0 bits; the primes for 240 points"):
        choose(radius=0.0, n_features=2**110, n_points=240)


# -- far out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("grids", [0, 1])
def test_a_radius_without_a_square_is_refused(grids):
    with pytest.raises(InvalidInput, match=r"'radius' .* its square finite; got 1e\+200"):
        choose(radius=1e200, grids=grids)


def test_a_grid_whose_distances_are_infinite_gives_way_to_the_tolerance():
    system = choose(radius=1e153, grids=1 << GRIDS.index(1000))
    assert 0 < system.scale < 1e-140


@pytest.mark.parametrize(
    "changes",
    [{"radius": 1e-160}, {"tolerance": 1e-170}, {"mean_square": 5e-324}, {"mean_square": 1e-310}],
)
def test_scales_beyond_all_numbers_are_refused(changes):
    with pytest.raises(OverflowRefused, match="bits"):
        choose(grids=0, **changes)


# -- systems and rows ---------------------------------------------------------------------------


def test_a_system_may_hold_nothing_but_zeros():
    assert ResidueSystem((251,), 1.0, 0).bound == 0
    with pytest.raises(OverflowRefused):
        ResidueSystem((251,), 1.0, -1)


def test_a_row_at_the_bound_is_inside():
    """4 |x|**2 = B: two such rows at opposite ends are sqrt(B) apart."""
    X = np.array([[3.0, 4.0], [-3.0, -4.0]])
    rows = quantise(X, ResidueSystem((251,), 1.0, 100))
    assert rows.dtype == np.int64
    assert ((rows[0] - rows[1]) ** 2).sum() == 100
    with pytest.raises(OverflowRefused, match="some of 2 rows"):
        quantise(X, ResidueSystem((251,), 1.0, 99))


def test_neither_rows_that_are_no_numbers_nor_those_outside_are_counted():
    """Without a warning where their scaled values overflow.

    Whoever chooses the radius, or prepares rows, would learn from counts how many lie beyond.
    """
    X = np.array([[np.nan, np.inf], [0.0, 1.0], [np.nan, 0.0]])
    with pytest.raises(InvalidInput, match=r"^some of 3 rows hold NaN"):
        quantise(X, ResidueSystem((251,), 1.0, 99))
    said = set()
    for last in (1.0, 1e308):
        with pytest.raises(OverflowRefused, match=r"^some of 2 rows lie outside") as refused:
            quantise(np.array([[1e308, 0.0], [0.0, last]]), ResidueSystem((251,), 5.0, 200))
        said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.parametrize("p", [2, 3, 5, 227, 251])
def test_balanced_residues_are_the_smallest(p):
    found = [balanced(x, p) for x in range(-p, 2 * p)]
    assert all((x - y) % p == 0 for x, y in zip(range(-p, 2 * p), found, strict=True))
    assert set(found) == set(range(-((p - 1) // 2), p // 2 + 1))


def test_the_dtype_of_residues():
    assert [residue_dtype(p) for p in (2, 251, 256)] == [np.uint8] * 3
    assert [residue_dtype(p) for p in (257, 2**24 - 3, 2**24)] == [np.uint32] * 3
    with pytest.raises(InvalidInput, match=r"at most 2\*\*24; got 16777259"):
        residue_dtype(16777259)
