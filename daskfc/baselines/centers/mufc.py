"""MUFC: clients send counts of quantised seeds, the server clusters points drawn from the bins.

Paper       C. Pan, J. Sima, S. Prakash, V. Rana, O. Milenkovic, "Machine unlearning of federated
            clusters", ICLR 2023 (arXiv 2210.16424), Algorithms 1 and 2; the clustering only.
Notation    paper    here              shape, range
            L        clients           number of clients
            K        n_clusters        int ≥ 1; also centres per client unless n_local_clusters
            X^(l)    data              (n_l, d) float64, stays at client l
            C^(l)    centers           (K, d), rows of X^(l) drawn by k-means++
            γ/√d     bin_width         float > 0, the side of a quantisation bin; γ is its diameter
            q^(l)    bins, counts      occupied bins (·, d) int64 and rows in each (·,) int64
            q        bins, counts      the sum of all q^(l)
            C_s      cluster_centers_  (K, d)
Messages    Extent         client → server    once, unless bin_width is given
            Grid           server → client    once
            BinCounts      client → server    once, at most L K (d + 1) integers in all
            GlobalCenters  server → client, caller   once
Departures  (1) NO SECURE AGGREGATION: the paper sums the q^(l) by its secure compressed multiset
            aggregation (SCMA: Reed-Solomon power sums under secure aggregation), so that its server
            sees only q. Here each client's bins and counts reach the server in the clear; the
            clustering is the same, the privacy is not. (2) There is no unlearning. (3) The paper
            draws as many points from a bin as it counts; here one, with the count as its weight:
            points move by less than γ, and the server needs memory for K L points, not n.
            (4) bin_width defaults to max |x| / √n, the authors' 1/√n for data in the unit cube.
            (5) Clients only seed, as in the paper; local_iterations > 0 adds rounds of Lloyd, as
            the authors' code does by default. (6) Between sites centres are the means of enough
            rows each, as `Federation.smallest` says, and no seeds.
"""

from collections.abc import Mapping

import numpy as np

from daskfc.baselines.centers.centers import CenterClusterer, GlobalCenters
from daskfc.baselines.centers.lloyd import kmeans_plus_plus, lloyd_of_many, weighted_k_means
from daskfc.checks import integer, optional, real
from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.federation import Federation, Message, PerClient, Sent, array
from daskfc.federation.methods.parameters import param
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import as_announced, takes
from daskfc.seeds import generator
from daskfc.stores import ClientStore


class Extent(
    Message,
    route="client → server",
    reveals="the client's number of samples and its largest absolute value",
):
    """The size of a client's data, from which the server chooses the grid."""

    n_samples: int
    largest: float


class Grid(
    Message, route="server → client", reveals="the largest absolute value of all clients over √n"
):
    """The side of a quantisation bin."""

    bin_width: float


class BinCounts(
    Message,
    route="client → server",
    reveals="some of the client's own samples, rounded to the grid, and cluster sizes",
):
    """Occupied bins of one client, in units of the bin width, and the rows counted in each."""

    bins: np.ndarray = array("bin", "n_features", dtype="int64")
    counts: np.ndarray = array("bin", dtype="int64")


def extent(data: ClientStore) -> Extent:
    """Return the size of a client's data, for the server."""
    largest = max(float(np.abs(rows).max()) for _, rows in data.blocks())
    return Extent(int(data.n_samples), largest)


def common_grid(parts: Mapping[str, Extent], bin_width: float | None = None) -> Grid:
    """Return the grid of width ``max |x| / √n``, 1 if all values are 0, or of the given width."""
    if bin_width is not None:
        return Grid(bin_width)
    n = sum(part.n_samples for part in parts.values())
    largest = max(part.largest for part in parts.values())
    return Grid(largest / float(np.sqrt(n)) if largest > 0 else 1.0)


@takes(n_local_clusters=as_announced("n_local_clusters", "n_clusters"))
def local_bins(
    data: ClientStore,
    grid: Grid,
    *,
    n_local_clusters: int,
    local_iterations: int,
    random_state: int,
    party: str,
    site: SiteRules = FREE,
) -> BinCounts:
    """Seed centres by k-means++, quantise them and count their rows (Algorithm 1).

    Between sites they are means of as many rows as `site` says, and no rows.
    """
    random = generator(random_state, "MUFC", party)
    seeds = kmeans_plus_plus(data, n_local_clusters, random)
    least = site.smallest.samples
    centers, labels = lloyd_of_many(data, seeds, max_iterations=local_iterations, least=least)
    scaled = np.rint(centers / grid.bin_width)
    if np.abs(scaled).max() >= 2.0**53:  # from here on float64 has no exact integers
        raise OverflowRefused(
            f"client {party!r} has values of more than 2**53 bins of MUFC's grid of 'bin_width'. "
            "Raise 'bin_width'."
        )
    sizes = np.bincount(labels, minlength=len(centers))
    occupied = sizes > 0
    return BinCounts(*sum_bins([(scaled[occupied].astype(np.int64), sizes[occupied])]))


