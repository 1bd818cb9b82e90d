"""The messages of kCAGC: who tells whom what."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from daskfc.federation import Message, array, integer, real

__all__ = [
    "GlobalNorms",
    "Intersections",
    "LocalClusters",
    "Magnitude",
    "Measure",
    "Progress",
    "ServerView",
]


@dataclass(frozen=True)
class Magnitude(Message):
    """An upper bound on what a client will add to a sum."""

    protection: ClassVar = "plain"
    route: ClassVar = ("client → server", "server → caller")
    reveals: ClassVar = "the largest row norm of a client's projected features, as a power of two"
    bound: float = real()


@dataclass(frozen=True)
class GlobalNorms(Message):
    """Squared norms of the samples' projected features, over all participants."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "how far each sample lies from the origin, over all participants' columns"
    squared: np.ndarray = array("sample", dtype="float64")


@dataclass(frozen=True)
class LocalClusters(Message):
    """A participant's own clusters (Protocol 3, line 5)."""

    protection: ClassVar = "plain"
    route: ClassVar = "client → server"
    reveals: ClassVar = "which samples are alike in the participant's columns"
    labels: np.ndarray = array("sample", dtype="int32")


@dataclass(frozen=True)
class Intersections(Message):
    """The non-empty intersections of local clusters, which become virtual nodes."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "which samples are alike in the columns of every other participant"
    ids: np.ndarray = array("sample", dtype="int32")
    sizes: np.ndarray = array("node", dtype="float64")


@dataclass(frozen=True)
class Measure(Message):
    """Where the centres are to which participants measure next: at nodes, or at means of labels."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → client"
    reveals: ClassVar = "the clusters of this round"
    n_clusters: int = integer()
    nodes: np.ndarray = array("run", "centre", dtype="int64")
    labels: np.ndarray = array("start", "node", dtype="int32")


@dataclass(frozen=True)
class Progress(Message):
    """How far weighted k-means is."""

    protection: ClassVar = "plain"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller the number of virtual nodes, of rounds and sums, the inertia"
    done: int = integer()
    converged: int = integer()
    n_nodes: int = integer()
    n_rounds: int = integer()
    n_sums: int = integer()
    n_scalars: int = integer()
    inertia: float = real()


@dataclass(frozen=True)
class ServerView(Message):
    """The sums that the server learned last, for a study of what they tell."""

    protection: ClassVar = "raw"
    route: ClassVar = "server → caller"
    reveals: ClassVar = "to the caller what the server saw: distances over all participants"
    sums: np.ndarray = array("node", "centre", dtype="float64")
