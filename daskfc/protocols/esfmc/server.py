"""ESFMC: the steps of the server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfc.arrays import Floats, Ints
from daskfc.clustering.views.order import order_of_rows
from daskfc.errors import InvalidInput
from daskfc.federation.methods.linking import Linked, link_views
from daskfc.federation.methods.sample_map import SampleMap, map_of_points, mapped_rows
from daskfc.federation.methods.samples import ClientLabels, SampleDigests
from daskfc.protocols.esfmc.maths.grouping import (
    Block,
    averaged_assignments,
    by_graphs,
    by_kmeans,
    by_spectral,
    concatenated,
    matched,
    scaled,
    seed_of,
    view_weight,
)
from daskfc.protocols.esfmc.messages import (
    Assignments,
    LinkedSamples,
    LinkReport,
    RoundReport,
    SharedAssignments,
    SharedFeatures,
    Votes,
)

NONE = -1  # a sample without a label: its own client labels it
TO_VOTE = -2  # several clients label the sample, and the majority counts
_FEWEST = 10  # ours: samples per cluster in all views; with fewer, the clients' graphs are joined


@dataclass(frozen=True)
class ServerSettings:
    """How the server clusters; recipes "robust" and "paper" are those of `maths.grouping`."""

    n_clusters: int
    recipe: str
    random_state: int


@dataclass(frozen=True)
class Grouping:
    """The server's labels (N,) after a round, Q (N, K) if any, and the share that changed."""

    number: int
    labels: Ints
    assignments: Floats | None
    change: float


def link(digests: Mapping[str, SampleDigests], views: Mapping[str, int], n_clusters: int) -> Linked:
    """Link the samples that clients share; refuse fewer samples than clusters."""
    found = link_views(digests, views)
    if found.n_samples < n_clusters:
        raise InvalidInput(
            "the 'n_clusters' parameter of ESFMC must be at most the number of samples, "
            f"{found.n_samples}; got {n_clusters}. Lower it."
        )
    return found


def tell_links(found: Linked) -> Mapping[str, LinkedSamples]:
    """Return the places of each client's samples."""
    return {
        client: LinkedSamples(places, found.in_all_views[places], found.n_samples)
        for client, places in found.places.items()
    }


def cluster(
    found: Linked,
    features: Mapping[str, SharedFeatures],
    assignments: Mapping[str, Assignments] | None,
    previous: Grouping | None,
    settings: ServerSettings,
    *,
    filled: bool = False,
) -> Grouping:
    """Cluster by a round's features (Section 3.4), `filled` by Eq. (13); numbers persist."""
    order, seen, features, assignments = _in_order(found, features, assignments, filled)
    if previous is not None:
        previous = replace(previous, labels=previous.labels[order])
    grouping = _grouped(seen, features, assignments, previous, settings, filled)
    back = np.argsort(order)
    Q = None if grouping.assignments is None else grouping.assignments[back]
    return replace(grouping, labels=grouping.labels[back], assignments=Q)


def _in_order(
    found: Linked,
    features: Mapping[str, SharedFeatures],
    assignments: Mapping[str, Assignments] | None,
    filled: bool,
) -> tuple[Ints, Linked, Mapping[str, SharedFeatures], Mapping[str, Assignments] | None]:
    """Return an order of samples by their features, and the arguments in this order."""
    everywhere = np.arange(found.n_samples)
    places = {client: everywhere if filled else found.places[client] for client in features}
    width = sum(sent.features.shape[1] for sent in features.values())
    beside, start = np.zeros((found.n_samples, width), dtype=np.float32), 0
    for client, sent in features.items():
        beside[places[client], start : (start := start + sent.features.shape[1])] = sent.features
    order = order_of_rows(beside)
    rank = np.argsort(order)
    sorted_own = {client: np.argsort(rank[one]) for client, one in found.places.items()}
    sorted_sent = {client: np.argsort(rank[one]) for client, one in places.items()}
    seen = replace(
        found,
        places={client: rank[one][sorted_own[client]] for client, one in found.places.items()},
        in_all_views=found.in_all_views[order],
    )
    shared = {
        client: replace(sent, features=sent.features[sorted_sent[client]])
        for client, sent in features.items()
    }
    if assignments is not None:
        assignments = {
            client: replace(sent, probabilities=sent.probabilities[sorted_own[client]])
            for client, sent in assignments.items()
        }
    return order, seen, shared, assignments


