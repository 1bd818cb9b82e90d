"""The message of OmniFC that `daskfc.secure.distances` does not define."""

import numpy as np

from daskfc.federation import Message, array, text


class ClusterReport(
    Message,
    route="server → caller",
    reveals="to the caller the number of clusters, their sizes and how far they are apart, in all "
    "and each, how often nearest neighbours are in one, the smallest distances that labels depend "
    "on and how exact they are, and what was noticed",
):
    """The result of the clustering at the server."""

    sizes: np.ndarray = array("cluster", dtype="int64")
    silhouettes: np.ndarray = array("cluster", dtype="float64")  # infinite where of less than 5
    n_noise: int
    notes: str = text(2000)
    silhouette: float  # in [-1, 1]; infinite where there is none
    modularity: float  # in [-1/2, 1], likewise
    finest: float  # of squared distances that the labels depend on, the smallest hundredth
    equal: int  # 1 if over a hundredth of these are between samples that the server sees as equal
    error: float  # of a squared distance of size `finest` in coordinates, without the grid's

    def told(self) -> tuple[float | None, dict[int, float], float | None]:
        """Return silhouette, those by cluster, and modularity; None where there is none."""
        each = {c: one for c, one in enumerate(self.silhouettes.tolist()) if np.isfinite(one)}
        whole = (one if np.isfinite(one) else None for one in (self.silhouette, self.modularity))
        silhouette, modularity = whole
        return silhouette, each, modularity
