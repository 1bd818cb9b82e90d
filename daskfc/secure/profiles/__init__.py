"""Profiles of clusters: means, deviations and shares of words by cluster, by masked sums."""

from daskfc.secure.profiles.described import ClusterProfiles
from daskfc.secure.profiles.groups import Withheld, withheld_cells, withheld_clusters
from daskfc.secure.profiles.profile import Profile

__all__ = ["ClusterProfiles", "Profile", "Withheld", "withheld_cells", "withheld_clusters"]
