"""What each client gets of a source: rows of all columns, or columns of all rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.seeds import generator
from daskfc.stores.config import PartitionConfig
from daskfc.stores.graph import split_edges
from daskfc.stores.samples import Samples

__all__ = ["Share", "deal"]


@dataclass(frozen=True)
class Share:
    """One client's part of a source.

    Parameters
    ----------
    rows, columns : ndarray of int64
        Ascending rows, and columns in their order.
    graph : csr_array, optional
        Of the client's rows.
    """

    rows: np.ndarray
    columns: np.ndarray
    graph: sparse.csr_array | None = None

    def within(self, start: int, stop: int) -> np.ndarray:
        """Return the client's rows among those from start to stop, counted from start."""
        low, high = np.searchsorted(self.rows, [start, stop])
        mine: np.ndarray = self.rows[low:high] - start
        return mine


def deal(samples: Samples, partition: PartitionConfig, name: str) -> list[Share]:
    """Return every client's share.

    Parameters
    ----------
    samples : Samples
        An opened source.
    partition : PartitionConfig
        How it is dealt.
    name : str
        The storage's, for messages.

    Raises
    ------
    StoreError
        When the scheme does not go with the source.
    """
    n, d = samples.n_samples, len(samples.feature_names)
    if partition.scheme == "vertical":
        return list(_vertical(samples, partition, name))
    if samples.graph is not None:
        raise StoreError(
            f"storage {name!r}: partition {partition.scheme!r} deals samples, and the edges of the "
            "source's graph would be cut; use scheme 'vertical'."
        )
    labels = samples.labels
    if labels is None:
        if partition.scheme != "iid":
            raise StoreError(
                f"storage {name!r}: partition {partition.scheme!r} deals by labels and the source "
                "has none; name them by source.labels, or use scheme 'iid'."
            )
        labels = np.zeros(n, dtype=np.int64)
    return [Share(np.sort(rows), np.arange(d)) for rows in partition.deal(labels)]


def _vertical(samples: Samples, partition: PartitionConfig, name: str) -> Iterator[Share]:
    n, d, clients = samples.n_samples, len(samples.feature_names), partition.clients
    if clients > d:
        raise StoreError(
            f"storage {name!r}: a vertical partition deals each of the source's {d} features to "
            f"one client; got {clients} clients. Ask for fewer."
        )
    if partition.graph is not None and samples.graph is None:
        raise StoreError(
            f"storage {name!r}: partition.graph is {partition.graph!r} and the source has no "
            "graph; leave it out, or add source.graph."
        )
    order = np.arange(d)
    if partition.columns == "random":
        order = generator(partition.seed, "partition", "vertical").permutation(d)
    graphs: list[sparse.csr_array | None] = [samples.graph] * clients
    if partition.graph == "split" and samples.graph is not None:
        share = partition.graph_share
        graphs = list(split_edges(samples.graph, clients, partition.seed, share))
    for columns, graph in zip(np.array_split(order, clients), graphs, strict=True):
        yield Share(np.arange(n), np.sort(columns), graph)
