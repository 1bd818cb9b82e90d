"""What leaves a party in OmniFC beside what secure distances send."""

import numpy as np

from daskfc.federation import Message, array, text

__all__ = ["ClusterReport"]


class ClusterReport(
    Message,
    route="server → caller",
    reveals="to the caller the number of clusters, their sizes and how far they are apart, and "
    "what was noticed",
):
    """How the clustering at the server went."""

    sizes: np.ndarray = array("cluster", dtype="int64")
    n_noise: int
    notes: str = text(2000)
    silhouette: float  # in [-1, 1]; infinite where there is none
