from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfc.baselines import KFED
from daskfc.baselines.centers.k_fed import (
    LocalCenters,
    core_of,
    global_groups,
    group_centers,
    group_labels,
    local_centers,
    local_clustering,
    project,
)
from daskfc.errors import InvalidInput, PrivacyError
from daskfc.federation import check_message
from daskfc.metrics import kappa
from daskfc.site import BETWEEN_SITES
from tests.oracles import baselines as oracle

LOCAL = {"max_iterations": 100, "random_state": 0, "party": "client-1"}


@pytest.mark.parametrize("shape", [(30, 6), (6, 30), (8, 8)])
def test_projection_keeps_the_inner_products_of_the_svd(store, shape):
    rows = np.random.default_rng(0).standard_normal(shape) + 1
    expected = oracle.projection(rows, 3)
    found = project(store(rows), 3)
    assert found.shape == (shape[0], 3)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-10)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), k=st.integers(1, 5))
def test_core_sets_equal_the_definition(seed, k):
    rng = np.random.default_rng(seed)
    projected, nu = rng.standard_normal((40, 2)), rng.standard_normal((k, 2))
    found = core_of(projected, nu)
    for r, members in enumerate(oracle.core_sets(projected, nu)):
        assert set(np.flatnonzero(found == r)) == members


def test_a_far_centre_hides_neither_core_sets_nor_groups():
    nu = np.array([[0.0], [1.0], [9999999999.0]])
    assert core_of(np.array([[0.1], [0.5], [1.1]]), nu).tolist() == [0, -1, 1]
    parts = {"a": LocalCenters(nu), "b": LocalCenters(np.array([[0.9], [0.2]]))}
    grouping = group_centers(parts, n_clusters=3)
    assert grouping.groups["b"].tolist() == [1, 0]


def test_local_clustering_finds_the_blobs(store, easy):
    rows, truth = easy
    found = local_clustering(store(rows), n_local_clusters=4, **LOCAL)
    assert kappa(truth, found.labels) == 1
    for r, center in enumerate(found.centers):
        np.testing.assert_allclose(center, rows[found.labels == r].mean(axis=0))


def test_a_small_client_sends_fewer_centres(store):
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [5.0, 0.0]])
    found = local_clustering(store(rows), n_local_clusters=3, **LOCAL)
    assert sorted(map(tuple, found.centers)) == [(1.0, 2.0), (5.0, 0.0)]
    one = local_clustering(store([[3.0, 4.0]]), n_local_clusters=3, **LOCAL)
    assert one.centers.tolist() == [[3.0, 4.0]]
    assert one.labels.tolist() == [0]