def _grouped(
    found: Linked,
    features: Mapping[str, SharedFeatures],
    assignments: Mapping[str, Assignments] | None,
    previous: Grouping | None,
    settings: ServerSettings,
    filled: bool,
) -> Grouping:
    everywhere = np.arange(found.n_samples)
    blocks = [
        Block(everywhere if filled else found.places[client], sent.features)
        for client, sent in features.items()
    ]
    Q = None
    if assignments is not None:
        own = [Block(found.places[c], sent.probabilities) for c, sent in assignments.items()]
        Q = averaged_assignments(own, found.n_samples)
    rows = everywhere if filled else np.flatnonzero(found.in_all_views)
    before = None if previous is None else previous.labels
    number = 1 if previous is None else previous.number + 1
    if settings.recipe == "paper":
        labels = _as_printed(found, features, blocks, rows, before, settings, number)
    elif _joins_graphs(found, settings):
        rows = everywhere
        labels = _on_graphs(blocks, before, found.n_samples, settings)
    else:
        labels = _robust(blocks, rows, before, found.n_samples, settings)
    every = np.full(found.n_samples, NONE, dtype=np.int64)
    every[rows] = labels
    if Q is not None and settings.recipe == "paper":
        every = np.where(every == NONE, Q.argmax(axis=1), every)
    change = 1.0
    if before is not None:
        both = (before != NONE) & (every != NONE)
        change = float(np.mean(before[both] != every[both])) if both.any() else 1.0
    return Grouping(number, every, Q, change)


def _joins_graphs(found: Linked, settings: ServerSettings) -> bool:
    """Whether samples are clustered on the clients' graphs, not on concatenated features."""
    few = int(found.in_all_views.sum()) < _FEWEST * settings.n_clusters
    return settings.recipe == "robust" and (few or not found.one_client_a_view)


def _as_printed(
    found: Linked,
    features: Mapping[str, SharedFeatures],
    blocks: Sequence[Block],
    rows: Ints,
    before: Ints | None,
    settings: ServerSettings,
    number: int,
) -> Ints:
    """Concatenate and run k-means, Eqs. (8) to (10)."""
    k, seed = settings.n_clusters, settings.random_state
    if not found.one_client_a_view:
        blocks = _stacked(found, features)
    labels = by_kmeans(concatenated(blocks, rows, found.n_samples), k, seed_of(seed, number))
    return matched(labels, None if before is None else before[rows], k)


def _stacked(found: Linked, features: Mapping[str, SharedFeatures]) -> list[Block]:
    """Stack the features of clients of one view (cross-device, Appendix E.3)."""
    stacked = []
    for view in sorted(set(found.views.values())):
        clients = [client for client in features if found.views[client] == view]
        places = np.concatenate([found.places[client] for client in clients])
        rows = np.concatenate([features[client].features for client in clients])
        stacked.append(Block(places, rows))
    return stacked


def _weights(blocks: Sequence[Block], before: Ints | None) -> list[float]:
    """Return the weight of each client's features, in the first round the one it chose itself."""
    if before is None:
        sizes = [float(np.sqrt(np.mean(np.sum(b.features**2, axis=1)))) for b in blocks]
        return sizes if any(sizes) else [1.0] * len(blocks)
    weights = []
    for block in blocks:
        had = before[block.places] != NONE
        of_those = block.features[had].astype(np.float64)
        weights.append(view_weight(of_those, before[block.places][had]) if had.any() else 0.0)
    return weights if any(weights) else [1.0] * len(blocks)


def _on_graphs(
    blocks: Sequence[Block], before: Ints | None, n_samples: int, settings: ServerSettings
) -> Ints:
    k, seed = settings.n_clusters, seed_of(settings.random_state, 0)
    labels = by_graphs(blocks, _weights(blocks, before), n_samples, k, seed)
    return matched(labels, before, k)


def _robust(
    blocks: Sequence[Block],
    rows: Ints,
    before: Ints | None,
    n_samples: int,
    settings: ServerSettings,
) -> Ints:
    """Weight the views, and cluster by `by_spectral`."""
    k = settings.n_clusters
    weighed = [
        Block(block.places, scaled(block.features.astype(np.float64), weight))
        for block, weight in zip(blocks, _weights(blocks, before), strict=True)
    ]
    X = concatenated(weighed, rows, n_samples)
    previous = None if before is None else before[rows]
    return by_spectral(X, k, previous, seed_of(settings.random_state, 0))


