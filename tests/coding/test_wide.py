"""Numbers beyond an int64: against Python's integers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.coding import (
    ENGINES,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    WideIntegers,
    choose_residues,
    coded_distances,
    quantise,
    reconstruct,
    reconstruct_wide,
)
from daskfc.coding.residues.modular import primes_below
from daskfc.errors import DecodingError
from tests.coding.test_scale import DEFAULTS

BYTES = primes_below(251, 13)
WORDS = primes_below(2**24 - 1, 4)


def whole(numbers):
    pairs = zip(numbers.near.ravel().tolist(), numbers.rest.ravel().tolist(), strict=True)
    return [int(near) + rest for near, rest in pairs]


@pytest.mark.parametrize("primes", [BYTES, WORDS], ids=["bytes", "words"])
@given(st.data())
def test_residues_tell_every_number(primes, data):
    M = math.prod(primes)
    edges = st.sampled_from([0, 1, 2**53 - 1, 2**53 + 1, 2**63, 2**64 + 1, M - 2, M - 1])
    numbers = data.draw(st.lists(edges | st.integers(0, M - 1), min_size=1, max_size=9))
    found = WideIntegers.of_residues(np.array([[x % p for x in numbers] for p in primes]), primes)
    assert whole(found) == numbers
    assert np.asarray(found).tolist() == [float(x) for x in numbers]
    for p in (2, 251, 2**24 - 3):
        assert (found % p).tolist() == [x % p for x in numbers]


def test_parts_of_arrays():
    numbers = WideIntegers(np.array([[1.0, 2.0**70], [0.0, 3.0]]), np.array([[0, -1], [5, 0]]))
    assert len(numbers) == 2
    assert numbers.shape == (2, 2)
    assert whole(numbers[:1]) == [1, 2**70 - 1]
    assert whole(WideIntegers.joined([numbers[1:], numbers[:1]])) == [5, 3, 1, 2**70 - 1]
    assert WideIntegers.joined([numbers, numbers], axis=1).shape == (2, 4)
    assert np.asarray(numbers, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(("n_points", "engine"), [(9, "f32"), (252, "f64")])
def test_coded_distances_are_exact_to_the_last_bit(n_points, engine):
    options = {**DEFAULTS, "n_features": 3, "n_columns": 3, "n_points": n_points}
    system = choose_residues(radius=1e12, **options, resolve=1e3)
    assert system.is_wide
    X = np.random.default_rng(0).normal(size=(12, 3))
    X[0] = [5e11, 2e11, 3.0]
    rows = quantise(X, system)
    code = LagrangeCode(1, 2, 6)
    shares = code.encode(rows, system, SecretKey.from_os())
    use = (5, 1, 2, 0, 3)
    answers = [coded_distances(shares[j], shares[j], system, ENGINES[engine]) for j in use]
    exact = [
        sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
        for x in rows.tolist()
        for y in rows.tolist()
    ]
    assert max(exact) > 2**64
    assert whole(reconstruct_wide(answers, use, code, system)) == exact
    answers[2] = answers[2].copy()
    answers[2][0] ^= 1  # many numbers with these residues lie beyond the bound
    with pytest.raises(DecodingError, match="exceeds the bound"):
        reconstruct_wide(answers, use, code, system)


def test_both_ways_of_decoding_agree():
    system = choose_residues(radius=4.0, **{**DEFAULTS, "n_features": 5, "n_columns": 5})
    assert not system.is_wide
    code = LagrangeCode(1, 1, 3)
    rows = quantise(np.random.default_rng(0).normal(size=(9, 5)), system)
    shares = code.encode(rows, system, SecretKey.from_os())
    answers = [coded_distances(one, one, system, ENGINES["f32"]) for one in shares]
    wide = reconstruct_wide(answers, (0, 1, 2), code, system)
    np.testing.assert_array_equal(wide, reconstruct(answers, (0, 1, 2), code, system))


@pytest.mark.parametrize(
    "primes", [(65519, 65521, 65537), (65537, 65539, 65543), (251, 241, 239, 233, 229, 227)]
)
def test_only_differences_below_2_to_the_24_are_decoded_as_int64(primes):
    system = ResidueSystem(primes, 1.0, 1)
    assert system.is_wide == (math.isqrt(system.modulus) >= 2**24)
