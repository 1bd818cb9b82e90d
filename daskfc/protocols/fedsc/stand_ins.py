"""Stubs for FedSC's steps in a rehearsal.

The number of atoms and the kernel's width, if not given, are computed from the clients' stores.
"""

import math

import numpy as np

from daskfc.clustering.kernels.low_rank_similarity import default_neighbors
from daskfc.federation.planning.rehearsal import Rehearsal
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape
from daskfc.federation.planning.stand_ins import labels_for_each
from daskfc.privacy import Noised, Part
from daskfc.protocols.fedsc import journal, party, server, start
from daskfc.protocols.fedsc.messages import Dictionary, FinalDictionary
from daskfc.protocols.fedsc.privacy.noise import FactorNoise, Noise
from daskfc.protocols.fedsc.similarity import coded_rows, graph
from daskfc.protocols.fedsc.similarity.graph import RoundedSimilarities


def _weighted_update(dictionary: Dictionary, noise: Noise | None) -> Part:
    if isinstance(noise, FactorNoise):
        return Noised(dictionary.atoms, noise.dictionary_multiplier)
    return dictionary.atoms


def _rows_of(samples: np.ndarray, final: FinalDictionary, noise: Noise | None) -> Part:
    rows = of_shape(len(samples), len(final.atoms))
    if isinstance(noise, FactorNoise):
        return Noised(rows, noise.coefficient_multiplier)
    return rows


def _rounded(rows: np.ndarray, neighbors: int | None) -> Sizes:
    n, d = rows.shape
    return Sizes(sample=n, atom=d, unit=1.0, n_neighbors=neighbors or default_neighbors(n))


def _similar_pairs(rounded: RoundedSimilarities, rehearsal: Rehearsal) -> Sizes:
    each = rehearsal.assume("pairs of a sample that are looked at", 2.0 * rounded.n_neighbors)
    return Sizes(pair=int(each * len(rounded.rows)), low_pair=0, complete=1)


STAND_INS: StandIns = {
    **as_they_are(party.samples_of, party.summarise, party.tell_rows, server.plan_of),
    party.moments: lambda samples: of_shape(10, samples.shape[1]),
    party.weighted_update: _weighted_update,
    party.rows_of: _rows_of,
    journal.resumed: lambda: Sizes(release=0, change=math.inf),
    start.keep: lambda: True,
    server.start: lambda plan: Sizes(atom=plan.n_atoms),
    server.mean_dictionary: lambda plan: Sizes(atom=plan.n_atoms),
    server.progress: lambda: Sizes(change=math.inf),
    server.empty_rows: lambda positions, plan: of_shape(
        sum(map(len, positions.values())), plan.n_atoms
    ),
    server.place_rows: lambda B: B,
    server.tell_labels: labels_for_each,
    coded_rows.squared_norms: lambda quantised: Sizes(sample=len(quantised.rows)),
    graph.rounded_similarities: _rounded,
    graph.similar_pairs: _similar_pairs,
}
