"""Who holds what of the samples in OmniFC: samples, columns, or columns of some samples."""

from collections.abc import Mapping

from daskfc.clustering import Clusterer
from daskfc.errors import InvalidInput
from daskfc.stores import ClientStore
from daskfc.stores.store.together import check_unique

__all__ = ["check_neighbours", "check_split", "check_stores", "groups_of"]


def check_split(split: str, reveal: str, n_segments: int | None) -> None:
    """Refuse what clients with columns cannot do, before anything runs."""
    if split == "samples":
        return
    if reveal != "distances":
        raise InvalidInput(
            f"with reveal={reveal!r} clients must hold samples; got split={split!r}. Use "
            "reveal='distances'."
        )
    if (n_segments or 1) > 1:
        raise InvalidInput(
            f"with split={split!r} the 'n_segments' parameter of OmniFC must be 1, as clients hold "
            f"segments of rows already; got {n_segments}. Leave it out."
        )


def groups_of(columns: Mapping[str, tuple[str, ...]], split: str) -> dict[str, int] | None:
    """Return which clients have the same columns, numbered from 0; None where all have."""
    if split == "samples":
        return None
    numbers: dict[tuple[str, ...], int] = {}
    return {name: numbers.setdefault(tuple(own), len(numbers)) for name, own in columns.items()}


def check_stores(stores: Mapping[str, ClientStore], split: str, clusterer: Clusterer) -> None:
    """Refuse samples that two clients share, and graphs of more neighbours than samples."""
    columns = {name: store.feature_names for name, store in stores.items()}
    groups = groups_of(columns, split) or dict.fromkeys(stores, 0)
    if split == "samples":
        check_unique(stores)
    n = sum(store.n_samples for name, store in stores.items() if not groups[name])
    one_each = {group: len(columns[name]) for name, group in groups.items()}
    check_neighbours(clusterer, n, sum(one_each.values()))


def check_neighbours(clusterer: Clusterer, n: int, n_features: int) -> None:
    """Refuse a graph of more neighbours than there are samples."""
    most = clusterer.graph_neighbors + 1
    if clusterer.needs(n, n_features) == "neighbours" and most > n:
        raise InvalidInput(
            f"{clusterer.name} clustering of {n} samples can have no graph of {most} "
            f"neighbours each, the sample itself among them. Give clusterer={{{clusterer.name!r}: "
            f"{{'n_neighbors': {n}}}}} or fewer, or add samples."
        )
