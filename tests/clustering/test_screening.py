"""Neighbours screened in float32 are those that float64 finds, whatever the points."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from daskfc.clustering.views import half_distances, screening
from daskfc.clustering.views import nearest as module
from daskfc.clustering.views.half_distances import HalfDistances
from daskfc.clustering.views.nearest import nearest_of_points, within_radius_of_points
from daskfc.clustering.views.screening import Share
from daskfc.threads import own_threads
from tests.clustering.tiling import in_tiles
from tests.oracles import clustering as oracle

N = 420


def points(kind: str) -> np.ndarray:
    """Points with ties, with distances that float32 cannot tell apart, or with late neighbours."""
    random = np.random.default_rng(5)
    cloud = random.normal(size=(N, 6))
    match kind:
        case "cloud":
            return cloud
        case "far from the origin":
            return cloud + 1e6
        case "one outlier":  # all others lie in a 1000th of the range
            return np.vstack([cloud[1:] * 1e-3, np.full((1, 6), 3.0)])
        case "in pairs":
            return np.repeat(cloud[: N // 2], 2, axis=0)
        case "integers":  # many ties
            return random.integers(0, 4, (N, 6)).astype(float)
        case "nearer and nearer":
            return np.cumsum(1.0 / np.arange(1, N + 1) ** 2)[:, None] * np.ones(3)
        case "large integers":  # squares that float32 rounds
            return random.integers(0, 3, (N, 5)) + 5000.0 * random.integers(0, 2, (N, 1))
    raise AssertionError(kind)


KINDS = ["cloud", "far from the origin", "in pairs", "integers"]
HARD = [
    "one outlier",
    "nearer and nearer",
    "large integers",
]  # may be too near to each other for float32


def test_a_pair_at_the_radius_is_kept_however_small_the_error():
    X = np.array([[0.0], [0.5], [1.0]])  # scores and limits that float32 has
    exact = HalfDistances.of(X)
    for error in (exact.error, np.zeros(3, np.float32)):
        scores = HalfDistances.of_table(exact.table(), error, exact.unit)
        pairs = [np.column_stack(block[:2]) for block in scores.within(0.25)]
        assert np.concatenate(pairs).tolist() == [[0, 1], [1, 2]]


def counted(monkeypatch):
    """Note whether pairs were screened."""
    outcomes, of = [], HalfDistances.of

    class Noted(HalfDistances):
        def nearest(self, k):
            found = super().nearest(k)
            outcomes.append(found is not None)
            return found

    def noted(X, error):
        scores = of(X, error)
        if scores is None:
            return outcomes.append(False)
        return Noted(scores.rows, scores.error, scores.unit)

    monkeypatch.setattr(HalfDistances, "of", noted)
    return outcomes


@pytest.mark.few(12)
@pytest.mark.parametrize("rows", [61, 200, N], ids="tiles of {} rows".format)
@pytest.mark.parametrize("k", [1, 7])
@pytest.mark.parametrize("kind", KINDS + HARD)
def test_neighbours_are_those_of_all_distances(monkeypatch, kind, k, rows):
    X = points(kind)
    in_tiles(monkeypatch, rows)
    outcomes = counted(monkeypatch)
    found = nearest_of_points(X, k)
    assert outcomes in ([[True]] if kind in KINDS and rows > 100 else [[True], [False], []])
    monkeypatch.setattr(module, "is_worthwhile", lambda n, k: False)
    plain = nearest_of_points(X, k)
    np.testing.assert_array_equal(found.indices, plain.indices)
    np.testing.assert_array_equal(found.distances, plain.distances)
    assert found.indices.dtype == plain.indices.dtype
    D = ((X[:, None] - X) ** 2).sum(axis=2)
    assert found.indices.tolist() == oracle.neighbours(D, k)


@pytest.mark.parametrize(
    "X",
    [np.ones((N, 2)), np.zeros((N, 2)), 1e-200 * points("cloud"), 1e120 * points("cloud")],
    ids=["all alike", "all 0", "tiny", "huge"],
)
def test_where_float32_tells_nothing_float64_does(monkeypatch, X):
    outcomes = counted(monkeypatch)
    found = nearest_of_points(X, 3)
    assert outcomes == [False]
    assert not (found.indices == np.arange(N)[:, None]).any()


def test_many_neighbours_are_not_screened(monkeypatch):
    outcomes = counted(monkeypatch)
    nearest_of_points(points("cloud"), N // 2)
    assert outcomes == []


def test_scores_are_as_near_to_the_true_ones_as_is_said(monkeypatch):
    X = points("cloud") * 255.0 + 3.0
    seen = []

    class Noted(screening.PairScreen):
        def note(self, S, start, first):
            seen.append((S.copy(), start, first, self.error))
            return super().note(S, start, first)

    monkeypatch.setattr(half_distances, "PairScreen", Noted)
    in_tiles(monkeypatch, 150)
    nearest_of_points(X, 3)
    Y = X - np.rint(X.mean(axis=0))
    true = -((Y[:, None] - Y) ** 2).sum(axis=2) / 2 / np.abs(Y).max() ** 2
    assert len(seen) > 3
    for S, start, first, error in seen:
        S[np.isneginf(S)] = 0.0  # of a row with itself
        rows, columns = (
            slice(a, a + size) for a, size in zip((start, first), S.shape, strict=True)
        )
        off = np.abs(S.astype(float) - true[rows, columns])
        assert 0.0 < off.max()
        assert (off <= error[rows, None]).all()
        assert (off <= error[columns]).all()


@pytest.mark.few(12)
@pytest.mark.parametrize("rows", [61, N], ids="tiles of {} rows".format)
@pytest.mark.parametrize("share", [0.002, 0.3, 1.0])
@pytest.mark.parametrize("kind", KINDS + HARD)
def test_pairs_within_a_radius_are_those_of_all_distances(monkeypatch, kind, share, rows):
    X = points(kind)
    D = module._Samples(X).distances(*np.divmod(np.arange(N * N), N)).reshape(N, N)
    upper = np.triu_indices(N, 1)
    radius2 = float(np.quantile(D[upper], share, method="lower"))  # a distance that occurs
    in_tiles(monkeypatch, rows)
    found = [np.column_stack(pairs) for pairs in within_radius_of_points(X, radius2).edges()]
    wanted = np.argwhere(np.triu(D <= radius2, 1))
    assert sorted(np.concatenate(found).tolist()) == wanted.tolist()


def test_few_pairs_near_the_radius_are_computed_twice(monkeypatch):
    X, asked = points("integers"), []
    exactly = module._Samples.distances

    def counted(samples, rows, cols):
        asked.append(rows.size)
        return exactly(samples, rows, cols)

    monkeypatch.setattr(module._Samples, "distances", counted)
    monkeypatch.setattr(module, "_screened", None)  # which is for radii that float32 cannot tell
    pairs = sum(rows.size for rows, _ in within_radius_of_points(X, 6.5).edges())
    assert pairs > 1000
    assert sum(asked) == 0  # no distance of integers is near 6.5
    list(within_radius_of_points(X, 6.0).edges())
    assert sum(asked) == np.triu(((X[:, None] - X) ** 2).sum(axis=2) == 6.0, 1).sum()


@pytest.mark.parametrize(("room", "passes"), [(10**6, 1), (1, 3), (1700, 3)])
def test_pairs_within_a_radius_are_kept_while_there_is_room(monkeypatch, room, passes):
    X, begun = points("integers"), []
    within = HalfDistances.within

    def counted(scores, squared):
        begun.append(1)
        return within(scores, squared)

    monkeypatch.setattr(module, "_KEPT", room)
    monkeypatch.setattr(HalfDistances, "within", counted)
    graph = within_radius_of_points(X, 6.5)
    next(iter(graph))  # a pass that is not gone through is none
    begun.clear()
    times = [np.concatenate([np.column_stack(pairs) for pairs in graph]) for _ in range(3)]
    assert len(times[0]) > 1700
    assert len(begun) == passes
    for other in times[1:]:
        np.testing.assert_array_equal(other, times[0])


@pytest.mark.parametrize("of", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_the_blocks_together_give_the_same_neighbours(kind, of):
    X = points(kind)
    scores, _ = module.half_distances(X)
    table = scores.table()
    parts = []
    for part in range(of):
        apart = HalfDistances.of_table(table, scores.error, scores.unit)
        parts.append(apart.nearest(3, Share(part, of)))
        assert 0 < len(parts[-1][0]) < N * N / 4
    pairs = tuple(np.concatenate(each) for each in zip(*parts[::-1], strict=True))
    found, alone = nearest_of_points(X, 3, pairs), nearest_of_points(X, 3)
    np.testing.assert_array_equal(found.indices, alone.indices)
    np.testing.assert_array_equal(found.distances, alone.distances)


@pytest.mark.parametrize("of", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_the_blocks_together_give_the_same_pairs_within_a_radius(kind, of):
    X, radius2 = points(kind), 5.0
    scores, unit = module.half_distances(X)
    table = scores.table()
    parts = [
        each
        for part in range(of)
        for each in HalfDistances.of_table(table, scores.error, scores.unit).within(
            radius2 * unit, Share(part, of)
        )
    ]
    assert len(parts) > of
    found, alone = (
        np.concatenate([np.column_stack(pairs) for pairs in graph])
        for graph in (
            within_radius_of_points(X, radius2, parts),
            within_radius_of_points(X, radius2),
        )
    )
    assert sorted(found.tolist()) == sorted(alone.tolist())
    assert len(found) > N


@pytest.mark.parametrize("k", [0, 3, 25])
@pytest.mark.parametrize("of", [1, 2, 5])
def test_every_pair_is_in_one_tile(of, k):
    seen = np.zeros((N, N), int)
    for part in range(of):
        found = list(screening.tiles(N, Share(part, of), k))
        assert len(found) >= (3 if k < 25 else 0)
        for start, stop, first, last in found:
            seen[start:stop, first:last] += 1
            if first < stop:  # both triangles of the square
                seen[start:stop, first:stop][np.tril_indices(stop - start, -1)] -= 1
    assert (seen == np.triu(np.ones((N, N), int))).all()


@pytest.mark.parametrize(("n", "most"), [(2_000, 124), (10_000, 180), (70_000, 180)])
def test_tiles_are_as_large_as_what_is_looked_for_needs(n, most):
    assert screening.is_worthwhile(n, most)
    assert not screening.is_worthwhile(n, most + 1)
    for k in (5, most):
        start, stop, first, last = next(screening.tiles(n, k=k))
        assert min(stop - start, last - first) >= 16 * (k + 1)
        assert (stop - start) * (last - first) <= 1 << 23
    start, stop, first, last = next(screening.tiles(10**6, k=5))
    assert (stop - start, last - first) == (512, 2048)


def test_there_may_be_fewer_tiles_than_parts():
    X, k, of = points("cloud"), 25, 5
    assert len(list(screening.tiles(N, k=k))) < of
    scores, _ = module.half_distances(X)
    parts = [scores.nearest(k, Share(part, of)) for part in range(of)]
    pairs = tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    found, alone = nearest_of_points(X, k, pairs), nearest_of_points(X, k)
    np.testing.assert_array_equal(found.indices, alone.indices)


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("kind", KINDS + HARD)
def test_the_number_of_threads_changes_nothing(monkeypatch, kind, threads):
    X = points(kind)
    in_tiles(monkeypatch, 61)
    alone = nearest_of_points(X, 3)
    radius2 = float(np.median(alone.distances))
    near = [pairs for pairs in within_radius_of_points(X, radius2)]
    with threadpool_limits(threads, "blas"):
        assert own_threads() == threads
        found = nearest_of_points(X, 3)
        there = [pairs for pairs in within_radius_of_points(X, radius2)]
    np.testing.assert_array_equal(found.indices, alone.indices)
    np.testing.assert_array_equal(found.distances, alone.distances)
    for one, other in zip(near, there, strict=True):
        np.testing.assert_array_equal(one, other)
