"""The attack on rounds of k-means: sums over clusters that change by little are equations in rows.

After G. Yang, L. Luo, Q. Li, "Breaking privacy in federated clustering: perfect input
reconstruction via temporal correlations" (arXiv 2511.07073), whose attacker knows or finds which
rows are in which cluster; beside it one that knows nothing but what the server is told.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import cKDTree
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.preprocessing import StandardScaler

from daskfc.clustering.kernels.features import Kernel
from daskfc.privacy import rows_between_sums, rows_by_centres, terms_of_subset_sums
from daskfc.protocols.kcagc.maths.summed_distances import (
    CentresAtMeans,
    CentresAtNodes,
    centres_of,
    distances_to,
)
from daskfc.protocols.kcagc.maths.weighted_lloyd import LloydSettings, advance, begin
from daskfc.secure.kmeans import KMeansPlan, nearest_labels, on_sums
from daskfc.secure.kmeans.groups import fresh_groups, last_clusters, moments_about
from daskfc.secure.kmeans.lloyd import units
from daskfc.secure.sums import Total
from daskfc.secure.sums.few import power_of_four

SETS = {
    "iris": (load_iris, 3),
    "breast cancer": (load_breast_cancer, 5),
    "digits": (load_digits, 10),
}
CASES = (("iris", 150), ("breast cancer", 200), ("breast cancer", 400), ("digits", 50),
         ("digits", 100), ("digits", 200), ("digits", 400))  # fmt: skip
STARTS_ROUNDS = ((1, 4), (1, 30), (10, 4), (10, 30))
PLACED = ((40, 1), (60, 1), (60, 2))  # dimensions, starts
FOUND = 1e-6  # of a standard deviation: a row that is met so nearly is found


class Opened(NamedTuple):
    """Sums that the server was told; `inside` tells it in which of them rows (n, d) are, (q, n)."""

    counts: np.ndarray
    sums: np.ndarray
    squares: np.ndarray
    inside: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, values: Sequence[np.ndarray], inside: Callable[[np.ndarray], np.ndarray]) -> Self:
        """Return sums as clients add them up."""
        every = np.vstack(values)
        n, sums, squares = np.split(every, [1, 1 + every.shape[1] // 2], axis=1)
        return cls(n[:, 0], sums, squares, inside)


def rows_of(name: str, n: int, embedded: bool = False) -> tuple[np.ndarray, int]:
    """Return n rows of a set, standardised, and how many clusters are looked for.

    Embedded, they are as many coordinates in the largest eigenvectors of a kernel matrix, which
    FederatedKernelKMeans clusters.
    """
    load, k = SETS[name]
    X = StandardScaler().fit_transform(load().data)
    X = X[np.random.default_rng(0).permutation(len(X))[:n]]
    if embedded:
        values, vectors = np.linalg.eigh(Kernel("gaussian", X.shape[1] ** 0.5).values(X, X))
        X = vectors[:, -k:] * np.sqrt(values[-k:] * n)
        X /= X.std(axis=0)
    return X, k


def inside_cells(centres: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Return in which cells, of all centres that were told, rows lie: (q, n)."""
    cells = [nearest_labels(rows, own) == np.arange(len(own))[:, None] for own in centres]
    return np.vstack(cells)


def opened(rows: np.ndarray, k: int, n_init: int, rounds: int = 30) -> Opened:
    """Return the sums that Lloyd's algorithm opens: of each cluster, in each round of each start.

    So did k-means on sums; what it did beside, moving centres of the best start, opened more.
    """
    random, origin = np.random.default_rng(0), np.zeros(rows.shape[1])
    told, values = [origin[None]], [moments_about(rows, np.zeros(len(rows), int), 1, origin)]
    starts = rows.mean(axis=0) + rows.std(axis=0) * random.standard_normal((n_init, k, len(origin)))
    for _ in range(rounds):
        told += [*starts]
        values += [moments_about(rows, nearest_labels(rows, c), k, origin) for c in starts]
        moments = zip(starts, values[-n_init:], strict=True)
        after = np.array([_means(own, c) for c, own in moments])
        if np.array_equal(after, starts):
            break
        starts = after
    return Opened.of(values, lambda new: inside_cells(told, new))


def _means(moments: np.ndarray, before: np.ndarray) -> np.ndarray:
    n, sums = moments[:, :1], moments[:, 1 : 1 + before.shape[1]]
    return np.where(n > 0, sums / np.maximum(n, 1.0), before)


