"""Inputs on which a grid that follows the largest norm is wrong, and nothing says so."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_rand_score

from daskfc.errors import PartyError
from daskfc.federation import Federation
from daskfc.protocols import OmniFC
from tests.protocols.conftest import by_id, deal

pytestmark = pytest.mark.slow


@pytest.fixture
def federate(tmp_path):
    """Deal samples to clients, which run until the test ends."""
    running = []

    def start(X, owners):
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(Federation.local(deal(folder, X, owners)))
        return running[-1]

    yield start
    for one in running:
        one.close()


def messages_of(federation):
    return {row.message for row in federation.ledger}


def system_of(model):
    return model._fitted.distances.system


def blobs():
    random = np.random.default_rng(0)
    centres = random.normal(size=(4, 2)) * 6
    own = np.arange(400) % 4
    return centres[own] + random.normal(size=(400, 2)) * 0.3, own


def two_groups(far):
    random = np.random.default_rng(0)
    near = [random.normal(size=(150, 2)) * 0.1, random.normal(size=(150, 2)) * 0.1 + [3, 0]]
    return np.concatenate([*near, [[far, far]]])


def test_many_equal_columns_far_from_the_origin(federate):
    """After scikit-learn#9354: differences of .01 in 1,024 columns near 10,000."""
    column = np.array([10000.01, 10000.00, 10000.03, 10000.5, 10000.51, 10000.52])
    federation = federate(np.repeat(column[:, None], 1024, axis=1), [0, 0, 1, 1, 2, 2])
    model = OmniFC(clusterer={"dbscan": {"eps": 0.7, "min_samples": 1}}).fit(federation)
    assert adjusted_rand_score([0, 0, 0, 1, 1, 1], by_id(model.labels_)) == 1.0


CLUSTERERS = {
    "k-means": (4, "k-means"),
    "spectral": (4, "spectral"),
    "gaussian": (4, {"spectral": {"affinity": "gaussian"}}),
    "ward": (4, "hierarchical"),
    "single": (9, {"hierarchical": {"linkage": "single"}}),
    "k-medoids": (4, "k-medoids"),
    "dbscan": (None, {"dbscan": {"eps": 0.3, "min_samples": 5}}),
    "hdbscan": (None, "hdbscan"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("offset", "names"), [(1e6, ["k-means"]), (1e12, list(CLUSTERERS))])
def test_a_common_shift_changes_no_label(federate, offset, names):
    """After ClickHouse#119117. All values are multiples of 2^-12, so that sums are exact."""
    X, own = blobs()
    X = np.rint(X * 2**12) / 2**12
    shift = np.array([offset, -offset / 4])
    here, there = federate(X, np.arange(400) % 3), federate(X + shift, np.arange(400) % 5)
    new = X[:40] + 0.25
    for n_clusters, clusterer in [CLUSTERERS[name] for name in names]:
        models = [OmniFC(n_clusters, clusterer=clusterer).fit(one) for one in (here, there)]
        labels = [by_id(model.labels_) for model in models]
        np.testing.assert_array_equal(*labels)
        if n_clusters == 4:
            assert adjusted_rand_score(own, labels[1]) == 1.0
    assert "Centre" in messages_of(there)
    assert "Centre" not in messages_of(here)
    rows = [row for row in there.ledger if row.message == "Centre"]
    assert {row.receiver for row in rows} == set(there.clients)
    assert {row.sender for row in rows} == {"server"}
    folder = deal_new(there, new + shift), deal_new(here, new)
    predicted = [
        model.predict(one, {"client-2": url}).values
        for model, one, url in zip(models[::-1], (there, here), folder, strict=True)
    ]
    np.testing.assert_array_equal(*predicted)


def deal_new(federation, X):
    from tempfile import mkdtemp

    from daskfc.stores import write_store

    url = f"{mkdtemp()}/new.zarr"
    names = [f"new-{i}" for i in range(len(X))]
    write_store(url, "client-2", X, names, dtype="float64")
    return url


@pytest.mark.few(2)
@pytest.mark.parametrize("far", [99_999.0, 999_999.0, 1e6, 1e9])
def test_a_code_for_missing_values_left_in_a_column(federate, far):
    X = two_groups(far)
    federation = federate(X, np.arange(301) % 3)
    model = OmniFC(clusterer={"dbscan": {"eps": 0.3}}).fit(federation)
    expected = DBSCAN(eps=0.3).fit_predict(X)
    assert expected.max() == 1
    np.testing.assert_array_equal(expected < 0, by_id(model.labels_) < 0)
    assert adjusted_rand_score(expected, by_id(model.labels_)) == 1.0
    system = system_of(model)
    assert system.is_wide
    assert system.error_of(0.3**2, 2) <= 1e-3 * 0.3**2


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("clusterer", "central"),
    [
        ("k-means", KMeans(3, n_init=10, random_state=0)),
        ({"hierarchical": {"linkage": "single"}}, AgglomerativeClustering(3, linkage="single")),
        ("hierarchical", AgglomerativeClustering(3)),
        ("hdbscan", HDBSCAN(min_cluster_size=5, copy=True)),
    ],
    ids=str,
)
def test_the_grid_becomes_finer_until_labels_do_not_hang_on_it(federate, clusterer, central):
    """All samples but one come out the same on a grid for the far one."""
    X = two_groups(1e6)
    federation = federate(X, np.arange(301) % 3)
    n_clusters = None if clusterer == "hdbscan" else 3
    model = OmniFC(n_clusters, clusterer=clusterer).fit(federation)
    assert adjusted_rand_score(central.fit_predict(X), by_id(model.labels_)) == 1.0
    assert system_of(model).is_wide


