"""k-means on sums: rounds against plain Lloyd on pooled rows, bounds, and who takes part."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from daskfc.errors import InvalidInput
from daskfc.federation import PerClient
from daskfc.secure.kmeans import KMeansPlan, LloydNoise, open_kmeans
from daskfc.secure.kmeans.lloyd import Moments, bound_of_sums, moments_of, row_moments
from daskfc.secure.kmeans.on_sums import Search, advanced, begun, first_moments
from daskfc.secure.kmeans.starts import refilled, swapped
from daskfc.secure.sums import PlainSum, Total
from daskfc.testing.kmeans import inertia_of, rows_for_tests
from tests.secure.kmeans.here import Here

ROWS = np.random.default_rng(0).normal(size=(5000, 3)) + 1e6  # more than a block, far from 0


def naive_round(rows, centers):
    """Lloyd's round as a book has it."""
    labels = np.square(rows[:, None] - centers).sum(axis=2).argmin(axis=1)
    members = [rows[labels == j] for j in range(len(centers))]
    means = [own.mean(axis=0) if len(own) else c for own, c in zip(members, centers, strict=True)]
    variances = [
        own.var(axis=0) if len(own) else 0 * c for own, c in zip(members, centers, strict=True)
    ]
    inertia = np.square(rows - centers[labels]).sum()
    return [len(own) for own in members], np.array(means), np.array(variances), inertia


def test_a_round_is_that_of_lloyd_on_pooled_rows():
    starts = ROWS[:8].reshape(2, 4, 3).copy()
    starts[1, 3] = 0.0  # a cluster without rows
    total = sum(row_moments(ROWS[i::3], starts) for i in range(3))
    found = moments_of(total, starts)
    for a in range(2):
        counts, means, variances, inertia = naive_round(ROWS, starts[a])
        assert found.counts[a].tolist() == counts
        np.testing.assert_allclose(found.means[a], means, rtol=0, atol=1e-8)
        np.testing.assert_allclose(found.variances[a], variances, rtol=1e-6, atol=1e-9)
        assert found.inertia[a] == pytest.approx(inertia, rel=1e-9)


def test_the_bound_holds_for_every_client():
    random = np.random.default_rng(1)
    for _ in range(200):
        s, k = random.integers(1, 4), random.integers(1, 4)
        rows = random.normal(size=(random.integers(1, 30), s)) * 10.0 ** random.integers(-3, 4)
        centers = random.normal(size=(2, k, s)) * 10.0 ** random.integers(-3, 4)
        point = random.normal(size=s)
        scatter = np.square(rows - point).sum()
        bound = bound_of_sums(len(rows), scatter, point, centers)
        some = rows[: random.integers(0, len(rows) + 1)]
        assert np.abs(row_moments(some, centers)).max() <= bound


def test_an_empty_cluster_goes_beside_the_one_with_the_largest_scatter():
    means = np.array([[[0.0, 0.0], [5.0, 5.0], [99.0, 99.0]]])
    variances = np.array([[[1.0, 1.0], [4.0, 4.0], [0.0, 0.0]]])
    found = Moments(np.array([[5.0, 5.0, 0.0]]), means, variances, np.ones(1))
    (own,) = refilled(found, np.random.default_rng(0))
    np.testing.assert_array_equal(own[0], [0, 0])
    np.testing.assert_allclose(own[1] + own[2], [10, 10])
    assert (own[1] != own[2]).all()
    assert (found.means == means).all()


def test_a_move_takes_one_centre_only_and_the_first_start_stays():
    k = 6
    random = np.random.default_rng(0)
    means = random.normal(size=(1, k, 2))
    best = Moments(np.full((1, k), 9.0), means, np.ones((1, k, 2)), np.ones(1))
    starts = swapped(best, 5, random)
    np.testing.assert_array_equal(starts[0], means[0])
    for own in starts[1:]:
        assert (own != means[0]).any(axis=1).sum() == 2  # the moved one, and who made room for it


