"""k-means in which the server sees only sums over groups of rows, and one round of Lloyd's.

Paper       S. P. Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 1982. Rows
            drawn from a group's mean and variances represent its rows as in C. C. Aggarwal, P. S.
            Yu, "A condensation approach to privacy preserving data mining", EDBT 2004.
Messages    KMeansProposal  server → client    (k + 2) s floats a round
            a sum of m k floats                in every round, by `daskfc.secure.sums`
            KMeansCounts    server → client    the same
            a sum of at most m k (1 + 2 s)     in every round: over groups that are new
            KMeansProgress  server → caller    once a round
            KMeansCenters   server → client    once
Departures  Lloyd's rounds run at the server, on rows drawn from groups. After them, with
            `lloyd_rounds`, groups split by the very centres of Lloyd's algorithm, and those rows
            stay that are too few to split off; the last round alone moves nearly all rows.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskfc.arrays import Floats, Ints
from daskfc.errors import PrivacyError
from daskfc.federation import Federation, Local, PerClient
from daskfc.federation.messages.digests import content_digest
from daskfc.federation.party.site_rules import FREE, SiteRules
from daskfc.federation.steps.rules import made_of, takes
from daskfc.secure.kmeans.clusters import DistributedKMeans, KMeansPlan, check_enough
from daskfc.secure.kmeans.coreset import k_means
from daskfc.secure.kmeans.groups import (
    SMALLEST,
    clusters_of_groups,
    fresh_groups,
    last_clusters,
    moments_about,
    split_groups,
)
from daskfc.secure.kmeans.lloyd import check_rows, nearest_labels, on_grid, units
from daskfc.secure.kmeans.messages import (
    KMeansCenters,
    KMeansCounts,
    KMeansProgress,
    KMeansProposal,
)
from daskfc.secure.sums import Aggregation, Total
from daskfc.secure.sums.few import (
    LARGEST_COUNT,
    count_unit,
    counts_and_holder,
    held_counts,
    mark_of,
    marked,
    power_of_four,
    unmarked,
)
from daskfc.seeds import generator, integer_seed

POINTS = 4  # ours: about which squares are told in a start, at most, one a clustering
_DRAWN = 4000  # ours: rows drawn to represent all groups, at most
_PATIENCE = 2  # ours: rounds in a row without gain, after which groups are fine enough
_GROUPS = 100  # ours: per cluster, at which groups are fine enough too
_LEAST = 2.0**-60  # ours: of the largest squares, which decides how large scales may be
_RESTS = 0.1  # ours: of the tolerance, below which a round of Lloyd's is the last but one


@dataclass(frozen=True)
class Search:
    """The server's state between two rounds."""

    origin: Floats  # (s,), the mean of all rows, nearly
    scales: Floats  # (s,) powers of two, which make features alike
    bound: float  # on the sums of the squares of each scaled feature about it: a power of four
    clients: tuple[str, ...]
    moments: Floats  # (m, 1 + 2 s)
    centers: Floats
    n_rounds: int = 0
    inertia: float = np.inf
    idle: int = 0
    n_lloyd: int = 0  # the next round of Lloyd's, from 1 on; 0 in the search before
    settled: bool = False  # only the round of all rows is left
    held_back: int = 0  # rows in large parts of too few clients


@dataclass(frozen=True)
class Near:
    """The nearest centre of each of a client's rows, and the digest of the centres' message."""

    centers: Ints
    of: str


@dataclass(frozen=True)
class Grouped:
    """The group of each of a client's rows, after `depth` splits; `made_by` is all that they read.

    All clients have the same digests, and split by those counts alone that are of their own rows:
    by others a group could be one row.
    """

    numbers: Ints
    depth: int = 0
    made_by: str = ""
    counts: str = ""

    def mark(self, near: Near) -> int:
        """Return what stands for the counts of rows by these groups and nearest centres."""
        return mark_of(self.made_by, near.of)

    def check(self, near: Near, counts: KMeansCounts) -> None:
        """Refuse counts by other groups or centres."""
        if counts.mark != self.mark(near):
            raise _others()


def _others() -> PrivacyError:
    return PrivacyError(
        "a k-means splits groups by the counts of these groups and centres, and got those of "
        "others. Nothing was sent; start the run again."
    )


