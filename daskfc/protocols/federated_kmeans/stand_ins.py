"""Stubs for the steps of federated k-means in a rehearsal; the rest is in `secure.kmeans`."""

from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.protocols.federated_kmeans import party, priors

STAND_INS: StandIns = {
    party.own_rows: lambda data: of_shape(data.n_samples, data.n_features),
    priors.own_cluster_counts: lambda centers: of_shape(len(centers.centers)),
    priors.cluster_shares: lambda total: Sizes(cluster=len(total.values)),
    priors.unlikeness: lambda: of_shape(2),
    priors.labels_by_priors: lambda rows: of_shape(len(rows), dtype="int64"),
}
