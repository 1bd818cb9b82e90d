"""k-means of rows that stay at the clients, on a coreset or on sums only; see docs/secure.md."""

from daskfc.secure.kmeans.clusters import Clusters, DistributedKMeans, KMeansPlan, own_clusters
from daskfc.secure.kmeans.kinds import KINDS, open_kmeans
from daskfc.secure.kmeans.lloyd import nearest_labels
from daskfc.secure.kmeans.messages import KMeansCenters
from daskfc.secure.kmeans.noise import LloydNoise
from daskfc.secure.kmeans.on_coreset import KMeansOnCoreset
from daskfc.secure.kmeans.on_noisy_sums import KMeansOnNoisySums
from daskfc.secure.kmeans.on_sums import KMeansOnSums
from daskfc.secure.kmeans.private.noise import StartedNoise
from daskfc.secure.kmeans.private.on_offsets import KMeansOnNoisyOffsets

__all__ = [
    "KINDS",
    "Clusters",
    "DistributedKMeans",
    "KMeansCenters",
    "KMeansOnCoreset",
    "KMeansOnNoisyOffsets",
    "KMeansOnNoisySums",
    "KMeansOnSums",
    "KMeansPlan",
    "LloydNoise",
    "StartedNoise",
    "nearest_labels",
    "open_kmeans",
    "own_clusters",
]