class KMeansOnSums(DistributedKMeans):
    """The server sees sums over all clients: of each group's rows, of their squares, and counts.

    Parameters
    ----------
    federation : Federation
        In a run.
    plan : KMeansPlan
        Parameters; the `n_init` starts run at the server.
    sums : Aggregation
        How arrays are summed; it decides who learns a client's own part.

    Notes
    -----
    Privacy: the server learns number, mean and variances over all clients of groups that do not
    overlap, of at least five rows each, and once of the clusters, so that no combination of all
    these sums is over fewer rows: see `groups`. In every round it learns how many rows of each
    group are nearest to which centre, and all clients learn that and the centres. Which client a
    row belongs to stays hidden as far as `sums` hides the parts. Two fits have two partitions,
    whose sums may differ by single rows. The clients agree on bounds for the first two sums
    (`Magnitude`); later bounds follow from the sums.

    Examples
    --------
    >>> from daskfc.secure.kmeans import KMeansOnSums, KMeansPlan
    >>> from daskfc.secure.sums import open_sum
    >>> def centers(federation, rows):             # rows: PerClient of Local arrays
    ...     sums = open_sum(federation, "masked")
    ...     found = KMeansOnSums(federation, KMeansPlan(3, seed=0), sums).fit(rows)
    ...     return federation.publish(found.centers).centers
    """

    def __init__(self, federation: Federation, plan: KMeansPlan, sums: Aggregation) -> None:
        super().__init__(federation)
        self._plan = plan
        self._sums = sums

    def _centers(self, rows: PerClient[Local]) -> Local[KMeansCenters]:
        return self._federation.on_server(last_centers, *self.moments(rows)[:2])

    def moments(self, rows: PerClient[Local]) -> tuple[Local[Search], Local[Total], PerClient]:
        """Return, at the server, the search at its end and the clusters' sums; and who took part.

        `clusters_of` reads both. The third are the rows, of the clients whose rows count.
        """
        federation, plan, sums = self._federation, self._plan, self._sums
        most, those = sums.agree(federation.on_clients(own_sums, rows, clients=tuple(rows)))
        bound = power_of_four(most)
        own = rows.only(those)
        parts = federation.inline(first_moments, own, bound, clients=those)
        search = federation.on_server(begun, sums.sum(parts, max_abs=bound), plan, bound)
        those = tuple(federation.publish(progress, search).clients.tolist())
        own = own.only(those)
        told = federation.tell(next_proposal, search, clients=those)
        most, those = sums.agree(federation.on_clients(own_squares, own, told, clients=those))
        bound = power_of_four(2.0 * most)  # and twice, for `on_grid`
        own = own.only(those)
        parts = federation.inline(all_moments, own, told, bound, clients=those)
        total = sums.sum(parts, max_abs=bound)
        search = federation.on_server(centred, search, total, plan, bound)
        state = federation.publish(progress, search)
        those = tuple(state.clients.tolist())
        own = own.only(those)
        groups = federation.on_clients(first_groups, own, clients=those)
        while True:
            self._next_round()
            told = federation.tell(next_proposal, search, clients=those)
            near = federation.on_clients(own_nearest, own, told, clients=those)
            parts = federation.inline(own_counts, groups, near, told, clients=those)
            total = sums.sum(parts, max_abs=LARGEST_COUNT)
            counts = federation.tell(counted, total, clients=those)
            if state.settled:
                _warn_of(state.held_back, federation.smallest.clients)
                break
            groups = federation.on_clients(next_groups, groups, near, counts, clients=those)
            parts = federation.inline(
                fresh_moments, own, groups, told, counts, state.bound, clients=those
            )
            found = sums.sum(parts, max_abs=state.bound)
            search = federation.on_server(advanced, search, total, found, plan)
            state = federation.publish(progress, search)
        parts = federation.inline(
            last_moments, own, groups, near, told, counts, state.bound, clients=those
        )
        return search, sums.sum(parts, max_abs=state.bound), own


def _warn_of(held_back: int, clients: int) -> None:
    """Warn of rows in clusters that are not found because too few clients have them."""
    if held_back:
        warnings.warn(
            f"{held_back} rows are nearest to centres with too few clients' rows of their group, "
            f"below the {clients} of Federation.smallest, and count with others: clusters that few "
            "clients have are not found. Where all sites agree, ask for fewer.",
            ConvergenceWarning,
            stacklevel=5,
        )


