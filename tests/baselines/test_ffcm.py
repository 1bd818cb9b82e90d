from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.baselines import FFCM
from daskfc.baselines.centers.centers import GlobalCenters
from daskfc.baselines.centers.ffcm import (
    FuzzyCenters,
    center_shift,
    first_centers,
    first_local_centers,
    fuzzy_c_means,
    local_centers,
    merge_centers,
)
from daskfc.baselines.centers.lloyd import assign
from daskfc.errors import InvalidInput
from daskfc.federation import check_message
from daskfc.metrics import kappa
from daskfc.site import BETWEEN_SITES
from tests.oracles import baselines as oracle

LOCAL = {"fuzzifier": 2.0, "max_iterations": 50, "tolerance": 1e-6}


@pytest.mark.parametrize("fuzzifier", [1.5, 2.0, 3.0])
def test_one_alternation_equals_the_loops(store, fuzzifier):
    rng = np.random.default_rng(0)
    rows, start = rng.standard_normal((30, 3)), rng.standard_normal((4, 3))
    found = fuzzy_c_means(store(rows), start, fuzzifier=fuzzifier, max_iterations=1, tolerance=0.0)
    centers, supports = oracle.fuzzy_update(rows, start, fuzzifier)
    np.testing.assert_allclose(found.centers, centers, rtol=1e-9)
    np.testing.assert_allclose(found.supports, supports, rtol=1e-9)
    assert found.supports.sum() == pytest.approx(30)


def test_converged_centres_are_a_fixed_point(store, easy):
    rows = easy[0]
    found = fuzzy_c_means(store(rows), rows[:4], fuzzifier=2.0, max_iterations=500, tolerance=1e-13)
    again, _ = oracle.fuzzy_update(rows, found.centers, 2.0)
    np.testing.assert_allclose(again, found.centers, atol=1e-8)


@pytest.mark.parametrize("most", [0, 100])
def test_between_sites_no_centre_is_a_row_or_nearly_one(store, most):
    """A row apart had a centre of its own; without an update seeds were told, which are rows."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    rows[0] += 100.0
    how = {"fuzzifier": 1.5, "max_iterations": most, "tolerance": 0.0}
    site = SimpleNamespace(smallest=BETWEEN_SITES)
    found = first_local_centers(
        store(rows), n_clusters=3, random_state=0, party="client-1", site=site, **how
    )
    assert len(found.centers) == (2 if most else 0)
    apart = np.abs(rows[:, None] - found.centers).max(axis=2)
    assert apart.min(initial=1.0) > 1e-3
    given = GlobalCenters(np.array([[90.0, 90, 90], [0.0, 0, 0]]))
    kept = local_centers(store(rows), given, site=site, **how)
    np.testing.assert_array_equal(kept.centers[0], given.centers[0])
    assert kept.supports[0] == 0
    assert (kept.supports[1] > 0) == (most > 0)


def test_a_far_centre_does_not_blur_memberships_of_near_ones(store):
    rows = np.array([[0.0], [0.1], [1.0], [1.1], [9999999999.0]])
    how = {"fuzzifier": 2.0, "max_iterations": 1, "tolerance": 0}
    beside = fuzzy_c_means(store(rows), np.array([[0.2], [0.9], [9999999999.0]]), **how)
    alone = fuzzy_c_means(store(rows[:4]), np.array([[0.2], [0.9]]), **how)
    np.testing.assert_allclose(beside.centers[:2], alone.centers, rtol=1e-6)


def test_a_centre_on_a_row_does_no_harm(store):
    found = fuzzy_c_means(
        store([[0.0], [1.0]]),
        np.array([[0.0], [1.0]]),
        fuzzifier=2.0,
        max_iterations=3,
        tolerance=0,
    )
    np.testing.assert_array_equal(found.centers, [[0.0], [1.0]])


def merge_arrays(parts, last, *, averaging):
    return merge_centers(parts, GlobalCenters(last), averaging=averaging, random_state=0).centers


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), clients=st.integers(1, 4))
def test_weighted_merging_is_the_support_weighted_mean(seed, clients):
    rng = np.random.default_rng(seed)
    parts = {
        f"c{p}": FuzzyCenters(rng.standard_normal((3, 2)), rng.random(3) + 0.1)
        for p in range(clients)
    }
    merged = merge_arrays(parts, np.zeros((3, 2)), averaging="weighted")
    for j in range(3):
        weights = [part.supports[j] for part in parts.values()]
        expected = np.average([part.centers[j] for part in parts.values()], axis=0, weights=weights)
        np.testing.assert_allclose(merged[j], expected)


def test_merging_by_k_means_does_not_need_equal_numbers():
    a = FuzzyCenters(np.array([[0.0], [10.0], [20.0]]), np.ones(3))
    b = FuzzyCenters(np.array([[20.2], [0.2], [10.2]]), np.ones(3))
    merged = merge_arrays({"a": a, "b": b}, np.array([[9.0], [19.0], [1.0]]), averaging="k-means")
    np.testing.assert_allclose(merged, [[10.1], [20.1], [0.1]])


def test_merging_by_k_means_leaves_a_poor_start_and_keeps_its_numbers():
    last = np.array([[20.0], [100.0], [100.1]])  # Lloyd alone would stay there
    points = FuzzyCenters(np.array([[0.0], [0.1], [40.0], [40.1], [100.0], [100.1]]), np.ones(6))
    expected = np.array([[0.05], [40.05], [100.05]])
    for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1]):
        merged = merge_arrays({"a": points}, last[order], averaging="k-means")
        np.testing.assert_allclose(merged, expected[order])


def test_merging_survives_coinciding_centres():
    same = FuzzyCenters(np.ones((2, 2)), np.ones(2))
    merged = merge_arrays({"a": same}, np.eye(2), averaging="k-means")
    assert merged.shape == (2, 2)
    assert np.isfinite(merged).all()


def rounds(stores, k, averaging, n_rounds=5, seed=0):
    """FFCM's wiring without a federation."""
    parts = {
        name: first_local_centers(data, n_clusters=k, random_state=seed, party=name, **LOCAL)
        for name, data in stores.items()
    }
    centers = first_centers(parts, n_clusters=k, random_state=seed)
    for _ in range(n_rounds):
        parts = {name: local_centers(data, centers, **LOCAL) for name, data in stores.items()}
        before = centers
        centers = merge_centers(parts, before, averaging=averaging, random_state=seed)
        shift = center_shift(before, centers).shift
    return centers.centers, parts, shift


