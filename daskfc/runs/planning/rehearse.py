"""Stubs for the steps of all methods, with which a plan rehearses them."""

from daskfc.baselines import stand_ins as baselines
from daskfc.federation.planning import stand_ins as federation
from daskfc.federation.planning.sizes import StandIns
from daskfc.protocols.esfmc import stand_ins as esfmc
from daskfc.protocols.federated_kmeans import stand_ins as federated_kmeans
from daskfc.protocols.federated_mixture import stand_ins as federated_mixture
from daskfc.protocols.fedsc import stand_ins as fedsc
from daskfc.protocols.fk_kmeans import stand_ins as fk_kmeans
from daskfc.protocols.kcagc import stand_ins as kcagc
from daskfc.protocols.omnifc import stand_ins as omnifc
from daskfc.runs.outcome import evaluate
from daskfc.secure.distances import stand_ins as distances
from daskfc.secure.kmeans import stand_ins as kmeans
from daskfc.secure.sums import stand_ins as sums
from daskfc.secure.three_parties import stand_ins as three_parties

_TABLES = (
    federation, sums, kmeans, distances, three_parties, omnifc, fedsc, kcagc, fk_kmeans, esfmc,
    federated_kmeans, federated_mixture, baselines,
)  # fmt: skip

STAND_INS: StandIns = {
    **{step: other for table in _TABLES for step, other in table.STAND_INS.items()},
    evaluate.evaluation_labels: evaluate.evaluation_labels,
}