# -- clients --------------------------------------------------------------------------------------


def own_sums(rows: Floats) -> Floats:
    """Return the sum of a client's rows, (s,)."""
    return np.asarray(check_rows(rows).sum(axis=0))


def first_moments(rows: Floats, bound: float) -> Floats:
    """Return a client's number of rows, in `count_unit`, and their sum, (1, 1 + s)."""
    return np.concatenate([[len(rows) * count_unit(bound)], own_sums(rows)])[None]


def own_squares(rows: Floats, proposal: KMeansProposal, site: SiteRules = FREE) -> Floats:
    """Return the sum of the squares of a client's rows about the mean of all, (s,)."""
    # Their magnitude leaves without a mask: about many points it would tell where the rows are.
    site.once().hold_few("points for squares of k-means", proposal.origin.tobytes(), POINTS)
    s = rows.shape[1]
    return moments_about(rows, _one_group(rows), 1, proposal.origin)[0, 1 + s :]


def first_groups(rows: Floats) -> Grouped:
    """Return the first group of each row, 0 for all."""
    return Grouped(_one_group(rows))


def _one_group(rows: Floats) -> Ints:
    return np.zeros(len(rows), dtype=np.int64)


def all_moments(rows: Floats, proposal: KMeansProposal, bound: float) -> Floats:
    """Return a client's part of the sums of all rows about their mean, in `units`."""
    return _in_units(rows, _one_group(rows), 1, proposal, bound)


def _in_units(
    rows: Floats, groups: Ints, n_groups: int, proposal: KMeansProposal, bound: float
) -> Floats:
    scales = proposal.scales
    moments = moments_about(rows, groups, n_groups, on_grid(proposal.origin, bound, scales))
    return moments * units(bound, scales)


def own_nearest(rows: Floats, proposal: KMeansProposal) -> Near:
    """Return the nearest centre of each of a client's rows."""
    return Near(nearest_labels(rows, proposal.centers), content_digest(proposal))


def own_counts(
    groups: Grouped, nearest: Near, proposal: KMeansProposal, site: SiteRules = FREE
) -> Floats:
    """Return `counts_and_holder` of a client's rows by group and nearest centre, `marked`.

    In a start groups are split by one proposal each: sums over two partitions may differ by a row.
    """
    if nearest.of != content_digest(proposal):
        raise _others()
    mark = groups.mark(nearest)
    site.hold_one("partition at a step of a k-means", f"{groups.depth}", b"%d" % mark)
    m, k = proposal.n_groups, len(proposal.centers)
    found = np.bincount(groups.numbers * k + nearest.centers, minlength=m * k).reshape(m, k)
    return marked(counts_and_holder(found.astype(np.float64)), mark)


def next_groups(groups: Grouped, nearest: Near, counts: KMeansCounts) -> Grouped:
    """Return the new groups of a client's rows, split where parts are large enough."""
    groups.check(nearest, counts)
    split = split_groups(counts.counts, counts.held, counts.least)
    told = content_digest(counts)
    made_by = f"{groups.made_by} {nearest.of} {told}"
    return Grouped(split[groups.numbers, nearest.centers], groups.depth + 1, made_by, told)


def fresh_moments(
    rows: Floats,
    groups: Grouped,
    proposal: KMeansProposal,
    counts: KMeansCounts,
    bound: float,
    site: SiteRules = FREE,
) -> Floats:
    """Return a client's part of the sums over new groups, in `units`."""
    if groups.counts != content_digest(counts):
        raise _others()
    site.hold_one("sum at a step of a k-means", f"{groups.depth}", b"of groups")
    fresh = fresh_groups(counts.counts, counts.held, counts.least)
    place = np.full(int(split_groups(counts.counts, counts.held, counts.least).max()) + 1, -1)
    place[fresh] = np.arange(len(fresh))
    return _in_units(rows, place[groups.numbers], len(fresh), proposal, bound)


