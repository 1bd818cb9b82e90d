"""What leaves a party in OmniFC: these classes and nothing else."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from daskfc.federation import Message, array, integer, real, text

__all__ = [
    "ClientSummary",
    "ClusterReport",
    "CodedDistances",
    "CodedRows",
    "DecodedBlock",
    "HidingKey",
    "LandmarkStatus",
    "Landmarks",
    "MissingBlocks",
    "NewSamples",
    "PublicPlan",
    "RowPositions",
    "ServerDisk",
]


@dataclass(frozen=True)
class ClientSummary(Message):
    """What the server must know of a client's samples to plan the code."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → server"
    reveals: ClassVar = (
        "a pseudonym per sample, the number and names (hashed) of the features, the largest norm "
        "rounded up to a power of 2**(1/8), whether the values lie on a grid, whether the samples "
        "are the same as in an earlier run"
    )
    digests: np.ndarray = array("sample", dtype="uint64")
    n_features: int = integer()
    content: int = integer()  # of the samples, under the client's own key, for resuming
    radius: float = real()  # >= max |x|
    grids: int = integer()  # bit i: the values are on daskfc.coding.GRIDS[i]


@dataclass(frozen=True)
class NewSamples(Message):
    """How many new samples a client wants labelled."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → caller"
    reveals: ClassVar = "to the caller the number of new samples"
    n_samples: int = integer()


@dataclass(frozen=True)
class PublicPlan(Message):
    """The size of the problem and the range of the data: what the caller needs to plan the run."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the number of samples per client, the features, the range"
    samples: np.ndarray = array("client", dtype="int64")
    n_features: int = integer()
    radius: float = real()
    grids: int = integer()
    problem: int = integer()  # identifies ids, contents and range, to resume


@dataclass(frozen=True)
class RowPositions(Message):
    """Where each client's rows stand in the canonical order."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "to the evaluators the order of the samples' pseudonyms"
    positions: np.ndarray = array("sample", dtype="int64")
    ends: np.ndarray = array("client", dtype="int64")  # cumulative numbers of samples


@dataclass(frozen=True)
class CodedRows(Message):
    """Lagrange shares of some rows of one client for one evaluator (Eq. 3), per prime."""

    protection: ClassVar = "coded"
    route: ClassVar = "client → client"
    reveals: ClassVar = "nothing to any n_colluding evaluators that pool what they hold"
    residues: np.ndarray = array("prime", "row", "column", dtype="uint8 | uint32")
    start: int = integer()  # first row, in the order of the client's store
    fingerprint: int = integer()  # of the client's secret: one encoding, one run


@dataclass(frozen=True)
class HidingKey(Message):
    """Key of the polynomial that hides the segments' distances; the server must not have it."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → client"
    reveals: ClassVar = "to the evaluators what hides single segments from the server"
    key: np.ndarray = array("byte", dtype="uint8")


@dataclass(frozen=True)
class Landmarks(Message):
    """The next landmark samples, as canonical positions."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "to the evaluators which samples lie far from the landmarks so far"
    positions: np.ndarray = array("landmark", dtype="int64")


@dataclass(frozen=True)
class CodedDistances(Message):
    """Squared distances of coded rows at one evaluator (Eq. 4), per prime, for one block."""

    protection: ClassVar = "coded"
    route: ClassVar = "client → server"
    reveals: ClassVar = "the block's true squared distances, once enough answers are in"
    residues: np.ndarray = array("prime", "row", "column", dtype="uint8 | uint32")
    encoding: int = integer()  # of all clients' fingerprints and the hiding key


@dataclass(frozen=True)
class ServerDisk(Message):
    """Bytes that are free on the disk of the server's folder."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the server's free disk space"
    free: int = integer()


@dataclass(frozen=True)
class MissingBlocks(Message):
    """The blocks of distances that the server does not hold yet."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller how much work is left"
    blocks: np.ndarray = array("block", 2, dtype="int64")


@dataclass(frozen=True)
class LandmarkStatus(Message):
    """How well the landmarks span the samples."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the rank of the data and the largest relative residual"
    n_landmarks: int = integer()
    rank: int = integer()
    residual: float = real()  # largest squared distance to the span over the mean squared distance
    converged: int = integer()


@dataclass(frozen=True)
class DecodedBlock(Message):
    """That a block is stored, and which evaluators answered wrongly."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller which evaluators contradict the others"
    wrong: np.ndarray = array("evaluator", dtype="int64")


@dataclass(frozen=True)
class ClusterReport(Message):
    """How the clustering at the server went."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the number of clusters, their sizes, and what was noticed"
    sizes: np.ndarray = array("cluster", dtype="int64")
    n_noise: int = integer()
    notes: str = text(2000)
