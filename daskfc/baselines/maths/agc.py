"""AGC, attributed graph clustering on pooled features: the central reference for kCAGC.

Paper       Zhang, Liu, Li, Wu, "Attributed Graph Clustering via Adaptive Graph Convolution",
            IJCAI 2019; as run in the tables of kCAGC.
Departures  The order of the filter is a parameter, not searched for. k-means runs on the left
            singular vectors U themselves: scaled by Σ, they do not reproduce the tables.
"""

from typing import Any

from daskfc.arrays import Ints
from daskfc.checks import check_params, integer
from daskfc.clustering.clusterers.clusterer import in_order_of_appearance
from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.views.order import rows_in_order
from daskfc.linalg.graph_filter import FilterKind, filter_features
from daskfc.linalg.local_basis import singular_coordinates


def cluster_agc(
    X: Any,
    adjacency: Any,
    n_clusters: int,
    *,
    filter_order: int,
    seed: int,
    filter_kind: FilterKind = "agc",
    n_init: int = 10,
) -> Ints:
    """Cluster nodes by k-means on the k left singular vectors of filtered features X (n, d)."""
    most = int(X.shape[0])
    check_params("cluster_agc", {"n_clusters": n_clusters}, {"n_clusters": integer(1, most)})
    smooth = filter_features(adjacency, X, order=filter_order, kind=filter_kind)
    U = singular_coordinates(smooth, n_clusters, "U")
    order, rows = rows_in_order(U)
    found = best_partition(rows, n_clusters, seed, n_init=n_init, max_iter=300, owner="AGC").labels
    labels = order.back(order.alike(found))
    return in_order_of_appearance(labels, n_clusters)[labels]
