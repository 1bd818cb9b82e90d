"""UMAP and HDBSCAN on the exact graph of a federation: the pooled labels, however samples lie."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from daskfc.clustering import make_clusterer
from daskfc.clustering.views.nearest import nearest_of_points
from daskfc.errors import InvalidInput, ResourceRefused
from daskfc.federation import Federation
from daskfc.protocols import OmniFC
from daskfc.protocols.omnifc import clusters
from daskfc.seeds import integer_seed
from tests.protocols.conftest import by_id, deal

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_secrets")]
needs_umap = pytest.mark.skipif(
    find_spec("umap") is None, reason="umap-learn is missing: pip install 'daskfc[umap]'"
)

GRAPH = {"n_neighbors": 15, "min_cluster_size": 10, "min_samples": 5}
ON_MAP = {"umap": {"n_neighbors": 15, "then": {"hdbscan": {"min_cluster_size": 15}}}}
IN_PARTS = {"umap": {"n_neighbors": 15, "then": "k-means"}}
SPECS = [
    pytest.param(ON_MAP, None, marks=needs_umap, id="umap, hdbscan"),
    pytest.param(IN_PARTS, 10, marks=needs_umap, id="umap, k-means"),
    pytest.param({"hdbscan": GRAPH}, None, id="hdbscan"),
]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400]


@pytest.fixture(scope="module")
def first_stores(tmp_path_factory, digits):
    """Stores of five clients, of which each has two digits mostly."""
    X, y = digits
    random = np.random.default_rng(0)
    skewed = np.where(random.random(len(X)) < 0.75, y // 2, random.integers(0, 5, len(X)))
    return deal(tmp_path_factory.mktemp("first"), X, skewed)


@pytest.fixture(scope="module")
def dealt(tmp_path_factory, digits, first_stores):
    """That federation, and another one with the same samples in another order."""
    X, _ = digits
    random = np.random.default_rng(1)
    order = random.permutation(len(X))
    owners = np.sort(random.integers(0, 4, len(X)))
    second = deal(tmp_path_factory.mktemp("second"), X[order], owners, ids=order)
    with Federation.local(first_stores) as one, Federation.local(second) as two:
        yield one, two


@pytest.mark.parametrize(("spec", "k"), SPECS)
def test_labels_are_the_pooled_ones_for_every_dealing(dealt, digits, spec, k):
    clusterer = make_clusterer(spec)
    expected = clusterer.pooled_labels(digits[0], k, integer_seed(3, clusterer.name))
    for federation in dealt:
        model = OmniFC(k, clusterer=spec, random_state=3).fit(federation)
        np.testing.assert_array_equal(by_id(model.labels_), expected)
    if clusterer.name == "umap":
        assert adjusted_rand_score(expected, digits[1]) > 0.7


@pytest.mark.few(1)
@pytest.mark.parametrize(("spec", "k"), SPECS)
def test_a_graph_alone_is_enough(dealt, digits, monkeypatch, spec, k):
    """As for more samples, of which the server keeps neighbours in place of all distances."""
    whole = OmniFC(k, clusterer=spec, random_state=3).fit(dealt[0])
    monkeypatch.setattr(clusters, "FEW", 100)
    model = OmniFC(k, clusterer=spec, random_state=3).fit(dealt[0])
    assert model.route_ == "columns"
    np.testing.assert_array_equal(by_id(model.labels_), by_id(whole.labels_))


@needs_umap
def test_blocks_of_pairs_give_no_other_map(tmp_path):
    """There the server has a graph in the order of pseudonyms, which hang on keys."""
    X = np.rint(1e4 * np.random.default_rng(0).normal(size=(300, 8)))
    assert (np.diff(nearest_of_points(X, 15).distances) > 0).all()  # ties go by pseudonym
    expected = make_clusterer(IN_PARTS).pooled_labels(X, 10, integer_seed(3, "umap"))
    urls = deal(tmp_path, X, np.arange(len(X)) % 5)
    with pytest.MonkeyPatch.context() as patch, Federation.local(urls) as federation:
        patch.setattr(clusters, "FEW", 100)
        model = OmniFC(10, clusterer=IN_PARTS, distances="blocks", random_state=3).fit(federation)
        assert model.route_ == "blocks"
        assert model.silhouette_ is None
    assert adjusted_rand_score(by_id(model.labels_), expected) == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize(("spec", "k"), SPECS)
def test_predict_repeats_the_labels(dealt, first_stores, spec, k):
    model = OmniFC(k, clusterer=spec, random_state=3).fit(dealt[0])
    again = model.predict(dealt[0], first_stores)
    np.testing.assert_array_equal(by_id(again), by_id(model.labels_))


@needs_umap
def test_what_does_not_fit_is_refused(dealt):
    with pytest.raises(InvalidInput, match="umap clustering of 400 samples can have no graph of"):
        OmniFC(None, clusterer={"umap": {"n_neighbors": 401}}).fit(dealt[0])
    with pytest.raises(InvalidInput, match="must be given with clusterer 'umap'"):
        OmniFC(None, clusterer=IN_PARTS).check()


@needs_umap
def test_the_plan_has_room_for_the_map(dealt, monkeypatch):
    monkeypatch.setattr(clusters, "FEW", 100)
    limits = dict.fromkeys(dealt[0].parties, 2 * 10**9) | {"server": 500_000_000}
    monkeypatch.setattr(type(dealt[0]), "limits", lambda federation: limits)
    with pytest.raises(
        ResourceRefused, match=r"and umap on them, would take 0\.\d\d GB .*'server'"
    ):
        OmniFC(10, clusterer=IN_PARTS).fit(dealt[0])
