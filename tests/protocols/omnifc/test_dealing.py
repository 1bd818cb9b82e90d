"""The same samples under other keys, in another order, dealt to other clients: one partition."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from daskfc.clustering import ExactPoints, make_clusterer
from daskfc.coding import ResidueSystem
from daskfc.federation import Federation
from daskfc.linalg import IntegerPoints
from daskfc.protocols import OmniFC
from daskfc.secure.distances.routes.columns import KeptColumns, worst_placed
from daskfc.seeds import integer_seed
from daskfc.stores.layout import id_key
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


@pytest.mark.usefixtures("approved")
def test_the_first_landmarks_decide_no_route(tmp_path, monkeypatch):
    """They are who keys make the first: where few samples are far in one direction, none of them.

    The bound of such samples' coordinates is too large to round then. All distances in blocks,
    whose samples have no order but the graph's, gave clusters other numbers.
    """
    random = np.random.default_rng(0)
    X = np.column_stack([random.integers(-999, 999, (900, 2)), random.integers(0, 2, 900)])
    X = np.column_stack([X, np.zeros(900)])  # a column more than the samples span
    X[[17, 500], 2] = [4e4, -4e4]
    spec, told, labels = {"dbscan": {"eps": 80.0, "min_samples": 5}}, [], []
    for key in (0, 1):  # of which the first has neither sample among the first landmarks
        monkeypatch.setattr(id_key, "new_key", lambda key=key: bytes([key] * 32))
        urls = deal(tmp_path / str(key), X, np.arange(900) % 3)
        with Federation.local(urls) as federation:
            model = OmniFC(clusterer=spec, random_state=3).fit(federation)
        assert model.route_ == "columns"
        told.append(sum(row.message == "PointsStatus" for row in model.ledger_))
        labels.append(by_id(model.labels_))
    assert told == [2, 1]
    np.testing.assert_array_equal(*labels)
    central = make_clusterer(spec).pooled_labels(X, None, integer_seed(3, "dbscan"))
    assert same_partition(labels[0], central)


@pytest.mark.parametrize(
    "spec", [{"dbscan": {"eps": 2.0, "min_samples": 4}}, {"hierarchical": {"linkage": "average"}}]
)
def test_salaries_beside_small_numbers_are_clustered(tmp_path, spec):
    """The search for landmarks never ended, as rounding hid what was left of the small ones."""
    random = np.random.default_rng(0)
    X = np.column_stack(
        [np.rint(4e5 * np.exp(random.normal(size=300)))]
        + [random.integers(0, most, 300) for most in (4, 3, 2)]
    )
    X[:60, 0] = 500.0
    k = None if "dbscan" in spec else 3
    with Federation.local(deal(tmp_path, X, np.arange(300) % 4)) as federation:
        model = OmniFC(k, clusterer=spec, random_state=3).fit(federation)
    assert model.route_ == "columns"
    name = next(iter(spec))
    central = make_clusterer(spec).pooled_labels(X, k, integer_seed(3, name))
    assert same_partition(by_id(model.labels_), central)


def test_samples_that_are_landmarks_already_are_not_asked_for_again():
    due = np.array([5.0, 9.0, 1.0, 7.0, 3.0])
    points = ExactPoints(IntegerPoints(np.zeros((5, 1)), 2.0, due))
    kept = KeptColumns(ResidueSystem((251,), 1.0, 100), [np.array([1]), np.array([4])])
    assert worst_placed(points, kept).tolist() == [3, 0, 2]  # and no known one in place of more
