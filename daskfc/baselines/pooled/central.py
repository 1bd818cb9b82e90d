"""Central: the clients send their raw rows, and the server clusters the pool.

Paper       The "central" columns of OmniFC's Tables 1, 2, 5 and 6: the reference for federated
            methods. The server sees everything, as the ledger shows.
Notation    n samples of all clients, d features; X (n, d) float64, the pool at the server.
Messages    TableShape     client → caller           once, two numbers
            KeyOffer, SealedDigestKey   client → client   once, 72 bytes for each other client
            SampleDigests  client → server           once, 8 bytes per sample
            RawRows        client → server           all rows, in blocks; protection "raw"
            ClientLabels   server → client           once
Departures  Rows are pooled in the canonical order of their sample ids, so that labels do not depend
            on the partition of the data.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from daskfc import seeds
from daskfc.checks import Constraint, integer, optional
from daskfc.clustering import Clusterer, make_clusterer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, Message, PerClient, Sent, array
from daskfc.federation.methods.estimator import FederatedClusterer
from daskfc.federation.methods.parameters import param
from daskfc.federation.methods.sample_keys import digest_keys
from daskfc.federation.methods.samples import (
    canonical_positions,
    labelled_samples,
    labels_of_client,
    sample_digests,
)
from daskfc.folders import check_folder_name
from daskfc.stores import ClientStore

BLOCK_BYTES = 16 * 2**20  # ours: at most, for one message of raw rows


class TableShape(
    Message, route="client → caller", reveals="the client's numbers of samples and of features"
):
    """The size of one client's data, from which the caller plans the pool."""

    n_samples: int
    n_features: int


class RawRows(
    Message,
    protection="raw",
    route="client → server",
    reveals="everything: the client's data itself",
):
    """Raw rows of one client."""

    rows: np.ndarray = array("sample", "n_features", dtype="float64")


def table_shape(data: ClientStore) -> TableShape:
    """Return the size of a client's data, for the caller."""
    return TableShape(int(data.n_samples), int(data.n_features))


def raw_rows(data: ClientStore, *, start: int, stop: int) -> RawRows:
    """Return the rows from `start` up to `stop`, or to the end of the store, for the server."""
    return RawRows(np.ascontiguousarray(data.rows(start, min(stop, data.n_samples))))


