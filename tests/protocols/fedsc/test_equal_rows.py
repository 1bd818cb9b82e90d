"""Equal samples have one label, however few differ and whoever holds them."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from daskfc.federation import Federation
from daskfc.protocols import FedSC
from tests.protocols.conftest import by_id, deal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sparsify": False},
        pytest.param({"neighbors": 4}, marks=pytest.mark.long),
        pytest.param({"similarity": "coded"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_fewer_rows_than_clusters(tmp_path, params):
    random = np.random.default_rng(0)
    own = random.integers(0, 5, 80)
    X = random.normal(size=(5, 3))[own] * 3
    with Federation.local(deal(tmp_path, X, np.arange(80) % 4)) as federation:
        for n_clusters in (3,) if params.get("sparsify") is False else (3, 7):
            model = FedSC(n_clusters, rounds=2, **params)
            if n_clusters == 7:
                with pytest.warns(ConvergenceWarning, match="FedSC found . of 7 clusters"):
                    model.fit(federation)
            else:
                model.fit(federation)
            labels = by_id(model.labels_)
            assert all(np.unique(labels[own == kind]).size == 1 for kind in range(5))
            assert np.unique(labels).size > 1
