"""The same columns at the same clients, in another order, under other keys: one partition."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from daskfc.baselines import AGC, GCC
from daskfc.federation import Federation
from daskfc.protocols import KCAGC
from daskfc.stores import write_store
from daskfc.stores.layout.graph import neighbour_graph
from tests.protocols.conftest import by_id
from tests.protocols.omnifc.test_omnifc import same_partition

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("own_secrets"),
    pytest.mark.filterwarnings("ignore::daskfc.errors.PrivacyWarning"),
]

K = 6
_FIRST = load_digits().data[:240] / 16
X = np.concatenate([_FIRST, _FIRST[:20]])  # ten digits for six clusters, and equal rows
GRAPH = neighbour_graph(X, 8, "digits")
OWNERS = np.random.default_rng(1).integers(0, 3, X.shape[1])


def stored(folder, order):
    """Write the columns of three clients, samples in an order; a sample's id is its row in X."""
    urls = {}
    graph = GRAPH[order][:, order]
    for c in range(3):
        name, mine = f"client-{c + 1}", np.flatnonzero(OWNERS == c)
        urls[name] = str(folder / f"{name}.zarr")
        names = [f"pixel-{i}" for i in mine]
        write_store(
            urls[name],
            name,
            X[order][:, mine],
            order.astype(str),
            feature_names=names,
            dtype="float64",
            graph=graph,
        )
    return urls


@pytest.fixture(scope="module")
def federations(tmp_path_factory):
    """Two federations: nothing but the samples, their graph and who holds a column is alike."""
    found = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(X))
        urls = stored(tmp_path_factory.mktemp("stores"), order)
        found.append(Federation.local(urls, allow_raw=True))
    yield found
    for one in found:
        one.close()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "model",
    [
        KCAGC(K, filter_order=0),
        KCAGC(K, filter_order=0, n_init=1),
        KCAGC(K, filter_order=0, basis="U", distances="centres", n_init=3),
        KCAGC(K, filter_order=0, basis="row-normalised", virtual_node="local-centre"),
        KCAGC(K, filter_order=0, variant="tree", n_local_clusters=8),
        KCAGC(K, filter_order=0, variant="basic"),
        KCAGC(K, filter_order=0, variant="basic", n_init=1),
        KCAGC(K, filter_order=3),
        AGC(K, filter_order=3),
        AGC(K, filter_order=3, participant="client-2"),
        GCC(K, filter_order=3),
    ],
    ids=lambda model: str(model).replace(" ", ""),
)
@pytest.mark.filterwarnings("ignore:.* clusters. there are too few")
def test_the_partition_is_the_same_to_the_last_sample(federations, model):
    for seed in range(2):
        model.set_params(random_state=seed)
        one, other = (by_id(model.fit(federation).labels_) for federation in federations)
        assert np.unique(one).size > K // 2  # clusters of GCC may run empty
        assert same_partition(one, other)
        if not model.filter_order:  # a graph may tell equal rows apart
            np.testing.assert_array_equal(one[240:], one[:20])