def sum_bins(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return different bins ``(b, d)`` and summed counts ``(b,)``, all that SCMA would reveal."""
    bins = np.concatenate([part[0] for part in parts])
    counts = np.concatenate([part[1] for part in parts])
    different, place = np.unique(bins, axis=0, return_inverse=True)
    total = np.zeros(len(different), dtype=np.int64)
    np.add.at(total, place.reshape(-1), counts)
    return different, total


def cluster_bins(
    parts: Mapping[str, BinCounts], grid: Grid, *, n_clusters: int, random_state: int
) -> GlobalCenters:
    """Cluster a point from every occupied bin (Algorithm 2); refuse fewer bins than clusters."""
    bins, counts = sum_bins([(parts[name].bins, parts[name].counts) for name in sorted(parts)])
    random = generator(random_state, "MUFC", "server")
    offsets = random.uniform(-0.5, 0.5, size=bins.shape)  # uniform in each bin
    if len(bins) < n_clusters:
        raise InvalidInput(
            f"the clients' centres must lie in as many bins of MUFC as there are clusters, "
            f"{n_clusters}; they lie in {len(bins)}. Give a smaller 'bin_width', or bring the "
            "features to one range by 'prepare: [min-max]'."
        )
    points = (bins + offsets) * grid.bin_width
    seed = int(random.integers(2**31))
    centers, _ = weighted_k_means(points, counts.astype(np.float64), n_clusters, seed)
    return GlobalCenters(centers)


class MUFC(CenterClusterer):
    """Federated k-means of Pan et al., without unlearning and without secure aggregation.

    Parameters
    ----------
    n_clusters : int
        Clusters over all clients.
    n_local_clusters : int, optional
        Centres that each client seeds; by default `n_clusters`.
    bin_width : float, optional
        Side of a quantisation bin, in units of the features; by default the largest absolute value
        over √n, for which each client reveals its size and its largest value.
    local_iterations : int
        Rounds of Lloyd at a client after seeding.
    random_state : int, optional
        Seed of the algorithm.

    Attributes
    ----------
    labels_ : xarray.DataArray
        ``(sample,)`` int64, the nearest of ``cluster_centers_``.
    cluster_centers_ : numpy.ndarray
        ``(n_clusters, n_features)`` float64.

    Notes
    -----
    Privacy: a seed is a sample, so the server sees up to `n_local_clusters` samples of every
    client, rounded to the grid; between sites means of as many samples as ``Federation.smallest``
    says. The paper hides which client has them; this implementation does not.

    Examples
    --------
    >>> from daskfc.baselines import MUFC
    >>> MUFC(10, bin_width=0.5).get_params()["bin_width"]
    0.5
    """

    n_local_clusters: int | None = param(optional(integer(low=1)), default=None)
    bin_width: float | None = param(optional(real(above=0)), default=None)
    local_iterations: int = param(integer(low=0), default=0)

    def check(self, n_clients: int | None = None) -> None:
        """Check the parameters against their constraints and each other."""
        super().check(n_clients)
        self._check_local_clusters(self.n_local_clusters, n_clients)

    def _fit(self, federation: Federation) -> PerClient[Sent]:
        with self._stage(federation, "grid"):
            extents = federation.ask(extent) if self.bin_width is None else {}
            grid = federation.on_server(common_grid, extents, self.bin_width)
            federation.wait(grid)
        with self._stage(federation, "local"):
            parts = federation.ask(
                local_bins,
                federation.tell(grid),
                n_local_clusters=self.n_local_clusters or self.n_clusters,
                local_iterations=self.local_iterations,
                random_state=self.seed_,
            )
            federation.wait(parts)
        with self._stage(federation, "server"):
            centers = federation.on_server(
                cluster_bins, parts, grid, n_clusters=self.n_clusters, random_state=self.seed_
            )
            self._publish_centers(federation, centers)
        return self._nearest_labels(federation, centers)
