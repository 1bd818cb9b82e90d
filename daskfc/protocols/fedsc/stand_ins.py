"""What stands for FedSC's steps in a rehearsal.

How many atoms there are and how wide the kernel is follows from clients' samples: where parameters
do not say it, the clients' stores are read, as a client does.
"""

import math
from collections.abc import Mapping

import numpy as np

from daskfc.clustering.kernels.low_rank_similarity import default_neighbors
from daskfc.federation.methods.samples import ClientLabels
from daskfc.federation.party.last_result import StartFound
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import StandIns, as_they_are, of_shape, sized
from daskfc.federation.planning.stand_ins import labels_for_each
from daskfc.privacy import Noised, Part
from daskfc.protocols.fedsc import coded_rows, graph, journal, party, server, start
from daskfc.protocols.fedsc.coded_rows import SquaredNorms
from daskfc.protocols.fedsc.graph import RoundedSimilarities, SimilarPairs
from daskfc.protocols.fedsc.messages import (
    Dictionary,
    DictionaryChange,
    FinalDictionary,
    KernelPlan,
    Resumed,
)
from daskfc.protocols.fedsc.noise import FactorNoise, Noise
from daskfc.secure.distances.rows import QuantisedRows

__all__ = ["STAND_INS"]


def _dictionary(plan: KernelPlan) -> Dictionary:
    return sized(Dictionary, atom=plan.n_atoms, feature=plan.n_features)


def _weighted_update(dictionary: Dictionary, noise: Noise | None) -> Part:
    if isinstance(noise, FactorNoise):
        return Noised(dictionary.atoms, noise.dictionary_multiplier)
    return dictionary.atoms


def _final(dictionary: Dictionary) -> FinalDictionary:
    n_atoms, n_features = dictionary.atoms.shape
    return sized(FinalDictionary, atom=n_atoms, feature=n_features)


def _rows_of(samples: np.ndarray, final: FinalDictionary, noise: Noise | None) -> Part:
    rows = of_shape(len(samples), len(final.atoms))
    if isinstance(noise, FactorNoise):
        return Noised(rows, noise.coefficient_multiplier)
    return rows


def _tell_labels(positions: Mapping[str, np.ndarray]) -> dict[str, ClientLabels]:
    return labels_for_each(positions)


def _squared_norms(quantised: QuantisedRows) -> SquaredNorms:
    return sized(SquaredNorms, sample=len(quantised.rows))


def _rounded(rows: np.ndarray, neighbors: int | None) -> RoundedSimilarities:
    n, d = rows.shape
    k = neighbors or default_neighbors(n)
    return sized(RoundedSimilarities, sample=n, atom=d, unit=1.0, lowest=0.0, n_neighbors=k)


def _similar_pairs(rounded: RoundedSimilarities, rehearsal: Rehearsal) -> SimilarPairs:
    each = rehearsal.assume("pairs of a sample that are looked at", 2.0 * rounded.n_neighbors)
    n = int(each * len(rounded.rows))
    return sized(SimilarPairs, pair=n, low_pair=0, lowest=0.0, complete=1)


STAND_INS: StandIns = {
    **as_they_are(party.samples_of, party.summarise, party.tell_rows, server.plan_of),
    party.moments: lambda samples: of_shape(2, samples.shape[1]),
    party.weighted_update: _weighted_update,
    party.rows_of: _rows_of,
    journal.resumed: lambda: sized(Resumed, release=0, change=math.inf),
    start.find: lambda: sized(StartFound, n_rows=0, n_columns=0),
    start.keep: lambda: True,
    server.start: _dictionary,
    server.normal_start: _dictionary,
    server.first: lambda start: start,
    server.mean_dictionary: lambda before: before,
    server.progress: lambda: DictionaryChange(math.inf),
    server.tell_final: _final,
    server.empty_rows: lambda positions, plan: of_shape(
        sum(map(len, positions.values())), plan.n_atoms
    ),
    server.place_rows: lambda B: B,
    server.tell_labels: _tell_labels,
    coded_rows.squared_norms: _squared_norms,
    graph.rounded_similarities: _rounded,
    graph.similar_pairs: _similar_pairs,
}
