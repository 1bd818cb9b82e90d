"""What stands for the steps of the baselines in a rehearsal."""

from collections.abc import Mapping, Sequence

import numpy as np

from daskfc.baselines import (
    ce_pca,
    centers,
    central,
    dsc,
    fedmavg,
    ffcm,
    graphs,
    k_fed,
    mufc,
    rfk_kmeans,
    views,
)
from daskfc.baselines.centers import GlobalCenters
from daskfc.clustering.clusterers.local_labels import LocalLabels
from daskfc.federation.methods.linking import Linked
from daskfc.federation.methods.samples import ClientLabels
from daskfc.federation.party.last_result import StartFound
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import StandIns, as_they_are, of_shape, sized
from daskfc.federation.planning.stand_ins import labels_beside_ids, labels_for_each
from daskfc.stores import ClientStore

__all__ = ["STAND_INS"]


# -- k-FED, MUFC, FFCM, FedMAvg -------------------------------------------------------------------


def _local_clustering(data: ClientStore, n_local_clusters: int) -> k_fed.LocalClustering:
    centres = of_shape(min(n_local_clusters, data.n_samples), data.n_features)
    return k_fed.LocalClustering(centres, of_shape(data.n_samples, dtype="int64"))


def _group_centers(parts: Mapping[str, k_fed.LocalCenters], n_clusters: int) -> k_fed.Grouping:
    n_features = next(iter(parts.values())).centers.shape[1]
    groups = {name: of_shape(len(one.centers), dtype="int64") for name, one in parts.items()}
    return k_fed.Grouping(of_shape(n_clusters, n_features), groups)


def _local_bins(data: ClientStore, n_local_clusters: int) -> mufc.BinCounts:
    n_bins = min(n_local_clusters, data.n_samples)
    return sized(mufc.BinCounts, bin=n_bins, n_features=data.n_features)


def _cluster_bins(parts: Mapping[str, mufc.BinCounts], n_clusters: int) -> GlobalCenters:
    n_features = next(iter(parts.values())).bins.shape[1]
    return sized(GlobalCenters, n_clusters=n_clusters, n_features=n_features)


def _first_fuzzy(data: ClientStore, n_clusters: int) -> ffcm.FuzzyCenters:
    return sized(ffcm.FuzzyCenters, n_local_clusters=n_clusters, n_features=data.n_features)


def _fuzzy(data: ClientStore, centers: GlobalCenters) -> ffcm.FuzzyCenters:
    return _first_fuzzy(data, len(centers.centers))


def _first_centers(parts: Mapping[str, ffcm.FuzzyCenters], n_clusters: int) -> GlobalCenters:
    n_features = next(iter(parts.values())).centers.shape[1]
    return sized(GlobalCenters, n_clusters=n_clusters, n_features=n_features)


_SOME = 20  # ours: rounds until centres, or a basis, come to rest


def _shift(rehearsal: Rehearsal) -> float:
    rounds = rehearsal.assume("rounds until it comes to rest", _SOME)
    return 0.0 if rehearsal.round >= rounds else 1.0


def _center_shift(rehearsal: Rehearsal) -> ffcm.CenterShift:
    return ffcm.CenterShift(_shift(rehearsal))


def _basis_shift(rehearsal: Rehearsal) -> fedmavg.BasisShift:
    return fedmavg.BasisShift(_shift(rehearsal))


def _local_moments(data: ClientStore) -> fedmavg.GramMoments:
    return sized(fedmavg.GramMoments, n_samples=data.n_samples, n_features=data.n_features)


def _first_basis(parts: Mapping[str, fedmavg.GramMoments], n_clusters: int) -> fedmavg.Basis:
    n_features = len(next(iter(parts.values())).sums)
    return sized(fedmavg.Basis, n_clusters=n_clusters, n_features=n_features)


def _local_factors(data: ClientStore, average: fedmavg.Basis) -> fedmavg.LocalFactors:
    return fedmavg.LocalFactors(of_shape(data.n_samples, len(average.basis)), average.basis)


# -- kernels --------------------------------------------------------------------------------------


def _point_sketch(E: np.ndarray, sketch_size: int) -> ce_pca.PointSketch:
    columns = min(E.shape[1], sketch_size)
    return sized(ce_pca.PointSketch, embedding=E.shape[0], column=columns)


def _factor(parts: Mapping[str, ce_pca.PointSketch], rehearsal: Rehearsal) -> ce_pca.LeverageFactor:
    size = len(next(iter(parts.values())).sketch)
    rank = rehearsal.assume("dimensions of the embedding", size, at_most=True)
    return sized(ce_pca.LeverageFactor, rank=int(rank), embedding=size)


def _shares(
    parts: Mapping[str, ce_pca.ScoreTotal], n_samples: int
) -> dict[str, ce_pca.SampleShare]:
    # As if clients had one share each; there are as many in all.
    each, rest = divmod(n_samples, len(parts))
    return {name: ce_pca.SampleShare(each + (i < rest)) for i, name in enumerate(parts)}


def _own_representatives(data: ClientStore, share: ce_pca.SampleShare) -> ce_pca.OwnRepresentatives:
    return sized(ce_pca.OwnRepresentatives, representative=share.n_samples, feature=data.n_features)