def last_moments(
    rows: Floats,
    groups: Grouped,
    nearest: Near,
    proposal: KMeansProposal,
    counts: KMeansCounts,
    bound: float,
    site: SiteRules = FREE,
) -> Floats:
    """Return a client's part of the sums over clusters, (k, 1 + 2 s), in `units`; no more follow.

    They may move rows that no group is made of alone: beside later sums these would be known.
    """
    groups.check(nearest, counts)
    site.hold_one("sum at a step of a k-means", f"{groups.depth + 1}", b"of clusters")
    site.hold_one("partition at a step of a k-means", f"{groups.depth + 1}", b"no more")
    labels = last_clusters(counts.counts, counts.held, counts.least)
    own = labels[groups.numbers, nearest.centers]
    return _in_units(rows, own, len(proposal.centers), proposal, bound)


# -- server ---------------------------------------------------------------------------------------


@takes(plan=made_of("n_clusters"))
def begun(total: Total, plan: KMeansPlan, bound: float) -> Search:
    """Return a search from the mean of all rows; refuse fewer rows than clusters."""
    n = float(np.rint(total.values[0, 0] / count_unit(bound)))
    check_enough(n, plan.n_clusters)
    origin = total.values[0, 1:] / n
    scales = np.ones_like(origin)
    return Search(origin, scales, bound, tuple(total.terms), np.empty((0, 0)), origin[None])


@takes(plan=made_of("n_clusters"))
def centred(search: Search, total: Total, plan: KMeansPlan, bound: float) -> Search:
    """Return the search with the moments of all rows about their mean, without loss of digits."""
    moments = total.values / units(bound, search.scales)
    n, (sums,), (squares,) = np.rint(moments[0, 0]), *_columns(moments)[1:]
    about = on_grid(search.origin, bound, search.scales)
    mean = about + sums / n
    within = np.maximum(squares - sums**2 / n, 0.0) + 2.0 * total.error_bound
    within = np.maximum(within, _LEAST * within.max())
    bound = power_of_four(2.0 * float(within.max()))  # and twice, for rounding
    scales = np.sqrt(bound / np.array([power_of_four(2.0 * one) for one in within.tolist()]))
    origin = on_grid(mean, bound, scales)
    shift = origin - about
    sums, squares = sums - n * shift, squares - 2.0 * shift * sums + n * shift**2
    search = replace(
        search,
        origin=origin,
        scales=scales,
        bound=bound,
        clients=tuple(total.terms),
        moments=np.concatenate([[n], sums, squares])[None],
        settled=plan.n_clusters == 1,
    )
    return search if search.settled else _with_centers(search, plan)


def next_proposal(search: Search) -> KMeansProposal:
    """Send all clients the centres of the next round."""
    return KMeansProposal(search.centers, search.origin, search.scales, len(search.moments))


def counted(total: Total, site: SiteRules = FREE) -> KMeansCounts:
    """Send all clients the numbers of rows by group and nearest centre."""
    table, mark = unmarked(total)
    counts, holders = held_counts(table)
    least = max(SMALLEST, site.smallest.samples)
    return KMeansCounts(counts, holders >= site.smallest.clients, least, mark)


def progress(search: Search) -> KMeansProgress:
    """Report to the caller the state of the search and the bound of the next sums."""
    clients = np.array(search.clients, dtype=str)
    return KMeansProgress(int(search.settled), search.held_back, search.bound, clients)


@takes(plan=made_of("n_clusters"))
def advanced(
    search: Search, counts: Total, found: Total, plan: KMeansPlan, site: SiteRules = FREE
) -> Search:
    """Return the search after a round, from sums of `own_counts` and, `found`, `fresh_moments`."""
    told = counted(counts, site)
    table = told.counts
    groups = split_groups(table, told.held, told.least)
    fresh = fresh_groups(table, told.held, told.least)
    held_back = int(table[(table >= told.least) & ~told.held].sum())
    moments = np.empty((int(groups.max()) + 1, search.moments.shape[1]))
    moments[groups.min(axis=1)] = search.moments  # of a group that split: written over
    moments[fresh] = found.values / units(search.bound, search.scales)
    after = replace(search, moments=moments, n_rounds=search.n_rounds + 1, held_back=held_back)
    if search.n_lloyd:
        return _moved(after, clusters_of_groups(table, told.held, told.least), plan)
    centers, inertia = _on_means(after, plan)
    # The difference is NaN before there are as many groups as clusters.
    gained = len(fresh) and not search.inertia - inertia <= plan.tolerance * inertia
    idle = 0 if gained else search.idle + 1
    enough = idle >= _PATIENCE or len(moments) >= _GROUPS * plan.n_clusters
    after = replace(after, inertia=min(inertia, search.inertia), idle=idle)
    if not (enough or after.n_rounds >= plan.max_iter):
        return _with_centers(after, plan)
    begins = min(1, plan.lloyd_rounds)
    after = replace(after, settled=not begins, n_lloyd=begins, inertia=np.inf)
    return _with_centers(after, plan) if centers is None else replace(after, centers=centers)


