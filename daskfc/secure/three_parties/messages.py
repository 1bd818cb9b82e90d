"""Messages of a computation on shares."""

import numpy as np

from daskfc.federation import Message, array, text

_TAG = 32  # characters of a name of a computation
_POINT = 64  # of a digest


class SharedRows(
    Message,
    protection="coded",
    route="client → client",
    reveals="nothing of samples: two of three summands, which are uniform, and the grid of all",
):
    """One party's summands of a client's rows, and how these were made of its samples."""

    tag: str = text(_TAG)
    scale: float
    point: str = text(_POINT)
    new: int  # 1 for samples to be placed by a fit
    bits: int  # that numbers were held to have at most; 0 where they were not
    values: np.ndarray = array(2, "row", "column", dtype="uint64")


class SharedWords(
    Message,
    protection="masked",
    route="client → client",
    reveals="nothing: words behind a mask that the receiver does not know",
):
    """What a party tells the one before it in a round; nothing once the program has ended."""

    tag: str = text(_TAG)
    round: int
    values: np.ndarray = array("word", dtype="uint64")


class LabelSummand(
    Message,
    protection="coded",
    route="client → client",
    reveals="with all three summands, the clusters of the receiver's own samples",
):
    """One summand of the planes of bits of a client's labels."""

    tag: str = text(_TAG)
    planes: np.ndarray = array("plane", "word", dtype="uint64")


class GraphSummand(
    Message,
    protection="coded",
    route="client → server",
    reveals="with all three summands, which samples are near which",
):
    """One summand of the rows of bits of a graph."""

    tag: str = text(_TAG)
    rows: np.ndarray = array("row", "word", dtype="uint64")


class RoundsTaken(
    Message,
    route="client → caller",
    reveals="how many rounds a computation on shares took so far, and whether it has ended",
):
    """How far a computation on shares is."""

    n_rounds: int
    ended: int