def _representatives(
    parts: Mapping[str, ce_pca.OwnRepresentatives], before: ce_pca.Representatives | None
) -> ce_pca.Representatives:
    rows = [part.rows for part in parts.values()] + ([] if before is None else [before.rows])
    count = sum(map(len, rows))
    return sized(ce_pca.Representatives, representative=count, feature=rows[0].shape[1])


def _projected(data: ClientStore, found: ce_pca.Representatives) -> ce_pca.ProjectedSketch:
    n = len(found.rows)
    return sized(ce_pca.ProjectedSketch, representative=n, column=min(n, data.n_samples))


def _directions(
    parts: Mapping[str, ce_pca.ProjectedSketch], n_components: int
) -> ce_pca.Directions:
    n = len(next(iter(parts.values())).sketch)
    return sized(ce_pca.Directions, representative=n, n_components=n_components)


def _coordinates(data: ClientStore, directions: ce_pca.Directions) -> np.ndarray:
    return of_shape(data.n_samples, directions.directions.shape[1])


# -- DSC ------------------------------------------------------------------------------------------


def _embedded_rows(data: ClientStore, n_clusters: int) -> np.ndarray:
    return of_shape(data.n_samples, n_clusters)


def _share_sample(
    data: ClientStore, rows: np.ndarray, others: Sequence[str]
) -> dict[str, dsc.SharedSample]:
    sample = sized(dsc.SharedSample, n_features=data.n_features, n_clusters=rows.shape[1])
    return dict.fromkeys(others, sample)


def _embedded_centers(
    rows: np.ndarray, n_clusters: int, coordinator: str
) -> dict[str, dsc.EmbeddedCenters]:
    k = min(n_clusters, len(rows))
    return {coordinator: sized(dsc.EmbeddedCenters, n_local_clusters=k, n_clusters=rows.shape[1])}


def _common_centers(n_clusters: int) -> dsc.CommonCenters:
    return sized(dsc.CommonCenters, n_clusters=n_clusters)


# -- pooled data, and views -----------------------------------------------------------------------


def _raw_rows(data: ClientStore, start: int, stop: int) -> central.RawRows:
    n = min(stop, data.n_samples) - start
    return sized(central.RawRows, sample=n, n_features=data.n_features)


def _raw_columns(data: ClientStore) -> graphs.RawColumns:
    return sized(graphs.RawColumns, sample=data.n_samples, feature=data.n_features)


def _labels_of_pool(columns: Mapping[str, graphs.RawColumns]) -> ClientLabels:
    return sized(ClientLabels, sample=len(next(iter(columns.values())).columns))


def _labels_of_views(found: Linked) -> dict[str, ClientLabels]:
    return labels_for_each(found.places)


def _own_clusters(data: ClientStore) -> LocalLabels:
    return LocalLabels(of_shape(data.n_samples, dtype="int64"), 0.0, 1)


STAND_INS: StandIns = {
    **as_they_are(k_fed.local_centers, k_fed.global_groups, k_fed.group_means),
    **as_they_are(fedmavg.local_basis, central.table_shape, graphs.raw_graph, views.tell_clusters),
    k_fed.local_clustering: _local_clustering,
    k_fed.group_centers: _group_centers,
    k_fed.group_labels: labels_beside_ids,
    centers.nearest_labels: labels_beside_ids,
    mufc.local_bins: _local_bins,
    mufc.cluster_bins: _cluster_bins,
    ffcm.find_centers: lambda: sized(StartFound, n_rows=0, n_columns=0),
    ffcm.keep_centers: lambda: True,
    ffcm.first_local_centers: _first_fuzzy,
    ffcm.local_centers: _fuzzy,
    ffcm.first_centers: _first_centers,
    ffcm.merge_centers: lambda last: last,
    ffcm.center_shift: _center_shift,
    fedmavg.local_moments: _local_moments,
    fedmavg.first_basis: _first_basis,
    fedmavg.local_factors: _local_factors,
    fedmavg.average_basis: lambda before: before,
    fedmavg.basis_shift: _basis_shift,
    fedmavg.coefficient_labels: labels_beside_ids,
    rfk_kmeans.feature_rows: lambda data, n_features: of_shape(data.n_samples, n_features),
    ce_pca.embed: lambda data, embedding_size: of_shape(embedding_size, data.n_samples),
    ce_pca.point_sketch: _point_sketch,
    ce_pca.factor_of_all: _factor,
    ce_pca.leverage: lambda E: of_shape(E.shape[1]),
    ce_pca.distances_to_span: lambda data: of_shape(data.n_samples),
    ce_pca.tell_shares: _shares,
    ce_pca.send_representatives: _own_representatives,
    ce_pca.tell_representatives: _representatives,
    ce_pca.projected_sketch: _projected,
    ce_pca.tell_directions: _directions,
    ce_pca.coordinates: _coordinates,
    dsc.first_rows: _embedded_rows,
    dsc.aligned_rows: _embedded_rows,
    dsc.share_sample: _share_sample,
    dsc.embedded_centers: _embedded_centers,
    dsc.merge_centers: _common_centers,
    dsc.tell_centers: dsc.tell_centers,
    dsc.common_labels: labels_beside_ids,
    central.raw_rows: _raw_rows,
    graphs.raw_columns: _raw_columns,
    graphs.agc_of_pool: _labels_of_pool,
    graphs.gcc_of_pool: _labels_of_pool,
    views.cluster_joined: _labels_of_views,
    views.own_clusters: _own_clusters,
    views.labels_of_view: _labels_of_views,
}
