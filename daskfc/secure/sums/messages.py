"""Messages of secure sums."""

import math

import numpy as np

from daskfc.coding import SHARE_BYTES
from daskfc.federation import Message, NoiseMultiplier, array, text


class Magnitude(
    Message,
    route=("client → server", "server → caller"),
    reveals="the largest magnitude in a client's array, as a power of two",
):
    """An upper bound on the entries that a client adds to a sum."""

    bound: float


class PlainPart(Message, route="client → server", reveals="the client's own array"):
    """One client's array."""

    values: np.ndarray = array("row", "column", dtype="float64")
    noise_multiplier: NoiseMultiplier = math.inf


class PublicKeys(
    Message,
    route="client → client",
    reveals="nothing; a public key says nothing of the private one",
    signed=True,
):
    """Public keys for Diffie-Hellman key agreement."""

    keys: np.ndarray = array("key", 32, dtype="uint8")

    @classmethod
    def of(cls, *keys: bytes) -> "PublicKeys":
        """Return a message of some keys."""
        return cls(np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 32).copy())


class KeyShares(
    Message,
    protection="coded",
    route="client → client",
    reveals="nothing, unless a threshold of receivers pool their shares",
):
    """Shamir shares of a client's mask keys, encrypted for one receiver."""

    sealed: np.ndarray = array("byte", dtype="uint8")


class MaskedPart(
    Message,
    protection="masked",
    route="client → server",
    reveals="nothing but the sum over the clients",
):
    """One client's array in fixed point, behind masks that cancel in the sum."""

    tag: str = text(64)
    told: str = text(64)  # digest of the data that the client got, from which masks derive
    fraction_bits: int  # of the values: who decodes them is told by nobody else
    public: np.ndarray = array("key", 32, dtype="uint8")
    values: np.ndarray = array("row", "column", dtype="uint64")
    noise_multiplier: NoiseMultiplier = math.inf


class RevealedShares(
    Message,
    protection="coded",
    route="client → server",
    reveals="with a threshold of answers, masks of this one sum: never both of a client",
):
    """Shares with which the server removes the masks that remain in a sum."""

    tag: str = text(64)
    own: np.ndarray = array("present", SHARE_BYTES, dtype="uint8")
    pairs: np.ndarray = array("dropped", SHARE_BYTES, dtype="uint8")


class Arrivals(Message, route="server → client", reveals="which clients' arrays are in a sum"):
    """What an aggregator opens the sum of its masks for: whose arrays arrived, of what shape."""

    tag: str = text(64)
    told: str = text(64)  # as in `MaskedPart`, of all of them
    n_rows: int
    n_columns: int
    present: np.ndarray = array("client", dtype="uint8")  # 1 for each that is in the sum


class MaskSum(
    Message,
    protection="coded",
    route="client → server",
    reveals="nothing, but with those of all aggregators the sum over the clients",
):
    """The sum of one aggregator's masks of the arrays in a sum."""

    tag: str = text(64)
    values: np.ndarray = array("row", "column", dtype="uint64")
