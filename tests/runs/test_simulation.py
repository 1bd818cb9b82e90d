"""`simulate`: worker processes over arrays at hand, and D as an array."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from daskfc import OmniFC
from daskfc.errors import InvalidInput
from daskfc.runs import simulate


@pytest.mark.slow
def test_distances_of_a_simulation_are_those_of_its_data():
    random = np.random.default_rng(0)
    sizes = {"a": 30, "b": 20, "c": 9}
    data = {name: random.normal(size=(n, 3)).round(2) for name, n in sizes.items()}
    with simulate(data) as federation:
        D = federation.distances(tile=64)
        fitted = OmniFC(2, random_state=0).fit(federation)
        found = D.compute()
        assert fitted.labels_.shape == (59,)
        assert len(federation.ledger) > 0
    ids = found.sample_id.values.tolist()
    assert [name.split("/")[0] for name in ids] == found.client.values.tolist()
    rows = np.stack([data[name[0]][int(name[2:])] for name in ids])
    np.testing.assert_allclose(found.values, cdist(rows, rows, "sqeuclidean"), atol=1e-9)


@pytest.mark.slow
def test_one_table_is_dealt_to_clients():
    table = pd.DataFrame({"x": np.arange(12.0), "y": np.arange(12.0) ** 2})
    with simulate(table, clients=3) as federation:
        assert federation.clients == ("client-1", "client-2", "client-3")
        values = federation.distances().sortby("sample_id").values
        folder = federation.folder.name
    assert np.count_nonzero(values == 0) == 12
    with pytest.raises(FileNotFoundError):
        open(f"{folder}/client-1.zarr/zarr.json")


@pytest.mark.parametrize(("data", "clients"), [(np.eye(3), None), ({"a": np.eye(3)}, 2)])
def test_samples_of_all_need_a_number_of_clients(data, clients):
    with pytest.raises(InvalidInput, match="those of all and the number of 'clients'"):
        simulate(data, clients=clients)
