"""Messages of cluster profiles; magnitudes are those of `daskfc.secure.prepare`."""

import numpy as np

from daskfc.federation import Message, array


class WithheldCells(
    Message,
    route=("server → client", "server → caller"),
    reveals="which columns have too few values in which clusters",
):
    """Cells that are not described: 1 for too few values, 2 if they would reveal others'."""

    why: np.ndarray = array("cluster", "column", dtype="uint8")


class ClusterMeans(
    Message,
    route=("server → client", "server → caller"),
    reveals="the mean of each column of numbers in each cluster that is large enough",
):
    """Means over all clients, from a masked sum; NaN where withheld, 0 for columns of words."""

    means: np.ndarray = array("cluster", "column", dtype="float64")


class ClusterSpreads(
    Message,
    route="server → caller",
    reveals="to the caller the standard deviation of each column in each cluster that is large "
    "enough",
):
    """Standard deviations, from a masked sum; NaN where withheld, 0 for constants and words."""

    spreads: np.ndarray = array("cluster", "column", dtype="float64")


class ClusterCounts(
    Message,
    route="server → caller",
    reveals="to the caller how many samples have a value in each column, and each word that enough "
    "samples share, in each cluster that is large enough",
):
    """Counts over all clients, from a masked sum; 0 where withheld."""

    values: np.ndarray = array("cluster", "column", dtype="int64")
    words: np.ndarray = array("cluster", "word", dtype="int64")
