"""The messages of kCAGC."""

import numpy as np

from daskfc.federation import Message, array

LOST = (
    "lost beside those of others, as with codes for missing values. Take these out, give the step "
    "'clip' in 'prepare', or basis='row-normalised'."
)
"""What becomes of norms beside much larger ones, and the way out."""


class GlobalNorms(
    Message,
    route="server → client",
    reveals="how far each sample lies from the origin, over all participants' columns",
):
    """Squared norms of the samples' projected features, over all participants."""

    squared: np.ndarray = array("sample", dtype="float64")


class LocalClusters(
    Message,
    route="client → server",
    reveals="which samples are alike in the participant's columns, and which of these clusters "
    "begins first along its first singular direction",
):
    """A participant's own clusters (Protocol 3, line 5), numbered by their first rows by value."""

    labels: np.ndarray = array("sample", dtype="int32")


class Intersections(
    Message,
    route="server → client",
    reveals="which samples are alike in the columns of every other participant",
):
    """The non-empty intersections of local clusters, which become virtual nodes."""

    ids: np.ndarray = array("sample", dtype="int32")
    sizes: np.ndarray = array("node", dtype="float64")


class Measure(
    Message,
    route="server → client",
    reveals="which nodes are landmarks, or the clusters of this round that are new to every start",
):
    """The centres to which participants measure next: nodes, or means of labels."""

    n_clusters: int
    nodes: np.ndarray = array("run", "centre", dtype="int64")
    labels: np.ndarray = array("start", "node", dtype="int32")
    wanted: np.ndarray = array("start", "cluster", dtype="uint8")  # 1 for the means to measure to


class LloydProgress(
    Message,
    route="server → caller",
    reveals="to the caller the number of virtual nodes, of rounds and sums, the inertia",
):
    """Progress of weighted k-means."""

    done: int
    converged: int
    n_nodes: int
    n_rounds: int
    n_sums: int
    n_scalars: int
    inertia: float


class DistanceView(
    Message,
    protection="raw",
    route="server → caller",
    reveals="to the caller what the server saw: distances over all participants",
):
    """The sums that the server learned last, for a study of what they reveal."""

    sums: np.ndarray = array("node", "centre", dtype="float64")
