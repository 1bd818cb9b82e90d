"""Keys by the letter of RFC 5869, with the standard library: parties of all versions must agree."""

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from daskfc.coding import (
    HidingPolynomial,
    KeyPair,
    LagrangeCode,
    ResidueSystem,
    SecretKey,
    add_mask,
    share_secret,
)
from daskfc.coding.codes.hiding import _free_evaluators
from daskfc.errors import InvalidInput
from tests.coding.conftest import hiding_values

KEY = bytes(range(32))


def mac(key, content):
    return hmac.new(key, content, hashlib.sha256).digest()


def expand(key, info, n):
    blocks = [b""]
    while 32 * (len(blocks) - 1) < n:
        blocks.append(mac(key, blocks[-1] + info + bytes([len(blocks)])))
    return b"".join(blocks)[:n]


def counter_mode(key, n):
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(n))


@pytest.mark.parametrize(
    ("labels", "info"),
    [
        ((), b""),
        (("encode", 3), b"s\6\0\0\0encode" + b"i\1\0\0\0003"),
        (("encode", "3"), b"s\6\0\0\0encode" + b"s\1\0\0\0003"),
        (("é",), b"s\2\0\0\0\xc3\xa9"),
        (("x" * 300, -12), b"s\x2c\1\0\0" + b"x" * 300 + b"i\3\0\0\0-12"),
    ],
)
def test_keys_of_a_purpose(labels, info):
    derived = SecretKey(KEY).derive(*labels).to_bytes()
    assert derived == expand(KEY, b"daskfc.derive" + info, 32)


def test_the_fingerprint():
    told = int.from_bytes(expand(KEY, b"daskfc.fingerprint", 8), "little") >> 1
    assert SecretKey(KEY).fingerprint() == hash(SecretKey(KEY)) == told


def test_the_main_and_the_spare_stream():
    keys = expand(KEY, b"daskfc.stream", 64)
    assert SecretKey(KEY).stream().bytes(100) == counter_mode(keys[:32], 100)
    stream = SecretKey(KEY).stream()
    main = np.frombuffer(counter_mode(keys[:32], 4000), dtype="<u2")
    spare = iter(np.frombuffer(counter_mode(keys[32:], 4000), dtype="<u2").tolist())
    limit = 2**16 - 2**16 % 251
    words = [w if w < limit else next(s for s in spare if s < limit) for w in main.tolist()]
    assert stream.uniform(251, 2000).tolist() == [w % 251 for w in words]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_mask_is_the_main_stream(sign):
    size = 2**15 + 7  # in two chunks
    values = np.arange(size, dtype=np.uint64)
    add_mask(values, SecretKey(KEY), sign)
    keys = expand(KEY, b"daskfc.stream", 64)
    mask = np.frombuffer(counter_mode(keys[:32], 8 * size), dtype="<u8")
    expected = np.arange(size, dtype=np.uint64)
    np.testing.assert_array_equal(values, expected + mask if sign == 1 else expected - mask)


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (40_000, 2), (2, 40_000)])
def test_the_mask_of_an_array_is_that_of_its_entries_in_order(shape):
    values = np.zeros(shape, np.uint64)
    add_mask(values, SecretKey(KEY))
    keys = expand(KEY, b"daskfc.stream", 64)
    mask = np.frombuffer(counter_mode(keys[:32], values.nbytes), dtype="<u8")
    np.testing.assert_array_equal(values.ravel(), mask)


@pytest.mark.parametrize("primes", [(251, 227), (9562603, 9562591)])
def test_what_a_free_evaluator_adds(primes):
    """The stream of the key, the block, the prime and the evaluator: all clients must agree."""
    code, system = LagrangeCode(1, 1, 3), ResidueSystem(primes, 1.0, 10)
    shape, block, key = (70, 80), (3, 5), SecretKey(KEY)
    for j in range(3):
        found = hiding_values(code, system, j, key, block, shape)
        for a, p in enumerate(primes):
            if j in _free_evaluators(code, p, sum(block)):
                label = (
                    b"s\6\0\0\0hiding" + b"i\1\0\0\0003" + b"i\1\0\0\0005"
                    + b"i" + bytes([len(str(p)), 0, 0, 0]) + str(p).encode()
                    + b"i\1\0\0\000" + str(j).encode()
                )  # fmt: skip
                stream = SecretKey(expand(KEY, b"daskfc.derive" + label, 32)).stream()
                np.testing.assert_array_equal(found[a], stream.uniform(p, shape))


@pytest.mark.parametrize(
    ("primes", "dtype"), [((251,), np.int32), ((257,), np.int64), ((16777213,), np.int64)]
)
def test_factors_are_as_wide_as_their_sums(primes, dtype):
    code, system = LagrangeCode(1, 1, 3), ResidueSystem(primes, 1.0, 10)
    for j in range(3):
        words = HidingPolynomial(code, system, j, SecretKey(KEY), (0, 0)).words(0)
        for _, _, factors in words.strips((0, 0, 2, 2)):
            assert factors.dtype == dtype


def test_the_shares_of_a_secret():
    """Horner's rule on the secret and on 64 bytes of the stream for each power."""
    prime = 2**256 + 297
    shares = share_secret(KEY, 5, 4, SecretKey(KEY).stream())
    raw = counter_mode(expand(KEY, b"daskfc.stream", 64)[:32], 192)
    powers = [int.from_bytes(raw[i : i + 64], "little") for i in (0, 64, 128)]
    coefficients = [int.from_bytes(KEY, "little"), *powers]
    expected = [
        sum(c * x**power for power, c in enumerate(coefficients)) % prime for x in range(1, 6)
    ]
    assert [int.from_bytes(share, "little") for share in shares] == expected
    assert {len(share) for share in shares} == {33}


def test_the_key_that_two_parties_share():
    other = KeyPair(SecretKey(KEY[::-1]))
    own = X25519PrivateKey.from_private_bytes(KEY)
    public = own.public_key().public_bytes_raw()
    point = own.exchange(X25519PublicKey.from_public_bytes(other.public))
    info = b"daskfc.agreement" + b"masks" + min(public, other.public) + max(public, other.public)
    shared = KeyPair(SecretKey(KEY)).shared(other.public, "masks")
    assert shared.to_bytes() == expand(mac(bytes(32), point), info, 32)
    assert KeyPair(SecretKey(KEY)).public == public
    assert repr(other) == "KeyPair(hidden)"


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_another_length_are_refused(size):
    with pytest.raises(InvalidInput, match=f"must have 32 bytes; got {size}"):
        SecretKey(bytes(size))
