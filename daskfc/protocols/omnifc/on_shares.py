"""OmniFC without distances: labels, or a graph of neighbours, from shares of three clients.

Paper       None: OmniFC's server learns all distances. This is DBSCAN and k-means on replicated
            shares, `daskfc.secure.three_parties`, on the grid that OmniFC's distances have.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfc.checks import Constraint
from daskfc.clustering import DBSCAN, Clusterer, KMeans, RadiusGraph
from daskfc.clustering.views.graphs import Pairs
from daskfc.clustering.views.order import order_of_graph
from daskfc.coding import LagrangeCode
from daskfc.errors import InvalidInput, OverflowRefused, ResourceRefused
from daskfc.federation import SERVER, Federation, Local, PerClient, Sent
from daskfc.federation.methods.samples import ClientLabels, LabelledSamples, own_new_labels
from daskfc.federation.party.process_memory import PROCESS_BYTES, fits
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import Announced, Rule, by_message, takes
from daskfc.protocols.omnifc.clusters import announced_clusterer, cluster, labels_for
from daskfc.protocols.omnifc.messages import ClusterReport
from daskfc.protocols.omnifc.scores import cluster_report
from daskfc.secure.distances import RowPlan
from daskfc.secure.distances.parties.party import describe_new
from daskfc.secure.distances.routes.grids import choose_grid, place_of_samples
from daskfc.secure.shared import DensityClusters, Lloyd
from daskfc.secure.shared.planes import unpacked
from daskfc.secure.sums import Centre
from daskfc.secure.three_parties import (
    CentresOfShares,
    DensityOfShares,
    NeighboursOfShares,
    SharedComputation,
    WholeRows,
    steps,
)
from daskfc.secure.three_parties.steps import PREDICTIONS, RingKeys, Shares, Turn
from daskfc.secure.three_parties.tasks import LabelTask, Task, a_task
from daskfc.stores import ClientStore

ITERATIONS = 20
"""Of k-means, at most: their number is fixed before, as nobody sees when labels stay."""
CLAIMS = {
    "labels": "nobody learns a distance, as long as no two of the three clients that compute "
    "collude; each client learns the clusters of its own samples, the server pseudonyms, sizes and "
    "a range, the caller the number of rounds; labels of chosen new samples tell where centres of "
    "k-means or core samples are.",
    "neighbours": "the server learns which samples are within eps of each other, pseudonyms, sizes "
    "and a range; clients learn the clusters of their own samples, as long as no two of the three "
    "that compute collude; the caller the clusters of all, and the number of components.",
}
"""What is claimed of privacy, by what is revealed."""
THREE = Constraint(
    "three different names",
    lambda names: (
        isinstance(names, list | tuple)
        and all(isinstance(name, str) for name in names)
        and len(set(names)) == len(names) == 3
    ),
)
"""Of those who compute."""
_BITS, _LEAST_BITS = 16, 8  # ours: of a feature in k-means, whose centres are rounded as finely
_BEYOND = 1 << 62
_AT_ONCE = 1 << 20  # comparisons
_ROWS = 1024  # ours: of a graph's bits, read at a time
_OF_PAIR = 33  # bytes of a pair in a block: its bit, and its two numbers as they are found and put
_FINE = 1000.0  # ours: steps of a grid in a radius; honest grids have twice as many, see RESOLVED
_OFF = 2.0**-8  # ours: of a step, what float64 loses of samples on a grid


def check_on_shares(
    reveal: str,
    clusterer: Clusterer,
    distances: str,
    n_colluding: int | None,
    n_clients: int | None,
) -> None:
    """Refuse what shares cannot do, before anything runs."""
    where, instead = f"with reveal={reveal!r}", "reveal='distances'"
    if distances != "exact":
        raise InvalidInput(
            f"{where} no distances are computed, so 'distances' must be left out; got "
            f"{distances!r}. Leave it out, or use {instead}."
        )
    means = isinstance(clusterer, KMeans) and clusterer.rows == "coordinates"
    if reveal == "neighbours":
        kinds, possible = "dbscan, or spectral of affinity 'radius'", clusterer.radius2 is not None
    else:
        kinds = "k-means on coordinates or by dbscan"
        possible = means or isinstance(clusterer, DBSCAN)
    if not possible:
        raise InvalidInput(
            f"OmniFC {where} clusters by {kinds}; got {clusterer.name!r}. Choose it, or {instead}."
        )
    if (n_colluding or 1) > 1:
        raise InvalidInput(
            f"{where} two of the three clients that compute learn all samples if they collude, so "
            f"'n_colluding' must be 1; got {n_colluding}. Use {instead}."
        )
    if n_clients is not None and n_clients < 3:
        raise InvalidInput(
            f"OmniFC {where} needs three clients that compute; got {n_clients}. Add clients, or "
            f"use {instead}."
        )


def check_members(
    members: Sequence[str] | None, reveal: str, clients: Iterable[str] | None = None
) -> None:
    """Refuse members that are no clients, or have nothing to compute, before anything runs."""
    if members is None:
        return
    if reveal == "distances":
        raise InvalidInput(
            "the 'members' parameter of OmniFC names those who compute on shares, and with "
            "reveal='distances' nobody does. Leave it out."
        )
    names = sorted(members if clients is None else clients)
    if strange := [one for one in members if one not in names]:
        raise InvalidInput(
            f"the 'members' parameter of OmniFC must name three clients; there is no "
            f"{strange[0]!r}. Name three of {', '.join(names)}."
        )


def check_placing(reveal: str, clusterer: Clusterer) -> None:
    """Refuse to place new samples where the parties have nothing to place them at."""
    if reveal == "neighbours":
        raise InvalidInput(
            f"OmniFC with reveal={reveal!r} and clusterer {clusterer.name!r} cannot place new "
            "samples. Fit again with them, or use reveal='labels' or 'distances'."
        )


@dataclass(frozen=True)
class RowGrid:
    """Rows times `scale` are rounded to whole numbers below 2^bits; `exact` ones lie on them."""

    scale: float
    bits: int
    exact: bool


def _is_fine(grid: RowGrid, asked: Announced) -> bool:
    """Return whether rounding to a grid changes no neighbour by more than an honest run's."""
    if [type(one) for one in vars(grid).values()] != [float, int, bool]:
        return False
    if not (0 < grid.scale < math.inf and 0 < grid.bits < 31):
        return False
    clusterer = announced_clusterer(asked)
    if grid.exact or clusterer is None or clusterer.radius2 is None:
        return True
    return grid.scale * math.sqrt(clusterer.radius2) >= _FINE


