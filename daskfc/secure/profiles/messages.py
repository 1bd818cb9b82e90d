"""What leaves a party for the sake of cluster profiles, beside magnitudes: these classes alone."""

import numpy as np

from daskfc.federation import Message, array

__all__ = ["ClusterMeans", "ClusterSpreads"]


class ClusterMeans(
    Message,
    route=("server → client", "server → caller"),
    reveals="the mean of each column in each cluster that is large enough",
):
    """Means over all clients, from a masked sum."""

    means: np.ndarray = array("cluster", "column", dtype="float64")


class ClusterSpreads(
    Message,
    route="server → caller",
    reveals="to the caller the standard deviation of each column in each cluster that is large "
    "enough",
):
    """Standard deviations over all clients, from a masked sum; 0 for constant columns."""

    spreads: np.ndarray = array("cluster", "column", dtype="float64")
