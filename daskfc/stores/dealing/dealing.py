"""Deal a source to clients: rows of all columns, columns of all rows, or rows of views."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from daskfc.errors import StoreError
from daskfc.seeds import generator
from daskfc.stores.dealing.config import PartitionConfig
from daskfc.stores.dealing.views import check_deal, deal_to_clients, draw_holders
from daskfc.stores.layout.graph import split_edges
from daskfc.stores.layout.samples import Samples


@dataclass(frozen=True)
class Share:
    """One client's part of a source: ascending rows, ordered columns, its graph and its view."""

    rows: np.ndarray
    columns: np.ndarray
    graph: sparse.csr_array | None = None
    view: str | None = None

    def within(self, start: int, stop: int) -> np.ndarray:
        """Return the client's rows among those from start to stop, counted from start."""
        low, high = np.searchsorted(self.rows, [start, stop])
        mine: np.ndarray = self.rows[low:high] - start
        return mine


def deal(samples: Samples, partition: PartitionConfig, name: str) -> list[Share]:
    """Return every client's share; raise StoreError for a scheme that does not suit the source."""
    n, d = samples.n_samples, len(samples.feature_names)
    if partition.scheme == "views":
        return list(_views(samples, partition, name))
    if samples.present is not None:
        missing = int((~samples.present.all(axis=1)).sum())
        raise StoreError(
            f"storage {name!r}: partition {partition.scheme!r} deals samples that have every "
            f"column; {missing} of the source's {n} lack a view. Use scheme 'views'."
        )
    if partition.scheme == "vertical":
        return list(_vertical(samples, partition, name))
    if partition.scheme == "grid" and samples.graph is None:
        return list(_grid(samples, partition, name))
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
    assert clients is not None  # by PartitionConfig
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


def _grid(samples: Samples, partition: PartitionConfig, name: str) -> Iterator[Share]:
    n, d, groups = samples.n_samples, len(samples.feature_names), partition.column_groups
    assert partition.clients is not None  # by PartitionConfig
    assert groups is not None
    if partition.clients % groups or not groups <= d:
        raise StoreError(
            f"storage {name!r}: in a partition 'grid' as many clients hold each of the column "
            f"groups, of at least a column each; got {partition.clients} clients and {groups} "
            f"groups of {d} columns. Change one of the two."
        )
    order = generator(partition.seed, "partition", "grid").permutation(n)
    for rows in np.array_split(order, partition.clients // groups):
        for columns in np.array_split(np.arange(d), groups):
            yield Share(np.sort(rows), columns)


def _views(samples: Samples, partition: PartitionConfig, name: str) -> Iterator[Share]:
    views = samples.views
    if len(views) < 2:
        raise StoreError(
            f"storage {name!r}: partition 'views' deals at least two views; the source is "
            f"{'one view' if views else 'one table'}. Name its views by source.features, or a "
            "file for each by source.views, or use scheme 'vertical'."
        )
    clients = partition.clients_per_view or 1
    if samples.present is not None:
        if partition.overlap is not None:
            raise StoreError(
                f"storage {name!r}: partition.overlap makes complete views incomplete; of this "
                f"source's {samples.n_samples} samples "
                f"{int(samples.present.all(axis=1).sum())} have all views. Leave it out."
            )
        held = samples.present
    else:
        overlap = 1.0 if partition.overlap is None else partition.overlap
        held = draw_holders(samples.n_samples, len(views), overlap=overlap, seed=partition.seed)
    check_deal(held, [view.name for view in views], clients, f"storage {name!r}")
    dealt = deal_to_clients(held, clients_per_view=clients, seed=partition.seed)
    for number, rows in enumerate(dealt):
        view = views[number // clients]
        yield Share(rows, np.arange(view.start, view.stop), view=view.name)
