"""Products modulo 2^64, of numbers, rows, matrices and bits."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.secure.shared import both, cut_bits, cut_numbers, inner, matmul, multiply, put_together
from daskfc.secure.shared.ring_products import _TERMS, _limbs, matrix_product
from tests.secure.shared.lockstep import in_lockstep, told
from tests.secure.shared.test_pairs import EXTREMES

# each limb at its ends, so that sums of products are the largest that there can be
WORST = np.array(
    [
        sum(limb << 22 * k for k, limb in enumerate(limbs)) % 2**64
        for limbs in itertools.product((-(2**21), 2**21 - 1), (-(2**21), 2**21 - 1), (2**19, 1))
    ],
    dtype=np.uint64,
)


def random_words(*shape):
    return np.random.default_rng(0).integers(0, 2**64, shape, dtype=np.uint64)


def packed(n, bits):
    """Return the bytes of n numbers of which so many bits are sent: whole bytes, and words."""
    return 8 * -(-n * -(-bits // 8) // 8)


def plain_product(x, y):
    return (x.astype(object) @ y.astype(object) % 2**64).astype(np.uint64)


@pytest.mark.parametrize(("program", "cut", "op"), [
    (multiply, cut_numbers, np.multiply), (both, cut_bits, np.bitwise_and),
])  # fmt: skip
def test_all_pairs_of_extremes(program, cut, op):
    values = np.concatenate([EXTREMES, random_words(20)])
    x, y = (one.ravel() for one in np.meshgrid(values, values))
    run = in_lockstep(program, cut(x), cut(y))
    assert np.array_equal(told(run), op(x, y))
    assert (run.n_rounds, run.n_bytes) == (1, 8 * x.size)


@pytest.mark.parametrize(("program", "cut", "op"), [
    (multiply, cut_numbers, np.multiply), (both, cut_bits, np.bitwise_and),
])  # fmt: skip
def test_shapes_are_broadcast(program, cut, op):
    x, y = random_words(3, 1, 5), random_words(4, 1)
    run = in_lockstep(program, cut(x), cut(y))
    assert np.array_equal(told(run), op(x, y))
    assert run.n_bytes == 8 * 3 * 4 * 5


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 3), (2, 4, 100)])
def test_an_inner_product_is_one_word(shape):
    x, y = random_words(*shape), random_words(*shape)[..., ::-1]
    run = in_lockstep(inner, cut_numbers(x), cut_numbers(y))
    expected = np.atleast_1d((x * y).sum(axis=-1, dtype=np.uint64))
    assert np.array_equal(told(run), expected)
    assert (run.n_rounds, run.n_bytes) == (1, 8 * expected.size)


@pytest.mark.parametrize(("n", "d", "m"), [(1, 1, 1), (20, 17, 30), (20, 1500, 17), (300, 3, 2)])
def test_a_matrix_product_is_one_word_an_entry(n, d, m):
    x, y = random_words(n, d), random_words(d, m)
    run = in_lockstep(matmul, cut_numbers(x), cut_numbers(y))
    assert np.array_equal(told(run), x @ y)
    assert (run.n_rounds, run.n_bytes) == (1, 8 * n * m)


@pytest.mark.parametrize("bits", [2, 8, 9, 31, 32, 33, 44, 45, 57])
@pytest.mark.parametrize(("n", "d", "m"), [(1, 1, 1), (3, 20, 5), (20, 30, 30)])
def test_the_lowest_bits_of_a_matrix_product(n, d, m, bits):
    x, y = random_words(n, d), random_words(d, m)
    run = in_lockstep(matmul, cut_numbers(x), cut_numbers(y), bits=bits)
    low = np.uint64(2**bits - 1)
    assert np.array_equal(put_together(*run.results[:2]) & low, (x @ y) & low)
    assert (run.n_rounds, run.n_bytes) == (1, packed(n * m, bits))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([(170, 9, 170), (20, _TERMS, 17), (17, _TERMS + 1, 18)]),
    st.sampled_from([WORST, EXTREMES]),
    st.integers(0, 2**32),
)
def test_limbs_are_exact_at_their_ends(shape, values, seed):
    n, d, m = shape
    rng = np.random.default_rng(seed)
    x, y = rng.choice(values, (n, d)), rng.choice(values, (d, m))
    assert np.array_equal(matrix_product(x, y), plain_product(x, y))
    low = np.uint64(2**44 - 1)
    assert np.array_equal(matrix_product(x, y, 44) & low, plain_product(x, y) & low)


@pytest.mark.parametrize("value", [*WORST, *EXTREMES])
def test_the_longest_sums_of_one_value_are_exact(value):
    """All products have one sign, and the bound 2^53 is nearly met."""
    x = np.full((17, _TERMS), value)
    assert np.array_equal(matrix_product(x, x.T.copy()), plain_product(x, x.T))


def test_limbs_are_in_their_ranges():
    values = np.concatenate([WORST, EXTREMES, random_words(10_000)])
    limbs = np.stack(_limbs(values, 3))
    assert (np.abs(limbs).max(axis=1) <= [2**21, 2**21, 2**19]).all()
    weights = [1, 1 << 22, 1 << 44]
    whole = [sum(int(a) * w for a, w in zip(row, weights, strict=True)) for row in limbs.T]
    assert [one % 2**64 for one in whole] == values.tolist()


def test_tiles_change_nothing(monkeypatch):
    x, y = random_words(100, 40), random_words(40, 33)
    monkeypatch.setattr("daskfc.secure.shared.ring_products._SMALL", 0)
    whole = matrix_product(x, y)
    for name, size in (("_ROWS", 7), ("_COLUMNS", 5), ("_TERMS", 11)):
        monkeypatch.setattr(f"daskfc.secure.shared.ring_products.{name}", size)
        assert np.array_equal(matrix_product(x, y), whole)
    assert np.array_equal(whole, x @ y)
