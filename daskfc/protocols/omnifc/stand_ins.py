"""What stands for OmniFC's own steps in a rehearsal; its distances have stand-ins of theirs."""

from daskfc.federation.rehearsal import Rehearsal
from daskfc.federation.samples import ClientLabels
from daskfc.federation.sizes import StandIns, sized
from daskfc.federation.stand_ins import labels_for_each
from daskfc.protocols.omnifc import clusters
from daskfc.protocols.omnifc.messages import ClusterReport
from daskfc.secure.distances import RowPlan

__all__ = ["STAND_INS"]

_SOME = 10  # ours: clusters that a clusterer finds by itself


def _cluster(n_clusters: int | None, rehearsal: Rehearsal) -> int:
    return n_clusters or int(rehearsal.assume("clusters that are found", _SOME))


def _labels_for(plan: RowPlan) -> dict[str, ClientLabels]:
    return labels_for_each(plan.positions)


STAND_INS: StandIns = {
    clusters.cluster: _cluster,
    clusters.cluster_report: lambda clustering: sized(ClusterReport, cluster=clustering),
    clusters.labels_for: _labels_for,
}