def opened_now(rows: np.ndarray, k: int, n_init: int = 10, lloyd_rounds: int = 0) -> Opened:
    """Return the sums that k-means on sums opens; FederatedKMeans has rounds of Lloyd's."""
    plan, told = KMeansPlan(k, seed=0, n_init=n_init, lloyd_rounds=lloyd_rounds), []
    bound = power_of_four(np.abs(on_sums.own_sums(rows)).max())
    search = on_sums.begun(Total(on_sums.first_moments(rows, bound), 0.0, ("a",)), plan, bound)
    proposal = on_sums.next_proposal(search)
    bound = power_of_four(2.0 * on_sums.own_squares(rows, proposal).max())
    everything = on_sums.all_moments(rows, proposal, bound)
    search = on_sums.centred(search, Total(everything, 0.0, ("a",)), plan, bound)
    values, each = [search.moments], units(search.bound, search.scales)
    groups, settled = on_sums.first_groups(rows), False
    while not settled:
        settled, proposal = search.settled, on_sums.next_proposal(search)
        near = on_sums.own_nearest(rows, proposal)
        total = Total(on_sums.own_counts(groups, near, proposal), 0.0, ("a",))
        how = (proposal, on_sums.counted(total))
        told.append(how)
        if settled:
            last = on_sums.last_moments(rows, groups, near, *how, search.bound)
            values.append(last / each)
            break
        groups = on_sums.next_groups(groups, near, how[1])
        fresh = on_sums.fresh_moments(rows, groups, *how, search.bound)
        values.append(fresh / each)
        search = on_sums.advanced(search, total, Total(fresh, 0.0, ("a",)), plan)

    def inside(new: np.ndarray) -> np.ndarray:
        own, found = on_sums.first_groups(new), [np.ones((1, len(new)), dtype=bool)]
        for how in told[:-1]:
            own = on_sums.next_groups(own, on_sums.own_nearest(new, how[0]), how[1])
            fresh = fresh_groups(how[1].counts, how[1].held, how[1].least)
            found.append(own.numbers == fresh[:, None])
        proposal, counts = told[-1]
        nearest = nearest_labels(new, proposal.centers)
        last = last_clusters(counts.counts, counts.held, counts.least)[own.numbers, nearest]
        return np.vstack([*found, last == np.arange(k)[:, None]])

    plain, origin = [], search.origin
    for own in values:  # about the mean of all
        n, sums, squares = np.split(own, [1, 1 + len(origin)], axis=1)
        squares = squares + 2 * origin * sums + n * origin**2
        plain.append(np.hstack([n, sums + n * origin, squares]))
    return Opened.of(plain, inside)


def found_share(found: np.ndarray, rows: np.ndarray) -> float:
    """Return the share of rows that are among those found."""
    if not len(found):
        return 0.0
    return float((cKDTree(found).query(rows)[0] < FOUND * rows.shape[1] ** 0.5).mean())


def rows_recovered(told: Opened, rows: np.ndarray) -> tuple[float, float]:
    """Return the shares of rows found by sums alone, and by who knows all rows' clusters."""
    alone = rows_between_sums(*told)
    inside, first = np.unique(told.inside(rows), axis=0, return_index=True)
    terms = terms_of_subset_sums(inside, told.sums[first])
    return found_share(alone, rows), found_share(terms.values[terms.determined], rows)


def shares_by_rounds(name: str, n: int, embedded: bool) -> tuple[str, list[tuple[float, float]]]:
    """Return what n rows of a set are called, and the shares found by `STARTS_ROUNDS` of them."""
    rows, k = rows_of(name, n, embedded)
    found = [rows_recovered(opened(rows, k, *how), rows) for how in STARTS_ROUNDS]
    return f"{name}{', eigenvectors' if embedded else ''}", found


def rows_placed(n_init: int, rounds: int = 30, n: int = 200, rank: int = 40) -> float:
    """Return the share of rows that kCAGC's server places by distances to centres, as written.

    Up to a rigid motion, of `rank` dimensions, as four participants with ten clusters have.
    """
    X, k = rows_of("digits", n)
    left, values, _ = np.linalg.svd(X, full_matrices=False)
    X = left[:, :rank] * values[:rank]
    settings = LloydSettings(k, seed=0, n_init=n_init, max_iter=rounds, ordered=False)
    state, weights, squared = begin(settings, np.ones(n)), [], []
    while state.request is not None:
        request = state.request
        assert isinstance(request, CentresAtNodes | CentresAtMeans)
        own = centres_of(request, np.eye(n), np.ones(n), k).reshape(-1, n)
        sums = distances_to(X, centres_of(request, X, np.ones(n), k))
        weights.append(own)
        squared.append(sums.reshape(n, -1))
        state = advance(state, sums)
    _, off = rows_by_centres(np.vstack(weights), np.hstack(squared))
    return float((off < 1e-3).mean())
