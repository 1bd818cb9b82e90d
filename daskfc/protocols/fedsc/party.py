"""What a client of FedSC does: local steps on the dictionary, and rows of the similarity."""

import math

import numpy as np
from numpy.typing import NDArray

from daskfc.clustering.dictionary_start import count_atoms, mean_distance
from daskfc.clustering.kernel_dictionary import StepKind, coefficients, local_update
from daskfc.clustering.low_rank_similarity import similarity_rows
from daskfc.errors import InvalidInput
from daskfc.federation.samples import ClientLabels, LabelledSamples, labelled_samples
from daskfc.protocols.fedsc.messages import (
    ClientSummary,
    Dictionary,
    FinalDictionary,
    Plan,
    SimilarityRows,
)
from daskfc.stores import ClientStore

__all__ = [
    "REACH",
    "labelled_new",
    "moments",
    "rows_of",
    "rows_of_new",
    "summarise",
    "weight_of",
    "weighted_update",
]

Floats = NDArray[np.float64]

REACH = 16.0  # ours: atoms stay within so many times the largest magnitude


def weight_of(n_samples: int, plan: Plan, uniform: bool) -> float:
    """Return what a client's dictionary weighs: N_p over the largest client's, or 1."""
    return 1.0 if uniform else n_samples / plan.largest_client


def _samples(data: ClientStore) -> Floats:
    return data.rows(0, data.n_samples)


def summarise(data: ClientStore, kernel_width: float | None, n_atoms: int | None) -> ClientSummary:
    """Tell the server size, mean distance (Eq. 42) and the rank of the own kernel."""
    X = _samples(data)
    distance = mean_distance(X)
    width = kernel_width or distance
    atoms = n_atoms or (count_atoms(X, width) if width > 0 else 1)
    largest = float(np.abs(X).max(initial=0.0))
    magnitude = 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 0.0
    return ClientSummary(len(X), X.shape[1], distance, atoms, magnitude)


def moments(data: ClientStore) -> Floats:
    """Return sums of the features and of their squares, (2, m), for a secure sum."""
    X = _samples(data)
    return np.stack([X.sum(axis=0), np.einsum("ij,ij->j", X, X)])


def weighted_update(
    data: ClientStore,
    dictionary: Dictionary,
    plan: Plan,
    ridge: float,
    steps: int,
    kind: StepKind,
    uniform: bool,
) -> Floats:
    """Return the own dictionary, (d, m), times the own weight of Eq. 11, see `weight_of`."""
    Z = local_update(_samples(data), dictionary.atoms, plan.width, ridge, steps=steps, kind=kind)
    limit = REACH * plan.magnitude
    return weight_of(data.n_samples, plan, uniform) * np.clip(Z, -limit, limit)


def rows_of(
    data: ClientStore, dictionary: FinalDictionary, plan: Plan, ridge: float
) -> SimilarityRows:
    """Send the rows whose inner products are similarities, by coefficients at the last Z."""
    C = coefficients(_samples(data), dictionary.atoms, plan.width, ridge)
    return SimilarityRows(similarity_rows(C, dictionary.root))


def rows_of_new(
    data: ClientStore, new: str, dictionary: FinalDictionary, plan: Plan, ridge: float
) -> SimilarityRows:
    """Send the rows of new samples.

    Raises
    ------
    InvalidInput
        When their features are not those of the clustered samples.
    """
    store = ClientStore.open(new)
    if store.feature_names != data.feature_names:
        raise InvalidInput(
            f"new samples of client {data.name!r} must have its {data.n_features} features in the "
            f"same order; those of the store {new} differ. Name its columns so."
        )
    return rows_of(store, dictionary, plan, ridge)


def labelled_new(new: str, labels: ClientLabels) -> LabelledSamples:
    """Put the ids of new samples beside the labels that the server told."""
    return labelled_samples(ClientStore.open(new), labels)