@pytest.mark.parametrize("n_init", [1, 10])
def test_rounds_end_without_gain_and_by_their_number(n_init):
    rows, k = rows_for_tests("iris")
    plan = KMeansPlan(k, seed=0, n_init=n_init)
    search = begun(Total(first_moments(rows), 0.0, ("a",)), plan)
    seen = []
    while not search.settled:
        total = Total(row_moments(rows, search.starts), 0.0, ("a",))
        search = advanced(search, total, plan)
        seen.append(search.inertia)
    assert seen == sorted(seen, reverse=True)  # the best one never gets worse
    assert search.n_rounds < 40
    assert search.inertia * len(rows) == pytest.approx(inertia_of(rows, search.best))
    short = KMeansPlan(k, seed=0, n_init=n_init, max_iter=2)
    search = begun(Total(first_moments(rows), 0.0, ("a",)), short)
    while not search.settled:
        total = Total(row_moments(rows, search.starts), 0.0, ("a",))
        search = advanced(search, total, short)
    assert search.n_rounds == 2


def test_as_many_distinct_rows_as_clusters_need_few_rounds():
    rows = np.repeat([[0.0, 7.0], [3.0, 0.1]], 5, axis=0)
    plan = KMeansPlan(3, seed=0)
    search = begun(Total(first_moments(rows), 0.0, ("a",)), plan)
    while not search.settled:
        search = advanced(search, Total(row_moments(rows, search.starts), 1e-18, ("a",)), plan)
    assert search.n_rounds < 6
    assert search.inertia < 1e-18


def test_equal_starts_are_not_told_apart_by_rounding():
    plan = KMeansPlan(2, seed=0)
    starts = np.array([[[0.0], [4.0]], [[4.0], [0.0]]])
    rows = np.array([[-1.0], [1.0], [3.0], [5.0]])
    search = Search(starts, np.zeros(1), 4.0, 36.0, ("a",), n_rounds=0)
    for nudge in (1 - 1e-13, 1 + 1e-13):
        values = row_moments(rows, starts)
        values[2:, 2] *= nudge
        best = advanced(search, Total(values, 0.0, ("a",)), plan).best
        np.testing.assert_array_equal(best, starts[0])


class Leaving(PlainSum):
    """A sum that one client misses in some rounds."""

    n_noise_shares = 2

    def __init__(self, federation, missed):
        super().__init__(federation)
        self._missed, self.asked, self.n_sums = missed, [], 0

    def _sum(self, parts, max_abs):
        self.asked.append(tuple(parts))
        there = {n: one for n, one in parts.items() if (self.n_sums, n) not in self._missed}
        self.n_sums += 1
        return super()._sum(PerClient(there), max_abs)


@pytest.mark.parametrize("noise", [None, LloydNoise(1e-3, largest_norm=20.0, rounds=6)])
def test_who_misses_the_first_sum_stays_out_and_who_misses_another_comes_back(noise):
    rows, k = rows_for_tests("iris")
    federation = Here("abc")
    sums = Leaving(federation, {(0, "a"), (3, "b")})
    own = PerClient({name: rows[i::3] for i, name in enumerate("abc")})
    found = open_kmeans(federation, "sums", n_clusters=k, seed=0, sums=sums, noise=noise).fit(own)
    assert sums.asked[0] == ("a", "b", "c")
    assert set(sums.asked[1:]) == {("b", "c")}
    assert set(found.labels) == {"a", "b", "c"}
    pooled = KMeans(k, n_init=10, random_state=0).fit(rows)
    assert inertia_of(rows, found.centers.centers) < 1.1 * pooled.inertia_


def test_parameters_go_with_their_kind():
    federation = Here("ab")
    with pytest.raises(InvalidInput, match="one of coreset, sums; got 'rows'"):
        open_kmeans(federation, "rows", n_clusters=2, seed=0)
    with pytest.raises(InvalidInput, match="on coreset has no parameter 'sums'; it has coreset_si"):
        open_kmeans(federation, "coreset", n_clusters=2, seed=0, sums=PlainSum(federation))
    with pytest.raises(InvalidInput, match="on sums has no parameter 'coreset_size'"):
        open_kmeans(federation, "sums", n_clusters=2, seed=0, coreset_size=9)
    with pytest.raises(InvalidInput, match="with noise has no parameter 'n_init'"):
        open_kmeans(federation, "sums", n_clusters=2, seed=0, n_init=9, noise=LloydNoise(1.0, 1.0))
    with pytest.raises(InvalidInput, match="'n_clusters' parameter of a k-means must be an int"):
        open_kmeans(federation, "coreset", n_clusters=0, seed=0)
    with pytest.raises(InvalidInput, match="'coreset_size' parameter of a k-means must be an int"):
        open_kmeans(federation, "coreset", n_clusters=2, seed=0, coreset_size=-1)
