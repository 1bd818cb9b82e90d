"""AGC and GCC through the federation: the functions on pooled columns, and what they send."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from daskfc import seeds
from daskfc.baselines import AGC, GCC
from daskfc.baselines.maths.agc import cluster_agc
from daskfc.baselines.maths.gcc import cluster_gcc
from daskfc.errors import PartyError, PrivacyError
from daskfc.federation import Federation
from daskfc.metrics import accuracy
from daskfc.protocols import KCAGC
from daskfc.stores import load_storage, write_store
from tests.conftest import DATA, needs_data

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Half of the digits with a neighbour graph, in columns."""
    storage = load_storage(
        {
            "source": {
                "dataset": "digits",
                "subsample": {"n": 400, "seed": 0},
                "graph": {"neighbours": 8},
            },
            "partition": {"scheme": "vertical", "clients": 3},
            "layout": {"dtype": "float64"},
            "root": str(tmp_path_factory.mktemp("stores")),
        }
    )
    storage.build()
    return storage


@pytest.fixture(scope="module")
def federation(storage):
    with Federation.local(storage.client_urls(), allow_raw=True) as running:
        yield running


@pytest.fixture(scope="module")
def pooled(storage):
    stores = storage.open()
    X = np.hstack([store.rows(0, store.n_samples) for store in stores.values()])
    return X, stores["client-1"].graph()


def test_agc_is_the_function_on_the_pool(federation, pooled):
    found = AGC(10, filter_order=3).fit(federation).labels_
    seed = seeds.integer_seed(0, "AGC")
    expected = cluster_agc(*pooled, 10, filter_order=3, seed=seed)
    np.testing.assert_array_equal(found.values, expected)


def test_agc_alone_reveals_nothing_but_labels(federation, storage):
    model = AGC(10, filter_order=3, participant="client-2").fit(federation)
    store = storage.open()["client-2"]
    seed = seeds.integer_seed(0, "AGC")
    own = cluster_agc(store.rows(0, 400), store.graph(), 10, filter_order=3, seed=seed)
    np.testing.assert_array_equal(model.labels_.values, own)
    assert {row.message for row in model.ledger_} == {"LabelledSamples"}


def test_gcc_is_the_function_on_the_pool(federation, pooled):
    with pytest.warns(ConvergenceWarning, match="GCC found 5 of 10 clusters"):
        model = GCC(10, filter_order=3).fit(federation)
    seed = seeds.integer_seed(0, "GCC")
    expected = cluster_gcc(*pooled, 10, filter_order=3, tf_idf=False, seed=seed)
    np.testing.assert_array_equal(model.labels_.values, expected)
    raw = {row.message for row in model.ledger_ if row.protection == "raw"}
    assert raw == {"RawColumns", "RawGraph"}


def test_kcagc_filters_over_the_graph(federation, pooled, storage):
    truth = storage.open()["client-1"].labels()
    model = KCAGC(10, filter_order=3).fit(federation)
    assert accuracy(truth, model.labels_.values) > 0.7
    assert not any(row.protection == "raw" for row in model.ledger_)


def test_refusals(storage, federation, tmp_path):
    url = str(tmp_path / "a.zarr")
    write_store(url, "a", np.eye(3), ["0", "1", "2"])
    with Federation.local({"a": url}) as bare:
        with pytest.raises(PrivacyError, match="AGC sends raw columns"):
            AGC(2).fit(bare)
        with pytest.raises(PartyError, match="'a' has no graph"):
            AGC(2, participant="a").fit(bare)


@needs_data
def test_agc_on_cora_is_the_papers(tmp_path):
    storage = load_storage(
        {
            "source": {"path": str(DATA / "cora.npz")},
            "partition": {"scheme": "vertical", "clients": 2},
            "root": str(tmp_path),
        }
    )
    with Federation.local(storage.build(), allow_raw=True) as federation:
        labels = AGC(7, filter_order=9).fit(federation).labels_
    truth = storage.open()["client-1"].labels()
    assert accuracy(truth, labels.values) == pytest.approx(0.6817, abs=6e-4)
