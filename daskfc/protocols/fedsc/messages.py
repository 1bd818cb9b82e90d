"""The messages of FedSC: who tells whom what."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from daskfc.federation import Message, array, integer, noise_multiplier, real

__all__ = [
    "ClientSummary",
    "Dictionary",
    "FinalDictionary",
    "Plan",
    "Progress",
    "Reconstruction",
    "Resumed",
    "ServerView",
    "SimilarityRows",
    "StoreContent",
]


@dataclass(frozen=True)
class ClientSummary(Message):
    """What the server chooses the kernel's width and the number of atoms by."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → server"
    reveals: ClassVar = "a client's number of samples, their mean distance, the rank of its kernel"
    n_samples: int = integer()
    n_features: int = integer()
    mean_distance: float = real()
    n_atoms: int = integer()
    magnitude: float = real()
    noise_multiplier: float = noise_multiplier()


@dataclass(frozen=True)
class StoreContent(Message):
    """What tells changed samples from those of an earlier start of a fit."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → server"
    reveals: ClassVar = "whether the client's samples are the same as in an earlier run"
    tag: int = integer()  # under the client's own key


@dataclass(frozen=True)
class Plan(Message):
    """What all parties of a run go by."""

    protection: ClassVar = "plain"
    route: ClassVar = ("server → client", "server → caller")
    reveals: ClassVar = "mean distance, largest magnitude and largest client, over all clients"
    width: float = real()
    n_atoms: int = integer()
    n_features: int = integer()
    magnitude: float = real()
    largest_client: int = integer()


@dataclass(frozen=True)
class Dictionary(Message):
    """The shared dictionary Z of a round."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "the mean of the clients' dictionaries"
    atoms: np.ndarray = array("atom", "feature", dtype="float64")


@dataclass(frozen=True)
class FinalDictionary(Message):
    """The last dictionary, with the one root R of its kernel that all clients use."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "the mean of the clients' dictionaries"
    atoms: np.ndarray = array("atom", "feature", dtype="float64")
    root: np.ndarray = array("atom", "atom", dtype="float64")


@dataclass(frozen=True)
class SimilarityRows(Message):
    """A client's coefficients times the root: inner products of rows are similarities."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → server"
    reveals: ClassVar = (
        "all similarities, and with the dictionary the client's samples as far as the atoms span "
        "them: exactly, with more atoms than features"
    )
    rows: np.ndarray = array("sample", "atom", dtype="float64")
    noise_multiplier: float = noise_multiplier()


@dataclass(frozen=True)
class Progress(Message):
    """How far the dictionary is."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the dictionary's relative change"
    change: float = real()


@dataclass(frozen=True)
class Resumed(Message):
    """From which round on a fit goes on, and what an earlier start of it released."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller how far an earlier start came"
    round: int = integer()
    change: float = real()
    multipliers: np.ndarray = array("release", dtype="float64")


@dataclass(frozen=True)
class Reconstruction(Message):
    """How well a client's own similarities are reconstructed."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → caller"
    reveals: ClassVar = "to the caller two errors of a client's own similarities, and their bound"
    error: float = real()
    rms: float = real()
    bound: float = real()


@dataclass(frozen=True)
class ServerView(Message):
    """What the server can make of all it learned, for a study of what it tells."""

    protection: ClassVar = "raw"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the dictionary and every sample's coefficients"
    dictionary: np.ndarray = array("atom", "feature", dtype="float64")
    coefficients: np.ndarray = array("atom", "sample", dtype="float64")
