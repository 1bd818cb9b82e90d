"""The key by which a party signs its ledger."""

import os
import secrets
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from daskfc.coding.residues.streams import SecretKey
from daskfc.federation.identity.durable_secret import durable_secret

_CONTEXT = b"daskfc.ledger\n"  # so that no other signature passes for one of these
_OF_KEY = 32  # digits of the public key in a message's id, 128 bits
ID_LENGTH = _OF_KEY + 1 + 16
"""Characters in the id of a message."""


class LedgerKey:
    """An Ed25519 key, the same for the same party's secret; `public` is 64 hexadecimal digits."""

    def __init__(self, secret: SecretKey) -> None:
        derived = secret.derive("ledger", "Ed25519").to_bytes()
        self._key = Ed25519PrivateKey.from_private_bytes(derived)
        self.public = self._key.public_key().public_bytes_raw().hex()

    @classmethod
    def of_folder(cls, folder: str | os.PathLike[str]) -> "LedgerKey":
        """Return the key of the party whose `durable_secret` lies in a folder."""
        return cls(durable_secret(folder))

    def sign(self, line: bytes) -> str:
        """Return the signature of a line, 128 hexadecimal digits."""
        return self._key.sign(_CONTEXT + line).hex()

    def new_id(self) -> str:
        """Return a message id: half of the public key, to name the sender, and 64 random bits."""
        return f"{self.public[:_OF_KEY]}-{secrets.token_hex(8)}"

    def __repr__(self) -> str:
        return f"LedgerKey({self.public[:16]}...)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("the key of a ledger stays in its process")


def signer_of(message_id: str) -> str:
    """Return the half of a public key that a message's id begins with."""
    return message_id[:_OF_KEY]


def signed_by(public: str, line: bytes, signature: str) -> bool:
    """Return whether a line's signature is that of a public key; both are hexadecimal digits."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), _CONTEXT + line)
    except (InvalidSignature, ValueError):
        return False
    return True
