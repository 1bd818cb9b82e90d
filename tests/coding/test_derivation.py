"""Keys by the letter of RFC 5869, with the standard library: parties of all versions must agree."""

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from daskfc.coding import KeyPair, SecretKey, add_mask
from daskfc.errors import InvalidInput

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
