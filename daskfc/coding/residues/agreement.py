"""Keys that two parties share, by Diffie-Hellman agreement on Curve25519 (RFC 7748)."""

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from daskfc.coding.residues.streams import SecretKey
from daskfc.errors import InvalidInput

_BYTES = 32


class KeyPair:
    """A party's key pair, derived from a secret of 256 bits; the private key is never sent."""

    __slots__ = ("_private", "public")

    def __init__(self, secret: SecretKey) -> None:
        self._private = X25519PrivateKey.from_private_bytes(secret.to_bytes())
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def shared(self, other: bytes, purpose: str) -> SecretKey:
        """Return the key of a purpose that only the holders of the two private keys can derive."""
        try:
            if other == self.public:
                raise ValueError
            point = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise InvalidInput(
                "a public key must be 32 bytes, a point of Curve25519 of large order, and another "
                "party's; got something else. Nothing was sent."
            ) from None
        both = b"".join(sorted((self.public, other)))
        info = b"daskfc.agreement" + purpose.encode() + both
        return SecretKey(HKDF(hashes.SHA256(), _BYTES, salt=None, info=info).derive(point))

    def __repr__(self) -> str:
        return "KeyPair(hidden)"
