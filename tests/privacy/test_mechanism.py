"""What leaves a client: whose input is refused, sums with noise, and names of releases."""

import hashlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfc.coding import SecretKey
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.privacy import (
    add_gaussian_noise,
    clip_matrix,
    clip_rows,
    input_digest,
    noise_label,
    normal_deviates,
)


def stream(number=0):
    return SecretKey.from_bytes(bytes(32)).derive("test", number).stream()


CLIPPED = [(clip_rows, "the rows to clip"), (clip_matrix, "the matrix to clip")]


@pytest.mark.parametrize(
    ("call", "values", "words"),
    [
        *(
            (call, values, f"{what} must have 2 axes")
            for call, what in CLIPPED
            for values in ([1.0, 2.0], 3.0, [[[1.0]]], np.ones((0, 2)), np.ones((2, 0)))
        ),
        *((call, [[1.0, np.inf]], f"{what} must be finite") for call, what in CLIPPED),
        (add_gaussian_noise, [], "the values to protect must hold at least one number"),
        (add_gaussian_noise, [1.0, np.nan], "the values to protect must be finite"),
    ],
)
def test_values_that_cannot_be_protected_are_refused(call, values, words):
    with pytest.raises(InvalidInput, match=words):
        call(values, 1.0)


def test_clipping_keeps_the_shape_and_the_zeros():
    Z = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, -4.0]])
    clipped, was = clip_matrix(Z, 2.5)
    np.testing.assert_allclose(clipped, Z / 2, rtol=1e-12)
    assert was
    rows, count = clip_rows(Z, 2.5)
    np.testing.assert_allclose(rows, Z / 2, rtol=1e-12)
    assert count == 1
    at_the_bound, count = clip_rows(Z, 5.0)
    np.testing.assert_array_equal(at_the_bound, Z)
    assert count == 0
    assert not np.shares_memory(at_the_bound, Z)


@pytest.mark.parametrize("kind", [np.int64, np.float32, bool])
def test_values_of_every_kind_are_treated_in_double_precision(kind):
    values = np.array([[3, 4], [0, 1], [1, 1]]).astype(kind)
    for bound in (0.7, 5.0):
        for call in (clip_rows, clip_matrix):
            got, want = call(values, bound)[0], call(values.astype(float), bound)[0]
            np.testing.assert_array_equal(got, want, strict=True)
    got, want = (
        add_gaussian_noise(v, 0.3, stream=stream()) for v in (values, values.astype(float))
    )
    np.testing.assert_array_equal(got, want, strict=True)


def test_the_largest_and_the_smallest_floats_are_clipped_quietly():
    most, least = np.finfo(float).max, np.finfo(float).smallest_subnormal
    X = np.array([[most, -most, most], [least, 0.0, 0.0], [0.0, 0.0, 0.0]])
    rows, count = clip_rows(X, 3.0)
    np.testing.assert_allclose(rows, [np.sqrt([3.0, 3.0, 3.0]) * [1, -1, 1], X[1], X[2]])
    assert count == 1
    assert clip_matrix(X, 3.0)[1]


@pytest.mark.parametrize("values", [2.5, [1.0, -2.0], np.arange(24).reshape(2, 3, 4)])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 700.0])
def test_the_noise_is_sigma_times_the_deviates_of_the_stream(values, sigma):
    noisy = add_gaussian_noise(values, sigma, stream=stream(4))
    noise = sigma * normal_deviates(np.shape(values), stream(4))
    assert noisy.dtype == np.float64
    assert noisy.shape == np.shape(values)
    np.testing.assert_allclose(noisy - values, noise, rtol=0, atol=sigma * 2.0**-29)


# the grid is coarsest, for its size, below a power of two
@pytest.mark.parametrize("sigma", [1.0, 1.5, np.nextafter(2.0, 0.0)])
def test_values_up_to_2_20_sigma_can_be_protected_and_no_larger(sigma):
    for sign in (-1.0, 1.0):
        noisy = add_gaussian_noise([0.0, sign * 2.0**20 * sigma], sigma, stream=stream(5))
        assert abs(noisy[1] - sign * 2.0**20 * sigma) < 10 * sigma
        with pytest.raises(PrivacyError, match=r"must be at most 2\*\*20 times"):
            add_gaussian_noise([0.0, sign * (2.0**20 + 1) * sigma], sigma, stream=stream(5))


