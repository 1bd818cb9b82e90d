"""A client's graph in its store: the rows of a symmetric sparse matrix, in chunks.

The group ``graph`` holds ``indptr`` (n + 1,) int64, ``indices`` (entries,) and ``weights``
(entries,) float64; weights are left out where all are 1. Loops and weights are those of the source.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import zarr
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.seeds import generator
from daskfc.stores.layout.chunk_sizes import bounded
from daskfc.stores.layout.layout import array_options

_CHUNK = 1 << 20  # ours: entries of a chunk, 4 MiB of indices

Read = Callable[[Any, int, int], np.ndarray]


def checked_graph(adjacency: Any, n_samples: int, owner: str) -> sparse.csr_array:
    """Return an adjacency matrix (n, n) as sorted CSR; raise unless symmetric, finite and >= 0."""
    graph = sparse.csr_array(adjacency, dtype=np.float64)
    if graph.shape != (n_samples, n_samples):
        raise StoreError(
            f"{owner}: the graph of {n_samples} samples must have as many rows and columns; got "
            f"{graph.shape[0]} x {graph.shape[1]}. Correct the source."
        )
    graph.sum_duplicates()
    graph.eliminate_zeros()
    graph.sort_indices()
    if not np.isfinite(graph.data).all() or (graph.data < 0).any():
        bad = int((~np.isfinite(graph.data) | (graph.data < 0)).sum())
        raise StoreError(
            f"{owner}: weights of a graph must be finite and at least 0; {bad} are not. Correct or "
            "remove those edges."
        )
    lonely = int(np.count_nonzero((graph - sparse.csr_array(graph.T)).data))
    if lonely:
        raise StoreError(
            f"{owner}: a graph must be symmetric; {lonely} entries differ from their counterparts. "
            "Add the transpose, or take the larger of both."
        )
    return graph


def neighbour_graph(X: np.ndarray, n_neighbours: int, owner: str) -> sparse.csr_array:
    """Return the symmetric, unweighted graph that joins each sample to its nearest ones."""
    from sklearn.neighbors import kneighbors_graph  # 60 MB that a worker does not need

    if not 1 <= n_neighbours < len(X):
        raise StoreError(
            f"{owner}: the neighbours of source.graph must be in [1, {len(X) - 1}], below the "
            f"number of samples; got {n_neighbours}."
        )
    near = sparse.csr_array(kneighbors_graph(X, n_neighbours, include_self=False))
    return checked_graph(near.maximum(sparse.csr_array(near.T)), len(X), owner)


def graph_digest(graph: sparse.csr_array) -> str:
    """Return the SHA-256 of a graph in rows with sorted columns."""
    parts = ((graph.indptr, "<i8"), (graph.indices, "<i8"), (graph.data, "<f8"))
    digest = hashlib.sha256()
    for values, dtype in parts:
        digest.update(np.ascontiguousarray(values, dtype).data)
    return digest.hexdigest()


def write_graph(group: zarr.Group, graph: sparse.csr_array) -> None:
    """Write a graph from `checked_graph` into a store that is being written."""
    place = group.create_group("graph")
    n, entries = graph.shape[0], graph.nnz
    wide = np.int32 if n < 1 << 31 else np.int64
    arrays: dict[str, tuple[np.ndarray, Any, int, str]] = {
        "indptr": (graph.indptr, np.int64, n + 1, "boundary"),
        "indices": (graph.indices, wide, entries, "entry"),
    }
    if not (graph.data == 1.0).all():
        arrays["weights"] = (graph.data, np.float64, entries, "entry")
    for name, (values, dtype, size, axis) in arrays.items():
        if size == 0:
            continue  # a graph without edges
        options = array_options((size,), (min(size, _CHUNK),), (axis,))
        place.create_array(name, dtype=np.dtype(dtype).newbyteorder("<"), **options)[:] = values
    loops = int((graph.diagonal() != 0).sum())
    edges = (entries - loops) // 2 + loops
    place.attrs.update({"entries": entries, "edges": edges, "digest": graph_digest(graph)})


class StoredGraph:
    """The graph of a store, read in blocks of rows by `read` (array, start, stop)."""

    def __init__(self, group: zarr.Group, n_samples: int, read: Read, url: str) -> None:
        self._parts = {name: bounded(array, url) for name, array in group.arrays()}
        self._n = n_samples
        self._read = read
        self.n_edges = int(group.attrs["edges"])  # type: ignore[arg-type]
        self.n_entries = int(group.attrs["entries"])  # type: ignore[arg-type]
        self.digest = str(group.attrs["digest"])

    def arrays(self) -> list[Any]:
        """Return the arrays that the store must have."""
        return list(self._parts.values())

    def rows(self, start: int, stop: int) -> sparse.csr_array:
        """Return rows start to stop of the adjacency matrix, ``(stop - start, n)``."""
        bounds = self._read(self._parts["indptr"], start, stop + 1)
        first, last = int(bounds[0]), int(bounds[-1])
        if first == last:
            return sparse.csr_array((stop - start, self._n), dtype=np.float64)
        indices = self._read(self._parts["indices"], first, last)
        if "weights" in self._parts:
            weights = self._read(self._parts["weights"], first, last)
        else:
            weights = np.ones(last - first)
        return sparse.csr_array(
            (weights, indices, bounds - first), shape=(stop - start, self._n), dtype=np.float64
        )

    def blocks(self, rows: int) -> Iterator[tuple[int, sparse.csr_array]]:
        """Yield (first row, rows of the adjacency matrix), from the top to the bottom."""
        for start in range(0, self._n, rows):
            yield start, self.rows(start, min(start + rows, self._n))


def split_edges(
    graph: sparse.csr_array, n_clients: int, seed: int, share: float | None = None
) -> list[sparse.csr_array]:
    """Deal the edges of a symmetric graph to clients, each to one or several (kCAGC, Appendix D).

    Each client gets `share` of them, by default 1 / n_clients without overlap. A larger share
    contains a smaller one of the same seed; a client overlaps most with the next one.
    """
    if share is not None and not 1 - 1e-9 <= share * n_clients <= n_clients:  # 1/3 is not exact
        raise StoreError(
            f"the share of a split graph must be in [1/{n_clients}, 1] with {n_clients} clients, "
            f"for together they hold every edge; got {share}. Raise it, or leave it out."
        )
    upper = sparse.coo_array(sparse.triu(graph))
    parts = []
    for mine in _deal_edges(upper.nnz, n_clients, seed, share or 0.0):
        i, j, w = upper.coords[0][mine], upper.coords[1][mine], upper.data[mine]
        off = i != j
        rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        weights = np.concatenate([w, w[off]])
        parts.append(sparse.csr_array((weights, (rows, columns)), shape=graph.shape))
    return parts


def _deal_edges(n_edges: int, n_clients: int, seed: int, share: float) -> list[np.ndarray]:
    """Return each client's edge numbers: an arc of a circle of all edges, from its own edges on.

    Arcs begin at equal distances, so that they cover all edges equally often.
    """
    owners = generator(seed, "edges").permutation(np.arange(n_edges) % n_clients)
    ends = np.arange(n_clients + 1) * n_edges // n_clients  # of equal distances, rounded down
    longer = np.diff(ends) > n_edges // n_clients
    places = np.argsort(~longer, kind="stable")  # of the owners; the first have an edge more
    mixed = generator(seed, "edges", "circle").permutation(n_edges)
    circle = mixed[np.argsort(places[owners[mixed]], kind="stable")]
    wanted = round(share * n_edges) if share * n_clients > 1 + 1e-9 else 0
    arcs = []
    for place in places:
        length = max(wanted, int(ends[place + 1] - ends[place]))
        arcs.append(np.sort(circle[np.arange(ends[place], ends[place] + length) % n_edges]))
    return arcs
