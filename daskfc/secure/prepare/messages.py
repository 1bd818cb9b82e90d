"""What leaves a party for the sake of preparing features: these classes and nothing else."""

import numpy as np

from daskfc.federation import Message, array

__all__ = [
    "ColumnMagnitudes",
    "CommonMagnitudes",
    "FittedComponents",
    "FittedMeans",
    "FittedScales",
]


class ColumnMagnitudes(
    Message,
    route="client → server",
    reveals="the largest magnitude of each of the client's columns, rounded up to a power of two",
):
    """Powers of two that no magnitude of a column is above; they fix the precision of sums."""

    powers: np.ndarray = array("column", dtype="int16")


class CommonMagnitudes(
    Message,
    route="server → client",
    reveals="the largest magnitude of each column over all clients, as a power of two",
):
    """The largest of the clients' powers."""

    powers: np.ndarray = array("column", dtype="int16")


class FittedMeans(
    Message,
    route=("server → client", "server → caller"),
    reveals="the mean of each column over all clients",
):
    """Means, from a masked sum."""

    means: np.ndarray = array("column", dtype="float64")


class FittedScales(
    Message,
    route="server → caller",
    reveals="to the caller the standard deviation of each column over all clients",
):
    """Standard deviations, from a masked sum; 1 for constant columns."""

    scales: np.ndarray = array("column", dtype="float64")


class FittedComponents(
    Message,
    route="server → caller",
    reveals="to the caller the principal directions of all samples, and their variances",
):
    """Principal components, from a masked sum of covariances."""

    components: np.ndarray = array("component", "column", dtype="float64")
    variances: np.ndarray = array("component", dtype="float64")