@pytest.mark.parametrize("shape", [(), 3, (2, 3), (0, 2), ((1 << 17) + 5,)])
def test_deviates_fill_a_shape_in_order(shape):
    z = normal_deviates(shape, stream(6))
    assert z.shape == np.empty(shape).shape
    assert z.dtype == np.float64
    np.testing.assert_array_equal(z.ravel(), normal_deviates(z.size, stream(6)))
    assert len(np.unique(z)) == z.size


def test_deviates_are_the_quantiles_of_their_words():
    words = np.random.default_rng(0).integers(0, 2**64, 200, dtype=np.uint64)

    class Words:
        def fill(self, out):
            out[...] = words

    z = normal_deviates(200, Words())
    for word, got in zip(words.tolist(), z.tolist(), strict=True):
        assert (got > 0) == bool(word & 1)
        # 53 bits say how probable a larger number is
        beyond = math.erfc(abs(got) / math.sqrt(2.0))
        assert beyond == pytest.approx(((word >> 11) + 1) / 2**53, rel=1e-12)


X = np.arange(6.0).reshape(2, 3)
INPUTS = [
    (),
    (X,),
    (X, X),
    (X.reshape(3, 2),),
    (X.ravel(),),
    (X[None],),
    (X.T,),
    (X.astype(np.float32),),
    (X.astype(np.int64),),
    (X.astype(">f8"),),
    (X + np.eye(2, 3) * 2.0**-50,),
    (-X,),
    (X[:, ::-1],),
    (X, 0.1),
    (0.1, X),
    (X, 0.1, None),
    (X.tolist(),),
    (np.zeros((0, 3)),),
    (np.zeros((3, 0)),),
    (np.array(1.0),),
    (np.array([1.0]),),
    (np.float64(1.0),),
    (1.0,),
    (1,),
    (True,),
    ("1",),
    (b"1",),
    ("ab", "c"),
    ("a", "bc"),
    ("abc",),
    (("ab", "c"),),
    (["ab", "c"],),
    (None,),
]


def test_other_inputs_have_another_digest():
    digests = [input_digest(*inputs) for inputs in INPUTS]
    assert len(set(digests)) == len(INPUTS)
    assert all(len(digest) == 64 for digest in digests)


@given(st.permutations(range(4)))
def test_a_digest_tells_the_order(order):
    inputs = [X, "rows", 0.25, 3]
    same = input_digest(*(inputs[i] for i in order)) == input_digest(*inputs)
    assert same == (list(order) == [0, 1, 2, 3])


def test_equal_inputs_have_equal_digests_however_they_lie_in_memory():
    wide = np.zeros((2, 6))
    wide[:, ::2] = X
    for same in (X.copy(), np.asfortranarray(X), wide[:, ::2], X[::-1][::-1]):
        assert input_digest(same, 0.1, ("a", 1)) == input_digest(X, 0.1, ("a", 1))


def test_digests_and_labels_are_the_same_in_all_versions():
    """Else a step that is repeated later would release the same values under fresh noise."""
    framed = hashlib.sha256()
    for part in (b"<f8(2, 3)", struct.pack("<6d", *range(6)), b"float", b"0.1", b"str", b"'a'"):
        framed.update(struct.pack("<Q", len(part)) + part)
    assert input_digest(X, 0.1, "a") == framed.hexdigest()
    assert input_digest() == hashlib.sha256().hexdigest()
    label = noise_label("rows", sigma=2, clip=0.5, inputs="ab", round=3, purpose="test")
    assert label == (
        "noise",
        "rows",
        "0x1.0000000000000p+1",
        "0x1.0000000000000p-1",
        "ab",
        3,
        "test",
    )
    label = noise_label("rows", sigma=2.0, clip=None, inputs="ab")
    assert label == ("noise", "rows", "0x1.0000000000000p+1", "none", "ab", 0, "")


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "atoms"},
        {"sigma": np.nextafter(2.0, 3.0)},
        {"clip": np.nextafter(1.0, 0.0)},
        {"clip": None},
        {"inputs": "ac"},
        {"round": 1},
        {"purpose": "test"},
    ],
)
def test_every_other_release_has_another_label(change):
    known = {"mechanism": "rows", "sigma": 2.0, "clip": 1.0, "inputs": "ab"}
    label, other = noise_label(**known), noise_label(**(known | change))
    assert label != other
    assert len(label) == len(other)
    assert label == noise_label(**known)
