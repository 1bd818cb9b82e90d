from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.baselines import MUFC
from daskfc.baselines.centers.lloyd import assign, kmeans_plus_plus, lloyd
from daskfc.baselines.centers.mufc import (
    BinCounts,
    Extent,
    Grid,
    cluster_bins,
    common_grid,
    extent,
    local_bins,
    sum_bins,
)
from daskfc.errors import InvalidInput, OverflowRefused
from daskfc.federation import check_message
from daskfc.metrics import kappa
from daskfc.seeds import generator
from daskfc.site import BETWEEN_SITES
from tests.oracles import baselines as oracle


def bins_of(data, width, k, *, rounds=0, seed=0, party="client-1"):
    return local_bins(
        data,
        Grid(width),
        n_local_clusters=k,
        local_iterations=rounds,
        random_state=seed,
        party=party,
    )


def test_between_sites_no_bin_is_of_a_row(store):
    """A seed is a row, and told as one whatever clusters the others had."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    for rounds in (0, 3):
        found = local_bins(
            store(rows), Grid(1e-9), n_local_clusters=20, local_iterations=rounds, random_state=0,
            party="client-1", site=SimpleNamespace(smallest=BETWEEN_SITES),
        )  # fmt: skip
        assert found.counts.sum() == 20
        assert found.counts.min() >= BETWEEN_SITES.samples
        assert np.abs(rows[:, None] - 1e-9 * found.bins).max(axis=2).min() > 1e-3


@pytest.mark.parametrize("rounds", [0, 3])
def test_counts_equal_the_dense_definition(store, rounds):
    rows = np.random.default_rng(0).standard_normal((40, 2))
    found = bins_of(store(rows), 0.5, 6, rounds=rounds)
    seeds = kmeans_plus_plus(store(rows), 6, generator(0, "MUFC", "client-1"))
    centers, labels = lloyd(store(rows), seeds, max_iterations=rounds)
    expected = oracle.bin_counts(centers, labels, 0.5)
    pairs = zip(map(tuple, found.bins.tolist()), found.counts.tolist(), strict=True)
    assert dict(pairs) == dict(expected)
    assert found.counts.sum() == 40


def test_seeds_alone_are_samples_rounded_to_the_grid(store):
    rows = np.random.default_rng(1).standard_normal((25, 3))
    found = bins_of(store(rows), 1e-3, 4)
    rounded = {tuple(row) for row in np.rint(rows / 1e-3).astype(int).tolist()}
    assert {tuple(row) for row in found.bins.tolist()} <= rounded


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), clients=st.integers(1, 4))
def test_the_sum_is_what_a_multiset_sum_is(seed, clients):
    rng = np.random.default_rng(seed)
    parts = [(rng.integers(-2, 3, (5, 2)), rng.integers(1, 9, 5)) for _ in range(clients)]
    bins, counts = sum_bins(parts)
    dense = np.zeros((5, 5), dtype=int)
    for b, c in parts:
        np.add.at(dense, (b[:, 0] + 2, b[:, 1] + 2), c)
    again = np.zeros_like(dense)
    again[bins[:, 0] + 2, bins[:, 1] + 2] = counts
    np.testing.assert_array_equal(again, dense)
    assert len(bins) == (dense > 0).sum()


def test_the_grid_is_the_authors_for_the_unit_cube(store):
    a, b = store([[0.2, -1.0]] * 30), store([[0.0, 0.5]] * 70)
    assert extent(a) == Extent(30, 1.0)
    extents = {"a": extent(a), "b": extent(b)}
    assert common_grid(extents).bin_width == pytest.approx(1 / np.sqrt(100))
    assert common_grid({"a": Extent(4, 0.0)}) == Grid(1.0)
    assert common_grid({}, 0.25) == Grid(0.25)


def test_equals_pooled_on_easy_data_and_counts_messages(store, easy):
    rows, truth = easy
    d = rows.shape[1]
    thirds = np.array_split(np.arange(len(rows)), 3)
    stores = {f"client-{i}": store(rows[third]) for i, third in enumerate(thirds)}
    grid = common_grid({name: extent(data) for name, data in stores.items()})
    parts = {name: bins_of(data, grid.bin_width, 4, party=name) for name, data in stores.items()}
    centers = cluster_bins(parts, grid, n_clusters=4, random_state=0).centers
    found = np.concatenate([assign(data, centers) for data in stores.values()])
    assert kappa(truth, found) == 1
    for part in parts.values():
        check_message(part, {"n_features": d})
        assert part.bins.nbytes + part.counts.nbytes <= 4 * (d + 1) * 8
    assert sum(part.counts.sum() for part in parts.values()) == len(rows)


def test_a_point_lies_in_its_bin():
    bins = np.array([[0, 0], [40, -3]])
    parts = {"a": BinCounts(bins, np.array([5, 5]))}
    centers = cluster_bins(parts, Grid(0.25), n_clusters=2, random_state=0).centers
    centers = centers[np.argsort(centers[:, 0])]
    assert (np.abs(centers / 0.25 - bins) <= 0.5).all()


def test_a_bin_weighs_as_much_as_it_counts():
    bins, counts = np.array([[0], [100], [9000]]), np.array([1, 9, 5])
    parts = {"a": BinCounts(bins, counts)}
    centers = cluster_bins(parts, Grid(1.0), n_clusters=2, random_state=0).centers
    assert np.sort(centers[:, 0]) == pytest.approx([90, 9000], abs=1)


def test_deterministic_in_the_seed(store):
    data = store(np.random.default_rng(2).standard_normal((50, 3)))
    first, again, other = (bins_of(data, 0.01, 5, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.bins, again.bins)
    assert not np.array_equal(first.bins, other.bins)


def test_too_fine_a_grid_is_refused(store):
    with pytest.raises(OverflowRefused, match="client 'client-1' has values of more than"):
        bins_of(store([[1e9]]), 1e-9, 1)


def test_too_few_bins_are_refused(store):
    parts = {"a": bins_of(store([[1.0], [1.0]]), 0.5, 2)}
    with pytest.raises(
        InvalidInput,
        match=r"MUFC .* clusters, 2; they lie in 1\. .* 'bin_width', .* 'prepare: ",
    ):
        cluster_bins(parts, Grid(0.5), n_clusters=2, random_state=0)


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"n_clusters": 2, "bin_width": 0}, "'bin_width' parameter of MUFC must be a finite"),
        ({"n_clusters": 2, "local_iterations": -1}, "'local_iterations' parameter of MUFC"),
        ({"n_clusters": 2, "n_local_clusters": 3}, "must be at most 'n_clusters', 2; got 3"),
    ],
)
def test_bad_parameters_are_refused(params, rule):
    with pytest.raises(InvalidInput, match=rule):
        MUFC(**params).check(n_clients=3)
