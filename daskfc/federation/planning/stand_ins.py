"""Stand-ins of the steps that all methods share, for rehearsals."""

from collections.abc import Mapping

import numpy as np

from daskfc.coding import SecretKey
from daskfc.federation.messages.texts import text_arrays
from daskfc.federation.methods.linking import link_views
from daskfc.federation.methods.sample_keys import digest_key, digest_key_offer
from daskfc.federation.methods.samples import (
    LabelledSamples,
    canonical_positions,
    labels_of_client,
    linked_samples,
    sample_digests,
)
from daskfc.federation.planning.sizes import Sizes, StandIns, as_they_are, of_shape
from daskfc.stores import ClientStore


def labels_beside_ids(data: ClientStore) -> LabelledSamples:
    """Return a stub for labels that a client publishes beside its sample ids."""
    return LabelledSamples(of_shape(data.n_samples, dtype="int64"), *text_arrays(data.sample_ids()))


def labels_for_each(positions: Mapping[str, np.ndarray]) -> dict[str, Sizes]:
    """Return the sizes of the labels that a server sends to each client."""
    return {name: Sizes(sample=len(rows)) for name, rows in positions.items()}


STAND_INS: StandIns = {
    **as_they_are(sample_digests, canonical_positions, linked_samples, link_views),
    **as_they_are(digest_key_offer),
    digest_key: lambda: SecretKey(bytes(32)),  # any key shows which ids are shared
    LabelledSamples: labels_beside_ids,
    labels_of_client: lambda positions, client: Sizes(sample=len(positions[client])),
}
