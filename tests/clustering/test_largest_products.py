"""The largest inner products of each row, screened in float32, against all of them in float64."""

import numpy as np
import pytest

from daskfc.clustering.views import largest_products as module
from daskfc.clustering.views import screening
from daskfc.clustering.views.largest_products import RoundedRows, largest_products
from daskfc.clustering.views.screening import Share
from tests.clustering.tiling import in_tiles


def points(kind: str, n: int) -> np.ndarray:
    """Rows for which nearly equal products, or a late change of the nearest, are likely."""
    random = np.random.default_rng(7)
    angle = np.sort(random.uniform(0.0, 3.0, n))
    match kind:
        case "cloud":
            return random.normal(size=(n, 5))
        case "along a curve":  # every later row is nearer than all before it
            return np.column_stack([np.cos(angle), np.sin(angle)])
        case "growing":  # the last rows have the largest products with all others
            return np.linspace(1.0, 2.0, n)[:, None] * random.uniform(1.0, 1.1, size=(n, 3))
        case "in pairs":  # products with both of a pair are equal
            return np.repeat(random.normal(size=(n // 2, 4)), 2, axis=0)
    raise AssertionError(kind)


@pytest.mark.parametrize("rows", [100, 230, 600], ids="tiles of {} rows".format)
@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("kind", ["cloud", "along a curve", "growing", "in pairs"])
def test_the_result_is_that_of_float64(monkeypatch, kind, k, rows):
    n = 600
    B = points(kind, n)
    in_tiles(monkeypatch, rows)
    found = largest_products(B, k)
    assert found is not None
    K = np.einsum("id,jd->ij", B, B)
    assert found.lowest == pytest.approx(K.min(), abs=1e-14)
    np.testing.assert_allclose(found.values, np.take_along_axis(K, found.indices, 1), rtol=1e-14)
    np.fill_diagonal(K, np.inf)  # itself first
    order = np.argsort(-K, axis=1, kind="stable")[:, :k]
    want, got = np.take_along_axis(K, order, 1), np.take_along_axis(K, found.indices, 1)
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert all(len(set(row)) == k for row in found.indices.tolist())
    if kind == "cloud":  # no ties: one answer
        assert np.array_equal(found.indices, order)


def test_pairs_are_dropped_on_the_way(monkeypatch):
    n, k, sizes = 600, 3, []
    B = points("growing", n)
    in_tiles(monkeypatch, 60)
    want = largest_products(B, k)
    drop = screening.PairScreen._drop

    def counted(self):
        before = sum(rows.size for rows, _, _ in self.pairs)
        drop(self)
        sizes.append((before, self.pairs[0][0].size))

    monkeypatch.setattr(screening.PairScreen, "_drop", counted)
    got = largest_products(B, k)
    assert len(sizes) > 1
    assert all(after < before for before, after in sizes[:-1])
    assert np.array_equal(got.indices, want.indices)


@pytest.mark.parametrize(
    ("B", "k"),
    [
        (np.ones((400, 2)), 3),  # all alike
        (1e-120 * points("cloud", 400), 3),  # squares that float64 hardly holds
        (points("cloud", 400), 100),  # a quarter of all pairs
    ],
    ids=["all alike", "tiny", "many neighbours"],
)
def test_where_screening_tells_nothing_nothing_is_returned(B, k):
    assert largest_products(B, k) is None


def test_where_very_many_pairs_have_the_smallest_product_nothing_is_returned(monkeypatch):
    """Each row of one kind has it with each of the other, and its neighbours are of its own."""
    random, one, other = np.random.default_rng(0), slice(0, 400, 2), slice(1, 400, 2)
    B = np.zeros((400, 7))
    B[one, :3], B[other, 3:6] = random.normal(size=(2, 200, 3))
    B[one, 6], B[other, 6] = 4.0, -4.0
    in_tiles(monkeypatch, 200)
    found = largest_products(B, 3)
    assert found.lowest == (B @ B.T).min() == -16.0
    monkeypatch.setattr(screening, "_LISTED", 10_000)  # of a tile
    assert largest_products(B, 3) is None


def shares(B, k, of):
    rounded = RoundedRows.of(B)
    table = rounded.table(), rounded.error, rounded.unit, rounded.lowest
    return [RoundedRows.of_table(*table).screened(k - 1, Share(i, of)) for i in range(of)]


@pytest.mark.parametrize("of", [1, 2, 5])
@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("kind", ["cloud", "along a curve", "growing", "in pairs"])
def test_shares_of_the_blocks_give_the_same_bits(kind, k, of):
    B = points(kind, 600)
    alone, together = largest_products(B, k), largest_products(B, k, shares(B, k, of))
    assert together.lowest == alone.lowest
    np.testing.assert_array_equal(together.indices, alone.indices)
    np.testing.assert_array_equal(together.values, alone.values)


@pytest.mark.parametrize("part", range(3))
def test_a_share_that_lacks_blocks_is_noticed(part):
    B = points("cloud", 600)
    found = shares(B, 6, 3)
    del found[part]
    assert not np.array_equal(largest_products(B, 6, found).indices, largest_products(B, 6).indices)


def test_of_the_pairs_with_the_smallest_product_few_are_listed(monkeypatch):
    B = points("cloud", 600)
    B[:, 0] = np.linspace(3.0, -3.0, 600)  # ever smaller products with the first rows
    in_tiles(monkeypatch, 60)
    want = largest_products(B, 2).lowest
    monkeypatch.setattr(module, "_LISTED", 4)
    found = shares(B, 2, 1)
    assert 1 <= found[0].low_rows.size <= 4
    assert largest_products(B, 2, found).lowest == want
    monkeypatch.setattr(module, "_LISTED", 0)
    assert shares(B, 2, 1) == [None]


@pytest.mark.parametrize("seed", range(8))
def test_the_smallest_product_is_found_where_float32_cannot_tell_it(monkeypatch, seed):
    """-1 in the first block, and in the last a number below it that may be rounded above it."""
    random = np.random.default_rng(seed)
    B = 0.3 * random.uniform(-1.0, 1.0, size=(600, 6))
    B[:2] = np.eye(6)[0], -np.eye(6)[0]
    v = random.normal(size=6)
    B[-2] = v / np.linalg.norm(v)
    B[-1] = -(1.0 + 1e-9) * B[-2]
    in_tiles(monkeypatch, 60)
    want = np.einsum("ij,ij->i", B[-2:-1], B[-1:])[0]
    assert want < -1.0
    assert largest_products(B, 2).lowest == want
    assert largest_products(B, 2, shares(B, 2, 2)).lowest == want
