"""k-means on sums: groups that are large enough, what is opened of them, and who takes part."""

import types
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from daskfc.coding.residues.ring import FixedPoint
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import PerClient
from daskfc.federation.messages.digests import content_digest
from daskfc.federation.party.once import OnceOnly
from daskfc.secure.kmeans import KMeansPlan, LloydNoise, nearest_labels, on_sums, open_kmeans
from daskfc.secure.kmeans.groups import (
    SMALLEST,
    fresh_groups,
    last_clusters,
    moments_about,
    split_groups,
)
from daskfc.secure.kmeans.lloyd import units
from daskfc.secure.kmeans.messages import KMeansCounts, KMeansProposal
from daskfc.secure.kmeans.on_sums import POINTS, Grouped, fresh_moments, own_squares
from daskfc.secure.kmeans.stand_ins import STAND_INS
from daskfc.secure.sums import PlainSum, Total
from daskfc.secure.sums.few import count_unit, power_of_four
from daskfc.site import ANY_PART, BETWEEN_SITES
from daskfc.testing.kmeans import inertia_of, rows_for_tests
from tests.secure.kmeans.here import Here


def fitted(rows, k, clients="abc", smallest=ANY_PART, own=None, **how):
    federation = Here(clients, smallest)
    own = own or PerClient({name: rows[i :: len(clients)] for i, name in enumerate(clients)})
    sums = PlainSum(federation)
    found = open_kmeans(federation, "sums", n_clusters=k, seed=0, sums=sums, **how).fit(own)
    return found.centers, federation


def test_parts_in_a_plan_have_the_shapes_of_those_of_clients():
    rows = np.random.default_rng(0).normal(size=(100, 2))
    counts = KMeansCounts(np.full((2, 3), 20), np.ones((2, 3), bool), 10, 0)
    told = counts.counts, counts.held, counts.least
    groups = Grouped(split_groups(*told)[np.arange(100) % 2, 0], counts=content_digest(counts))
    n_fresh = len(fresh_groups(*told))
    proposal = KMeansProposal(np.zeros((3, 2)), np.zeros(2), np.ones(2), n_fresh)
    part = fresh_moments(rows, groups, proposal, counts, 1.0)
    assert n_fresh > 1
    assert STAND_INS[fresh_moments](proposal).shape == part.shape


@st.composite
def tables(draw):
    m, k = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rows = st.lists(st.integers(0, 9), min_size=k, max_size=k)
    table = np.array(draw(st.lists(rows, min_size=m, max_size=m)))
    table[table.sum(axis=1) < SMALLEST, 0] += SMALLEST  # as every group is
    return table


@given(tables())
@settings(max_examples=200, deadline=None)
def test_parts_are_large_enough_or_stay_with_the_largest(counts):
    split = split_groups(counts, counts > 0)
    for own, parts in zip(counts, split, strict=True):
        for number in np.unique(parts):
            assert own[parts == number].sum() >= SMALLEST
        alone = np.flatnonzero(own >= SMALLEST)
        assert len(np.unique(parts)) == max(1, len(alone))
        assert (parts[own < SMALLEST] == parts[own.argmax()]).all()
    assert sorted(np.unique(split)) == list(range(split.max() + 1))
    several = [np.unique(parts) for parts in split if len(np.unique(parts)) > 1]
    assert fresh_groups(counts, counts > 0).tolist() == [int(i) for parts in several for i in parts]


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_no_combination_of_sums_is_over_few_rows(counts, random):
    """Any four rows may be left out: what they add to the sums, the others add as well."""
    m, k = counts.shape
    group, nearest = (np.repeat(place.ravel(), counts.ravel()) for place in np.indices((m, k)))
    last = last_clusters(counts, counts > 0)[group, nearest]
    W = np.vstack([group == np.arange(m)[:, None], last == np.arange(k)[:, None]]).astype(float)
    rank = np.linalg.matrix_rank(W)
    # Rows that leave home are the few that could be alone.
    leave = np.flatnonzero(last != counts.argmax(axis=1)[group]).tolist()
    for _ in range(10):
        few = random.sample(leave, min(len(leave), SMALLEST - 1))
        assert np.linalg.matrix_rank(np.delete(W, few, axis=1)) == rank
        few = random.sample(range(len(group)), min(len(group), SMALLEST) - 1)
        assert np.linalg.matrix_rank(np.delete(W, few, axis=1)) == rank