def _moved(search: Search, clusters: Ints, plan: KMeansPlan) -> Search:
    """Return the search with the means of clusters of whole groups, a round of Lloyd's."""
    counts, sums, squares = _columns(search.moments)
    k = len(search.centers)
    n = np.bincount(clusters, np.rint(counts), minlength=k)[:, None]
    added = np.zeros((k, sums.shape[1]))
    np.add.at(added, clusters, sums)
    means = added / np.maximum(n, 1.0)
    inertia = float(max(squares.sum() - (n * means**2).sum(), 0.0))
    rests = not search.inertia - inertia > _RESTS * plan.tolerance * inertia
    return replace(
        search,
        centers=np.where(n > 0, search.origin + means, search.centers),
        inertia=inertia,
        n_lloyd=search.n_lloyd + 1,
        settled=rests or search.n_lloyd >= plan.lloyd_rounds,
    )


def last_centers(search: Search, total: Total) -> KMeansCenters:
    """Return the means of the clusters, and the inertia of all rows around them."""
    _, centers, within = clusters_of(search, total)
    return KMeansCenters(centers, float(within.sum()))


def clusters_of(search: Search, total: Total) -> tuple[Floats, Floats, Floats]:
    """Return the clusters' numbers of rows, means, and squares about them by feature."""
    counts, sums, squares = _columns(total.values / units(search.bound, search.scales))
    counts = np.rint(counts)
    there, n = (counts > 0)[:, None], np.maximum(counts, 1.0)[:, None]
    centers = np.where(there, search.origin + sums / n, search.centers)
    return counts, centers, np.where(there, np.maximum(squares - sums**2 / n, 0.0), 0.0)


def _columns(values: Floats) -> Sequence[Floats]:
    counts, sums, squares = np.split(values, [1, 1 + values.shape[1] // 2], axis=1)
    return counts[:, 0], sums, squares


def _with_centers(search: Search, plan: KMeansPlan) -> Search:
    """Return the search with centres of rows drawn by the moments of the groups."""
    counts, sums, squares = _columns(search.moments)
    n = np.rint(counts)
    there = n > 0
    means = sums / np.maximum(n, 1.0)[:, None]
    spread = np.sqrt(np.maximum(squares / np.maximum(n, 1.0)[:, None] - means**2, 0.0))
    random = generator(plan.seed, "k-means on sums", search.n_rounds)
    if n.sum() > _DRAWN:
        drawn = random.choice(np.flatnonzero(there), _DRAWN, p=n[there] / n.sum())
    else:
        drawn = np.repeat(np.arange(len(n)), n.astype(int))
    rows = means[drawn] + spread[drawn] * random.standard_normal((len(drawn), means.shape[1]))
    seed = integer_seed(plan.seed, "k-means on sums", search.n_rounds)
    if search.idle and not (
        search.settled or search.n_lloyd
    ):  # as many centres as before would split nothing
        k = min(2 * plan.n_clusters, max(plan.n_clusters, len(rows) // (2 * SMALLEST)))
        plan = replace(plan, n_clusters=k, n_init=1)
    centers, _ = k_means(rows, None, plan, seed, plan.n_init)
    return replace(search, centers=search.origin + centers)


def _on_means(search: Search, plan: KMeansPlan) -> tuple[Floats | None, float]:
    """Return centres of the groups' means, and the inertia of whole groups around them."""
    counts, sums, squares = _columns(search.moments)
    there = np.rint(counts) > 0
    if there.sum() < plan.n_clusters:
        return None, np.inf
    n = np.rint(counts[there])
    means = sums[there] / n[:, None]
    within = np.maximum(squares[there] - n[:, None] * means**2, 0.0).sum()
    seed = integer_seed(plan.seed, "k-means on groups")
    centers, between = k_means(means, n, plan, seed, plan.n_init)
    return search.origin + centers, float(within + between)