@takes(centre=by_message, grid=Rule("a grid as fine as the radius asks for", _is_fine))
def whole_rows(
    data: ClientStore, centre: Centre | None = None, *, grid: RowGrid, site: SiteRules = FREE
) -> WholeRows:
    """Return the samples (n, d) on a grid, one in a start of a run, or refuse them."""
    point = None if centre is None else centre.point
    content = repr(grid).encode() + (b"" if point is None else point.tobytes())
    # one: what lies beyond is refused, so that other grids would tell where samples are
    site.once().hold("grid of rows on shares", "", content)
    found = np.empty((data.n_samples, data.n_features), dtype=np.int64)
    for start, block in data.blocks():
        unrounded = (block if point is None else block - point) * grid.scale
        rows = np.rint(unrounded)
        off = grid.exact and not (np.abs(rows - unrounded) <= _OFF).all()
        if off or not (np.abs(rows) < 2.0**grid.bits).all():  # also where a value is missing
            raise OverflowRefused(
                "samples lie beyond the range, or off the grid, that the clients told before the "
                "fit. Start the run again; leave new samples out that lie farther than its own."
            )
        found[start : start + len(rows)] = rows
    return WholeRows(found, grid.scale, point, bits=grid.bits)


@takes(centre=by_message, grid=Rule("a grid as fine as the radius asks for", _is_fine))
def new_rows(
    new: ClientStore, centre: Centre | None = None, *, grid: RowGrid, site: SiteRules = FREE
) -> WholeRows:
    """Return new samples (n, d) on the grid of the fit, of a few stores in a start, or refuse."""
    site.once().hold_few("stores of new samples on shares", new.digest.encode(), PREDICTIONS)
    return replace(whole_rows(new, centre, grid=grid, site=site), new=True)


def _is_announced(task: Task, asked: Announced) -> bool:
    """Return whether a task clusters as the run announced, with no number of the caller's own."""
    clusterer = announced_clusterer(asked)
    if not a_task.holds(task, asked):
        return False
    if not isinstance(task, CentresOfShares):
        near, density = isinstance(task, NeighboursOfShares), task.clusters
        return (
            clusterer is not None
            and clusterer.radius2 is not None
            and (near or isinstance(clusterer, DBSCAN))
            and asked.parameters.get("reveal") == ("neighbours" if near else "labels")
            and density.squared_eps == _largest_within(clusterer.radius2, task.scale)
            and density.min_samples == clusterer.params.get("min_samples", 1)
        )
    (n, d), k = task.shape, asked.parameters.get("n_clusters")
    return (
        isinstance(clusterer, KMeans)
        and asked.parameters.get("reveal") == "labels"
        and k == task.lloyd.n_clusters
        and task == _finest(n, d, k, clusterer.max_iter, task.seed, task.scale)
    )


