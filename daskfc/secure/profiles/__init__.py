"""Profiles of clusters: means and deviations of features by cluster, found by masked sums."""

from daskfc.secure.profiles.groups import Withheld, withheld_clusters
from daskfc.secure.profiles.profile import ClusterProfiles, Profile

__all__ = ["ClusterProfiles", "Profile", "Withheld", "withheld_clusters"]