def test_rows_leave_home_where_enough_do():
    counts = np.array([[20, 3, 4], [2, 20, 0], [4, 0, 0]])
    assert last_clusters(counts, counts > 0).tolist() == [[0, 1, 0], [0, 1, 1], [0, 0, 0]]


@st.composite
def tables_of_clients(draw):
    """Counts of three clients; every group has enough rows of two clients or more."""
    m, k = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    flat = draw(
        st.lists(st.sampled_from([0, 0, 0, 1, 2, 6]), min_size=3 * m * k, max_size=3 * m * k)
    )
    each = np.array(flat).reshape(3, m, k)
    each[0, :, draw(st.integers(0, k - 1))] += SMALLEST
    each[1, :, draw(st.integers(0, k - 1))] += 1
    return each


@given(tables_of_clients())
@settings(max_examples=300, deadline=None)
def test_no_sum_is_of_one_client_alone(each):
    """Any one client's rows may be left out: what they add to sums, those of others add too."""
    counts, held = each.sum(axis=0), (each > 0).sum(axis=0) >= 2
    split = split_groups(counts, held)
    for g, parts in enumerate(split):
        for number in np.unique(parts):
            own = each[:, g, parts == number].sum(axis=1)
            assert own.sum() >= SMALLEST
            assert (own > 0).sum() >= 2
    last = last_clusters(counts, held)
    m, k = counts.shape
    who, group, nearest = (np.repeat(one.ravel(), each.ravel()) for one in np.indices(each.shape))
    at = last[group, nearest]
    W = np.vstack([group == np.arange(m)[:, None], at == np.arange(k)[:, None]]).astype(float)
    rank = np.linalg.matrix_rank(W)
    for client in range(3):
        assert np.linalg.matrix_rank(W[:, who != client]) == rank


def test_a_cluster_of_one_client_stays_with_others_and_is_told_of():
    random = np.random.default_rng(0)
    blobs = random.normal(size=(3, 60, 2)) * 0.1 + np.array([[0, 0], [9, 0], [0, 9]])[:, None]
    own = {
        "a": np.vstack([blobs[0][:30], blobs[1][:30]]),
        "b": np.vstack([blobs[0][30:], blobs[2]]),
    }
    own["c"] = blobs[1][30:]  # what of the third place is, b has alone
    rows, parts = np.vstack(list(own.values())), PerClient(own)
    every, _ = fitted(rows, 3, own=parts)
    assert inertia_of(rows, every.centers) < 10
    with pytest.warns(ConvergenceWarning, match=r"60 rows are nearest .* below the 2 of"):
        found, federation = fitted(rows, 3, smallest=BETWEEN_SITES, own=parts)
    assert inertia_of(rows, found.centers) > 100
    sums = [one.content.values for one in federation.ledger if one.message == "PlainPart"]
    for parts in zip(*[iter(sums)] * 3, strict=True):
        if parts[0].shape[1] == 5:
            assert 1 not in sum(part[:, 0] > 0 for part in parts)


def test_sums_are_about_the_origin():
    random = np.random.default_rng(0)
    rows, groups = random.normal(size=(50, 3)) + 1e6, random.integers(-1, 4, 50)
    origin = rows.mean(axis=0)
    found = moments_about(rows, groups, 4, origin)
    for number in range(4):
        own = rows[groups == number] - origin
        each = np.hstack([len(own), own.sum(axis=0), (own**2).sum(axis=0)])
        np.testing.assert_allclose(found[number], each, atol=1e-9)


def test_the_bound_holds_for_every_client():
    random = np.random.default_rng(1)
    for _ in range(200):
        rows = random.normal(size=(random.integers(1, 30), 2)) * 10.0 ** random.integers(-3, 4)
        origin = rows.mean(axis=0)
        bound = power_of_four(np.square(rows - origin).sum(axis=0).max())
        some = rows[: random.integers(0, len(rows) + 1)]
        groups = random.integers(0, 3, len(some))
        moments = moments_about(some, groups, 3, origin)
        assert np.abs(moments * units(bound, np.ones(2))).max() <= bound