@pytest.mark.parametrize("averaging", ["k-means", "weighted"])
def test_equals_pooled_on_easy_data(store, easy, averaging):
    rows, truth = easy
    thirds = np.array_split(np.arange(len(rows)), 3)
    stores = {f"client-{i}": store(rows[third]) for i, third in enumerate(thirds)}
    centers, parts, shift = rounds(stores, 4, averaging)
    assert kappa(truth, np.concatenate([assign(data, centers) for data in stores.values()])) == 1
    assert shift < 1e-3
    for part in parts.values():
        check_message(part, {"n_features": rows.shape[1]})
        assert part.centers.size + part.supports.size == 4 * (rows.shape[1] + 1)


def test_one_client_with_weighted_merging_is_fuzzy_c_means(store, easy):
    data = store(easy[0])
    centers, _, _ = rounds({"a": data}, 4, "weighted")
    alone = fuzzy_c_means(data, centers, fuzzifier=2.0, max_iterations=1, tolerance=0.0)
    np.testing.assert_allclose(alone.centers, centers, atol=1e-3)


def test_too_few_first_centres_are_refused(store):
    part = first_local_centers(
        store([[1.0], [1.0]]), n_clusters=2, random_state=0, party="a", **LOCAL
    )
    with pytest.raises(InvalidInput, match="1 different local centres and 2 clusters"):
        first_centers({"a": part}, n_clusters=2, random_state=0)


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"n_clusters": 2, "fuzzifier": 1.0}, "'fuzzifier' parameter of FFCM must be a finite"),
        ({"n_clusters": 2, "averaging": "mean"}, "must be one of 'k-means', 'weighted'"),
        ({"n_clusters": 2, "max_rounds": 0}, "'max_rounds' parameter of FFCM"),
        ({"n_clusters": 2.5}, "'n_clusters' parameter of FFCM"),
    ],
)
def test_bad_parameters_are_refused(params, rule):
    with pytest.raises(InvalidInput, match=rule):
        FFCM(**params).check()


def test_the_next_fit_starts_from_the_last_centres(federation, tmp_path):
    federation.results = str(tmp_path)
    first, second = (FFCM(10, start="last").fit(federation) for _ in range(2))
    federation.results = None
    assert (first.start_, second.start_) == ("local", "last")
    assert second.n_rounds_ < first.n_rounds_
    moved = np.linalg.norm(second.cluster_centers_ - first.cluster_centers_)
    assert moved <= 1e-3 * np.linalg.norm(first.cluster_centers_)
    assert "first_local_centers" not in {row.step for row in second.ledger_}


def test_centres_of_other_features_are_refused():
    data = SimpleNamespace(n_features=2)
    with pytest.raises(InvalidInput, match="3 features, and these have 2"):
        local_centers(
            data, GlobalCenters(np.zeros((2, 3))), fuzzifier=2.0, max_iterations=1, tolerance=0.0
        )
