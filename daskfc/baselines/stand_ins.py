"""Stubs for the steps of the baselines in a rehearsal."""

from collections.abc import Mapping

import numpy as np

from daskfc.baselines.centers import dsc, fedmavg, ffcm, k_fed, mufc
from daskfc.baselines.kernels import ce_pca, rfk_kmeans
from daskfc.baselines.pooled import central, graphs, views
from daskfc.clustering.clusterers.local_labels import LocalLabels
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape
from daskfc.federation.planning.stand_ins import labels_for_each
from daskfc.stores import ClientStore

_SOME = 20  # ours: rounds until centres, or a basis, converge


def _local_clustering(data: ClientStore, n_local_clusters: int) -> k_fed.LocalClustering:
    centres = of_shape(min(n_local_clusters, data.n_samples), data.n_features)
    return k_fed.LocalClustering(centres, of_shape(data.n_samples, dtype="int64"))


def _group_centers(parts: Mapping[str, k_fed.LocalCenters], n_clusters: int) -> k_fed.Grouping:
    n_features = next(iter(parts.values())).centers.shape[1]
    groups = {name: of_shape(len(one.centers), dtype="int64") for name, one in parts.items()}
    return k_fed.Grouping(of_shape(n_clusters, n_features), groups)


def _shift(rehearsal: Rehearsal) -> Sizes:
    rounds = rehearsal.assume("rounds until it comes to rest", _SOME)
    return Sizes(shift=0.0 if rehearsal.round >= rounds else 1.0)


def _local_factors(data: ClientStore, average: fedmavg.Basis) -> fedmavg.LocalFactors:
    return fedmavg.LocalFactors(of_shape(data.n_samples, len(average.basis)), average.basis)


def _factor(parts: Mapping[str, ce_pca.PointSketch], rehearsal: Rehearsal) -> Sizes:
    size = len(next(iter(parts.values())).sketch)
    return Sizes(rank=int(rehearsal.assume("dimensions of the embedding", size, at_most=True)))


def _shares(parts: Mapping[str, ce_pca.ScoreTotal], n_samples: int) -> dict[str, Sizes]:
    # Equal shares; their sum is exact.
    each, rest = divmod(n_samples, len(parts))
    return {name: Sizes(n_samples=each + (i < rest)) for i, name in enumerate(parts)}


def _representatives(
    parts: Mapping[str, ce_pca.OwnRepresentatives], before: ce_pca.Representatives | None
) -> Sizes:
    count = sum(len(part.rows) for part in parts.values())
    return Sizes(representative=count + (0 if before is None else len(before.rows)))


def _embedded_rows(data: ClientStore, n_clusters: int) -> np.ndarray:
    return of_shape(data.n_samples, n_clusters)


STAND_INS: StandIns = {
    **as_they_are(k_fed.local_centers, k_fed.global_groups, k_fed.group_means),
    **as_they_are(fedmavg.local_basis, central.table_shape, graphs.raw_graph, views.tell_clusters),
    k_fed.local_clustering: _local_clustering,
    k_fed.group_centers: _group_centers,
    mufc.local_bins: lambda data, n_local_clusters: Sizes(
        bin=min(n_local_clusters, data.n_samples)
    ),
    ffcm.keep_centers: lambda: True,
    ffcm.first_local_centers: lambda n_clusters: Sizes(n_local_clusters=n_clusters),
    ffcm.local_centers: lambda centers: Sizes(n_local_clusters=len(centers.centers)),
    ffcm.center_shift: _shift,
    fedmavg.local_factors: _local_factors,
    fedmavg.basis_shift: _shift,
    rfk_kmeans.feature_rows: lambda data, n_features: of_shape(data.n_samples, n_features),
    ce_pca.embed: lambda data, embedding_size: of_shape(embedding_size, data.n_samples),
    ce_pca.point_sketch: lambda E, sketch_size: Sizes(
        embedding=len(E), column=min(E.shape[1], sketch_size)
    ),
    ce_pca.factor_of_all: _factor,
    ce_pca.leverage: lambda E: of_shape(E.shape[1]),
    ce_pca.distances_to_span: lambda data: of_shape(data.n_samples),
    ce_pca.tell_shares: _shares,
    ce_pca.send_representatives: lambda share: Sizes(representative=share.n_samples),
    ce_pca.tell_representatives: _representatives,
    ce_pca.projected_sketch: lambda data, found: Sizes(column=min(len(found.rows), data.n_samples)),
    ce_pca.coordinates: lambda data, directions: of_shape(
        data.n_samples, directions.directions.shape[1]
    ),
    dsc.first_rows: _embedded_rows,
    dsc.aligned_rows: _embedded_rows,
    dsc.share_sample: lambda rows: Sizes(n_clusters=rows.shape[1]),
    dsc.embedded_centers: lambda rows, n_clusters: Sizes(
        n_local_clusters=min(n_clusters, len(rows)), n_clusters=rows.shape[1]
    ),
    central.raw_rows: lambda data, start, stop: Sizes(sample=min(stop, data.n_samples) - start),
    views.cluster_joined: lambda found: labels_for_each(found.places),
    views.own_clusters: lambda data: LocalLabels(of_shape(data.n_samples, dtype="int64"), 0.0, 1),
    views.labels_of_view: lambda found: labels_for_each(found.places),
}
