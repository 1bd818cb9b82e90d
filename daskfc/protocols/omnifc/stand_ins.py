"""What stands for OmniFC's own steps in a rehearsal; its distances have stand-ins of theirs."""

from dataclasses import dataclass

from daskfc.clustering import DBSCAN, Clusterer
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns
from daskfc.federation.planning.stand_ins import labels_for_each
from daskfc.protocols.omnifc import clusters

__all__ = ["STAND_INS"]

_FINEST = "smallest squared distance that labels depend on"
_SOME = 10  # ours: clusters that a clusterer finds by itself


@dataclass(frozen=True)
class _Found:
    """A clustering, of which the number of clusters is known, and what found it."""

    n_clusters: int
    clusterer: Clusterer


def _cluster(clusterer: Clusterer, n_clusters: int | None, rehearsal: Rehearsal) -> _Found:
    found = n_clusters or int(rehearsal.assume("clusters that are found", _SOME))
    return _Found(found, clusterer)


def _cluster_report(found: _Found, rehearsal: Rehearsal) -> Sizes:
    finest = 0.0
    if not isinstance(found.clusterer, DBSCAN):  # whose radius the first grid tells
        # where it is smaller than the first grid tells, samples are shared out once more
        finest = rehearsal.assume(_FINEST, 0.0)
    return Sizes(finest=finest)


STAND_INS: StandIns = {
    clusters.in_order: lambda found: found,
    clusters.cluster: _cluster,
    clusters.cluster_report: _cluster_report,
    clusters.labels_for: lambda plan: labels_for_each(plan.positions),
}