def blocks_of_rows(
    federation: Federation, shapes: Mapping[str, TableShape]
) -> Iterator[tuple[int, PerClient[Sent[RawRows]]]]:
    """Have clients send all rows, block by block; yield where each begins, and its rows."""
    block = max(BLOCK_BYTES // (8 * max(one.n_features for one in shapes.values())), 1)
    for start in range(0, max(one.n_samples for one in shapes.values()), block):
        holders = [name for name, one in shapes.items() if one.n_samples > start]
        yield start, federation.ask(raw_rows, start=start, stop=start + block, clients=holders)


def _pool_path(workspace: str, run: str) -> Path:
    check_folder_name("run", run)
    return Path(workspace) / f"central-{run}.npy"


def place_rows(
    parts: Mapping[str, RawRows],
    positions: Mapping[str, np.ndarray],
    placed: int,
    *,
    start: int,
    shape: tuple[int, int],
    run: str,
    workspace: str,
) -> int:
    """Write a block of rows per client into the pool file, new if none are `placed`; count rows."""
    path = _pool_path(workspace, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob("central-*.npy"):
        if old != path:
            old.unlink(missing_ok=True)  # raw rows of a killed process
    mode = "r+" if path.exists() and placed else "w+"
    pool = np.lib.format.open_memmap(
        path,
        mode=mode,
        dtype=np.float64 if mode == "w+" else None,
        shape=shape if mode == "w+" else None,
    )
    for name, part in parts.items():
        pool[positions[name][start : start + len(part.rows)]] = part.rows
        placed += len(part.rows)
    pool.flush()
    return placed


def cluster_pool(
    placed: int,
    *,
    clusterer: Clusterer,
    n_clusters: int | None,
    seed: int,
    run: str,
    workspace: str,
) -> np.ndarray:
    """Return labels ``(n,)`` of the pool of ``placed`` rows, canonically ordered, and delete it."""
    path = _pool_path(workspace, run)
    try:
        pool = np.load(path, mmap_mode="r")
        assert len(pool) == placed, (len(pool), placed)
        labels = clusterer.pooled_labels(pool, n_clusters, seed)
    finally:
        path.unlink(missing_ok=True)  # after a restart the server gets all rows again
    return labels


class Central(FederatedClusterer):
    """The central algorithm on pooled raw data, sent through the same federation and ledger.

    Parameters
    ----------
    n_clusters : int, optional
        Clusters; left out for a clusterer that finds their number.
    clusterer : str, mapping or Clusterer
        As for OmniFC; runs on the samples, not on their distances.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64; coordinates ``client`` and ``sample_id``.

    Notes
    -----
    Privacy: none. Every row reaches the server in the clear; the federation refuses it unless it
    was started with ``allow_raw=True``. There is no ``predict``: the algorithms on pooled data keep
    no model.

    Examples
    --------
    >>> from daskfc.baselines import Central
    >>> Central(10, clusterer="k-means").get_params()["clusterer"]
    'k-means'
    """

    split: ClassVar = "samples"
    method_name: ClassVar[str] = "central"
    needs_raw: ClassVar[bool] = True
    n_clusters: int | None = param(optional(integer(low=1)), default=None, kw_only=False)
    clusterer: str | Mapping[str, Any] | Clusterer = param(
        Constraint("a clusterer", lambda value: value is not None), default="spectral"
    )

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints and each other."""
        super().check(n_clients)
        clusterer = make_clusterer(self.clusterer)
        if clusterer.finds_n_clusters != (self.n_clusters is None):
            way_out = "Leave it out" if clusterer.finds_n_clusters else "Give a number of clusters"
            rule = "None" if clusterer.finds_n_clusters else "a whole number of at least 1"
            raise InvalidInput(
                f"the 'n_clusters' parameter of Central must be {rule} with the clusterer "
                f"{clusterer.name!r}; got {self.n_clusters!r}. {way_out}."
            )

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        self._check_raw(federation, "raw rows to the server")
        with self._stage(federation, "pool"):
            digests = federation.ask(sample_digests, digest_keys(federation))
            positions = federation.on_server(canonical_positions, digests)
            placed = self._pool(federation, positions)
        clusterer = make_clusterer(self.clusterer)
        with self._stage(federation, "cluster"):
            labels = federation.on_server(
                cluster_pool,
                placed,
                clusterer=clusterer,
                n_clusters=self.n_clusters,
                seed=seeds.integer_seed(self.seed_, clusterer.name),
                run=self.run_id_,
            )
            federation.wait([labels])
        sent = {
            name: federation.tell(labels_of_client, labels, positions, client=name, clients=[name])
            for name in federation.clients
        }
        return federation.publish(labelled_samples, PerClient(sent), party="clients", wait=False)

    def _pool(self, federation: Federation, positions: Local) -> Local:
        """Move all rows to the server, one block of each client at a time."""
        shapes = federation.publish(table_shape, party="clients")
        n = sum(shape.n_samples for shape in shapes.values())
        if self.n_clusters is not None and self.n_clusters > n:
            raise InvalidInput(
                f"the 'n_clusters' parameter of Central must be at most the number of samples, "
                f"{n}; got {self.n_clusters}. Lower it."
            )
        place = {"shape": (n, next(iter(shapes.values())).n_features), "run": self.run_id_}
        placed: Local | int = 0
        for start, parts in blocks_of_rows(federation, shapes):
            placed = federation.on_server(
                place_rows, parts, positions, placed, start=start, **place
            )
            federation.wait([placed])  # at most one block of each client in memory
        assert isinstance(placed, Local), placed
        return placed
