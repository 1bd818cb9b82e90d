"""What the parties of a sum send each other."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from daskfc.coding import SHARE_BYTES
from daskfc.federation import Message, array, noise_multiplier, text

__all__ = ["KeyShares", "MaskedPart", "PlainPart", "PublicKeys", "RevealedShares"]


@dataclass(frozen=True)
class PlainPart(Message):
    """One client's array."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → server"
    reveals: ClassVar = "the client's own array"
    values: np.ndarray = array("row", "column", dtype="float64")
    noise_multiplier: float = noise_multiplier()


@dataclass(frozen=True)
class PublicKeys(Message):
    """Public halves of keys for Diffie and Hellman's agreement."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → client"
    reveals: ClassVar = "nothing; a public key says nothing of the private one"
    keys: np.ndarray = array("key", 32, dtype="uint8")


@dataclass(frozen=True)
class KeyShares(Message):
    """Shamir shares of a client's mask keys, encrypted for one receiver."""

    protection: ClassVar = "coded"
    route: ClassVar = "client → client"
    reveals: ClassVar = "nothing, unless a threshold of receivers pool their shares"
    sealed: np.ndarray = array("byte", dtype="uint8")


@dataclass(frozen=True)
class MaskedPart(Message):
    """One client's array in fixed point, behind masks that vanish in the sum."""

    protection: ClassVar = "masked"
    route: ClassVar = "client → server"
    reveals: ClassVar = "nothing but the sum over the clients"
    tag: str = text(64)
    public: np.ndarray = array("key", 32, dtype="uint8")
    values: np.ndarray = array("row", "column", dtype="uint64")
    noise_multiplier: float = noise_multiplier()


@dataclass(frozen=True)
class RevealedShares(Message):
    """Shares with which the server takes away the masks that remain in a sum."""

    protection: ClassVar = "coded"
    route: ClassVar = "client → server"
    reveals: ClassVar = "with a threshold of answers, masks of this one sum: never both of a client"
    tag: str = text(64)
    own: np.ndarray = array("present", SHARE_BYTES, dtype="uint8")
    pairs: np.ndarray = array("dropped", SHARE_BYTES, dtype="uint8")
