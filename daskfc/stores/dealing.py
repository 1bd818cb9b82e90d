"""What each client gets of a source: rows of all columns, or columns of all rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.seeds import generator
from daskfc.stores.client import ClientStore
from daskfc.stores.config import PartitionConfig
from daskfc.stores.graph import split_edges
from daskfc.stores.samples import Samples

__all__ = ["Share", "check_columns", "check_same_samples", "check_together", "deal"]


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


def check_together(stores: Mapping[str, ClientStore]) -> None:
    """Refuse stores that go together neither by rows nor by columns.

    Clients without a column in common hold columns of the same samples; any others hold samples
    with the same columns.

    Raises
    ------
    StoreError
        See `check_same_samples` and `check_columns`.
    """
    names = [column for store in stores.values() for column in store.feature_names]
    if len(stores) > 1 and len(set(names)) == len(names):
        check_same_samples(stores)
    else:
        check_columns(stores)


def check_same_samples(stores: Mapping[str, ClientStore]) -> None:
    """Refuse clients whose samples differ from those of the first.

    Raises
    ------
    StoreError
        Names the client and how many samples it lacks, has besides, or has elsewhere.
    """
    first = next(iter(stores))
    wanted = stores[first].sample_ids()
    for name, store in stores.items():
        got = store.sample_ids()
        missing, foreign = len(np.setdiff1d(wanted, got)), len(np.setdiff1d(got, wanted))
        if missing or foreign:
            raise StoreError(
                f"client {name!r} has columns of its own and must have the samples of client "
                f"{first!r}; it lacks {missing} of {len(wanted)} and has {foreign} others. Link "
                "the records first."
            )
        moved = int((wanted != got).sum())
        if moved:
            raise StoreError(
                f"client {name!r} must have the samples of client {first!r} in the same order; "
                f"{moved} stand elsewhere. Sort both by id."
            )


def check_columns(stores: Mapping[str, ClientStore]) -> None:
    """Refuse clients whose columns differ from those of the first.

    Raises
    ------
    StoreError
        Names both clients and the first column that differs.
    """
    first = next(iter(stores))
    wanted = stores[first].feature_names
    for name, store in stores.items():
        got = store.feature_names
        if got != wanted:
            pairs = enumerate(zip(wanted, got, strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(wanted), len(got)))
            raise StoreError(
                f"client {name!r} must have the columns of client {first!r}; got {len(got)} "
                f"against {len(wanted)}, and they differ from column {at} on. Build one of them "
                f"again with the columns of the other."
            )