@takes(task=Rule("the clustering that was announced", _is_announced))
def begun(keys: RingKeys, shares: Shares, task: Task, site: SiteRules = FREE) -> Turn:
    """Begin the announced task at a member."""
    return steps.begun(keys, shares, task, site)


class OnShares:
    """The samples of a federation in a run, to be clustered on shares by three `members`.

    `code` hides the centre of far samples, and `seed`, of the candidates of k-means, is public.
    """

    def __init__(
        self,
        federation: Federation,
        code: LagrangeCode,
        clusterer: Clusterer,
        *,
        seed: int,
        tolerance: float,
        max_abs: float | None,
        members: Sequence[str] | None = None,
    ) -> None:
        self._federation, self._clusterer, self._seed = federation, clusterer, seed
        self._place = place_of_samples(federation, code, max_abs)
        self._system = choose_grid(
            federation, code, self._place, tolerance=tolerance, resolve=clusterer.radius2
        )
        self.computation = SharedComputation(
            federation, None if members is None else tuple(members), begun
        )
        self._fitted: tuple[LabelTask, RowGrid] | None = None

    def labels(self, n_clusters: int | None) -> PerClient[Local[NDArray[np.int64]]]:
        """Return each client's labels, which stay there."""
        self._check(n_clusters)
        n, d = self._shape
        if isinstance(self._clusterer, DBSCAN):
            density, grid = self._fitted = self._density()
            return self.computation.labels(self._rows(density, grid), density)
        assert isinstance(self._clusterer, KMeans)
        assert n_clusters is not None
        task = _finest(n, d, n_clusters, self._clusterer.max_iter, self._seed, 1.0)
        bits = task.lloyd.magnitude_bits
        scale = self._system.scale * 2.0 ** (bits - math.ceil(math.log2(self._largest)))
        scale = min(scale, (2.0**bits - 1) / (self._place.public.radius or 1.0))
        task, grid = replace(task, scale=scale), RowGrid(scale, bits, False)
        self._fitted = task, grid
        return self.computation.labels(self._rows(task, grid), task)

    def labels_of_new(self, new: PerClient[Local[ClientStore]]) -> PerClient[Sent[LabelledSamples]]:
        """Have clients tell the clusters of their new samples."""
        check_placing("labels", self._clusterer)
        assert self._fitted is not None
        (task, grid), federation, owners = self._fitted, self._federation, tuple(new)
        told = federation.publish(describe_new, new, party=owners)
        n = sum(one.n_samples for one in told.values())
        memory = task.memory_of_placing(n)
        _check_memory(federation, self.computation, task, n, task.shape[1], memory)
        centre = self._place.centre
        rows = federation.on_clients(new_rows, new, centre, grid=grid, clients=owners)
        labels = self.computation.labels_of_new(rows, n)
        return federation.publish(own_new_labels, new, labels, party=owners, wait=False)

    def labels_of_neighbours(
        self, n_clusters: int | None
    ) -> tuple[PerClient[Sent[ClientLabels]], ClusterReport]:
        """Have the server cluster the graph of neighbours, and send each client its labels."""
        self._check(n_clusters)
        clusterer, plan = self._clusterer, self._place.plan
        density, grid = self._density()
        task = NeighboursOfShares(density.clusters, density.scale)
        bits = self.computation.neighbours(self._rows(task, grid), task)
        on_server = self._federation.on_server
        graph = on_server(graph_in_order, bits, plan, radius2=clusterer.radius2)
        how = {"clusterer": clusterer, "n_clusters": n_clusters, "seed": self._seed}
        found = on_server(cluster, graph, None, **how)
        report = self._federation.publish(cluster_report, found, None, graph)
        return self._federation.tell(labels_for, found, plan), report

    def _check(self, n_clusters: int | None) -> None:
        n = self._place.public.n_samples
        if n_clusters is not None and n_clusters > n:
            raise InvalidInput(
                f"the 'n_clusters' parameter of OmniFC must be at most the number of samples, {n}; "
                f"got {n_clusters}. Lower it or add samples."
            )

    @property
    def _shape(self) -> tuple[int, int]:
        return self._place.public.n_samples, self._place.public.n_features

    @property
    def _largest(self) -> float:
        return max(1.0, self._place.public.radius * self._system.scale + 1)

    def _density(self) -> tuple[DensityOfShares, RowGrid]:
        (n, d), clusterer = self._shape, self._clusterer
        assert clusterer.radius2 is not None
        exact = self._system.exact
        room = 60 - (d - 1).bit_length()
        scale, bits = _scaled(self._system.scale, self._largest, 0 if exact else 30, room)
        squared = _largest_within(clusterer.radius2, scale)
        least = int(clusterer.params.get("min_samples", 1))
        density = DensityClusters(n, d, bits, squared, least)
        return DensityOfShares(density, scale), RowGrid(scale, bits, exact)

    def _rows(self, task: Task, grid: RowGrid) -> PerClient[Local[WholeRows]]:
        _check_memory(self._federation, self.computation, task, *self._shape)
        return self._federation.on_clients(whole_rows, self._place.centre, grid=grid)


