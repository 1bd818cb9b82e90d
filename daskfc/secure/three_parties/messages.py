"""Messages of a computation on shares."""

import numpy as np

from daskfc.federation import Message, array

__all__ = ["LabelSummand", "RoundsTaken", "SharedRows", "SharedWords"]


class SharedRows(
    Message,
    protection="coded",
    route="client → client",
    reveals="nothing: two of three summands, which are uniform",
):
    """One party's summands of a client's rows."""

    values: np.ndarray = array(2, "row", "column", dtype="uint64")


class SharedWords(
    Message,
    protection="masked",
    route="client → client",
    reveals="nothing: words behind a mask that the receiver does not know",
):
    """What a party tells the one before it in a round; nothing once the program has ended."""

    values: np.ndarray = array("word", dtype="uint64")


class LabelSummand(
    Message,
    protection="coded",
    route="client → client",
    reveals="with all three summands, the clusters of the receiver's own samples",
):
    """One summand of the planes of bits of a client's labels."""

    planes: np.ndarray = array("plane", "word", dtype="uint64")


class RoundsTaken(
    Message,
    route="client → caller",
    reveals="how many rounds a computation on shares took so far, and whether it has ended",
):
    """How far a computation on shares is."""

    n_rounds: int
    ended: int
