"""What sums and distances of rounds of k-means tell of single rows."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from daskfc.errors import InvalidInput
from daskfc.privacy import rows_between_sums, rows_by_centres
from daskfc.protocols.federated_kmeans.estimator import LLOYD_ROUNDS
from pipelines.attacks import kmeans
from pipelines.attacks.kmeans import CASES

X = np.random.default_rng(0).normal(size=(9, 3))


def sums_of(inside):
    return inside.sum(axis=1), inside @ X, inside @ X**2


def test_rows_by_which_sums_differ_are_found_and_others_are_not():
    inside = np.zeros((4, 9))
    inside[0, :4] = inside[1, :5] = 1  # differ by row 4
    inside[2, 5:8] = 1  # differs from none by one row
    inside[3, 8] = 1  # a row alone
    np.testing.assert_allclose(rows_between_sums(*sums_of(inside)), X[[8, 4]][
        np.argsort(X[[8, 4], 0])], atol=1e-9)  # fmt: skip
    several = np.zeros((2, 9))
    several[0, :3] = several[1, 3:7] = 1  # one row more, but four for three
    assert not len(rows_between_sums(*sums_of(several)))


def test_rows_that_are_found_give_others():
    inside = np.array([[1, 1, 0, 0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 0, 0, 0],
                       [1, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1, 0, 0, 0]])  # fmt: skip

    def members(rows):
        return inside[:, cdist(rows, X).argmin(axis=1)]

    alone = rows_between_sums(*sums_of(inside))
    assert sorted(cdist(alone, X).argmin(axis=1)) == [0, 1]
    assert sorted(cdist(rows_between_sums(*sums_of(inside), members), X).argmin(axis=1)) == [0, 1]
    inside[3, 3] = 1  # then row 5 is what this one has beside two that are left of another
    assert sorted(cdist(rows_between_sums(*sums_of(inside), members), X).argmin(axis=1)) == [
        0, 1, 5]  # fmt: skip
    assert sorted(cdist(rows_between_sums(*sums_of(inside)), X).argmin(axis=1)) == [0, 1]


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_distances_to_means_place_rows_as_far_as_the_means_span(rank):
    random = np.random.default_rng(rank)
    rows = random.normal(size=(30, rank)) @ random.normal(size=(rank, 8)) + 5.0
    weights = random.random((12, 30))
    weights /= weights.sum(axis=1, keepdims=True)
    found, left = rows_by_centres(weights, cdist(rows, weights @ rows, "sqeuclidean"))
    assert left.max() < 1e-5
    np.testing.assert_allclose(cdist(found, found), cdist(rows, rows), atol=1e-5)
    few = np.eye(30)[:2]
    found, left = rows_by_centres(few, cdist(rows, few @ rows, "sqeuclidean"))
    assert found.shape == (30, 1)
    assert left[:2].max() < 1e-5  # the two are what spans it
    step = (rows[1] - rows[0]) / np.linalg.norm(rows[1] - rows[0])
    true = rows - rows[:2].mean(axis=0)
    np.testing.assert_allclose(
        left, np.linalg.norm(true - np.outer(true @ step, step), axis=1), atol=1e-5
    )


def test_what_does_not_fit():
    for n, S, Q in (([1.0], [1.0], [1.0]), ([1.0], [[1.0]], [[1.0, 2.0]]),
                    ([1.0, 2.0], [[1.0]], [[1.0]]), ([np.nan], [[1.0]], [[1.0]])):  # fmt: skip
        with pytest.raises(InvalidInput, match=r"an attack on sums must be given finite counts"):
            rows_between_sums(n, S, Q)
    for A, D in (([1.0], [1.0]), ([[1.0, 0.0]], [[1.0, 2.0]]), ([[np.inf]], [[1.0]])):
        with pytest.raises(InvalidInput, match="an attack on distances to means must be given"):
            rows_by_centres(A, D)


def page():
    return (Path(__file__).parents[2] / "docs" / "attacks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "n"), CASES)
def test_the_page_has_the_curve_of_rounds(name, n):
    for embedded in (False, True):
        what, found = kmeans.shares_by_rounds(name, n, embedded)
        row = " | ".join("{:.0%} ({:.0%})".format(*one) for one in found)
        assert f"| {what} | {n} | {row} |" in page()


@pytest.mark.parametrize("lloyd_rounds", [0, LLOYD_ROUNDS])
@pytest.mark.parametrize(("name", "n"), CASES)
def test_what_is_opened_now_tells_no_row(name, n, lloyd_rounds):
    for embedded in (False, True) if not lloyd_rounds else (False,):
        rows, k = kmeans.rows_of(name, n, embedded)
        told = kmeans.opened_now(rows, k, lloyd_rounds=lloyd_rounds)
        inside = told.inside(rows).astype(float)
        np.testing.assert_allclose(inside @ rows, told.sums, atol=1e-7)  # the attack has the truth
        np.testing.assert_array_equal(inside.sum(axis=1), told.counts)
        assert len(told.counts) > k
        assert kmeans.rows_recovered(told, rows) == (0.0, 0.0)
        rank = np.linalg.matrix_rank(inside)
        for few in np.random.default_rng(0).integers(0, n, (50, 4)):
            assert np.linalg.matrix_rank(np.delete(inside, few, axis=1)) == rank


def test_the_page_has_the_curve_of_distances_to_centres():
    shares = (kmeans.rows_placed(starts, rank=rank) for rank, starts in kmeans.PLACED)
    told = [f"{rank} dimensions and {starts}: {share:.0%}" for (rank, starts), share in
            zip(kmeans.PLACED, shares, strict=True)]  # fmt: skip
    assert all(one in page() for one in told), told