def _shared_by_some(found: Linked, labels: Ints) -> NDArray[np.bool_]:
    """Return a mask of samples without a label that more than one client has."""
    owners = np.zeros(found.n_samples, dtype=np.int64)
    for places in found.places.values():
        owners[places] += 1
    return np.asarray((labels == NONE) & (owners > 1))


def links(found: Linked, settings: ServerSettings) -> LinkReport:
    """Return the numbers of samples in any and in all views, for the caller."""
    joins = int(_joins_graphs(found, settings))
    return LinkReport(found.n_samples, int(found.in_all_views.sum()), joins)


def report(found: Linked, grouping: Grouping) -> RoundReport:
    """Return the report of a round, for the caller."""
    labelled = int((grouping.labels != NONE).sum())
    to_vote = 0
    if grouping.assignments is None:
        to_vote = int(_shared_by_some(found, grouping.labels).sum())
    return RoundReport(found.n_samples, labelled, to_vote, grouping.change)


def seen_by_map(
    found: Linked, features: Mapping[str, SharedFeatures], grouping: Grouping, seed: int
) -> tuple[Floats, Ints]:
    """Return scaled features and labels for a map; none if several clients share a view."""
    everywhere = np.flatnonzero(found.in_all_views & (grouping.labels != NONE))
    if not found.one_client_a_view:
        everywhere = everywhere[:0]
    rows = everywhere[mapped_rows(len(everywhere), seed)]
    blocks = [
        Block(found.places[client], scaled(sent.features.astype(np.float64)))
        for client, sent in features.items()
        if len(sent.features) == len(found.places[client])
    ]
    if not len(rows) or not blocks:
        return np.zeros((0, 1)), rows
    return concatenated(blocks, rows, found.n_samples), grouping.labels[rows]


def sample_map(seen: tuple[Floats, Ints]) -> SampleMap:
    """Return some samples' places in a plane, by their shared features, for the caller."""
    return map_of_points(*seen)


def shared_assignments(grouping: Grouping) -> SharedAssignments:
    """Return Q, for the clients."""
    assert grouping.assignments is not None
    return SharedAssignments(grouping.assignments.astype(np.float32))


def _to_each(found: Linked, labels: Ints) -> Mapping[str, ClientLabels]:
    return {client: ClientLabels(labels[places]) for client, places in found.places.items()}


def labels_after(found: Linked, grouping: Grouping) -> Mapping[str, ClientLabels]:
    """Return the labels that each client trains on, `NONE` where only a head could give one."""
    return _to_each(found, grouping.labels)


def labels_at_last(found: Linked, grouping: Grouping) -> Mapping[str, ClientLabels]:
    """Return each client's final labels, `NONE` or `TO_VOTE` where it finds its own."""
    labels = grouping.labels
    if grouping.assignments is not None:
        labels = np.where(labels == NONE, grouping.assignments.argmax(axis=1), labels)
    return _to_each(found, np.where(_shared_by_some(found, labels), TO_VOTE, labels))


def voted(
    found: Linked, grouping: Grouping, votes: Mapping[str, Votes], n_clusters: int
) -> Mapping[str, ClientLabels]:
    """Return each client's labels, by majority (or the lowest) where some views lack a sample."""
    open_ones = _shared_by_some(found, grouping.labels)
    counts = np.zeros((found.n_samples, n_clusters), dtype=np.int64)
    for client, sent in votes.items():
        places = found.places[client]
        np.add.at(counts, (places[open_ones[places]], sent.labels), 1)
    return _to_each(found, np.where(open_ones, counts.argmax(axis=1), grouping.labels))


def labels_of_new(
    digests: Mapping[str, SampleDigests], assignments: Mapping[str, Assignments]
) -> Mapping[str, ClientLabels]:
    """Return the labels of new samples from the mean of the clients' assignments (Eq. 14)."""
    names = list(digests)
    every = np.unique(np.concatenate([digests[name].digests for name in names]))
    blocks = [
        Block(np.searchsorted(every, digests[name].digests), assignments[name].probabilities)
        for name in names
    ]
    labels = averaged_assignments(blocks, len(every)).argmax(axis=1)
    return {
        name: ClientLabels(labels[block.places]) for name, block in zip(names, blocks, strict=True)
    }
