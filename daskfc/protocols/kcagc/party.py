"""A participant's steps of kCAGC: filter, project, cluster locally, and measure distances."""

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from daskfc import seeds
from daskfc.arrays import Floats
from daskfc.clustering import GraphOperator
from daskfc.errors import InvalidInput, OverflowRefused, PrivacyError
from daskfc.federation.methods.samples import ClientLabels
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_announced, at_most_clients, made_of, takes
from daskfc.linalg import divide_rows, singular_coordinates, squared_row_norms
from daskfc.linalg.graph_filter import FilterKind
from daskfc.linalg.local_basis import Basis
from daskfc.protocols.kcagc.maths.intersections import VirtualNode, local_clusters, virtual_nodes
from daskfc.protocols.kcagc.maths.summed_distances import (
    CentresAtMeans,
    CentresAtNodes,
    centres_of,
    distances_to,
)
from daskfc.protocols.kcagc.messages import (
    LOST,
    GlobalNorms,
    Intersections,
    LocalClusters,
    Measure,
)
from daskfc.protocols.kcagc.streaming import streamed_coordinates
from daskfc.stores import ClientStore

_LOCAL_BASES: dict[str, Basis] = {
    "global-norm": "scaled",
    "U": "U",
    "row-normalised": "row-normalised",
}
_projected: "WeakKeyDictionary[ClientStore, tuple[Projection, Floats]]" = WeakKeyDictionary()
_HELD = 1 << 25  # ours: filtered columns of up to so many numbers stay in memory, 256 MiB
_GRAM = 8192  # ours: for up to so many columns all inner products fit in memory
_FEW = 0.01  # ours: share of rows whose norms may be lost, as those that are nearly 0


@dataclass(frozen=True)
class Projection:
    """How a participant projects its columns on k dimensions, by parameters of `KCAGC`."""

    n_clusters: int
    basis: str
    filter_order: int
    graph_filter: FilterKind


@dataclass(frozen=True)
class Nodes:
    """Virtual nodes in the participant's columns (v, w), and the numbers of their samples (v,)."""

    rows: Floats
    sizes: Floats


def filtered_columns(data: ClientStore, projection: Projection) -> Floats:
    """Return the participant's columns after ψ passes over its graph (Protocol 1, line 3)."""
    X = data.rows(0, data.n_samples)
    if not projection.filter_order:
        return X
    check_graph(data)
    operator = GraphOperator.of(data.graph_blocks, data.n_samples)
    operator.filter_columns(X, order=projection.filter_order, kind=projection.graph_filter)
    return X


def check_graph(data: ClientStore) -> None:
    """Refuse a store without a graph."""
    if not data.has_graph:
        raise InvalidInput(
            f"kCAGC filters the features of client {data.name!r} over a graph; its store has "
            "none. Add a graph to the storage file, or set filter_order=0."
        )


@takes(projection=made_of())
def project(data: ClientStore, projection: Projection) -> Floats:
    """Return filtered features on their top singular vectors (Protocol 1, 4-5), and keep them."""
    kept = _projected.get(data)
    if kept is None or kept[0] != projection:
        k, basis = projection.n_clusters, _LOCAL_BASES[projection.basis]
        if data.n_samples * data.n_features > _HELD and data.n_features <= _GRAM:
            if projection.filter_order:
                check_graph(data)
            order, kind = projection.filter_order, projection.graph_filter
            rows = streamed_coordinates(data, k, basis, order=order, kind=kind)
        else:
            rows = singular_coordinates(filtered_columns(data, projection), k, basis)
        rows.flags.writeable = False
        kept = _projected[data] = (projection, rows)
    return kept[1]


@takes(projection=made_of())
def project_new(data: ClientStore, new: ClientStore, projection: Projection) -> Floats:
    """Return new samples' coordinates in the fit's basis, filtered over their graph, if any."""
    X = filtered_columns(data, projection)
    U = singular_coordinates(X, projection.n_clusters, "U")
    images = X.T @ U  # (d, k): V Σ
    values = np.linalg.norm(images, axis=0)
    values[values == 0.0] = np.inf  # of an empty dimension
    plain = replace(projection, filter_order=projection.filter_order if new.has_graph else 0)
    rows: Floats = filtered_columns(new, plain) @ (images / values)  # X V = U Σ
    if projection.basis == "U":
        rows /= values
    elif projection.basis == "row-normalised":
        rows = divide_rows(rows, squared_row_norms(rows))
    return rows


def measure_new(new_rows: Floats, rows: Floats, labels: ClientLabels, n_clusters: int) -> Floats:
    """Return squared distances of new samples to the centres of the clusters, (n, k)."""
    means = CentresAtMeans(labels.labels[None])
    centres = centres_of(means, rows, np.ones(len(rows)), n_clusters)
    return distances_to(new_rows, centres).reshape(len(new_rows), -1)


def row_norms(rows: Floats) -> Floats:
    """Return squared row norms in the participant's columns, its part of the global ones."""
    return squared_row_norms(rows)


