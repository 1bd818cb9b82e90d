"""The key of one start of a run, by which parties know that its submitter sent a call.

Calls pass the scheduler, which is not trusted: it can withhold calls, but not forge any.
"""

from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from daskfc.errors import PrivacyError

_CONTEXT = b"daskfc.call\n"  # so that no other signature passes for one of these
_LENGTH = 64


class SessionKey:
    """An Ed25519 key, drawn for one start of a run and kept in the driver's memory."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw().hex()

    def signed(self, content: bytes) -> bytes:
        """Return content behind its signature."""
        return self._key.sign(_CONTEXT + content) + content

    def __repr__(self) -> str:
        return f"SessionKey({self.public[:16]}...)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("the key of a session stays in its process")


def content_of_signed(public: str, data: bytes) -> bytes:
    """Return the content of `SessionKey.signed`; PrivacyError when the key did not sign it."""
    signature, content = bytes(data[:_LENGTH]), bytes(data[_LENGTH:])
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(signature, _CONTEXT + content)
    except (InvalidSignature, ValueError):
        raise PrivacyError(
            "a call was not signed by whoever began the run. Nothing was done; only the driver of "
            "a run may send its steps."
        ) from None
    return content
