"""Messages of a distributed k-means."""

import numpy as np

from daskfc.federation import Message, array


class KMeansCenters(
    Message,
    route=("server → client", "server → caller"),
    reveals="the centres of the clusters over all clients, and how far all rows lie from them",
):
    """Centres, and the inertia as far as the server knows it."""

    centers: np.ndarray = array("cluster", "feature", dtype="float64")
    inertia: float


class LocalCost(
    Message,
    route="client → server",
    reveals="how many rows a client has, how long they are, how far from its own centres",
):
    """The shape of a client's rows, and the cost of its own k-means."""

    n_rows: int
    n_features: int
    cost: float


class SampleSize(
    Message,
    route="server → client",
    reveals="to each client how large its cost is beside that of the others",
):
    """The number of rows that a client samples."""

    n_samples: int


class CoresetPart(
    Message,
    route="client → server",
    reveals="the sampled rows as they are, and the means and sizes of the client's own clusters",
):
    """Sampled rows and local centres with weights, which represent all rows of a client."""

    points: np.ndarray = array("point", "feature", dtype="float64")
    weights: np.ndarray = array("point", dtype="float64")


class KMeansProposal(
    Message,
    route="server → client",
    reveals="centres that the sums of earlier rounds gave, the mean of all rows, and how the "
    "features' deviations compare, in powers of two",
):
    """Centres by which groups of rows are split, or the final ones, and how rows are summed."""

    centers: np.ndarray = array("cluster", "feature", dtype="float64")
    origin: np.ndarray = array("feature", dtype="float64")
    scales: np.ndarray = array("feature", dtype="float64")
    n_groups: int


class KMeansCounts(
    Message,
    route="server → client",
    reveals="how many rows of all clients are in which group, nearest to which centre, and where "
    "too few clients have any",
):
    """Counts from which clients derive the groups that split: parts of `least` rows and held.

    `mark` stands for the groups and centres that they are of.
    """

    counts: np.ndarray = array("group", "cluster", dtype="int64")
    held: np.ndarray = array("group", "cluster", dtype="bool")
    least: int
    mark: int


class KMeansProgress(
    Message,
    route="server → caller",
    reveals="a bound on the sums of the next round, who takes part, whether it is the last, and "
    "how many rows are in parts of too few clients",
):
    """The state of a search, from which the caller starts the next round."""

    settled: int
    held_back: int  # rows in parts that are large enough but of too few clients
    bound: float
    clients: np.ndarray = array("client", dtype="str")


class KMeansReach(
    Message,
    route="server → client",
    reveals="centres that noisy sums gave, and how far from them rows count in full",
):
    """Centres of a round with noise; what goes farther from one is shortened to `radius`."""

    centers: np.ndarray = array("cluster", "feature", dtype="float64")
    radius: float