def test_squares_are_told_about_few_points():
    once = OnceOnly()
    site = types.SimpleNamespace(once=lambda: once)
    rows, centers = np.eye(3), np.zeros((1, 3))
    for number in 2 * list(range(POINTS)):
        own_squares(rows, KMeansProposal(centers, np.full(3, float(number)), np.ones(3), 0), site)
    with pytest.raises(PrivacyError, match="points for squares"):
        own_squares(rows, KMeansProposal(centers, np.full(3, -1.0), np.ones(3), 0), site)


def test_sums_of_many_rows_on_one_side_are_within_the_bound():
    rows = np.repeat([[1.0], [-1.0]], 512, axis=0)
    with pytest.raises(InvalidInput, match="must be a power of two; got 3"):
        units(3.0, np.ones(1))  # whose refusals would tell how large sums are
    with pytest.raises(InvalidInput, match="must be powers of two"):
        units(4.0, np.array([1.0, 3.0]))
    bound = power_of_four(len(rows))
    found = moments_about(rows[:512], np.zeros(512, dtype=int), 1, np.zeros(1))
    assert np.abs(found * units(bound, np.ones(1))).max() <= bound


def test_columns_whose_squares_rounding_hides_have_bounds_that_hold():
    """Of a thousand clients each has fewer squares of the small one than half a step."""
    rows = np.random.default_rng(0).choice([-1.0, 1.0], (1000, 2)) * np.array([1e8, 10.0])
    plan, clients = KMeansPlan(2, 0), tuple(f"client-{i}" for i in range(1000))
    scales, origin, bound = np.ones(2), np.zeros(2), power_of_four(2e19)
    search = on_sums.Search(origin, scales, bound, clients, np.empty((0, 0)), origin[None])
    ring = FixedPoint.for_bound(bound, n_terms=1000)
    told = on_sums.next_proposal(search)
    parts = sum(ring.encode(on_sums.all_moments(row[None], told, bound)) for row in rows)
    total = Total(ring.decode(parts), ring.error_bound, clients)
    assert total.values[0, 4] == 0.0
    after = on_sums.centred(search, total, plan, bound)
    added = on_sums.all_moments(rows, on_sums.next_proposal(after), after.bound)
    assert np.abs(added).max() <= after.bound


@pytest.mark.parametrize(
    ("wide", "small"), [(1e6, 1e17 / 3), (1e-3, 1e17 / 3), (1e-9, 0.1), (1e6, 0.0), (1e6, 1e-160)]
)
def test_a_column_that_hardly_differs_has_a_bound_too(wide, small):
    """Though its mean is rounded, or its squares are nothing beside others."""
    rows = np.random.default_rng(0).normal(size=(300, 2)) * wide
    rows[:, 1] = small if small > 1e-100 else rows[:, 1] * small
    plan, total = KMeansPlan(2, 0), float(np.abs(on_sums.own_sums(rows)).max())
    bound = power_of_four(total)
    search = on_sums.begun(Total(on_sums.first_moments(rows, bound), 0.0, ("a",)), plan, bound)
    squares = on_sums.own_squares(rows, on_sums.next_proposal(search))
    bound = power_of_four(2.0 * float(squares.max()))
    of_all = on_sums.all_moments(rows, on_sums.next_proposal(search), bound)
    after = on_sums.centred(search, Total(of_all, 0.0, ("a",)), plan, bound)
    added = on_sums.all_moments(rows, on_sums.next_proposal(after), after.bound)
    assert np.isfinite(added).all()
    assert np.abs(added).max() <= after.bound


