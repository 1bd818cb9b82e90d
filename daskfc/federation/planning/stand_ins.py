"""Stand-ins of the steps that all methods share, for rehearsals."""

from collections.abc import Mapping

import numpy as np

from daskfc.coding import SecretKey
from daskfc.federation.driver.agreement import KeyOffer
from daskfc.federation.messages.texts import text_arrays
from daskfc.federation.methods.linking import link_views
from daskfc.federation.methods.sample_keys import (
    SealedDigestKey,
    digest_key,
    digest_key_offer,
    sealed_digest_key,
)
from daskfc.federation.methods.samples import (
    ClientLabels,
    LabelledSamples,
    canonical_positions,
    labelled_samples,
    labels_of_client,
    linked_samples,
    own_labels,
    sample_digests,
)
from daskfc.federation.planning.sizes import StandIns, as_they_are, of_shape, sized
from daskfc.stores import ClientStore

__all__ = ["STAND_INS", "labels_beside_ids", "labels_for_each"]


def labels_beside_ids(data: ClientStore) -> LabelledSamples:
    """Stand for labels that a client publishes beside its sample ids."""
    return LabelledSamples(of_shape(data.n_samples, dtype="int64"), *text_arrays(data.sample_ids()))


def labels_for_each(positions: Mapping[str, np.ndarray]) -> dict[str, ClientLabels]:
    """Stand for the labels that a server tells each client of its samples."""
    return {name: sized(ClientLabels, sample=len(rows)) for name, rows in positions.items()}


def _labels_of_client(positions: Mapping[str, np.ndarray], client: str) -> ClientLabels:
    return sized(ClientLabels, sample=len(positions[client]))


def _sealed_digest_key(offers: Mapping[str, KeyOffer]) -> dict[str, SealedDigestKey]:
    return {name: sized(SealedDigestKey) for name in offers}


def _digest_key() -> SecretKey:
    return SecretKey(bytes(32))  # of a rehearsal; any key tells which ids are shared


STAND_INS: StandIns = {
    **as_they_are(sample_digests, canonical_positions, linked_samples, link_views),
    **as_they_are(digest_key_offer),
    sealed_digest_key: _sealed_digest_key,
    digest_key: _digest_key,
    labelled_samples: labels_beside_ids,
    own_labels: labels_beside_ids,
    labels_of_client: _labels_of_client,
}
