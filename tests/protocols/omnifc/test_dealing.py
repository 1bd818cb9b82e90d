"""The same samples under other keys, in another order, dealt to other clients: one partition."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from daskfc.clustering import make_clusterer
from daskfc.federation import Federation
from daskfc.protocols import OmniFC
from daskfc.seeds import integer_seed
from tests.protocols.conftest import by_id, deal
from tests.protocols.omnifc.test_omnifc import CLUSTERERS, FIND_CLUSTERS, same_partition

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_secrets")]

ROWS = {
    "rows-k-means": {"k-means": {"rows": "distances"}},
    "nmf": {"nmf": {}},
}
# on a grid, with equal distances and equal rows; 60 of 64 columns take blocks of all pairs
DATA = {
    "columns": load_iris().data,
    "blocks": load_digits().data[:60],
    # as near to one mean as to another
    "ties": np.random.default_rng(0).integers(0, 2, (60, 20)).astype(float),
}


@pytest.fixture(scope="module")
def dealt(tmp_path_factory):
    """Two federations for each data set: nothing but the samples is the same."""
    found = {}
    for name, X in DATA.items():
        random = np.random.default_rng(len(name))
        first = deal(tmp_path_factory.mktemp(name), X, np.arange(len(X)) % 3)
        order = random.permutation(len(X))  # the samples' ids stay their own
        owners = np.sort(random.integers(0, 4, len(X)))
        second = deal(tmp_path_factory.mktemp(name), X[order], owners, ids=order)
        found[name] = [Federation.local(urls) for urls in (first, second)]
    yield found
    for both in found.values():
        for one in both:
            one.close()


@pytest.mark.few(14)
@pytest.mark.parametrize("name", [*CLUSTERERS, *ROWS])
@pytest.mark.parametrize("route", ["columns", "blocks"])
def test_partitions_are_the_same_to_the_last_sample(dealt, route, name):
    spec = {**CLUSTERERS, **ROWS}[name]
    if name == "dbscan" and route == "blocks":
        spec = {"dbscan": {"eps": 25.0, "min_samples": 3}}
    n_clusters = None if name in FIND_CLUSTERS else 3
    labels = []
    for federation in dealt[route]:
        model = OmniFC(n_clusters, clusterer=spec, random_state=3).fit(federation)
        labels.append(by_id(model.labels_))
    assert same_partition(*labels)
    np.testing.assert_array_equal(*labels)
    rows, own = np.unique(DATA[route], axis=0, return_inverse=True)
    assert all(np.unique(labels[0][own.ravel() == group]).size == 1 for group in range(len(rows)))


@pytest.mark.parametrize("name", ["k-means", "fuzzy-c-means"])
def test_rounding_decides_no_tie(dealt, name):
    clusterer = make_clusterer(name)
    expected = clusterer.pooled_labels(DATA["ties"], 3, integer_seed(3, clusterer.name))
    for federation in dealt["ties"]:
        found = by_id(OmniFC(3, clusterer=name, random_state=3).fit(federation).labels_)
        assert same_partition(found, expected)


def test_the_first_landmarks_decide_no_route(tmp_path):
    """They are who keys make the first: where few samples are far in one direction, none of them.

    The bound of such samples' coordinates is too large to round then. All distances in blocks,
    whose samples have no order but the graph's, gave borders of clusters other labels.
    """
    random = np.random.default_rng(0)
    X = np.column_stack(
        [random.integers(-999, 999, (900, 2)), random.integers(0, 2, 900), 0 * np.ones(900)]
    )
    X[[17, 500], 2] = [4e4, -4e4]
    spec, told, labels = {"dbscan": {"eps": 80.0, "min_samples": 5}}, [], []
    with Federation.local(deal(tmp_path, X, np.arange(900) % 3)) as federation:
        for _ in range(3):  # all three have one of the two among the first twenty in 9e-5 of cases
            model = OmniFC(clusterer=spec, random_state=3).fit(federation)
            assert model.route_ == "columns"
            told.append(sum(row.message == "PointsStatus" for row in model.ledger_))
            labels.append(by_id(model.labels_))
    assert max(told) == 2
    for one in labels:
        np.testing.assert_array_equal(one, labels[0])
    central = make_clusterer(spec).pooled_labels(X, None, integer_seed(3, "dbscan"))
    assert same_partition(labels[0], central)
