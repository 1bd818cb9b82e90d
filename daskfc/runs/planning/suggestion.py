"""Suggest methods for a storage: what fits its clients and what the server may learn, and why."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from daskfc.checks import integer
from daskfc.errors import DaskfcError, InvalidInput
from daskfc.runs.pipeline.config import load_pipeline
from daskfc.runs.pipeline.methods import check_pipeline
from daskfc.runs.pipeline.parties import Progress, Source
from daskfc.stores import ClientStore, load_storage
from daskfc.stores.store.together import Split, check_together, number_of_samples

Learns = Literal["distances", "sums", "nothing"]
"""The most that the server may learn of samples."""

_MANY = 200_000  # ours: from as many samples on, landmarks take the place of all distances
_MOST_OF_TREE = 50_000  # ours: HDBSCAN reads a graph from there on, see `docs/guides/choosing.md`
_PIXELS = 50  # ours: as many columns of bytes that differ by numbers in their names have one unit


@dataclass(frozen=True)
class Proposal:
    """A pipeline, as a pipeline file has it, and the reason for it in a sentence or two."""

    name: str
    pipeline: Mapping[str, Any]
    why: str

    @property
    def slug(self) -> str:
        """The name as part of a file's or a folder's."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())


@dataclass(frozen=True)
class Suggestion:
    """What may be run on a storage.

    Attributes
    ----------
    storage : str
        What the clients hold, in words.
    proposals : tuple of Proposal
        The one to begin with first; each is checked as a run is.
    left_out : dict of str to str
        Proposals that the storage or the question rules out, and why.
    """

    storage: str
    proposals: tuple[Proposal, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "storage": self.storage,
            "proposals": [
                {"name": one.name, "why": one.why, "pipeline": dict(one.pipeline)}
                for one in self.proposals
            ],
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True)
class _Facts:
    """What decides: how data are split, how many there are, and what must be prepared."""

    split: Split
    n_clients: int
    n_samples: int
    n_clusters: int | None
    graph: bool
    prepare: tuple[Any, ...]

    @property
    def k(self) -> dict[str, Any]:
        """The number of clusters as a parameter: chosen by the run where it is not known."""
        return {"n_clusters": self.n_clusters or "auto"}


def suggest(
    storage: Source,
    *,
    server_learns: Learns = "distances",
    n_clusters: int | None = None,
    progress: Progress | None = None,
) -> Suggestion:
    """Suggest pipelines for a storage, by how data are split and what the server may learn.

    Parameters
    ----------
    storage : path or mapping
        A storage file; missing stores are built. All must be readable from here.
    server_learns : {"distances", "sums", "nothing"}
        The most that a method may tell it of samples: all distances, sums over all clients, or
        nothing. Preparing features takes sums in any case, and the caller gets all labels.
    n_clusters : int, optional
        How many clusters to find, at least 2; without it a run chooses where its method can.
    progress : callable, optional
        As for `daskfc.run`.

    Returns
    -------
    Suggestion

    Raises
    ------
    InvalidInput
        For another `server_learns`, fewer clusters, or a storage of which nothing can be made.

    Notes
    -----
    Privacy: nothing leaves a party. The caller reads what stores say of themselves: numbers, names
    and types of columns, and ids of samples; no features, and no labels.

    Examples
    --------
    >>> from daskfc.runs import suggest
    >>> suggest({"source": {"dataset": "iris"}}, server_learns="all")
    Traceback (most recent call last):
    ...
    daskfc.errors.InvalidInput: the 'server_learns' parameter must be 'distances', 'sums' or \
'nothing'; got 'all'.
    """
    if server_learns not in get_args(Learns):
        raise InvalidInput(
            "the 'server_learns' parameter must be 'distances', 'sums' or 'nothing'; got "
            f"{server_learns!r}."
        )
    if n_clusters is not None and not integer(2).holds(n_clusters):
        raise InvalidInput(
            f"the 'n_clusters' parameter must be a whole number of at least 2; got {n_clusters!r}."
        )
    loaded = load_storage(storage if isinstance(storage, Mapping) else Path(storage))

    def told(done: int, total: int) -> None:
        if progress is not None:
            progress("building the stores", done, total)

    loaded.ensure(progress=told, gaps=True)
    stores = loaded.open()
    facts = _facts_of(stores, n_clusters)
    proposals, left_out = _checked(_proposals(facts, server_learns), facts, stores)
    if not proposals and server_learns == "distances" and facts.split == "samples":
        proposals, _ = _checked(_on_sums(facts), facts, stores)  # which tell less
    return Suggestion(_in_words(facts, stores), tuple(proposals), left_out)


