"""Fixed point, key agreement, Shamir's shares and masks: exactness, uniformity, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from daskfc.coding import (
    FixedPoint,
    KeyPair,
    SecretKey,
    add_mask,
    add_pair_masks,
    combine_shares,
    share_secret,
)
from daskfc.coding.codes.verify import _solve
from daskfc.coding.residues.shamir import _PRIME
from daskfc.errors import DecodingError, InvalidInput, OverflowRefused

# -- fixed point --------------------------------------------------------------------------------


@given(
    st.integers(1, 40),
    st.floats(1e-250, 1e250),
    st.lists(st.floats(-1, 1), min_size=1, max_size=6),
)
def test_sums_are_within_the_bound(n_terms, max_abs, shares):
    ring = FixedPoint.for_bound(max_abs, n_terms=n_terms)
    terms = [np.array(shares) * max_abs] * n_terms
    total = np.zeros(len(shares), np.uint64)
    for term in terms:
        total += ring.encode(term)
    for got, share in zip(ring.decode(total).tolist(), terms[0].tolist(), strict=True):
        exact = n_terms * Fraction(share)
        rounding = Fraction(max(abs(got), 5e-324)) / 2**52  # to float64, once
        assert abs(Fraction(got) - exact) <= Fraction(ring.error_bound) + rounding


def test_the_extremes_do_not_wrap():
    for n_terms in (1, 2, 3, 7, 1000):
        for max_abs in (1.0, 0.9999999, 3.7, 1e-30, 1e12):
            ring = FixedPoint.for_bound(max_abs, n_terms=n_terms)
            for sign in (1, -1):
                one = int(ring.encode(np.array([sign * max_abs])).view(np.int64)[0])
                assert -(2**63) <= n_terms * one < 2**63
            finer = ring.fraction_bits + 2  # room for at most one bit more was left
            assert n_terms * math.ldexp(max_abs, finer) >= 2**62


def test_overflow_raises_and_never_saturates():
    with pytest.raises(OverflowRefused, match=r"sum of 3 numbers .* does not fit"):
        FixedPoint(1.0, 3, 62)
    ring = FixedPoint.for_bound(2.0, n_terms=2)
    with pytest.raises(OverflowRefused, match=r"^some of 3 numbers .* exceed the agreed"):
        ring.encode(np.array([2.0, 2.0001, -17.0]))
    for bad in (np.nan, np.inf):
        with pytest.raises(InvalidInput, match=r"^some of 1 numbers"):
            ring.encode(np.array([bad]))
    for wrong in ({"max_abs": -1.0}, {"max_abs": np.nan}, {"n_terms": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            FixedPoint.for_bound(**{"max_abs": 1.0, "n_terms": 1, **wrong})


def test_nothing_but_zeros():
    ring = FixedPoint.for_bound(0.0, n_terms=5)
    assert ring.decode(ring.encode(np.zeros(3))).tolist() == [0.0] * 3


# -- keys ---------------------------------------------------------------------------------------


def test_two_parties_agree_and_a_third_does_not():
    a, b, c = (KeyPair(SecretKey.from_os()) for _ in range(3))
    assert a.shared(b.public, "x") == b.shared(a.public, "x")
    assert len({a.shared(b.public, "x"), a.shared(b.public, "y"), c.shared(b.public, "x")}) == 3
    assert "hidden" in repr(a)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(32), b"\1" + bytes(31)])
def test_keys_that_are_none(key):
    with pytest.raises(InvalidInput, match="public key must be 32 bytes"):
        KeyPair(SecretKey.from_os()).shared(key, "x")


def test_our_own_key_back_is_refused():
    own = KeyPair(SecretKey.from_os())
    with pytest.raises(InvalidInput, match="another party's"):
        own.shared(own.public, "x")


# -- Shamir -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "threshold"), [(1, 1), (2, 2), (5, 3), (7, 7), (9, 2)])
def test_any_threshold_of_shares_gives_the_secret(n, threshold):
    secret = bytes([255]) * 31 + bytes([n])
    shares = share_secret(secret, n, threshold, SecretKey.from_os().stream())
    assert len(shares) == n
    for subset in itertools.islice(itertools.combinations(range(n), threshold), 40):
        assert combine_shares({i: shares[i] for i in subset}, threshold) == secret
    assert combine_shares(dict(enumerate(shares)), threshold) == secret


@pytest.mark.parametrize("value", [2**256, 2**256 + 1, _PRIME - 1])
def test_shares_of_no_secret_of_32_bytes(value):
    """The prime lies a little above the secrets: forged shares may meet in between."""
    shares = {i: ((value + 7 * (i + 1)) % _PRIME).to_bytes(33, "little") for i in range(3)}
    with pytest.raises(DecodingError, match="contradict each other"):
        combine_shares(shares, 2)
    below = {i: (2**256 - 1 + 7 * (i + 1)).to_bytes(33, "little") for i in range(3)}
    assert combine_shares(below, 2) == b"\xff" * 32


def test_fewer_shares_fit_every_secret():
    """For t - 1 shares and any other secret there is a polynomial: they say nothing."""
    secret, other = bytes(32), bytes([9]) * 32
    shares = share_secret(secret, 4, 3, SecretKey.from_os().stream())
    seen = {0: int.from_bytes(shares[0], "little"), 2: int.from_bytes(shares[2], "little")}
    points = [(0, int.from_bytes(other, "little")), *((i + 1, v) for i, v in seen.items())]

    def through(x):
        total = 0
        for i, (a, value) in enumerate(points):
            for j, (b, _) in enumerate(points):
                if i != j:
                    value = value * (x - b) * pow(a - b, -1, _PRIME) % _PRIME
            total += value
        return total % _PRIME

    forged = {1: through(2).to_bytes(33, "little"), 0: shares[0], 2: shares[2]}
    assert combine_shares(forged, 3) == other


def test_shares_come_from_a_polynomial_of_full_degree():
    """Each power has a coefficient of its own: with equal ones, two shares would suffice."""
    threshold = 4
    shares = share_secret(bytes(32), threshold, threshold, SecretKey.from_os().stream())
    values = [int.from_bytes(share, "little") for share in shares]
    rows = [[pow(x, e, _PRIME) for e in range(threshold)] for x in range(1, threshold + 1)]
    coefficients = _solve(rows, values, _PRIME)
    assert coefficients[0] == 0  # the secret
    assert len(set(coefficients)) == threshold


def test_shares_look_uniform():
    """The top byte of the residue, over many sharings of one secret."""
    key = SecretKey.from_bytes(bytes(range(32)))
    first = [
        int.from_bytes(share_secret(bytes(32), 3, 2, key.derive(i).stream())[0], "little")
        for i in range(4096)
    ]
    counts = np.bincount([value * 16 // _PRIME for value in first], minlength=16)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_the_prime_is_one():
    d, r = _PRIME - 1, 0
    while d % 2 == 0:
        d, r = d // 2, r + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):  # Miller and Rabin
        x = pow(base, d, _PRIME)
        assert x in (1, _PRIME - 1) or any(pow(x, 2**i, _PRIME) == _PRIME - 1 for i in range(1, r))


def test_shares_that_are_missing_or_wrong():
    shares = dict(enumerate(share_secret(bytes(32), 5, 3, SecretKey.from_os().stream())))
    with pytest.raises(DecodingError, match="needs 3 of its shares; got 2"):
        combine_shares({i: shares[i] for i in (0, 1)}, 3)
    shares[4] = bytes([shares[4][0] ^ 1]) + shares[4][1:]
    with pytest.raises(DecodingError, match="contradict each other"):
        combine_shares(shares, 3)
    for wrong in ((bytes(31), 3, 2), (bytes(32), 3, 4), (bytes(32), 3, 0)):
        with pytest.raises(InvalidInput):
            share_secret(*wrong, SecretKey.from_os().stream())


# -- masks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 6])
@pytest.mark.parametrize("size", [0, 1, 1000, 70_001])
def test_masks_vanish_in_the_sum(m, size):
    rng = np.random.default_rng(0)
    names = [f"client-{i}" for i in range(m)]
    key = SecretKey.from_os()
    pair = {frozenset(two): key.derive(*sorted(two)) for two in itertools.combinations(names, 2)}
    arrays = {name: rng.integers(0, 2**63, size, dtype=np.uint64) for name in names}
    total = np.zeros(size, np.uint64)
    for name, values in arrays.items():
        masked = values.copy()
        others = {o: pair[frozenset((name, o))] for o in names if o != name}
        add_pair_masks(masked, name, others)
        assert size < 1000 or (masked == values).mean() < 0.001
        total += masked
    np.testing.assert_array_equal(total, sum(arrays.values(), np.zeros(size, np.uint64)))


def test_a_masked_constant_looks_uniform():
    masked = np.zeros(1 << 16, np.uint64)
    add_mask(masked, SecretKey.from_bytes(bytes(range(32))))
    words = masked.view(np.uint8).reshape(-1, 8)
    for byte in range(8):
        assert stats.chisquare(np.bincount(words[:, byte], minlength=256)).pvalue > 1e-5
    assert abs(np.corrcoef(masked[:-1].astype(float), masked[1:].astype(float))[0, 1]) < 0.02
