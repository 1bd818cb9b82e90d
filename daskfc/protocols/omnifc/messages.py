"""What leaves a party in OmniFC beside what secure distances send."""

import numpy as np

from daskfc.federation import Message, array, text

__all__ = ["ClusterReport"]


class ClusterReport(
    Message,
    route="server → caller",
    reveals="to the caller the number of clusters, their sizes and how far they are apart, the "
    "smallest distances that labels depend on and how exact they are, and what was noticed",
):
    """How the clustering at the server went."""

    sizes: np.ndarray = array("cluster", dtype="int64")
    n_noise: int
    notes: str = text(2000)
    silhouette: float  # in [-1, 1]; infinite where there is none
    finest: float  # of squared distances that the labels depend on, the smallest hundredth
    equal: int  # 1 where over a hundredth of these are of samples that are the same to the server
    error: float  # of a squared distance of that size in coordinates, beside that of the grid