def _checked(
    every: Iterable[Proposal | tuple[str, str]], facts: _Facts, stores: Mapping[str, ClientStore]
) -> tuple[list[Proposal], dict[str, str]]:
    """Return the proposals that can run, and why the others cannot, by name."""
    can_run, left_out = [], {}
    for one in every:
        if isinstance(one, tuple):
            left_out[one[0]] = one[1]
            continue
        sizes: dict[str, Any] = {"n_clients": facts.n_clients, "n_samples": facts.n_samples}
        try:
            check_pipeline(load_pipeline(one.pipeline), **sizes, stores=stores)
        except DaskfcError as error:
            left_out[one.name] = str(error)
        else:
            can_run.append(one)
    return can_run, left_out


def _is_grid(stores: Mapping[str, ClientStore]) -> bool:
    """Return whether the clients of each view hold all samples between them, each once."""
    views: dict[tuple[str, ...], list[np.ndarray]] = {}
    for store in stores.values():
        views.setdefault(store.feature_names, []).append(store.sample_ids())
    of_view = [np.sort(np.concatenate(ids)) for ids in views.values()]
    return all(np.array_equal(of_view[0], ids) for ids in of_view)


def _facts_of(stores: Mapping[str, ClientStore], n_clusters: int | None) -> _Facts:
    split = check_together(stores)
    if split == "views" and _is_grid(stores):
        split = "grid"
    prepare: list[Any] = []
    if any(store.missing for store in stores.values()):
        prepare.append("impute")
    if any(store.categories for store in stores.values()):
        prepare.append("one-hot")
    graph = split == "columns" and all(store.has_graph for store in stores.values())
    scaled = any(store.scaling for store in stores.values())
    pixels = all(
        store.dtype.name == "uint8"
        and store.n_features >= _PIXELS
        and not store.categories
        and len({re.sub("[0-9]+", "", name) for name in store.feature_names}) == 1
        for store in stores.values()
    )
    if not (pixels or scaled or graph):
        prepare.append("standardise")
    return _Facts(split, len(stores), number_of_samples(stores), n_clusters, graph, tuple(prepare))


def _in_words(facts: _Facts, stores: Mapping[str, ClientStore]) -> str:
    held = {
        "samples": "samples with the same columns, each its own",
        "columns": "different columns of the same samples",
        "views": "views of samples, of which each client has some",
        "grid": "some columns of some samples",
    }[facts.split]
    columns = {name for store in stores.values() for name in store.feature_names}
    graph = ", joined by a graph" if facts.graph else ""
    n = facts.n_clients
    who = "One client holds" if n == 1 else f"{n} clients hold"
    return f"{who} {held}{graph}: {facts.n_samples:,} samples, {len(columns):,} columns."


def _proposals(facts: _Facts, learns: Learns) -> Iterator[Proposal | tuple[str, str]]:
    """Yield what may be proposed, the first choice first, and names with why they are not."""
    if facts.split == "samples":
        yield from {"distances": _any_shape, "sums": _on_sums, "nothing": _on_shares}[learns](facts)
    elif learns != "distances":
        yield (
            "methods of columns and views",
            "their server learns distances, or features of every sample; no method for clients "
            "that hold columns or views tells it less.",
        )
    elif facts.graph:
        yield from _of_graphs(facts)
    else:
        if facts.split != "views":
            yield from _any_shape(facts)
        if facts.split != "columns":
            yield from _of_views(facts)


def _omnifc(facts: _Facts, clusterer: Any, **params: Any) -> dict[str, Any]:
    split = {} if facts.split == "samples" else {"split": facts.split}
    return _pipeline("OmniFC", facts, {**split, **params, "clusterer": clusterer})


def _pipeline(method: str, facts: _Facts, params: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"method": method, "params": dict(params)}
    if facts.prepare:
        found["prepare"] = list(facts.prepare)
    return found