def test_between_sites_no_centre_is_a_row_or_nearly_one(store):
    """Twenty local clusters of twenty rows had rows among the centres."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    site = SimpleNamespace(smallest=BETWEEN_SITES)
    found = local_clustering(store(rows), n_local_clusters=20, site=site, **LOCAL)
    sizes = np.bincount(found.labels, minlength=len(found.centers))
    assert sizes.min() >= BETWEEN_SITES.samples
    assert len(found.centers) > 1
    for r, center in enumerate(found.centers):
        np.testing.assert_allclose(center, rows[found.labels == r].mean(axis=0))
    equal = local_clustering(store(np.ones((6, 2))), n_local_clusters=3, site=site, **LOCAL)
    assert equal.centers.tolist() == [[1.0, 1.0]]
    with pytest.raises(PrivacyError, match="client 'client-1' has fewer samples"):
        local_clustering(store(rows[:4]), n_local_clusters=1, site=site, **LOCAL)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5),
    k=st.integers(1, 6),
)
def test_server_equals_algorithm_2(seed, sizes, k):
    rng = np.random.default_rng(seed)
    k = min(k, sum(sizes))
    sizes = [min(size, k) for size in sizes]
    if sum(sizes) < k:
        return
    devices = {f"c{i}": rng.standard_normal((size, 3)) for i, size in enumerate(sizes)}
    first = max(sorted(devices), key=lambda z: len(devices[z]))
    taus, means = oracle.k_fed_server(devices, first, k)
    found = group_centers({z: LocalCenters(c) for z, c in devices.items()}, n_clusters=k)
    np.testing.assert_allclose(found.centers, means)
    for r, tau in enumerate(taus):
        members = [(z, i) for z in devices for i in np.flatnonzero(found.groups[z] == r)]
        assert sorted(members) == sorted(tau)


def test_the_order_of_clients_does_not_matter():
    rng = np.random.default_rng(3)
    parts = {f"c{i}": LocalCenters(rng.standard_normal((3, 2))) for i in range(4)}
    forth = group_centers(parts, n_clusters=3)
    back = group_centers(dict(reversed(parts.items())), n_clusters=3)
    np.testing.assert_array_equal(forth.centers, back.centers)
    for name in parts:
        np.testing.assert_array_equal(forth.groups[name], back.groups[name])


def test_too_few_local_centres_are_refused():
    parts = {"a": LocalCenters(np.zeros((1, 2))), "b": LocalCenters(np.ones((1, 2)))}
    with pytest.raises(InvalidInput, match="2 local centres and KFED needs at least one for each"):
        group_centers(parts, n_clusters=3)


def run(stores, k, k_local, seed=0):
    """KFED's wiring without a federation: labels of all clients, and the messages."""
    local = {
        name: local_clustering(
            data, n_local_clusters=k_local, max_iterations=100, random_state=seed, party=name
        )
        for name, data in stores.items()
    }
    uploads = {name: local_centers(one) for name, one in local.items()}
    told = global_groups(group_centers(uploads, n_clusters=k))
    labels = {n: group_labels(stores[n], local[n], told[n]).labels for n in stores}
    return labels, uploads, told


def test_equals_pooled_on_easy_data_and_uploads_k_d_floats_once(store, easy):
    rows, truth = easy
    parts = np.array_split(np.arange(len(rows)), 3)
    stores = {f"client-{i}": store(rows[part]) for i, part in enumerate(parts)}
    labels, uploads, told = run(stores, 4, 4)
    assert kappa(np.concatenate([truth[p] for p in parts]), np.concatenate([*labels.values()])) == 1
    assert sum(one.centers.size for one in uploads.values()) == 3 * 4 * rows.shape[1]
    for message in (*uploads.values(), *told.values()):
        check_message(message, {"n_features": rows.shape[1]})


def test_skewed_clients_with_few_local_clusters(store, easy):
    rows, truth = easy
    holds = {"a": (0, 1), "b": (1, 2), "c": (2, 3), "d": (3, 0)}
    picks = {c: np.flatnonzero(np.isin(truth, two)) for c, two in holds.items()}
    labels, uploads, _ = run({c: store(rows[p], name=c) for c, p in picks.items()}, 4, 2)
    truths = np.concatenate([truth[picks[c]] for c in labels])
    assert kappa(truths, np.concatenate([*labels.values()])) == 1
    assert sum(one.centers.size for one in uploads.values()) == 4 * 2 * rows.shape[1]


def test_the_seed_decides_the_labels(store):
    rows = np.random.default_rng(5).standard_normal((60, 4))
    stores = {"a": store(rows[:30]), "b": store(rows[30:])}
    first, again = run(stores, 5, 5, seed=1)[0], run(stores, 5, 5, seed=1)[0]
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"n_clusters": 0}, "'n_clusters' parameter of KFED must be a whole number of at least 1"),
        ({"n_clusters": 3, "n_local_clusters": 4}, "must be at most 'n_clusters', 3; got 4"),
        ({"n_clusters": 9, "n_local_clusters": 2}, "4 clients send 2 each"),
        ({"n_clusters": 3, "max_iterations": 0}, "'max_iterations' parameter of KFED"),
        ({"n_clusters": 3, "random_state": -1}, "'random_state' parameter of KFED"),
    ],
)
def test_bad_parameters_are_refused(params, rule):
    with pytest.raises(InvalidInput, match=rule):
        KFED(**params).check(n_clients=4)
