"""FedSC finds the same clusters wherever the origin is, and beside columns that tell nothing."""

import numpy as np
import pytest

from daskfc.federation import Federation
from daskfc.metrics import accuracy
from daskfc.protocols import FedSC
from tests.protocols.conftest import by_id, deal

pytestmark = pytest.mark.slow


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "moved",
    [
        lambda X: X - 1e9,
        lambda X: np.column_stack([X, np.full(len(X), 1e12)]),
        lambda X: 1e13 + 1e4 * X,
        lambda X: 1e-9 * X,
    ],
    ids=["offset", "constant column", "large and near", "small"],
)
def test_clusters_far_from_the_origin(tmp_path, moved):
    random = np.random.default_rng(0)
    own = np.arange(120) % 3
    X = random.normal(size=(3, 2))[own] * 6 + random.normal(size=(120, 2)) * 0.3
    with Federation.local(deal(tmp_path, moved(X), np.arange(120) % 4)) as federation:
        model = FedSC(3, rounds=20, tolerance=1e-2).fit(federation)
    assert accuracy(own, by_id(model.labels_)) == 1.0
    assert model.n_rounds_ > 1