def _any_shape(facts: _Facts) -> Iterator[Proposal]:
    exact = "Labels are those of the pooled samples, exactly. The server learns all distances."
    if facts.n_samples < _MANY:
        yield Proposal(
            "spectral",
            _omnifc(facts, "spectral", **facts.k),
            f"Clusters of any shape, whose nearest neighbours are alike. {exact}",
        )
    else:
        yield Proposal(
            "landmark-spectral",
            _omnifc(facts, "landmark-spectral", **facts.k),
            "Clusters of any shape, of many samples: their distances to some landmarks stand for "
            "all. The server learns all distances.",
        )
    yield Proposal(
        "k-means",
        _omnifc(facts, "k-means", **facts.k),
        f"Clusters that are clouds around a mean. {exact}",
    )
    if facts.n_clusters is None:
        smallest = max(5, facts.n_samples // 100)
        tree: dict[str, Any] = {"min_cluster_size": smallest}
        if facts.n_samples > _MOST_OF_TREE:
            tree["n_neighbors"] = 30
        yield Proposal(
            "hdbscan",
            _omnifc(facts, {"hdbscan": tree}),
            f"It finds how many clusters of {smallest} samples or more there are, of any shape, "
            f"and leaves samples between them out. {exact}",
        )


def _on_sums(facts: _Facts) -> Iterator[Proposal]:
    yield Proposal(
        "k-means",
        _pipeline("FederatedKMeans", facts, facts.k),
        "Clusters that are clouds around a mean, nearly those of pooled k-means. The server learns "
        "sums over groups of all clients' samples; 'noise' bounds what they tell of one.",
    )
    yield Proposal(
        "kernel-k-means",
        _pipeline("FederatedKernelKMeans", facts, {**facts.k, "clustering": "sums"}),
        "Clusters that are no clouds, nearly those of pooled kernel k-means. The server learns "
        "sums over all clients.",
    )
    yield Proposal(
        "gaussian-mixture",
        _pipeline("FederatedGaussianMixture", facts, facts.k),
        "Clusters that are ellipsoids, or overlap, with probabilities. The server learns the "
        "parameters of every iteration, which is more than the other two tell.",
    )


def _with_number(
    facts: _Facts, why: str, *proposals: Proposal
) -> Iterator[Proposal | tuple[str, str]]:
    """Yield proposals for which the number of clusters must be given, or why it must."""
    if facts.n_clusters is None:
        yield proposals[0].name, f"{why} Give the number of clusters."
    else:
        yield from proposals


def _on_shares(facts: _Facts) -> Iterator[Proposal | tuple[str, str]]:
    shares = Proposal(
        "k-means on shares",
        _omnifc(facts, "k-means", **facts.k, reveal="labels"),
        "Three clients compute on shares. The server learns no distance and no sum, but for those "
        "that prepare features, the caller the cluster of each sample under a pseudonym, and "
        "others nothing, as long as no two of the three pool what they have.",
    )
    why = "where nobody learns anything, nobody can tell how many clusters there are."
    yield from _with_number(facts, why, shares)


def _of_graphs(facts: _Facts) -> Iterator[Proposal | tuple[str, str]]:
    kcagc = Proposal(
        "kCAGC",
        _pipeline("kCAGC", facts, facts.k),
        "Clients smooth their columns over the graph and cluster them. The server learns which "
        "samples are alike at each client, and all distances between these groups.",
    )
    steps = [*facts.prepare, "normalise", {"smooth": {"order": 12, "filter": "gcc"}}]
    smoothed = Proposal(
        "smoothed columns",
        {**_omnifc(facts, "reduced-k-means", **facts.k), "prepare": steps},
        "Labels are those of the pooled columns, smoothed over the graph, exactly. The server "
        "learns all distances, and everybody the length of each sample.",
    )
    why = (
        "over a graph the number of clusters could be chosen by stability alone, which says little "
        "where the graph tells them apart."
    )
    yield from _with_number(facts, why, kcagc, smoothed)


def _of_views(facts: _Facts) -> Iterator[Proposal | tuple[str, str]]:
    esfmc = Proposal(
        "ESFMC",
        _pipeline("ESFMC", facts, facts.k),
        "Clients train a network a view, also of samples that some views lack; the server learns "
        "features of every sample. It needs JAX.",
    )
    why = (
        "the number of clusters could be chosen by stability alone, with networks trained three "
        "times for each number."
    )
    yield from _with_number(facts, why, esfmc)