@pytest.mark.parametrize("n_clients", [2, 3, 40, 1000])
@pytest.mark.parametrize("off", [0.0, 1e6])
def test_nothing_that_clients_add_for_whole_numbers_is_rounded(n_clients, off):
    """What is rounded about one point would tell how many rows each client has in a group."""
    random = np.random.default_rng(n_clients)
    rows = random.integers(0, 17, (1200, 4)) * np.array([1.0, 1000.0, 0.25, 1.0]) + off
    rows[:, 3] = off
    plan, clients = KMeansPlan(2, 0), tuple(f"client-{i}" for i in range(n_clients))
    bound = power_of_four(float(np.abs(on_sums.own_sums(rows)).max()))
    total = Total(on_sums.first_moments(rows, bound), 0.0, clients)
    search = on_sums.begun(total, plan, bound)
    squares = on_sums.own_squares(rows, on_sums.next_proposal(search))
    bound = power_of_four(2.0 * float(squares.max()))
    of_all = on_sums.all_moments(rows, on_sums.next_proposal(search), bound)
    after = on_sums.centred(search, Total(of_all, 0.0, clients), plan, bound)
    about = moments_about(rows, np.zeros(len(rows), dtype=int), 1, after.origin)
    np.testing.assert_allclose(after.moments, about, rtol=1e-9, atol=1e-5)
    for state in (replace(search, bound=bound), after):
        ring = FixedPoint.for_bound(state.bound, n_terms=n_clients)
        told = on_sums.next_proposal(state)
        for part in (rows, *np.array_split(rows, min(n_clients, 60))):  # or one client has all
            added = on_sums.all_moments(part, told, state.bound)
            np.testing.assert_array_equal(ring.decode(ring.encode(added)), added)


def test_all_groups_that_are_opened_have_enough_rows():
    rows, k = rows_for_tests("digits")
    _, federation = fitted(rows, k)
    parts = [one.content.values for one in federation.ledger if one.message == "PlainPart"]
    sums = [sum(parts[i : i + 3]) for i in range(0, len(parts), 3)]
    opened = [one for one in sums if one.shape[1] == 1 + 2 * rows.shape[1]]
    assert len(opened) > 5
    assert max(len(one) for one in opened) > k
    *_, told = (one.content for one in federation.ledger if one.message == "KMeansProgress")
    assert all((one[:, 0] >= SMALLEST * count_unit(told.bound)).all() for one in opened[1:])


def test_the_last_round_is_lloyds_and_counts_rows_that_may_not_leave_home():
    rows, k = rows_for_tests("digits")
    found, federation = fitted(rows, k)
    *_, last = (one.content for one in federation.ledger if one.message == "KMeansProposal")
    labels = nearest_labels(rows, last.centers)
    lloyd = np.array([rows[labels == j].mean(axis=0) for j in range(k)])
    far = np.linalg.norm(last.centers - lloyd, axis=1)
    assert np.linalg.norm(found.centers - lloyd, axis=1).mean() < 0.6 * far.mean()
    assert inertia_of(rows, found.centers) < inertia_of(rows, last.centers)
    assert inertia_of(rows, found.centers) <= found.inertia < 1.2 * inertia_of(rows, found.centers)


@pytest.mark.parametrize(("n", "most"), [(300, 1.15), (3000, 1.005)])
def test_many_rows_are_clustered_as_pooled_ones(n, most):
    random = np.random.default_rng(3)
    rows = random.normal(size=(6, 4))[random.integers(0, 6, n)] * 2.0 + random.normal(size=(n, 4))
    found, federation = fitted(rows, 6)
    pooled = KMeans(6, n_init=10, random_state=0).fit(rows)
    assert inertia_of(rows, found.centers) < most * pooled.inertia_
    assert 3 < federation.round < 25


def test_rounds_end_by_their_number():
    rows, k = rows_for_tests("iris")
    assert fitted(rows, k, max_iter=2)[1].round == 3  # and the last one
    assert fitted(rows, 1)[1].round == 1


def test_fewer_rows_than_a_group_needs_stay_together():
    found, federation = fitted(np.arange(4.0)[:, None], 2)
    counts = [one.content.counts for one in federation.ledger if one.message == "KMeansCounts"]
    assert all(len(one) == 1 for one in counts)
    assert 1.5 in found.centers


class Leaving(PlainSum):
    """A sum that one client misses in some rounds."""

    n_noise_shares = 1

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
    with pytest.raises(
        InvalidInput, match="'n_clusters' parameter of a k-means must be a whole number"
    ):
        open_kmeans(federation, "coreset", n_clusters=0, seed=0)
    with pytest.raises(
        InvalidInput, match="'coreset_size' parameter of a k-means must be a whole number"
    ):
        open_kmeans(federation, "coreset", n_clusters=2, seed=0, coreset_size=-1)
