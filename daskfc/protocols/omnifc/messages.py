"""The message of OmniFC that `daskfc.secure.distances` does not define."""

import numpy as np

from daskfc.federation import Message, array, text

__all__ = ["ClusterReport"]


class ClusterReport(
    Message,
    route="server → caller",
    reveals="to the caller the number of clusters, their sizes and how far they are apart, the "
    "smallest distances that labels depend on and how exact they are, and what was noticed",
):
    """The result of the clustering at the server."""

    sizes: np.ndarray = array("cluster", dtype="int64")
    n_noise: int
    notes: str = text(2000)
    silhouette: float  # in [-1, 1]; infinite where there is none
    finest: float  # of squared distances that the labels depend on, the smallest hundredth
    equal: int  # 1 if over a hundredth of these are between samples that the server sees as equal
    error: float  # of a squared distance of size `finest` in coordinates, without the grid's
