"""Who holds what of the samples in OmniFC: samples, columns, or columns of some samples."""

from collections.abc import Mapping, Sequence

from daskfc import seeds
from daskfc.checks import Constraint
from daskfc.clustering import Clusterer
from daskfc.errors import InvalidInput
from daskfc.federation import Federation, Local, PerClient
from daskfc.secure.distances import GapReport, Held, own_modularity, told_modularity
from daskfc.stores import ClientStore
from daskfc.stores.store.together import check_unique, number_of_samples

BALANCE = Constraint(
    "true, false or 'modularity'", lambda value: isinstance(value, bool) or value == "modularity"
)
"""How columns of clients count beside each other."""


def check_split(
    split: str,
    balance: bool | str,
    reveal: str,
    n_segments: int | None,
    max_abs: float | None,
    clusterer: Clusterer,
    n_clusters: int | None,
    gaps: str,
) -> None:
    """Refuse what clients with columns cannot do, or they alone can, before anything runs."""
    if balance == "modularity" and (n_clusters or 0) < 2:
        raise InvalidInput(
            "with balance='modularity' the 'n_clusters' parameter of OmniFC must be 2 or more, as "
            f"clients look for as many groups; got {n_clusters!r}. Give it, or use balance=True."
        )
    if clusterer.from_origin and split != "columns":
        raise InvalidInput(
            f"{clusterer.name} without centring needs the length of each sample, which clients add "
            f"up over columns; got split={split!r}. Use split='columns', or leave 'centred' out."
        )
    own = split == "columns" or (split == "grid" and gaps != "refuse")
    if balance and (not own or max_abs is not None):
        raise InvalidInput(
            "the 'balance' parameter of OmniFC is for split='columns' without 'max_abs', where "
            "each client's columns have a unit of their own, or for split='grid' with 'gaps'; got "
            f"split={split!r} and max_abs={max_abs!r}. Leave it out, or prepare features by "
            "'standardise'."
        )
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


def check_gaps(gaps: str, split: str, distances: str, clusterer: Clusterer) -> None:
    """Refuse what distances that no points have cannot do, before anything runs."""
    if gaps == "refuse":
        return
    if split != "grid" or distances == "landmark":
        raise InvalidInput(
            f"with gaps={gaps!r} clients of OmniFC hold columns of some samples, whose distances "
            f"are computed in blocks; got split={split!r} and distances={distances!r}. Use "
            "split='grid' and distances='exact'."
        )
    if not clusterer.any_distances:
        raise InvalidInput(
            f"with gaps={gaps!r} distances are those of no points, and {clusterer.name} with "
            f"these parameters needs points. Use spectral, 'k-medoids', DBSCAN, 'hierarchical' "
            "with another linkage than 'ward', or HDBSCAN with 'n_neighbors'."
        )


def check_new(gaps: GapReport | None) -> None:
    """Refuse new samples beside samples of fit that lack columns."""
    if gaps is not None:
        raise InvalidInput(
            f"new samples have no labels where samples of fit lack columns, as "
            f"{gaps.lacking:,} do. Fit again with the new ones, or without those that lack some."
        )


def check_units(columns: Mapping[str, Sequence[str]], balance: bool | str) -> None:
    """Refuse one column in the units of two clients."""
    held = [tuple(own) for own in columns.values()]
    alike = [name for name, own in columns.items() if held.count(tuple(own)) > 1]
    if balance and alike:
        raise InvalidInput(
            f"with balance={balance!r} each client's columns have a unit of their own; "
            f"{', '.join(alike)} have some with others. Leave it out, or join their stores."
        )


def check_start(start: str, split: str, reveal: str, distances: str) -> None:
    """Refuse to go on from a last fit whose distances nobody keeps, before anything runs."""
    if start == "last" and (split, reveal) != ("samples", "distances"):
        raise InvalidInput(
            "with start='last' clients of OmniFC hold samples and its server distances; got "
            f"split={split!r} and reveal={reveal!r}. Leave 'start' out."
        )
    if start == "last" and distances == "blocks":
        raise InvalidInput(
            "with start='last' OmniFC keeps distances to landmarks, of which distances='blocks' "
            "has none. Use distances='exact'."
        )


def weights_by(
    balance: bool | str, federation: Federation, n_clusters: int | None, seed: int
) -> tuple[PerClient[Local[float]] | None, dict[str, float]]:
    """Return the weights of clients' columns, where they are, and their shares of the whole."""
    check_units(federation.contract.columns, balance)
    if balance != "modularity":
        return None, {}
    assert n_clusters is not None
    own_seed = seeds.integer_seed(seed, "own columns")
    weights = federation.on_clients(own_modularity, n_clusters=n_clusters, seed=own_seed)
    told = federation.publish(told_modularity, weights, party="clients")
    whole = sum(one.modularity for one in told.values())
    return weights, {name: one.modularity / whole for name, one in told.items()}


def held_by(
    columns: Mapping[str, Sequence[str]],
    split: str,
    balance: bool | str = False,
    gaps: str = "refuse",
    weights: PerClient[Local[float]] | None = None,
    told: Mapping[str, float] = {},
) -> Held | None:
    """Return which clients have the same columns, and weights `told`; None where all have."""
    if split == "samples":
        return None
    numbers: dict[tuple[str, ...], int] = {}
    groups = {n: numbers.setdefault(tuple(own), len(numbers)) for n, own in columns.items()}
    shares = (dict(told) or dict.fromkeys(columns, 1.0)) if balance else None
    return Held(groups, balance, weights, gaps, shares)


def with_all_samples(
    columns: Mapping[str, Sequence[str]], split: str, gaps: GapReport | None = None
) -> list[str]:
    """Return clients that together hold each sample, once where none lacks columns."""
    held = held_by(columns, split) if gaps is None else None
    return [name for name in columns if held is None or not held.groups[name]]


def check_stores(stores: Mapping[str, ClientStore], split: str, clusterer: Clusterer) -> None:
    """Refuse samples that two clients share, and graphs of more neighbours than samples."""
    columns = {name: store.feature_names for name, store in stores.items()}
    if split == "samples":
        check_unique(stores)
    n = number_of_samples(stores)
    check_enough(clusterer, n, sum(map(len, {tuple(own) for own in columns.values()})))


def check_enough(
    clusterer: Clusterer, n: int, n_features: int, n_clusters: int | None = None
) -> None:
    """Refuse more clusters, and a graph of more neighbours, than there are samples."""
    if n_clusters is not None and n_clusters > n:
        raise InvalidInput(
            f"the 'n_clusters' parameter of OmniFC must be at most the number of samples, {n}; got "
            f"{n_clusters}. Lower it or add samples."
        )
    most = clusterer.graph_neighbors + 1
    if clusterer.needs(n, n_features) == "neighbours" and most > n:
        raise InvalidInput(
            f"{clusterer.name} clustering of {n} samples can have no graph of {most} "
            f"neighbours each, the sample itself among them. Give clusterer={{{clusterer.name!r}: "
            f"{{'n_neighbors': {n}}}}} or fewer, or add samples."
        )
