"""OmniFC that reveals who is near whom: clusters on that graph, at the server."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from daskfc import Federation, OmniFC
from daskfc.clustering import make_clusterer
from daskfc.errors import InvalidInput
from daskfc.metrics import ari
from daskfc.protocols.omnifc.clusters import cluster
from daskfc.protocols.omnifc.on_shares import graph_in_order
from daskfc.secure.distances import RowPlan
from daskfc.testing.federation import stores_of
from tests.protocols.omnifc.test_on_shares import ROWS, labels_of


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation.local(stores_of(tmp_path_factory.mktemp("rows"), ROWS)) as found:
        yield found


def test_the_graph_of_neighbours_gives_the_labels_that_distances_give(federation, approved):
    spec = {"dbscan": {"eps": 0.9}}
    wanted = OmniFC(clusterer=spec).fit(federation)
    model = OmniFC(clusterer=spec, reveal="neighbours").fit(federation)
    assert ari(labels_of(wanted), labels_of(model)) == 1.0
    np.testing.assert_array_equal(labels_of(model) == -1, labels_of(wanted) == -1)
    assert model.n_clusters_ == wanted.n_clusters_
    assert (model.silhouette_, model.criteria, model.sample_map(federation)) == (None, (), None)
    frame = model.ledger_.to_frame()
    to_server = frame[frame["receiver"] == "server"]["message"].value_counts()
    assert to_server.to_dict() == {"SampleSummary": 4, "GraphSummand": 3}
    assert "LabelSummand" not in set(frame["message"])
    with pytest.raises(InvalidInput, match="reveal='neighbours' and clusterer 'dbscan' cannot"):
        model.predict(federation, dict.fromkeys(ROWS, "new.zarr"))


def test_spectral_clustering_on_the_graph_of_neighbours(federation, approved):
    spec = {"spectral": {"affinity": "radius", "eps": 3.0}}  # two of the four blobs touch
    wanted = OmniFC(5, clusterer=spec, random_state=1).fit(federation)
    model = OmniFC(5, clusterer=spec, reveal="neighbours", random_state=1).fit(federation)
    assert ari(labels_of(wanted), labels_of(model)) == 1.0
    assert (model.n_clusters_, model.silhouette_) == (5, None)
    assert len(set(labels_of(model)[:-1])) == 4  # and the sample that is far
    with pytest.raises(InvalidInput, match="OmniFC must be at most the number of samples, 100"):
        OmniFC(101, clusterer=spec, reveal="neighbours").fit(federation)


@pytest.mark.parametrize(
    ("spec", "k"),
    [({"spectral": {"affinity": "radius", "eps": 0.7}}, 4), ({"dbscan": {"eps": 0.35}}, None)],
)
def test_labels_on_a_graph_hang_on_no_dealing(spec, k):
    """Neither who holds a sample, nor the order of names and ids, is seen in them."""
    points = np.random.default_rng(4).uniform(size=(200, 2)) * [6.0, 3.0]
    clusterer, found = make_clusterer(spec), []
    near = cdist(points, points, "sqeuclidean") <= clusterer.radius2
    for seed in range(4):
        random = np.random.default_rng(seed)
        held, numbers = random.permutation(200), random.permutation(200)
        packed = np.packbits(near[np.ix_(held, held)], axis=1, bitorder="little")
        bits = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
        positions = dict(zip("ab", np.split(numbers, [random.integers(1, 199)]), strict=True))
        graph = graph_in_order(
            bits, RowPlan(positions, 2, 1.0, 1.0, -1, 0), radius2=clusterer.radius2
        )
        labels = cluster(graph, None, clusterer=clusterer, n_clusters=k, seed=0).labels
        found.append(np.empty(200, dtype=np.int64))
        found[-1][held] = labels[numbers]
        pairs = sum(len(rows) for rows, _ in graph)
        assert pairs == (near.sum() - 200) // 2
    pooled = clusterer.pooled(points, k, 0).labels
    assert k or np.unique(found[0]).size > 3
    assert ari(found[0], pooled) > 0.8  # whose order is another
    for labels in found[1:]:
        assert ari(labels, found[0]) == 1.0


def test_what_the_server_notes_of_a_graph_is_told(federation):
    spec = {"spectral": {"affinity": "radius", "eps": 1.2}}
    with pytest.warns(ConvergenceWarning, match="5 components, more than the 2 clusters"):
        OmniFC(2, clusterer=spec, reveal="neighbours").fit(federation)
