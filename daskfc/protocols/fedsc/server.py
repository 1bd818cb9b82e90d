"""The server's steps of FedSC: average dictionaries, and cluster the similarity."""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.linalg

from daskfc.arrays import Floats, Ints
from daskfc.clustering.kernels.low_rank_similarity import default_neighbors, dictionary_root
from daskfc.errors import InvalidInput
from daskfc.federation import Checkpoints
from daskfc.federation.methods.cluster_scores import ClusterScores, without_errors
from daskfc.federation.methods.sample_map import SampleMap, map_of_points, mapped_rows
from daskfc.federation.methods.samples import ClientLabels
from daskfc.protocols.fedsc.journal import Journal
from daskfc.protocols.fedsc.maths.dictionary_start import (
    Moments,
    first_dictionary,
    normal_dictionary,
)
from daskfc.protocols.fedsc.maths.similarity_spectral import (
    cluster_graph,
    cluster_rows,
    graph_eigengaps,
    row_eigengaps,
)
from daskfc.protocols.fedsc.messages import (
    Dictionary,
    DictionaryChange,
    FactorView,
    FinalDictionary,
    KernelPlan,
    KernelSummary,
    SimilarityRows,
)
from daskfc.protocols.fedsc.party import weight_of
from daskfc.protocols.fedsc.similarity.graph import OrderedGraph, order_of_similar
from daskfc.secure.sums import Total

_BLOCK_ENTRIES = 1 << 23  # ours: similarities of new samples at once, 64 MiB


def check_counts(n_samples: int, **counts: int | None) -> None:
    """Refuse parameters above the number of samples."""
    for name, value in counts.items():
        if value is not None and value > n_samples:
            raise InvalidInput(
                f"the {name!r} parameter of FedSC must be at most the number of samples, "
                f"{n_samples}; got {value}. Lower it, or leave it out."
            )


def plan_of(
    parts: Mapping[str, KernelSummary],
    kernel_width: float | None,
    n_atoms: int | None,
    neighbors: int | None = None,
) -> KernelPlan:
    """Choose the kernel's width (Eq. 42, averaged over clients) and the number of atoms."""
    count = sum(part.n_samples for part in parts.values())
    check_counts(count, n_atoms=n_atoms, neighbors=neighbors)
    width = kernel_width or float(np.mean([part.mean_distance for part in parts.values()]))
    if not width > 0:
        raise InvalidInput(
            "the mean distance of the samples is 0, and with it the kernel's width: each client "
            "has one sample, or equal ones. Give 'kernel_width'."
        )
    return KernelPlan(
        width,
        n_atoms or max(part.n_atoms for part in parts.values()),
        next(iter(parts.values())).n_features,
        max(part.magnitude for part in parts.values()),
        max(part.n_samples for part in parts.values()),
    )


def start(
    total: Total, sizes: Mapping[str, KernelSummary], plan: KernelPlan, seed: int
) -> Dictionary:
    """Return the first dictionary, drawn from the moments of all samples."""
    count = sum(part.n_samples for part in sizes.values())
    moments = Moments.of_sum(total.values, count, plan.magnitude)
    return Dictionary(first_dictionary(moments, plan.n_atoms, seed))


def normal_start(plan: KernelPlan, n_clients: int, seed: int) -> Dictionary:
    """Return the published first dictionary, which is independent of the data."""
    return Dictionary(normal_dictionary(plan.n_atoms, plan.n_features, n_clients, seed))


def first(journal: Journal, number: int, start: Dictionary) -> Dictionary:
    """Return the dictionary to go on from: an earlier start's after a round, or the first one."""
    if number == 0:
        return start
    # not the latest round's: a repeated step must find the same dictionary
    return Dictionary(Checkpoints(journal.folder).load(number)["dictionary"])


def mean_dictionary(
    total: Total,
    before: Dictionary,
    sizes: Mapping[str, KernelSummary],
    plan: KernelPlan,
    journal: Journal,
    *,
    uniform: bool,
    changes: bool,
    number: int,
    rounds: int,
) -> Dictionary:
    """Save and return the weighted mean of dictionaries, or `changes` since `before` (Eq. 11)."""
    weight = sum(weight_of(sizes[name].n_samples, plan, uniform) for name in total.terms)
    mean: Floats = total.values / weight
    if changes:
        mean += before.atoms
    state = {"dictionary": mean, "change": np.array(_change(mean, before.atoms))}
    Checkpoints(journal.folder, keep=rounds).save(number, state)
    return Dictionary(mean)


def _change(atoms: Floats, before: Floats) -> float:
    size = float(np.linalg.norm(before - before.mean(axis=0)))  # wherever the origin is
    moved = float(np.linalg.norm(atoms - before))
    return moved / size if size > 0 else float(moved > 0)


def progress(dictionary: Dictionary, before: Dictionary) -> DictionaryChange:
    """Return the dictionary's relative change, for the caller."""
    return DictionaryChange(_change(dictionary.atoms, before.atoms))