def graph_in_order(bits: NDArray[np.uint64], plan: RowPlan, *, radius2: float) -> RadiusGraph:
    """Return a graph of rows of bits, by the names of clients, in an order that follows from it."""
    places = np.concatenate([plan.positions[name] for name in sorted(plan.positions)])
    n = len(places)

    def edges(numbers: NDArray[np.int64]) -> Iterator[Pairs]:
        for start in range(0, n, _ROWS):
            rows, cols = np.nonzero(unpacked(bits[start : min(n, start + _ROWS)], n))
            yield numbers[rows + start], numbers[cols]

    order = order_of_graph(RadiusGraph(lambda: edges(places), n, radius2), n)
    ranks = order.back(np.arange(n))[places]
    return RadiusGraph(lambda: edges(ranks), n, radius2, order)


def _scaled(scale: float, largest: float, more: int, room: int) -> tuple[float, int]:
    """Return a scale, finer by up to `more` bits, and the bits b of numbers, with 2 b <= room."""
    bits, most = math.ceil(math.log2(largest + 1)), min(30, room // 2)
    if bits > most:
        raise OverflowRefused(
            f"neighbours on shares have room for numbers of {most} bits, and distances of the size "
            f"of eps take {bits} where samples lie so far apart. Remove outliers, scale the "
            "features, or use reveal='distances'."
        )
    finer = min(more, most - bits)
    return scale * 2.0**finer, bits + finer


def _finest(n: int, d: int, k: int, most: int, seed: int, scale: float) -> CentresOfShares:
    """Return k-means on numbers of as many bits as there is room for."""
    k, iterations = int(k), min(int(most), ITERATIONS)  # tasks hold no numbers of NumPy
    flat = n * k * (k - 1) // 2 <= _AT_ONCE  # more bytes and fewer rounds
    for bits in range(_BITS, _LEAST_BITS - 1, -1):
        try:
            lloyd = Lloyd(n, d, k, bits, iterations, at_once=_AT_ONCE, flat=flat)
            return CentresOfShares(lloyd, seed, scale)
        except OverflowRefused:
            continue
    raise OverflowRefused(
        f"k-means on shares of {n} samples with {d} features has no room for numbers of "
        f"{_LEAST_BITS} bits. Use fewer samples or features, or reveal='distances'."
    )


def _largest_within(radius2: float, scale: float) -> int:
    """Return the largest whole squared distance that counts as within the radius."""
    if radius2 * scale**2 >= _BEYOND:
        return _BEYOND
    found = round(radius2 * scale**2)
    while found / scale**2 > radius2:
        found -= 1
    while (found + 1) / scale**2 <= radius2:
        found += 1
    return found


def _check_memory(
    federation: Federation,
    computation: SharedComputation,
    task: Task,
    n: int,
    d: int,
    memory: int | None = None,
) -> None:
    """Refuse a computation that does not fit its parties, before rows are shared."""
    needed = dict.fromkeys(computation.members, PROCESS_BYTES + (memory or task.memory))
    if isinstance(task, NeighboursOfShares):  # three summands and their graph, read in blocks
        needed[SERVER] = PROCESS_BYTES + n * n // 2 + _OF_PAIR * _ROWS * n
    what = f"labels on shares of {n} samples with {d} features"
    for party, of_party in needed.items():
        if not fits(of_party, federation.limits().get(party)):
            raise ResourceRefused(
                f"{what} would take {of_party / 1e9:.2f} GB of memory at party {party!r}, more "
                "than its limit less a tenth. Raise its memory limit, or lower the number of "
                "samples."
            )
    federation.foresee(needed, what)
