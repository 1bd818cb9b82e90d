"""Stubs for OmniFC's own steps in a rehearsal; those of secure distances are defined there."""

from dataclasses import dataclass

from daskfc.clustering import Clusterer, RadiusGraph
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, of_shape
from daskfc.federation.planning.stand_ins import labels_for_each
from daskfc.protocols.omnifc import clusters, on_shares, scores
from daskfc.secure.three_parties import steps
from daskfc.secure.three_parties.stand_ins import STAND_INS as ON_SHARES

_FINEST = "smallest squared distance that labels depend on"
_SOME = 10  # ours: number of clusters, where the clusterer finds it


@dataclass(frozen=True)
class _Found:
    """A clustering reduced to its number of clusters, and its clusterer."""

    n_clusters: int
    clusterer: Clusterer


def _cluster(clusterer: Clusterer, n_clusters: int | None, rehearsal: Rehearsal) -> _Found:
    found = n_clusters or int(rehearsal.assume("clusters that are found", _SOME))
    return _Found(found, clusterer)


def _cluster_report(found: _Found, rehearsal: Rehearsal) -> Sizes:
    finest = 0.0
    if found.clusterer.radius2 is None:  # the first grid resolves a radius
        # a distance too small for the first grid makes clients share samples once more
        finest = rehearsal.assume(_FINEST, 0.0)
    return Sizes(finest=finest)


STAND_INS: StandIns = {
    clusters.in_order: lambda found: found,
    clusters.from_origin: lambda view: view,
    on_shares.graph_in_order: lambda plan, radius2: RadiusGraph(tuple, plan.n_samples, radius2),
    on_shares.whole_rows: lambda data: of_shape(data.n_samples, data.n_features, dtype="int64"),
    on_shares.begun: ON_SHARES[steps.begun],
    clusters.cluster: _cluster,
    scores.cluster_report: _cluster_report,
    clusters.labels_for: lambda plan: labels_for_each(plan.positions),
}