def tell_final(dictionary: Dictionary, plan: KernelPlan) -> FinalDictionary:
    """Return the last dictionary and one root of its kernel, for the clients."""
    return FinalDictionary(dictionary.atoms, dictionary_root(dictionary.atoms, plan.width))


def empty_rows(positions: Mapping[str, Ints], plan: KernelPlan) -> Floats:
    """Return an array for the rows of all samples."""
    return np.zeros((sum(map(len, positions.values())), plan.n_atoms))


def place_rows(
    B: Floats, message: SimilarityRows, positions: Mapping[str, Ints], client: str
) -> Floats:
    """Put a client's rows into canonical order, in place, so that memory has all rows only once."""
    B[positions[client]] = message.rows
    return B


def cluster(B: Floats, n_clusters: int, n_init: int, seed: int) -> Ints:
    """Cluster all samples, in canonical order, on the similarities of all (Stage II)."""
    _check_clusters(n_clusters, len(B))
    order = order_of_similar(B)
    labels = cluster_rows(B[order.places], n_clusters, seed=seed, n_init=n_init).labels
    return order.back(order.alike(labels))


def cluster_similarity(similar: OrderedGraph, n_clusters: int, n_init: int, seed: int) -> Ints:
    """Cluster all samples, in canonical order, on the graph of their most similar ones."""
    _check_clusters(n_clusters, similar.graph.shape[0])
    labels = cluster_graph(similar.moved(), n_clusters, seed=seed, n_init=n_init).labels
    return similar.order.back(similar.order.alike(labels))


def eigengaps(B: Floats, n_clusters: Sequence[int]) -> ClusterScores:
    """Return the gap in the spectrum of all similarities after each number, for the caller."""
    return without_errors(row_eigengaps(B, max(n_clusters))[np.array(n_clusters) - 1])


def eigengaps_of_graph(
    similar: OrderedGraph, n_clusters: Sequence[int], seed: int
) -> ClusterScores:
    """Return the gap in the spectrum of the graph after each number, for the caller."""
    gaps = graph_eigengaps(similar.moved(), max(n_clusters), seed)
    return without_errors(gaps[np.array(n_clusters) - 1])


def _check_clusters(n_clusters: int, n_samples: int) -> None:
    if n_clusters > n_samples:
        raise InvalidInput(
            f"'n_clusters' of FedSC must be at most the number of samples, {n_samples}; got "
            f"{n_clusters}. Lower it."
        )


def tell_labels(labels: Ints, positions: Mapping[str, Ints]) -> Mapping[str, ClientLabels]:
    """Return each client's labels of its own samples."""
    return {name: ClientLabels(labels[places]) for name, places in positions.items()}


def sample_map(B: Floats, labels: Ints, seed: int) -> SampleMap:
    """Return some samples' places in a plane, by their similarities, for the caller."""
    rows = mapped_rows(len(B), seed)
    return map_of_points(B[rows], labels[rows])


def predict(
    new: Mapping[str, SimilarityRows],
    B: Floats,
    labels: Ints,
    n_clusters: int,
    neighbors: int | None,
) -> Mapping[str, ClientLabels]:
    """Label new samples by the summed similarity of their most similar clustered ones."""
    k = min(neighbors or default_neighbors(len(B)), len(B))
    return {
        name: ClientLabels(_voted(part.rows, B, labels, n_clusters, k))
        for name, part in new.items()
    }


def _voted(rows: Floats, B: Floats, labels: Ints, n_clusters: int, k: int) -> Ints:
    step = max(1, _BLOCK_ENTRIES // len(B))
    blocks = (rows[start : start + step] @ B.T for start in range(0, len(rows), step))
    return np.concatenate([vote(similar, labels, n_clusters, k) for similar in blocks])


def vote(similar: Floats, labels: Ints, n_clusters: int, k: int) -> Ints:
    """Label new samples by the summed similarity, (b, n), of the k most similar clustered ones."""
    nearest = np.argpartition(-similar, k - 1, axis=1)[:, :k]
    votes = np.zeros((len(similar), n_clusters))
    shares = np.maximum(np.take_along_axis(similar, nearest, axis=1), 0.0)
    np.add.at(votes, (np.arange(len(similar))[:, None], labels[nearest]), shares)
    return np.asarray(votes.argmax(axis=1))


def tell_view(
    B: Floats, positions: Mapping[str, Ints], dictionary: Dictionary, plan: KernelPlan
) -> FactorView:
    """Return the dictionary, and the coefficients that follow from the rows, for the caller."""
    root = dictionary_root(dictionary.atoms, plan.width)
    rows = B[np.concatenate(list(positions.values()))]
    C: Floats = scipy.linalg.solve_triangular(root, rows.T, lower=True, trans="T")
    return FactorView(dictionary.atoms, C)
