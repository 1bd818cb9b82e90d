"""GCC, graph convolutional clustering on pooled features: a second central reference for kCAGC.

Paper       Fettal, Labiod, Nadif, "Efficient Graph Convolution for Joint Node Representation
            Learning and Clustering", WSDM 2022.
Notation    paper  here          shape, range
            p      filter_order  int >= 0
            S      propagation   (n, n) sparse, D'^(-1) (N + I), N as in `GraphOperator`
            f      -             k, dimensions of the embedding
            W      W             (d, k), orthonormal columns
            F      F             (k, k), centres of the embedding
            G      labels        (n,) int64 in [0, k)
Objective   ‖X - G F Wᵀ‖ over W, F and G in turn, X = S^p times the features.
Departures  (1) The first W has exact principal components, not randomised ones. (2) The best of
            `n_init` k-means starts is kept. (3) A cluster that becomes empty keeps its centre.
"""

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from daskfc.arrays import Floats, Ints
from daskfc.checks import check_params, integer
from daskfc.clustering.clusterers.clusterer import in_order_of_appearance
from daskfc.clustering.clusterers.kmeans import best_partition
from daskfc.clustering.clusterers.reduced_kmeans import reduced
from daskfc.clustering.views.order import rows_in_order
from daskfc.linalg.graph_filter import GraphOperator, dense, row_blocks


def gcc_features(X: Any, adjacency: Any, *, filter_order: int, tf_idf: bool) -> Floats:
    """Return S^p times the features X (n, d), normalised by rows, which GCC clusters."""
    features = TfidfTransformer().fit_transform(X) if tf_idf else X
    features = normalize(features)
    N = GraphOperator.of(row_blocks(adjacency), int(X.shape[0]))
    return np.asarray(N.filtered(dense(features), order=filter_order, kind="gcc"))


def cluster_gcc(
    X: Any,
    adjacency: Any,
    n_clusters: int,
    *,
    filter_order: int,
    tf_idf: bool,
    seed: int,
    n_init: int = 10,
    max_iter: int = 30,
) -> Ints:
    """Cluster nodes and embed them in k dimensions, alternately, until the labels rest."""
    n, d = (int(size) for size in X.shape)
    check_params("cluster_gcc", {"n_clusters": n_clusters}, {"n_clusters": integer(1, min(n, d))})
    k = n_clusters
    smooth = gcc_features(X, adjacency, filter_order=filter_order, tf_idf=tf_idf)
    W = PCA(k, svd_solver="covariance_eigh" if 2 * d <= n else "full").fit(smooth).components_.T
    embedded = smooth @ W
    order, rows = rows_in_order(embedded)
    start = best_partition(rows, k, seed, n_init=n_init, max_iter=300, owner="GCC").labels
    labels = order.back(order.alike(start))
    found = reduced(smooth, labels, embedded, k, max_iter=max_iter, tolerance=1e-6).labels
    return in_order_of_appearance(found, k)[found]
