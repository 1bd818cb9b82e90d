"""What the server of FedSC does: average dictionaries, and cluster the similarity."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from daskfc.aggregation import Total
from daskfc.clustering.dictionary_start import Moments, first_dictionary
from daskfc.clustering.low_rank_similarity import (
    default_neighbors,
    dictionary_root,
    similarity_graph,
)
from daskfc.clustering.similarity_spectral import cluster_graph
from daskfc.errors import InvalidInput
from daskfc.federation.samples import ClientLabels
from daskfc.protocols.fedsc.messages import (
    ClientSummary,
    Dictionary,
    FinalDictionary,
    Plan,
    Progress,
    SimilarityRows,
)
from daskfc.protocols.fedsc.party import weight_of

__all__ = [
    "cluster",
    "mean_dictionary",
    "plan_of",
    "predict",
    "progress",
    "start",
    "tell_dictionary",
    "tell_final",
    "tell_labels",
    "tell_new_labels",
    "tell_plan",
]

Floats = NDArray[np.float64]

_BLOCK_ENTRIES = 1 << 23  # ours: similarities of new samples at once, 64 MiB


def plan_of(
    parts: Mapping[str, ClientSummary], kernel_width: float | None, n_atoms: int | None
) -> Plan:
    """Choose the kernel's width (Eq. 42, averaged over clients) and the number of atoms."""
    widths = sorted({part.n_features for part in parts.values()})
    if len(widths) > 1:
        raise InvalidInput(
            f"clients of FedSC must have the same features; got {widths} of them. Choose the same "
            "columns at all clients."
        )
    width = kernel_width or float(np.mean([part.mean_distance for part in parts.values()]))
    if not width > 0:
        raise InvalidInput(
            "the mean distance of the samples is 0, and with it the kernel's width; all samples of "
            "each client are equal. Give 'kernel_width'."
        )
    return Plan(
        width,
        n_atoms or max(part.n_atoms for part in parts.values()),
        widths[0],
        max(part.magnitude for part in parts.values()),
        max(part.n_samples for part in parts.values()),
    )


def tell_plan(plan: Plan) -> Plan:
    """Tell everybody the plan."""
    return plan


def start(total: Total, sizes: Mapping[str, ClientSummary], plan: Plan, seed: int) -> Floats:
    """Return the first dictionary, drawn by the moments of all samples."""
    count = sum(part.n_samples for part in sizes.values())
    moments = Moments(count, total.values[0], np.maximum(total.values[1], 0.0))
    return first_dictionary(moments, plan.n_atoms, seed)


def mean_dictionary(
    total: Total, sizes: Mapping[str, ClientSummary], plan: Plan, uniform: bool
) -> Floats:
    """Return the weighted mean of the dictionaries of those that took part (Eq. 11)."""
    weight = sum(weight_of(sizes[name].n_samples, plan, uniform) for name in total.terms)
    mean: Floats = total.values / weight
    return mean


def progress(dictionary: Floats, before: Floats) -> Progress:
    """Tell the caller by how much the dictionary changed."""
    size = float(np.linalg.norm(before))
    return Progress(float(np.linalg.norm(dictionary - before)) / size if size > 0 else 1.0)


def tell_dictionary(dictionary: Floats) -> Dictionary:
    """Tell the clients the dictionary."""
    return Dictionary(dictionary)


def tell_final(dictionary: Floats, plan: Plan) -> FinalDictionary:
    """Tell the clients the last dictionary and one root of its kernel."""
    return FinalDictionary(dictionary, dictionary_root(dictionary, plan.width))


def _in_order(
    parts: Mapping[str, SimilarityRows], positions: Mapping[str, NDArray[np.int64]]
) -> Floats:
    """Return all rows in canonical order, the same for every split of the samples."""
    B = np.empty((sum(map(len, positions.values())), next(iter(parts.values())).rows.shape[1]))
    for name, part in parts.items():
        B[positions[name]] = part.rows
    return B


def cluster(
    parts: Mapping[str, SimilarityRows],
    positions: Mapping[str, NDArray[np.int64]],
    n_clusters: int,
    neighbors: int | None,
    n_init: int,
    seed: int,
) -> NDArray[np.int64]:
    """Cluster all samples, in canonical order, on their most similar ones (Stage II)."""
    B = _in_order(parts, positions)
    if n_clusters > len(B):
        raise InvalidInput(
            f"'n_clusters' of FedSC must be at most the number of samples, {len(B)}; got "
            f"{n_clusters}. Lower it."
        )
    graph = similarity_graph(B, neighbors)
    return cluster_graph(graph, n_clusters, seed=seed, n_init=n_init).labels


def tell_labels(
    labels: NDArray[np.int64], positions: Mapping[str, NDArray[np.int64]]
) -> Mapping[str, ClientLabels]:
    """Tell each client the clusters of its own samples."""
    return {name: ClientLabels(labels[own]) for name, own in positions.items()}


def predict(
    new: Mapping[str, SimilarityRows],
    parts: Mapping[str, SimilarityRows],
    positions: Mapping[str, NDArray[np.int64]],
    labels: NDArray[np.int64],
    n_clusters: int,
    neighbors: int | None,
) -> Mapping[str, NDArray[np.int64]]:
    """Label new samples by the summed similarity of their most similar clustered ones."""
    B = _in_order(parts, positions)
    k = min(neighbors or default_neighbors(len(B)), len(B))
    return {name: _voted(part.rows, B, labels, n_clusters, k) for name, part in new.items()}


def _voted(
    rows: Floats, B: Floats, labels: NDArray[np.int64], n_clusters: int, k: int
) -> NDArray[np.int64]:
    found = np.empty(len(rows), dtype=np.int64)
    step = max(1, _BLOCK_ENTRIES // len(B))
    for start in range(0, len(rows), step):
        similar = rows[start : start + step] @ B.T
        nearest = np.argpartition(-similar, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(similar), n_clusters))
        shares = np.maximum(np.take_along_axis(similar, nearest, axis=1), 0.0)
        np.add.at(votes, (np.arange(len(similar))[:, None], labels[nearest]), shares)
        found[start : start + step] = votes.argmax(axis=1)
    return found


def tell_new_labels(labels: Mapping[str, NDArray[np.int64]]) -> Mapping[str, ClientLabels]:
    """Tell each client the clusters of its new samples."""
    return {name: ClientLabels(own) for name, own in labels.items()}
