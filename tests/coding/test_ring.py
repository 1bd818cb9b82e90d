"""Fixed-point numbers at their limits: the largest sum that fits, the finest that is exact."""

import math

import numpy as np
import pytest

from daskfc.coding import FixedPoint
from daskfc.errors import InvalidInput, OverflowRefused


def test_the_roundings_of_many_terms_count():
    """2**20 terms of 2**43 - 1/2 each round to 2**43: their sum is 2**63, one too many."""
    assert round(2**43 - 0.5) == 2**43
    with pytest.raises(OverflowRefused, match="sum of 1048576 numbers"):
        FixedPoint(2.0**43 - 0.5, 2**20, 0)
    ring = FixedPoint(2.0**43 - 1, 2**20, 0)
    one = int(ring.encode(np.array([ring.max_abs]))[0])
    assert 2**20 * one == 2**63 - 2**20


@pytest.mark.parametrize("n_terms", [1, 2, 4096, 2**40])
@pytest.mark.parametrize("exponent", [-30, 0, 1, 50])
def test_every_bound_has_fraction_bits(n_terms, exponent):
    """Also the largest float64 below a power of two, whose roundings need the spare bit."""
    largest = math.nextafter(2.0**exponent, 0)
    ring = FixedPoint.for_bound(largest, n_terms=n_terms)
    assert ring.fraction_bits == 62 - exponent - int(math.log2(n_terms))
    assert n_terms * int(ring.encode(np.array([largest]))[0]) < 2**63


def test_the_bits_of_nothing_but_zeros():
    assert FixedPoint.for_bound(0.0, n_terms=1).fraction_bits == 62


@pytest.mark.parametrize("bits", [-900, 900])
def test_fraction_bits_have_limits(bits):
    assert FixedPoint(0.0, 1, bits).fraction_bits == bits
    with pytest.raises(InvalidInput, match=r"in \[-900, 900\]; got -?901"):
        FixedPoint(0.0, 1, bits + (1 if bits > 0 else -1))


def test_bounds_beyond_the_limits():
    """Tiny numbers get 900 bits, as fine as float64 may be; huge ones fit no 64."""
    assert FixedPoint.for_bound(1e-300, n_terms=1).fraction_bits == 900
    with pytest.raises(OverflowRefused, match="with -900 fraction bits does not fit"):
        FixedPoint.for_bound(1e300, n_terms=1)


@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [-np.inf], [1.0, np.nan]])
def test_numbers_that_are_none(bad):
    with pytest.raises(InvalidInput, match="are NaN or infinite"):
        FixedPoint.for_bound(2.0, n_terms=1).encode(np.array(bad))


@pytest.mark.parametrize("outside", [3.0, -3.0, math.nextafter(2, 3), -math.nextafter(2, 3)])
def test_numbers_outside_the_bound_on_either_side(outside):
    ring = FixedPoint.for_bound(2.0, n_terms=1)
    with pytest.raises(OverflowRefused, match=r"^some of 2 numbers"):
        ring.encode(np.array([outside, 0.0]))
    with pytest.raises(OverflowRefused, match=r"^some of 1 numbers"):
        ring.encode(np.array([outside]))
    ring.encode(np.array([2.0, -2.0]))


def test_arrays_without_numbers():
    ring = FixedPoint.for_bound(2.0, n_terms=1)
    found = ring.encode(np.empty((0, 3)))
    assert (found.dtype, found.shape) == (np.uint64, (0, 3))
    assert ring.decode(found).shape == (0, 3)


def test_numbers_of_other_types_are_numbers():
    """A float32 would overflow by the scale of tiny numbers."""
    ring = FixedPoint.for_bound(1e-30, n_terms=1)
    single = np.array([9e-31, -5e-31], np.float32)
    np.testing.assert_array_equal(ring.encode(single), ring.encode(single.astype(np.float64)))
    whole = FixedPoint.for_bound(5.0, n_terms=1)
    assert whole.decode(whole.encode(np.array([3, -5]))).tolist() == [3.0, -5.0]
    total = whole.decode(whole.encode(np.array([3.5])))
    assert (total.dtype, total.tolist()) == (np.float64, [3.5])