def test_where_no_primes_are_enough_the_columns_are_named(federate):
    X = two_groups(1e14)
    X = np.column_stack([X, X[::-1, 0] * 0])
    federation = federate(X, np.arange(301) % 3)
    for clusterer in ({"dbscan": {"eps": 0.3}}, {"hdbscan": {}}):
        with pytest.raises(PartyError, match=r"'client-1' lie too far .* columns 'x0', 'x1': .*"
                           r"bits; .* offer 100\.8.* 'clip' or 'log'"):  # fmt: skip
            OmniFC(clusterer=clusterer).fit(federation)


@pytest.mark.parametrize("far", [1e154, np.finfo(float).max])
def test_columns_are_named_where_no_float_holds_the_squares(federate, far):
    """The largest float is a usual code for a missing value."""
    X = two_groups(0.0)
    X[[3, 4], [1, 1]] = far, -far
    federation = federate(X, np.arange(301) % 3)
    with pytest.raises(PartyError, match=r"column 'x1' has values above 2\*\*480"):
        OmniFC(2, clusterer="k-means").fit(federation)


def test_rows_that_are_truly_equal_do_not_make_the_grid_finer_for_ever(federate):
    random = np.random.default_rng(0)
    X = np.repeat(random.normal(size=(60, 3)), 5, axis=0)
    federation = federate(X, np.arange(300) % 3)
    model = OmniFC(None, clusterer={"hdbscan": {"min_cluster_size": 4}}).fit(federation)
    labels = by_id(model.labels_).reshape(60, 5)
    assert (labels == labels[:, :1]).all()
    asked = [row for row in federation.ledger if row.message == "NearestApart"]
    assert len(asked) == 3 + 1  # of each client once, and told the caller
    assert not system_of(model).is_wide


def test_samples_on_a_grid_are_exact_and_ask_nothing_more(federate):
    random = np.random.default_rng(0)
    X = random.integers(0, 9, (120, 3)).astype(float)
    federation = federate(X, np.arange(120) % 3)
    model = OmniFC(3, clusterer="hierarchical").fit(federation)
    assert system_of(model).exact
    assert not messages_of(federation) & {"NearestApart", "Centre", "Reach"}