def divide_by_norms(rows: Floats, norms: GlobalNorms, party: str) -> Floats:
    """Divide rows by their norms over all participants, which are as large as the own at least."""
    lost = norms.squared < 0.5 * squared_row_norms(rows)
    if lost.sum() > _FEW * len(rows):
        raise OverflowRefused(f"norms of rows of participant {party!r} are {LOST}")
    return divide_rows(rows, norms.squared)


@takes(n_local_clusters=as_announced("n_local_clusters", "n_clusters"))
def cluster_locally(
    rows: Floats,
    n_local_clusters: int,
    basis: str,
    n_local_init: int,
    random_state: int,
    party: str,
    site: SiteRules = FREE,
) -> LocalClusters:
    """Return the participant's own clusters of its own columns (Protocol 3, line 3).

    A start has them once: means over two divisions of the samples differ by single ones.

    With "global-norm" they are clusters of directions: a row's norm relative to other participants'
    says nothing about similarity in the own columns.
    """
    if basis == "global-norm":
        rows = divide_rows(rows, squared_row_norms(rows))
    seed = seeds.integer_seed(random_state, "local clusters", party)
    labels = local_clusters(rows, n_local_clusters, seed=seed, n_init=n_local_init)
    site.hold_one("division into local clusters", "", labels.tobytes())
    return LocalClusters(labels.astype(np.int32))


@takes(
    variant=as_announced("variant"),
    n_local_clusters=as_announced("n_local_clusters", "n_clusters"),
    n_clients=at_most_clients,
)
def nodes_of(
    rows: Floats,
    nodes: Intersections,
    clusters: LocalClusters | None,
    virtual_node: VirtualNode,
    variant: str,
    n_local_clusters: int,
    n_clients: int,
    party: str,
    site: SiteRules = FREE,
) -> Nodes:
    """Return the participant's columns of the virtual nodes (Protocol 3, line 16).

    Raise PrivacyError for nodes that no intersections can be: of several own local clusters, or
    more in one than others' clusters make; in a tree, for more than two partitions make.
    """
    ids, own = nodes.ids.astype(np.int64), None if clusters is None else clusters.labels
    most, what = n_local_clusters ** (n_clients - 1), "each own local cluster"
    if variant == "tree":  # above its leaves clusters are of several participants
        own, most, what = np.zeros(len(rows), dtype=np.int64), n_local_clusters**2, "all samples"
    if own is None or not _refine(ids, nodes.sizes, own, most):
        raise PrivacyError(
            f"the virtual nodes that participant {party!r} is told must divide {what} into at most "
            f"{most}, and have their sizes; they do not. Nothing was measured; ask who runs the "
            "server."
        )
    if variant != "tree":
        site.hold_one("division into virtual nodes", "", ids.tobytes())
    labels = own if virtual_node == "local-centre" else None
    return Nodes(virtual_nodes(rows, ids, kind=virtual_node, labels=labels), nodes.sizes)


def _refine(ids: np.ndarray, sizes: np.ndarray, own: np.ndarray, most: int) -> bool:
    """Return whether ids of such sizes divide each of `own` >= 0 into `most` parts at most."""
    n = len(own)
    if len(ids) != n or own.min(initial=0) < 0 or not ((ids >= 0) & (ids < n)).all():
        return False
    if not np.array_equal(np.bincount(ids), sizes) or not sizes.all():
        return False
    of = np.empty(len(sizes), dtype=np.int64)
    of[ids] = own
    return bool((of[ids] == own).all() and np.bincount(of).max(initial=0) <= most)


@takes(
    distances=as_announced("distances"),
    variant=as_announced("variant"),
    n_refine=as_announced("n_refine"),
)
def measure(
    rows: Floats | Nodes,
    request: Measure,
    distances: str,
    variant: str,
    n_refine: int,
) -> Floats:
    """Return squared distances d^l (n, centres of all runs) in own columns (Protocol 2, line 4).

    Raise PrivacyError for distances that the run did not announce: of samples where virtual nodes
    are clustered without refinement, or to centres where landmarks were announced.
    """
    if isinstance(rows, Nodes):
        what, weights, rows = "virtual nodes", rows.sizes, rows.rows
    else:
        what, weights = "samples", np.ones(len(rows))
    if not request.nodes.size and not request.labels.size:
        return np.empty((len(rows), 0))
    to_means = bool(request.labels.size)
    if what == "samples" and variant != "basic":
        said = to_means and n_refine > 0
    else:
        said = not (to_means and distances == "landmarks")
    if not said:
        raise PrivacyError(
            f"distances of {what} to {'centres' if to_means else 'single ones'} are not in a run "
            f"that was announced with variant={variant!r}, distances={distances!r} and "
            f"n_refine={n_refine}. Nothing was sent; announce what is asked for."
        )
    wanted = (
        CentresAtNodes(request.nodes)
        if request.nodes.size
        else CentresAtMeans(request.labels.astype(np.int64), request.wanted.astype(np.bool_))
    )
    centres = centres_of(wanted, rows, weights, request.n_clusters)
    return distances_to(rows, centres).reshape(len(rows), -1)
