"""OmniFC where samples lack columns: distances over what two share, scaled."""

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, AgglomerativeClustering
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import nan_euclidean_distances

from daskfc import Federation, OmniFC
from daskfc.clustering import FullDistances, make_clusterer
from daskfc.errors import InvalidInput, PartyError
from daskfc.metrics import ari
from daskfc.seeds import integer_seed
from daskfc.stores import write_store
from tests.protocols.conftest import by_id

IRIS = load_iris().data
OWN = [[0], [1, 3], [2]]


def parts_of(X, own, share=0.75, seed=0):
    """Return X with NaN for the columns that samples lack: each keeps the last client's."""
    random, holed = np.random.default_rng(seed), X.astype(float)
    for columns in own[:-1]:
        lost = random.random(len(X)) > share
        holed[np.ix_(lost, columns)] = np.nan
    return holed


def dealt(folder, holed, own, seed=1):
    """Write each client's columns of the samples that have them, in an order of its own."""
    urls, random = {}, np.random.default_rng(seed)
    for number, columns in enumerate(own, start=1):
        rows = random.permutation(np.flatnonzero(~np.isnan(holed[:, columns]).any(axis=1)))
        name = f"client-{number}"
        urls[name] = str(folder / f"{name}.zarr")
        write_store(
            urls[name], name, holed[np.ix_(rows, columns)], [str(row) for row in rows],
            feature_names=[f"x{c}" for c in columns], dtype="float64",
        )  # fmt: skip
    return urls


def oracle(D, clusterer, n_clusters, seed=0):
    """Return the labels of a clusterer on a matrix of squared distances."""
    made = make_clusterer(clusterer)
    view = FullDistances.in_order(D)
    found = made.fit(view, n_clusters, integer_seed(seed, made.name))
    return view.order.back(view.order.alike(found.labels))


@pytest.fixture(scope="module")
def holed(tmp_path_factory):
    """Return iris with gaps, and a federation on it."""
    X = parts_of(IRIS, OWN)
    with Federation.local(dealt(tmp_path_factory.mktemp("holed"), X, OWN)) as federation:
        yield X, federation


@pytest.mark.parametrize(
    ("clusterer", "n_clusters"),
    [
        ("spectral", 3),
        ("k-medoids", 3),
        ({"hierarchical": {"linkage": "average"}}, 3),
        ({"dbscan": {"eps": 0.6}}, None),
        ({"hdbscan": {"n_neighbors": 10}}, None),
    ],
    ids=str,
)
def test_labels_are_those_of_distances_that_know_gaps(holed, approved, clusterer, n_clusters):
    X, federation = holed
    given = {"clusterer": clusterer, "split": "grid", "gaps": "scale"}
    model = OmniFC(n_clusters, **given).fit(federation)
    D = nan_euclidean_distances(X, squared=True)
    np.testing.assert_array_equal(by_id(model.labels_), oracle(D, clusterer, n_clusters))
    assert len(model.labels_) == len(X)
    lacking = int(np.isnan(X).any(axis=1).sum())
    assert f"{lacking} samples lack some" in model.choices["columns in common"]
